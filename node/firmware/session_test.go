package firmware

import (
	"testing"
	"time"

	"ttfabric/wire"
)

// Sessions of cables end again and again while all queues are full. Every request ends exactly once, and a
// read that ends without an error has the right bytes. A write of unknown fate ends with an error.
func TestSessionsEndInMidRequest(t *testing.T) {
	t.Parallel()
	for seed, name := range []string{"n300", "ring:5", "t3000"} {
		w := newRig(t, named(t, name), uint64(seed+1))
		c := crowdOf(w, uint64(seed))
		c.reads = 1
		cables := cablingOf(w.m).from
		for range 150 {
			for range 40 {
				i := c.r.IntN(len(c.hosts))
				q := c.hosts[i].queue()
				if len(c.asked[i]) == 0 && (q.Open > 0 || q.SQ.WrIdx != q.SQ.RdIdx) { // the host waits for its write
					continue
				}
				if q.Counters.Unreachable == 0 { // else nobody knows what the host's bytes are
					c.push(i)
				}
				c.pop(i, c.r.IntN(5))
			}
			for range 1 + c.r.IntN(4) {
				for _, u := range w.chips {
					u.m.Run(w.now)
					u.deliver()
				}
			}
			if c.r.IntN(2) == 0 {
				w.session(cables[c.r.IntN(len(cables))])
			}
			w.now = w.now.Add(time.Millisecond)
		}
		w.run(2 * AnswerTimeout)
		total := uint64(0)
		for i, h := range c.hosts {
			q := h.queue()
			if total += q.Counters.Unreachable; q.Counters.Unreachable == 0 {
				c.drain(i)
			}
		}
		w.quiet()
		if t.Failed() || total == 0 {
			t.Fatalf("%s: %d requests of unknown fate", name, total)
		}
		t.Logf("%s: %d requests, %d of unknown fate", name, c.pushed, total)
	}
}

// If one of two parallel cables is cut, its messages leave by the other cable. If both cables are
// cut, the requests end as unreachable as soon as the tables have no route.
func TestTablesChangeInMidRequest(t *testing.T) {
	w := newRig(t, named(t, "n300"), 0)
	h := w.user(0, 10)
	ports := []wire.PortID{{Node: w.chips[0].self, Channel: 8}, {Node: w.chips[0].self, Channel: 9}}
	tables := func(out ...bool) {
		for i, p := range ports {
			w.out[p], w.down[p] = out[i], out[i]
			w.out[w.peer(p)], w.down[w.peer(p)] = out[i], out[i]
		}
		for _, u := range w.chips {
			u.m.Rerouted(w.now)
		}
	}
	ask := func(flags Flags) {
		h.push(Entry{Target: NewTarget(1, 0, tensix.Addr(64)), Data: 7, Flags: flags}, nil)
	}
	w.down[ports[0]] = true // E8 is silent, and nobody knows
	for range 3 {
		ask(WrReq | Ordered)
	}
	w.settle()
	tables(true, false)
	w.settle()
	if q := h.queue().SQ; q.WrResp != 3 || q.Errors != 0 {
		t.Errorf("the other cable does not carry on: %+v", q)
	}
	w.down[ports[1]] = true
	ask(RdReq)
	w.settle()
	tables(true, true)
	w.settle()
	if e, _, ok := h.pop(); !ok || e.Flags != RdData|DestUnreachable {
		t.Errorf("both cables are out of use: %v, flags %#x", ok, uint32(e.Flags))
	}
	tables(false, false)
	ask(RdReq)
	w.run(2 * ResendAfter)
	if e, _, ok := h.pop(); !ok || e.Flags != RdData || e.Data != 7 {
		t.Errorf("after the repair: %v, %+v", ok, e)
	}
	w.run(2 * AnswerTimeout)
	w.quiet()
}

func (w *rig) peer(p wire.PortID) wire.PortID {
	c := w.at[p.Node].cables[p.Channel]
	return wire.PortID{Node: c.to.self, Channel: c.ch}
}
