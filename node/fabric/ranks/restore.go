package ranks

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"ttfabric/node/admin/api"
	"ttfabric/node/fabric"
	"ttfabric/node/rank/saved"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// Times and limits of a restoration.
const (
	settleTime   = 30 * time.Second       // longest time for the requests and jobs of an earlier attempt to end
	settleLook   = 100 * time.Millisecond // time between two looks at them
	restoresOnce = 8                      // chips that read their memory at once
)

// restore restores the memory of all chips from the latest checkpoint, and returns the number of the
// checkpoint. If the job has no checkpoint, the number is 0. After an earlier attempt, restore first asks the
// chips what they have lost since the checkpoint. Requests of the earlier attempt may still be under way, and
// restore waits until they have ended.
func (j *Job) restore(ctx context.Context, again bool) (number int, since *fabric.LossesSince, err error) {
	if j.Checkpoints == "" {
		return 0, nil, nil
	}
	if number, err = saved.Latest(j.Checkpoints); err == nil && number == 0 {
		if again {
			j.Tell("The job has made no checkpoint yet, so all ranks begin anew. The chips that were not lost keep their memory.")
		}
		return 0, nil, nil
	}
	var marks []saved.Mark
	if err == nil {
		marks, err = saved.Marks(j.Checkpoints, number, j.Fabric.Topology)
	}
	var cs []*api.Client
	var missing []wire.FabricNodeID
	if err == nil {
		cs, missing, err = j.Fabric.Clients()
	}
	if err == nil && len(missing) > 0 {
		err = &fabric.NotRunningError{Chip: missing[0]}
	}
	if err != nil {
		return 0, nil, fmt.Errorf("the job cannot begin from a checkpoint: %w", err)
	}
	if since, err = j.settled(ctx, cs, marks); err != nil {
		return 0, nil, fmt.Errorf("the job cannot begin from checkpoint %d: %w", number, err)
	}
	if err := j.load(ctx, cs, number); err != nil {
		return 0, nil, fmt.Errorf("the job cannot begin from checkpoint %d: %w", number, err)
	}
	j.Tell(fmt.Sprintf("The memory of %s is that of checkpoint %d in %s.", topo.Count(len(cs), "chip"), number, j.Checkpoints))
	if !again {
		return number, nil, nil
	}
	j.Tell(fmt.Sprintf("Since checkpoint %d: %s.", number, lossWords(since)))
	return number, since, nil
}

// settled asks the chips what they have lost since a checkpoint, and waits until no request is open.
func (j *Job) settled(ctx context.Context, cs []*api.Client, marks []saved.Mark) (*fabric.LossesSince, error) {
	ctx, cancel := context.WithTimeout(ctx, settleTime+fabric.AskTime)
	defer cancel()
	var before fabric.Checkpoint
	for i := range marks {
		before.Chips = append(before.Chips, marks[i].Moment)
	}
	for end := time.Now().Add(settleTime); ; {
		l := fabric.LostSince(ctx, cs, before)
		var open *fabric.FlowLosses
		for i := range l.Flows {
			if l.Flows[i].Open > 0 {
				open = &l.Flows[i]
			}
		}
		switch {
		case len(l.Silent) > 0:
			return nil, fmt.Errorf("chip %s does not answer", l.Silent[0])
		case open == nil:
			return &l, nil
		case time.Now().After(end):
			return nil, fmt.Errorf("%s from chip %s to chip %s are still open after %v", topo.Count(open.Open, "request"), open.Src, open.Dst, settleTime)
		}
		if err := pause(ctx, settleLook); err != nil {
			return nil, err
		}
	}
}

// load makes each chip read its memory from a checkpoint.
func (j *Job) load(ctx context.Context, cs []*api.Client, number int) error {
	errs := make([]error, len(cs))
	places := make(chan struct{}, restoresOnce)
	var wg sync.WaitGroup
	for i, c := range cs {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			errs[i] = loadChip(ctx, c, saved.Path(j.Checkpoints, number, c.Self(), saved.Memory))
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// loadChip makes a chip read its memory from a file. A chip refuses as long as a job of an earlier attempt
// runs, and loadChip then tries again.
func loadChip(ctx context.Context, c *api.Client, path string) error {
	for end := time.Now().Add(settleTime); ; {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		_, err = c.RestoreMemory(ctx, f)
		_ = f.Close() // the file was only read
		var refused *api.StatusError
		if !errors.As(err, &refused) || refused.Code != http.StatusConflict || time.Now().After(end) {
			if err != nil {
				err = fmt.Errorf("%s: %w", path, err)
			}
			return err
		}
		if err := pause(ctx, settleLook); err != nil {
			return err
		}
	}
}

// pause waits for a time, or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// maxNamed is the number of restarted chips and of pairs of chips that a message names.
const maxNamed = 4

// lossWords says what chips have lost since a checkpoint.
func lossWords(l *fabric.LossesSince) string {
	var parts []string
	for i, n := range l.Restarted {
		if i == maxNamed {
			parts = append(parts, fmt.Sprintf("%d further chips have restarted", len(l.Restarted)-i))
			break
		}
		parts = append(parts, fmt.Sprintf("chip %s has restarted", n))
	}
	for i, f := range l.Flows {
		if i == maxNamed {
			parts = append(parts, fmt.Sprintf("%d further pairs of chips have losses", len(l.Flows)-i))
			break
		}
		parts = append(parts, fmt.Sprintf("from chip %s to chip %s, %s lost and %d of unknown outcome", f.Src, f.Dst, topo.Count(int(f.Lost), "request"), f.Unknown))
	}
	if len(parts) == 0 {
		return "no chip has restarted, and no request was lost"
	}
	return strings.Join(parts, "; ")
}
