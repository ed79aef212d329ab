package gossip

import (
	"errors"
	"net/netip"
	"sync"
	"time"

	"ttfabric/membership"
)

// Pools is the membership of an exit node. An exit node is in two gossip pools: the pool of its
// mesh, and the pool of all exit nodes. Pools has the methods of [Pool], and merges what both pools
// report. For chips of its own mesh, Pools uses only the mesh's pool, because all chips of the mesh
// are in that pool.
type Pools struct {
	mesh, exits *Pool
	notify      chan struct{}
	done        chan struct{}
	wg          sync.WaitGroup
}

// Join returns the membership of an exit node from its two pools.
func Join(mesh, exits *Pool) *Pools {
	p := &Pools{mesh: mesh, exits: exits, notify: make(chan struct{}, 1), done: make(chan struct{})}
	for _, one := range []*Pool{mesh, exits} {
		p.wg.Go(func() {
			for {
				select {
				case <-one.Notify():
				case <-p.done:
					return
				}
				select {
				case p.notify <- struct{}{}:
				default:
				}
			}
		})
	}
	return p
}

// Notify returns a Go channel. A receive from this Go channel waits until one of the two pools has
// had new events since the last receive.
func (p *Pools) Notify() <-chan struct{} { return p.notify }

// View returns the chips that the two pools believe alive. The chips of the own mesh come first.
func (p *Pools) View() []membership.Member {
	v := p.mesh.View()
	for _, m := range p.exits.View() {
		if p.foreign(m) {
			v = append(v, m)
		}
	}
	return v
}

func (p *Pools) foreign(m membership.Member) bool { return m.Meta.Node.Mesh != p.mesh.cfg.Node.Mesh }

// Events returns the events of both pools since the last call. From the pool of all exit nodes,
// Events takes only the events about chips of other meshes.
func (p *Pools) Events() []membership.Event {
	es := p.mesh.Events()
	for _, e := range p.exits.Events() {
		if p.foreign(e.Member) {
			es = append(es, e)
		}
	}
	return es
}

// UpdateMeta sets new metadata of this chip in both pools.
func (p *Pools) UpdateMeta(m membership.Meta) {
	p.mesh.UpdateMeta(m)
	p.exits.UpdateMeta(m)
}

// Addr returns the address of this chip's socket in the pool of its mesh.
func (p *Pools) Addr() netip.AddrPort { return p.mesh.Addr() }

// ExitAddr returns the address of this chip's socket in the pool of all exit nodes.
func (p *Pools) ExitAddr() netip.AddrPort { return p.exits.Addr() }

// Close calls [Pool.Close] for both pools at the same time.
func (p *Pools) Close(leave time.Duration) error {
	var wg sync.WaitGroup
	var errs [2]error
	for i, one := range []*Pool{p.mesh, p.exits} {
		wg.Go(func() { errs[i] = one.Close(leave) })
	}
	wg.Wait()
	select {
	case <-p.done:
	default:
		close(p.done)
	}
	p.wg.Wait()
	return errors.Join(errs[:]...)
}
