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

// quietLab starts a fabric without faults and load, and simulates one second.
func quietLab(t *testing.T, name string, seed uint64) *Sim {
	t.Helper()
	s, err := newSim(Config{Topology: topology(t, name), Seed: seed, bare: true})
	if err != nil {
		t.Fatal(err)
	}
	s.around = surroundings{profile: ttlink.ProfileLAN, slots: router.SlotSpec, maxPayload: 1408, window: ttlink.DefaultWindow, lag: 20 * time.Microsecond}
	s.rest()
	return s
}

// rest starts the fabric, and simulates one second without load.
func (s *Sim) rest() {
	s.begin()
	s.runUntil(mono.Time(time.Second), func() bool { return false })
	for _, m := range s.machines {
		m.chip.SetClient(&stream{})
	}
}

// cutEdge cuts or repairs all cables between two chips, which cut the cables themselves. cutEdge
// returns the number of cables.
func (s *Sim) cutEdge(a, b wire.FabricNodeID, on bool) (n int) {
	for _, c := range s.cables {
		if c.A.Node == a && c.B.Node == b || c.A.Node == b && c.B.Node == a {
			for side := range c.way {
				s.cutWay(c, side, on, true)
			}
			n++
		}
	}
	return n
}

// writes starts an endless stream of writes from one chip to another.
func (s *Sim) writes(from, to *machine) *stream {
	f := &stream{left: 1 << 30, req: flow.Request{Dst: to.node, Payload: floodData[:],
		Command: wire.Command{Type: wire.NocUnicastWrite, Addr: wire.NewNocAddr(1, 1, 0)}}}
	from.chip.SetClient(f)
	s.run(from)
	return f
}

// TestRoundAFault cuts all cables between two chips under load. Packets must soon take another
// route. Only packets that were on the cut cables may be lost. After the repair, the chips must use
// the tables without faults again.
func TestRoundAFault(t *testing.T) {
	for seed := range uint64(2) {
		s := quietLab(t, "mesh:4x4", seed)
		a, b, far := s.machines[5], s.machines[6], s.machines[7]
		f := s.writes(a, far) // the route passes chip b
		s.runUntil(s.now.Add(5*time.Millisecond), func() bool { return false })
		if s.cutEdge(a.node, b.node, true) == 0 {
			t.Fatal("no cable")
		}
		at := s.now
		s.runUntil(s.now.Add(10*time.Millisecond), func() bool { return false })
		before := far.chip.Status().Counters.Performed
		limit := 3*ttlink.ProfileLAN.DeadTraffic + 70*time.Millisecond
		if !s.when(time.Second, func() bool { return far.chip.Status().Counters.Performed > before }) || s.now.Sub(at) > limit {
			t.Errorf("seed %d: data arrived again after %v, want at most %v", seed, s.now.Sub(at), limit)
		}
		s.runUntil(s.now.Add(50*time.Millisecond), func() bool { return false })
		if a.chip.Intact() || len(a.chip.Unreachable()) != 0 {
			t.Errorf("seed %d: tables without faults: %v, unreachable: %v", seed, a.chip.Intact(), a.chip.Unreachable())
		}
		s.cutEdge(a.node, b.node, false)
		if !s.when(3*time.Second, func() bool { return a.chip.Intact() }) {
			t.Errorf("seed %d: the tables still avoid the repaired cables", seed)
		}
		f.left = 0
		if !s.runUntil(s.now.Add(SettleTime), s.atRest) {
			t.Fatalf("seed %d: %s", seed, s.unrest())
		}
		// Only packets that the dead link held may be lost, or have an unknown fate because their
		// frames may have arrived.
		gone := f.ends[flow.FateLost] + f.ends[flow.FateUnknown]
		if gone > router.SlotSpec.Receiver[wire.VCData]+1 || f.ends[flow.FateRefused] != 0 {
			t.Errorf("seed %d: %v", seed, f.ends)
		}
		if int(far.chip.Status().Counters.Performed) != f.ends[flow.FateDone]+f.ends[flow.FateUnknown] && gone == 0 {
			t.Errorf("seed %d: %d performed, ends %v", seed, far.chip.Status().Counters.Performed, f.ends)
		}
	}
}

