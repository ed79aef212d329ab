package node

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"ttfabric/node/chip"
	"ttfabric/node/flow"
	"ttfabric/ttlink"
	"ttfabric/ttlink/fault"
	"ttfabric/ttlink/transport"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Host drives the chip of a node, in place of the node's clock, sockets and gossip. A simulator is
// such a host: its time is virtual. All nodes of a host share the lock of the host. The host calls
// the methods of [Hosted] while the host runs the chip.
type Host interface {
	sync.Locker
	// Now returns the present time on the chip's clock. A caller of Now need not hold the lock.
	Now() mono.Time
	// Epoch returns the wall-clock time that stands for time 0 of the chip's clock.
	Epoch() time.Time
	// Chip returns the chip. The caller of Chip and of all further methods holds the lock.
	Chip() *chip.Chip
	// Run runs the chip until nothing moves, and hands its outputs to the methods of Hosted.
	Run()
	// Impair sets the fault of the datagrams that a port sends. If seed is not nil, the random
	// numbers start anew.
	Impair(ch wire.Channel, o fault.Options, cut bool, seed *uint64) error
	// Faults returns how many datagrams the fault of a port has hit since the fault began.
	Faults(ch wire.Channel) fault.Counts
	// After calls f when the time d has passed. The host does not hold the lock during the call.
	After(d time.Duration, f func())
}

// lock is the lock of a node: its own, or that of the node's host.
type lock struct {
	own  sync.Mutex
	host Host // nil: the node has no host
}

// Lock takes the lock.
func (l *lock) Lock() {
	if l.host != nil {
		l.host.Lock()
		return
	}
	l.own.Lock()
}

// Unlock frees the lock.
func (l *lock) Unlock() {
	if l.host != nil {
		l.host.Unlock()
		return
	}
	l.own.Unlock()
}

// wall returns the present wall-clock time. For a node with a host, the result is the chip's time as
// a wall-clock time.
func (n *Node) wall() time.Time {
	if n.mu.host != nil {
		return n.start.Add(time.Duration(n.now()))
	}
	return time.Now()
}

// StartHosted starts the node of a chip that runs at a host. The caller holds the host's lock. Of cfg, StartHosted uses
// the fields Node, Topology, Incarnation, Cable, Join, API, Log, HostMemory and Kernels.
func StartHosted(ctx context.Context, cfg Config, h Host) (*Node, error) {
	n := &Node{cfg: cfg, log: cfg.Log, start: h.Epoch(), chip: h.Chip(), mu: lock{host: h},
		alarm: alarm{at: mono.Never}, peers: newPeers(), events: newHub(cfg.Incarnation)}
	if err := n.openPorts(); err != nil {
		return nil, err
	}
	ctx, n.cancel = context.WithCancel(ctx)
	n.links = n.chip.LinkState()
	n.meta.Node, n.meta.Incarnation, n.meta.Started, n.meta.API = cfg.Node, cfg.Incarnation, uint64(n.start.UnixMilli()), cfg.API
	n.meta.Topology, n.meta.InService = uint32(cfg.Topology.Hash()), n.channels()&^n.links.Avoided()
	for _, p := range n.ports {
		n.meta.Ports[p.ch] = p.pipe.LocalAddr().Port()
	}
	var err error
	if n.member, err = cfg.Join(ctx, n.meta); err != nil {
		n.cancel()
		n.release()
	}
	return n, err
}

// enforceHosted makes the host inject the fault that the state of a port describes. If no fault is
// left, enforceHosted sets the counts of the event e.
func (n *Node) enforceHosted(p *livePort, o fault.Options, e *FaultEvent) error {
	f, seed := &p.fault, n.dice(p)
	began := f.since.IsZero()
	if o == (fault.Options{}) && !f.cut {
		if !began {
			e.Counts = n.mu.host.Faults(p.ch)
		}
		f.since = time.Time{}
	} else if began {
		f.since = n.wall()
	}
	if len(p.past) == maxPast {
		p.past = slices.Delete(p.past, 0, maxPast/2)
	}
	kept := *f
	kept.passing = maps.Clone(f.passing)
	p.past = append(p.past, pastFault{n.now(), kept})
	if began {
		return n.mu.host.Impair(p.ch, o, f.cut, &seed)
	}
	return n.mu.host.Impair(p.ch, o, f.cut, nil)
}

