package router

import (
	"time"

	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Timeout is the last line of defence against deadlock (Spec §7.3): what
// happens where the head of a channel cannot move for a time. It is told in
// any case; dropping and draining are optional, since who looks for the cause
// wants to see the packets where they are.
type Timeout struct {
	After time.Duration // 0: off. Noticed at most a quarter later
	Drop  bool          // give the head up
	Drain bool          // give up all that waits in its channel
}

// looksPerTimeout is how often within the timeout the channels are looked at.
const looksPerTimeout = 4

// Stuck is a channel whose head could not move.
type Stuck struct {
	Port     int
	VC       wire.VC
	Sender   int // sender channel, or -1 for the receiver channel
	For      time.Duration
	Src, Dst wire.FabricNodeID // of the packet at its head
	ID       uint64
	Waiting  int // packets in the channel
}

// PollStuck yields channels whose head could not move for the timeout, each once per timeout.
func (r *Router) PollStuck() (Stuck, bool) {
	if len(r.stuck) == 0 {
		return Stuck{}, false
	}
	s := r.stuck[0]
	r.stuck = r.stuck[1:]
	return s, true
}

// look finds the heads that have not moved. What waits for a dead next hop is
// the grace period's affair, and while a port pauses, nothing is late. It reports whether anything was given up.
func (r *Router) look(now mono.Time) bool {
	r.lookAt = now.Add(r.cfg.Timeout.After / looksPerTimeout)
	gone := false
	for i := range r.ports {
		p := &r.ports[i]
		for _, v := range r.vcs {
			if r.late(now, i, v, -1, &p.recv[v], r.paused > 0) {
				gone = true
				for n := r.toDrop(&p.recv[v]); n > 0; n-- {
					r.drop(i, v, wire.DropTimeout)
				}
			}
			for c := range p.send[v] {
				q := &p.send[v][c]
				if !r.late(now, i, v, c, q, !p.up || r.paused > 0) {
					continue
				}
				gone = true
				r.shed(p, v, c, wire.DropTimeout, r.toDrop(q))
			}
		}
	}
	return gone
}

// toDrop is how many packets of a stuck channel are given up.
func (r *Router) toDrop(q *ring) int {
	if r.cfg.Timeout.Drain {
		return q.n
	}
	return 1
}

// late notes whether a channel's head is another than before, tells of it if it
// has stood for the timeout, and reports whether packets are to be given up.
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
	return r.cfg.Timeout.Drop || r.cfg.Timeout.Drain
}
