package gossip

import (
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/hashicorp/memberlist"
)

// Limits of [Pool.Move]. ttfabric chose the values.
const (
	moveTime  = time.Minute     // how long Move announces the new address
	moveTries = 3 * time.Second // shortest time between two announcements; the longest time is twice as long
)

// Move gives this chip's gossip another address of the same machine, and announces the new address
// to the other chips. A container, for example, may get another address when it is disconnected
// from a network and connected again. The pool must be bound to the wildcard address. Other chips
// keep the old address until they believe this chip dead. Move therefore repeats the announcement
// for a minute, in the background. If the new address has another IP version than the old address,
// Move does nothing.
func (p *Pool) Move(to netip.Addr) {
	b := to.AsSlice()
	if p.mu.Lock(); to.Is4() != p.addr.Addr().Is4() {
		p.mu.Unlock()
		return // the bound sockets cannot receive at an address of another IP version
	}
	p.moved = b
	p.addr = netip.AddrPortFrom(to, p.addr.Port())
	p.mu.Unlock()
	p.wg.Go(func() {
		for end := time.Now().Add(moveTime); time.Now().Before(end); {
			p.tell()
			if seeds := p.cfg.Seeds(); len(seeds) > 0 {
				_, _ = p.list.Join([]string{seeds[rand.IntN(len(seeds))]}) // in the exchange, each side learns whether the other side believes it dead
			}
			if !p.net.sleep(moveTries + rand.N(moveTries)) { // somebody has closed the pool
				return
			}
		}
	})
}

// relocate writes the new address into the library's entry of this chip, because the library has no
// function that changes an address. NotifyAlive calls relocate while the library holds the lock of
// its entries. relocate does nothing if n is not this process's own announcement. relocate
// recognizes an own announcement because the announcement and the entry share the bytes of the
// address. After relocate, the library compares the two addresses, and ignores the announcement
// because they differ. The library's next announcement has the new address. The caller holds p.mu.
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
