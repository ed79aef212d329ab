package chip

import (
	"bytes"
	"testing"
	"time"

	"ttfabric/router"
	"ttfabric/ttlink"
	"ttfabric/wire"
)

// mode puts both ends of the cable into compliance mode, or ends the mode.
func (w *cable) mode(cmd router.Command) {
	w.t.Helper()
	for _, x := range []struct {
		c *Chip
		p *port
	}{{w.a, w.p}, {w.b, w.q}} {
		if err := x.c.Command(w.now, x.p.Local.Channel, cmd); err != nil {
			w.t.Fatal(err)
		}
	}
	w.run(5 * time.Second)
}

// sendRaw sends a payload from chip a in compliance mode, by the registers.
func (w *cable) sendRaw(b []byte) wire.Outcome {
	w.t.Helper()
	if len(b) > 0 && w.put(w.a, w.p, 0x24000, b) != wire.OutcomeDone {
		w.t.Fatal("no source")
	}
	if o := w.put(w.a, w.p, txqBase+txqCmd, words(cmdRaw, 0, 1500, 0, 0x24000, uint32(len(b)))); o != wire.OutcomeDone {
		return o
	}
	w.run(2 * time.Millisecond)
	return wire.OutcomeDone
}

// TestCompliance sends payloads in compliance mode into the receive buffer of the other end.
func TestCompliance(t *testing.T) {
	w := newCable(t, "mesh:1x2")
	if o := w.sendRaw([]byte("too early")); o != wire.OutcomeBadCommand {
		t.Errorf("a raw payload in TT-link mode: %s", o)
	}
	session := w.p.link.Status().Session
	w.mode(router.CommandRaw)
	s := w.a.Status().Ports[w.a.ports.index(w.p.Local.Channel)]
	if !s.Raw || !s.Out || s.Link.State != ttlink.StateOff || s.Link.LastDown != ttlink.DownCompliance {
		t.Errorf("raw %v, out of service %v, link %s after %s", s.Raw, s.Out, s.Link.State, s.Link.LastDown)
	}
	if err := w.a.Command(w.now, w.p.Local.Channel, router.CommandRetrain); err == nil {
		t.Error("a port in compliance mode trains")
	}
	if o := w.put(w.a, w.p, txqBase+txqCmd, words(cmdWrite, 0, 1500, 0, 0, 16, 0)); o != wire.OutcomeBadCommand {
		t.Errorf("an L1 write in compliance mode: %s", o)
	}
	rx := uint32(rxqWormhole)
	if got := w.register(w.b, w.q, rx+rxqCtrl); got&rxqPacketMode != 0 {
		t.Errorf("PACKET_MODE is set: %#x", got)
	}
	before := w.register(w.b, w.q, rx+rxqDropCnt)
	w.sendRaw([]byte("no buffer"))
	if got := w.register(w.b, w.q, rx+rxqDropCnt) - before; got != 1 {
		t.Errorf("%d payloads dropped without a buffer", got)
	}
	w.put(w.b, w.q, rx+rxqBufStart, words(0x2500, 2)) // 32 bytes at 0x25000
	for _, b := range []string{"hello, ", "world", "", "this does not fit", "the end of buffer..."} {
		if o := w.sendRaw([]byte(b)); (o != wire.OutcomeDone) != (b == "") {
			t.Errorf("%q: %s", b, o)
		}
	}
	if got := w.get(w.b, w.q, 0x25000, 32); !bytes.Equal(got, []byte("hello, worldthis does not fit\x00\x00\x00")) {
		t.Errorf("buffer %q", got)
	}
	if ptr, drops := w.register(w.b, w.q, rx+rxqBufPtr), w.register(w.b, w.q, rx+rxqDropCnt)-before; ptr != 29 || drops != 2 {
		t.Errorf("BUF_PTR %d, %d dropped", ptr, drops)
	}
	w.put(w.b, w.q, rx+rxqCtrl, words(rxqBufWrap))
	w.sendRaw([]byte("wrapping"))
	if got := w.get(w.b, w.q, 0x25000, 32); !bytes.Equal(got, []byte("pping, worldthis does not fitwra")) {
		t.Errorf("buffer %q", got)
	}
	if ptr := w.register(w.b, w.q, rx+rxqBufPtr); ptr != 5 {
		t.Errorf("BUF_PTR %d", ptr)
	}
	for _, n := range []int{1425, 1500, 1501} { // the path takes 1408 bytes after the TT-link header
		if o := w.sendRaw(make([]byte, n)); o != wire.OutcomeBadCommand {
			t.Errorf("%d bytes: %s", n, o)
		}
	}
	w.mode(router.CommandTTLink)
	if s := w.p.link.Status(); s.State != ttlink.StateUp || s.Session != session {
		t.Errorf("after compliance mode: %s, session %x, want %x", s.State, s.Session, session)
	}
	if o := w.a.startWrite(w.p.Local.Channel, 0, 0x24000, 0x26000, 1); o != wire.OutcomeDone {
		t.Error(o)
	}
	w.run(5 * time.Millisecond)
	if w.q.writes.Stored != 1 {
		t.Errorf("%+v", w.q.writes)
	}
}

// TestModesDropEachOther puts one end of a cable into compliance mode. The end in TT-link mode drops raw
// frames and says why, and the end in compliance mode drops hellos and damaged frames.
func TestModesDropEachOther(t *testing.T) {
	w := newCable(t, "mesh:1x2")
	if err := w.a.Command(w.now, w.p.Local.Channel, router.CommandRaw); err != nil {
		t.Fatal(err)
	}
	w.run(5 * time.Second)
	for range MaxEvents {
		w.b.PollEvent()
	}
	w.sendRaw([]byte("raw payload, longer than a header"))
	told := false
	for e, ok := w.b.PollEvent(); ok; e, ok = w.b.PollEvent() {
		told = told || e.Link.Kind == ttlink.EventIncompatible && e.Link.Mismatch == ttlink.MismatchMode
	}
	if c := w.p.raw.counters(); !told || c.OtherMode == 0 || c.Received != 0 || w.q.link.Counters().Faults[wire.FaultVersion] != 1 {
		t.Errorf("told %v; %+v", told, c)
	}
	good := wire.AppendRaw(nil, w.p.Local.Channel, []byte("payload"))
	faults := w.p.raw.dropped()
	for i := range 8 * len(good) {
		bad := bytes.Clone(good)
		bad[i/8] ^= 1 << (i % 8)
		w.a.HandleDatagram(w.now, w.p.Local.Channel, bad)
	}
	if got := w.p.raw.dropped() - faults; got != uint64(8*len(good)) {
		t.Errorf("%d of %d damaged frames were dropped", got, 8*len(good))
	}
}
