package edm

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"ttfabric/node/kernel"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// Links has the EDMs of one operation: at most one at each end of a link. A host that builds the
// programs of all chips uses one Links. A host that builds only the program of its own chip uses a
// Links of its own, and cannot call [Links.Check]. In this case, the EDMs find mistakes when the
// EDMs run.
type Links struct {
	t     *topo.Topology
	built map[wire.PortID]*Builder
}

// NewLinks returns a Links without EDMs.
func NewLinks(t *topo.Topology) *Links { return &Links{t, map[wire.PortID]*Builder{}} }

// Generate adds the kernel of an EDM to the program p of a chip: the EDM at the end "at" of a link (the
// guide's generate_edm_kernel). Generate must be called once for each end of the link. A second call for the
// same end, or with the same builder, is an error. No other buffer of the program may lie on the tile.
func (l *Links) Generate(p *kernel.Builder, b *Builder, at wire.PortID) error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("EDM at %s: %s", at.Short(), fmt.Sprintf(format, args...))
	}
	peer, cabled := kernel.ConnectedEthernetCore(l.t, at.Node, at.Channel)
	tile, ok := kernel.EthernetTile(l.t.Arch, at.Channel)
	switch {
	case !cabled || !ok:
		return fail("no cable leads from there to another chip")
	case l.t.Reserved(at):
		return fail("the dispatcher reserves the link to %s", peer.Short())
	case l.built[at] != nil:
		return fail("the link to %s has an EDM at this end already; a link has one EDM at each end", peer.Short())
	case b.built:
		return fail("the builder has made the EDM at %s already", b.port.Short())
	case len(b.channels) != b.cfg.Channels:
		return fail("%d of %d channels were added", len(b.channels), b.cfg.Channels)
	}
	size := b.cfg.buffers() + uint32(b.cfg.Channels)*b.cfg.bufferSize() - Semaphores
	if got := p.CreateBuffer(tile, size); got != Semaphores {
		if _, err := p.Build(); err != nil {
			return fail("%v", err)
		}
		return fail("the program has another buffer on tile %s", tile)
	}
	for _, c := range b.channels {
		p.InitSemaphore(tile, c.Semaphore, 0)
	}
	p.CreateKernelWith(KernelName, tile, b.CompileArgs(), b.RuntimeArgs()...)
	if _, err := p.Build(); err != nil {
		return fail("%v", err)
	}
	b.built, b.port, l.built[at] = true, at, b
	return nil
}

// Ports returns the ends of links that have an EDM, in order.
func (l *Links) Ports() []wire.PortID {
	return slices.SortedFunc(maps.Keys(l.built), comparePorts)
}

func comparePorts(p, q wire.PortID) int {
	return cmp.Or(p.Node.Compare(q.Node), cmp.Compare(p.Channel, q.Channel))
}

// Channels returns the ethernet channels of a chip that have an EDM, in order, as [kernel.Job] needs them.
func (l *Links) Channels(chip wire.FabricNodeID) (all []wire.Channel) {
	for _, p := range l.Ports() {
		if p.Node == chip {
			all = append(all, p.Channel)
		}
	}
	return all
}

// Dump returns the layout and arguments of all EDMs, see [Builder.Dump].
func (l *Links) Dump() (s string) {
	for _, p := range l.Ports() {
		s += l.built[p].Dump()
	}
	return s
}

// Check checks that the two ends of each link fit together. The error names each link with one EDM
// only. The error also names each channel whose two ends differ, with the settings of both ends.
func (l *Links) Check() error {
	var all []error
	for _, p := range l.Ports() {
		q, _ := kernel.ConnectedEthernetCore(l.t, p.Node, p.Channel)
		switch other := l.built[q]; {
		case other == nil:
			all = append(all, fmt.Errorf("link %s to %s: only %s has an EDM", p.Short(), q.Short(), p.Short()))
		case p.Less(q):
			for _, why := range l.built[p].differs(other) {
				all = append(all, fmt.Errorf("link %s to %s: %w", p.Short(), q.Short(), why))
			}
		}
	}
	return errors.Join(all...)
}

// differs lists the settings that do not fit between the two ends of a link.
func (b *Builder) differs(o *Builder) (all []error) {
	x, y := b.cfg, o.cfg
	if x.Channels != y.Channels || x.PageSize != y.PageSize || x.Sharing != y.Sharing || x.Termination != y.Termination {
		return []error{fmt.Errorf("the ends have different configurations: %d and %d channels, pages of %d and %d bytes, %s and %s, %s and %s",
			x.Channels, y.Channels, x.PageSize, y.PageSize, x.Sharing, y.Sharing, x.Termination, y.Termination)}
	}
	if x.Key != y.Key {
		return []error{fmt.Errorf("the ends have different keys: %#x and %#x", x.Key, y.Key)}
	}
	for i := range b.channels {
		c, d := &b.channels[i], &o.channels[i]
		switch {
		case c.sender == d.sender && c.sender:
			all = append(all, fmt.Errorf("channel %d: both ends are senders", i))
		case c.sender == d.sender:
			all = append(all, fmt.Errorf("channel %d: both ends are receivers", i))
		case c.Size != d.Size:
			all = append(all, fmt.Errorf("channel %d: the ends have messages of %d and %d bytes", i, c.Size, d.Size))
		case c.messages != d.messages:
			s, r := c, d
			if d.sender {
				s, r = d, c
			}
			all = append(all, fmt.Errorf("channel %d: the sender has %d messages, and the receiver expects %d", i, s.messages, r.messages))
		}
	}
	return all
}
