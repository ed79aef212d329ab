package router

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"ttfabric/wire"
)

// pump does what the chip does around the router (node/chip/pump.go), until no packet moves.
func (x *tracer) pump() {
	x.before, x.blocked = x.blocked, nil
	rounds := 0
	for moved := true; moved; rounds++ {
		if rounds > 1000 {
			x.t.Fatalf("the router still moves packets after 1000 rounds")
		}
		moved = x.deliver()
		moved = x.r.Step(x.now) || moved
		moved = x.redirect() || moved
		x.credit()
		moved = x.abandon() || moved
		moved = x.transmit() || moved
	}
}

// run lets time pass. The router moves packets at the start, at each of its deadlines, and at the
// end.
func (x *tracer) run(s string) error {
	d, err := time.ParseDuration(s)
	if err != nil {
		return err
	}
	x.pump()
	for stop := x.now.Add(d); ; {
		at, ok := x.r.Deadline()
		if !ok || at.After(stop) {
			x.now = stop
			x.pump()
			return nil
		}
		x.now = max(x.now, at)
		x.pump()
		x.Tell()
		if next, ok := x.r.Deadline(); ok && !next.After(x.now) {
			return fmt.Errorf("the time is %v, but the router's deadline is %v", x.now, next)
		}
	}
}

func (x *tracer) deliver() (moved bool) {
	for l, ok := x.r.PollLocal(); ok; l, ok = x.r.PollLocal() {
		if x.local++; x.local > 1000 {
			x.t.Fatal("the router has delivered more than 1000 packets")
		}
		shared := ""
		if l.Shared {
			shared = ", and has copies to leave"
		}
		x.Say("   %d, from %s, is for this chip%s", number(x.view(l.Slot)), x.name(l.Port), shared)
		if !l.Shared {
			x.cfg.Pool.Put(l.Slot)
		}
		moved = true
	}
	return moved
}

// redirect sends caught packets on as the script's last "reroute" says.
func (x *tracer) redirect() (moved bool) {
	x.r.Caught(func(k Caught) Verdict {
		v := x.view(k.Slot)
		if slices.Contains(x.keep, strconv.FormatUint(number(v), 10)) {
			x.Say("   %d, caught at %s, stays", number(v), x.name(k.Port))
			return Stays
		}
		if x.onward == nil {
			x.r.DropCaught(k, wire.DropUnreachable)
			moved = true
			return Leaves
		}
		to := x.r.First(x.onward.port, v.VC().Class(), v.Up(), x.onward.detour)
		if !x.r.CanRedirect(k, x.onward.port, to) {
			return Waits
		}
		moved = true
		v.Reroute(x.onward.route, v.Up(), x.onward.detour)
		v.SetVC(to)
		x.r.Redirect(k, x.onward.port, to)
		x.Say("   %d, caught at %s, is to leave by %s on %s", number(v), x.name(k.Port), x.name(x.onward.port), to)
		return Leaves
	})
	return moved
}

// credit returns the slots that the router has freed to the neighbours as credits.
func (x *tracer) credit() {
	freed := map[Freed]int{}
	for f, ok := x.r.PollFreed(); ok; f, ok = x.r.PollFreed() {
		freed[f]++
		x.room[f.Port][f.VC]++
	}
	for i := range x.room {
		for v := range wire.VC(wire.NumVCs) {
			if n := freed[Freed{i, v}]; n > 0 {
				x.Say("   credit to %s: %s %d", x.name(i), v, n)
			}
			if x.room[i][v] > x.cfg.Slots.Receiver[v] {
				x.t.Fatalf("%s has credit for %d packets of %s, more than there are slots", x.name(i), x.room[i][v], v)
			}
		}
	}
}

// abandon writes down the channels that are stuck and the packets that the router dropped.
func (x *tracer) abandon() (moved bool) {
	for s, ok := x.r.PollStuck(); ok; s, ok = x.r.PollStuck() {
		where := "the receiver channel"
		if s.Sender >= 0 {
			where = fmt.Sprintf("sender channel %d", s.Sender)
		}
		x.Say("   stuck at %s, %s of %s: %d, for %v, of %d", x.name(s.Port), where, s.VC, s.ID, s.For, s.Waiting)
	}
	for d, ok := x.r.PollDrop(); ok; d, ok = x.r.PollDrop() {
		v := x.view(d.Slot)
		i := slices.IndexFunc(x.cfg.Ports, func(p PortConfig) bool { return p.Channel == d.Channel })
		to := ""
		if d.Dir < wire.NumDirections {
			to = " to " + d.Dir.String()
		}
		x.Say("   DROPPED at %s: %d%s%s, %s", x.name(i), number(v), to, ranges(v), d.Reason)
		x.cfg.Pool.Put(d.Slot)
		moved = true
	}
	return moved
}

