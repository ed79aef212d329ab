package gossip

import (
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/hashicorp/memberlist"
)

// Limits of a move. They are our own choices.
const (
	moveTime  = time.Minute     // how long other chips may take to believe the new address
	moveTries = 3 * time.Second // shortest time between two attempts to tell a seed
)

// Move says that the chip is reached at another address of the machine from now on. An example is a
// container that was taken off a network and connected again. The pool must be bound to the
// wildcard address. Other chips keep the old address until they believe that this chip is dead. So
// Move tells them again and again for a while.
func (p *Pool) Move(to netip.Addr) {
	b := to.AsSlice()
	if p.mu.Lock(); to.Is4() != p.addr.Addr().Is4() {
		p.mu.Unlock()
		return // the other address family: the bound ports cannot follow
	}
	p.moved = b
	p.addr = netip.AddrPortFrom(to, p.addr.Port())
	p.mu.Unlock()
	p.wg.Go(func() {
		for end := time.Now().Add(moveTime); time.Now().Before(end); {
			p.tell()
			if seeds := p.cfg.Seeds(); len(seeds) > 0 {
				_, _ = p.list.Join([]string{seeds[rand.IntN(len(seeds))]}) // the exchange tells both sides whether the other believes them dead
			}
			if !p.net.sleep(moveTries + rand.N(moveTries)) { // the pool ends
				return
			}
		}
	})
}

// relocate writes the new address into the library's own entry, since the library has no other way
// to change it. NotifyAlive calls it while the library holds the lock of its entries. relocate acts
// only on the claim of this process about itself, since only that claim shares the entry's bytes.
// The library then sees that old and new address differ, and does nothing more. Its next
// announcement has the new address. The caller holds p.mu.
func (p *Pool) relocate(n *memberlist.Node) {
	if p.moved == nil || p.self == nil || n.Name != p.self.Name || len(n.Addr) == 0 || len(p.self.Addr) == 0 || &n.Addr[0] != &p.self.Addr[0] {
		return
	}
	p.self.Addr, p.moved = p.moved, nil // a new slice: whoever has the old one may be reading it
}

// Move is [Pool.Move] for both pools.
func (p *Pools) Move(to netip.Addr) {
	p.mesh.Move(to)
	p.exits.Move(to)
}
