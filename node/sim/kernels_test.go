package sim

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"ttfabric/node/chip"
	"ttfabric/node/kernel"
	"ttfabric/node/kernel/guide"
	"ttfabric/ttlink"
	"ttfabric/wire"
)

// workload is a job on the chips of a simulated T3000.
type workload struct {
	kernels kernel.Table
	parts   map[wire.FabricNodeID]kernel.Job
	begin   func(m *machine)        // called before the start of a chip's part; may be nil
	result  func(m *machine) string // reads a chip's result, when the job has ended on all chips
	found   *regexp.Regexp          // text of a kernel that finds out by itself that a chip has restarted or cannot be reached, and fails; nil: no kernel fails
}

// guideRing is the guide's ring of 8 or 12 hops.
func guideRing(t *testing.T, seed uint64) *workload {
	t.Helper()
	m := topology(t, "t3000")
	order, err := guide.Order(m, []int{8, 12}[seed%2])
	if err != nil {
		t.Fatal(err)
	}
	ring, err := guide.New(m, 1, order, guide.Settings{Samples: 400, Size: 512 << (seed % 3)})
	if err != nil {
		t.Fatal(err)
	}
	return &workload{kernels: guide.Kernels, parts: ring.Parts, result: func(m *machine) string {
		if m.node != ring.Master {
			return ""
		}
		b := make([]byte, 4*ring.Samples)
		m.chip.Memory().Read(ring.Results, b)
		return string(b)
	}}
}

// jobRun is the outcome of a job on simulated chips.
type jobRun struct {
	ends     map[wire.FabricNodeID][]string // how the job ended on each chip
	untrue   []string                       // reasons that are not what happened
	sessions map[wire.FabricNodeID]bool     // chips with a link whose session ended
	lost     map[wire.FabricNodeID]bool     // chips to which another chip had no route for some time
	anew     map[wire.FabricNodeID]bool     // chips that started anew
	broken   []string                       // reports of broken rules
	failed   string                         // text of a kernel that failed
	found    *regexp.Regexp                 // the workload's found
	restarts int
	cutOff   bool   // a chip had no route to another chip for some time, or a link ended its session
	result   string // the chips' results
}

