package model

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"ttfabric/node/chip"
	"ttfabric/node/model/control"
	"ttfabric/router/topo"
	"ttfabric/router/topo/pick"
	"ttfabric/ttlink"
	"ttfabric/wire"
	"ttfabric/wire/capture"
	"ttfabric/wire/mono"
)

// MaxBreakpoints is the largest number of breakpoints of a model.
const MaxBreakpoints = 64

// lookEvery is the virtual time between two looks for a deadlock, and for an idle fabric.
const lookEvery = 100 * time.Microsecond

// kind is the kind of a condition.
type kind uint8

const (
	packet kind = iota
	channelFull
	linkState
	deadlock
	timeCome
	idle
)

// Condition says when a model stops. The zero Condition is not valid.
type Condition struct {
	text   string
	kind   kind
	chip   int // place of the chip; -1: any chip
	filter *capture.Filter
	links  []topo.Link
	up     bool
	after  time.Duration
}

// String returns the text of the condition.
func (c *Condition) String() string { return c.text }

// ParseCondition reads a condition; see [control.ConditionHelp].
func ParseCondition(t *topo.Topology, words []string) (*Condition, error) {
	c := &Condition{text: strings.Join(words, " "), chip: -1}
	bad := func(want string) (*Condition, error) {
		return nil, fmt.Errorf("condition %q: want %s", c.text, want)
	}
	at := func(words []string) error {
		if len(words) < 2 || words[0] != "at" {
			return fmt.Errorf("condition %q: want at CHIP", c.text)
		}
		n, err := wire.ParseFabricNodeID(words[1])
		if _, ok := t.Chip(n); err != nil || !ok {
			return fmt.Errorf("condition %q: %q is no chip of %s", c.text, words[1], t)
		}
		c.chip = t.Index(n)
		return nil
	}
	if len(words) == 0 {
		return bad("packet, channel, link, deadlock, time or idle")
	}
	switch n := len(words); {
	case words[0] == "packet":
		c.kind = packet
		if err := at(words[1:]); err != nil {
			return nil, err
		}
		var err error
		if c.filter, err = capture.ParseFilter(cmp.Or(strings.Join(words[3:], " "), "data")); err != nil {
			return nil, err
		}
	case words[0] == "channel" && n >= 2 && words[1] == "full":
		if c.kind = channelFull; n == 2 {
			break
		}
		if n != 4 {
			return bad("channel full, or channel full at CHIP")
		}
		if err := at(words[2:]); err != nil {
			return nil, err
		}
	case words[0] == "link":
		if c.kind = linkState; n != 3 || words[2] != "up" && words[2] != "down" {
			return bad("link LINK up, or link LINK down")
		}
		c.up = words[2] == "up"
		var err error
		if c.links, err = pick.Links(t, words[1:2]); err != nil {
			return nil, err
		}
	case words[0] == "time":
		d := time.Duration(-1)
		if n == 2 {
			if x, err := time.ParseDuration(words[1]); err == nil {
				d = x
			}
		}
		if c.kind, c.after = timeCome, d; d < 0 {
			return bad("time and a duration, such as time 20ms")
		}
	case n == 1 && words[0] == "deadlock":
		c.kind = deadlock
	case n == 1 && words[0] == "idle":
		c.kind = idle
	default:
		return bad("packet, channel full, link, deadlock, time or idle")
	}
	return c, nil
}

// breakpoint is a condition at which a model stops.
type breakpoint struct {
	control.Breakpoint
	c *Condition
}

// Hit says which condition stopped a model.
type Hit = control.Hit

// stops are the conditions at which a machine stops.
type stops struct {
	points  []*breakpoint
	last    int         // number of the latest breakpoint
	until   *breakpoint // condition of the run under way; nil: none
	tracker capture.Tracker
	hit     *Hit // what happened in the present event
}

// all returns the breakpoints and the condition of the run under way.
func (s *stops) all() []*breakpoint {
	if s.until != nil {
		return append(slices.Clip(s.points), s.until)
	}
	return s.points
}

