package collective

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"ttfabric/node/collective"
	"ttfabric/node/noc"
	"ttfabric/node/session"
	"ttfabric/wire"
)

// The names of package node/collective that callers need.
const (
	Sum      = collective.Sum
	Product  = collective.Product
	Min      = collective.Min
	Max      = collective.Max
	Float32  = collective.Float32
	BFloat16 = collective.BFloat16
	Int32    = collective.Int32
	Uint8    = collective.Uint8
)

// Sizes and limits of a communicator, our own choices.
const (
	Slots          = 4         // slots of a FIFO
	SlotSize       = 64 << 10  // length of a slot, in bytes
	FIFOOffset     = 1 << 30   // offset of the FIFOs of the first area in the DRAM bank, in bytes
	ControlOffset  = 0x160000  // offset of the control words of the first area in the L1 of their tile, in bytes
	MaxWaits       = 256       // largest number of words on which the programs of a chip wait at once, as in package node
	MaxGeneration  = 1<<20 - 1 // largest number of the generation of a communicator
	headerSize     = 16        // length of the header of each packet, in bytes
	packetData     = wire.MaxPayload - headerSize
	slotPackets    = SlotSize / wire.MaxPayload
	lanesOfPlane   = 2
	maxLanes       = lanesOfPlane * collective.MaxPlanes
	fifoSize       = Slots * SlotSize
	areaSize       = collective.MaxRanks * maxLanes * fifoSize // FIFOs of one generation, in bytes
	controlSize    = 0x1000                                    // control words of one generation, in bytes
	ackOffset      = 0x40                                      // offset of the acknowledgements at the sending chip: one word for each receiving rank and lane
	boardOffset    = ackOffset + collective.MaxRanks*maxLanes*4
	boardSize      = 16
	maxPlans       = 64                       // schedules that a communicator keeps
	lastMessage    = 1 << 31                  // largest number of a message in a FIFO
	wholeSlot      = slotPackets * packetData // largest length of the data of a message, in bytes
	abortLeft      = 1 << 11                  // in an abort word: the rank has left the operation; else its chip is dead
	abortShift     = 12                       // position of the generation in an abort word
	abortRank      = abortLeft - 1
	lifeReadsAhead = 16 // largest number of incarnations that a new communicator reads at once
)

// Options describe a communicator.
type Options struct {
	Chips []wire.FabricNodeID // chip of each rank, at most [collective.MaxRanks]; all ranks give the same list
	Links int                 // number of planes that carry the data, num_links of the CCL guide; 0: 1
	Means Means               // what moves the data; the same on all ranks
	// Meet waits until all ranks have called Meet, as rank.Barrier does. New calls Meet twice. Meet must
	// not be nil if there are several ranks.
	Meet func(ctx context.Context) error
}

// Comm is a communicator: the ranks that take part in operations together. A Comm is safe for
// concurrent use, but performs one operation after another.
type Comm struct {
	group
	s       *session.Session
	ctx     context.Context // ends when the communicator fails or closes
	stop    context.CancelFunc
	calls   sync.WaitGroup // commands and goroutines of the communicator
	turn    chan struct{}  // holds a value while an operation is under way
	op      uint32         // number of operations so far; guarded by turn
	edm     movers         // guarded by turn
	plans   map[collective.Call]*plan
	scratch []byte // guarded by turn
	batch   batch  // for operations of one goroutine; guarded by turn

	tending atomic.Bool // a goroutine looks after posted messages

	mu     sync.Mutex
	err    error // the first failure
	out    map[collective.Pair]*outlet
	in     map[collective.Pair]*inlet
	over   bool    // no further goroutine may begin
	shrunk bool    // Shrink has been called
	family *family // nil after Close, and after Shrink
}

// group is what does not change during the life of a communicator.
type group struct {
	chips      []wire.FabricNodeID
	rank       int
	links      int
	path       *collective.Path
	lives      []wire.Incarnation // incarnation of each rank's chip
	fifo       wire.NocAddr       // FIFOs of this generation
	ctl        wire.NocAddr       // control words of this generation
	generation uint32
	means      Means
	area       int // area of memory, 0 to MaxComms-1
}

// ErrClosed is the error of calls after [Comm.Close].
var ErrClosed = errors.New("the communicator is closed")

// DeadError says that a rank's chip died, restarted, or cannot be reached any more.
type DeadError struct {
	Rank int // rank in the communicator
	Chip wire.FabricNodeID
	Err  error // what this rank has seen; nil: another rank has reported the chip
}

// Error names the rank and the chip.
func (e *DeadError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("chip %s of rank %d is dead, as another rank reports; Shrink continues with the other ranks", e.Chip, e.Rank)
	}
	return fmt.Sprintf("chip %s of rank %d is dead: %v; Shrink continues with the other ranks", e.Chip, e.Rank, e.Err)
}

