package router

import (
	"fmt"

	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Command is an order to the router of a port. The values are the codes of tt-metal's
// RouterCommand. There is no command 2.
type Command uint32

// The commands.
const (
	CommandRun     Command = 0 // run normally
	CommandPause   Command = 1 // move nothing in either direction; credits hold back arriving packets
	CommandDrain   Command = 3 // drop the requests that are to leave by the port
	CommandRetrain Command = 4 // train the link anew; an earlier pause or drain stays in force
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
	}
	return fmt.Sprintf("command %d", uint32(c))
}

// Valid reports whether the command exists.
func (c Command) Valid() bool { return c <= CommandRetrain && c != 2 }

// State tells what the router of a port does. The values are the codes of tt-metal's RouterState.
type State uint32

// The states.
const (
	StateInitializing State = 0 // the link has not been up yet
	StateRunning      State = 1
	StatePaused       State = 2
	StateDraining     State = 3
	StateRetraining   State = 4 // the link was up before and trains again
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

// State returns what the router of port i does. A paused or draining port shows this state even
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
// anything. CommandRetrain changes nothing here: the owner trains the link.
//
// A paused port takes nothing from its receiver channels and sends nothing from its sender
// channels. These channels fill, and credits hold back the packets behind them. The router drops
// none of these packets. While any port of the chip is paused, the timeout of stuck heads does not
// run. The grace period of a dead next hop does not run for a paused port. When the port runs again
// and its link is down, the grace period begins anew.
//
// A draining port drops the requests that are to leave by it, and tells their sources. Probes,
// replies, completions and reports pass, so that every source learns what became of its requests.
// Packets that come in by the port are handled as usual.
func (r *Router) Order(now mono.Time, i int, c Command) bool {
	p := &r.ports[i]
	if c == CommandRetrain || !c.Valid() || p.order == c {
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
// packets.
func (r *Router) Flush(i int) int { return r.empty(i, wire.DropFlushed) }

// empty drops all packets that wait in a port's sender channels.
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

// shed drops the first n packets of a sender channel.
func (r *Router) shed(p *port, v wire.VC, c int, why wire.DropReason, n int) int {
	for range n {
		s := p.pop(v, c)
		p.of(wire.PacketView(r.cfg.Pool.Bytes(s)).VC()).Dropped[why]++
		r.drops = append(r.drops, Drop{s, why, p.Channel, p.Dir})
	}
	return n
}

// drain drops the requests at the heads of the sender channels of a draining port. drain reports
// whether it dropped any packet.
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

// drained reports whether a draining port drops the packet in slot s.
func (r *Router) drained(p *port, s Slot) bool {
	return p.order == CommandDrain && wire.PacketView(r.cfg.Pool.Bytes(s)).Type() == wire.PacketRequest
}

// graceEnd returns the time at which the router drops the packets that wait at port p because the
// port's link is down. For a port that is up or paused, graceEnd returns never.
func (r *Router) graceEnd(p *port) mono.Time {
	if p.up || p.queued == 0 || p.order == CommandPause {
		return mono.Never
	}
	return p.downSince.Add(r.cfg.Grace)
}
