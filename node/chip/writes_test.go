package chip

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"ttfabric/node/flow"
	"ttfabric/router"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// cable is a fabric, with the two ports of one of its cables. The first port belongs to chip 0, on
// plane 0 towards chip 1.
type cable struct {
	*fabric
	a, b *Chip
	p, q *port
}

func newCable(t *testing.T, name string) *cable {
	m, err := topo.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	return cableOf(t, m)
}

// cableOf returns a fabric of a machine, with the two ports of one of its cables.
func cableOf(t *testing.T, m *topo.Topology) *cable {
	w := &cable{fabric: newFabric(t, m)}
	w.a, w.b = w.chips[0], w.chips[1]
	for i := range w.a.ports.list {
		if p := &w.a.ports.list[i]; p.Dir == wire.East && p.Plane == 0 {
			w.p = p
		}
	}
	w.q = &w.b.ports.list[w.b.ports.index(w.p.Peer.Channel)]
	return w
}

// put writes b into the ethernet tile of a port.
func (w *cable) put(c *Chip, p *port, at uint32, b []byte) wire.Outcome {
	return c.memory.Execute(&wire.Command{Type: wire.NocUnicastWrite, Addr: p.tileAddr(at)}, b)
}

// get reads n bytes of the ethernet tile of a port.
func (w *cable) get(c *Chip, p *port, at uint32, n int) []byte {
	w.t.Helper()
	b := make([]byte, n)
	if o := c.memory.Read(p.tileAddr(at), b); o != wire.OutcomeDone {
		w.t.Fatalf("read of %d bytes at %#x: %s", n, at, o)
	}
	return b
}

func (w *cable) register(c *Chip, p *port, at uint32) uint32 {
	w.t.Helper()
	return binary.LittleEndian.Uint32(w.get(c, p, at, 4))
}

func words(v ...uint32) (b []byte) {
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, x)
	}
	return b
}

// TestL1WritesUnderLoss copies the kernels' area of an ethernet tile over a cable that loses frames, by
// commands of both queues. The tile at the other end must then have the same bytes.
func TestL1WritesUnderLoss(t *testing.T) {
	w := newCable(t, "mesh:1x2")
	r := rand.New(rand.NewPCG(1, 2))
	const from, n = 0x20000, 0x8000
	block := make([]byte, n)
	for i := range block {
		block[i] = byte(r.Uint32())
	}
	if o := w.put(w.a, w.p, from, block); o != wire.OutcomeDone {
		t.Fatal(o)
	}
	w.lose = func(wire.PortID, []byte) bool { return r.IntN(10) == 0 }
	ch := w.p.Local.Channel
	for at, steps := 0, 0; at < n; steps++ {
		q := r.IntN(w.a.queues())
		k := min(16*(1+r.IntN(400)), n-at)
		switch o := w.a.startWrite(ch, q, uint32(from+at), uint32(from+at), k/16); o {
		case wire.OutcomeDone:
			if !w.a.queueBusy(ch, q) {
				t.Fatal("the queue is not busy")
			}
			at += k
		case wire.OutcomeAgain:
			w.run(time.Millisecond)
		default:
			t.Fatal(o)
		}
		if steps > 10000 {
			t.Fatal("the queues stay busy")
		}
	}
	w.run(20 * time.Second)
	if !bytes.Equal(w.get(w.b, w.q, from, n), block) {
		t.Error("other bytes arrived")
	}
	if c := w.p.link.Counters(); c.Retransmitted == 0 || c.Writes[0].Acked != c.Writes[0].Started || c.Writes[1].Acked != c.Writes[1].Started {
		t.Errorf("%+v", c)
	}
	if _, in := w.a.sourceInUse(ch, from, n); in {
		t.Error("a source is still in use")
	}
	if o := w.a.startWrite(15, 0, 0, 0, 1); o != wire.OutcomeBadAddress || !w.a.queueBusy(15, 0) {
		t.Errorf("a channel without a cable: %s", o)
	}
	for _, c := range []struct {
		from, to uint32
		words    int
		want     wire.Outcome
	}{{8, 0, 1, wire.OutcomeMisaligned}, {0, 4, 1, wire.OutcomeMisaligned}, {0, 0, 0, wire.OutcomeBadAddress}, {0x3FFF0, 0, 2, wire.OutcomeBadAddress},
		{0, 0x3FFF0, 2, wire.OutcomeBadAddress}, {0, 0, 1 << 40, wire.OutcomeBadAddress}, {0xFFFFFFF0, 0, 1, wire.OutcomeBadAddress}} {
		if o := w.a.startWrite(ch, 0, c.from, c.to, c.words); o != c.want {
			t.Errorf("%+v: %s", c, o)
		}
	}
}

