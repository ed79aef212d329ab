package router

import (
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"ttfabric/wire"
	"ttfabric/wire/mono"
	"ttfabric/wire/tracetest"
)

var rewriteTraces = flag.Bool("rewrite", false, "write new outcomes into testdata/traces, for a person to check")

// TestTraces runs the scripts of testdata/traces. TestTraces compares what the router of one chip
// does with the outcome below the line of dashes in each script's file. A port is named by its
// direction, followed by its plane if the plane is not 0: E, W1. A script has one command per line:
//
//	router ports=E,W,N:ring:wrap slots=2/3   make the router; see makeRouter for all options
//	up E W, down E             links come up, or go down and are dead
//	silent E, dead E           links go down and are silent, or are now dead
//	credits E data 2           the neighbour at E now has room for 2 packets on virtual channel data
//	credits E 2                the neighbour at E now has room for 2 packets on each virtual channel
//	arrive W 7 route=E.        packet 7 came in by W, in pieces; see packet for all options
//	datagram W 7 route=E.      packet 7 came in by W, in one datagram: the packet may pass by the channels
//	inject E 7 route=.         packet 7 of this chip enters a sender channel of E
//	launch E 7 route=.         packet 7 of this chip leaves by E and may pass by the channels
//	multicast 7 many=E2,N1     multicast 7 of this chip leaves by each first port of its ranges
//	step                       the router moves packets at this instant until no packet can move
//	run 50ms                   time passes; the router moves packets at each of its deadlines
//	pause E, drain E, resume E, flush E
//	out E, in E                the tables take the port out of service, or put it back into service
//	reroute S route=E. detour  from now on, caught packets leave by S on this route
//	reroute                    from now on, caught packets have no route and are dropped
//	keep 7 8                   from now on, packets 7 and 8 stay if they are caught
//	discard W 7 route=E.       packet 7 came in by W and is dropped before it enters a channel
//	outdated 7 8               from now on, packets 7 and 8 are outdated
//	room E                     write down on which virtual channels E has room for packets of this chip
//	show                       write down the packets in the channels
//	states                     write down the state of each port
//	counters W                 write down the counters of W
//
// A route has a letter for each router. E, W, N and S name the direction in which the router
// forwards the packet. A dot means that the router delivers the packet, and ? is an invalid route
// byte. A neighbour sends a packet only if it has a credit.
func TestTraces(t *testing.T) {
	tracetest.Run(t, *rewriteTraces, func(t *testing.T, trace *tracetest.Trace) tracetest.Machine {
		return &tracer{Trace: trace, t: t, now: 1}
	})
}

// tracer holds one router, the credits of its neighbours in both directions, and the lines of the
// outcome so far.
type tracer struct {
	*tracetest.Trace
	t        *testing.T
	now      mono.Time
	cfg      Config
	r        *Router
	credits  [][wire.NumVCs]int // by port: packets that this router may still send to the neighbour
	room     [][wire.NumVCs]int // by port: packets that the neighbour may still send to this router
	states   []State            // state of each port that the outcome has last
	blocked  []string           // lines about packets that lack credits, from this call of pump
	before   []string           // lines about packets that lack credits, from the call of pump before: the outcome has them already
	local    int                // number of packets for this chip so far
	keep     []string           // numbers of packets that stay if they are caught
	outdated []string           // numbers of outdated packets
	onward   *onward            // new route of caught packets; nil: they are dropped
}

// Now returns the time since the script began.
func (x *tracer) Now() time.Duration { return time.Duration(x.now - 1) }

// traceCommands are the commands of a script whose first argument is a port.
var traceCommands = map[string]func(x *tracer, port int, args []string) error{
	"up":       func(x *tracer, i int, more []string) error { return x.links(i, more, true, false) },
	"down":     func(x *tracer, i int, more []string) error { return x.links(i, more, false, true) },
	"silent":   func(x *tracer, i int, more []string) error { return x.links(i, more, false, false) },
	"dead":     func(x *tracer, i int, _ []string) error { x.r.SetDead(x.now, i); return nil },
	"credits":  (*tracer).grant,
	"arrive":   func(x *tracer, i int, args []string) error { return x.arrive(i, args, false) },
	"datagram": func(x *tracer, i int, args []string) error { return x.arrive(i, args, true) },
	"inject":   func(x *tracer, i int, args []string) error { return x.inject(i, args, false) },
	"launch":   func(x *tracer, i int, args []string) error { return x.inject(i, args, true) },
	"pause":    func(x *tracer, i int, _ []string) error { return x.order(i, CommandPause) },
	"drain":    func(x *tracer, i int, _ []string) error { return x.order(i, CommandDrain) },
	"resume":   func(x *tracer, i int, _ []string) error { return x.order(i, CommandRun) },
	"flush": func(x *tracer, i int, _ []string) error {
		x.Say("   %d flushed", x.r.Flush(i))
		x.abandon()
		return nil
	},
	"out":      func(x *tracer, i int, _ []string) error { x.r.SetOut(i, true); return nil },
	"in":       func(x *tracer, i int, _ []string) error { x.r.SetOut(i, false); return nil },
	"reroute":  (*tracer).reroute,
	"discard":  (*tracer).discard,
	"room":     (*tracer).tellRoom,
	"counters": func(x *tracer, i int, _ []string) error { x.tellCounters(i); return nil },
}