// happens notes that a condition holds. The first condition of an event counts.
func (s *stops) happens(m *Machine, b *breakpoint, what string, circle []Wait) {
	if s.hit == nil {
		b.Hits++
		s.hit = &Hit{Breakpoint: b.ID, Condition: b.Condition, Nanos: int64(m.Elapsed()), What: what, Circle: circle}
	}
}

func (s *stops) received(m *Machine, i int, ch wire.Channel, b []byte) {
	if len(s.points) == 0 && s.until == nil {
		return
	}
	var sight *capture.Sight
	for _, p := range s.all() {
		c := p.c
		if c.kind != packet || c.chip != i {
			continue
		}
		if sight == nil {
			at := wire.PortID{Node: m.topology.Chips[i].Node, Channel: ch}
			sight = &capture.Sight{Port: at, Peer: m.peer(at), Dir: capture.DirIn, Data: b, Length: len(b)}
			s.tracker.Look(sight)
		}
		if c.filter.Takes(sight) {
			what := fmt.Sprintf("%s channel %d received a frame of %s", sight.Port.Node, ch, sight.Peer.Node)
			if h := sight.Head; h != nil {
				what += fmt.Sprintf(", with a %s of %s to %s", h.Type(), h.Src(), h.Dst())
			}
			s.happens(m, p, what, nil)
		}
	}
}

// peer returns the port at the other end of a cable.
func (m *Machine) peer(p wire.PortID) wire.PortID {
	for _, q := range m.topology.Ports(p.Node) {
		if q.Local == p {
			return q.Peer
		}
	}
	return wire.PortID{}
}

func (s *stops) event(m *Machine, e *chip.Event) {
	if e.Link.Kind != ttlink.EventUp && e.Link.Kind != ttlink.EventDown {
		return
	}
	for _, p := range s.all() {
		c := p.c
		if c.kind != linkState || c.up != (e.Link.Kind == ttlink.EventUp) {
			continue
		}
		for _, l := range c.links {
			if l.A == e.Local || l.B == e.Local {
				s.happens(m, p, fmt.Sprintf("the link of %s channel %d to %s is %s", e.Local.Node, e.Local.Channel, e.Peer.Node, e.Link.Kind), nil)
			}
		}
	}
}

func (s *stops) stepped(m *Machine, i int) {
	for _, p := range s.all() {
		if c := p.c; c.kind == channelFull && (c.chip < 0 || c.chip == i) {
			if what := m.fullAt(i); what != "" {
				s.happens(m, p, what, nil)
			}
		}
	}
}

// fullAt names a full channel of a chip; "": the chip has none.
func (m *Machine) fullAt(i int) string {
	c := m.Chip(i)
	if c == nil || !c.InFlight() {
		return ""
	}
	full := map[room]*filled{}
	for _, at := range fullChannels(c, m.Now(), full, nil) {
		return full[at].String()
	}
	return ""
}

// looks checks the conditions that no event announces.
func (s *stops) looks(m *Machine) {
	for _, p := range s.all() {
		switch p.c.kind {
		case deadlock:
			if w := m.Circle(); w != nil {
				s.happens(m, p, deadlockText(w), w)
			}
		case idle:
			if m.Quiet() {
				s.happens(m, p, "no request is open, and no packet is under way", nil)
			}
		}
	}
}

func deadlockText(w []Wait) string {
	return fmt.Sprintf("%d full channels wait for each other in a circle", len(w))
}

// Elapsed returns the virtual time since the fabric was up.
func (m *Machine) Elapsed() time.Duration { return m.Now().Sub(m.begin) }

// Break adds a breakpoint.
func (m *Machine) Break(c *Condition) (control.Breakpoint, error) {
	if len(m.stops.points) >= MaxBreakpoints {
		return control.Breakpoint{}, fmt.Errorf("the model has %d breakpoints, which is the largest number; delete one", MaxBreakpoints)
	}
	m.stops.last++
	b := &breakpoint{control.Breakpoint{ID: m.stops.last, Condition: c.text}, c}
	m.stops.points = append(m.stops.points, b)
	return b.Breakpoint, nil
}

