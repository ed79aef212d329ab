package sim

import (
	"errors"
	"testing"
)

// TestHosts lets hosts at several tiles of each chip use the queues of the base firmware, under all kinds of
// faults and beside the load of the routers. The checkers of hosts.go compare each request with a model.
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
		}
	}
	t.Logf("%+v", sum)
	if sum.Requests < 1000 || sum.Lost == 0 || sum.Refused == 0 || sum.Orphans == 0 {
		t.Errorf("the seeds caused too little: %+v", sum)
	}
}

// The checkers of the hosts find errors that the simulator makes on purpose.
func TestHostsSabotage(t *testing.T) {
	t.Parallel()
	for _, x := range []sabotage{sabotageHostRead, sabotageHostTwice} {
		var f *Failure
		if _, err := Run(Config{Topology: topology(t, "n300"), Seed: 5, Quick: true, Hosts: 2, sabotage: x}); !errors.As(err, &f) || f.Rule != "hosts" {
			t.Errorf("sabotage %d: %v", x, err)
		}
	}
}
