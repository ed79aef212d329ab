package gossip

import (
	"errors"
	"net/netip"
	"sync"
	"time"

	"ttfabric/membership"
)

// Pools is the membership of a chip that is in two pools. One is the pool of its mesh. Since the
// chip has a cable to another mesh, it is also in the pool of all exit nodes. To its user, Pools is
// one membership. From the exit nodes' pool, Pools takes only the chips of other meshes, since the
// pool of the chip's own mesh knows that mesh better.
type Pools struct {
	mesh, exits *Pool
	notify      chan struct{}
	done        chan struct{}
	wg          sync.WaitGroup
}

// Join makes one membership of two pools of the same chip.
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

// Notify returns a channel that signals a change since the last receive from the channel.
func (p *Pools) Notify() <-chan struct{} { return p.notify }

// View lists the chips that the pools believe alive.
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

// Events returns the events since the last call.
func (p *Pools) Events() []membership.Event {
	es := p.mesh.Events()
	for _, e := range p.exits.Events() {
		if p.foreign(e.Member) {
			es = append(es, e)
		}
	}
	return es
}

// UpdateMeta sets new metadata for this chip.
func (p *Pools) UpdateMeta(m membership.Meta) {
	p.mesh.UpdateMeta(m)
	p.exits.UpdateMeta(m)
}

// Addr returns the address of the socket of the mesh's pool.
func (p *Pools) Addr() netip.AddrPort { return p.mesh.Addr() }

// ExitAddr returns the address of the socket of the exit nodes' pool.
func (p *Pools) ExitAddr() netip.AddrPort { return p.exits.Addr() }

// Close leaves both pools. Close takes at most the time leave for each pool.
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
