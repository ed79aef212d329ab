// Package rank attaches a Go program to its chip, if 'ttfabric run' started the program as a rank. A
// rank has the session that every other program has:
//
//	me, err := rank.Attach(ctx)
//	defer me.Close()
//	right := me.Chips[(me.Rank+1)%me.World]
//	err = me.Write(ctx, right, wire.NewNocAddr(1, 1, 0x20000), data)
//	err = me.Barrier(ctx)
//
// With 'ttfabric run --as-chip', the program is the chip, see process.Main. Attach then connects the program
// to its own chip. The result has the number of the rank, and barriers.
//
// 'ttfabric run' sets these variables for each rank, in any language:
//
//	RANK, LOCAL_RANK        number of the rank, from 0; all ranks run on one machine
//	WORLD_SIZE              number of ranks: one for each chip of the fabric
//	TTFABRIC_NAME           name of the fabric; commands of ttfabric use this name too
//	TTFABRIC_DIR            run folder of the fabric
//	TTFABRIC_CHIP           chip of the rank, such as M0D3
//	TTFABRIC_CHIPS          chips of all ranks in the order of the ranks, with commas
//	TTFABRIC_COORDINATES    row and column of the chip in its mesh, such as 0,3
//	TTFABRIC_SOCKET         the chip's Unix socket, see package attach; empty if the rank uses HTTP
//	TTFABRIC_API            address of the chip's API, as HOST:PORT
//	TTFABRIC_TOKEN_FILE     file with the token of the APIs
//	TTFABRIC_ROOT_SOCKET    Unix socket of the chip of rank 0, where barriers meet; empty if the rank uses HTTP
//	TTFABRIC_ROOT_API       address of the API of the chip of rank 0
//	TTFABRIC_JOB            name of the job, different for each 'ttfabric run'
//	TTFABRIC_ATTEMPT        number of the attempt, from 0; higher after each restart of the job
//	TTFABRIC_TOPOLOGY       hash of the fabric's topology, for checkpoints
//	TTFABRIC_CHECKPOINTS    folder of the job's checkpoints, see package saved; empty if the job has none
//	TTFABRIC_CHECKPOINT     number of the checkpoint that the memory of all chips was restored from; empty if there was none
package rank

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"ttfabric/node/admin/api"
	"ttfabric/node/admin/attach"
	"ttfabric/node/fabric/folder"
	"ttfabric/node/rank/saved"
	"ttfabric/node/session"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// Names of the variables.
const (
	EnvRank        = "RANK"
	EnvLocalRank   = "LOCAL_RANK"
	EnvWorld       = "WORLD_SIZE"
	EnvName        = "TTFABRIC_NAME"
	EnvDir         = "TTFABRIC_DIR"
	EnvChip        = "TTFABRIC_CHIP"
	EnvChips       = "TTFABRIC_CHIPS"
	EnvCoordinates = "TTFABRIC_COORDINATES"
	EnvSocket      = "TTFABRIC_SOCKET"
	EnvAPI         = "TTFABRIC_API"
	EnvTokenFile   = "TTFABRIC_TOKEN_FILE"
	EnvRootSocket  = "TTFABRIC_ROOT_SOCKET"
	EnvRootAPI     = "TTFABRIC_ROOT_API"
	EnvJob         = "TTFABRIC_JOB"
	EnvAttempt     = "TTFABRIC_ATTEMPT"
	EnvTopology    = "TTFABRIC_TOPOLOGY"
	EnvFolder      = "TTFABRIC_CHECKPOINTS"
	EnvCheckpoint  = "TTFABRIC_CHECKPOINT"
)

// Rank is one rank of a job. Its methods are safe for concurrent use.
type Rank struct {
	*session.Session
	Rank    int                 // number of the rank, from 0
	World   int                 // number of ranks
	Chips   []wire.FabricNodeID // chip of each rank
	Job     string              // name of the job
	Attempt int                 // number of the attempt, from 0

	Restored int    // number of the checkpoint from which the memory of all chips was restored; 0: none
	State    []byte // what this rank gave to [Rank.Save] for this checkpoint

	chip   session.Fabric
	dir    string // folder of checkpoints; "": none
	number int    // number of the latest checkpoint
	meet   meeting
	close  []func()
}

// meeting is where ranks wait for each other: the chip of rank 0.
type meeting interface {
	Barrier(ctx context.Context, name string, rank, ranks int) error
}