// Unwrap returns what this rank has seen, or nil.
func (e *DeadError) Unwrap() error { return e.Err }

// AbandonedError says that a rank has left an operation before its end.
type AbandonedError struct {
	Rank int
	Chip wire.FabricNodeID
	Err  error // why, if the rank is this rank; nil for another rank
}

// Error names the rank and its chip.
func (e *AbandonedError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("rank %d (chip %s) has left an operation before its end", e.Rank, e.Chip)
	}
	return fmt.Sprintf("rank %d (chip %s) has left an operation before its end: %v", e.Rank, e.Chip, e.Err)
}

// Unwrap returns why the rank has left, or nil.
func (e *AbandonedError) Unwrap() error { return e.Err }

// MismatchError says that two ranks made different calls.
type MismatchError struct {
	Rank, Peer int
	Call       string // call of this rank
}

// Error names the ranks and this rank's call.
func (e *MismatchError) Error() string {
	return fmt.Sprintf("rank %d calls %s, and rank %d makes another call: all ranks make the same calls in the same order", e.Rank, e.Call, e.Peer)
}

// New returns the communicator of all ranks. New waits for the other ranks, clears the communicator's
// memory on this chip, waits for the other ranks again, and finds the ring or line of the ranks. A rank
// calls New after it has closed its earlier communicators. So no write of an earlier communicator comes
// after the clearing. If another program has open communicators on this chip, the error wraps a
// [session.HeldError] that names this program.
func New(ctx context.Context, s *session.Session, o Options) (*Comm, error) {
	if o.Means >= numMeans {
		return nil, fmt.Errorf("a communicator with %s: want %v", o.Means, meansNames)
	}
	c, err := newComm(s, o.Chips, o.Links, 0, 1)
	if err != nil {
		return nil, err
	}
	f, err := newFamily(ctx, s)
	if err != nil {
		return nil, err
	}
	c.means = o.Means
	f.enter(c)
	if err := c.open(ctx, o.Meet); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// open prepares the memory of a new communicator on all ranks, and then begins.
func (c *Comm) open(ctx context.Context, meet func(context.Context) error) error {
	c.lives = make([]wire.Incarnation, len(c.chips))
	if len(c.chips) == 1 {
		meet = func(context.Context) error { return nil }
	} else if meet == nil {
		return errors.New("a communicator of several ranks without Options.Meet: give a barrier of all ranks, such as the method Barrier of rank.Rank")
	}
	if err := meet(ctx); err != nil {
		return err
	}
	if err := c.clear(ctx); err != nil {
		return err
	}
	if err := meet(ctx); err != nil {
		return err
	}
	if err := c.readLives(ctx); err != nil {
		return err
	}
	c.begin()
	return nil
}

// newComm returns a communicator that has not begun.
func newComm(s *session.Session, chips []wire.FabricNodeID, links, area int, generation uint32) (*Comm, error) {
	t := s.Topology()
	if links == 0 {
		links = 1
	}
	most := collective.MaxPlanes
	for _, n := range chips {
		most = min(most, max(t.MeshPlanes(n.Mesh), 1))
	}
	if links < 1 || links > most {
		return nil, fmt.Errorf("a communicator over %d links: the chips have %d planes that a communicator can use", links, most)
	}
	if waits := collective.Waits(len(chips), links); waits > MaxWaits {
		return nil, fmt.Errorf("a communicator of %d ranks over %d links waits on up to %d words of a chip at once, and a chip has %d: use fewer links", len(chips), links, waits, MaxWaits)
	}
	p, err := collective.FindPath(t, chips)
	if err != nil {
		return nil, err
	}
	c := &Comm{s: s, group: group{chips: chips, links: links, path: p, generation: generation, area: area, rank: -1}, turn: make(chan struct{}, 1),
		plans: map[collective.Call]*plan{}, out: map[collective.Pair]*outlet{}, in: map[collective.Pair]*inlet{}}
	for i, n := range chips {
		if n == s.Self() {
			c.rank = i
		}
	}
	if c.rank < 0 {
		return nil, fmt.Errorf("the session's chip %s is none of the ranks' chips", s.Self())
	}
	tiles, err := session.Tiles(t, s.Self())
	if err != nil {
		return nil, err
	}
	for _, x := range tiles {
		if x.Kind == noc.DRAM {
			c.fifo = wire.NewNocAddr(x.X, x.Y, FIFOOffset+uint64(c.part())*areaSize)
			break
		}
	}
	var all []noc.Harvested
	for _, x := range t.Chips {
		all = append(all, noc.Harvested(x.Harvested))
	}
	xs, ys := noc.Shared(t.Arch, all...)
	if c.fifo == 0 || len(xs) == 0 || len(ys) == 0 {
		return nil, fmt.Errorf("topology %s has no Tensix tile that works on all chips, or no DRAM: a communicator needs both", t)
	}
	c.ctl = wire.NewNocAddr(xs[len(xs)-1], ys[len(ys)-1], ControlOffset+uint64(c.part())*controlSize)
	c.batch.c = c
	c.ctx, c.stop = context.WithCancel(context.Background())
	return c, nil
}

// part returns the number of the communicator's part of the memory. Each area has a part for even
// generations and a part for odd generations.
func (g *group) part() int {
	if oneMemory {
		return 2 * g.area
	}
	return 2*g.area + int(g.generation%2)
}

// oneMemory is a sabotage: all generations use the same memory, so that tests can show that they find what leaks from
// a failed operation into the next one.
var oneMemory = false

// begin starts to listen for failures that other ranks report.
func (c *Comm) begin() { c.spawn(c.listen) }

// spawn runs f in a goroutine that Close and Shrink wait for. After the end of the communicator,
// spawn does nothing and returns false.
func (c *Comm) spawn(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return false
	}
	c.calls.Go(f)
	return true
}

