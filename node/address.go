package node

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"ttfabric/membership"
	"ttfabric/node/flow"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// A chip learns from gossip the addresses of its peers, and the link states of other chips. Another
// source of addresses may be quicker, such as the run folder of chips on one machine. In this case,
// the chip asks the quicker source for the first address of each peer (see [Node.Meet]). A link
// comes up only by an exchange of hellos, and gossip takes no link down. A port carries its link if
// the link is up by the port's own cable. Such a port keeps its peer's address as long as the peer
// answers, whatever address gossip reports.

// maxAsks is the largest number of hellos that a port sends to its peer's present address after
// gossip has reported another address. If the port hears nothing from the present address after
// these hellos, the port sends to the reported address from then on.
const maxAsks = 3

// stillThere is how long a datagram from the peer proves that the peer is still at its present
// address. stillThere applies to a port whose link is up by the cable of another port. In every
// profile, stillThere is longer than the time between two keepalives.
const stillThere = 2 * time.Second

// news is a report of the gossip pool that a port's peer is at another address. A port keeps a
// report only while the port carries its link.
type news struct {
	to    netip.AddrPort // the reported address; zero: there is no report
	asks  int            // hellos that the port has sent to the peer's present address since the report
	since mono.Time      // time of the report
	kept  bool           // since the report, the port has sent a hello and heard the peer at its present address
	look  mono.Time      // when the node checks whether the peer has answered the latest hello
}

// Shortest times between two reads of the gossip pool's view, if events of the pool cause the
// second read. While n chips join, each chip hears n events, but only a few of them change anything
// for its ports and tables. Reading the view takes time proportional to n.
const (
	viewPause = 50 * time.Millisecond // after an event that may change an address of a port's peer, or a link state
	viewRest  = time.Second           // after other events
)

// Times between two looks for peers; see [Node.Meet]. Each time is a quarter longer than the time
// before. The delay until a port finds its peer is therefore at most a fifth of the whole search.
const (
	meetMin = 10 * time.Millisecond
	meetMax = 500 * time.Millisecond
)

// peers is what a node knows about addresses. The node's lock guards self and find.
type peers struct {
	self   netip.Addr    // this chip's address, as the pool reports it
	find   PeerFinder    // see Node.Meet; nil: only gossip tells the peers' addresses
	sought chan struct{} // gets a value when ports shall look for their peers with the function find
	aims   sync.Mutex    // held while a port's peer address is set; a holder may take the node's lock
	moved  chan struct{} // gets a value when a port with a report of another address no longer carries its link
}

func newPeers() *peers { return &peers{sought: make(chan struct{}, 1), moved: make(chan struct{}, 1)} }

// meeting decides when a node looks for the peers whose addresses it does not know.
type meeting struct {
	at   time.Time     // when the node looks next; zero: the node does not look
	wait time.Duration // time between the next look and the one after it
}

// begin makes the node look at the time now, unless the node looks for peers already.
func (m *meeting) begin(now time.Time) {
	if m.at.IsZero() {
		m.at, m.wait = now, meetMin
	}
}

// due reports whether the node looks at the time now.
func (m *meeting) due(now time.Time) bool { return !m.at.IsZero() && !now.Before(m.at) }

// looked notes that the node has looked at the time now. If the node found all peers, the node
// looks no more.
func (m *meeting) looked(now time.Time, all bool) {
	if m.at = now.Add(m.wait); all {
		m.at = time.Time{}
	}
	m.wait = min(m.wait*5/4, meetMax)
}

