package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"ttfabric/node/noc"
	"ttfabric/node/traffic"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// A T3000 of real boards lacks Tensix rows. Four of its chips have the mask 513, which takes rows 1
// and 11, and so tile 1-1. The first session of the README, the benchmarks and the traffic work on
// this machine, because they use tiles that work. A harvested tile refuses requests, and the
// refusal names the reason.
func TestHarvestedChips(t *testing.T) {
	t.Parallel()
	const file = "../../router/topo/testdata/t3k_cluster_desc.yaml"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	machine, err := topo.Load(file, text)
	if err != nil {
		t.Fatal(err)
	}
	c := newCLI(t)
	c.must("up", file, "-d", unhurried)
	ran := 0
	_, session, _ := strings.Cut(readDocument(t, "README.md"), "## A first session")
	session, _, _ = strings.Cut(session, "\n## ")
	for _, b := range blocksOf(session) {
		for _, step := range b.steps {
			args, ok := strings.CutPrefix(step.command, "./ttfabric ")
			if !ok || strings.HasPrefix(args, "up ") {
				continue
			}
			ran++
			c.must(strings.Fields(strings.ReplaceAll(args, "'", ""))...)
		}
	}
	if ran < 3 {
		t.Fatalf("%d commands of the README's first session: want a write, a read and traffic", ran)
	}
	var res traffic.Result
	if err := json.Unmarshal([]byte(c.must("traffic", "all-to-all", "--packets", "5600", "-o", "json")), &res); err != nil {
		t.Fatal(err)
	}
	if a := res.Total; a.Delivered != 5600 || a.Completed != 5600 {
		t.Errorf("traffic: %d delivered and %d completed of 5600", a.Delivered, a.Completed)
	}
	c.must("bench", "ring", "--hops", "4", "--packets", "1", "--sizes", "64", "--rounds", "5")
	for _, p := range machine.Ports(machine.Chips[0].Node) {
		x := p.Peer.Node
		c.must("bench", "rtt", "M0D0", x.String(), "--sizes", "64", "--rounds", "5")
	}
	c.must("bench", "link", "--sizes", "64", "--channels", "1", "--time", "50ms")
	lacking := 0
	for _, x := range machine.Chips {
		chip := x.Node.String()
		var tiles []noc.Tile
		if err := json.Unmarshal([]byte(c.must("mem", "tiles", chip, "-o", "json")), &tiles); err != nil {
			t.Fatal(err)
		}
		if tiles[0].Harvested != (x.Harvested == 513) {
			t.Errorf("chip %s with mask %d: tile 1-1 is %+v", chip, x.Harvested, tiles[0])
		}
		_, errs, code := c.run("mem", "write", chip, "1-1:0x1000", "hello")
		if refused := code != 0 && strings.Contains(errs, wire.OutcomeHarvested.String()); refused != (x.Harvested == 513) {
			t.Errorf("chip %s with mask %d: a write to tile 1-1 ended with %d: %s", chip, x.Harvested, code, errs)
		} else if refused {
			lacking++
		}
	}
	if lacking != 4 {
		t.Errorf("tile 1-1 is harvested on %d chips, want 4", lacking)
	}
}
