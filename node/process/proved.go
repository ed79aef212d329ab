package process

import (
	"fmt"

	"ttfabric/router/route"
	"ttfabric/router/topo"
)

// proved returns an error if the chip's routes can deadlock, or if a packet might not
// arrive. If the hash of the routes equals the parameter "hash", the routes have been
// checked or accepted before, and proved returns nil.
func proved(t *topo.Topology, cfg route.Config, hash uint32) error {
	p, err := route.New(t, cfg)
	if err != nil {
		return err
	}
	if p.Hash() == hash {
		return nil
	}
	if v := p.Check(p.Multicasts()); !v.Sound() {
		return fmt.Errorf("the chip refuses the routes with hash %08x, because these routes %s; all chips need the same topology and routing options", p.Hash(), &v)
	}
	return nil
}