// follow sets the addresses of the ports' peers by the reports of the gossip pool, until ctx ends.
// follow also publishes the pool's events.
func (n *Node) follow(ctx context.Context) {
	look := time.NewTimer(0)
	defer look.Stop()
	var read, due time.Time // when follow last read the pool's view, and when follow must read the view next
	var meet meeting
	reset := func() {
		at := due
		if !meet.at.IsZero() && meet.at.Before(at) {
			at = meet.at
		}
		look.Reset(time.Until(at))
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.peers.sought:
			meet.begin(time.Now())
		case <-n.peers.moved:
			due = time.Time{}
		case <-look.C:
		case <-n.member.Notify():
			pause, events := viewPause, n.member.Events()
			if len(events) > 0 && !slices.ContainsFunc(events, n.concerns) {
				pause = viewRest
			}
			n.tellLives(events)
			for _, e := range events {
				n.events.publish(Event{Time: time.Now(), Member: &e})
			}
			if at := read.Add(pause); at.Before(due) {
				due = at
			}
		}
		if now := time.Now(); meet.due(now) {
			meet.looked(now, n.meetPeers())
		}
		if now := time.Now(); !now.Before(due) {
			read, due = now, now.Add(n.readdress())
		}
		reset()
	}
}

// concerns reports whether an event can change the address of a port's peer, the chip's own
// address, or the link states.
func (n *Node) concerns(e membership.Event) bool {
	m := &e.Member
	return m.Meta.LinkVersion != 0 || m.Meta.Node == n.cfg.Node || slices.ContainsFunc(n.ports, func(p *livePort) bool { return p.peer.Node == m.Meta.Node })
}

// PeerFinder returns the address of a port of another chip. If the address is not known yet, a
// PeerFinder returns false. A PeerFinder may read files.
type PeerFinder func(port wire.PortID) (to netip.AddrPort, ok bool)

// Meet finds the peers of the ports faster than gossip, which takes several rounds of half a
// second. For each port that does not know its peer's address, the node calls find repeatedly,
// until find or gossip returns the address. Later addresses come from gossip. A port cannot learn
// the address from its peer's datagrams, because its transport drops datagrams of an unknown peer.
// Before Meet, the caller publishes this chip's addresses to the PeerFinders of the other chips.
func (n *Node) Meet(find PeerFinder) {
	n.step(asked, func(mono.Time) { n.peers.find = find })
	wake(n.peers.sought)
}

// look makes follow read the gossip pool's view.
func (n *Node) look() { wake(n.peers.moved) }

// wake sends a value to a Go channel that has room for one value, unless a value waits there already.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// meetPeers makes the ports that do not know their peers' addresses send to the addresses that the
// PeerFinder returns. meetPeers reports whether all ports know their peers' addresses now.
func (n *Node) meetPeers() (all bool) {
	all = true
	for _, p := range n.ports {
		var find PeerFinder
		n.step(asked, func(mono.Time) {
			if !p.to.IsValid() {
				find = n.peers.find
			}
		})
		if find == nil {
			continue
		}
		if to, ok := find(p.peer); !ok || !n.aim(p, to) {
			all = false
		}
	}
	return all
}

// aimRetry is the time after which a node tries again to make a port send to an address that the
// port has refused.
const aimRetry = time.Second

// aim makes a port send to its peer at the address in the argument "to". If the port refuses the
// address, aim logs the first refusal and returns false.
func (n *Node) aim(p *livePort, to netip.AddrPort) bool {
	n.peers.aims.Lock()
	defer n.peers.aims.Unlock()
	if err := p.pipe.SetPeer(to); err != nil {
		if p.refused != to {
			n.log.Warn("cannot address the peer", "chip", n.cfg.Node, "channel", p.ch, "peer", to, "error", err)
		}
		p.refused = to
		return false
	}
	p.refused = netip.AddrPort{}
	n.step(asked, func(now mono.Time) {
		p.to = to
		n.trains(now, p)
	})
	return true
}

// tellLives reports to the chip which other chips have started, restarted or ended, according to
// the gossip pool's events.
func (n *Node) tellLives(events []membership.Event) {
	var news []flow.Life
	for i := range events {
		switch m := &events[i].Member.Meta; events[i].Kind {
		case membership.Joined, membership.Restarted:
			news = append(news, flow.Life{Node: m.Node, Life: m.Incarnation.Life()})
		case membership.Left:
			news = append(news, flow.Life{Node: m.Node})
		}
	}
	if len(news) > 0 {
		n.step(asked, func(now mono.Time) { n.chip.HandleLives(now, news) })
	}
}

