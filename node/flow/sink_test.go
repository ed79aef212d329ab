package flow

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"ttfabric/wire"
)

// In the tests of the source, the chip "near" sends requests to the chip "far". In the tests of the
// sink, the chip "far" sends requests to the chip "near".
var (
	far  = wire.FabricNodeID{Chip: 1}
	near = wire.FabricNodeID{Chip: 2}
)

// destination is a sink with a count of the requests that it performed.
type destination struct {
	*Sink
	performed int
}

func newDestination() *destination { return &destination{Sink: NewSink(0)} }

// take hands a packet to the sink. If the sink lets the request through, take refuses the
// request with the outcome "refuse"; OutcomeDone means: perform the request.
func (d *destination) take(p *wire.Packet, refuse wire.Outcome) (performed bool) {
	switch {
	case !d.HandleRequest(p):
	case refuse != wire.OutcomeDone:
		d.Refuse(p, refuse)
	default:
		d.performed++
		return true
	}
	return false
}

// arrival is a request or probe that arrives at its destination.
type arrival struct {
	epoch, seq, base uint32
	known, probe     bool
}

func (a arrival) packet() *wire.Packet {
	p := &wire.Packet{Type: wire.PacketRequest, Src: far, Dst: near, FlowEpoch: a.epoch, FlowSeq: a.seq, FlowBase: a.base, Lives: wire.Lives{Known: a.known},
		Command: wire.Command{Type: wire.NocInlineWrite, Addr: wire.NewNocAddr(1, 1, 0), Value: a.seq}}
	if a.probe {
		p.Type, p.Command = wire.PacketProbe, wire.Command{Type: wire.NocNone}
	}
	return p
}

// answer renders the completion that a flow owes as text.
func answer(f *inFlow) string {
	var exc []string
	for _, e := range f.exc {
		exc = append(exc, fmt.Sprintf("%d+%d %s", e.First, e.Count, e.Outcome))
	}
	return strings.TrimSuffix(fmt.Sprintf("next %d: %s", f.next, strings.Join(exc, ", ")), ": ")
}

