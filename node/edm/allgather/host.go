// Package allgather is the all-gather of the CCL guide over the ERISC data mover, on lines and rings of chips.
// Each chip has a slice of a tensor. At the end, each chip has the slices of all chips in its output tensor.
//
// As in the guide, a worker is two kernels on two tiles. The sender sends the chip's own slice to
// the neighbour, and forwards slices from the output tensor. The receiver takes packets from the
// other neighbour, stores them into the output tensor, and tells the sender about each packet. The
// sender and the receiver use channels of the EDMs of their links. Several workers can move parts
// of one slice, over one or several links.
//
// The tensors lie in the L1 of Tensix tiles, interleaved or sharded. The output of a sharded tensor has more
// pages in each bank than the input, so the workers reshard the pages on their way.
//
// Sources: CCL guide, "(Ring/Line) All Gather".
package allgather

import (
	"fmt"
	"slices"
	"time"

	"ttfabric/node/edm"
	"ttfabric/node/kernel"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// Scheme says in which directions the slices travel.
type Scheme uint8

// The schemes. A line has Halfway only.
const (
	OneWay  Scheme = iota // ring: each slice goes from chip to chip in one direction, until each chip has the slice
	Halves                // ring: the two halves of each slice go round the ring in opposite directions, until each chip has both halves
	Halfway               // each slice goes in both directions: half way round a ring, or to both ends of a line
)

// String returns the scheme in words.
func (s Scheme) String() string {
	names := [...]string{"one way", "halves", "half way"}
	if int(s) >= len(names) {
		return fmt.Sprintf("scheme %d", s)
	}
	return names[s]
}

// Settings describe an all-gather.
type Settings struct {
	Scheme   Scheme
	Workers  int // number of workers for each link and direction, 1 to 3
	Pages    int // pages of each chip's slice
	PageSize int // bytes of a page, a multiple of 16
	Inner    int // number of a slice's pages that lie side by side in the output; 0: all pages, so that the output is a concatenation along the first dimension
	Layout   edm.Layout
	Banks    int           // Tensix tiles of the tensors, at least 1
	Patience time.Duration // see [edm.Config]
	Strict   bool          // see [kernel.Job]
}

// Op is an all-gather on a path of chips.
type Op struct {
	Path    *edm.Path
	Parts   map[wire.FabricNodeID]kernel.Job // part of the job for each chip
	Inputs  []*edm.Tensor                    // input tensor of each chip, which holds the chip's slice, by place in the path
	Outputs []*edm.Tensor                    // output tensor of each chip, which gets the slices of all chips, by place in the path
	Links   *edm.Links
	inner   int
}

// Place returns where a page of a chip's slice lies in each output tensor, as the number of a page.
// The argument "chip" is the place of the chip in the path, and "page" is the number of the page in
// the slice.
func (o *Op) Place(chip, page int) int { return place(chip, len(o.Path.Chips), page, o.inner) }

// builder builds an Op.
type builder struct {
	t       *topo.Topology
	s       Settings
	op      *Op
	on      []*kernel.Builder
	next    []int // Tensix tiles in use, by chip
	copied  []map[int]bool
	senders map[[4]int]tileSem // senders, by chip, direction, link and worker
}

// tileSem is the tile of a sender, and the address of its semaphore.
type tileSem struct {
	tile kernel.Tile
	sem  uint32
}

// check refuses wrong settings.
func (s *Settings) check(p *edm.Path) error {
	switch {
	case s.Pages < 1 || s.PageSize < 16 || s.PageSize%16 != 0:
		return fmt.Errorf("slices of %d pages of %d bytes: want at least 1 page, and a multiple of 16 bytes", s.Pages, s.PageSize)
	case s.Workers < 1 || 2*s.Workers > edm.MaxChannels:
		return fmt.Errorf("%d workers: want 1 to %d", s.Workers, edm.MaxChannels/2)
	case s.Inner < 0 || s.Inner > 0 && s.Pages%s.Inner != 0:
		return fmt.Errorf("%d pages of a slice side by side: want a divisor of the %d pages of the slice", s.Inner, s.Pages)
	case s.Layout > edm.Sharded || s.Scheme > Halfway:
		return fmt.Errorf("layout %d and scheme %d are unknown", s.Layout, s.Scheme)
	case !p.Ring && s.Scheme != Halfway:
		return fmt.Errorf("the scheme %q on a line: want %q", s.Scheme, Halfway)
	case s.Banks < 1 || s.Banks > edm.MaxBanks:
		return fmt.Errorf("tensors in %d banks: want 1 to %d", s.Banks, edm.MaxBanks)
	}
	return nil
}

// New makes the programs of an all-gather. All parts of the job have the number id.
func New(t *topo.Topology, id kernel.JobID, p *edm.Path, s Settings) (*Op, error) {
	if err := s.check(p); err != nil {
		return nil, err
	}
	if s.Inner == 0 {
		s.Inner = s.Pages
	}
	b := &builder{t: t, s: s, op: &Op{Path: p, Parts: map[wire.FabricNodeID]kernel.Job{}, Links: edm.NewLinks(t), inner: s.Inner}, senders: map[[4]int]tileSem{}}
	for i, n := range p.Chips {
		if err := b.tensors(); err != nil {
			return nil, fmt.Errorf("chip %s: %w", n, err)
		}
		b.place(i)
	}
	for hop := range p.Hops {
		for link := range p.Hops[hop] {
			if err := b.link(hop, link); err != nil {
				return nil, fmt.Errorf("link %s to %s: %w", p.Hops[hop][link].From.Short(), p.Hops[hop][link].To.Short(), err)
			}
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
		b.op.Parts[n] = kernel.Job{ID: id, Name: "all-gather", Strict: s.Strict, Chips: chips, Channels: b.op.Links.Channels(n), Programs: []kernel.Program{made}}
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
	in, err := edm.NewTensor(k, b.s.Layout, b.s.Pages, b.s.PageSize, banks)
	if err != nil {
		return err
	}
	out, err := edm.NewTensor(k, b.s.Layout, b.s.Pages*len(b.op.Path.Chips), b.s.PageSize, banks)
	if err != nil {
		return err
	}
	b.on, b.next, b.copied = append(b.on, k), append(b.next, b.s.Banks), append(b.copied, map[int]bool{})
	b.op.Inputs, b.op.Outputs = append(b.op.Inputs, in), append(b.op.Outputs, out)
	return nil
}

// place takes tiles and semaphores for the senders of a chip.
func (b *builder) place(chip int) {
	for dir := range 2 {
		for link := range b.op.Path.Hops[0] {
			for w := range b.s.Workers {
				if b.slices(b.to(chip, dir), dir) == 0 {
					continue
				}
				t := b.tile(chip)
				b.senders[[4]int{chip, dir, link, w}] = tileSem{t, b.on[chip].CreateSemaphore(t, 0)}
			}
		}
	}
}

// tile takes a Tensix tile of a chip.
func (b *builder) tile(chip int) kernel.Tile {
	b.next[chip]++
	return b.on[chip].Tensix(b.next[chip] - 1)
}

// to returns the place of the chip to which a chip sends slices in a direction: 0 forward, 1 back.
// On a line, to returns -1 beyond the ends.
func (b *builder) to(chip, dir int) int {
	n := len(b.op.Path.Chips)
	next := chip + 1 - 2*dir
	switch {
	case b.op.Path.Ring:
		return (next + n) % n
	case next >= n:
		return -1
	}
	return next
}

// slices returns how many slices a chip gets in a direction.
func (b *builder) slices(chip, dir int) int {
	n := len(b.op.Path.Chips)
	switch {
	case chip < 0:
		return 0
	case !b.op.Path.Ring && dir == 0:
		return chip
	case !b.op.Path.Ring:
		return n - 1 - chip
	case b.s.Scheme == Halfway && dir == 0:
		return n / 2
	case b.s.Scheme == Halfway:
		return (n - 1) / 2
	case b.s.Scheme == OneWay && dir == 1:
		return 0
	}
	return n - 1
}

// pages returns the part of each slice that a worker moves in a direction.
func (b *builder) pages(dir, link, w int) (first, count int) {
	from, n := 0, b.s.Pages
	if b.s.Scheme == Halves {
		from, n = dir*((n+1)/2), (n+1-dir)/2
	}
	units, unit := len(b.op.Path.Hops[0])*b.s.Workers, link*b.s.Workers+w
	return from + n*unit/units, n*(unit+1)/units - n*unit/units
}

// link adds the EDMs of both ends of a link, and the workers of their channels.
func (b *builder) link(hop, link int) error {
	l, near, far := b.op.Path.Hops[hop][link], hop, (hop+1)%len(b.op.Path.Chips)
	channels := 0
	if b.slices(far, 0) > 0 {
		channels += b.s.Workers
	}
	if b.slices(near, 1) > 0 {
		channels += b.s.Workers
	}
	if channels == 0 {
		return nil
	}
	var ends [2]*edm.Builder
	for i := range ends {
		var err error
		if ends[i], err = edm.NewBuilder(edm.Config{Channels: channels, PageSize: b.s.PageSize, Patience: b.s.Patience}); err != nil {
			return err
		}
	}
	for dir := range 2 {
		from, to := near, far
		if dir == 1 {
			from, to = far, near
		}
		for w := range b.s.Workers {
			if b.slices(to, dir) == 0 {
				continue
			}
			if err := b.channel(from, to, dir, link, w, ends, l); err != nil {
				return err
			}
		}
	}
	if err := b.op.Links.Generate(b.on[near], ends[0], l.From); err != nil {
		return err
	}
	return b.op.Links.Generate(b.on[far], ends[1], l.To)
}

// channel adds a channel from one chip to its neighbour. channel also adds the sender on the chip,
// and the receiver on the neighbour.
func (b *builder) channel(from, to, dir, link, w int, ends [2]*edm.Builder, l edm.Link) error {
	first, count := b.pages(dir, link, w)
	per, err := edm.PagesPerPacket(b.s.PageSize, ends[0].BufferSize())
	if err != nil {
		return err
	}
	n, messages := b.slices(to, dir), b.slices(to, dir)*((count+per-1)/per)
	ports := [2]wire.PortID{l.From, l.To}
	send, receive := ends[dir], ends[1-dir]
	src, rcv := b.senders[[4]int{from, dir, link, w}], b.tile(to)
	ready := b.on[from].CreateSemaphore(src.tile, 0)
	out, err := send.AddSenderChannel(ready, messages, []kernel.Tile{src.tile}, per*b.s.PageSize)
	if err != nil {
		return err
	}
	came := b.on[to].CreateSemaphore(rcv, 0)
	in, err := receive.AddReceiverChannel(came, messages, []kernel.Tile{rcv}, per*b.s.PageSize)
	if err != nil {
		return err
	}
	args := func(chip int, port wire.PortID, c edm.Interface, semaphore uint32, t kernel.Tile, next tileSem, copies, tells bool) []uint32 {
		tile, _ := kernel.EthernetTile(b.t.Arch, port.Channel)
		stage := b.on[chip].CreateBuffer(t, uint32(per*b.s.PageSize))
		a := append(edm.WorkerArgs(tile, c, 0, semaphore), uint32(len(b.op.Path.Chips)), uint32(chip), uint32(dir), uint32(first), uint32(count), uint32(per), uint32(n),
			uint32(b.s.Inner), next.sem, uint32(next.tile.X), uint32(next.tile.Y), flag(copies), flag(tells), stage)
		return append(append(a, b.op.Inputs[chip].Arguments()...), b.op.Outputs[chip].Arguments()...)
	}
	unit := link*b.s.Workers + w
	if b.s.Scheme == Halves {
		unit += dir * edm.MaxChannels * len(b.op.Path.Hops[0])
	}
	copies := !b.copied[from][unit]
	b.copied[from][unit] = true
	b.on[from].CreateKernel(senderName, src.tile, args(from, ports[dir], out, ready, src.tile, src, copies, false)...)
	next, tells := b.senders[[4]int{to, dir, link, w}]
	b.on[to].CreateKernel(receiverName, rcv, args(to, ports[1-dir], in, came, rcv, next, false, tells)...)
	return nil
}

// flag returns 1 for true.
func flag(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}
