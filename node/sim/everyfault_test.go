package sim

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"ttfabric/node/flow"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

var everyFault = flag.Bool("sim.everyfault", false, "make TestEveryFault try every fault at every time under every pattern; otherwise a sample")

// faultInstants is the number of times at which the test tries each fault. The times are spread
// evenly over faultSpan.
const (
	faultInstants = 64
	faultSpan     = 4 * time.Millisecond
	eachSends     = 60 // number of packets that each chip sends
)

// faultPatterns are the names of the traffic patterns; destinations returns the destinations.
var faultPatterns = []string{"uniform", "transpose", "bit-complement", "tornado", "neighbour", "hotspot"}

// TestEveryFault breaks one cable, all cables between two chips, or one chip under load. If a
// parallel cable still works, no packet may be lost. No request may be performed twice, every
// request must end, and the chips' counts must explain every packet. The test takes a sample of all
// faults, times and patterns; scripts/check takes a larger sample, and scripts/soak takes all.
func TestEveryFault(t *testing.T) {
	n, ran := 0, 0
	for _, name := range []string{"mesh:4x4", "mesh:8x4", "torus:4x4"} {
		s := quietLab(t, name, 0)
		for fault := range len(s.cables) + len(s.machines) {
			for instant := range faultInstants {
				for p := range faultPatterns {
					if n++; !*everyFault && n%many(1999, 997) != 0 {
						continue
					}
					ran++
					oneFault(t, name, fault, instant, p)
				}
			}
		}
	}
	t.Logf("%d of %d", ran, n)
}

// destinations returns the destinations of a chip's packets, in turn.
func destinations(p, src, chips int) []int {
	if p == len(faultPatterns)-1 {
		return []int{chips / 2}
	}
	var out []int
	for k := range 8 {
		switch faultPatterns[p] {
		case "uniform":
			out = append(out, int((uint64(src*8+k)*0x9E3779B97F4A7C15)>>40)%chips)
		case "transpose":
			out = append(out, src%4*4%chips+src/4%4)
		case "bit-complement":
			out = append(out, chips-1-src)
		case "tornado":
			out = append(out, (src+chips/2-1)%chips)
		default:
			out = append(out, (src+1)%chips)
		}
	}
	return out
}

// rounds is a client that sends packets to several destinations in turn.
type rounds struct {
	stream
	to []wire.FabricNodeID
}

// Next returns a request to the next destination.
func (r *rounds) Next(now mono.Time) (flow.Request, bool) {
	q, ok := r.stream.Next(now)
	q.Dst = r.to[r.left%len(r.to)]
	return q, ok
}

func oneFault(t *testing.T, name string, fault, instant, p int) {
	t.Helper()
	s := quietLab(t, name, uint64(instant))
	what := fmt.Sprintf("%s, fault %d at instant %d, %s", name, fault, instant, faultPatterns[p])
	loads := make([]*rounds, len(s.machines))
	for i, m := range s.machines {
		loads[i] = &rounds{stream: stream{left: eachSends, both: s.tied, req: flow.Request{Plane: wire.Plane(i % s.cfg.Topology.Planes()), Payload: floodData[:],
			Command: wire.Command{Type: wire.NocUnicastWrite, Addr: wire.NewNocAddr(1, 1, 0)}}}}
		for _, d := range destinations(p, i, len(s.machines)) {
			if d == i { // packets from a chip to itself cross no cable
				d = (i + 1) % len(s.machines)
			}
			loads[i].to = append(loads[i].to, s.machines[d].node)
		}
		m.chip.SetClient(loads[i])
		s.run(m)
	}
	s.runUntil(s.now.Add(time.Duration(instant)*faultSpan/faultInstants), func() bool { return false })
	spare, victim := false, -1
	if fault < len(s.cables) {
		c := s.cables[fault]
		s.cutWays(c, 1, 0, 1)
		if instant%2 == 1 { // cut the parallel cables too
			s.cutEdge(c.A.Node, c.B.Node, true)
		} else {
			spare = s.cfg.Topology.Planes() > 1
		}
	} else {
		victim = fault - len(s.cables)
		s.stop(s.machines[victim], false)
	}
	ended := func() bool {
		for i, l := range loads {
			if i != victim && l.ends[0]+l.ends[1]+l.ends[2]+l.ends[3] != eachSends {
				return false
			}
		}
		return true
	}
	if !s.runUntil(s.now.Add(SettleTime), ended) || s.failure != nil {
		t.Fatalf("%s: not all requests have ended: %v", what, s.failure)
	}
	performed, done := 0, 0
	for i, l := range loads {
		if i == victim {
			continue
		}
		performed += int(s.machines[i].chip.Status().Counters.Performed)
		done += l.ends[flow.FateDone]
		if l.ends[flow.FateRefused] != 0 || spare && l.ends[flow.FateDone] != eachSends {
			t.Errorf("%s: %s ends %v", what, s.machines[i].node, l.ends)
		}
	}
	if victim < 0 && performed < done || spare && performed != done {
		t.Errorf("%s: %d requests are done, but %d were performed", what, done, performed)
	}
	s.runUntil(s.now.Add(time.Second), func() bool { return false })
	if r := s.account(); r.Unexplained() != 0 {
		t.Errorf("%s: %d packets unexplained: %+v", what, r.Unexplained(), r.Total)
	}
}
