package gossip

import (
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/hashicorp/memberlist"
)

// Limits of a move; our own choices.
const (
	moveTime  = time.Minute     // that others may take to believe it
	moveTries = 3 * time.Second // between two attempts to tell a seed, at least
)

// Move says that the chip is reached at another address of the machine from now
// on, as that of a container that was taken off a network and put on again. The
// pool is to be bound to the wildcard address. Others hold to the old address
// until they believe it dead, so that they are told again and again for a while.
func (p *Pool) Move(to netip.Addr) {
	b := to.AsSlice()
	if p.mu.Lock(); to.Is4() != p.addr.Addr().Is4() {
		p.mu.Unlock()
		return // no port could follow
	}
	p.moved = b
	p.addr = netip.AddrPortFrom(to, p.addr.Port())
	p.mu.Unlock()
	p.wg.Go(func() {
		for end := time.Now().Add(moveTime); time.Now().Before(end); {
			p.tell()
			if seeds := p.cfg.Seeds(); len(seeds) > 0 {
				_, _ = p.list.Join([]string{seeds[rand.IntN(len(seeds))]}) // the exchange tells both whether one is held dead
			}
			if !p.net.sleep(moveTries + rand.N(moveTries)) { // the pool ends
				return
			}
		}
	})
}

// relocate writes the new address into the library's own entry, which has no
// other way to change it. It is called from NotifyAlive, where the library
// holds the lock of its entries, and acts only on what this process says of
// itself: that alone shares the entry's bytes. The library then finds that old and new
// differ, and leaves it at that; what it says next has the new one. p.mu is held.
func (p *Pool) relocate(n *memberlist.Node) {
	if p.moved == nil || p.self == nil || n.Name != p.self.Name || len(n.Addr) == 0 || len(p.self.Addr) == 0 || &n.Addr[0] != &p.self.Addr[0] {
		return
	}
	p.self.Addr, p.moved = p.moved, nil // a new slice: who has the old one may be reading it
}

// Move moves the chip in both pools.
func (p *Pools) Move(to netip.Addr) {
	p.mesh.Move(to)
	p.exits.Move(to)
}
