package rank

import (
	"context"
	"errors"
	"fmt"
	"io"

	"ttfabric/node/admin/api"
	"ttfabric/node/admin/attach"
	"ttfabric/node/noc/image"
	"ttfabric/node/rank/saved"
	"ttfabric/node/session"
)

// ErrNoCheckpoints is the error of [Rank.Save] in a job without a folder for checkpoints.
var ErrNoCheckpoints = errors.New("this job has no folder for checkpoints: start it with 'ttfabric run --checkpoints FOLDER'")

// Save makes a checkpoint of the job. All ranks must call Save. Save waits for all ranks, then saves the
// memory of the chip's tiles and the given state of the rank, and waits for all ranks again. When Save
// returns nil, the checkpoint of all ranks is complete. If the job starts again later, 'ttfabric run' first
// restores the memory of all chips. [Attach] then returns the state in State, and the number of the
// checkpoint in Restored.
//
// A rank must not call Save before its own requests have ended, because Save does not see a request that
// is still under way. Session.Flush waits for posted writes. A state has at most [saved.MaxState] bytes. After an
// error, a rank should end: the other ranks may wait for it.
func (r *Rank) Save(ctx context.Context, state []byte) error {
	if r.dir == "" {
		return ErrNoCheckpoints
	}
	if len(state) > saved.MaxState {
		return fmt.Errorf("a state of %d bytes: want at most %d", len(state), saved.MaxState)
	}
	number := r.number + 1
	if r.Rank == 0 {
		if err := saved.Begin(r.dir, number); err != nil {
			return fmt.Errorf("checkpoint %d: %w", number, err)
		}
	}
	err := r.Barrier(ctx)
	if err == nil {
		err = r.save(ctx, number, state)
	}
	if err == nil {
		err = r.Barrier(ctx)
	}
	if err == nil && r.Rank == 0 {
		err = saved.Commit(r.dir, number)
	}
	if err == nil {
		err = r.Barrier(ctx)
	}
	if err != nil {
		return fmt.Errorf("checkpoint %d: %w", number, err)
	}
	r.number = number
	return nil
}

// save writes this rank's part of a checkpoint.
func (r *Rank) save(ctx context.Context, number int, state []byte) error {
	m := saved.Mark{Number: number, Rank: r.Rank, Ranks: r.World, Chip: r.Self(), Topology: saved.Hash(r.Topology()), State: int64(len(state))}
	counter, ok := r.chip.(session.Counter)
	if !ok {
		return session.ErrNoCounter
	}
	var err error
	if m.Moment, err = counter.Moment(ctx); err != nil {
		return err
	}
	if err = saved.Write(r.dir, number, m.Chip, saved.Memory, func(w io.Writer) error { _, err := r.SaveMemory(ctx, w); return err }); err != nil {
		return err
	}
	if err = saved.Write(r.dir, number, m.Chip, saved.State, func(w io.Writer) error { _, err := w.Write(state); return err }); err != nil {
		return err
	}
	return m.Put(r.dir)
}

// beside is a chip that the rank reaches by the chip's socket. Images of the memory go over the chip's API.
type beside struct {
	*attach.Client
	images *api.Client
}

// SaveMemory implements session.Imager.
func (b beside) SaveMemory(ctx context.Context, w io.Writer) (image.Sum, error) {
	return b.images.SaveMemory(ctx, w)
}

// RestoreMemory implements session.Imager.
func (b beside) RestoreMemory(ctx context.Context, r io.Reader) (image.Sum, error) {
	return b.images.RestoreMemory(ctx, r)
}
