package chip

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// arrival is a request at its destination: K is for known, P for a probe.
type arrival struct {
	epoch, seq, base uint32
	known, probe     bool
}

// TestDestinationLives hands requests to lives of a destination and finds what
// it performs and what it answers.
func TestDestinationLives(t *testing.T) {
	for _, c := range []struct {
		name      string
		arrivals  []arrival
		performed int
		answer    string
	}{
		{"a new flow", []arrival{{epoch: 32}, {epoch: 32, seq: 1}}, 2, "next 2"},
		{"a known flow goes on", []arrival{{epoch: 32}, {epoch: 32, seq: 1, known: true}}, 2, "next 2"},
		{"a gap in it", []arrival{{epoch: 32}, {epoch: 32, seq: 2, known: true}}, 2, "next 3: 1+1 lost"},
		{"a known flow that is not", []arrival{{epoch: 32, seq: 5, base: 5, known: true}}, 0, "next 6: 5+1 flow unknown"},
		{"that sent more", []arrival{{epoch: 32, seq: 5, base: 3, known: true}, {epoch: 32, seq: 8, base: 3, known: true}}, 0,
			"next 9: 3+2 destination restarted, 5+1 flow unknown, 6+2 destination restarted, 8+1 flow unknown"},
		{"a late one without KNOWN", []arrival{{epoch: 32, seq: 5, base: 5, known: true}, {epoch: 32, seq: 6, base: 5}}, 0, "next 7: 5+2 flow unknown"},
		{"a repeated one", []arrival{{epoch: 32, seq: 5, base: 5, known: true}, {epoch: 32, seq: 5, base: 5, known: true}}, 0, "next 6: 5+1 flow unknown"},
		{"a probe of one", []arrival{{epoch: 32, seq: 5, base: 5, known: true, probe: true}}, 0, "next 6: 5+1 flow unknown"},
		{"the next life of the source", []arrival{{epoch: 32, seq: 5, base: 5, known: true}, {epoch: 33}}, 1, "next 1"},
		{"a former one", []arrival{{epoch: 33}, {epoch: 32, seq: 1, known: true}}, 1, "next 1"},
		{"a later one that was known", []arrival{{epoch: 32}, {epoch: 33, seq: 4, base: 4, known: true}}, 1, "next 5: 4+1 flow unknown"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newFabric(t, named(t, "line:2"))
			d, src := w.chips[1], w.chips[0].Node()
			for _, a := range c.arrivals {
				d.request(w.now, request(src, d.Node(), a))
			}
			if n := d.counters.Performed; n != uint64(c.performed) {
				t.Errorf("%d performed, want %d", n, c.performed)
			}
			if got := answer(d.in[flowKey{node: src}]); got != c.answer {
				t.Errorf("answers %q, want %q", got, c.answer)
			}
		})
	}
}

func request(src, dst wire.FabricNodeID, a arrival) *wire.Packet {
	p := &wire.Packet{Type: wire.PacketRequest, Src: src, Dst: dst, FlowEpoch: a.epoch, FlowSeq: a.seq, FlowBase: a.base, Known: a.known,
		Command: wire.Command{Type: wire.NocInlineWrite, Addr: wire.NewNocAddr(1, 1, 0), Value: a.seq}}
	if a.probe {
		p.Type, p.Command = wire.PacketProbe, wire.Command{Type: wire.NocNone}
	}
	return p
}

// answer writes out the completion that a flow owes.
func answer(f *inFlow) string {
	var exc []string
	for _, e := range f.exc {
		exc = append(exc, fmt.Sprintf("%d+%d %s", e.First, e.Count, e.Outcome))
	}
	return strings.TrimSuffix(fmt.Sprintf("next %d: %s", f.next, strings.Join(exc, ", ")), ": ")
}

// TestOverflow lets a destination have more to tell than it can: what came is
// told from what did not, as long as one exception can name both.
func TestOverflow(t *testing.T) {
	w := newFabric(t, named(t, "line:2"))
	d, src := w.chips[1], w.chips[0].Node()
	send := func(known bool, seqs ...uint32) *inFlow {
		for _, s := range seqs {
			d.request(w.now, request(src, d.Node(), arrival{epoch: 32, seq: s, known: known}))
		}
		f := d.in[flowKey{node: src}]
		if n := len(f.exc); n > wire.MaxExceptions {
			t.Fatalf("%d exceptions", n)
		}
		return f
	}
	for s := uint32(0); s <= 122; s += 2 { // 61 gaps
		send(false, s)
	}
	f := d.in[flowKey{node: src}]
	f.except(123, 1, wire.OutcomeMisaligned)
	f.next = 124
	performed := d.counters.Performed
	for _, step := range []struct {
		seqs []uint32
		want string
	}{
		{[]uint32{124, 125}, "124+2 too many exceptions"},
		{[]uint32{127}, "124+2 too many exceptions, 126+2 lost"},
		{[]uint32{128, 130}, "124+2 too many exceptions, 126+5 lost"},
	} {
		if got := answer(send(true, step.seqs...)); !strings.HasSuffix(got, ", 121+1 lost, 123+1 misaligned, "+step.want) {
			t.Errorf("after %v: %s, want %s", step.seqs, got, step.want)
		}
	}
	if d.counters.Performed != performed {
		t.Error("something was performed that was said not to be")
	}
}

