package sim

import (
	"testing"
	"time"

	"ttfabric/node/flow"
	"ttfabric/router"
	"ttfabric/ttlink"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// quietLab is a fabric of a second's age, without faults or load.
func quietLab(t *testing.T, name string, seed uint64) *Sim {
	t.Helper()
	s, err := newSim(Config{Topology: topology(t, name), Seed: seed, bare: true})
	if err != nil {
		t.Fatal(err)
	}
	s.around = surroundings{profile: ttlink.ProfileLAN, slots: router.SlotSpec, maxPayload: 1408, window: ttlink.DefaultWindow, lag: 20 * time.Microsecond}
	s.begin()
	s.runUntil(mono.Time(time.Second), func() bool { return false })
	for _, m := range s.machines {
		m.chip.SetClient(&stream{})
	}
	return s
}

// cutEdge cuts all cables between two chips, or puts them back.
func (s *Sim) cutEdge(a, b wire.FabricNodeID, on bool) (n int) {
	for _, c := range s.cables {
		if c.A.Node == a && c.B.Node == b || c.A.Node == b && c.B.Node == a {
			for _, w := range c.way {
				w.Cut(on)
			}
			n++
		}
	}
	return n
}

// writes sends an endless stream from one chip to another.
func (s *Sim) writes(from, to *machine) *stream {
	f := &stream{left: 1 << 30, req: flow.Request{Dst: to.node, Payload: floodData[:],
		Command: wire.Command{Type: wire.NocUnicastWrite, Addr: wire.NewNocAddr(1, 1, 0)}}}
	from.chip.SetClient(f)
	s.run(from)
	return f
}

// TestRoundAFault cuts all cables of an edge under load. Within the times of
// the link and of the control plane packets take another way; what was under
// way is accounted for, and when the cables are back, the old way is taken.
func TestRoundAFault(t *testing.T) {
	for seed := range uint64(2) {
		s := quietLab(t, "mesh:4x4", seed)
		a, b, far := s.machines[5], s.machines[6], s.machines[7]
		f := s.writes(a, far) // over b
		s.runUntil(s.now.Add(5*time.Millisecond), func() bool { return false })
		if s.cutEdge(a.node, b.node, true) == 0 {
			t.Fatal("no cable")
		}
		at := s.now
		s.runUntil(s.now.Add(10*time.Millisecond), func() bool { return false })
		before := far.chip.Status().Counters.Performed
		limit := 3*ttlink.ProfileLAN.DeadTraffic + 70*time.Millisecond
		if !s.when(time.Second, func() bool { return far.chip.Status().Counters.Performed > before }) || s.now.Sub(at) > limit {
			t.Errorf("seed %d: %v until data went on, want at most %v", seed, s.now.Sub(at), limit)
		}
		s.runUntil(s.now.Add(50*time.Millisecond), func() bool { return false })
		if a.chip.Intact() || len(a.chip.Unreachable()) != 0 {
			t.Errorf("seed %d: tables without faults: %v, unreachable: %v", seed, a.chip.Intact(), a.chip.Unreachable())
		}
		s.cutEdge(a.node, b.node, false)
		if !s.when(3*time.Second, func() bool { return a.chip.Intact() }) {
			t.Errorf("seed %d: the tables stay", seed)
		}
		f.left = 0
		if !s.runUntil(s.now.Add(SettleTime), s.atRest) {
			t.Fatalf("seed %d: %s", seed, s.unrest())
		}
		// What the dead link itself held, and no more, is lost: its frames may have arrived or not.
		gone := f.ends[flow.FateLost] + f.ends[flow.FateUnknown]
		if gone > router.SlotSpec.Receiver[wire.VCData]+1 || f.ends[flow.FateRefused] != 0 {
			t.Errorf("seed %d: %v", seed, f.ends)
		}
		if int(far.chip.Status().Counters.Performed) != f.ends[flow.FateDone]+f.ends[flow.FateUnknown] && gone == 0 {
			t.Errorf("seed %d: %d performed, ends %v", seed, far.chip.Status().Counters.Performed, f.ends)
		}
	}
}

// TestDeadChipIsUnreachable kills a chip under load: what was under way to it
// ends, new requests are refused as unreachable, and all others reach each
// other around it. When it starts again, it is reached again.
func TestDeadChipIsUnreachable(t *testing.T) {
	s := quietLab(t, "mesh:4x4", 3)
	a, dead, far := s.machines[4], s.machines[5], s.machines[7]
	f := s.writes(a, dead)
	s.runUntil(s.now.Add(5*time.Millisecond), func() bool { return false })
	s.stop(dead, false)
	at := s.now
	// A neighbour that sent it nothing hears of it from one that did.
	if !s.when(time.Second, func() bool { return len(a.chip.Unreachable()) > 0 }) {
		// The other neighbours' links are idle, and notice by the silence of those.
		if !s.when(3*time.Second, func() bool { return len(a.chip.Unreachable()) > 0 }) {
			t.Fatal("not unreachable")
		}
	}
	t.Logf("unreachable %v after its death", s.now.Sub(at))
	s.runUntil(s.now.Add(200*time.Millisecond), func() bool { return false })
	f.left = 0
	r := flow.Request{Dst: dead.node, Probe: true}
	if got := a.chip.HandleRequest(s.now, r); got != flow.Unreachable {
		t.Errorf("a request to it: %v", got)
	}
	for _, m := range s.machines {
		if m.chip != nil && (len(m.chip.Unreachable()) != 1 || m.chip.Unreachable()[0] != dead.node) {
			t.Errorf("%s: unreachable: %v", m.node, m.chip.Unreachable())
		}
	}
	if open := a.chip.Open(); open != 0 {
		t.Errorf("%d requests open", open)
	}
	g := s.writes(a, far)
	s.runUntil(s.now.Add(100*time.Millisecond), func() bool { return false })
	g.left = 0
	s.runUntil(s.now.Add(100*time.Millisecond), func() bool { return false })
	if g.ends[flow.FateDone] == 0 || g.ends[flow.FateLost]+g.ends[flow.FateUnknown]+g.ends[flow.FateRefused] != 0 {
		t.Errorf("round the dead chip: %v", g.ends)
	}
	s.start(dead)
	if !s.runUntil(s.now.Add(SettleTime), s.atRest) {
		t.Fatal(s.unrest())
	}
	if got := a.chip.HandleRequest(s.now, r); got != flow.Accepted {
		t.Errorf("a request to it when it is back: %v", got)
	}
}

// TestAvoid takes a working edge out of service and gives it back, under load: nothing is lost.
func TestAvoid(t *testing.T) {
	for seed := range uint64(2) {
		s := quietLab(t, "torus:4x4", seed)
		a, b := s.machines[5], s.machines[6]
		f := s.writes(a, s.machines[7])
		for range 2 {
			for _, p := range a.chip.Channels() {
				if p.Peer.Node == b.node {
					a.chip.Avoid(s.now, p.Local.Channel, true)
				}
			}
			s.run(a)
			s.runUntil(s.now.Add(200*time.Millisecond), func() bool { return false })
			for _, m := range s.machines {
				if m.chip.Intact() {
					t.Fatalf("seed %d: %s has the tables without faults", seed, m.node)
				}
			}
			sent := portTo(a, b.node)
			s.runUntil(s.now.Add(50*time.Millisecond), func() bool { return false })
			if n := portTo(a, b.node) - sent; n > 2 { // probes of links
				t.Errorf("seed %d: %d packets by the cable out of service", seed, n)
			}
			for _, p := range a.chip.Channels() {
				a.chip.Avoid(s.now, p.Local.Channel, false)
			}
			s.run(a)
			s.runUntil(s.now.Add(200*time.Millisecond), func() bool { return false })
		}
		f.left = 0
		if !s.runUntil(s.now.Add(SettleTime), s.atRest) {
			t.Fatalf("seed %d: %s", seed, s.unrest())
		}
		if n := f.ends[flow.FateLost] + f.ends[flow.FateUnknown] + f.ends[flow.FateRefused]; n != 0 || f.ends[flow.FateDone] == 0 {
			t.Errorf("seed %d: %v", seed, f.ends)
		}
	}
}

// portTo counts the packets that a chip has sent to a neighbour.
func portTo(m *machine, n wire.FabricNodeID) (sent uint64) {
	for _, p := range m.chip.Status().Ports {
		if p.Peer.Node == n {
			sent += p.Router.Counters.Sent
		}
	}
	return sent
}