// TestIdleCutIsNoticed cuts all cables between two chips of an idle fabric, at instants between two
// keepalives. The links must go down within DeadIdle, and all chips must have tables around the
// fault 250 ms later. A request that a chip then sends must be done at once.
func TestIdleCutIsNoticed(t *testing.T) {
	const flood, slack = 250 * time.Millisecond, 10 * time.Millisecond
	for seed := range uint64(12) {
		s, err := newSim(Config{Topology: topology(t, "t3000"), Seed: seed, bare: true})
		if err != nil {
			t.Fatal(err)
		}
		p := []ttlink.Profile{ttlink.ProfileLAN, ttlink.ProfileCrowded}[seed%2]
		s.around = surroundings{profile: p, slots: router.SlotSpec, maxPayload: 1408, window: ttlink.DefaultWindow, lag: 20 * time.Microsecond}
		s.rest()
		s.runUntil(s.now.Add(time.Duration(seed)*p.Keepalive/12), func() bool { return false })
		cables := s.cutEdge(s.machines[5].node, s.machines[6].node, true)
		at := s.now
		if !s.when(p.DeadIdle+slack, func() bool { return s.report.Downs >= 2*cables }) {
			t.Errorf("seed %d, %s: %d of %d ports went down within %v", seed, p.Name, s.report.Downs, 2*cables, p.DeadIdle+slack)
		}
		down := s.now.Sub(at)
		if !s.when(flood, func() bool {
			for _, m := range s.machines {
				if m.chip.Intact() {
					return false
				}
			}
			return true
		}) {
			t.Errorf("seed %d, %s: a chip still has the tables without faults %v after the cut", seed, p.Name, s.now.Sub(at))
		}
		t.Logf("%s: the links went down after %v, and the tables changed %v later", p.Name, down, s.now.Sub(at)-down)
		f := s.writes(s.machines[5], s.machines[6])
		s.runUntil(s.now.Add(20*time.Millisecond), func() bool { return false })
		if f.left = 0; f.ends[flow.FateDone] == 0 || f.ends[flow.FateLost]+f.ends[flow.FateUnknown]+f.ends[flow.FateRefused] != 0 {
			t.Errorf("seed %d, %s: requests round the fault ended as %v", seed, p.Name, f.ends)
		}
	}
}

// TestDeadChipIsUnreachable kills a chip under load. Open requests to the chip must end, and new
// requests to the chip must be refused as unreachable. All other chips must reach each other by
// other routes. After its restart, the chip must be reachable again.
func TestDeadChipIsUnreachable(t *testing.T) {
	s := quietLab(t, "mesh:4x4", 3)
	a, dead, far := s.machines[4], s.machines[5], s.machines[7]
	f := s.writes(a, dead)
	s.runUntil(s.now.Add(5*time.Millisecond), func() bool { return false })
	s.stop(dead, false)
	at := s.now
	// The dead chip is unreachable once all its neighbours have taken their cables to the chip out
	// of service.
	if !s.when(time.Second, func() bool { return len(a.chip.Unreachable()) > 0 }) {
		t.Fatal("the dead chip is still reachable")
	}
	t.Logf("the dead chip is unreachable only after %v", s.now.Sub(at))
	s.runUntil(s.now.Add(200*time.Millisecond), func() bool { return false })
	f.left = 0
	r := flow.Request{Dst: dead.node, Probe: true}
	if got := a.chip.HandleRequest(s.now, r); got != flow.Unreachable {
		t.Errorf("a request to the dead chip: %v", got)
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
		t.Errorf("requests by routes around the dead chip: %v", g.ends)
	}
	s.start(dead)
	if !s.runUntil(s.now.Add(SettleTime), s.atRest) {
		t.Fatal(s.unrest())
	}
	if got := a.chip.HandleRequest(s.now, r); got != flow.Accepted {
		t.Errorf("a request to the restarted chip: %v", got)
	}
}

// TestAvoid takes all cables between two chips out of service and puts them back into service,
// under load. No request may be lost.
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
					t.Fatalf("seed %d: %s uses the tables without faults", seed, m.node)
				}
			}
			sent := portTo(a, b.node)
			s.runUntil(s.now.Add(50*time.Millisecond), func() bool { return false })
			if n := portTo(a, b.node) - sent; n > 2 { // up to two probes of the links may cross
				t.Errorf("seed %d: %d packets crossed a cable out of service", seed, n)
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

// portTo returns the number of packets that a chip has sent to a neighbour.
func portTo(m *machine, n wire.FabricNodeID) (sent uint64) {
	for _, p := range m.chip.Status().Ports {
		if p.Peer.Node == n {
			sent += p.Router.Counters.Sent
		}
	}
	return sent
}