// TestL1WriteOvertakesPacket fills the channels of the chip in the middle with packets that wait.
// An L1 write that the first chip starts later must arrive while the packets wait.
func TestL1WriteOvertakesPacket(t *testing.T) {
	w := newCable(t, "mesh:1x3")
	for i := range w.b.ports.list {
		if p := &w.b.ports.list[i]; p.Dir == wire.East && p.Plane == 0 {
			if err := w.b.Command(w.now, p.Local.Channel, router.CommandPause); err != nil {
				t.Fatal(err)
			}
		}
	}
	const n = 14
	for k := range n {
		r := flow.Request{Dst: w.chips[2].Node(), Command: wire.Command{Type: wire.NocUnicastWrite, Addr: wire.NewNocAddr(1, 1, uint64(k))}, Payload: []byte{1}}
		if a := w.a.HandleRequest(w.now, r); a != flow.Accepted {
			t.Fatalf("admission %d", a)
		}
	}
	w.run(10 * time.Millisecond)
	k := w.b.ports.index(w.q.Local.Channel)
	if s := w.b.router.Status(k); s.Receiver[wire.VCData] == 0 {
		t.Fatalf("no packet waits in the receiver channel: %+v", s)
	}
	w.put(w.a, w.p, 0x20000, []byte("overtakes it all"))
	if o := w.a.startWrite(w.p.Local.Channel, 0, 0x20000, 0x20100, 1); o != wire.OutcomeDone {
		t.Fatal(o)
	}
	w.run(5 * time.Millisecond)
	if got := string(w.get(w.b, w.q, 0x20100, 16)); got != "overtakes it all" {
		t.Errorf("%q arrived", got)
	}
	if s := w.b.router.Status(k); s.Receiver[wire.VCData] == 0 {
		t.Error("the packets no longer wait")
	}
	for i := range w.b.ports.list {
		if p := &w.b.ports.list[i]; p.Dir == wire.East && p.Plane == 0 {
			w.b.Command(w.now, p.Local.Channel, router.CommandRun)
		}
	}
	if rs := w.results(0, n); len(rs) != n || rs[0].Fate != flow.FateDone {
		t.Errorf("results %+v", rs)
	}
}

