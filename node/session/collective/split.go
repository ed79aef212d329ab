package collective

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"ttfabric/node/collective"
	"ttfabric/node/session"
	"ttfabric/wire"
)

// MaxComms is the largest number of open communicators of a program on one chip: the communicator that New
// returned, and those that Split made. Each of them has an area of memory.
const MaxComms = 4

// claimName names the memory of all communicators of a chip.
const claimName = "the memory of collective operations"

// family is what the communicators of a program on one chip share. The claim of the chip's memory ends when
// all communicators of the family have closed.
type family struct {
	release func() // ends the claim

	mu    sync.Mutex
	areas uint32 // bit i: a communicator uses area i
	waits int    // number of words on which the communicators wait at once
}

// newFamily claims the memory of this chip.
func newFamily(ctx context.Context, s *session.Session) (*family, error) {
	release, err := s.Claim(ctx, claimName)
	if errors.As(err, new(*session.HeldError)) {
		err = fmt.Errorf("%w; one program at a time has communicators on a chip: wait until that program closes its communicators, or end it", err)
	}
	if err != nil {
		return nil, err
	}
	return &family{release: release}, nil
}

// enter notes that a communicator uses its area.
func (f *family) enter(c *Comm) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c.family = f
	f.areas |= 1 << c.area
	f.waits += collective.Waits(len(c.chips), c.links)
}

// leave notes that a communicator does not use its area any more.
func (f *family) leave(c *Comm) {
	f.mu.Lock()
	f.areas &^= 1 << c.area
	f.waits -= collective.Waits(len(c.chips), c.links)
	last := f.areas == 0
	f.mu.Unlock()
	if last {
		f.release()
	}
}

// pass notes that a communicator has taken the area of another one.
func (f *family) pass(from, to *Comm) {
	f.enter(to)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waits -= collective.Waits(len(from.chips), from.links)
}

// member returns what this rank states in a Split.
func (f *family) member(color, key int) collective.Member {
	f.mu.Lock()
	defer f.mu.Unlock()
	return collective.Member{Color: int32(color), Key: int32(key), Free: (1<<MaxComms - 1) &^ f.areas, Spare: uint32(max(0, MaxWaits-f.waits))}
}

// Split makes communicators of the ranks with equal colors, as MPI_Comm_split does. The ranks of a new
// communicator have the order of their keys; ranks with equal keys keep their order. A rank with a negative color
// gets no communicator, and nil. All ranks of c call Split.
//
// Each communicator has memory of its own. So operations of c and of the new communicators can be under way at
// the same time, for example along the rows and the columns of a mesh. A program has at most [MaxComms]
// open communicators on a chip. If a chip dies, only the communicators fail whose rank the chip is. Only the
// communicator that [New] returned can be split, and the communicator that its [Comm.Shrink] returned.
func (c *Comm) Split(ctx context.Context, color, key int) (*Comm, error) {
	f := c.kin()
	switch {
	case f == nil:
		return nil, ErrClosed
	case c.area != 0:
		return nil, errors.New("a communicator that Split has made cannot be split: split the communicator that New returned, with other colors")
	case color > math.MaxInt32 || key != int(int32(key)):
		return nil, fmt.Errorf("a split with color %d and key %d: want numbers of 32 bits", color, key)
	}
	mine := f.member(max(color, -1), key)
	said := make([]byte, len(c.chips)*collective.MemberSize)
	if err := c.inTurn(ctx, collective.Call{Kind: collective.AllGather, Count: collective.MemberSize, Type: Uint8}, mine.Append(nil), said, c.byFabric); err != nil {
		return nil, err
	}
	all, err := collective.ParseMembers(said)
	if err != nil {
		return nil, err
	}
	groups, area, err := collective.Split(all, c.links)
	if err != nil {
		return nil, err
	}
	var next *Comm
	if color >= 0 {
		group := groups[slices.IndexFunc(groups, func(g []int) bool { return slices.Contains(g, c.rank) })]
		next, err = c.child(ctx, group, area)
		if err != nil {
			err = errors.Join(err, c.left(err))
			c.fail(err, true) // the other ranks wait in the barrier
			return nil, err
		}
	}
	if err := c.Barrier(ctx); err != nil { // all ranks have cleared their memory
		if next != nil {
			next.Close()
		}
		return nil, err
	}
	if next != nil {
		next.begin()
	}
	return next, nil
}

// child returns a communicator of some ranks, with memory that is clear on this chip.
func (c *Comm) child(ctx context.Context, ranks []int, area int) (*Comm, error) {
	var chips []wire.FabricNodeID
	var lives []wire.Incarnation
	for _, r := range ranks {
		chips, lives = append(chips, c.chips[r]), append(lives, c.lives[r])
	}
	next, err := newComm(c.s, chips, c.links, area, 1)
	if err != nil {
		return nil, err
	}
	next.lives, next.means = lives, c.means
	c.kin().enter(next)
	if err := next.clear(ctx); err != nil {
		next.Close()
		return nil, err
	}
	return next, nil
}

// Row returns the communicator of the ranks in this rank's row of its mesh, from west to east. All ranks of
// c call Row. See [Comm.Split].
func (c *Comm) Row(ctx context.Context) (*Comm, error) {
	mesh, row, col := c.place()
	return c.Split(ctx, mesh+row, col)
}

// Column returns the communicator of the ranks in this rank's column of its mesh, from north to south. All
// ranks of c call Column. See [Comm.Split].
func (c *Comm) Column(ctx context.Context) (*Comm, error) {
	mesh, row, col := c.place()
	return c.Split(ctx, mesh+col, row)
}

// place returns the row and the column of this rank's chip, and a number that separates the meshes.
func (c *Comm) place() (mesh, row, col int) {
	n := c.s.Self()
	cols := 1
	if m, ok := c.s.Topology().Mesh(n.Mesh); ok {
		cols = max(m.Cols, 1)
	}
	return int(n.Mesh) << 16, int(n.Chip) / cols, int(n.Chip) % cols
}

// kin returns the family of an open communicator, or nil.
func (c *Comm) kin() *family {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.family
}

// orphan ends the membership of a communicator in its family, and returns the family. If the membership has
// ended before, orphan returns nil.
func (c *Comm) orphan() *family {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.family
	c.family = nil
	return f
}
