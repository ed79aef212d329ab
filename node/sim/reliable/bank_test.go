package reliable

import (
	"testing"

	"ttfabric/wire"
)

// TestRouteStates takes one bank through RR Figure 6: IDLE, NEEDS ROUTE when the head comes, ROUTED when
// the head has crossed, BACKUP when the link ahead fails, NEEDS ROUTE after it, and IDLE when the
// token has left.
func TestRouteStates(t *testing.T) {
	var b Bank
	is := func(want RouteState, f Kind) {
		t.Helper()
		got, ok := b.Next()
		if b.State != want || ok != (f != Padding) || ok && got.Kind != f {
			t.Fatalf("state %v, next flit %v (%v); want %v, %v", b.State, got.Kind, ok, want, f)
		}
		if s := b.check(); s != "" {
			t.Fatal(s)
		}
	}
	pass := func(copied bool) {
		t.Helper()
		f, ok := b.Next()
		if !ok || b.Pass(f) != copied {
			t.Fatalf("%v leaves (%v), want a flit that is copied for the first time: %v", f.Kind, ok, copied)
		}
	}
	is(Idle, Padding)
	if b.TakeBody(Flit{Kind: Data}) || b.TakeToken(TokenUnique) || b.TakeHead(Flit{Kind: Data}, false) || b.Copied() {
		t.Fatal("an idle bank takes a flit that is not a head")
	}
	b.TakeHead(Flit{Kind: HeadOriginal}, false)
	is(NeedsRoute, HeadOriginal)
	if b.TakeHead(Flit{Kind: HeadOriginal}, false) {
		t.Fatal("a bank takes two heads")
	}
	pass(false)
	is(Routed, Padding)
	for k := range 3 {
		b.TakeBody(Flit{Kind: Data, Data: uint64(k)})
	}
	b.TakeBody(Flit{Kind: Tail})
	pass(true)
	pass(true)
	b.Copied()
	if b.FailAhead() {
		t.Fatal("a packet with flits to send is released")
	}
	is(Backup, Padding)
	b.Resume()
	is(NeedsRoute, HeadRestart) // the next node has flit 0
	pass(false)
	if f, _ := b.Next(); f.Data != 1 {
		t.Fatalf("the rear piece begins with flit %d, want 1", f.Data)
	}
	pass(false) // flit 1 leaves for the second time
	pass(true)
	pass(true)
	b.TakeToken(TokenUnique)
	is(Routed, Padding) // the token waits for the copies
	for range 3 {
		if !b.Copied() {
			t.Fatal("a copy is not invalidated")
		}
	}
	is(Routed, TokenReplica)
	pass(false)
	is(Idle, Padding)
}

// TestBankLimit fills a bank. The head and the token have places of their own, so 14 of the 16 are for
// data and tail flits.
func TestBankLimit(t *testing.T) {
	var b Bank
	b.TakeHead(Flit{Kind: HeadOriginal}, false)
	n := 0
	for b.TakeBody(Flit{Kind: Data}) {
		n++
	}
	if n != 14 || b.Room() != 0 || !b.TakeToken(TokenUnique) || b.TakeBody(Flit{Kind: Data}) || b.TakeToken(TokenUnique) {
		t.Errorf("a bank takes %d flits, and has room for %d", n, b.Room())
	}
	b = Bank{}
	b.FailBehind()
	if b.token != Padding || b.FailAhead() {
		t.Error("an idle bank generates a token")
	}
}

// TestTwoStepsBack sends a packet along three links of a row. When node C passes a flit on to D, C's next
// slot to B says "copied", and B's slot after that says "freed" to A (RR §5.3, Figure 11).
func TestTwoStepsBack(t *testing.T) {
	n, err := New(Config{Mesh: Mesh{W: 4, H: 2}, Policy: Ordered, Phase: OnePhase})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Send(packet(Place{X: 0, Y: 0}, Place{X: 3, Y: 0}, 1, 0)); err != nil {
		t.Fatal(err)
	}
	slot := func(node int, d wire.Direction) Slot {
		l := n.nodes[node].out[d]
		s, err := DecodeSlot(l.at(l.next - 1).frames)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	var passed, copied, freed Time
	for range 60 {
		n.RunUntil(n.Now() + FlitTime)
		if s := slot(2, wire.East); s.Kind == Tail {
			passed = n.Now()
		}
		if s := slot(2, wire.West); s.Copied == CopiedTail && s.CopiedVC == Ordered0 {
			copied = n.Now()
		}
		if s := slot(1, wire.West); s.Freed == 1<<Ordered0 && freed == 0 {
			freed = n.Now()
		}
	}
	if passed == 0 || copied != passed || freed != passed+8*Cycle {
		t.Errorf("C passes the tail at %d, says copied at %d, and B says freed at %d; want the same slot, and a hop later", passed, copied, freed)
	}
}

// TestEmptyNetwork compares the latency in an empty network with the sum of its parts: 8 cycles per hop,
// 2 for each further flit, and for the token the way of the tail to the next node and of the
// acknowledgement back.
func TestEmptyNetwork(t *testing.T) {
	for _, plain := range []bool{true, false} {
		for hops := range 6 {
			for _, words := range []int{0, 1, 7, 12} {
				n, err := New(Config{Mesh: Mesh{W: 6, H: 2}, NoTokens: plain, Phase: OnePhase})
				if err != nil {
					t.Fatal(err)
				}
				begin := n.Now() + FlitTime // the endpoint gives the head in the next flit time
				if err := n.Send(packet(Place{X: 0, Y: 0}, Place{X: hops, Y: 0}, 1, words)); err != nil {
					t.Fatal(err)
				}
				if err := settle(n, settleLimit); err != nil {
					t.Fatal(err)
				}
				d, ok := n.PollDelivery()
				want := Time(8*hops+2*(words+1)) * Cycle
				if !plain {
					if want += FlitTime; hops > 0 {
						want += (2*8 - FlitCycles) * Cycle
					}
				}
				if got := d.At - begin; !ok || got != want {
					t.Errorf("%d hops, %d words, without tokens %v: %d cycles, want %d", hops, words, plain, got/Cycle, want/Cycle)
				}
			}
		}
	}
}
