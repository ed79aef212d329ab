package control

import (
	"cmp"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"ttfabric/router/topo"
	"ttfabric/wire"
	"ttfabric/wire/mono"
	"ttfabric/wire/tracetest"
)

var rewriteTraces = flag.Bool("rewrite", false, "write the traces of testdata/traces anew, to be looked at")

// TestTraces runs the scripts of testdata/traces and compares what the chips
// of a machine tell each other of their ports, and what each plans its tables
// without, with what stands below the line. A script has one command per line:
//
//	machine line:3 hold=120ms boot=10s   makes the machine, with all links down
//	up all, up M0D0-M0D1       links come up, at both ends
//	down M0D0-M0D1, down all   links go down, at both ends
//	run 200ms                  lets time pass
//	avoid M0D0/1, use M0D0/1   an operator takes a port out of service, or gives it back
//	kill M0D2                  the chip is gone: its links go down at the other ends, and it says nothing more
//	start M0D2                 the chip starts anew and knows nothing; its links stay down
//	hear M0D0 M0D2 7 1,4       gossip brings M0D0 version 7 of M0D2: channels 1 and 4 are out of service, - for none
//	out                        what each chip holds to be out of service
//
// A word takes 1 ms to the neighbour, and is lost where the link goes down
// meanwhile. The trace has a line where a chip tells a neighbour something,
// where a chip says something new of itself, and where a chip plans.
func TestTraces(t *testing.T) {
	tracetest.Run(t, *rewriteTraces, func(t *testing.T, trace *tracetest.Trace) tracetest.Machine {
		return &tracer{Trace: trace, t: t, now: 1, up: map[wire.PortID]bool{}}
	})
}

// cableDelay is how long a word takes from a chip to its neighbour.
const cableDelay = time.Millisecond

// tracer is the chips of a machine, and the words under way between them.
type tracer struct {
	*tracetest.Trace
	t     *testing.T
	now   mono.Time
	m     *topo.Topology
	cfg   Config     // of every chip, but for its name and ports
	chips []*Control // nil: killed
	said  []wire.LinkState
	up    map[wire.PortID]bool
	sent  []message // in the order of arrival
}

// message is words under way to the port of a chip.
type message struct {
	at    mono.Time
	to    topo.Port // as its chip sees it
	words []wire.LinkState
}

// Now is the time since the script began.
func (x *tracer) Now() time.Duration { return time.Duration(x.now - 1) }

// Do performs one command of a script.
func (x *tracer) Do(f []string) error {
	if (f[0] == "machine") != (x.m == nil) || len(f) < 2 && f[0] != "out" {
		return fmt.Errorf("want the machine first, and once, and what each command is for")
	}
	switch f[0] {
	case "machine":
		return x.machine(f[1], f[2:])
	case "up", "down":
		return x.links(f[1], f[0] == "up")
	case "run":
		d, err := time.ParseDuration(f[1])
		if err == nil {
			x.until(x.now.Add(d))
		}
		return err
	case "avoid", "use":
		i, k, err := x.port(f[1])
		if err == nil {
			x.chips[i].Avoid(x.now, k, f[0] == "avoid")
		}
		return err
	case "kill", "start":
		i, err := x.chip(f[1], f[0] == "start")
		if err != nil {
			return err
		}
		x.chips[i] = nil
		for _, p := range x.m.Ports(x.m.Chips[i].Node) {
			x.set(p.Local, p.Peer, false)
		}
		if f[0] == "start" {
			x.start(i)
		}
	case "hear":
		return x.hear(f[1:])
	case "out":
		for i, c := range x.chips {
			if c != nil {
				x.Say("   %s holds out of service: %s", x.m.Chips[i].Node, outOf(c))
			}
		}
	default:
		return fmt.Errorf("no such command")
	}
	return nil
}

func (x *tracer) machine(name string, options []string) (err error) {
	x.cfg = Config{Hold: hold, Boot: boot}
	for _, o := range options {
		name, v, _ := strings.Cut(o, "=")
		switch name {
		case "hold":
			x.cfg.Hold, err = time.ParseDuration(v)
		case "boot":
			x.cfg.Boot, err = time.ParseDuration(v)
		default:
			err = fmt.Errorf("%s: no such option", o)
		}
		if err != nil {
			return err
		}
	}
	if x.m, err = topo.Named(name); err != nil {
		return err
	}
	x.chips, x.said = make([]*Control, len(x.m.Chips)), make([]wire.LinkState, len(x.m.Chips))
	for i := range x.chips {
		x.start(i)
	}
	return nil
}

// start starts a chip anew.
func (x *tracer) start(i int) {
	cfg := x.cfg
	cfg.Self = x.m.Chips[i].Node
	cfg.Ports = x.m.Ports(cfg.Self)
	x.chips[i], x.said[i] = New(x.now, cfg), wire.LinkState{Node: cfg.Self}
}

// chip finds a chip that runs, or, if it is to start, any.
func (x *tracer) chip(s string, start bool) (int, error) {
	n, err := wire.ParseFabricNodeID(s)
	if err != nil {
		return 0, err
	}
	i := slices.IndexFunc(x.m.Chips, func(c topo.Chip) bool { return c.Node == n })
	if i < 0 || x.chips[i] == nil && !start {
		return 0, fmt.Errorf("%s: there is no such chip", s)
	}
	return i, nil
}

// port reads a port, as M0D0/1, and finds its number at its chip.
func (x *tracer) port(s string) (chip, port int, err error) {
	name, channel, _ := strings.Cut(s, "/")
	if chip, err = x.chip(name, false); err != nil {
		return 0, 0, err
	}
	for k, p := range x.m.Ports(x.m.Chips[chip].Node) {
		if strconv.Itoa(int(p.Local.Channel)) == channel {
			return chip, k, nil
		}
	}
	return 0, 0, fmt.Errorf("%s: there is no such port", s)
}