// maxPast is the largest number of former faults that a port keeps.
const maxPast = 1024

// pastFault is the fault of a port from an instant on.
type pastFault struct {
	at    mono.Time
	fault portFault
}

// rewind sets the fault that the port had at an instant, and forgets later faults.
func (p *livePort) rewind(to mono.Time) {
	for len(p.past) > 0 && p.past[len(p.past)-1].at > to {
		p.past = p.past[:len(p.past)-1]
	}
	if p.fault = (portFault{}); len(p.past) > 0 {
		p.fault = p.past[len(p.past)-1].fault
		p.fault.passing = maps.Clone(p.fault.passing)
	}
}

// hostRuns runs the chip of a node with a host, after an input outside of a step.
func (n *Node) hostRuns() {
	if n.mu.host != nil {
		n.mu.host.Run()
	}
}

// Hosted is a node as its [Host] sees the node. The host holds its lock when it calls the methods.
type Hosted struct{ n *Node }

// Hosted returns the node as its host sees the node.
func (n *Node) Hosted() Hosted { return Hosted{n} }

// Feed starts requests of programs, as many as the chip has room for. Feed reports whether the chip
// must run again.
func (h Hosted) Feed() bool {
	n := h.n
	if n.closed {
		return false
	}
	moved := 0
	more := n.feed(n.now())
	return n.hosts.lender != nil && n.transfer(n.now(), &moved) || more
}

// Send sends datagrams of the chip through the pipe of a port, and shows the datagrams to captures.
func (h Hosted) Send(ch wire.Channel, t ttlink.Transmit) {
	p := h.n.byCh[ch]
	if len(p.captures) > 0 {
		for b := t.Data; len(b) > 0; b = b[min(t.Seg, len(b)):] {
			p.seen(transport.Tapped{At: h.n.wall(), Sent: true, Data: b[:min(t.Seg, len(b))]})
		}
	}
	_, _ = p.pipe.Send(t.Data, t.Seg) // the simulated pipe has no errors
}

// Received shows a datagram that the chip receives to captures.
func (h Hosted) Received(ch wire.Channel, b []byte) {
	if p := h.n.byCh[ch]; len(p.captures) > 0 {
		p.seen(transport.Tapped{At: h.n.wall(), Data: b})
	}
}

// Result hands the result of a request to the program that made the request.
func (h Hosted) Result(r flow.Result) {
	if w, ok := h.n.waiting.take(r.Token); ok {
		w.done(w.i, r)
	}
}

// Event publishes an event of the chip.
func (h Hosted) Event(e chip.Event) { h.n.tell(e) }

// Stepped looks at the words that programs wait for, after a step of the chip.
func (h Hosted) Stepped() {
	if n := h.n; len(n.waiting.words) > 0 && !n.closed {
		n.lookAtWords()
	}
}

// Aim sets the address of a port's peer.
func (h Hosted) Aim(ch wire.Channel, to netip.AddrPort) { h.n.byCh[ch].to = to }

// Rewind tells the node that its host has gone back to an earlier time, and has made the chip anew. Open requests and
// waits of programs end with the error of a chip that is closed, because the programs may have made them after this
// time. Faults and events after this time are forgotten.
func (h Hosted) Rewind() {
	n := h.n
	n.chip = n.mu.host.Chip()
	n.links = n.chip.LinkState()
	for _, s := range n.pending {
		s.ended <- ErrClosed
	}
	n.pending = nil
	n.waiting.end(n.now())
	n.endWaits()
	for _, p := range n.ports {
		p.rewind(n.now())
	}
	n.events.rewind(n.wall())
}

// Closed reports whether the node has been closed.
func (h Hosted) Closed() bool { return h.n.closed }
