package reliable

import (
	"fmt"
	"slices"
	"testing"

	"ttfabric/router/reliable/everyorder"
)

// This file moves one packet along a chain of copies in every order of all steps, with one failure at
// any moment. The copies are those of the router.
//
// A chain has the copies 0 (source) to n-1 (destination). The copy before the failure sends again by a
// detour: copy n, then copy n+1 at the destination.

// Messages of a line.
const (
	msgData byte = 1 + iota
	msgStored
	msgCopied
	msgUnique
	msgReplica
	msgDown
)

// chainState is one state of the search.
type chainState struct {
	copies        []Copy
	forward, back []string // messages of the lines; line i joins copy i with the next, and line n+2 is the detour
	came          string   // tokens with which the packet came to the destination
	accepted      bool
	failed        bool
	node, link    int // number of the dead copy, and of the dead line behind it, or -1
	detour        int // copy that sends by the detour, or -1
}

// Key returns the state as text.
func (s *chainState) Key() string {
	flag := func(vs ...bool) (b byte) {
		for i, v := range vs {
			if v {
				b |= 1 << i
			}
		}
		return b
	}
	var b []byte
	for _, c := range s.copies {
		b = append(b, byte(c.State), byte(c.token), flag(c.stored, c.copied, c.told, c.replica))
	}
	for _, ls := range [][]string{s.forward, s.back, {s.came}} {
		for _, l := range ls {
			b = append(append(b, l...), 0)
		}
	}
	return string(append(b, flag(s.accepted, s.failed), byte(s.node), byte(s.link), byte(s.detour)))
}

// mutant is a change of the protocol that the check must find.
type mutant uint8

const (
	faithful    mutant = iota
	keepsUnique        // the token stays unique after the packet was sent again
	noToken            // the copy behind a failed link makes no token
	early              // a router says "copied" when the packet comes, and not when the next router has stored it
	oneHop             // a copy goes as soon as the next router has stored the packet
	numMutants
)

// chain is the check of one chain.
type chain struct {
	n       int
	mutant  mutant
	fault   string // first wrong state
	states  int
	ends    int // states without a next step
	replica int // ends at which the packet came with a replica token
}

func (c *chain) wrong(s *chainState, what string) {
	if c.fault == "" {
		c.fault = fmt.Sprintf("%s: %+v", what, *s)
	}
}

// clone returns a copy of the state.
func (s *chainState) clone() *chainState {
	t := *s
	t.copies, t.forward, t.back = slices.Clone(s.copies), slices.Clone(s.forward), slices.Clone(s.back)
	return &t
}

// line returns the number of the line by which copy i sends.
func (c *chain) line(s *chainState, i int) int {
	if i == s.detour {
		return c.n + 2
	}
	return i
}

// endsOf returns the copies at the ends of a line.
func (c *chain) endsOf(s *chainState, line int) (from, to int) {
	if line == c.n+2 {
		return s.detour, c.n
	}
	return line, line + 1
}

// dead reports whether a line carries nothing more.
func (c *chain) dead(s *chainState, line int) bool {
	from, to := c.endsOf(s, line)
	return s.failed && (line == s.link || from == s.node || to == s.node)
}

func (c *chain) final(i int) bool { return i == c.n-1 || i == c.n+1 }

// say puts a message on a line, unless the line is dead.
func (c *chain) say(s *chainState, lines []string, line int, m byte) {
	if !c.dead(s, line) {
		lines[line] += string(m)
	}
}

// tell sends "copied" to the copy before copy i.
func (c *chain) tell(s *chainState, i int) {
	switch {
	case i == c.n:
		c.say(s, s.back, c.n+2, msgCopied)
	case i > 0:
		c.say(s, s.back, i-1, msgCopied)
	}
}

// settle lets the token leave copy i.
func (c *chain) settle(s *chainState, i int) {
	t := s.copies[i].Leave()
	switch {
	case t == NoToken:
	case c.final(i):
		s.came += string(byte(t))
	default:
		c.say(s, s.forward, c.line(s, i), msgUnique+byte(t-Unique))
	}
}

// steps calls add with the state after each step. The result is false if nothing but a failure can
// happen.
func (c *chain) steps(s *chainState, add func(*chainState)) (moved bool) {
	for i := range s.copies {
		if s.copies[i].State != Held || s.failed && i == s.node {
			continue
		}
		moved = true
		t := s.clone()
		t.copies[i].Send()
		c.say(t, t.forward, c.line(t, i), msgData)
		add(t)
	}
	for l := range s.forward {
		if s.forward[l] != "" {
			moved = true
			add(c.forwardStep(s.clone(), l))
		}
		if s.back[l] != "" {
			moved = true
			add(c.backStep(s.clone(), l))
		}
	}
	if !s.failed {
		c.fail(s, add)
	}
	return moved
}

// forwardStep takes the oldest message of a line to the copy at its end.
func (c *chain) forwardStep(s *chainState, l int) *chainState {
	m := s.forward[l][0]
	s.forward[l] = s.forward[l][1:]
	_, to := c.endsOf(s, l)
	if s.failed && to == s.node {
		return s
	}
	x, ok := &s.copies[to], true
	switch m {
	case msgData:
		ok = x.Take(c.final(to))
		c.say(s, s.back, l, msgStored)
		if c.mutant == early && !c.final(to) && x.tell() {
			c.tell(s, to)
		}
	case msgUnique, msgReplica:
		ok = x.TakeToken(Unique + Token(m-msgUnique))
	case msgDown:
		if c.mutant != noToken {
			x.FailBehind()
		}
	}
	if !ok {
		c.wrong(s, fmt.Sprintf("copy %d refuses message %d", to, m))
	}
	c.settle(s, to)
	return s
}

