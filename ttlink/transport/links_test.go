package transport_test

import (
	"flag"
	"testing"

	"ttfabric/ttlink"
	"ttfabric/ttlink/transport"
	"ttfabric/ttlink/transport/linktest"
)

// How much of the link scenarios; scripts/soak asks for more.
var (
	linksSeeds  = flag.Int("links.seeds", 1, "seeds of each link scenario")
	linksRounds = flag.Int("links.rounds", 1, "rounds of link scenarios that repeat something")
)

// The carriers are plain UDP and sealed UDP; QUIC's is in package quicport.
var carriers = []linktest.Carrier{
	{Name: "udp", Profile: ttlink.ProfileCrowded, Open: func(t testing.TB, _ transport.Cable) transport.Port { return open(t, transport.Options{}) }},
	{Name: "psk", Profile: ttlink.ProfileCrowded, Open: func(t testing.TB, c transport.Cable) transport.Port {
		p, err := transport.PSK(open(t, transport.Options{}), pskKey, c)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}},
}

func TestLinks(t *testing.T) {
	t.Parallel()
	linktest.Links(t, linktest.Extent{Seeds: *linksSeeds, Rounds: *linksRounds}, carriers...)
}