// TestQueueRegisters starts commands by stores to the registers of a transmit queue.
func TestQueueRegisters(t *testing.T) {
	w := newCable(t, "mesh:1x2")
	const tx, rx = txqBase + queueWindow, rxqWormhole + queueWindow // queue 1
	store := func(at uint32, v ...uint32) wire.Outcome { return w.put(w.a, w.p, at, words(v...)) }
	copy16 := []byte("sixteen bytes in")
	w.put(w.a, w.p, 0x21000, bytes.Repeat(copy16, 8))
	for _, s := range [][2]uint32{{txqMaxPacket, 16 + 48}, {txqStart, 0x21000}, {txqSize, 128}, {txqDest, 0x22000}} {
		if o := store(tx+s[0], s[1]); o != wire.OutcomeDone || w.register(w.a, w.p, tx+s[0]) != s[1] {
			t.Fatalf("register %#x: %s", s[0], o)
		}
	}
	if o := store(tx+txqCmd, cmdWrite); o != wire.OutcomeDone {
		t.Fatal(o)
	}
	if w.register(w.a, w.p, tx+txqCmd) != 1 || w.register(w.a, w.p, tx+txqTransferCnt) != 0 || w.register(w.a, w.p, txqBase+txqCmd) != 0 {
		t.Error("after a store, CMD of the queue is 1, and CMD of the other queue 0")
	}
	if o := store(tx+txqCmd, cmdWrite); o != wire.OutcomeAgain {
		t.Errorf("a store to CMD of a busy queue: %s", o)
	}
	w.run(5 * time.Millisecond)
	for _, c := range []struct{ at, want uint32 }{{txqCmd, 0}, {txqTransferCnt, 1}, {txqPktStart, 3}, {txqPktEnd, 3}, {txqWordCnt, 8 + 3}, {txqStatus, 0}, {0x70, 0}, {0xFFC, 0}} {
		if got := w.register(w.a, w.p, tx+c.at); got != c.want {
			t.Errorf("transmit register %#x is %d, want %d", c.at, got, c.want)
		}
	}
	for _, c := range []struct{ at, want uint32 }{{rxqCtrl, rxqPacketMode}, {rxqWordCnt, 8 + 3}, {rxqPktEnd, 3}, {rxqDropCnt, 0}} {
		if got := w.register(w.b, w.q, rx+c.at); got != c.want {
			t.Errorf("receive register %#x is %d, want %d", c.at, got, c.want)
		}
	}
	if sent, seen := w.register(w.b, w.q, rx+rxqLocalSeq), w.register(w.a, w.p, rx+rxqRemoteSeq); sent != seen {
		t.Errorf("expected number %d, acknowledged %d", sent, seen)
	}
	if got := w.get(w.b, w.q, 0x22000, 128); !bytes.Equal(got, bytes.Repeat(copy16, 8)) {
		t.Errorf("%q arrived", got)
	}
	for _, c := range []struct {
		at   uint32
		v    []uint32
		want wire.Outcome
	}{
		{txqCmd, []uint32{1}, wire.OutcomeBadCommand}, {txqCmd, []uint32{cmdMMIO}, wire.OutcomeBadCommand}, // queue 1 of a Wormhole
		{txqCmd, []uint32{cmdWrite, 0, 100, 0, 8}, wire.OutcomeMisaligned}, {txqCmd, []uint32{cmdWrite, 0, 64, 0, 0, 40}, wire.OutcomeMisaligned},
		{txqCmd, []uint32{cmdWrite, 0, 64, 0, 0, 1 << 30}, wire.OutcomeBadAddress},
	} {
		if o := store(tx+c.at, c.v...); o != c.want || w.register(w.a, w.p, tx+txqStart) != 0x21000 || w.register(w.a, w.p, tx+txqMaxPacket) != 64 {
			t.Errorf("store of %v: %s, or a register changed", c.v, o)
		}
	}
	if o := store(tx+txqCmd, cmdWrite, 0, 200, 0, 0x21000, 16, 0x23000); o != wire.OutcomeDone {
		t.Fatalf("one store to all registers: %s", o)
	}
	w.run(5 * time.Millisecond)
	if got := w.get(w.b, w.q, 0x23000, 16); !bytes.Equal(got, copy16) || w.p.link.MaxPacket(1) != 200 {
		t.Errorf("%q arrived", got)
	}
	if s := w.a.Status().Ports[w.a.ports.index(w.p.Local.Channel)]; !slices.Equal(s.Payload, []int{1408, 176}) {
		t.Errorf("payloads %v", s.Payload)
	}
}

// TestMMIOWrites writes registers of the tile at the other end. An MMIO write must not reach L1 or
// addresses without registers. An MMIO write must not reach registers that refuse a store.
func TestMMIOWrites(t *testing.T) {
	w := newCable(t, "mesh:1x2")
	send := func(to, v uint32) {
		t.Helper()
		if o := w.put(w.a, w.p, txqBase+txqRegData, words(v)); o != wire.OutcomeDone {
			t.Fatal(o)
		}
		if o := w.put(w.a, w.p, txqBase+txqDest, words(to)); o != wire.OutcomeDone {
			t.Fatal(o)
		}
		if o := w.put(w.a, w.p, txqBase+txqCmd, words(cmdMMIO)); o != wire.OutcomeDone {
			t.Fatal(o)
		}
		w.run(5 * time.Millisecond)
	}
	before := w.register(w.b, w.q, rxqWormhole+rxqDropCnt)
	send(txqBase+queueWindow+txqMaxPacket, 576)
	if got := w.register(w.b, w.q, txqBase+queueWindow+txqMaxPacket); got != 576 || w.q.link.MaxPacket(1) != 576 || w.q.writes.Registers != 1 {
		t.Errorf("the register is %d, and MAX_PKT_SIZE %d", got, w.q.link.MaxPacket(1))
	}
	for k, to := range []uint32{0x20000, 0xFFB98000, txqBase + queueWindow + txqCmd} { // CMD refuses the value 7
		send(to, 7)
		if w.q.writes.Refused != uint64(k+1) || w.q.writes.Registers != 1 {
			t.Errorf("%#x: %+v", to, w.q.writes)
		}
	}
	if got := w.register(w.b, w.q, 0x20000); got != 0 {
		t.Errorf("an MMIO write stored %d into L1", got)
	}
	if got := w.register(w.b, w.q, rxqWormhole+rxqDropCnt) - before; got != 3 {
		t.Errorf("DROP_CNT has grown by %d", got)
	}
}
