// Package schedule performs the schedules of package node/collective over the ERISC data mover, on lines and rings of
// chips. Each move of such a schedule goes to a neighbour, as [collective.PlanAlong] plans it.
//
// The moves from one rank to another rank in one lane are a queue. A queue has a sender and a receiver, which are
// kernels on Tensix tiles of the two chips. A queue also has one or several channels of the EDMs of one link. The
// sender cuts each move into messages of equal size, of which the last one may be shorter, and gives the messages
// to the channels in turn. So several messages of a queue are under way at once. The receiver takes the messages in
// the same order, and stores them or combines them with the chip's own elements.
//
//	memory of the chip → sender → EDM ═ link ═ EDM → receiver → memory of the chip
//
// If another move brings the elements of a move, the sender waits for the receiver of these elements. The
// receiver tells each waiting worker about each message that is complete in memory.
//
// The input and the work of a rank lie in memory of the chip, such as DRAM. The host stores the input, and reads the
// work after the job.
//
// Sources: CCL guide, "ERISC Data Mover (EDM) Engine" (several channels, packets of 4 KiB to 16 KiB), "(Ring/Line) All
// Gather" (receiver and sender, semaphores for committed chunks), "(Ring) Reduce Scatter" (order of summation).
package schedule

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"ttfabric/node/collective"
	"ttfabric/node/edm"
	"ttfabric/node/kernel"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// Depth is the largest number of channels of a queue, and so of messages of a queue that are under way. The value is
// our own choice.
const Depth = 4

// word is the unit of the ethernet dataflow API, in bytes.
const word = 16

// Settings describe the parts of a job that performs a schedule.
type Settings struct {
	Path     *collective.Path // order of the ranks
	Links    *edm.Path        // cables between neighbours, a link for each plane; the chips have the order of Path
	Schedule *collective.Schedule
	Key      uint32        // see [edm.Config]
	Patience time.Duration // see [edm.Config]
	Strict   bool          // see [kernel.Job]
	Tile     int           // number of the first Tensix tile for the workers, see [kernel.Builder.Tensix]
}

// MaxWorkers is the largest number of workers of a rank: on each plane, a sender and a receiver for each of two
// neighbours.
const MaxWorkers = 4 * collective.MaxPlanes

// Memory says where the input and the work of a rank lie in the memory of the rank's chip.
type Memory struct{ Input, Work wire.NocAddr }

// queue is the moves from one rank to another rank in one lane.
type queue struct {
	collective.Pair
	moves   []int
	size    int // bytes of a message
	depth   int // channels
	first   int // number of the first channel
	link    edm.Link
	forward bool  // the sender is at the earlier end of the link
	before  []int // messages of the queue before each move
	count   int   // all messages
}

// ports returns the sender's and the receiver's end of the queue's link.
func (q *queue) ports() (from, to wire.PortID) {
	if q.forward {
		return q.link.From, q.link.To
	}
	return q.link.To, q.link.From
}

// messages returns the number of messages of n bytes.
func (q *queue) messages(n int) int { return (n + q.size - 1) / q.size }

// place is a worker: its tile, and its semaphores.
type place struct {
	tile  kernel.Tile
	ready []uint32 // semaphore for each channel
	waits map[collective.Pair]uint32
	tells []tell
}

// tell is a semaphore that a receiver increments after each message.
type tell struct {
	tile kernel.Tile
	at   uint32
}

// plan is what all ranks know about a job.
type plan struct {
	t      *topo.Topology
	s      Settings
	queues []*queue // in a fixed order
	by     map[collective.Pair]*queue
	in     []*queue // queue of each move
	places []int    // index of each move in the moves of the move's queue
}

