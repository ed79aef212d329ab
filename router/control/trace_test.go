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
	"ttfabric/router/topo/pick"
	"ttfabric/wire"
	"ttfabric/wire/mono"
	"ttfabric/wire/tracetest"
)

var rewriteTraces = flag.Bool("rewrite", false, "write new outcomes into testdata/traces, for a person to check")

// TestTraces runs the scripts of testdata/traces. TestTraces compares what happens with the outcome
// below the line of dashes in each script's file. A script is about the chips of one machine. The
// outcome shows the link states that the chips send each other, and the ports that each chip's
// tables avoid. A script has one command per line:
//
//	machine line:3 hold=120ms boot=10s   make the machine, with all links down
//	up all, up M0D0-M0D1       links come up, at both ends
//	down M0D0-M0D1, down all   links go down, at both ends
//	run 200ms                  time passes
//	avoid M0D0/1, use M0D0/1   an operator takes a port out of service, or puts it back into service
//	by M0D0/1 M0D0/0           the cable of the second port carries the frames of the first port's link
//	poor M0D0/1, sound M0D0/1  the own cable of the port is unreliable, or reliable again
//	assign M0D0/1 M0D0/0       an operator makes the second port the fallback of the first
//	fallback M0D0/1            write down the fallback of the port
//	kill M0D2                  the chip stops, and its links go down at the other ends
//	start M0D2                 the chip starts without any link state; its links stay down
//	apart no, apart yes        from now on, the chips have routes to each other, or have none
//	gone M0D0/1, doubt M0D0/1  evidence that the port has lost its peer or its cable begins (gone) or ends (doubt)
//	hear M0D0 M0D2 7 1,4       gossip brings M0D0 a link state of M0D2: version 7, channels 1 and 4 out of service
//	hear M0D0 M0D2 8 -         gossip brings M0D0 a link state of M0D2: version 8, no channel out of service
//	out                        write down which ports routes must avoid, according to each chip
//
// A message takes 1 ms to the neighbour. A message is lost if the link is down when the message
// arrives. The outcome has a line whenever a chip sends link states to a neighbour, makes a new link
// state of its own, or plans tables. Further lines say what became of a command.
func TestTraces(t *testing.T) {
	tracetest.Run(t, *rewriteTraces, func(t *testing.T, trace *tracetest.Trace) tracetest.Machine {
		return &tracer{Trace: trace, t: t, now: 1, up: map[wire.PortID]bool{}}
	})
}

// cableDelay is how long a message takes from a chip to its neighbour.
const cableDelay = time.Millisecond

// tracer is the chips of a machine, and the messages under way between them.
type tracer struct {
	*tracetest.Trace
	t       *testing.T
	now     mono.Time
	m       *topo.Topology
	cfg     Config     // configuration of every chip, without the chip's name and ports
	chips   []*Control // by index in m.Chips; nil: the chip was killed
	said    []wire.LinkState
	up      map[wire.PortID]bool
	reaches bool      // each chip has routes to all others
	sent    []message // messages under way, in the order of arrival
}

// message is a list of link states under way to a chip.
type message struct {
	at    mono.Time
	to    topo.Port // the port by which the message arrives; Local is the receiver's port
	words []wire.LinkState
}

// Now returns the time since the script began.
func (x *tracer) Now() time.Duration { return time.Duration(x.now - 1) }

// Do performs one command of a script.
func (x *tracer) Do(f []string) error {
	if (f[0] == "machine") != (x.m == nil) || len(f) < 2 && f[0] != "out" {
		return fmt.Errorf("the first command, and only the first, must be machine; every command but out needs an argument")
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
	case "by", "assign", "poor", "sound", "fallback":
		return x.fallback(f)
	case "apart":
		x.reaches = f[1] == "no"
	case "gone", "doubt":
		i, k, err := x.port(f[1])
		if err == nil {
			x.chips[i].SetGone(x.now, k, f[0] == "gone")
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
				x.Say("   %s avoids: %s", x.m.Chips[i].Node, outOf(c))
			}
		}
	default:
		return fmt.Errorf("%s: no such command", f[0])
	}
	return nil
}

// fallback performs a command about the fallback of a port.
func (x *tracer) fallback(f []string) error {
	i, k, err := x.port(f[1])
	if err != nil {
		return err
	}
	other := k
	if len(f) > 2 {
		if _, other, err = x.port(f[2]); err != nil {
			return err
		}
	}
	c := x.chips[i]
	switch f[0] {
	case "by":
		c.SetPath(x.now, k, other)
	case "assign":
		if !c.Assign(k, other) {
			x.Say("   %s: %s is refused", f[1], f[2])
		}
	case "poor", "sound":
		c.SetReliable(k, f[0] == "sound")
	case "fallback":
		if to, ok := c.Fallback(k); ok {
			x.Say("   %s: %s", f[1], c.ports[to].Local.Short())
		} else {
			x.Say("   %s: none", f[1])
		}
	}
	return nil
}

