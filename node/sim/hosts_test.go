package sim

import (
	"errors"
	"testing"
	"time"

	"ttfabric/node/chip"
	"ttfabric/node/firmware"
	"ttfabric/router"
)

// TestHosts lets hosts at several tiles of each chip use the queues of the base firmware. Faults of
// all kinds, and the load of the routers, disturb the hosts. The checkers of hosts.go compare each
// request with a model.
func TestHosts(t *testing.T) {
	t.Parallel()
	var sum HostReport
	for _, name := range []string{"n300", "t3000", "ring:5", "mesh:2x3"} {
		m := topology(t, name)
		for seed := uint64(1); seed <= uint64(many(2, 25)); seed++ {
			r, err := Run(Config{Topology: m, Seed: *flagFirst + seed, Quick: true, Hosts: 2})
			if err != nil {
				t.Fatalf("%s: %v\n%v", name, err, r.Hosts)
			}
			sum.Requests += r.Hosts.Requests
			sum.Lost += r.Hosts.Lost
			sum.Refused += r.Hosts.Refused
			sum.Orphans += r.Hosts.Orphans
			sum.Packets += r.Hosts.Packets
			sum.Gone += r.Hosts.Gone
		}
	}
	t.Logf("%+v", sum)
	if sum.Requests < 1000 || sum.Lost == 0 || sum.Refused == 0 || sum.Orphans == 0 || sum.Packets < 1000 || sum.Gone == 0 {
		t.Errorf("the seeds caused too little: %+v", sum)
	}
}

// The checkers of the hosts find errors that the simulator makes on purpose.
func TestHostsSabotage(t *testing.T) {
	t.Parallel()
	for _, x := range []sabotage{sabotageHostRead, sabotageHostTwice, sabotageHostPacket} {
		var f *Failure
		if _, err := Run(Config{Topology: topology(t, "n300"), Seed: 5, Quick: true, Hosts: 2, sabotage: x}); !errors.As(err, &f) || f.Rule != "hosts" {
			t.Errorf("sabotage %d: %v", x, err)
		}
	}
}

// harm says when requests may end as unreachable.
type harm int

const (
	never   harm = iota
	onCable      // writes that were on a cable whose session ended
	anyhow
)

// hostFault is a fault of TestHostsInMidRequest.
type hostFault struct {
	name    string
	harm    harm
	some    bool          // whether some requests must end as unreachable, over all seeds
	last    time.Duration // how long the fault lasts
	machine string
	begin   func(s *Sim)
	end     func(s *Sim)
}

// TestHostsInMidRequest brings one fault while requests of hosts are under way, at instants that the seed
// draws. As long as cables lead to each chip, every request ends without an error, except for writes that were
// on a cable whose session ended.
func TestHostsInMidRequest(t *testing.T) {
	t.Parallel()
	edge := func(by int) func(s *Sim) {
		return func(s *Sim) {
			for _, c := range s.cables {
				if c.chips == s.cables[0].chips {
					s.cutWays(c, by, 0, 1)
				}
			}
		}
	}
	none := func(*Sim) {}
	for _, f := range []hostFault{
		{"new tables", never, false, time.Second, "ring:4", func(s *Sim) { s.avoidEdge(true) }, func(s *Sim) { s.avoidEdge(false) }},
		{"retrain", never, false, 0, "n300", func(s *Sim) {
			for side, m := range s.cables[0].chips {
				s.order(m, s.cables[0], side, true, router.CommandRetrain)
			}
		}, none},
		{"one cable", never, false, time.Second, "n300", func(s *Sim) { s.cutWays(s.cables[0], 1, 0, 1) }, func(s *Sim) { s.cutWays(s.cables[0], -1, 0, 1) }},
		{"all cables to a neighbour", onCable, false, time.Second, "ring:4", edge(1), edge(-1)},
		{"both cables for a short time", never, false, 20 * time.Millisecond, "n300", edge(1), edge(-1)},
		{"both cables", anyhow, true, 12 * time.Second, "n300", edge(1), edge(-1)},
		{"chip killed", anyhow, true, 12 * time.Second, "line:3", func(s *Sim) { s.stop(s.machines[1], false) }, func(s *Sim) { s.start(s.machines[1]) }},
		{"chip restarted at once", anyhow, false, time.Millisecond, "line:3", func(s *Sim) { s.stop(s.machines[1], false) }, func(s *Sim) { s.start(s.machines[1]) }},
		{"chip closed and restarted", anyhow, false, 100 * time.Millisecond, "line:3", func(s *Sim) { s.stop(s.machines[1], true) }, func(s *Sim) { s.start(s.machines[1]) }},
	} {
		sum := HostReport{}
		seeds := []uint64{48} // on the ring, messages go round in a circle until all chips have new tables
		for seed := range uint64(many(2, 60)) {
			seeds = append(seeds, seed+1)
		}
		for _, seed := range seeds {
			r := underFault(t, &f, seed)
			sum.Requests += r.Requests
			sum.Lost += r.Lost
			sum.Orphans += r.Orphans
		}
		t.Logf("%s on %s: %+v", f.name, f.machine, sum)
		if sum.Lost > 0 && f.harm == never || sum.Lost == 0 && f.some || sum.Requests < 100 {
			t.Errorf("%s on %s: %+v", f.name, f.machine, sum)
		}
	}
}

// avoidEdge takes all cables between two chips out of service, or back.
func (s *Sim) avoidEdge(on bool) {
	for _, c := range s.cables {
		if c.chips == s.cables[0].chips {
			c.chips[0].chip.Avoid(s.now, c.ports[0].Channel, on)
			s.run(c.chips[0])
			c.avoided, c.lastBad = on, s.now
		}
	}
}

// underFault lets hosts make requests while a fault comes and goes.
func underFault(t *testing.T, f *hostFault, seed uint64) HostReport {
	t.Helper()
	s, err := newSim(Config{Topology: topology(t, f.machine), Seed: seed, Quick: true, Hosts: 2})
	if err != nil {
		t.Fatal(err)
	}
	s.around.lag, s.around.dark = 0, seed%2 == 0
	s.hosts = newHosts(s, s.cfg.Hosts)
	s.onEvent = func(m *machine, e chip.Event) {
		if e.Firmware != nil && e.Firmware.Unreachable() && (f.harm == never || f.harm == onCable && e.Firmware.Reason != firmware.UnknownFate) {
			t.Errorf("%s on %s, seed %d: %s", f.name, f.machine, seed, e.Firmware)
		}
	}
	s.begin()
	s.hosts.begin()
	wait := func(d time.Duration) { s.runUntil(s.now.Add(d), func() bool { return false }) }
	wait(2*startSpan + 300*time.Millisecond + time.Duration(s.rng.Int64N(int64(10*time.Millisecond))))
	f.begin(s)
	wait(f.last)
	f.end(s)
	wait(300 * time.Millisecond)
	s.heal()
	if !s.runUntil(s.now.Add(SettleTime), s.atRest) {
		s.fail("progress", "%s", s.unrest())
	}
	s.provePairs()
	s.hosts.prove()
	s.finalChecks()
	if s.failure != nil {
		t.Fatalf("%s on %s: %v", f.name, f.machine, s.failure)
	}
	return s.report.Hosts
}