// Rank returns the number of this rank, from 0.
func (c *Comm) Rank() int { return c.rank }

// Size returns the number of ranks.
func (c *Comm) Size() int { return len(c.chips) }

// Chips returns the chip of each rank. The caller must not change the slice.
func (c *Comm) Chips() []wire.FabricNodeID { return c.chips }

// Path returns the ring or line of the ranks.
func (c *Comm) Path() *collective.Path { return c.path }

// Close ends the communicator's commands. Close does not wait for other ranks. If other ranks are in an
// operation that needs this rank, they wait until their contexts end.
func (c *Comm) Close() {
	c.mu.Lock()
	if c.err == nil {
		c.err = ErrClosed
	}
	c.over = true
	c.mu.Unlock()
	c.stop()
	c.calls.Wait()
	c.settlePosted()
	if f := c.orphan(); f != nil {
		f.leave(c)
	}
}

// inFIFO returns the address of the FIFO of messages from a rank, at the receiving chip.
func (c *Comm) inFIFO(from, lane int) wire.NocAddr {
	return c.fifo.Add((from*maxLanes + lane) * fifoSize)
}

// ackWord returns the address, at the sending chip, of the word that tells how many messages the rank
// "to" has taken.
func (c *Comm) ackWord(to, lane int) wire.NocAddr {
	return c.ctl.Add(ackOffset + 4*(to*maxLanes+lane))
}

// board returns the address of the words that a rank writes during Shrink.
func (c *Comm) board(from int) wire.NocAddr { return c.ctl.Add(boardOffset + boardSize*from) }

// clear clears the control words and the headers of all packets. Memory that no message has used stays
// without host memory.
func (c *Comm) clear(ctx context.Context) error {
	self := c.s.Self()
	if err := c.s.Write(ctx, self, c.ctl, make([]byte, controlSize)); err != nil {
		return fmt.Errorf("the communicator's control words on chip %s: %w", self, err)
	}
	var zero [4]byte
	b := make([]byte, SlotSize)
	for from := range c.chips {
		for lane := range 2 * c.links {
			for slot := range Slots {
				a := c.inFIFO(from, lane).Add(slot * SlotSize)
				err := c.s.Read(ctx, self, a, b)
				for at := 0; at < SlotSize && err == nil; at += wire.MaxPayload {
					if [4]byte(b[at:]) != zero {
						err = c.s.Write(ctx, self, a.Add(at), zero[:])
					}
				}
				if err != nil {
					return fmt.Errorf("the communicator's FIFO on chip %s: %w", self, err)
				}
			}
		}
	}
	return nil
}

// readLives reads the incarnations of all chips.
func (c *Comm) readLives(ctx context.Context) error {
	var wg sync.WaitGroup
	errs := make([]error, len(c.chips))
	room := make(chan struct{}, lifeReadsAhead)
	for r := range c.chips {
		room <- struct{}{}
		wg.Go(func() {
			c.lives[r], errs[r] = c.lifeOf(ctx, r)
			<-room
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// lifeOf reads the incarnation of a rank's chip.
func (c *Comm) lifeOf(ctx context.Context, r int) (wire.Incarnation, error) {
	at, ok := noc.LifeRegister(c.s.Topology().Arch)
	if !ok {
		return 0, fmt.Errorf("chips of architecture %s have no life register", c.s.Topology().Arch)
	}
	var b [noc.LifeSize]byte
	err := c.s.Read(ctx, c.chips[r], at, b[:])
	return wire.Incarnation(binary.LittleEndian.Uint64(b[:])), err
}
