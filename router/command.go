package router

import (
	"fmt"

	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Command is an order to the router of a port. Commands have the same numbers as in tt-metal's
// RouterCommand. No command has the code 2.
type Command uint32

// The commands that exist.
const (
	CommandRun     Command = 0 // run normally
	CommandPause   Command = 1 // move no packet in either direction; the peer soon has no credits and stops sending
	CommandDrain   Command = 3 // drop the requests that would leave by the port
	CommandRetrain Command = 4 // train the link again; an earlier pause or drain stays in force

	// The next two commands are ours: tt-metal has no such commands.
	CommandRaw    Command = 64 // put the port into compliance mode (Spec §2.1), in which the port carries no packets
	CommandTTLink Command = 65 // end the compliance mode
)

// String returns the name of the command in one word.
func (c Command) String() string {
	switch c {
	case CommandRun:
		return "run"
	case CommandPause:
		return "pause"
	case CommandDrain:
		return "drain"
	case CommandRetrain:
		return "retrain"
	case CommandRaw:
		return "raw"
	case CommandTTLink:
		return "ttlink"
	}
	return fmt.Sprintf("command %d", uint32(c))
}

// Valid reports whether the command exists.
func (c Command) Valid() bool { return c <= CommandRetrain && c != 2 || c.OfChip() }

// OfChip reports whether the command is CommandRaw or CommandTTLink, which tt-metal does not have.
// The chip performs such a command without the router.
func (c Command) OfChip() bool { return c == CommandRaw || c == CommandTTLink }

// State says what the router of a port is doing. States have the same numbers as in tt-metal's
// RouterState.
type State uint32

// The states that exist.
const (
	StateInitializing State = 0 // the link has never been up
	StateRunning      State = 1 // the link is up
	StatePaused       State = 2 // the port was ordered to pause, and has had no run command since
	StateDraining     State = 3 // the port was ordered to drain, and has had no run command since
	StateRetraining   State = 4 // the link was up before, and is not up now
)

// String returns the name of the state in one word.
func (s State) String() string {
	switch s {
	case StateInitializing:
		return "initializing"
	case StateRunning:
		return "running"
	case StatePaused:
		return "paused"
	case StateDraining:
		return "draining"
	case StateRetraining:
		return "retraining"
	}
	return fmt.Sprintf("state %d", uint32(s))
}

// State returns the state of the router of port i. A paused or draining port is in this state even
// while its link is down.
func (r *Router) State(i int) State {
	p := &r.ports[i]
	switch {
	case p.order == CommandPause:
		return StatePaused
	case p.order == CommandDrain:
		return StateDraining
	case p.up:
		return StateRunning
	case p.wasUp:
		return StateRetraining
	}
	return StateInitializing
}

// Order makes the router of port i run, pause or drain. Order reports whether the command changes
// anything. CommandRetrain, CommandRaw and CommandTTLink change nothing in the router, because the
// chip performs these commands.
//
// A paused port takes nothing from its receiver channels and sends nothing from its sender
// channels. These channels fill, and packets behind them wait for credits. The router drops these
// packets only if the chip calls Flush or DropCaught. While any port of the chip is paused,
// no channel of the chip counts as stuck. The grace period of a dead next hop does not run for a
// paused port. If the port's link is down when the pause ends, the grace period begins anew.
//
// A draining port drops the requests that would leave by the port, and the chip reports the drops
// to the requests' sources. Probes, replies, completions and reports pass, so that every source
// learns the fate of its requests. Packets that come in by the port are handled as usual.
func (r *Router) Order(now mono.Time, i int, c Command) bool {
	p := &r.ports[i]
	if c == CommandRetrain || c.OfChip() || !c.Valid() || p.order == c {
		return false
	}
	if p.order == CommandPause {
		r.paused--
		p.downSince = max(p.downSince, now)
	}
	if c == CommandPause {
		r.paused++
	}
	p.order = c
	return true
}

// Flush drops the packets that wait in the sender channels of port i. Flush returns the number of
// dropped packets.
func (r *Router) Flush(i int) int { return r.empty(i, wire.DropFlushed) }

// empty drops all packets in the sender channels of port i, and returns the number of dropped
// packets.
func (r *Router) empty(i int, why wire.DropReason) int {
	p := &r.ports[i]
	n := 0
	for _, v := range r.vcs {
		for c := range p.send[v] {
			n += r.shed(p, v, c, why, p.send[v][c].n)
		}
	}
	return n
}

// shed drops the first n packets of a sender channel, and returns n.
func (r *Router) shed(p *port, v wire.VC, c int, why wire.DropReason, n int) int {
	for range n {
		s := p.pop(v, c)
		p.of(wire.PacketView(r.cfg.Pool.Bytes(s)).VC()).Dropped[why]++
		r.drops = append(r.drops, Drop{s, why, p.Channel, p.Dir})
	}
	return n
}

// drain drops the requests at the front of the sender channels of a draining port. A request behind
// another kind of packet stays until it comes to the front. drain reports whether it dropped any
// packet.
func (r *Router) drain(i int) bool {
	p := &r.ports[i]
	if p.order != CommandDrain || p.queued == 0 {
		return false
	}
	gone := false
	for _, v := range r.vcs {
		for c := range p.send[v] {
			for q := &p.send[v][c]; q.n > 0 && r.drained(p, q.peek()); gone = true {
				r.shed(p, v, c, wire.DropDrained, 1)
			}
		}
	}
	return gone
}

// drained reports whether port p is draining and slot s holds a request. The port then drops the
// request.
func (r *Router) drained(p *port, s Slot) bool {
	return p.order == CommandDrain && wire.PacketView(r.cfg.Pool.Bytes(s)).Type() == wire.PacketRequest
}

// graceEnd returns the time at which the router drops the packets that wait at port p because the
// port is dead. graceEnd returns [mono.Never] for a port that is up, silent or paused, or has no
// waiting packets.
func (r *Router) graceEnd(p *port) mono.Time {
	if p.up || p.queued == 0 || p.order == CommandPause || p.wasUp && !p.dead {
		return mono.Never
	}
	return p.downSince.Add(r.cfg.Grace)
}
