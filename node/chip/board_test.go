package chip

import (
	"encoding/binary"
	"os"
	"testing"
	"time"

	"ttfabric/node/firmware/board"
	"ttfabric/node/noc"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// checkDiscovery compares what a host discovers with the topology, without the given cables.
func checkDiscovery(t *testing.T, w *fabric, without map[wire.PortID]bool) {
	t.Helper()
	d := discover(w)
	if d.fail != nil {
		t.Fatalf("%s: %v", w.m.Name, d.fail)
	}
	ids := board.Identify(w.m)
	at := board.Coords(w.m)
	if len(d.chips) != len(w.m.Chips) || len(d.away) != 0 {
		t.Fatalf("%s: %d chips of %d, links to other hosts: %v", w.m.Name, len(d.chips), len(w.m.Chips), d.away)
	}
	for i, c := range w.m.Chips {
		f := d.chips[ids[i].ASIC]
		if f == nil {
			t.Fatalf("%s: chip %s with id %#x was not found", w.m.Name, c.Node, ids[i].ASIC)
		}
		if f.at.Node() != c.Node || f.board != ids[i].Board || f.location != uint32(ids[i].Location) || f.harvest != c.Harvested || c.MMIO && !f.mmio {
			t.Errorf("%s: chip %s was found as %+v", w.m.Name, c.Node, f)
		}
		if w.m.Arch == wire.Wormhole && f.coord != at[c.Node] {
			t.Errorf("%s: chip %s is at %v", w.m.Name, c.Node, f.coord)
		}
		if c.BoardID != 0 && f.board != c.BoardID {
			t.Errorf("%s: chip %s is on board %d, want %d", w.m.Name, c.Node, f.board, c.BoardID)
		}
	}
	n := 0
	for _, c := range w.m.Cables {
		if without[c.A] {
			continue
		}
		n++
		a, b := end{ids[w.m.Index(c.A.Node)].ASIC, uint32(c.A.Channel)}, end{ids[w.m.Index(c.B.Node)].ASIC, uint32(c.B.Channel)}
		if !d.links[[2]end{a, b}] && !d.links[[2]end{b, a}] {
			t.Errorf("%s: cable %s-%s was not found", w.m.Name, c.A, c.B)
		}
	}
	if n != len(d.links) {
		t.Errorf("%s: %d cables were found, want %d", w.m.Name, len(d.links), n)
	}
}

// A host that reads a fabric in the same way as tt-umd must find the topology.
func TestDiscovery(t *testing.T) {
	p150 := named(t, "line:2")
	p150.Arch = wire.Blackhole
	for i := range p150.Chips {
		p150.Chips[i].Board, p150.Chips[i].Harvested = "p150", 192
	}
	if err := p150.Validate(); err != nil {
		t.Fatal(err)
	}
	untranslated, mixed := named(t, "n300"), named(t, "line:2")
	untranslated.Chips[0].Untranslated, untranslated.Chips[1].Untranslated = true, true
	mixed.Arch = wire.Blackhole
	mixed.Chips[0].Board, mixed.Chips[1].Board, mixed.Chips[1].Untranslated = "p150", "p150", true
	ms := []*topo.Topology{named(t, "n300"), named(t, "t3000"), p150, untranslated, mixed}
	files := []string{"wormhole_N150.yaml", "wormhole_N300.yaml", "t3k_cluster_desc.yaml", "blackhole_P150.yaml"}
	if !testing.Short() {
		files = append(files, "6u_cluster_desc.yaml")
	}
	for _, f := range files {
		text, err := os.ReadFile("../../router/topo/testdata/" + f)
		if err != nil {
			t.Fatal(err)
		}
		m, err := topo.Load(f, text)
		if err != nil {
			t.Fatal(err)
		}
		ms = append(ms, m)
	}
	for _, m := range ms {
		checkDiscovery(t, newFabric(t, m), nil)
	}
}

// The words follow the state of a link. The host must not find a cut cable, and the retrain count
// must include a retrain by the host.
func TestDiscoverySeesLinks(t *testing.T) {
	w := newFabric(t, named(t, "n300"))
	left := w.chips[0]
	word := func(ch wire.Channel, off uint64) uint32 {
		var b [4]byte
		x, y, _ := noc.EthernetTile(wire.Wormhole, ch)
		if o := left.Memory().Read(wire.NewNocAddr(x, y, off), b[:]); o != wire.OutcomeDone {
			t.Fatal(o)
		}
		return binary.LittleEndian.Uint32(b[:])
	}
	x, y, _ := noc.EthernetTile(wire.Wormhole, 8)
	cmd := wire.Command{Type: wire.NocInlineWrite, Addr: wire.NewNocAddr(x, y, 0x1EFC), Value: 1}
	if o := left.Memory().Execute(&cmd, nil); o != wire.OutcomeDone || word(8, 0x1EFC) != 1 {
		t.Fatalf("the retrain was not taken: %s", o)
	}
	left.Pump(w.now)
	if word(8, 0x1104) == 1 || word(9, 0x1104) != 1 {
		t.Errorf("train status %d and %d after a retrain of channel 8", word(8, 0x1104), word(9, 0x1104))
	}
	w.run(time.Second)
	if word(8, 0x1EFC) != 0 || word(8, 0x1104) != 1 || word(8, 0x1EDC) != 1 || word(9, 0x1EDC) != 0 {
		t.Errorf("after the retrain: force %d, status %d, retrains %d and %d", word(8, 0x1EFC), word(8, 0x1104), word(8, 0x1EDC), word(9, 0x1EDC))
	}
	cut := wire.PortID{Node: left.Node(), Channel: 8}
	peer := wire.PortID{Node: w.chips[1].Node(), Channel: 0}
	w.gone[cut], w.gone[peer] = true, true
	w.run(20 * time.Second)
	if word(8, 0x1104) == 1 || word(8, 0x1440) != 11 && word(8, 0x1440) != 2 || word(10, 0x1440) != 13 {
		t.Errorf("the cut cable has status %d and error %d", word(8, 0x1104), word(8, 0x1440))
	}
	checkDiscovery(t, w, map[wire.PortID]bool{cut: true, peer: true})
}

// Three values name the same harvested rows, each in its own order of bits. The values are the
// descriptor's mask, the answer of the ARC processor (as in the efuses), and the NIU register of
// rows.
func TestThreeOrdersOfHarvesting(t *testing.T) {
	m := named(t, "n300")
	m.Chips[0].Harvested, m.Chips[1].Harvested = 768, 516
	w := newFabric(t, m)
	for i, want := range [][2]uint32{{5, 3137}, {33, 2121}} {
		d := discovery{w: w, arch: wire.Wormhole}
		if f, _ := d.initWormhole(w.chips[i]); d.fail != nil || f.harvest != m.Chips[i].Harvested {
			t.Errorf("chip %d: mask %d, %v", i, f.harvest, d.fail)
		}
		a := board.AXI(wire.Wormhole, 0x8004225C)
		if v := d.word(w.chips[i], a.X(), a.Y(), a.Offset()); v != want[0] || a.Offset() != 0x88004225C {
			t.Errorf("chip %d: efuses %d at %s, want %d", i, v, a, want[0])
		}
		if v := d.word(w.chips[i], 0, 10, 0x88003006C); v != want[0] {
			t.Errorf("chip %d: ARC answers %d, want %d", i, v, want[0])
		}
		if v := d.word(w.chips[i], 8, 0, 0xFFB20110); v != want[1] {
			t.Errorf("chip %d: the register is %d, want %d", i, v, want[1])
		}
	}
}
