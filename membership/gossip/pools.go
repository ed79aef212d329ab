package gossip

import (
	"errors"
	"net/netip"
	"sync"
	"time"

	"ttfabric/membership"
)

// Pools is a chip that is in two pools: that of its mesh, and, as it has a
// cable to another mesh, that of all exit nodes. It is one membership to its
// user: of the exit nodes' pool only the chips of other meshes are of interest,
// those of its own mesh it knows better from the first.
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

// Notify signals that something has changed since it was last received from.
func (p *Pools) Notify() <-chan struct{} { return p.notify }

// View lists the chips that are believed alive.
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

// Events drains what happened.
func (p *Pools) Events() []membership.Event {
	es := p.mesh.Events()
	for _, e := range p.exits.Events() {
		if p.foreign(e.Member) {
			es = append(es, e)
		}
	}
	return es
}

// UpdateMeta says something new about this chip.
func (p *Pools) UpdateMeta(m membership.Meta) {
	p.mesh.UpdateMeta(m)
	p.exits.UpdateMeta(m)
}

// Addr is the socket of the mesh's pool.
func (p *Pools) Addr() netip.AddrPort { return p.mesh.Addr() }

// ExitAddr is the socket of the exit nodes' pool.
func (p *Pools) ExitAddr() netip.AddrPort { return p.exits.Addr() }

// Close says goodbye to both, each for at most leave.
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
