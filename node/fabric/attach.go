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

// attachRetry is the time between two tries to reach a chip.
const attachRetry = 250 * time.Millisecond

// describe asks until one of the chips says what the fabric is.
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
					cancel() // one is enough
				}
			})
		}
		wg.Wait()
		cancel()
		for i, v := range views {
			var refused *api.StatusError
			if errors.As(errs[i], &refused) { // it answers, and will not answer otherwise
				return m, nil, errs[i]
			} else if errs[i] != nil {
				continue
			}
			if t, err = topo.Load("the topology that "+apis[i]+" tells", []byte(v.Topology)); err != nil {
				return m, nil, err
			}
			// What only the chips' own machines have stays there.
			v.Mesh.Archive, v.Mesh.Record, v.Mesh.PortBase, v.Mesh.Project = "", "", 0, ""
			v.Mesh.Runtime, v.Mesh.Attached = spec.Elsewhere, apis
			return v.Mesh, t, nil
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return m, nil, ctx.Err()
			}
			return m, nil, spec.NotReadyf("no chip answers: %w; is its --api an address that this machine reaches?", errors.Join(errs...))
		case <-time.After(attachRetry):
		}
	}
}

// Attach makes the run folder of a fabric whose chips run on other machines, or
// renews the folder of the same attached fabric. apis are the APIs of one or more
// chips, as HOST:PORT; token is the token of all. Attach asks until one chip
// answers, or ctx ends. name is what the fabric is called here; "": as its chips call it.
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
		return nil, spec.Usagef("a fabric named %q runs on this machine; choose another --name", m.Name)
	}
	_ = dir.Remove() // what was attached before, or what a crash left
	if err := dir.Create(t, &m, token); err != nil {
		return nil, err
	}
	return &Fabric{Dir: dir, Spec: m, Topology: t, token: token}, nil
}
