package reliable

import (
	"fmt"
	"slices"
	"testing"

	"ttfabric/router/reliable/everyorder"
)

// This file moves the flits of one packet along a chain of banks in every order, with one failure at
// any moment. The banks and the endpoint are those of the chip. What the check leaves open is time:
// every line delivers its messages in order, but after any delay.
//
// A chain has the banks 0 (source) to n-1 (destination). The bank before the failure sends again by a
// detour: bank n, then bank n+1 at the destination.

// message is what a line carries: a flit, or an acknowledgement, or the news that the line is dead.
type message struct {
	flit   Flit
	copied bool
	down   bool
}

// chainState is one state of the search.
type chainState struct {
	banks   []*Bank     // shared between states; touch returns a bank that may change
	forward [][]message // forward[i] leads away from bank i
	back    [][]message // back[i] leads to bank i, on the same link
	ejected []ejection
	failed  bool
	node    int // number of the dead bank, or -1
	link    int // link i leads from bank i; number of the dead link of the bank before the failure, or -1
	detour  int // bank whose packet takes the detour, or -1
}

type ejection struct {
	vc   uint8
	flit Flit
}

// mutant is a change of the protocol that the check must find.
type mutant uint8

const (
	faithful     mutant = iota
	keepsUnique         // the token stays unique after the packet was sent again
	noToken             // the bank behind a failed link generates no token
	independent         // a dying node loses flits that it has acknowledged, as can happen without a common clock
	forgetsCopy         // a bank acknowledges a flit before the bank has sent it
	keepsPointer        // after a failure, a bank goes on where it was
	numMutants
)

// chain is the check of one chain.
type chain struct {
	n, body int // banks, and data and tail flits
	mutant  mutant
	states  int
	fault   string // first wrong state
	ends    int    // states without a next step
	replica int    // ends at which the packet came with a replica token
}

func (c *chain) wrong(s *chainState, what string) {
	if c.fault == "" {
		c.fault = fmt.Sprintf("%s: node %d, link %d dead: %s", what, s.node, s.link, s.describe())
	}
}

func (s *chainState) describe() (out string) {
	for i, b := range s.banks {
		out += fmt.Sprintf("[%d %v %v recv %d sent %d inv %d tok %v rep %v]", i, b.State, b.head.Kind, b.received, b.sent, b.invalid, b.token, b.replica)
	}
	return fmt.Sprint(out, " forward ", s.forward, " back ", s.back, " ejected ", s.ejected)
}

func (s *chainState) clone() *chainState {
	t := *s
	t.banks, t.ejected = slices.Clone(s.banks), slices.Clone(s.ejected)
	t.forward, t.back = slices.Clone(s.forward), slices.Clone(s.back)
	return &t
}

// touch returns bank i, copied.
func (s *chainState) touch(i int) *Bank {
	b := *s.banks[i]
	s.banks[i] = &b
	return &b
}

// Key returns the state as text.
func (s *chainState) Key() string {
	var b []byte
	for i := range s.banks {
		x := s.banks[i]
		b = append(b, byte(x.State), byte(x.head.Kind), byte(bit(x.headSent)), byte(bit(x.replica)), byte(x.token), byte(x.received), byte(x.sent), byte(x.told), byte(x.invalid))
		if x.State != Idle {
			for k := range x.received {
				b = append(b, byte(x.body[k].Data))
			}
		}
	}
	for _, lines := range [][][]message{s.forward, s.back} {
		for _, l := range lines {
			for _, m := range l {
				b = append(b, 1+byte(m.flit.Kind)<<2|byte(bit(m.copied))<<6|byte(bit(m.down))<<7, byte(m.flit.Data))
			}
			b = append(b, 0)
		}
	}
	for _, e := range s.ejected {
		b = append(b, e.vc, byte(e.flit.Kind), byte(e.flit.Data))
	}
	return string(append(b, byte(bit(s.failed)), byte(s.node), byte(s.link), byte(s.detour)))
}

// next returns the bank after bank i on the packet's way, or -1 at the destination.
func (c *chain) next(s *chainState, i int) int {
	switch {
	case i == c.n-1 || i == c.n+1:
		return -1
	case i == c.n:
		return c.n + 1
	case i == s.detour:
		return c.n
	}
	return i + 1
}

// before returns the bank before bank i, or -1.
func (c *chain) before(s *chainState, i int) int {
	if i == c.n {
		return s.detour
	}
	return i - 1 // bank n+1 comes after bank n
}

// dead reports whether messages of a bank go nowhere.
func (s *chainState) dead(bank int) bool { return s.failed && bank == s.node }

// line returns the number of the line that leaves bank i: the detour of a bank has a line of its own.
func (c *chain) line(s *chainState, i int) int {
	if i == s.detour {
		return c.n + 2
	}
	return i
}