// backStep takes the oldest message of a line back to the copy at its start.
func (c *chain) backStep(s *chainState, l int) *chainState {
	m := s.back[l][0]
	s.back[l] = s.back[l][1:]
	i, to := c.endsOf(s, l)
	if s.failed && i == s.node {
		return s
	}
	x := &s.copies[i]
	switch m {
	case msgStored:
		s.accepted = s.accepted || i == 0
		if x.Stored(c.final(to) || c.mutant == oneHop) {
			c.tell(s, i)
		}
	case msgCopied:
		if !x.Copied() && c.mutant == faithful {
			c.wrong(s, fmt.Sprintf("copy %d did not expect \"copied\"", i))
		}
	case msgDown:
		x.FailAhead()
		s.detour = i
		if c.mutant == keepsUnique {
			x.replica = false
		}
	}
	c.settle(s, i)
	return s
}

// fail adds the states after each failure that can happen now. The receivers get any part of what was
// under way on a line, the oldest messages first. Each line of a dead router may lose another part.
func (c *chain) fail(s *chainState, add func(*chainState)) {
	cut := func(t *chainState, ahead, behind int) {
		for f := range len(s.forward[ahead]) + 1 {
			for b := range len(s.back[behind]) + 1 {
				u := t.clone()
				u.forward[ahead] = s.forward[ahead][:f] + string(msgDown)
				u.back[behind] = s.back[behind][:b] + string(msgDown)
				add(u)
			}
		}
	}
	for i := range c.n - 1 {
		t := s.clone()
		t.failed, t.link = true, i
		cut(t, i, i)
	}
	for k := 1; k < c.n-1; k++ {
		t := s.clone()
		t.failed, t.node, t.link = true, k, k-1
		t.forward[k-1], t.back[k] = "", ""
		cut(t, k, k-1)
	}
}

// check checks the invariants of RR §5.1 in every state without a failure. Two routers have an accepted
// packet until the destination has stored the packet. No copy is behind the token.
func (c *chain) check(s *chainState) bool {
	if s.failed {
		return c.fault == ""
	}
	copies := 0
	for i := range c.n {
		if s.copies[i].State != Free {
			copies++
		}
		if s.copies[i].token == NoToken && !(i > 0 && (slices.Contains([]byte(s.forward[i-1]), msgUnique) || slices.Contains([]byte(s.forward[i-1]), msgReplica))) {
			continue
		}
		for k := range i {
			if s.copies[k].State != Free {
				c.wrong(s, "a copy behind the token")
			}
		}
	}
	if s.accepted && copies < 2 && s.came == "" && s.copies[c.n-1].State == Free {
		c.wrong(s, "an accepted packet has one copy")
	}
	return c.fault == ""
}

// end checks a state in which nothing is under way: the packet came exactly once, and no copy is left.
func (c *chain) end(s *chainState) {
	c.ends++
	for i := range s.copies {
		if s.copies[i].State != Free && i != s.node {
			c.wrong(s, fmt.Sprintf("a copy is left in router %d", i))
		}
	}
	unique, replica := 0, 0
	for _, t := range []byte(s.came) {
		if Token(t) == Unique {
			unique++
		} else {
			replica++
		}
	}
	if unique > 1 || unique == 1 && replica > 0 || unique+replica == 0 || replica > 0 && !s.failed {
		c.wrong(s, fmt.Sprintf("the packet came %d times with a unique and %d times with a replica token", unique, replica))
	}
	if replica > 0 {
		c.replica++
	}
}

// run searches all states. The result is false if a state was wrong.
func (c *chain) run() bool {
	s := &chainState{copies: make([]Copy, c.n+2), forward: make([]string, c.n+3), back: make([]string, c.n+3), node: -1, link: -1, detour: -1}
	s.copies[0].Inject()
	c.states = everyorder.Search(s, c.check, c.steps, c.end)
	return c.fault == ""
}

// TestEveryOrder moves a packet along chains of two to five routers in every order of all steps. One
// link or one router between the ends fails at any moment, or nothing fails.
func TestEveryOrder(t *testing.T) {
	for n := 2; n <= 5; n++ {
		c := chain{n: n}
		if !c.run() {
			t.Errorf("%d routers: %s", n, c.fault)
		}
		t.Logf("%d routers: %d states, %d ends, %d with a replica token", n, c.states, c.ends, c.replica)
		if c.ends == 0 || c.replica == 0 {
			t.Errorf("%d routers: %d ends, %d with a replica token", n, c.ends, c.replica)
		}
	}
}

// TestMutants changes the protocol, and the check must find each change.
func TestMutants(t *testing.T) {
	for m := keepsUnique; m < numMutants; m++ {
		c := chain{n: 4, mutant: m}
		if c.run() {
			t.Errorf("the check did not find change %d in %d states", m, c.states)
		} else {
			t.Logf("change %d, after %d states: %.80s", m, c.states, c.fault)
		}
	}
}
