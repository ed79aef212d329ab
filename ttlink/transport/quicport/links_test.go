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

// The flags set how often the link scenarios run. scripts/soak sets higher numbers.
var (
	linksSeeds  = flag.Int("links.seeds", 1, "number of seeds with which each link scenario runs")
	linksRounds = flag.Int("links.rounds", 1, "number of rounds in link scenarios that repeat their steps")
)

// carrier returns QUIC as the carrier of linktest's links. The links have the times that links over
// QUIC have in a fabric.
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