// Do performs one command of a script.
func (x *tracer) Do(f []string) error {
	if (f[0] == "router") != (x.r == nil) {
		return fmt.Errorf("the first command, and only the first, must be router")
	}
	switch f[0] {
	case "router":
		return x.makeRouter(f[1:])
	case "step":
		x.pump()
	case "run":
		if len(f) != 2 {
			return fmt.Errorf("run: want a time")
		}
		return x.run(f[1])
	case "multicast":
		return x.multicast(f[1:])
	case "outdated":
		x.outdated = f[1:]
	case "keep":
		x.keep = f[1:]
	case "show":
		x.show()
	case "states":
		for i := range x.states {
			x.Say("   %s is %s", x.name(i), x.r.State(i))
		}
	default:
		do := traceCommands[f[0]]
		if do == nil {
			return fmt.Errorf("%s: no such command", f[0])
		}
		if f[0] == "reroute" && len(f) == 1 {
			x.onward = nil
			return nil
		}
		if len(f) < 2 {
			return fmt.Errorf("%s: want a port", f[0])
		}
		i, err := x.port(f[1])
		if err != nil {
			return err
		}
		return do(x, i, f[2:])
	}
	return nil
}

// makeRouter makes the router under test from these options:
//
//	ports=E,W:ring,N1:ring:wrap,S:external   name of each port, with its properties
//	slots=2/3 or slots=spec                  slots of each sender and receiver channel, or a profile
//	grace=100ms timeout=40ms:drop,drain dateline bubble local-first
//	pool=20                                  buffers of the chip; 1000 by default
func (x *tracer) makeRouter(args []string) (err error) {
	pool := 1000
	x.cfg = Config{Grace: grace}
	for _, arg := range args {
		name, v, _ := strings.Cut(arg, "=")
		switch name {
		case "ports":
			err = x.ports(v)
		case "slots":
			if i := slices.IndexFunc(SlotProfiles, func(p SlotProfile) bool { return p.Name == v }); i >= 0 {
				x.cfg.Slots = SlotProfiles[i]
				break
			}
			var sender, receiver int
			_, err = fmt.Sscanf(v, "%d/%d", &sender, &receiver)
			x.cfg.Slots = slots("trace", sender, receiver, sender, receiver)
		case "grace":
			x.cfg.Grace, err = time.ParseDuration(v)
		case "timeout":
			after, actions, _ := strings.Cut(v, ":")
			if x.cfg.Timeout, err = ParseTimeout(actions); err == nil {
				x.cfg.Timeout.After, err = time.ParseDuration(after)
			}
		case "pool":
			pool, err = strconv.Atoi(v)
		case "dateline":
			x.cfg.Dateline = true
		case "bubble":
			x.cfg.Bubble = true
		case "local-first":
			x.cfg.LocalFirst = true
		default:
			err = fmt.Errorf("%s: no such option", arg)
		}
		if err != nil {
			return err
		}
	}
	x.cfg.Pool = NewPool(pool)
	x.cfg.Outdated = func(v wire.PacketView) bool { return slices.Contains(x.outdated, strconv.FormatUint(number(v), 10)) }
	if x.r, err = New(x.now, x.cfg); err != nil {
		return err
	}
	x.states = make([]State, len(x.cfg.Ports))
	for range x.cfg.Ports {
		x.room, x.credits = append(x.room, x.cfg.Slots.Receiver), append(x.credits, x.cfg.Slots.Receiver)
	}
	return nil
}

func (x *tracer) ports(list string) error {
	for i, one := range strings.Split(list, ",") {
		f := strings.Split(one, ":")
		d, pl, err := parseWay(f[0])
		if err != nil {
			return err
		}
		p := PortConfig{Channel: wire.Channel(i), Dir: d, Plane: pl}
		for _, is := range f[1:] {
			switch is {
			case "ring":
				p.Ring = true
			case "wrap":
				p.Wrap = true
			case "external":
				p.External = true
			default:
				return fmt.Errorf("port %s: no such property", one)
			}
		}
		x.cfg.Ports = append(x.cfg.Ports, p)
	}
	return nil
}

