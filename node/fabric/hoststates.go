package fabric

import (
	"context"
	"errors"

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

// HostError adds the firmware's reason to an error of a request through the queues of a tile. All other errors
// stay as they are. If another host uses the queues too, the reason may be that of the other host's request.
func (f *Fabric) HostError(ctx context.Context, n wire.FabricNodeID, ch wire.Channel, err error) error {
	var r *queues.RequestError
	if !errors.As(err, &r) {
		return err
	}
	c, failed := f.Client(n)
	if failed != nil {
		return err
	}
	if tiles, failed := c.HostTiles(ctx); failed == nil && int(ch) < len(tiles) {
		r.Why = tiles[ch].LastError
	}
	return err
}
