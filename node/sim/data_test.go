package sim

import (
	"testing"
	"time"

	"ttfabric/node/flow"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// reader is a client that reads from all other chips in turn. A reader notes how its reads end.
type reader struct {
	rounds
	open    int
	doubts  [flow.NumDoubts]int
	longest time.Duration // longest time that a read was open
}

// Next returns a read, as long as fewer than 4 reads are open.
func (r *reader) Next(now mono.Time) (flow.Request, bool) {
	if r.open >= 4 {
		return flow.Request{}, false
	}
	q, ok := r.rounds.Next(now)
	if ok {
		r.open++
	}
	return q, ok
}

// Undo keeps the read for the next call of Next.
func (r *reader) Undo() {
	r.open--
	r.rounds.Undo()
}

// Done counts the ended read.
func (r *reader) Done(now mono.Time, x flow.Result) {
	r.open--
	r.stream.Done(now, x)
	r.doubts[x.Doubt]++
	r.longest = max(r.longest, x.Done.Sub(x.Sent))
}

// TestLostData cuts cables and restarts chips while all chips read from all chips. Many replies are
// lost in the sessions of links, in routers and in chips that die. The flow must end each read soon
// after the fabric works again. No read may wait for FlowTimeout.
func TestLostData(t *testing.T) {
	const patience = 2 * time.Second // the longest fault takes 0.5 s
	var total [flow.NumDoubts]int
	done := 0
	for seed := range uint64(4) {
		name := []string{"mesh:3x3", "t3000", "torus:4x4"}[seed%3]
		s := quietLab(t, name, seed)
		s.around.lag = 3 * time.Millisecond // with a shorter lag, the chips read more often than the simulator can bear
		readers := make([]*reader, len(s.machines))
		sit := func(i int) {
			r := &reader{rounds: rounds{stream: stream{left: 1 << 30, req: flow.Request{Command: wire.Command{Type: wire.NocRead, Addr: wire.NewNocAddr(1, 1, 0), Size: 1024}}}}}
			for k, m := range s.machines {
				if k != i {
					r.to = append(r.to, m.node)
				}
			}
			readers[i] = r
			s.machines[i].chip.SetClient(r)
			s.run(s.machines[i])
		}
		check := func(i int, what string) {
			r := readers[i]
			for d, n := range r.doubts {
				total[d] += n
			}
			done += r.ends[flow.FateDone]
			if r.doubts[flow.DoubtTimeout] > 0 || r.longest > patience {
				t.Errorf("seed %d, %s, %s: a read was open for %v, %d reads timed out", seed, name, what, r.longest, r.doubts[flow.DoubtTimeout])
			}
		}
		for i := range readers {
			sit(i)
		}
		wait := func(d time.Duration) { s.runUntil(s.now.Add(d), func() bool { return false }) }
		for range 2 {
			wait(20*time.Millisecond + s.span(50*time.Millisecond))
			c := s.anyCable()
			s.cutEdge(c.A.Node, c.B.Node, true)
			wait(20*time.Millisecond + s.span(300*time.Millisecond))
			s.cutEdge(c.A.Node, c.B.Node, false)
			wait(400 * time.Millisecond)
			m := s.anyMachine()
			check(m.index, "before the restart")
			s.stop(m, false)
			wait(20*time.Millisecond + s.span(200*time.Millisecond))
			if s.start(m); s.failure != nil {
				t.Fatalf("seed %d: %v", seed, s.failure)
			}
			sit(m.index)
			wait(400 * time.Millisecond)
		}
		for _, r := range readers {
			r.left = 0
		}
		if !s.runUntil(s.now.Add(SettleTime), s.atRest) || s.failure != nil {
			t.Fatalf("seed %d: %s %v", seed, s.unrest(), s.failure)
		}
		for i := range readers {
			check(i, "at the end")
		}
	}
	t.Logf("%d reads done, doubts %v", done, total)
	if total[flow.DoubtData] == 0 || total[flow.DoubtRestarted] == 0 {
		t.Errorf("doubts %v: the faults lost no data, or no chip noticed", total)
	}
}
