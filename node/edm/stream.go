package edm

import (
	"fmt"
	"slices"
	"time"

	"ttfabric/node/kernel"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// Settings describe a stream, which sends pages from each chip of a path to its neighbours.
type Settings struct {
	Channels      int  // channels of each link in each direction, at least 1
	Bidirectional bool // pages go in both directions over each link; otherwise from each chip to the next one only
	Workers       int  // workers of each channel at each end, 1 to [MaxWorkers]
	Pages         int  // pages of each worker
	PageSize      int  // bytes, a multiple of 16
	Packet        int  // most bytes of a message; 0: what the buffer of a channel holds, at most [MaxPacket]
	Sharing       Sharing
	Termination   Termination
	Patience      time.Duration // see [Config]
	Strict        bool          // see [kernel.Job]
}

// Flow says where the pages of one worker lie before the stream, and where the stream writes the
// pages.
type Flow struct {
	Link     wire.PortID // sender's end of the link
	Channel  int         // channel of the EDMs
	From, To wire.FabricNodeID
	Source   wire.NocAddr // first page on chip From
	Dest     wire.NocAddr // first page on chip To
	Size     int          // bytes of all pages
}

// Stream is an operation on a path: EDMs on each link, and workers at both ends of each channel.
// The sending workers read pages from memory, and the receiving workers store them. NewStream shows
// how a host builds programs with an EDM. A stream can also measure and test links.
type Stream struct {
	Path  *Path
	Parts map[wire.FabricNodeID]kernel.Job // part of the job for each chip
	Flows []Flow
	Links *Links
}

// program is the program of one chip of a stream, while NewStream builds the stream.
type program struct {
	kernel *kernel.Builder
	next   int // number of Tensix tiles in use
}

// streamer builds a stream.
type streamer struct {
	t      *topo.Topology
	s      Settings
	stream *Stream
	on     map[wire.FabricNodeID]*program
}

// NewStream makes the programs of a stream. All parts of the job have the number id.
func NewStream(t *topo.Topology, id kernel.JobID, p *Path, s Settings) (*Stream, error) {
	if s.Channels < 1 || s.Workers < 1 || s.Workers > MaxWorkers || s.Pages < 0 {
		return nil, fmt.Errorf("a stream of %d channels, %d workers and %d pages: want at least 1 channel, 1 to %d workers and 0 pages", s.Channels, s.Workers, s.Pages, MaxWorkers)
	}
	b := &streamer{t, s, &Stream{Path: p, Parts: map[wire.FabricNodeID]kernel.Job{}, Links: NewLinks(t)}, map[wire.FabricNodeID]*program{}}
	for _, n := range p.Chips {
		b.on[n] = &program{kernel: kernel.NewBuilder(t)}
	}
	for _, hop := range p.Hops {
		for _, l := range hop {
			if err := b.link(l); err != nil {
				return nil, fmt.Errorf("link %s to %s: %w", l.From.Short(), l.To.Short(), err)
			}
		}
	}
	if err := b.stream.Links.Check(); err != nil {
		return nil, err
	}
	chips := slices.SortedFunc(slices.Values(p.Chips), wire.FabricNodeID.Compare)
	for _, n := range p.Chips {
		made, err := b.on[n].kernel.Build()
		if err != nil {
			return nil, fmt.Errorf("chip %s: %w", n, err)
		}
		b.stream.Parts[n] = kernel.Job{ID: id, Name: "EDM stream", Strict: s.Strict, Chips: chips, Channels: b.stream.Links.Channels(n), Programs: []kernel.Program{made}}
	}
	return b.stream, nil
}

// link adds the EDMs of both ends of a link, with their workers.
func (b *streamer) link(l Link) error {
	directions := 1
	if b.s.Bidirectional {
		directions = 2
	}
	cfg := Config{Channels: b.s.Channels * directions, PageSize: b.s.PageSize, Sharing: b.s.Sharing, Termination: b.s.Termination, Patience: b.s.Patience}
	from, err := NewBuilder(cfg)
	if err != nil {
		return err
	}
	to, err := NewBuilder(cfg)
	if err != nil {
		return err
	}
	for range b.s.Channels {
		if err := b.channel(l.From, l.To, from, to); err != nil {
			return err
		}
	}
	if b.s.Bidirectional {
		for range b.s.Channels {
			if err := b.channel(l.To, l.From, to, from); err != nil {
				return err
			}
		}
	}
	if err := b.stream.Links.Generate(b.on[l.From.Node].kernel, from, l.From); err != nil {
		return err
	}
	return b.stream.Links.Generate(b.on[l.To.Node].kernel, to, l.To)
}

// plan says how the pages of a channel's workers go into messages.
func (b *streamer) plan(buffer int) (per, message, messages int, err error) {
	s := b.s
	if s.Packet > 0 {
		buffer = min(buffer, s.Packet)
	}
	parts := 1 // parts of a message
	if s.Sharing == NotShared {
		parts = s.Workers
	}
	if per, err = PagesPerPacket(s.PageSize, min(buffer, MaxPacket)/parts/word*word); err != nil {
		return 0, 0, 0, err
	}
	if messages = (s.Pages + per - 1) / per; s.Sharing == RoundRobin {
		messages *= s.Workers
	}
	return per, per * s.PageSize * parts, messages, nil
}

// channel adds a channel from one end of a link to the other, and the workers of both ends.
func (b *streamer) channel(from, to wire.PortID, send, receive *Builder) error {
	per, size, messages, err := b.plan(send.BufferSize())
	if err != nil {
		return err
	}
	counted := messages
	if b.s.Termination == WorkerInitiated {
		counted = 0
	}
	src, srcSem, err := b.workers(from.Node)
	if err != nil {
		return err
	}
	dst, dstSem, err := b.workers(to.Node)
	if err != nil {
		return err
	}
	out, err := send.AddSenderChannel(srcSem, counted, src, size)
	if err != nil {
		return err
	}
	in, err := receive.AddReceiverChannel(dstSem, counted, dst, size)
	if err != nil {
		return err
	}
	for i := range b.s.Workers {
		f := Flow{Link: from, Channel: out.Channel, From: from.Node, To: to.Node, Size: b.s.Pages * b.s.PageSize}
		f.Source = b.worker(SendWorkerName, from, src[i], out, srcSem, i, per, messages)
		f.Dest = b.worker(ReceiveWorkerName, to, dst[i], in, dstSem, i, per, messages)
		b.stream.Flows = append(b.stream.Flows, f)
	}
	return nil
}

// workers takes Tensix tiles for the workers of one end of a channel. All workers of a channel have their
// semaphore at the same address.
func (b *streamer) workers(n wire.FabricNodeID) (tiles []kernel.Tile, semaphore uint32, err error) {
	p := b.on[n]
	for range b.s.Workers {
		t := p.kernel.Tensix(p.next)
		p.next++
		tiles, semaphore = append(tiles, t), p.kernel.CreateSemaphore(t, 0)
	}
	_, err = p.kernel.Build()
	return tiles, semaphore, err
}

// worker adds worker i of a channel, and returns the address of its first page.
func (b *streamer) worker(name string, at wire.PortID, t kernel.Tile, c Interface, semaphore uint32, i, per, messages int) wire.NocAddr {
	k, s := b.on[at.Node].kernel, b.s
	edm, _ := kernel.EthernetTile(b.t.Arch, at.Channel)
	offset := 0
	if s.Sharing == NotShared {
		offset = i * per * s.PageSize
	} else {
		messages /= s.Workers
	}
	last := s.Workers - 1 // worker that has the channel's last message
	if messages == 0 {
		last = 0
	}
	ends := uint32(0)
	if s.Termination == WorkerInitiated && i == last {
		ends = 1
	}
	pages := k.CreateBuffer(t, uint32(s.Pages*s.PageSize))
	stage := k.CreateBuffer(t, uint32(2*per*s.PageSize))
	args := append(WorkerArgs(edm, c, uint32(offset), semaphore), uint32(t.X), uint32(t.Y), pages,
		uint32(s.Pages), uint32(s.PageSize), uint32(per), uint32(messages), stage, ends)
	k.CreateKernel(name, t, args...)
	return t.Addr(uint64(pages))
}