// newPlan makes the queues, and gives each queue its link and channels.
func newPlan(t *topo.Topology, s Settings) (*plan, error) {
	p := &plan{t: t, s: s, by: map[collective.Pair]*queue{}, in: make([]*queue, len(s.Schedule.Moves)), places: make([]int, len(s.Schedule.Moves))}
	if len(s.Links.Chips) != len(s.Path.Order) || s.Schedule.Ranks != len(s.Path.Order) {
		return nil, fmt.Errorf("a schedule of %d ranks, an order of %d ranks, and %d chips: want equal numbers", s.Schedule.Ranks, len(s.Path.Order), len(s.Links.Chips))
	}
	e := s.Schedule.Type.Size()
	for pair, moves := range s.Schedule.Queues() {
		q := &queue{Pair: pair, moves: moves}
		if err := p.cable(q); err != nil {
			return nil, err
		}
		longest := 0
		for _, i := range moves {
			longest = max(longest, s.Schedule.Moves[i].Len*e)
		}
		pieces := max(1, (longest+edm.MaxPacket-1)/edm.MaxPacket)
		q.size = max(word, ((longest+pieces-1)/pieces+word-1)/word*word)
		for at, i := range moves {
			q.before = append(q.before, q.count)
			q.count += q.messages(s.Schedule.Moves[i].Len * e)
			p.in[i], p.places[i] = q, at
		}
		p.queues, p.by[pair] = append(p.queues, q), q
	}
	slices.SortFunc(p.queues, func(a, b *queue) int {
		return cmp.Or(comparePorts(a.link.From, b.link.From), cmp.Compare(flag(b.forward), flag(a.forward)), cmp.Compare(a.Lane, b.Lane))
	})
	for _, qs := range p.onLinks() {
		next := 0
		for _, q := range qs {
			q.first, q.depth = next, max(1, min(Depth, edm.MaxChannels/len(qs), q.count))
			next += q.depth
		}
	}
	return p, nil
}

func comparePorts(a, b wire.PortID) int {
	return cmp.Or(a.Node.Compare(b.Node), cmp.Compare(a.Channel, b.Channel))
}

func flag(x bool) uint32 {
	if x {
		return 1
	}
	return 0
}

// cable finds the link of a queue.
func (p *plan) cable(q *queue) error {
	at, n, plane := p.s.Path.At, len(p.s.Path.Order), q.Lane/2
	from, to := at[q.From], at[q.To]
	next := func(a, b int) bool { return b == a+1 || p.s.Links.Ring && a == n-1 && b == 0 }
	hop := from
	switch q.forward = next(from, to); {
	case q.forward:
	case next(to, from):
		hop = to
	default:
		return fmt.Errorf("a move from rank %d to rank %d: they are no neighbours on %s", q.From, q.To, p.s.Path)
	}
	if plane >= len(p.s.Links.Hops[hop]) {
		return fmt.Errorf("a move on plane %d: a hop has %d links", plane, len(p.s.Links.Hops[hop]))
	}
	q.link = p.s.Links.Hops[hop][plane]
	return nil
}

// onLinks returns the queues of each link.
func (p *plan) onLinks() map[edm.Link][]*queue {
	all := map[edm.Link][]*queue{}
	for _, q := range p.queues {
		all[q.link] = append(all[q.link], q)
	}
	return all
}

// part builds the part of one rank.
type part struct {
	*plan
	rank      int
	memory    Memory
	k         *kernel.Builder
	next      int // number of the next free Tensix tile
	senders   map[collective.Pair]*place
	receivers map[collective.Pair]*place
	ends      map[*queue][]edm.Interface
}

