package chip

import (
	"bytes"
	"testing"

	"ttfabric/node/flow"
	"ttfabric/node/noc"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// end sends a request from chip 0, and returns its result.
func (w *fabric) end(r flow.Request) flow.Result {
	w.t.Helper()
	if got := w.chips[0].HandleRequest(w.now, r); got != flow.Accepted {
		w.t.Fatalf("%+v was not taken: %d", r.Command, got)
	}
	rs := w.results(0, 1)
	if len(rs) != 1 {
		w.t.Fatalf("%+v has %d results", r.Command, len(rs))
	}
	return rs[0]
}

// A chip must refuse commands to the tiles that the chip's own harvesting mask switches off. The
// chip must not refuse commands to other tiles.
func TestHarvestedTilesRefuse(t *testing.T) {
	m := named(t, "n300")
	m.Chips[1].Harvested = 513
	w := newFabric(t, m)
	for _, c := range []struct {
		chip int
		y    uint8
		want wire.Outcome
	}{{1, 1, wire.OutcomeHarvested}, {1, 11, wire.OutcomeHarvested}, {1, 2, wire.OutcomeDone}, {0, 1, wire.OutcomeDone}} {
		for _, cmd := range []wire.Command{{Type: wire.NocInlineWrite, Addr: wire.NewNocAddr(1, c.y, 0x40)}, {Type: wire.NocRead, Addr: wire.NewNocAddr(1, c.y, 0x40), Size: 4}} {
			if r := w.end(flow.Request{Dst: m.Chips[c.chip].Node, Command: cmd}); r.Outcome != c.want {
				t.Errorf("chip %d row %d, %v: %s, want %s", c.chip, c.y, cmd.Type, r.Outcome, c.want)
			}
		}
	}
	if r := w.end(flow.Request{Dst: m.Chips[1].Node, Command: wire.Command{Type: wire.NocRead, Addr: wire.NewNocAddr(1, 1, 0xFFB20110), Size: 4}}); !bytes.Equal(r.Data, []byte{1 | 2 | 64, 8, 0, 0}) {
		t.Errorf("the mask of rows: % x, %s", r.Data, r.Outcome)
	}
	for _, a := range []wire.Arch{wire.Wormhole, wire.Blackhole} {
		if uint16(noc.MaxHarvested(a)) != topo.MaxHarvested(a) {
			t.Errorf("%s: tiles and topologies have different largest masks", a)
		}
	}
	m.Chips[0].Harvested = 1 << 10
	if _, err := New(w.now, Config{Node: m.Chips[0].Node, Topology: m, Incarnation: 1}); err == nil {
		t.Error("a chip with an impossible mask started")
	}
}

// A NoC multicast reaches the tiles of its rectangle on the destination, and on every destination of
// a multicast over the fabric.
func TestNocMulticastOverTheFabric(t *testing.T) {
	w := newFabric(t, named(t, "line:3"))
	rect, ok := wire.NewNocRect(1, 1, 2, 3, 0x40)
	if !ok {
		t.Fatal("no rectangle")
	}
	write := wire.Command{Type: wire.NocMulticastWrite, Addr: rect}
	inc := wire.Command{Type: wire.NocMulticastInc, Addr: rect.Add(8), Value: 5}
	for _, r := range []flow.Request{{Dst: w.m.Chips[2].Node, Command: write, Payload: []byte("to all")}, {Dst: w.m.Chips[2].Node, Command: inc},
		{Ranges: hops(2, 0, 0, 0), Command: inc}, {Dst: w.m.Chips[0].Node, Command: inc}} {
		if res := w.end(r); res.Fate != flow.FateDone || len(res.Members) != 0 {
			t.Fatalf("%+v ended as %+v", r, res)
		}
	}
	for i, want := range []byte{5, 5, 10} {
		for _, x := range w.chips[i].Memory().Tiles() {
			inside := x.Kind == noc.Tensix && x.X <= 2 && x.Y <= 3
			b := make([]byte, 12)
			if x.Size == 0 || w.chips[i].Memory().Read(wire.NewNocAddr(x.X, x.Y, 0x40), b) != wire.OutcomeDone {
				continue
			}
			if text := string(b[:6]) == "to all"; text != (inside && i == 2) || b[8] != map[bool]byte{true: want}[inside] {
				t.Errorf("chip %d tile %s: % x", i, x.Name, b)
			}
		}
	}
	for _, a := range []wire.NocAddr{wire.NewNocAddr(1, 1, 0x40), rect | wire.NocOne, rect | 1<<33} {
		for _, r := range []flow.Request{{Dst: w.m.Chips[2].Node}, {Dst: w.m.Chips[0].Node}, {Ranges: hops(2, 0, 0, 0)}} {
			r.Command = wire.Command{Type: wire.NocMulticastInc, Addr: a, Value: 1}
			if res := w.end(r); res.Fate != flow.FateRefused || res.Outcome != wire.OutcomeBadAddress {
				t.Errorf("a multicast to %#x ended as %+v", uint64(a), res)
			}
		}
	}
	w.settled()
}

// A read of the mailbox shows the present status in all coordinates of the mailbox's tile.
func TestMailboxInAllCoordinates(t *testing.T) {
	w := newFabric(t, named(t, "n300"))
	ch := w.chips[1].ports.list[0].Local.Channel
	at, err := MailboxAddr(w.m.Arch, ch)
	if err != nil {
		t.Fatal(err)
	}
	one := wire.NewNocAddr(9-at.X(), 11-at.Y(), at.Offset()) | wire.NocOne
	var translated wire.NocAddr
	for x := uint8(18); x < 26; x++ { // translated coordinates of ethernet tiles: columns 18 to 25, rows 16 and 17
		for y := uint8(16); y < 18; y++ {
			a := wire.NewNocAddr(x, y, at.Offset())
			if same, ok := w.chips[1].Memory().OnNoC0(a); ok && same == at {
				translated = a
			}
		}
	}
	seq := uint32(0)
	for _, a := range []wire.NocAddr{at, one, translated} {
		r := w.end(flow.Request{Dst: w.m.Chips[1].Node, Command: wire.Command{Type: wire.NocRead, Addr: a, Size: wire.MailboxStatusLen}})
		s, err := wire.DecodeMailboxStatus(r.Data)
		if err != nil || s.Local.Channel != ch || s.Seq <= seq {
			t.Errorf("at %s: %+v, %v, after status %d", a, s, err, seq)
		}
		seq = s.Seq
	}
}

// The mailbox lies where neither kernels nor the clients of the base firmware keep anything
// (tt-metal, eth_l1_address_map.h; tt-umd, erisc_firmware.hpp and RESULTS_BUF).
func TestMailboxLeavesRoom(t *testing.T) {
	for what, r := range map[string][2]int{
		"heartbeat, queue address and version":    {0x1C, 0x214},
		"link status":                             {0x1008, 0x1444},
		"results":                                 {0x1EC0, 0x2000},
		"host queues and buffers":                 {0x11000, 0x18000},
		"routing info, erisc_info and semaphores": {0x18000, 0x19000},
		"kernels on Wormhole":                     {0x19000, 0x3FFE0},
		"kernels on Blackhole":                    {0xF000, 0x70000},
		"results on Blackhole":                    {0x7CC00, 0x7D100},
	} {
		if wire.MailboxOffset < r[1] && r[0] < wire.MailboxOffset+wire.MailboxSize {
			t.Errorf("the mailbox from %#x on lies on %s, %#x to %#x", wire.MailboxOffset, what, r[0], r[1])
		}
	}
}
