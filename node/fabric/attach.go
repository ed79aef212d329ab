package fabric

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"ttfabric/node/admin/api"
	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// attachRetry is the time between two attempts to reach a chip.
const attachRetry = 250 * time.Millisecond

// describe asks the chips at the addresses in apis for the spec and topology of their fabric, until
// one chip answers or ctx ends. If a chip refuses the request, describe returns the chip's error.
func describe(ctx context.Context, apis []string, token string) (m spec.Spec, t *topo.Topology, err error) {
	for {
		views, errs := make([]spec.View, len(apis)), make([]error, len(apis))
		round, cancel := context.WithTimeout(ctx, pollTime)
		var wg sync.WaitGroup
		for i, a := range apis {
			wg.Go(func() {
				cl := api.NewClient(a, token, wire.FabricNodeID{}, nil).At(a)
				defer cl.Close()
				if errs[i] = cl.Fabric(round, &views[i]); errs[i] == nil {
					cancel() // the answer of one chip is enough
				}
			})
		}
		wg.Wait()
		cancel()
		for i, v := range views {
			var refused *api.StatusError
			if errors.As(errs[i], &refused) { // the chip would refuse a second request, too
				return m, nil, errs[i]
			} else if errs[i] != nil {
				continue
			}
			if t, err = topo.Load("the topology of the chip at "+apis[i], []byte(v.Topology)); err != nil {
				return m, nil, err
			}
			// The values of these fields are valid only on the chips' own machines.
			v.Mesh.Archive, v.Mesh.Record, v.Mesh.PortBase, v.Mesh.Project = "", "", 0, ""
			v.Mesh.Runtime, v.Mesh.Attached = spec.Elsewhere, apis
			return v.Mesh, t, nil
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return m, nil, ctx.Err()
			}
			return m, nil, spec.NotReadyf("no chip answers: %w; check that this machine can reach the addresses of --api", errors.Join(errs...))
		case <-time.After(attachRetry):
		}
	}
}

// Attach makes the run folder of a fabric whose chips run on other machines. If a fabric of this
// name is attached already, Attach replaces its folder. If this machine has the run folder of a
// fabric of this name that was started here, Attach returns an error of kind [spec.Usage]. The
// parameter apis has the addresses of the APIs of one or more chips, as HOST:PORT. The parameter
// "token" is the bearer token of all chips' APIs. Attach waits until one chip answers or ctx ends.
// The parameter "name" is the fabric's name on this machine. If name is "", the fabric's name is
// the name that the chips report.
func Attach(ctx context.Context, name string, apis []string, token string) (*Fabric, error) {
	m, t, err := describe(ctx, apis, token)
	if err != nil {
		return nil, err
	}
	m.Name = cmp.Or(name, m.Name)
	dir, err := folder.For(m.Name)
	if err != nil {
		return nil, err
	}
	if err := folder.MakeRoot(); err != nil {
		return nil, err
	}
	unlock, err := folder.Lock(ctx, folder.Root())
	if err != nil {
		return nil, err
	}
	defer unlock()
	if old, err := dir.Spec(); err == nil && old.Runtime != spec.Elsewhere {
		return nil, spec.Usagef("there is a fabric named %q on this machine already; take it down with 'ttfabric down -n %s', or choose another --name", m.Name, m.Name)
	}
	_ = dir.Remove() // an earlier Attach, or a crash, may have left a folder
	if err := dir.Create(t, &m, token); err != nil {
		return nil, err
	}
	return &Fabric{Dir: dir, Spec: m, Topology: t, token: token}, nil
}