// New returns a rank's part of the job with the number id. New adds the rank's EDMs to "links". A host that builds the
// parts of all ranks uses one [edm.Links], and calls [edm.Links.Check] after the last part. If the rank has no move, the
// part has no kernels.
func New(t *topo.Topology, id kernel.JobID, s Settings, rank int, m Memory, links *edm.Links) (kernel.Job, error) {
	p, err := newPlan(t, s)
	if err != nil {
		return kernel.Job{}, err
	}
	b := &part{plan: p, rank: rank, memory: m, k: kernel.NewBuilder(t), next: s.Tile, senders: map[collective.Pair]*place{}, receivers: map[collective.Pair]*place{}, ends: map[*queue][]edm.Interface{}}
	b.settle()
	if err := b.links(links); err != nil {
		return kernel.Job{}, err
	}
	for _, q := range p.queues {
		if q.From == rank {
			b.sender(q)
		}
		if q.To == rank {
			b.receiver(q)
		}
	}
	made, err := b.k.Build()
	chips := slices.SortedFunc(slices.Values(s.Links.Chips), wire.FabricNodeID.Compare)
	self := s.Links.Chips[s.Path.At[rank]]
	return kernel.Job{ID: id, Name: s.Schedule.Kind.String(), Strict: s.Strict, Chips: chips, Channels: links.Channels(self), Programs: []kernel.Program{made}}, err
}

// settle gives each worker of the rank a tile and semaphores.
func (b *part) settle() {
	for _, q := range b.queues {
		for _, x := range []struct {
			here   bool
			places map[collective.Pair]*place
		}{{q.From == b.rank, b.senders}, {q.To == b.rank, b.receivers}} {
			if !x.here {
				continue
			}
			w := &place{tile: b.k.Tensix(b.next), waits: map[collective.Pair]uint32{}}
			b.next++
			for range q.depth {
				w.ready = append(w.ready, b.semaphore(w.tile))
			}
			x.places[q.Pair] = w
		}
	}
	for _, q := range b.queues {
		for _, i := range q.moves {
			m := &b.s.Schedule.Moves[i]
			if m.SendAfter >= 0 && m.From == b.rank {
				b.wait(b.senders[q.Pair], b.in[m.SendAfter])
			}
			if m.TakeAfter >= 0 && m.To == b.rank && b.in[m.TakeAfter] != q {
				b.wait(b.receivers[q.Pair], b.in[m.TakeAfter])
			}
		}
	}
}

// semaphore takes a word of a tile, which is 0 at the start of the program.
func (b *part) semaphore(t kernel.Tile) uint32 {
	a := b.k.CreateBuffer(t, word)
	b.k.InitSemaphore(t, a, 0)
	return a
}

// wait notes that a worker waits for messages of a queue to this rank.
func (b *part) wait(w *place, q *queue) {
	if _, ok := w.waits[q.Pair]; ok {
		return
	}
	at := b.semaphore(w.tile)
	w.waits[q.Pair] = at
	r := b.receivers[q.Pair]
	r.tells = append(r.tells, tell{w.tile, at})
}

// links adds the EDMs of this rank's ends of the links.
func (b *part) links(links *edm.Links) error {
	self, on := b.s.Links.Chips[b.s.Path.At[b.rank]], b.onLinks()
	for _, l := range slices.SortedFunc(maps.Keys(on), func(x, y edm.Link) int { return comparePorts(x.From, y.From) }) {
		qs := on[l]
		port := l.From
		if l.To.Node == self {
			port = l.To
		} else if l.From.Node != self {
			continue
		}
		last := qs[len(qs)-1]
		e, err := edm.NewBuilder(edm.Config{Channels: last.first + last.depth, PageSize: word, Patience: b.s.Patience, Key: b.s.Key})
		if err != nil {
			return fmt.Errorf("link %s to %s: %w", l.From.Short(), l.To.Short(), err)
		}
		for _, q := range qs {
			add, w := e.AddReceiverChannel, b.receivers[q.Pair]
			if q.From == b.rank {
				add, w = e.AddSenderChannel, b.senders[q.Pair]
			}
			for c := range q.depth {
				i, err := add(w.ready[c], (q.count-c+q.depth-1)/q.depth, []kernel.Tile{w.tile}, q.size)
				if err != nil {
					return fmt.Errorf("link %s to %s: %w", l.From.Short(), l.To.Short(), err)
				}
				b.ends[q] = append(b.ends[q], i)
			}
		}
		if err := links.Generate(b.k, e, port); err != nil {
			return err
		}
	}
	return nil
}

