package gossip

import (
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/hashicorp/memberlist"
)

// Limits of a move. The limits are our own choices.
const (
	moveTime  = time.Minute     // time that other chips may take to believe the new address
	moveTries = 3 * time.Second // shortest time between two attempts to tell a seed
)

// Move says that, from now on, other chips reach this chip at another address of the machine. An
// example is a container that was taken off a network and connected again. The pool must be bound
// to the wildcard address. Other chips keep the old address until they believe that this chip is
// dead. For that reason Move tells the other chips the new address again and again for a while.
func (p *Pool) Move(to netip.Addr) {
	b := to.AsSlice()
	if p.mu.Lock(); to.Is4() != p.addr.Addr().Is4() {
		p.mu.Unlock()
		return // the new address is of the other address family: the bound ports cannot follow
	}
	p.moved = b
	p.addr = netip.AddrPortFrom(to, p.addr.Port())
	p.mu.Unlock()
	p.wg.Go(func() {
		for end := time.Now().Add(moveTime); time.Now().Before(end); {
			p.tell()
			if seeds := p.cfg.Seeds(); len(seeds) > 0 {
				_, _ = p.list.Join([]string{seeds[rand.IntN(len(seeds))]}) // in the exchange, both sides learn whether the other side believes them dead
			}
			if !p.net.sleep(moveTries + rand.N(moveTries)) { // the pool ends
				return
			}
		}
	})
}

// relocate writes the new address into the library's own entry, since the library offers no other
// way to change the address. NotifyAlive calls relocate while the library holds the lock of its
// entries. relocate acts only on this process's own claim, since only that claim shares the entry's
// bytes. The library then sees that the old address and the new address differ, and does nothing
// more. The library's next announcement has the new address. The caller
// holds p.mu.
func (p *Pool) relocate(n *memberlist.Node) {
	if p.moved == nil || p.self == nil || n.Name != p.self.Name || len(n.Addr) == 0 || len(p.self.Addr) == 0 || &n.Addr[0] != &p.self.Addr[0] {
		return
	}
	p.self.Addr, p.moved = p.moved, nil // a new slice, because another goroutine may be reading the old slice
}

// Move calls [Pool.Move] for both pools.
func (p *Pools) Move(to netip.Addr) {
	p.mesh.Move(to)
	p.exits.Move(to)
}