// parseWay reads the name of a port: its direction, and its plane if the plane is not 0. Examples
// are E and W1.
func parseWay(s string) (wire.Direction, wire.Plane, error) {
	d := strings.IndexByte("EWNS", (s + " ")[0])
	pl := 0
	var err error
	if len(s) > 1 {
		pl, err = strconv.Atoi(s[1:])
	}
	if d < 0 || err != nil {
		return 0, 0, fmt.Errorf("port %q: want E, W, N or S, and the plane if it is not 0", s)
	}
	return wire.Direction(d), wire.Plane(pl), nil
}

func (x *tracer) port(s string) (int, error) {
	d, pl, err := parseWay(s)
	if err != nil {
		return 0, err
	}
	i, ok := x.r.Port(d, pl)
	if !ok {
		return 0, fmt.Errorf("there is no port %s", s)
	}
	return i, nil
}

func (x *tracer) name(i int) string {
	p := x.cfg.Ports[i]
	if p.Plane == 0 {
		return p.Dir.String()
	}
	return fmt.Sprintf("%s%d", p.Dir, p.Plane)
}

func parseVC(s string) (wire.VC, error) {
	for v := range wire.VC(wire.NumVCs) {
		if v.String() == s {
			return v, nil
		}
	}
	return 0, fmt.Errorf("virtual channel %q: no virtual channel has this name", s)
}

// route reads a route of a packet that came in by the side "from". For a packet of this chip,
// "from" is wire.NumDirections or the side opposite to the first hop.
func route(s string, from wire.Direction) (actions []byte, err error) {
	for _, c := range s {
		if d := strings.IndexRune("EWNS", c); d >= 0 {
			actions = append(actions, wire.RouteBit(wire.Direction(d)))
			from = wire.Direction(d).Opposite()
			continue
		}
		switch {
		case c == '.' && from < wire.NumDirections:
			actions = append(actions, wire.RouteBit(from))
		case c == '?':
			actions = append(actions, 0x80)
		default:
			return nil, fmt.Errorf("route %q: want E, W, N, S, . or ?", s)
		}
	}
	return actions, nil
}

// packet reads a packet and puts it into a slot. The packet came in by the side "from":
//
//	7 route=EE. vc=reply ttl=5 type=probe up detour
//	7 many=E2,N1 ttl=5       a multicast for the chips of these ranges
func (x *tracer) packet(from wire.Direction, plane wire.Plane, args []string) (s Slot, err error) {
	p := wire.Packet{Type: wire.PacketRequest, TTL: 8, Plane: plane, Command: wire.Command{Type: wire.NocNone}}
	for k, arg := range args {
		name, v, _ := strings.Cut(arg, "=")
		var n uint64
		switch {
		case k == 0:
			p.ID, err = strconv.ParseUint(arg, 10, 64)
		case name == "route":
			p.Route, err = route(v, from)
		case name == "vc":
			p.VC, err = parseVC(v)
		case name == "ttl":
			n, err = strconv.ParseUint(v, 10, 16)
			p.TTL = uint16(n)
		case name == "type":
			p.Type = map[string]wire.PacketType{"probe": wire.PacketProbe, "reply": wire.PacketReply, "completion": wire.PacketCompletion}[v]
		case name == "up":
			p.Up = true
		case name == "detour":
			p.Detour = true
		case name == "many":
			p.Group, p.Trunk = 1, wire.TrunkX
			p.Ranges, err = wire.ParseRanges(v)
		default:
			err = fmt.Errorf("%s: no such option", arg)
		}
		if err != nil {
			return NoSlot, err
		}
	}
	if p.Type == 0 || p.ID == 0 {
		return NoSlot, fmt.Errorf("want a packet number of 1 or more, and for type= one of probe, reply and completion")
	}
	if p.Type.Control() {
		numbered(&p)
	}
	s, ok := x.cfg.Pool.Get(p.Len())
	if !ok {
		return NoSlot, fmt.Errorf("the pool is empty")
	}
	p.Append(x.cfg.Pool.Bytes(s)[:0])
	if _, err := wire.ViewPacket(x.cfg.Pool.Bytes(s)); err != nil {
		return NoSlot, err
	}
	return s, nil
}

func (x *tracer) view(s Slot) wire.PacketView { return wire.PacketView(x.cfg.Pool.Bytes(s)) }