// Breakpoints lists the breakpoints.
func (m *Machine) Breakpoints() []control.Breakpoint {
	out := []control.Breakpoint{}
	for _, b := range m.stops.points {
		out = append(out, b.Breakpoint)
	}
	return out
}

// Delete removes the breakpoint with the number in text, or all if text is "all".
func (m *Machine) Delete(text string) error {
	if text == "all" {
		m.stops.points = nil
		return nil
	}
	id, err := strconv.Atoi(text)
	i := slices.IndexFunc(m.stops.points, func(b *breakpoint) bool { return b.ID == id })
	if err != nil || i < 0 {
		return fmt.Errorf("breakpoint %q: want the number of a breakpoint, or all", text)
	}
	m.stops.points = slices.Delete(m.stops.points, i, i+1)
	return nil
}

// Until makes the machine stop at a condition, in addition to the breakpoints. A nil condition ends the effect of the
// former call. If the condition holds already, Until returns what holds.
func (m *Machine) Until(c *Condition) *Hit {
	if m.stops.until = nil; c == nil {
		return nil
	}
	b := &breakpoint{control.Breakpoint{Condition: c.text}, c}
	hit := func(what string, circle []Wait) *Hit {
		return &Hit{Condition: c.text, Nanos: int64(m.Elapsed()), What: what, Circle: circle}
	}
	switch c.kind {
	case deadlock:
		if w := m.Circle(); w != nil {
			return hit(deadlockText(w), w)
		}
	case idle:
		if m.Quiet() {
			return hit("no request is open, and no packet is under way", nil)
		}
	case timeCome:
		if m.Elapsed() >= c.after {
			return hit("this time has come", nil)
		}
	case linkState:
		for _, l := range c.links {
			if up := m.LinkUp(l); up == c.up {
				return hit(fmt.Sprintf("the link %s-%s is so already", l.A, l.B), nil)
			}
		}
	}
	m.stops.until = b
	return nil
}

// timed returns the earliest instant at which a condition of time holds, and its breakpoint.
func (s *stops) timed(m *Machine) (at mono.Time, b *breakpoint) {
	at = mono.Never
	for _, p := range s.all() {
		if c := p.c; c.kind == timeCome {
			if t := m.begin.Add(c.after); t > m.Now() && t < at {
				at, b = t, p
			}
		}
	}
	return at, b
}

// Go carries out events up to an instant, but at most a number of events. If a condition stops the machine, Go returns
// the hit. Go also returns after the call of a function of [Machine.After]. If a chip is wrong, the error is a [*sim.Failure].
func (m *Machine) Go(until mono.Time, events int) (*Hit, error) {
	s := &m.stops
	s.hit, m.halted = nil, false
	for first := m.Events(); m.Events()-first < events; {
		at, timed := s.timed(m)
		end := mono.Min(until, at)
		looks := slices.ContainsFunc(s.all(), func(p *breakpoint) bool { return p.c.kind == deadlock || p.c.kind == idle })
		look := m.begin.Add((m.Elapsed()/lookEvery + 1) * lookEvery)
		if looks {
			end = mono.Min(end, look)
		}
		if m.tick != nil {
			m.tick(max(m.Now(), mono.Min(end, m.Next())))
		}
		more, err := m.Once(end)
		if err != nil {
			return nil, err
		}
		if looks && m.Now() >= look {
			s.looks(m)
		}
		if timed != nil && m.Now() >= at && s.hit == nil {
			s.happens(m, timed, "this time has come", nil)
		}
		if s.hit != nil {
			s.until = nil
			return s.hit, nil
		}
		if m.halted || !more && m.Now() >= until {
			return nil, nil
		}
	}
	return nil, nil
}
