package node

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"ttfabric/membership"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Gossip only tells a chip where to send hellos. No port comes up without the link's handshake, and
// no port goes down because of gossip. A port that carries its link stays with the peer that the
// port hears, whatever address gossip reports.

// maxAsks is how often a port asks whether its peer lives. After maxAsks questions without an
// answer, the port leaves the silent peer for another address.
const maxAsks = 3

// stillThere applies to a port that does not carry its link while the link is up by another cable.
// If the port has heard the peer within stillThere, the peer still is at its present address.
// stillThere is longer than the time between two keepalives of any profile.
const stillThere = 2 * time.Second

// news is a report of the pool that a port's peer is at another address. The report came while the
// port carries its link.
type news struct {
	to    netip.AddrPort // zero: no news
	asks  int            // questions that the port has sent to the peer at the present address
	since mono.Time      // time of the first question
	kept  bool           // the peer has answered
	look  mono.Time      // when to look for the answer
}

// follow applies the pool's reports to the addresses of peers.
func (n *Node) follow(ctx context.Context) {
	look := time.NewTimer(time.Hour)
	defer look.Stop()
	for {
		look.Reset(n.readdress())
		select {
		case <-ctx.Done():
			return
		case <-n.moved:
		case <-look.C:
		case <-n.member.Notify():
			for _, e := range n.member.Events() {
				n.events.publish(Event{Time: time.Now(), Member: &e})
			}
		}
	}
}

// readdress makes ports send to the addresses at which the pool reports their peers. readdress
// returns the time after which the caller must call it again.
func (n *Node) readdress() time.Duration {
	where := map[wire.FabricNodeID]membership.Member{}
	var words []wire.LinkState
	for _, m := range n.member.View() {
		where[m.Meta.Node] = m
		words = append(words, m.Meta.LinkState())
	}
	n.step(asked, func(now mono.Time) {
		n.chip.HandleLinkStates(now, words)
		n.addr = where[n.cfg.Node].Addr
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
		again = min(again, wait)
		if !move {
			continue
		}
		if err := p.pipe.SetPeer(to); err != nil {
			n.log.Warn("cannot address the peer", "chip", n.cfg.Node, "channel", p.ch, "peer", to, "error", err)
			continue
		}
		n.step(asked, func(now mono.Time) {
			p.to = to
			n.trains(now, p)
		})
	}
	return again
}

// leaves reports whether a port must send to another address now. If not, leaves also returns after
// which time the caller must look again.
func (n *Node) leaves(now mono.Time, p *livePort, to netip.AddrPort, m *membership.Member) (bool, time.Duration) {
	switch {
	case to == p.to:
		p.news = news{}
		return false, time.Hour
	case !n.chip.Carries(p.ch):
		p.news = news{}
		// The peer's frames may use this cable although this end's frames use another cable. A
		// datagram that came before the link came up may be from an earlier incarnation of the
		// peer.
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

// Readdress makes each port choose again the local address from which the port sends. The caller
// calls Readdress after the machine has got another address. The ports then listen on the wildcard
// address.
func (n *Node) Readdress() {
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
