package router

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Timeout is the last line of defence against deadlock (Spec §7.3). A Timeout says what the router
// does when the head of a channel cannot move for a time. Each action has a switch of its own.
// Dropping and draining are optional, since a person who looks for the cause wants to see the
// packets where they are. The specification asks at least for notifying, which is on unless it is
// switched off. The router counts heads that cannot move in any case.
type Timeout struct {
	After time.Duration // time after which a head counts as stuck; 0: off. The router notices a stuck head at most a quarter of this time later
	Drop  bool          // drop the head
	Drain bool          // drop the packets behind the head in the same channel; without Drop, multicasts that came in stay
	Quiet bool          // do not tell the control plane: report no event
}

// timeoutActions are the names of the actions, in the order that lists of actions use.
var timeoutActions = []string{"notify", "drop", "drain"}

// ParseTimeout reads which actions a timeout takes: "none", or one or more of "notify", "drop" and
// "drain" with commas between them, each once.
func ParseTimeout(s string) (Timeout, error) {
	t := Timeout{Quiet: true}
	if s == "none" {
		return t, nil
	}
	seen := map[string]bool{}
	for _, name := range strings.Split(s, ",") {
		switch name {
		case timeoutActions[0]:
			t.Quiet = false
		case timeoutActions[1]:
			t.Drop = true
		case timeoutActions[2]:
			t.Drain = true
		}
		if seen[name] || !slices.Contains(timeoutActions, name) {
			return Timeout{}, fmt.Errorf("%q: want notify, drop or drain, several with commas between them, or none", s)
		}
		seen[name] = true
	}
	return t, nil
}

// looksPerTimeout is the number of times that the router checks the channels within one timeout.
const looksPerTimeout = 4

// Stuck is a channel whose head could not move.
type Stuck struct {
	Port     int
	VC       wire.VC
	Sender   int // sender channel, or -1 for the receiver channel
	For      time.Duration
	Src, Dst wire.FabricNodeID // source and destination of the packet at the head of the channel
	ID       uint64
	Waiting  int // packets in the channel
}

// PollStuck returns the next channel whose head could not move for the time of the timeout.
// PollStuck returns each channel once per timeout.
func (r *Router) PollStuck() (Stuck, bool) {
	if len(r.stuck) == 0 {
		return Stuck{}, false
	}
	s := r.stuck[0]
	r.stuck = r.stuck[1:]
	return s, true
}

// look finds the heads that have not moved. The grace period covers packets that wait for a dead
// next hop. While a port is paused, no head counts as stuck. look reports whether it dropped
// anything.
func (r *Router) look(now mono.Time) bool {
	r.lookAt = now.Add(r.cfg.Timeout.After / looksPerTimeout)
	gone := false
	for i := range r.ports {
		p := &r.ports[i]
		for _, v := range r.vcs {
			if r.late(now, i, v, -1, &p.recv[v], r.paused > 0) {
				gone = r.relieve(i, v) || gone
			}
			for c := range p.send[v] {
				if r.late(now, i, v, c, &p.send[v][c], !p.up || r.paused > 0) {
					gone = r.relieveSender(p, v, c) || gone
				}
			}
		}
	}
	return gone
}

// relieve applies the timeout's actions to a receiver channel whose head cannot move. relieve
// reports whether it dropped anything.
func (r *Router) relieve(i int, v wire.VC) bool {
	p, q := &r.ports[i], &r.ports[i].recv[v]
	if r.cfg.Timeout.Drop {
		n := 1
		if r.cfg.Timeout.Drain {
			n = q.n
		}
		for range n {
			r.drop(i, v, wire.DropTimeout)
		}
		return true
	}
	if !r.cfg.Timeout.Drain {
		return false
	}
	head := q.peek()
	gone := q.remove(nil, func(s Slot) bool {
		return s != head && wire.PacketView(r.cfg.Pool.Bytes(s)).Trunk() == wire.TrunkNone
	})
	r.taken(i, v, len(gone))
	for _, s := range gone {
		p.of(v).Dropped[wire.DropTimeout]++
		r.drops = append(r.drops, Drop{s, wire.DropTimeout, p.Channel, wire.NumDirections})
	}
	return len(gone) > 0
}

// relieveSender applies the timeout's actions to a sender channel whose head cannot move.
// relieveSender reports whether it dropped anything.
func (r *Router) relieveSender(p *port, v wire.VC, c int) bool {
	q := &p.send[v][c]
	switch t := r.cfg.Timeout; {
	case t.Drop && t.Drain:
		return r.shed(p, v, c, wire.DropTimeout, q.n) > 0
	case t.Drop:
		return r.shed(p, v, c, wire.DropTimeout, 1) > 0
	case t.Drain:
		head := q.peek()
		gone := q.remove(nil, func(s Slot) bool { return s != head })
		p.removed(v, c, len(gone))
		for _, s := range gone {
			p.of(v).Dropped[wire.DropTimeout]++
			r.drops = append(r.drops, Drop{s, wire.DropTimeout, p.Channel, p.Dir})
		}
		return len(gone) > 0
	}
	return false
}

// late notes whether a channel's head has changed. late reports whether the head has stood still
// for the timeout, and records that for PollStuck.
func (r *Router) late(now mono.Time, i int, v wire.VC, c int, q *ring, excused bool) bool {
	if q.n == 0 || q.popped != q.seen || q.since == 0 || excused {
		q.seen, q.since = q.popped, now
		if q.n == 0 {
			q.since = 0
		}
		return false
	}
	if now.Sub(q.since) < r.cfg.Timeout.After {
		return false
	}
	h := wire.PacketView(r.cfg.Pool.Bytes(q.peek()))
	r.stuck = append(r.stuck, Stuck{Port: i, VC: v, Sender: c, For: now.Sub(q.since), Src: h.Src(), Dst: h.Dst(), ID: h.ID(), Waiting: q.n})
	q.since = now
	return true
}