// send is the step in which bank i passes its next flit.
func (c *chain) send(s *chainState, i int) *chainState {
	if s.dead(i) || s.banks[i].State == Idle {
		return nil
	}
	f, ok := s.banks[i].Next()
	if !ok {
		return nil
	}
	t := s.clone()
	b := t.touch(i)
	copied := b.Pass(f)
	to := c.next(t, i)
	if copied && i > 0 {
		c.tell(t, i)
	}
	if to < 0 {
		if f.Kind.Body() {
			b.Copied()
		}
		vc := uint8(0)
		if i > c.n {
			vc = 1
		}
		t.ejected = append(t.ejected, ejection{vc, f})
		return t
	}
	l := c.line(t, i)
	if !(t.failed && (t.link == i && l == i || t.node == to)) {
		t.forward[l] = append(slices.Clip(t.forward[l]), message{flit: f})
	}
	return t
}

// tell sends an acknowledgement to the bank before bank i.
func (c *chain) tell(s *chainState, i int) {
	p := c.before(s, i)
	l := c.line(s, p)
	if i < c.n && p == s.detour {
		return // bank i is on the dead link
	}
	if s.failed && (s.link == p && l == p || s.dead(p)) {
		return
	}
	s.back[l] = append(slices.Clip(s.back[l]), message{copied: true})
}

// deliverForward takes the oldest message of a line to the bank at its end.
func (c *chain) deliverForward(s *chainState, l int) *chainState {
	if len(s.forward[l]) == 0 {
		return nil
	}
	t := s.clone()
	m := t.forward[l][0]
	t.forward[l] = t.forward[l][1:]
	to := l + 1
	if l == c.n+2 {
		to = c.n
	}
	b, ok := t.touch(to), true
	switch {
	case t.dead(to):
	case m.down:
		if c.mutant != noToken {
			b.FailBehind()
		}
	case m.flit.Kind.Head():
		ok = b.TakeHead(m.flit, false)
	case m.flit.Kind.Body():
		ok = b.TakeBody(m.flit)
	default:
		ok = b.TakeToken(m.flit.Kind)
	}
	if !ok {
		c.wrong(t, fmt.Sprintf("bank %d refuses %v", to, m.flit.Kind))
	}
	if c.mutant == forgetsCopy && m.flit.Kind.Body() && to > 0 && c.next(t, to) >= 0 {
		b.told = b.received
		c.tell(t, to)
	}
	return t
}

// deliverBack takes the oldest message of a line back to the bank at its start.
func (c *chain) deliverBack(s *chainState, l int) *chainState {
	if len(s.back[l]) == 0 {
		return nil
	}
	t := s.clone()
	m := t.back[l][0]
	t.back[l] = t.back[l][1:]
	i := l
	if l == c.n+2 {
		i = t.detour
	}
	b := t.touch(i)
	switch {
	case t.dead(i):
	case m.down:
		sent := b.sent
		b.FailAhead()
		b.Resume()
		t.detour = i
		switch c.mutant {
		case keepsUnique:
			b.replica = false
		case keepsPointer:
			b.sent = sent
		}
	case m.copied && i == t.detour && l == i: // the bank has given the link up
	case !b.Copied() && c.mutant == faithful:
		c.wrong(t, fmt.Sprintf("bank %d did not expect an acknowledgement", i))
	}
	return t
}

// fail returns the states after each failure that can happen now. Of a dead link, the receivers get
// any part of what was under way, the oldest messages first. Of a dead node, the receivers get all
// that the node has sent. The lines of one chip have one clock, so what left first arrives.
func (c *chain) fail(s *chainState) (out []*chainState) {
	if s.failed {
		return nil
	}
	down := []message{{down: true}}
	for i := range c.n - 1 {
		for f := range len(s.forward[i]) + 1 {
			for b := range len(s.back[i]) + 1 {
				t := s.clone()
				t.failed, t.link = true, i
				t.forward[i] = slices.Concat(t.forward[i][:f], down)
				t.back[i] = slices.Concat(t.back[i][:b], down)
				out = append(out, t)
			}
		}
	}
	for k := 1; k < c.n-1; k++ {
		lost := []int{0}
		if c.mutant == independent {
			lost = []int{0, 1, 2, 3}
		}
		for _, n := range lost {
			t := s.clone()
			t.failed, t.node, t.link = true, k, k-1
			t.forward[k-1], t.back[k] = nil, nil
			t.forward[k] = slices.Concat(t.forward[k][:max(0, len(t.forward[k])-n)], down)
			t.back[k-1] = slices.Concat(t.back[k-1], down)
			out = append(out, t)
		}
	}
	return out
}

// run searches all states. The result is false if the check has found a wrong state.
func (c *chain) run() bool {
	s := &chainState{banks: make([]*Bank, c.n+2), forward: make([][]message, c.n+3), back: make([][]message, c.n+3), node: -1, link: -1, detour: -1}
	for i := range s.banks {
		s.banks[i] = &Bank{}
	}
	head, _ := Head{X: 1, User: 9}.Encode()
	s.banks[0].TakeHead(NewFlit(HeadOriginal, head), false)
	for k := range c.body - 1 {
		s.banks[0].TakeBody(NewFlit(Data, uint64(100+k)))
	}
	s.banks[0].TakeBody(NewFlit(Tail, uint64(c.body)))
	s.banks[0].TakeToken(TokenUnique)
	c.states = everyorder.Search(s, c.visit, c.steps, c.end)
	return c.fault == ""
}

