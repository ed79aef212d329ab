package transport_test

import (
	"flag"
	"testing"

	"ttfabric/ttlink"
	"ttfabric/ttlink/transport"
	"ttfabric/ttlink/transport/linktest"
)

// The flags set how often the link scenarios run. scripts/soak sets higher numbers.
var (
	linksSeeds  = flag.Int("links.seeds", 1, "number of seeds with which each link scenario runs")
	linksRounds = flag.Int("links.rounds", 1, "number of rounds in link scenarios that repeat their steps")
)

// carriers are the transports on which TestLinks runs: plain UDP and sealed UDP. Package quicport
// has the test on QUIC.
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
