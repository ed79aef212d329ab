package router

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Timeout says what the router does when the first packet of a channel has not moved for the time
// After. The timeout is the last line of defence against deadlock (Spec §7.3). The router can drop
// packets, drain channels and notify the control plane. Each action can be switched on or off.
// Dropping and draining are optional, because a person who looks for the cause of a deadlock wants
// to see the packets in their channels. The specification requires at least that the control plane
// is notified. Notifying is on by default. The chip counts stuck channels even with all actions
// off. Drain has two exceptions in a receiver channel. With Drain alone, multicasts stay. With Drop
// and Drain, all packets stay behind a multicast that this chip still has to take.
type Timeout struct {
	After time.Duration // time without movement after which a first packet counts as stuck, to within a quarter of this time; 0: never
	Drop  bool          // drop the stuck packet
	Drain bool          // drop the packets behind the stuck packet in its channel
	Quiet bool          // do not notify the control plane
}

// timeoutActions are the names of the actions: notify, drop, drain.
var timeoutActions = []string{"notify", "drop", "drain"}

// ParseTimeout reads the actions of a timeout: "none", or a list of "notify", "drop" and "drain"
// with commas between them. A list names each action at most once. The caller sets After in the
// result.
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
			return Timeout{}, fmt.Errorf("%q: want none, or a list of notify, drop and drain with commas between them", s)
		}
		seen[name] = true
	}
	return t, nil
}

// String returns the actions of the timeout, in the form that [ParseTimeout] reads.
func (t Timeout) String() string {
	var on []string
	for i, yes := range []bool{!t.Quiet, t.Drop, t.Drain} {
		if yes {
			on = append(on, timeoutActions[i])
		}
	}
	if len(on) == 0 {
		return "none"
	}
	return strings.Join(on, ",")
}

// looksPerTimeout is the number of times that the router looks for stuck packets within one
// timeout.
const looksPerTimeout = 4

// Stuck is a channel whose first packet has not moved for the time of the timeout.
type Stuck struct {
	Port     int
	VC       wire.VC
	Sender   int               // number of the sender channel; -1: the channel is a receiver channel
	For      time.Duration     // time since the router first saw the packet at the front, or since the previous report
	Src, Dst wire.FabricNodeID // source and destination of the first packet of the channel
	ID       uint64            // id of the request of the first packet
	Waiting  int               // packets in the channel, the first packet included
}

// PollStuck returns the next channel whose first packet has not moved for the time of the timeout.
// While a channel is stuck, PollStuck returns the channel once per timeout.
func (r *Router) PollStuck() (Stuck, bool) {
	if len(r.stuck) == 0 {
		return Stuck{}, false
	}
	s := r.stuck[0]
	r.stuck = r.stuck[1:]
	return s, true
}

// look finds the channels whose first packet has not moved, and applies the timeout's actions to
// them. A sender channel of a port whose link is down never counts as stuck, because its packets
// wait for the link. The grace period limits their wait if the link is dead. While any port is
// paused, no channel counts as stuck. look reports whether it dropped a packet, as relieve says.
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

// relieve applies the timeout's actions to a stuck receiver channel. relieve reports whether it
// dropped a packet. With the action drop, relieve always reports true, even if the first packet is
// a multicast that only waits for this chip and stays.
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
		r.drops = append(r.drops, Drop{s, wire.DropTimeout, p.Channel, wire.NumSides})
	}
	return len(gone) > 0
}

// relieveSender applies the timeout's actions to a stuck sender channel. relieveSender reports
// whether it dropped a packet.
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

// The method "late" reports whether the first packet of a channel has not moved for the time of the
// timeout. If so, late adds the channel to the list for PollStuck. If "excused" is true, or if a
// packet or a copy has left the channel, the time begins anew.
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