func (x *tracer) machine(name string, options []string) (err error) {
	x.cfg = Config{Hold: hold, Boot: boot, Confirm: confirm, Reaches: func(wire.FabricNodeID) bool { return x.reaches }}
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

// start starts or restarts chip i, without any link states of other chips.
func (x *tracer) start(i int) {
	cfg := x.cfg
	cfg.Self = x.m.Chips[i].Node
	cfg.Ports = x.m.Ports(cfg.Self)
	x.chips[i], x.said[i] = New(x.now, cfg), wire.LinkState{Node: cfg.Self}
}

// chip returns the index of the chip with the name s. If "start" is false and the chip does not run,
// chip returns an error.
func (x *tracer) chip(s string, start bool) (int, error) {
	n, err := wire.ParseFabricNodeID(s)
	if err != nil {
		return 0, err
	}
	i := slices.IndexFunc(x.m.Chips, func(c topo.Chip) bool { return c.Node == n })
	if i < 0 || x.chips[i] == nil && !start {
		return 0, fmt.Errorf("%s: the machine has no such chip, or the chip was killed", s)
	}
	return i, nil
}

// port reads a port, such as M0D0/1. port returns the index of the port's chip, and the index of
// the port among that chip's ports.
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
	return 0, 0, fmt.Errorf("%s: the chip has no such port", s)
}

// links brings links up or down at both ends. The links are named as in
// [pick.Links].
func (x *tracer) links(which string, up bool) error {
	links, err := pick.Links(x.m, []string{which})
	for _, l := range links {
		x.set(l.A, l.B, up)
	}
	return err
}

// set tells the chips at both ends that a link came up or went down. A link to a killed chip stays
// down.
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

// control returns the chip that has port p, or nil if the chip was killed.
func (x *tracer) control(p wire.PortID) *Control {
	return x.chips[slices.IndexFunc(x.m.Chips, func(c topo.Chip) bool { return c.Node == p.Node })]
}

// hear has gossip bring a link state to a chip. The link state may be of a chip that is not in the
// machine.
func (x *tracer) hear(f []string) error {
	if len(f) != 4 {
		return fmt.Errorf("hear: want the chip that hears, the chip of the link state, its version and its channels")
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

// The method "has" reports whether a chip is in the machine.
func (x *tracer) has(n wire.FabricNodeID) bool {
	_, ok := x.m.Chip(n)
	return ok
}

// The method "until" lets time pass up to an instant. Messages arrive, and the chips run their
// timers.
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
			x.t.Fatalf("the time is %v, but a chip's deadline is %v", x.now, next)
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
				x.t.Fatalf("after Tick at %v, the deadline of %s is %v", x.now, x.m.Chips[i].Node, at)
			}
		}
		if x.now == stop {
			x.Tell()
			return
		}
	}
}

// Tell writes down the chips' own link states that have changed, and sends the link states that the
// chips owe their neighbours.
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
					x.t.Fatalf("%s owes %s link states, but Tell lists none", p.Local.Node, p.Peer.Node)
				}
				c.Told(k, upTo)
				x.Say("   %s/%d to %s: %s", p.Local.Node, p.Local.Channel, p.Peer.Node, wordsOf(words))
				x.sent = append(x.sent, message{x.now.Add(cableDelay), topo.Port{Local: p.Peer, Peer: p.Local}, words})
			}
		}
	}
}

// wordsOf renders link states: chip, version, and the channels that are out of service or silent.
func wordsOf(words []wire.LinkState) string {
	var all []string
	for _, w := range words {
		list := func(ports uint16) (s string) {
			for ch := range wire.MaxChannels {
				if ports>>ch&1 != 0 {
					s += fmt.Sprintf(" %d", ch)
				}
			}
			return cmp.Or(s, " none")
		}
		s := fmt.Sprintf("%s v%d out%s", w.Node, w.Version, list(w.Out))
		if w.Silent != 0 {
			s += " silent" + list(w.Silent)
		}
		all = append(all, s)
	}
	return strings.Join(all, "; ")
}

// outOf renders the ports that routes must avoid according to the link states that chip c has.
func outOf(c *Control) string {
	ports := c.Out()
	slices.SortFunc(ports, byPort)
	var all []string
	for _, p := range ports {
		all = append(all, fmt.Sprintf("%s/%d", p.Node, p.Channel))
	}
	return cmp.Or(strings.Join(all, " "), "nothing")
}