// channels returns the arguments that a worker needs for the channels of its queue.
func (b *part) channels(q *queue, w *place, port wire.PortID) (args []uint32) {
	tile, _ := kernel.EthernetTile(b.t.Arch, port.Channel)
	for c, i := range b.ends[q] {
		args = append(args, edm.WorkerArgs(tile, i, 0, w.ready[c])...)
	}
	return args
}

func address(a wire.NocAddr) []uint32 { return []uint32{uint32(a), uint32(uint64(a) >> 32)} }

// sender adds the sender of a queue.
func (b *part) sender(q *queue) {
	w, e := b.senders[q.Pair], b.s.Schedule.Type.Size()
	from, _ := q.ports()
	args := []uint32{uint32(q.depth), uint32(q.size), b.k.CreateBuffer(w.tile, uint32(q.size)), uint32(len(q.moves))}
	args = append(args, b.channels(q, w, from)...)
	for _, i := range q.moves {
		m := &b.s.Schedule.Moves[i]
		src := b.memory.Work
		if m.Input {
			src = b.memory.Input
		}
		args = append(append(args, address(src.Add(m.SrcOff*e))...), uint32(m.Len*e))
		args = append(args, b.after(w, m)...)
	}
	b.k.CreateKernel(senderName, w.tile, args...)
}

// after returns the arguments that say when a sender may send the elements of a move. Another move, d, brings these
// elements. The first two arguments are the semaphore, and the number of messages before d in d's queue. Then follow
// the number of bytes of d that must come before the elements, the length of d, and the message size of d's queue.
// Without d, all arguments are 0.
func (b *part) after(w *place, m *collective.Move) []uint32 {
	if m.SendAfter < 0 {
		return make([]uint32, 5)
	}
	q, d, e := b.in[m.SendAfter], &b.s.Schedule.Moves[m.SendAfter], b.s.Schedule.Type.Size()
	ahead := d.Len * e // the whole move must have come
	if m.SrcOff >= d.DstOff && m.SrcOff+m.Len <= d.DstOff+d.Len {
		ahead = (m.SrcOff - d.DstOff) * e
	}
	return []uint32{w.waits[q.Pair], uint32(q.before[b.places[m.SendAfter]]), uint32(ahead), uint32(d.Len * e), uint32(q.size)}
}

// receiver adds the receiver of a queue.
func (b *part) receiver(q *queue) {
	w, s := b.receivers[q.Pair], b.s.Schedule
	_, to := q.ports()
	args := []uint32{uint32(q.depth), uint32(q.size), b.k.CreateBuffer(w.tile, 2*uint32(q.size)), uint32(len(q.moves)), uint32(s.Type), uint32(s.Op), uint32(len(w.tells))}
	args = append(args, b.channels(q, w, to)...)
	for _, x := range w.tells {
		args = append(args, uint32(x.tile.X), uint32(x.tile.Y), x.at)
	}
	for _, i := range q.moves {
		m := &s.Moves[i]
		at := m.DstOff * s.Type.Size()
		own := b.memory.Work.Add(at)
		if m.Take == collective.Combine {
			own = b.memory.Input.Add(at)
		}
		args = append(append(args, address(b.memory.Work.Add(at))...), uint32(m.Len*s.Type.Size()), uint32(m.Take))
		args = append(args, address(own)...)
		if d := m.TakeAfter; d >= 0 && b.in[d] != q {
			x := b.in[d]
			args = append(args, w.waits[x.Pair], uint32(x.before[b.places[d]]+x.messages(s.Moves[d].Len*s.Type.Size())))
		} else {
			args = append(args, 0, 0)
		}
	}
	b.k.CreateKernel(receiverName, w.tile, args...)
}