// readdress hands the link states and lives from gossip to the chip, and notes the chip's own
// address. If leaves returns true for a port, readdress makes the port send to the address that
// gossip reports for the peer. readdress returns the time after which its caller must call
// readdress again.
func (n *Node) readdress() time.Duration {
	where := map[wire.FabricNodeID]membership.Member{}
	var words []wire.LinkState
	var lives []flow.Life
	for _, m := range n.member.View() {
		where[m.Meta.Node] = m
		words = append(words, m.Meta.LinkState())
		lives = append(lives, flow.Life{Node: m.Meta.Node, Life: m.Meta.Incarnation.Life()})
	}
	n.step(asked, func(now mono.Time) {
		n.chip.HandleLinkStates(now, words)
		n.chip.HandleLives(now, lives)
		n.peers.self = where[n.cfg.Node].Addr
	})
	again := time.Hour
	for _, p := range n.ports {
		m, ok := where[p.peer.Node]
		if !ok || m.Meta.Ports[p.peer.Channel] == 0 {
			continue
		}
		to := netip.AddrPortFrom(m.Addr, m.Meta.Ports[p.peer.Channel])
		move, wait := false, time.Hour
		n.step(asked, func(now mono.Time) { move, wait = n.leaves(now, p, to, &m) })
		if move {
			if wait = time.Hour; !n.aim(p, to) {
				wait = aimRetry
			}
		}
		again = min(again, wait)
	}
	return again
}

// leaves returns true if a port must send to the address in the argument "to" from now on. If the
// port keeps its present address, leaves also returns the time after which the caller must call
// leaves again.
func (n *Node) leaves(now mono.Time, p *livePort, to netip.AddrPort, m *membership.Member) (bool, time.Duration) {
	switch {
	case to == p.to:
		p.news = news{}
		return false, time.Hour
	case !n.chip.Carries(p.ch):
		p.news = news{}
		// This end's frames use another cable, but the peer's frames may use this cable. A datagram
		// from before the link came up proves nothing, because an earlier incarnation of the peer
		// may have sent it.
		since, up := n.chip.Up(p.ch)
		if quiet := now.Sub(p.heard); up && p.heard > since && quiet < stillThere {
			return false, stillThere - quiet
		}
		return true, 0
	case p.news.to != to:
		p.news = news{to: to, since: now, look: now}
	}
	w := &p.news
	switch {
	case w.kept:
		return false, time.Hour // the port keeps its address until the link goes down
	case w.asks > 0 && p.heard > w.since:
		w.kept = true
		n.events.publish(Event{Time: time.Now(), Member: &membership.Event{Kind: membership.Rejected, Member: *m,
			Reason: fmt.Sprintf("gossip says the chip is at %s; channel %d hears it at %s and stays there", to, p.ch, p.to)}})
		return false, time.Hour
	case w.look.After(now):
		return false, w.look.Sub(now)
	case w.asks == maxAsks:
		p.news = news{}
		return true, 0
	}
	w.asks++
	wait := n.chip.Ask(now, p.ch)
	w.look = now.Add(wait)
	return false, wait
}

// Readdress makes each port that knows its peer's address choose again the local address from which
// the port sends. The caller calls Readdress after the address of the machine has changed.
// Readdress is for ports that listen on the wildcard address.
func (n *Node) Readdress() {
	n.peers.aims.Lock()
	defer n.peers.aims.Unlock()
	for _, p := range n.ports {
		var to netip.AddrPort
		n.step(asked, func(mono.Time) { to = p.to })
		if !to.IsValid() {
			continue
		}
		if err := p.pipe.SetPeer(to); err != nil {
			n.log.Warn("cannot address the peer", "chip", n.cfg.Node, "channel", p.ch, "peer", to, "error", err)
			continue
		}
		n.step(asked, func(now mono.Time) { n.resize(now, p) })
	}
}
