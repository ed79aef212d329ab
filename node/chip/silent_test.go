package chip

import (
	"slices"
	"testing"
	"time"

	"ttfabric/node/flow"
	"ttfabric/router/control"
	"ttfabric/router/route"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// isolate makes the network lose all datagrams of a chip. If "on" is false, the network works
// again.
func (w *fabric) isolate(c *Chip, on bool) {
	for d := range wire.Direction(wire.NumDirections) {
		w.silence(c, d, on)
	}
}

// fates runs the fabric until chip i has no open request, for at most the time d. fates counts the
// results of chip i by their fate.
func (w *fabric) fates(i int, d time.Duration) (n [4]int) {
	for end := w.now.Add(d); w.now.Before(end) && w.chips[i].Open() > 0; {
		w.run(50 * time.Millisecond)
	}
	for r, ok := w.chips[i].PollResult(); ok; r, ok = w.chips[i].PollResult() {
		n[r.Fate]++
	}
	return n
}

// TestSilentChipIsLate silences a chip for times up to 15 s while the fabric writes to it. No
// request to the chip may end before the end of the silence. After the silence, all requests must
// end as done. Requests to other chips, also by routes through the silent chip, must end as done
// during the silence.
func TestSilentChipIsLate(t *testing.T) {
	for _, d := range []time.Duration{100 * time.Millisecond, time.Second, 15 * time.Second} {
		w := newFabric(t, named(t, "mesh:3x3"))
		late, far := w.chips[4], w.chips[5].Node() // M0D5 is behind M0D4 for M0D3
		send := func(i int, dst wire.FabricNodeID, n int) (accepted int) {
			for range n {
				r := flow.Request{Dst: dst, Command: wire.Command{Type: wire.NocUnicastWrite, Addr: wire.NewNocAddr(1, 1, 0)}, Payload: make([]byte, 1024)}
				if w.chips[i].HandleRequest(w.now, r) == flow.Accepted {
					accepted++
				}
				w.chips[i].Pump(w.now)
			}
			return accepted
		}
		if n := send(3, late.Node(), 1) + send(3, far, 1); n != 2 || w.fates(3, time.Second)[flow.FateDone] != 2 {
			t.Fatal("the chips cannot be reached")
		}
		w.isolate(late, true)
		sent := send(3, late.Node(), 200)
		if sent == 0 {
			t.Fatal("no request was under way")
		}
		w.run(d)
		if d >= time.Second {
			if slices.Contains(w.chips[3].Unreachable(), late.Node()) || !slices.Contains(w.chips[3].Silent(), late.Node()) {
				t.Errorf("after %v: silent %v, unreachable %v", d, w.chips[3].Silent(), w.chips[3].Unreachable())
			}
			if n := send(3, late.Node(), 1); n != 0 {
				t.Error("a request to the silent chip left its source")
			}
			if n := send(0, far, 10); n == 0 || w.fates(0, 5*time.Second)[flow.FateDone] != n {
				t.Error("other chips cannot be reached during the silence")
			}
		}
		if n := w.fates(3, 0); n != [4]int{} {
			t.Errorf("%v: requests ended during the silence, by fate: %v", d, n)
		}
		w.isolate(late, false)
		if n := w.fates(3, 30*time.Second); n[flow.FateDone] != sent {
			t.Errorf("%v: of %d requests to the late chip, by fate: %v", d, sent, n)
		}
		w.settled()
	}
}

// TestSilentChipIsGivenUp silences a chip for good. After control.GiveUp, requests to the chip must
// end, and the source must refuse further requests.
func TestSilentChipIsGivenUp(t *testing.T) {
	w := newFabric(t, named(t, "line:3"))
	to := flow.Request{Dst: w.chips[2].Node(), Command: wire.Command{Type: wire.NocUnicastWrite, Addr: wire.NewNocAddr(1, 1, 0)}, Payload: make([]byte, 64)}
	w.isolate(w.chips[2], true)
	for range 50 {
		w.chips[0].HandleRequest(w.now, to)
		w.chips[0].Pump(w.now)
	}
	open := w.chips[0].Open()
	w.run(control.GiveUp / 2)
	if w.chips[0].Open() != open || open == 0 {
		t.Errorf("%d of %d requests are open", w.chips[0].Open(), open)
	}
	w.run(control.GiveUp)
	if n := w.fates(0, time.Second); n[flow.FateDone] != 0 || w.chips[0].Open() != 0 {
		t.Errorf("results by fate: %v; %d open", n, w.chips[0].Open())
	}
	if a := w.chips[0].HandleRequest(w.now, to); a != flow.Unreachable {
		t.Errorf("a further request: %v, want unreachable", a)
	}
	if n := w.chips[1].Status().InFlight; n != 0 {
		t.Errorf("%d packets still wait for the dead chip", n)
	}
}

// In TestRefusalIsEvidence, a host refuses the datagrams of a port. The chip must give up the port
// after Hold.
func TestRefusalIsEvidence(t *testing.T) {
	w := newFabric(t, named(t, "n300"))
	w.isolate(w.chips[1], true)
	w.run(time.Second)
	if got := w.chips[0].Silent(); len(got) != 1 {
		t.Fatalf("silent: %v", got)
	}
	for _, p := range w.chips[0].Channels() {
		w.chips[0].Refused(w.now, p.Local.Channel)
	}
	w.run(200 * time.Millisecond)
	if s, u := w.chips[0].Silent(), w.chips[0].Unreachable(); len(s) != 0 || len(u) != 1 {
		t.Errorf("silent: %v, unreachable: %v", s, u)
	}
	w.isolate(w.chips[1], false)
	w.run(2 * time.Second)
	if u := w.chips[0].Unreachable(); len(u) != 0 {
		t.Errorf("the chip is back, but %v is unreachable", u)
	}
}

// TestSilentChipOfAnotherMesh silences a chip of another mesh while two chips write to it and read
// from it. Once the sources know that the chip is silent, requests must wait at the sources.
// Requests that left earlier must wait in the other mesh. After the silence, all requests must end
// as done.
func TestSilentChipOfAnotherMesh(t *testing.T) {
	m := named(t, "2xt3000")
	w := newFabric(t, m)
	var late *Chip
	for _, c := range w.chips { // a chip that has no cable to the first mesh
		exit := slices.ContainsFunc(c.Channels(), func(p topo.Port) bool { return p.Peer.Node.Mesh != c.Node().Mesh })
		if c.Node().Mesh == 1 && !exit {
			late = c
		}
	}
	to := wire.Command{Type: wire.NocUnicastWrite, Addr: wire.NewNocAddr(1, 1, 0)}
	send := func(i, n int) (accepted int) {
		for k := range n {
			r := flow.Request{Dst: late.Node(), Command: to, Payload: make([]byte, 1024)}
			if k%2 == 0 {
				r.Payload, r.Command = nil, wire.Command{Type: wire.NocRead, Addr: to.Addr, Size: 64}
			}
			if w.chips[i].HandleRequest(w.now, r) == flow.Accepted {
				accepted++
			}
			w.chips[i].Pump(w.now)
		}
		return accepted
	}
	send(0, 2)
	if n := w.fates(0, time.Second); n[flow.FateDone] != 2 {
		t.Fatalf("before the silence, by fate: %v", n)
	}
	w.isolate(late, true)
	sent := send(0, 100)
	w.run(time.Second)
	if n := send(0, 1) + send(1, 1); n != 0 || sent == 0 {
		t.Errorf("%d requests left before the silence was known, and %d later", sent, n)
	}
	w.run(10 * time.Second)
	if n := w.fates(0, 0); n != [4]int{} {
		t.Errorf("requests ended during the silence, by fate: %v", n)
	}
	w.isolate(late, false)
	if n := w.fates(0, 30*time.Second); n[flow.FateDone] != sent {
		t.Errorf("of %d requests to the late chip, by fate: %v", sent, n)
	}
	w.settled()
}

// TestEntryOfASilentChip brings a request for a silent chip to the entry of the chip's mesh. The
// source does not know yet that the chip is silent. The request must wait in that mesh, and end as
// done after the silence. Requests behind this request must pass, if their routes do not lead
// through the silent chip.
func TestEntryOfASilentChip(t *testing.T) {
	m := named(t, "2xt3000")
	w := newFabric(t, m)
	src, late := w.chips[0], w.chips[11]
	write := func(dst *Chip) flow.Request {
		return flow.Request{Dst: dst.Node(), Payload: make([]byte, 64), Command: wire.Command{Type: wire.NocUnicastWrite, Addr: wire.NewNocAddr(1, 1, 0)}}
	}
	w.isolate(late, true)
	w.run(time.Second)
	src.tables.planned = src.newPlanned(src.tables.base) // the source has the tables of the fabric without faults
	src.source.HandleTables(w.now)
	for range 50 {
		if a := src.HandleRequest(w.now, write(late)); a != flow.Accepted {
			t.Fatalf("not taken: %d", a)
		}
		w.run(time.Millisecond)
	}
	for _, c := range w.chips[8:] {
		hops, _ := src.tables.base.Walk(wire.ClassRequest, 0, src.Node(), c.Node())
		if slices.ContainsFunc(hops, func(h route.Hop) bool { return h.To == late.Node() }) {
			continue
		}
		if src.HandleRequest(w.now, write(c)) != flow.Accepted {
			t.Fatalf("%s: not taken", c.Node())
		}
	}
	w.run(100 * time.Millisecond)
	if src.Open() != 50 {
		t.Errorf("%d requests are open, want the 50 to the silent chip", src.Open())
	}
	w.fates(0, 0)
	w.isolate(late, false)
	if n := w.fates(0, 10*time.Second); n[flow.FateDone] != 50 {
		t.Errorf("after the silence, by fate: %v", n)
	}
}

// TestCableBetweenMeshes cuts the cables between two chips of two meshes, and tells no chip. Other
// cables join the meshes, so each end learns from link states that the other end has lost the
// cables, too. The two chips must give up the cables long before control.GiveUp, and keep all other
// routes.
func TestCableBetweenMeshes(t *testing.T) {
	m := named(t, "2xt3000")
	w := newFabric(t, m)
	var cut []wire.PortID
	for _, k := range m.Cables {
		if k.A.Node.Mesh != k.B.Node.Mesh && (cut == nil || k.A.Node == cut[0].Node) {
			cut = append(cut, k.A, k.B)
		}
	}
	for _, p := range cut {
		w.gone[p] = true
	}
	w.run(3 * time.Second)
	for _, p := range cut {
		if out := w.at[p.Node].LinkState().Out; out>>p.Channel&1 == 0 {
			t.Errorf("%s is not out of service: %#x", p, out)
		}
	}
	for _, c := range w.chips {
		if len(c.Silent())+len(c.Unreachable()) > 0 {
			t.Errorf("%s: silent %v, unreachable %v", c.Node(), c.Silent(), c.Unreachable())
		}
	}
}
