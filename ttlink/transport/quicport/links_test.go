package quicport_test

import (
	"flag"
	"testing"
	"time"

	"ttfabric/ttlink"
	"ttfabric/ttlink/transport"
	"ttfabric/ttlink/transport/linktest"
	"ttfabric/ttlink/transport/pki"
	"ttfabric/ttlink/transport/quicport"
	"ttfabric/wire"
)

// How much of the link scenarios; scripts/soak asks for more.
var (
	linksSeeds  = flag.Int("links.seeds", 1, "seeds of each link scenario")
	linksRounds = flag.Int("links.rounds", 1, "rounds of link scenarios that repeat something")
)

// carrier has links over QUIC, with the times that they have in a fabric.
func carrier(t testing.TB) linktest.Carrier {
	dir := papers(t, linktest.Fabric, time.Now(), time.Hour)
	chips := map[wire.FabricNodeID]*pki.Chip{chip0: chip(t, dir, linktest.Fabric, chip0), chip1: chip(t, dir, linktest.Fabric, chip1)}
	return linktest.Carrier{Name: "quic", Profile: ttlink.ProfilePaced, Silent: true, Probes: true, Open: func(t testing.TB, c transport.Cable) transport.Port {
		p, err := quicport.Listen(quicport.Options{Local: loopback, Cable: c, Chip: chips[c.From.Node]})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}}
}

func TestLinks(t *testing.T) {
	t.Parallel()
	linktest.Links(t, linktest.Extent{Seeds: *linksSeeds, Rounds: *linksRounds}, carrier(t))
}
