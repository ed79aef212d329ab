package fabric

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ttfabric/node/admin/api"
	"ttfabric/node/chip"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/snapshot"
	"ttfabric/wire"
)

// Snapshot takes a snapshot of the running fabric: a consistent cut, see package snapshot. If "payload" is
// true, the packets have their payloads. If "memory" is true, the result has the memory of the tiles.
// NoAnswer of the result lists three kinds of chips: chips that do not run, chips that do not begin the cut
// within [chip.CutTime], and chips whose state does not come within [chip.CutTime] and [AskTime] together.
// If no chip answers, Snapshot returns an error.
func (f *Fabric) Snapshot(ctx context.Context, payload, memory bool) (*snapshot.File, error) {
	if f.Spec.Runtime == spec.Model {
		return f.modelSnapshot(ctx, payload, memory)
	}
	cs, missing, err := f.Clients()
	if err != nil {
		return nil, err
	}
	now := time.Now()
	cut := uint32(now.UnixMilli()) * wire.CutStep
	if payload {
		cut |= wire.CutPayload
	}
	if memory {
		cut |= wire.CutMemory
	}
	s := &snapshot.File{Format: snapshot.Format, Version: snapshot.Version, Source: snapshot.FromFabric, Cut: snapshot.Hex32(cut), Made: now.UTC().Format(time.RFC3339),
		Payloads: payload, Memory: memory, Chips: []snapshot.Chip{}, NoAnswer: append([]wire.FabricNodeID{}, missing...),
		Topology: snapshot.Topology{Name: f.Topology.String(), Hash: snapshot.Hex64(f.Topology.Hash()), Text: string(f.Topology.Encode())}}
	var errs []error
	for _, a := range Each(ctx, cs, chip.CutTime+AskTime, func(ctx context.Context, c *api.Client) (snapshot.Part, error) {
		return c.Snapshot(ctx, cut, chip.CutTime)
	}) {
		if a.Err != nil {
			s.NoAnswer, errs = append(s.NoAnswer, a.Chip), append(errs, a.Err)
			continue
		}
		s.Chips, s.Options = append(s.Chips, a.Value.Chip), a.Value.Options
	}
	if len(s.Chips) == 0 {
		return nil, fmt.Errorf("no chip of fabric %q has answered: %w", f.Name(), errors.Join(errs...))
	}
	s.Join()
	return s, nil
}