// links brings links up or down at both ends, named as in [topo.Topology.SelectLinks].
func (x *tracer) links(which string, up bool) error {
	links, err := x.m.SelectLinks([]string{which})
	for _, l := range links {
		x.set(l.A, l.B, up)
	}
	return err
}

// set says at both ends that a link came up or went down. A link to a chip that is gone stays down.
func (x *tracer) set(a, b wire.PortID, up bool) {
	ends := []*Control{x.control(a), x.control(b)}
	up = up && ends[0] != nil && ends[1] != nil
	for i, p := range []wire.PortID{a, b} {
		x.up[p] = up
		if c := ends[i]; c != nil {
			c.SetPort(x.now, slices.IndexFunc(x.m.Ports(p.Node), func(q topo.Port) bool { return q.Local == p }), up)
		}
	}
}

// control is the chip at an end of a cable; nil if it is gone.
func (x *tracer) control(p wire.PortID) *Control {
	return x.chips[slices.IndexFunc(x.m.Chips, func(c topo.Chip) bool { return c.Node == p.Node })]
}

// hear has gossip bring a word to a chip. The word's chip need not be in the machine.
func (x *tracer) hear(f []string) error {
	if len(f) != 4 {
		return fmt.Errorf("want who hears, of whom, the version and the channels")
	}
	i, err := x.chip(f[0], false)
	if err != nil {
		return err
	}
	of, err := wire.ParseFabricNodeID(f[1])
	if err != nil {
		return err
	}
	version, err := strconv.ParseUint(f[2], 10, 32)
	if err != nil {
		return err
	}
	w := wire.LinkState{Node: of, Version: uint32(version)}
	for _, s := range strings.FieldsFunc(f[3], func(r rune) bool { return r == ',' || r == '-' }) {
		ch, err := strconv.ParseUint(s, 10, 4)
		if err != nil {
			return err
		}
		w.Out |= 1 << ch
	}
	x.chips[i].Hear(x.now, []wire.LinkState{w}, x.has)
	return nil
}

// has reports whether a chip is in the machine.
func (x *tracer) has(n wire.FabricNodeID) bool {
	_, ok := x.m.Chip(n)
	return ok
}

// until lets time pass: words arrive, and the chips do what is due.
func (x *tracer) until(stop mono.Time) {
	for {
		x.Tell()
		next := stop
		if len(x.sent) > 0 {
			next = mono.Min(next, x.sent[0].at)
		}
		for _, c := range x.chips {
			if c != nil {
				if at, ok := c.Deadline(); ok {
					next = mono.Min(next, at)
				}
			}
		}
		if next.Before(x.now) {
			x.t.Fatalf("at %v a chip asks for %v", x.now, next)
		}
		x.now = next
		for ; len(x.sent) > 0 && x.sent[0].at == x.now; x.sent = x.sent[1:] {
			m := x.sent[0]
			if !x.up[m.to.Local] {
				x.Say("   LOST on the way from %s to %s: %s", m.to.Peer.Node, m.to.Local.Node, wordsOf(m.words))
				continue
			}
			x.control(m.to.Local).Hear(x.now, m.words, x.has)
		}
		for i, c := range x.chips {
			if c == nil {
				continue
			}
			if at, ok := c.Deadline(); !ok || at.After(x.now) {
				continue
			}
			if c.Tick(x.now) {
				x.Say("   %s plans without: %s", x.m.Chips[i].Node, outOf(c))
			}
			if at, ok := c.Deadline(); ok && !at.After(x.now) {
				x.t.Fatalf("after Tick at %v %s asks for %v", x.now, x.m.Chips[i].Node, at)
			}
		}
		if x.now == stop {
			x.Tell()
			return
		}
	}
}

// Tell writes down what chips say of themselves that is new, and sends what they owe their neighbours.
func (x *tracer) Tell() {
	for i, c := range x.chips {
		if c == nil {
			continue
		}
		if w := c.Self(); w != x.said[i] {
			x.said[i] = w
			x.Say("   %s says: %s", w.Node, wordsOf([]wire.LinkState{w}))
		}
	}
	for i, c := range x.chips {
		if c == nil {
			continue
		}
		for k, p := range x.m.Ports(x.m.Chips[i].Node) {
			for c.Owes(k) {
				words, upTo := c.Tell(k)
				if len(words) == 0 {
					x.t.Fatalf("%s owes %s words and tells none", p.Local.Node, p.Peer.Node)
				}
				c.Told(k, upTo)
				x.Say("   %s/%d to %s: %s", p.Local.Node, p.Local.Channel, p.Peer.Node, wordsOf(words))
				x.sent = append(x.sent, message{x.now.Add(cableDelay), topo.Port{Local: p.Peer, Peer: p.Local}, words})
			}
		}
	}
}

// wordsOf renders words: chip, version and the channels that are out of service.
func wordsOf(words []wire.LinkState) string {
	var all []string
	for _, w := range words {
		out := ""
		for ch := range wire.MaxChannels {
			if w.Out>>ch&1 != 0 {
				out += fmt.Sprintf(" %d", ch)
			}
		}
		all = append(all, fmt.Sprintf("%s v%d out%s", w.Node, w.Version, cmp.Or(out, " none")))
	}
	return strings.Join(all, "; ")
}

// outOf renders the ports that a chip holds to be out of service.
func outOf(c *Control) string {
	ports := c.Out()
	slices.SortFunc(ports, byPort)
	var all []string
	for _, p := range ports {
		all = append(all, fmt.Sprintf("%s/%d", p.Node, p.Channel))
	}
	return cmp.Or(strings.Join(all, " "), "nothing")
}