// links brings links up or down, and gives links up as dead.
func (x *tracer) links(first int, more []string, up, dead bool) error {
	ports := []int{first}
	for _, s := range more {
		i, err := x.port(s)
		if err != nil {
			return err
		}
		ports = append(ports, i)
	}
	for _, i := range ports {
		x.r.SetPort(i, up)
		if dead {
			x.r.SetDead(x.now, i)
		}
	}
	return nil
}

func (x *tracer) order(i int, c Command) error {
	if !x.r.Order(x.now, i, c) {
		return fmt.Errorf("the port already runs this command")
	}
	return nil
}

func (x *tracer) grant(i int, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("credits: want a number")
	}
	n, err := strconv.Atoi(args[len(args)-1])
	if err != nil {
		return err
	}
	if len(args) == 1 {
		for v := range x.credits[i] {
			x.credits[i][v] = n
		}
		return nil
	}
	v, err := parseVC(args[0])
	x.credits[i][v] = n
	return err
}

func (x *tracer) reroute(i int, args []string) (err error) {
	o := onward{port: i}
	for _, arg := range args {
		if v, ok := strings.CutPrefix(arg, "route="); ok {
			o.route, err = route(v, x.cfg.Ports[i].Dir.Opposite())
		} else if o.detour = arg == "detour"; !o.detour {
			err = fmt.Errorf("%s: no such option", arg)
		}
	}
	x.onward = &o
	return err
}

// arrive lets a packet come in by port i. A packet in one datagram may pass by the channels, as in
// the chip (node/chip/pump.go).
func (x *tracer) arrive(i int, args []string, datagram bool) error {
	s, err := x.packet(x.cfg.Ports[i].Dir, x.cfg.Ports[i].Plane, args)
	if err != nil {
		return err
	}
	v := x.view(s)
	vc := v.VC()
	if x.room[i][vc] == 0 {
		x.Say("   the neighbour at %s has no credit for %s and keeps %d", x.name(i), vc, number(v))
		x.cfg.Pool.Put(s)
		return nil
	}
	if datagram && x.r.Idle(i, vc) {
		if x.r.CutThrough(i, v) {
			x.Say("   %d, from %s, is for this chip and passes by the channels", number(v), x.name(i))
			x.cfg.Pool.Put(s)
			return nil
		}
		if out, to, ok := x.r.Through(i, v); ok && x.credits[out][to] > 0 {
			v.SetVC(to)
			v.Advance()
			x.r.Passed(i, out, to)
			x.Say("   %d, from %s, passes by the channels", number(v), x.name(i))
			x.credits[out][to]--
			x.tellSent(out, to, v)
			x.cfg.Pool.Put(s)
			return nil
		}
	}
	x.room[i][vc]--
	x.r.Arrive(i, vc, s)
	return nil
}

// inject sends a packet of this chip by port i. If "launch" is true, the packet may pass by the
// channels.
func (x *tracer) inject(i int, args []string, launch bool) error {
	s, err := x.packet(x.cfg.Ports[i].Dir.Opposite(), x.cfg.Ports[i].Plane, args)
	if err != nil {
		return err
	}
	v := x.view(s)
	vc := x.r.First(i, v.VC().Class(), v.Up(), v.Detour())
	v.SetVC(vc)
	if launch && x.r.Bypass(i) && x.credits[i][vc] > 0 {
		x.r.Bypassed(i, vc)
		x.Say("   %d passes by the channels", number(v))
		x.credits[i][vc]--
		x.tellSent(i, vc, v)
		x.cfg.Pool.Put(s)
		return nil
	}
	if launch && !x.r.CanInject(i, vc) || !x.r.Inject(i, vc, s) {
		x.Say("   no room for %d", number(v))
		x.cfg.Pool.Put(s)
		return nil
	}
	return nil
}

// multicast sends a multicast of this chip on plane 0.
func (x *tracer) multicast(args []string) error {
	s, err := x.packet(wire.NumDirections, 0, args)
	if err != nil {
		return err
	}
	if !x.r.Multicast(0, s) {
		x.Say("   no room for %d", number(x.view(s)))
		x.cfg.Pool.Put(s)
	}
	return nil
}

// discard lets a packet come in by port i. The packet is then dropped before it enters a channel.
func (x *tracer) discard(i int, args []string) error {
	s, err := x.packet(x.cfg.Ports[i].Dir, x.cfg.Ports[i].Plane, args)
	if err == nil {
		x.r.Discard(i, s, wire.DropUnreachable)
		x.abandon()
	}
	return err
}