// ErrNoRank is the error of [Attach] in a program that 'ttfabric run' did not start.
var ErrNoRank = errors.New("this program is no rank, because the environment variable RANK is not set: start the program with 'ttfabric run'")

// Attach attaches to the chip of this rank: over the chip's Unix socket, or else over HTTP.
func Attach(ctx context.Context) (*Rank, error) {
	if os.Getenv(EnvRank) == "" {
		return nil, ErrNoRank
	}
	r := &Rank{Job: os.Getenv(EnvJob)}
	var errs []error
	number := func(name string, least int) (n int) {
		n, err := strconv.Atoi(os.Getenv(name))
		if err != nil || n < least {
			errs = append(errs, fmt.Errorf("the environment variable %s is %q: want a number of at least %d", name, os.Getenv(name), least))
		}
		return n
	}
	r.Rank, r.World, r.Attempt = number(EnvRank, 0), number(EnvWorld, 1), number(EnvAttempt, 0)
	for _, text := range strings.Split(os.Getenv(EnvChips), ",") {
		n, err := wire.ParseFabricNodeID(text)
		r.Chips, errs = append(r.Chips, n), append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if len(r.Chips) != r.World || r.Rank >= r.World {
		return nil, fmt.Errorf("rank %d of %d has %d chips in %s; set the variables as 'ttfabric run' does", r.Rank, r.World, len(r.Chips), EnvChips)
	}
	t, err := folder.Dir(os.Getenv(EnvDir)).Topology()
	if err != nil {
		return nil, fmt.Errorf("the run folder in %s has no topology: %w", EnvDir, err)
	}
	if err := r.restored(); err != nil {
		return nil, err
	}
	f, err := r.open(ctx, t, EnvSocket, EnvAPI, r.Chips[r.Rank])
	if err == nil {
		r.chip = f.(session.Fabric)
		if c, ok := f.(*attach.Client); ok {
			var images *api.Client
			if images, err = r.api(t, EnvAPI, r.Chips[r.Rank]); err == nil {
				r.chip = beside{c, images}
			}
		}
	}
	if err == nil {
		r.Session = session.New(r.chip)
		r.meet, err = r.open(ctx, t, EnvRootSocket, EnvRootAPI, r.Chips[0])
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// open connects to a chip, by its socket or else by its API.
func (r *Rank) open(ctx context.Context, t *topo.Topology, socket, addr string, chip wire.FabricNodeID) (meeting, error) {
	if path := os.Getenv(socket); path != "" {
		c, err := attach.Dial(ctx, path, t)
		if err != nil {
			return nil, err
		}
		r.close = append(r.close, func() { c.Close() })
		c.Own(fmt.Sprintf("rank %d", r.Rank))
		return c, nil
	}
	return r.api(t, addr, chip)
}

// restored notes from which checkpoint the memory of the chips was restored.
func (r *Rank) restored() (err error) {
	r.dir = os.Getenv(EnvFolder)
	text := os.Getenv(EnvCheckpoint)
	if r.dir == "" || text == "" {
		return nil
	}
	if r.Restored, err = strconv.Atoi(text); err != nil || r.Restored < 1 {
		return fmt.Errorf("the environment variable %s is %q: want a number of at least 1", EnvCheckpoint, text)
	}
	r.number = r.Restored
	r.State, err = saved.ReadState(r.dir, r.Restored, r.Chips[r.Rank])
	return err
}

// api returns a client of a chip's API.
func (r *Rank) api(t *topo.Topology, addr string, chip wire.FabricNodeID) (*api.Client, error) {
	token, err := os.ReadFile(cmp.Or(os.Getenv(EnvTokenFile), os.DevNull))
	if err != nil {
		return nil, err
	}
	c := api.NewClient(os.Getenv(addr), strings.TrimSpace(string(token)), chip, t)
	r.close = append(r.close, c.Close)
	c.Own(fmt.Sprintf("rank %d", r.Rank))
	return c, nil
}

// Barrier waits until all ranks of the job have called Barrier. If a rank has ended, Barrier returns
// an error.
func (r *Rank) Barrier(ctx context.Context) error {
	if err := r.meet.Barrier(ctx, fmt.Sprintf("%s.%d", r.Job, r.Attempt), r.Rank, r.World); err != nil {
		return fmt.Errorf("rank %d in a barrier: %w", r.Rank, err)
	}
	return nil
}

// Close ends the connections to the chips.
func (r *Rank) Close() {
	for _, f := range r.close {
		f()
	}
}