// transmit sends the packets that the router offers and for which the neighbours gave credits.
func (x *tracer) transmit() (moved bool) {
	for i := range x.credits {
		for skip := Skip(0); ; {
			o, ok := x.r.Next(i, skip)
			if !ok {
				break
			}
			v := x.view(o.Slot)
			if have := x.credits[i][o.VC]; have < o.Needs {
				if line := fmt.Sprintf("   %s holds %d back: %s has credit for %d of %d", x.name(i), number(v), o.VC, have, o.Needs); !slices.Contains(x.blocked, line) {
					x.blocked = append(x.blocked, line)
					if !slices.Contains(x.before, line) {
						x.Say("%s", line)
					}
				}
				if o.Needs > 1 {
					skip |= o.One
				} else {
					skip |= o.All
				}
				continue
			}
			x.credits[i][o.VC]--
			x.tellSent(i, o.VC, v)
			if s := x.r.Sent(i); s != o.Slot {
				x.t.Fatalf("%s did not send the packet that it had offered", x.name(i))
			}
			x.cfg.Pool.Put(o.Slot)
			moved = true
		}
	}
	return moved
}

func (x *tracer) tellSent(i int, vc wire.VC, v wire.PacketView) {
	if v.VC() != vc {
		x.t.Fatalf("packet %d is sent on %s, but its header has %s", number(v), vc, v.VC())
	}
	detail := fmt.Sprintf(", hop %d", v.Hop())
	if v.Trunk() != wire.TrunkNone {
		detail = ranges(v)
	}
	x.Say("   %s sends %d on %s%s, TTL %d; credit %d", x.name(i), number(v), vc, detail, v.TTL(), x.credits[i][vc])
}

// ranges renders the remaining ranges of a multicast. For a unicast packet, ranges returns an empty
// text.
func ranges(v wire.PacketView) string {
	if v.Trunk() == wire.TrunkNone {
		return ""
	}
	if r := v.Ranges(); r.Any() {
		return ", onwards to " + r.String()
	}
	return ", the last of its branch"
}

// Tell writes down the ports whose state has changed. Tell also checks the counts that must hold
// after every command.
func (x *tracer) Tell() {
	for i, was := range x.states {
		if is := x.r.State(i); is != was {
			x.states[i] = is
			x.Say("   %s is %s", x.name(i), is)
		}
	}
	if err := x.r.CheckInvariants(); err != nil {
		x.t.Fatal(err)
	}
	in, out := uint64(0), uint64(x.r.InFlight()-x.r.own.n)
	for i := range x.cfg.Ports {
		c := x.r.Status(i).Counters
		in += c.Received + c.Injected + c.Copied
		out += c.Delivered + c.Sent
		for _, n := range c.Dropped {
			out += n
		}
	}
	if in != out || x.cfg.Pool.InUse() != x.r.InFlight() {
		x.t.Fatalf("%d packets came in, %d left or wait; %d buffers are in use for %d packets", in, out, x.cfg.Pool.InUse(), x.r.InFlight())
	}
}

// show writes down which channels hold which packets.
func (x *tracer) show() {
	for i := range x.r.ports {
		p := &x.r.ports[i]
		for v := range wire.VC(wire.NumVCs) {
			if p.recv[v].n > 0 {
				x.Say("   %s receiver channel of %s: %s", x.name(i), v, x.list(&p.recv[v]))
			}
			for c := range p.send[v] {
				if p.send[v][c].n > 0 {
					x.Say("   %s sender channel %d of %s: %s", x.name(i), c, v, x.list(&p.send[v][c]))
				}
			}
		}
	}
	if n := x.r.own.n; n > 0 {
		x.Say("   multicasts of this chip that wait: %s", x.list(&x.r.own.planes[0]))
	}
	if x.r.InFlight() == 0 {
		x.Say("   all channels are empty")
	}
}

func (x *tracer) list(q *ring) string {
	var ids []string
	for k := range q.n {
		ids = append(ids, fmt.Sprint(x.view(q.slots[q.index(k)]).ID()))
	}
	return strings.Join(ids, " ")
}

// tellRoom writes down the virtual channels on which port i has room for packets of this chip.
func (x *tracer) tellRoom(i int, _ []string) error {
	var free []string
	for v := range wire.VC(wire.BasicVCs) {
		if x.r.CanInject(i, v) {
			free = append(free, v.String())
		}
	}
	x.Say("   %s has room for packets of this chip on: %s; past the channels: %v", x.name(i), strings.Join(free, " "), x.r.Bypass(i))
	return nil
}

func (x *tracer) tellCounters(i int) {
	c := x.r.Status(i).Counters
	line := fmt.Sprintf("   %s: received %d, delivered %d, forwarded %d, copied %d, injected %d, sent %d, redirected %d",
		x.name(i), c.Received, c.Delivered, c.Forwarded, c.Copied, c.Injected, c.Sent, c.Redirected)
	for why, n := range c.Dropped {
		if n > 0 {
			line += fmt.Sprintf(", dropped %d: %s", n, wire.DropReason(why))
		}
	}
	x.Say("%s", line)
}

// onward is the port and the route by which caught packets leave.
type onward struct {
	port   int
	route  []byte
	detour bool
}