// visit checks a state. The result is false if a state was wrong.
func (c *chain) visit(s *chainState) bool {
	c.check(s)
	return c.fault == ""
}

// steps calls add with the state after each step. The result is false if nothing but a failure can
// happen.
func (c *chain) steps(s *chainState, add func(*chainState)) (moved bool) {
	step := func(t *chainState) {
		if t != nil {
			moved = true
			add(t)
		}
	}
	for i := range s.banks {
		step(c.send(s, i))
	}
	for l := range s.forward {
		step(c.deliverForward(s, l))
		step(c.deliverBack(s, l))
	}
	for _, t := range c.fail(s) {
		add(t)
	}
	return moved
}

// end checks a state in which nothing is under way: the packet was delivered exactly once, and no bank
// has a copy.
func (c *chain) end(s *chainState) {
	c.ends++
	for i := range s.banks {
		if s.banks[i].State != Idle && !s.dead(i) {
			c.wrong(s, fmt.Sprintf("a copy is left in bank %d", i))
		}
	}
	h := newHost(Place{})
	for _, e := range s.ejected {
		h.eject(PortProcessor, e.vc, e.flit)
	}
	want := make([]uint64, c.body-1)
	for k := range want {
		want[k] = uint64(100 + k)
	}
	if len(h.inbox) != 1 || h.Damaged > 0 || !slices.Equal(h.inbox[0].Words, want) {
		c.wrong(s, fmt.Sprintf("%d deliveries %v, %d damaged", len(h.inbox), h.inbox, h.Damaged))
		return
	}
	if h.inbox[0].Token == TokenReplica {
		c.replica++
		if !s.failed {
			c.wrong(s, "a replica token without a failure")
		}
	}
}

// check checks the invariants of RR §5 in every state. No copy is behind the token. As long as nothing
// has failed, there is at most one token. Each flit has two copies from its arrival at the second node
// to its arrival at the destination.
func (c *chain) check(s *chainState) {
	for i := range s.banks {
		if what := s.banks[i].check(); what != "" && c.mutant == faithful {
			c.wrong(s, what)
		}
	}
	if s.failed {
		return
	}
	tokens := 0
	for i := range c.n {
		if s.banks[i].State != Idle && s.banks[i].token != Padding || slices.ContainsFunc(s.forward[i], func(m message) bool { return m.flit.Kind.Token() }) {
			tokens++
			for k := range i {
				if s.banks[k].State != Idle {
					c.wrong(s, "a copy behind the token")
				}
			}
		}
	}
	if tokens > 1 {
		c.wrong(s, "two tokens without a failure")
	}
	for f := range c.body {
		copies, far := 0, s.banks[c.n-1].sent > f
		for i := range c.n {
			b := s.banks[i]
			if b.State != Idle && b.invalid <= f && f < b.received {
				copies++
			}
			if on := b.sent > f && (i == c.n-1 || s.banks[i+1].State == Idle || s.banks[i+1].received <= f); on && b.State != Idle && i < c.n-1 {
				copies++ // on the line
			}
		}
		if received := s.banks[1].received > f && s.banks[0].State == Routed; received && !far && copies < 2 {
			c.wrong(s, fmt.Sprintf("flit %d has %d copies", f, copies))
		}
	}
}

// TestEveryOrder moves a packet along chains of two to five nodes in every order of all steps. One link or
// one inner node fails at any moment, or nothing fails. With the flag
// -reliable.each below 100, the packets are longer.
func TestEveryOrder(t *testing.T) {
	most := []int{2: 2, 3: 2, 4: 1, 5: 1}
	if *each < 100 {
		most = []int{2: 3, 3: 3, 4: 2, 5: 1}
	}
	for n := 2; n < len(most); n++ {
		for body := 1; body <= most[n]; body++ {
			c := chain{n: n, body: body}
			if !c.run() {
				t.Errorf("%d nodes, %d flits: %s", n, body, c.fault)
			}
			t.Logf("%d nodes, %d data and tail flits: %d states, %d ends, %d with a replica token", n, body, c.states, c.ends, c.replica)
			if c.ends == 0 || c.replica == 0 {
				t.Errorf("%d nodes: %d ends, %d with a replica token", n, c.ends, c.replica)
			}
		}
	}
}

// TestMutants changes the protocol, and the check must find each change.
func TestMutants(t *testing.T) {
	for m := keepsUnique; m < numMutants; m++ {
		c := chain{n: 3, body: 2, mutant: m}
		if c.run() {
			t.Errorf("the check did not find change %d in %d states", m, c.states)
		} else {
			t.Logf("change %d, after %d states: %.120s", m, c.states, c.fault)
		}
	}
}