// TestExceptionsFitAlways has requests go missing, be refused and be forgotten
// at random: what the destination owes fits a completion at any time, and names
// exactly those that it did not perform.
func TestExceptionsFitAlways(t *testing.T) {
	full := 0
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := newFabric(t, named(t, "line:2"))
		d, src := w.chips[1], w.chips[0].Node()
		performed := map[uint32]bool{}
		next, base := uint32(0), uint32(0)
		gaps, refusals, known := r.Float64(), r.Float64(), r.IntN(4) == 0
		for range 300 {
			if r.Float64() < gaps {
				next += uint32(1 + r.IntN(2))
			}
			addr := uint64(64)
			if r.Float64() < refusals {
				addr = 1 << 35 // no such address
			}
			before := d.counters.Performed
			d.request(w.now, &wire.Packet{Type: wire.PacketRequest, Src: src, Dst: d.Node(), FlowEpoch: 32, FlowSeq: next, FlowBase: base, Known: known,
				Command: wire.Command{Type: wire.NocUnicastWrite, Addr: wire.NewNocAddr(1, 1, addr), Size: 1}, Payload: []byte{1}})
			performed[next] = d.counters.Performed > before
			next++
			f := d.in[flowKey{node: src}]
			if len(f.exc) > wire.MaxExceptions || f.next != next {
				t.Fatalf("seed %d: %d exceptions, next is %d of %d", seed, len(f.exc), f.next, next)
			}
			if len(f.exc) == wire.MaxExceptions {
				full++
			}
			excepted := map[uint32]bool{}
			for _, e := range f.exc {
				for k := range uint32(e.Count) {
					excepted[e.First+k] = true
				}
			}
			for s := base; s != next; s++ {
				if performed[s] == excepted[s] {
					t.Fatalf("seed %d: request %d was performed: %v, and excepted: %v", seed, s, performed[s], excepted[s])
				}
			}
			if r.IntN(40) == 0 {
				base += uint32(r.IntN(int(next-base) + 1))
			}
		}
	}
	if full == 0 {
		t.Error("the list of exceptions was never full")
	}
}

// TestLivesOverTime starts a chip again, hours or weeks later, with the clock
// that orders its lives: its first request is performed.
func TestLivesOverTime(t *testing.T) {
	for _, up := range []time.Duration{10 * time.Millisecond, time.Hour, 19 * time.Hour, 24 * time.Hour, 37 * time.Hour, 24 * 24 * time.Hour} {
		w := newFabric(t, named(t, "line:3"))
		start := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
		for _, at := range []time.Time{start, start.Add(up)} {
			w.chips[0].cfg.Life = uint32(at.UnixMilli())
			w.chips[0].out, w.chips[0].outOrder, w.chips[0].lastOut = map[flowKey]*outFlow{}, nil, nil // as a new process has it
			w.chips[0].HandleRequest(w.now, Request{Dst: w.m.Chips[2].Node, Command: wire.Command{Type: wire.NocInlineWrite, Addr: wire.NewNocAddr(1, 1, 64), Value: 7}})
			if rs := w.results(0, 1); len(rs) != 1 || rs[0].Fate != FateDone {
				t.Errorf("after %v: %+v", up, rs)
			}
		}
	}
}

// forgetAll leaves a chip with no flows that others send it, as its next life has it.
func (c *Chip) forgetAll() {
	clear(c.in)
	c.lastIn = nil
}

// source is a chip with requests under way on a cable that loses all.
func source(t *testing.T) (*Chip, *outFlow, mono.Time) {
	w := newFabric(t, named(t, "line:2"))
	c, dst := w.chips[0], w.chips[1].Node()
	for _, p := range c.ports {
		w.gone[p.Peer] = true
	}
	return c, c.flow(w.now, flowKey{node: dst}), w.now
}

