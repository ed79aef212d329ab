// Package reducescatter is the reduce-scatter of the CCL guide over the ERISC data mover, on rings of chips. Each chip
// has a tensor that is cut into one fracture for each chip. At the end, each chip has the sum of one fracture.
//
// As in the guide, a worker is one kernel. In the first step, the worker of chip c sends a slice of fracture c + 1 to
// the chip before. In each further step, the worker takes a packet, adds its own pages, and sends the packet on. In the
// last step, the worker stores the sum of fracture c. So the order of the sum is fixed: the sum of fracture f begins at
// the chip before chip f. From each chip, the sum travels to the chip before, until the sum reaches chip f.
//
// No chip has space for whole fractures under way. A slice is therefore at most [Buffers] packets, which the buffers
// between two workers can hold. New refuses larger slices.
//
// Sources: CCL guide, "(Ring) Reduce Scatter".
package reducescatter

import (
	"fmt"
	"slices"
	"time"

	"ttfabric/node/collective"
	"ttfabric/node/edm"
	"ttfabric/node/kernel"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// Buffers is the number of packets between the workers of two neighbours: one in the EDM's buffer of each end.
const Buffers = 2

// Settings describe a reduce-scatter.
type Settings struct {
	Type     collective.Type
	Op       collective.Op
	Workers  int // workers of each link, at least 1
	Pages    int // pages of a fracture
	PageSize int // bytes of a page, a multiple of 16
	Inner    int // pages of a fracture that lie together in the input; 0: all, which cuts the first dimension
	Slice    int // packets of a slice, 1 to Buffers; 0: Buffers
	Layout   edm.Layout
	Banks    int           // Tensix tiles of the tensors, at least 1
	Patience time.Duration // see [edm.Config]
	Strict   bool          // see [kernel.Job]
}

// Op is a reduce-scatter on a ring of chips.
type Op struct {
	Path    *edm.Path
	Parts   map[wire.FabricNodeID]kernel.Job // by chip
	Inputs  []*edm.Tensor                    // by place in the ring: all fractures
	Outputs []*edm.Tensor                    // by place in the ring: the sum of the chip's fracture
	Links   *edm.Links
	inner   int
}

// Place returns the page of each input tensor that holds a page of the fracture of the chip at a place of the ring.
func (o *Op) Place(chip, page int) int { return place(chip, len(o.Path.Chips), page, o.inner) }

// builder builds an Op.
type builder struct {
	t    *topo.Topology
	s    Settings
	op   *Op
	on   []*kernel.Builder
	next []int // Tensix tiles in use, by chip
}

// end is a worker's channel at one end of a link.
type end struct {
	edm.Interface
	tile      kernel.Tile // of the EDM
	semaphore uint32      // of the worker
}

// unit is a worker of a chip.
type unit struct {
	tile    kernel.Tile
	out, in end
	per     int // pages of a packet
}

// check refuses wrong settings.
func (s *Settings) check(p *edm.Path) error {
	switch {
	case !p.Ring:
		return fmt.Errorf("a reduce-scatter on a line: want a ring, as in the CCL guide")
	case !s.Type.Valid() || !s.Op.Valid():
		return fmt.Errorf("a reduce-scatter with %s of %s: one of the two is unknown", s.Op, s.Type)
	case s.Pages < 1 || s.PageSize < 16 || s.PageSize%16 != 0:
		return fmt.Errorf("fractures of %d pages of %d bytes: want at least 1 page, and a multiple of 16 bytes", s.Pages, s.PageSize)
	case s.Workers < 1 || s.Workers > edm.MaxChannels:
		return fmt.Errorf("%d workers: want 1 to %d", s.Workers, edm.MaxChannels)
	case s.Inner < 0 || s.Inner > 0 && s.Pages%s.Inner != 0:
		return fmt.Errorf("%d pages of a fracture side by side: want a divisor of the %d pages of the fracture", s.Inner, s.Pages)
	case s.Slice < 0 || s.Slice > Buffers:
		return fmt.Errorf("slices of %d packets: all chips of the ring would wait to send; want 1 to %d", s.Slice, Buffers)
	case s.Layout > edm.Sharded:
		return fmt.Errorf("layout %d is unknown", s.Layout)
	case s.Banks < 1 || s.Banks > edm.MaxBanks:
		return fmt.Errorf("tensors in %d banks: want 1 to %d", s.Banks, edm.MaxBanks)
	}
	return nil
}

// New makes the programs of a reduce-scatter. All parts of the job have the number id.
func New(t *topo.Topology, id kernel.JobID, p *edm.Path, s Settings) (*Op, error) {
	if err := s.check(p); err != nil {
		return nil, err
	}
	if s.Inner == 0 {
		s.Inner = s.Pages
	}
	if s.Slice == 0 {
		s.Slice = Buffers
	}
	b := &builder{t: t, s: s, op: &Op{Path: p, Parts: map[wire.FabricNodeID]kernel.Job{}, Links: edm.NewLinks(t), inner: s.Inner}}
	for _, n := range p.Chips {
		if err := b.tensors(); err != nil {
			return nil, fmt.Errorf("chip %s: %w", n, err)
		}
	}
	for link := range p.Hops[0] {
		if err := b.ring(link); err != nil {
			return nil, err
		}
	}
	if err := b.op.Links.Check(); err != nil {
		return nil, err
	}
	chips := slices.SortedFunc(slices.Values(p.Chips), wire.FabricNodeID.Compare)
	for i, n := range p.Chips {
		made, err := b.on[i].Build()
		if err != nil {
			return nil, fmt.Errorf("chip %s: %w", n, err)
		}
		b.op.Parts[n] = kernel.Job{ID: id, Name: "reduce-scatter", Strict: s.Strict, Chips: chips, Channels: b.op.Links.Channels(n), Programs: []kernel.Program{made}}
	}
	return b.op, nil
}

// tensors adds a chip's program and tensors.
func (b *builder) tensors() error {
	k := kernel.NewBuilder(b.t)
	var banks []kernel.Tile
	for i := range b.s.Banks {
		banks = append(banks, k.Tensix(i))
	}
	in, err := edm.NewTensor(k, b.s.Layout, b.s.Pages*len(b.op.Path.Chips), b.s.PageSize, banks)
	if err != nil {
		return err
	}
	out, err := edm.NewTensor(k, b.s.Layout, b.s.Pages, b.s.PageSize, banks)
	if err != nil {
		return err
	}
	b.on, b.next = append(b.on, k), append(b.next, b.s.Banks)
	b.op.Inputs, b.op.Outputs = append(b.op.Inputs, in), append(b.op.Outputs, out)
	return nil
}

// ring adds the workers of one link of each hop, and the EDMs between them.
func (b *builder) ring(link int) error {
	n := len(b.op.Path.Chips)
	units := make([][]unit, n)
	for i := range units {
		for range b.s.Workers {
			units[i] = append(units[i], unit{tile: b.on[i].Tensix(b.next[i])})
			b.next[i]++
		}
	}
	for hop := range n {
		l, far := b.op.Path.Hops[hop][link], (hop+1)%n
		if err := b.link(l, hop, far, link, units[hop], units[far]); err != nil {
			return fmt.Errorf("link %s to %s: %w", l.From.Short(), l.To.Short(), err)
		}
	}
	for i := range units {
		for w := range units[i] {
			b.worker(i, link, w, &units[i][w])
		}
	}
	return nil
}

// pages returns the part of each fracture that a worker reduces.
func (b *builder) pages(link, w int) (first, count int) {
	all, i, n := len(b.op.Path.Hops[0])*b.s.Workers, link*b.s.Workers+w, b.s.Pages
	return n * i / all, n*(i+1)/all - n*i/all
}

// link adds the EDMs of a link. The workers at the far end send to the workers at the near end.
func (b *builder) link(l edm.Link, near, far, link int, to, from []unit) error {
	var ends [2]*edm.Builder
	for i := range ends {
		var err error
		if ends[i], err = edm.NewBuilder(edm.Config{Channels: b.s.Workers, PageSize: b.s.PageSize, Patience: b.s.Patience}); err != nil {
			return err
		}
	}
	per, err := edm.PagesPerPacket(b.s.PageSize, ends[0].BufferSize())
	if err != nil {
		return err
	}
	for w := range b.s.Workers {
		_, count := b.pages(link, w)
		messages := (len(b.op.Path.Chips) - 1) * ((count + per - 1) / per)
		add := func(chip int, at wire.PortID, u *unit, add func(uint32, int, []kernel.Tile, int) (edm.Interface, error)) (e end, err error) {
			e.tile, _ = kernel.EthernetTile(b.t.Arch, at.Channel)
			e.semaphore = b.on[chip].CreateSemaphore(u.tile, 0)
			e.Interface, err = add(e.semaphore, messages, []kernel.Tile{u.tile}, per*b.s.PageSize)
			u.per = per
			return e, err
		}
		if from[w].out, err = add(far, l.To, &from[w], ends[1].AddSenderChannel); err != nil {
			return err
		}
		if to[w].in, err = add(near, l.From, &to[w], ends[0].AddReceiverChannel); err != nil {
			return err
		}
	}
	if err := b.op.Links.Generate(b.on[near], ends[0], l.From); err != nil {
		return err
	}
	return b.op.Links.Generate(b.on[far], ends[1], l.To)
}

// worker adds the kernel of a worker.
func (b *builder) worker(chip, link, w int, u *unit) {
	first, count := b.pages(link, w)
	args := append(edm.WorkerArgs(u.out.tile, u.out.Interface, 0, u.out.semaphore), edm.WorkerArgs(u.in.tile, u.in.Interface, 0, u.in.semaphore)...)
	args = append(args, uint32(len(b.op.Path.Chips)), uint32(chip), uint32(first), uint32(count), uint32(u.per), uint32(b.s.Slice), uint32(b.s.Inner),
		uint32(b.s.Type), uint32(b.s.Op), b.on[chip].CreateBuffer(u.tile, uint32(2*u.per*b.s.PageSize)))
	args = append(append(args, b.op.Inputs[chip].Arguments()...), b.op.Outputs[chip].Arguments()...)
	b.on[chip].CreateKernel(workerName, u.tile, args...)
}
