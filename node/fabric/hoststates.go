package fabric

import (
	"context"

	queues "ttfabric/node/firmware/host"
	"ttfabric/wire"
)

// HostStates reads the states of the base firmware's queues of all ethernet tiles of a chip, and the
// firmware's counters by the type of request.
func (f *Fabric) HostStates(ctx context.Context, n wire.FabricNodeID) ([]queues.State, error) {
	s, err := f.Session(n)
	if err != nil {
		return nil, err
	}
	states, err := queues.States(ctx, s)
	if err != nil {
		return nil, err
	}
	c, err := f.Client(n)
	if err != nil {
		return nil, err
	}
	tiles, err := c.HostTiles(ctx)
	if err != nil {
		return nil, err
	}
	queues.AddTypes(states, tiles)
	return states, nil
}