// TestDestinationEpochs hands requests of several epochs to a destination. The test
// compares the number of performed requests and the completion with the wanted values.
func TestDestinationEpochs(t *testing.T) {
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
		{"the next epoch of the source", []arrival{{epoch: 32, seq: 5, base: 5, known: true}, {epoch: 33}}, 1, "next 1"},
		{"a former one", []arrival{{epoch: 33}, {epoch: 32, seq: 1, known: true}}, 1, "next 1"},
		{"a later one that was known", []arrival{{epoch: 32}, {epoch: 33, seq: 4, base: 4, known: true}}, 1, "next 5: 4+1 flow unknown"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDestination()
			for _, a := range c.arrivals {
				d.take(a.packet(), wire.OutcomeDone)
			}
			if d.performed != c.performed {
				t.Errorf("%d performed, want %d", d.performed, c.performed)
			}
			if got := answer(d.flows[Key{Node: far}]); got != c.answer {
				t.Errorf("answers %q, want %q", got, c.answer)
			}
			if err := d.CheckInvariants(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestOverflow gives a destination more exceptions than a completion holds. Until the
// next gap, requests that came get the outcome "too many exceptions". From the gap on,
// all requests get the outcome "lost".
func TestOverflow(t *testing.T) {
	d := newDestination()
	send := func(known bool, seqs ...uint32) *inFlow {
		for _, s := range seqs {
			d.take(arrival{epoch: 32, seq: s, known: known}.packet(), wire.OutcomeDone)
		}
		f := d.flows[Key{Node: far}]
		if n := len(f.exc); n > maxExceptions {
			t.Fatalf("%d exceptions", n)
		}
		return f
	}
	for s := uint32(0); s <= 122; s += 2 { // every second request is lost: 61 gaps
		send(false, s)
	}
	d.take(arrival{epoch: 32, seq: 123}.packet(), wire.OutcomeMisaligned)
	performed := d.performed
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
	if d.performed != performed {
		t.Error("the destination performed a request that its completion reports as not performed")
	}
}

// TestExceptionsFitAlways lets random requests get lost or be refused, and moves the base
// at random. The exceptions must always fit a completion, and must name exactly the
// requests that the destination did not perform.
func TestExceptionsFitAlways(t *testing.T) {
	full := 0
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 1))
		d := newDestination()
		performed := map[uint32]bool{}
		next, base := uint32(0), uint32(0)
		gaps, refusals, known := r.Float64(), r.Float64(), r.IntN(4) == 0
		for range 300 {
			if r.Float64() < gaps {
				next += uint32(1 + r.IntN(2))
			}
			refuse := wire.OutcomeDone
			if r.Float64() < refusals {
				refuse = wire.OutcomeBadAddress
			}
			performed[next] = d.take(arrival{epoch: 32, seq: next, base: base, known: known}.packet(), refuse)
			next++
			f := d.flows[Key{Node: far}]
			if len(f.exc) > maxExceptions || f.next != next {
				t.Fatalf("seed %d: %d exceptions, next is %d of %d", seed, len(f.exc), f.next, next)
			}
			if err := d.CheckInvariants(); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if len(f.exc) == maxExceptions {
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

// TestCompletionsInParts answers flows with many exceptions while there is room for few completions,
// and loses some completions. The source then knows the fate of exactly the requests that an unbroken
// row of completions covers, and each fate is true.
func TestCompletionsInParts(t *testing.T) {
	parts := 0
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 3))
		d := newDestination()
		truth, known := map[uint32]wire.Outcome{}, map[uint32]wire.Outcome{}
		next, base := uint32(1), uint32(0)
		d.take(arrival{epoch: 32}.packet(), wire.OutcomeDone)
		f := func() *inFlow { return d.flows[Key{Node: far}] }
		take := func(m *wire.Completion) {
			if int32(m.First-base) > 0 {
				return // an earlier completion is missing
			}
			for _, e := range m.Exceptions {
				for s := max(e.First, base); s < min(e.First+uint32(e.Count), m.Next); s++ {
					known[s] = e.Outcome
				}
			}
			base = max(base, m.Next)
		}
		for range 200 {
			if r.IntN(4) == 0 {
				truth[next] = wire.OutcomeLost
				next++
			}
			refuse := []wire.Outcome{wire.OutcomeDone, wire.OutcomeBadAddress, wire.OutcomeAgain}[r.IntN(3)]
			if d.take(arrival{epoch: 32, seq: next, base: base, known: true}.packet(), refuse); refuse != wire.OutcomeDone {
				truth[next] = refuse
			}
			if next++; len(f().exc) > maxExceptions-6 {
				break // from here on, an exception covers requests that came
			}
			room := r.IntN(4)
			d.Answer(func(Key) *Route { return &Route{} }, func(_ Key, _ *Route, m wire.Completion) bool {
				if room == 0 {
					return false
				}
				if room--; m.Next != f().next {
					parts++
				}
				if r.IntN(3) > 0 {
					take(&m)
				}
				return true
			})
			if err := d.CheckInvariants(); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		for range maxExceptions { // probes ask until all is known
			d.take(arrival{epoch: 32, seq: next, base: base, known: true}.packet(), wire.OutcomeDone)
			next++
			d.Answer(func(Key) *Route { return &Route{} }, func(_ Key, _ *Route, m wire.Completion) bool { take(&m); return true })
		}
		if base != next {
			t.Errorf("seed %d: the source knows the fates of requests before %d, want %d", seed, base, next)
		}
		for s := range next {
			if known[s] != truth[s] {
				t.Fatalf("seed %d: request %d ended as %s, and the source knows %s", seed, s, truth[s], known[s])
			}
		}
	}
	if parts == 0 {
		t.Error("no answer took several completions")
	}
}

// TestExceptionsAreBounded lets a request get lost and the next request be refused, again
// and again. The exceptions must still fit a completion.
func TestExceptionsAreBounded(t *testing.T) {
	for first := range 3 { // each start leaves another kind of request for the last free exception
		d := newDestination()
		seq := uint32(0)
		come := func(skip uint32, refuse wire.Outcome) {
			seq += skip
			d.take(arrival{epoch: 32, seq: seq}.packet(), refuse)
			seq++
		}
		for range first {
			come(1, wire.OutcomeDone)
		}
		for range 2 * maxExceptions {
			come(1, wire.OutcomeBadAddress) // one request is lost, and the next request has a bad address
			if f := d.flows[Key{Node: far}]; len(f.exc) > maxExceptions || f.next != seq {
				t.Fatalf("%d exceptions before %d, next %d", len(f.exc), seq, f.next)
			}
			home := func(Key) *Route { return &Route{} }
			told, excepted := uint32(0), 0
			if !d.Answer(home, func(to Key, _ *Route, m wire.Completion) bool {
				fits := to.Node == far && m.First == told && m.FlowEpoch == 32 && len(m.Exceptions) <= wire.MaxExceptions
				told, excepted = m.Next, excepted+len(m.Exceptions)
				return fits
			}) || d.Owed() != 0 || told != seq || excepted != len(d.flows[Key{Node: far}].exc) {
				t.Fatalf("request %d is not answered", seq)
			}
		}
		if d.Counters().Overflows == 0 {
			t.Error("nothing overflowed")
		}
	}
}

// TestCompletionsFollowTheTables checks that the sink owes a completion until there is
// room for it. The completion must take the route of the tables in force.
func TestCompletionsFollowTheTables(t *testing.T) {
	d := newDestination()
	asked, sent := 0, []*Route{}
	home := func(to Key) *Route {
		asked++
		return &Route{OK: true, Port: asked}
	}
	answer := func(room bool) bool {
		return d.Answer(home, func(_ Key, w *Route, _ wire.Completion) bool {
			if room {
				sent = append(sent, w)
			}
			return room
		})
	}
	for seq := range uint32(3) {
		d.take(arrival{epoch: 32, seq: seq}.packet(), wire.OutcomeDone)
		if answer(false) || d.Owed() != 1 {
			t.Fatalf("a completion was sent although there was no room, or is no longer owed (%d)", d.Owed())
		}
		if seq == 2 {
			d.HandleTables()
		}
		if !answer(true) || d.Owed() != 0 {
			t.Fatalf("%d completions are owed after an answer", d.Owed())
		}
	}
	if len(sent) != 3 || sent[0].Port != 1 || sent[1].Port != 1 || sent[2].Port != 2 {
		t.Errorf("%d completions were sent by %+v", len(sent), sent)
	}
}