// TestSourceLives tells a source what became of its requests, and finds how sure it is of it.
func TestSourceLives(t *testing.T) {
	lost := func(first uint32, n uint16) []wire.Exception {
		return []wire.Exception{{First: first, Count: n, Outcome: wire.OutcomeLost}}
	}
	for _, x := range []struct {
		name   string
		known  bool // before the requests
		exc    []wire.Exception
		fates  [4]uint64
		ending bool
	}{
		{"a gap in a life that was known", true, lost(1, 2), [4]uint64{2, 0, 2, 0}, false},
		{"in one that was not", false, lost(1, 2), [4]uint64{2, 0, 0, 2}, true},
		{"refused as unknown", true, []wire.Exception{{First: 0, Count: 4, Outcome: wire.OutcomeUnknownFlow}}, [4]uint64{0, 4, 0, 0}, true},
		{"restarted, and a gap", true, []wire.Exception{{First: 0, Count: 1, Outcome: wire.OutcomeRestarted}, {First: 2, Count: 1, Outcome: wire.OutcomeLost}}, [4]uint64{2, 0, 0, 2}, true},
		{"refused on arrival", false, []wire.Exception{{First: 3, Count: 1, Outcome: wire.OutcomeMisaligned}}, [4]uint64{3, 1, 0, 0}, false},
		{"too many", false, []wire.Exception{{First: 3, Count: 1, Outcome: wire.OutcomeOverflow}}, [4]uint64{3, 1, 0, 0}, false},
	} {
		t.Run(x.name, func(t *testing.T) {
			c, f, now := source(t)
			f.life.known = x.known
			ask := func() Admission {
				return c.HandleRequest(now, Request{Dst: f.key.node, Command: wire.Command{Type: wire.NocInlineWrite, Addr: wire.NewNocAddr(1, 1, 0)}})
			}
			for range 4 {
				if a := ask(); a != Accepted {
					t.Fatalf("admission %d", a)
				}
			}
			for _, o := range f.openOps() {
				if o.known != x.known {
					t.Fatal("a request was sent in another life than it was")
				}
			}
			epoch := f.epoch
			m := wire.Completion{FlowEpoch: epoch, Next: 4, Exceptions: x.exc}
			c.completion(now, &wire.Packet{Src: f.key.node, Payload: m.Append(nil)})
			if f.fates != x.fates || f.life.ending != x.ending || !f.life.known {
				t.Errorf("fates %v, life %+v", f.fates, f.life)
			}
			if a := ask(); a != Accepted || (f.epoch != epoch) != x.ending || f.openOps()[0].known == x.ending {
				t.Errorf("admission %d in epoch %d after %d, known: %v", a, f.epoch, epoch, f.openOps()[0].known)
			}
		})
	}
}

// TestEndingLife finds that nothing is added to a life of which something may come late.
func TestEndingLife(t *testing.T) {
	c, f, now := source(t)
	r := Request{Dst: f.key.node, Command: wire.Command{Type: wire.NocInlineWrite, Addr: wire.NewNocAddr(1, 1, 0)}}
	for range 3 {
		c.HandleRequest(now, r)
	}
	m := wire.Completion{FlowEpoch: f.epoch, Next: 2, Exceptions: []wire.Exception{{First: 0, Count: 1, Outcome: wire.OutcomeLost}}}
	c.completion(now, &wire.Packet{Src: f.key.node, Payload: m.Append(nil)})
	if a := c.HandleRequest(now, r); a != Busy {
		t.Errorf("admission %d while a request is open", a)
	}
	m.Next = 3
	c.completion(now, &wire.Packet{Src: f.key.node, Payload: m.Append(nil)})
	before := f.epoch
	if a := c.HandleRequest(now, r); a != Accepted || f.epoch != nextLife(before) || f.next != 1 {
		t.Errorf("admission %d, epoch %d after %d, next %d", a, f.epoch, before, f.next)
	}
}

// TestIdleFlow restarts a destination while a flow is idle: the next request is done as if nothing had been.
func TestIdleFlow(t *testing.T) {
	w := newFabric(t, named(t, "line:2"))
	ask := func() Result {
		w.chips[0].HandleRequest(w.now, Request{Dst: w.m.Chips[1].Node, Command: wire.Command{Type: wire.NocInlineWrite, Addr: wire.NewNocAddr(1, 1, 0)}})
		if rs := w.results(0, 1); len(rs) == 1 {
			return rs[0]
		}
		return Result{Fate: FateUnknown}
	}
	if r := ask(); r.Fate != FateDone {
		t.Fatalf("%+v", r)
	}
	w.run(50 * time.Millisecond)
	w.chips[1].forgetAll() // as a next life begins
	if r := ask(); r.Fate != FateRefused || r.Outcome != wire.OutcomeUnknownFlow {
		t.Errorf("%+v", r)
	}
	if r := ask(); r.Fate != FateDone {
		t.Errorf("%+v", r)
	}
	w.run(200 * time.Millisecond)
	w.chips[1].forgetAll()
	if r := ask(); r.Fate != FateDone {
		t.Errorf("after a pause: %+v", r)
	}
}