// jobUnderFaults runs a job on a simulated T3000 under the faults of the seed. The faults are
// impairments, cuts, stalls, restarts, swapped cables, forged and repeated datagrams, and others.
func jobUnderFaults(t *testing.T, seed uint64, w *workload) jobRun {
	t.Helper()
	s, err := newSim(Config{Topology: topology(t, "t3000"), Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	run := jobRun{found: w.found, ends: map[wire.FabricNodeID][]string{}, sessions: map[wire.FabricNodeID]bool{}, lost: map[wire.FabricNodeID]bool{}, anew: map[wire.FabricNodeID]bool{}}
	first := map[wire.FabricNodeID]wire.Incarnation{}
	s.scripted, s.around.kernels = true, w.kernels
	s.onEvent = func(m *machine, e chip.Event) {
		switch k := e.Kernel; {
		case k == nil:
			run.cutOff = run.cutOff || e.Tables != nil && len(e.Tables.Unreachable) > 0 || e.Link.Kind == ttlink.EventSessionEnded
			if e.Tables != nil {
				for _, n := range e.Tables.Unreachable {
					run.lost[n] = true
				}
			}
			if e.Link.Kind == ttlink.EventSessionEnded {
				run.sessions[m.node] = true
			}
		case k.Kind == kernel.JobEnded:
			for _, x := range s.machines {
				run.anew[x.node] = run.anew[x.node] || x.chip != nil && x.chip.Incarnation() != first[x.node]
			}
			run.judge(m.node, &k.End)
			run.ends[m.node] = append(run.ends[m.node], k.End.Why.String())
		case k.Kind == kernel.Violated:
			run.broken = append(run.broken, fmt.Sprintf("chip %s: %s", m.node, k.String()))
		}
	}
	s.begin()
	s.runUntil(s.now.Add(500*time.Millisecond), func() bool { return false })
	for _, m := range s.machines {
		first[m.node] = m.chip.Incarnation()
		if w.begin != nil {
			w.begin(m)
		}
		if err := m.chip.StartJob(s.clock(m), w.parts[m.node]); err != nil {
			t.Fatal(err)
		}
		s.run(m)
	}
	faultsEnd := s.now.Add(time.Second + s.span(time.Second))
	s.drawPlan(faultsEnd)
	s.runUntil(faultsEnd, func() bool { return false })
	s.heal()
	over := func() bool {
		for _, m := range s.machines {
			if m.chip == nil || len(m.chip.Jobs()) > 0 {
				return false
			}
		}
		return true
	}
	if !s.runUntil(s.now.Add(SettleTime), over) || !s.runUntil(s.now.Add(SettleTime), s.atRest) || s.failure != nil {
		t.Fatalf("seed %d: %s, job over: %v, %v", seed, s.unrest(), over(), s.failure)
	}
	run.restarts = s.report.Starts
	for _, m := range s.machines {
		run.result += w.result(m)
		s.stop(m, true)
	}
	return run
}

// judge compares the reason that a chip reports for the end of the job with what has happened. A chip
// died only if tables had no route to it, and started anew only if it has another incarnation. A link
// that failed ended its session at the chip that the report names.
func (r *jobRun) judge(at wire.FabricNodeID, end *kernel.End) {
	ok := true
	switch end.Why {
	case kernel.EndChip:
		ok = r.lost[end.By]
	case kernel.EndAnew:
		ok = r.anew[end.By]
	case kernel.EndLink:
		ok = r.sessions[end.By]
	case kernel.EndPanic:
		r.failed = end.Text
	}
	if !ok {
		r.untrue = append(r.untrue, fmt.Sprintf("chip %s: %s, first at chip %s: %s", at, end.Why, end.By, end.Text))
	}
}

// check checks the outcome of a job. If no chip restarted or was cut off, and no link ended its
// session, the job must have ended as done on each chip. Otherwise the job must have ended, on each
// chip that lived on, as done or for the true reason. A true reason is that a chip died or started
// anew, or that a link ended its session. No rule may be broken. check returns how many chips
// reported each of these ends.
func (r *jobRun) check(t *testing.T, seed uint64) (done, died, links int) {
	t.Helper()
	for _, u := range r.untrue {
		t.Errorf("seed %d, %d restarts: this reason is not true: %s", seed, r.restarts, u)
	}
	for _, b := range r.broken {
		t.Errorf("seed %d: %s", seed, b)
	}
	all := 0
	for n, ends := range r.ends {
		for _, why := range ends {
			switch {
			case why == kernel.EndDone.String():
				done++
			case (r.restarts > 0 || r.cutOff) && (why == kernel.EndChip.String() || why == kernel.EndClosed.String()):
				died++
			case r.restarts > 0 && why == kernel.EndAnew.String():
				died++
			case (r.restarts > 0 || r.cutOff) && r.found != nil && why == kernel.EndPanic.String() && r.found.MatchString(r.failed):
				died++
			case len(r.sessions) > 0 && why == kernel.EndLink.String():
				links++
			default:
				t.Errorf("seed %d, %d restarts: the job ended on chip %s: %s", seed, r.restarts, n, strings.Join(ends, ", ")+" "+r.failed)
			}
			all++
		}
	}
	if all+r.restarts < 8 {
		t.Errorf("seed %d, %d restarts: %d of 8 chips reported the end of the job: %v", seed, r.restarts, all, r.ends)
	}
	return done, died, links
}

// TestRingInTheSimulator runs the guide's ring under seeded faults, see judgeJobs.
func TestRingInTheSimulator(t *testing.T) { judgeJobs(t, 12, guideRing) }

// judgeJobs runs a workload with several seeds. Each run must end as [jobRun.check] says, and a seed must repeat to the
// bit.
func judgeJobs(t *testing.T, seeds uint64, work func(t *testing.T, seed uint64) *workload) {
	t.Helper()
	done, died, links := 0, 0, 0
	for seed := uint64(1); seed <= seeds; seed++ {
		r := jobUnderFaults(t, seed, work(t, seed))
		d, c, l := r.check(t, seed)
		done, died, links = done+d, died+c, links+l
		if again := jobUnderFaults(t, seed, work(t, seed)); again.result != r.result || fmt.Sprint(again.ends) != fmt.Sprint(r.ends) {
			t.Errorf("seed %d does not repeat", seed)
		}
	}
	t.Logf("%d ends as done, %d by dead chips, %d by links", done, died, links)
	if done == 0 || died == 0 {
		t.Errorf("%d ends as done and %d by dead chips: want both", done, died)
	}
}
