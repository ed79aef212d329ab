// Package node runs one live chip. A [chip.Chip] makes all decisions of the chip, but has no clock
// and no sockets. Package node gives the chip.Chip the time and the received datagrams, sends the
// chip's datagrams, and hands results to programs.
//
// One lock guards the chip. A goroutine for each port reads a batch of datagrams, takes the lock,
// and passes the datagrams to the chip. When all ports with datagrams have done so, one goroutine
// runs the chip until nothing moves. Every command and the one timer run the chip in the same
// manner. A packet needs no goroutine, no Go channel and no allocation.
package node

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"ttfabric/membership"
	"ttfabric/node/chip"
	"ttfabric/node/kernel"
	"ttfabric/router/topo"
	"ttfabric/ttlink/transport"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Membership is the interface of a node to the gossip pool.
type Membership interface {
	Notify() <-chan struct{}         // gets a value after the pool has changed
	View() []membership.Member       // the members that the pool takes for alive
	Events() []membership.Event      // the pool's events since the last call of Events
	UpdateMeta(membership.Meta)      // tells the pool's other members new metadata of this chip
	Addr() netip.AddrPort            // address of the pool's socket
	Close(leave time.Duration) error // leaves the pool, and waits at most the time "leave"
}

// Config holds the settings of a live chip.
type Config struct {
	Node     wire.FabricNodeID
	Topology *topo.Topology
	chip.Behaviour
	Listen      netip.Addr       // local address of the chip's ports; zero: 127.0.0.1
	PortBase    uint16           // UDP port of channel 0; channel k has PortBase+k; 0: any free ports
	Seed        uint64           // seed of the chip's random numbers; 0: the seed is Incarnation
	Incarnation wire.Incarnation // incarnation of the chip; random, not zero

	// Port opens the transport of one channel.
	Port func(local netip.AddrPort) (transport.Port, error)
	// Cable opens the transport of one channel if the transport checks who its peer is. If Cable is
	// set, the node does not call Port. Cable must fill in c.Fabric. If the returned port is a
	// transport.Keyed, the link trains only once the port is ready.
	Cable func(local netip.AddrPort, c transport.Cable) (transport.Port, error)
	// KeyLog holds the secrets of the ports' connections; nil: nobody asked for the secrets.
	KeyLog *transport.KeyLog
	// API is the TCP port of the chip's API. The chip tells this port to other chips, which find
	// the API at the chip's gossip address. 0: the chip has no API at the gossip address.
	API uint16
	// Join joins the gossip pool and publishes m, the chip's first metadata.
	Join func(ctx context.Context, m membership.Meta) (Membership, error)
	Keys GossipKeys   // keys of encrypted gossip; nil: gossip is not encrypted
	Log  *slog.Logger // nil: the node discards log messages

	Frame int // largest payload of a frame that the ports send and receive, in bytes; 0: the path alone limits the payload

	HostMemory int64 // size of the memory that the node provides for hosts on this machine, in bytes; 0: none

	Kernels kernel.Table // kernels that the chip can run
	// Hung is called with a kernel that has taken a second of processor time in one turn, and with
	// the stacks of all goroutines. The node cannot continue. If Hung is nil, the node does not
	// watch kernels.
	Hung func(kernel string, stacks []byte)

	Record *Recording // where the node records the chip's calls; nil: the node does not record
}

// livePort is one port of a live chip.
type livePort struct {
	ch    wire.Channel
	peer  wire.PortID
	plane wire.Plane
	most  int // largest padded payload of a frame on any path, in bytes
	pipe  transport.Port
	out   transport.Port // transport that sends: pipe, or a wrapper of pipe that injects faults or feeds captures
	fault portFault

	captures []*Capture // captures that record the port's datagrams

	to      netip.AddrPort // the peer's address to which the port sends; zero: unknown
	refused netip.AddrPort // the latest address that the port refused; zero: none since the port last accepted an address
	heard   mono.Time      // when the port last received a datagram
	fresh   bool           // the port received datagrams, and the chip has not run since
	news    news           // the gossip pool's report of another address of the peer
	size    int            // largest frame payload of the path, in bytes, as the node last told the chip

	past []pastFault // for a node with a host: the port's faults so far, in their order

	refusals uint64 // refusals of the port's datagrams that the node has told the chip
}

// livePorts are the ports of a live chip.
type livePorts struct {
	ports    []*livePort
	yielded  int  // number of times that a port's goroutine has left its step to another goroutine since the chip last ran
	replying bool // a port's goroutine waits while programs submit requests, and then sends
	byCh     [wire.MaxChannels]*livePort
}

// Node is a live chip. The methods of Node are safe for concurrent use.
type Node struct {
	cfg   Config
	log   *slog.Logger
	start time.Time

	mu      lock
	chip    *chip.Chip
	waiting waiters
	pending []*submission // submissions that wait for room in the chip, oldest first
	alarm   alarm
	links   wire.LinkState // the chip's link state, as the node last told the pool
	meta    membership.Meta
	closed  bool
	leaving bool // whether the chip refuses new requests
	work    [numCauses]Work
	record  *recording // nil: the node does not record the chip
	gossip  gossipFault
	hosts   hosts

	captures []*Capture
	peers    *peers

	livePorts
	member Membership
	clock  *clock
	events *hub
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// ErrClosed is the error of requests to a node that has been closed.
var ErrClosed = errors.New("the chip has been shut down")

// Start opens the chip's ports, joins the gossip pool and begins to run the chip.
func Start(ctx context.Context, cfg Config) (*Node, error) {
	if !cfg.Listen.IsValid() {
		cfg.Listen = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Seed == 0 {
		cfg.Seed = uint64(cfg.Incarnation)
	}
	n := &Node{cfg: cfg, log: cfg.Log, start: time.Now(),
		alarm: alarm{at: mono.Never}, peers: newPeers(), events: newHub(cfg.Incarnation)}
	var err error
	began, cc := n.now(), chip.Config{Node: cfg.Node, Incarnation: cfg.Incarnation, FlowEpoch: uint32(n.start.UnixMilli()), Topology: cfg.Topology,
		Behaviour: cfg.Behaviour, MaxPayload: cfg.limited(defaultPayload), Seed: cfg.Seed, Phase: phase(n.start, cfg.Profile), Kernels: cfg.Kernels}
	var dog *watchdog
	if len(cfg.Kernels) > 0 && cfg.Hung != nil {
		dog = &watchdog{wake: make(chan struct{}, 1)}
		cc.Running = dog.running
	}
	if n.chip, err = chip.New(began, cc); err != nil {
		return nil, err
	}
	if n.clock, err = newClock(); err != nil {
		return nil, err
	}
	if err := n.openPorts(); err != nil {
		n.release()
		return nil, err
	}
	if err := n.startRecording(began, cc); err != nil {
		n.release()
		return nil, err
	}
	ctx, n.cancel = context.WithCancel(ctx)
	n.meta = membership.Meta{Node: cfg.Node, Incarnation: cfg.Incarnation, Started: uint64(n.start.UnixMilli()),
		Topology: uint32(cfg.Topology.Hash()), API: cfg.API}
	for _, p := range n.ports {
		n.meta.Ports[p.ch] = p.pipe.LocalAddr().Port()
	}
	n.links, n.meta.InService = n.chip.LinkState(), n.channels()
	if n.member, err = cfg.Join(ctx, n.meta); err != nil {
		n.cancel()
		n.release()
		n.record.close()
		return nil, err
	}
	for _, p := range n.ports {
		n.wg.Go(func() { n.read(p) })
	}
	n.wg.Go(n.timer)
	if dog != nil {
		n.wg.Go(func() { dog.watch(ctx, cfg.Hung) })
	}
	n.wg.Go(func() { n.follow(ctx) })
	return n, nil
}

func (n *Node) now() mono.Time {
	if h := n.mu.host; h != nil {
		return h.Now()
	}
	return mono.Time(time.Since(n.start))
}

// drain takes the chip's outputs: datagrams, results, events and the next deadline.
func (n *Node) drain(now mono.Time) {
	for {
		ch, t, ok := n.chip.PollTransmit(now)
		if !ok {
			break
		}
		// If the socket buffer is full or the path's MTU has shrunk, Send sends only the first k
		// frames. The link sends the missing frames again.
		p := n.byCh[ch]
		k, err := p.out.Send(t.Data, t.Seg)
		if err != nil {
			n.log.Debug("send failed", "chip", n.cfg.Node, "channel", ch, "error", err)
		}
		if r := p.pipe.Refusals(); r != p.refusals {
			p.refusals = r
			n.chip.Refused(now, ch)
		}
		if k < (len(t.Data)+t.Seg-1)/t.Seg && p.framePayload() < p.size {
			n.resize(now, p)
		}
	}
	for {
		r, ok := n.chip.PollResult()
		if !ok {
			break
		}
		if w, ok := n.waiting.take(r.Token); ok {
			w.done(w.i, r)
		}
	}
	for {
		e, ok := n.chip.PollEvent()
		if !ok {
			break
		}
		n.tell(e)
	}
	if s := n.chip.LinkState(); s != n.links {
		n.links = s
		n.meta.InService, n.meta.Silent, n.meta.LinkVersion = n.channels()&^s.Avoided(), s.Silent, s.Version
		n.member.UpdateMeta(n.meta)
	}
	if n.record.over() {
		n.chip.Unwrap()
	}
	d, ok := n.chip.Deadline()
	if n.hosts.lender != nil && n.chip.HasTransfer() {
		d, ok = now, true // the next step performs further transfers
	}
	if ok && n.alarm.arm(now, d) {
		n.clock.set(d.Sub(n.now()))
	}
}

// channels returns the chip's ports as a bit mask. Bit k is set if channel k has a cable.
func (n *Node) channels() (m uint16) {
	for _, p := range n.ports {
		m |= 1 << p.ch
	}
	return m
}

// tell publishes an event of the chip. The call of publish moves the event to the heap. Because
// "tell" is a separate function, steps without an event allocate nothing.
func (n *Node) tell(e chip.Event) {
	if p := n.byCh[e.Local.Channel]; p != nil && p.news.to.IsValid() && !n.chip.Carries(p.ch) {
		n.look()
	}
	if len(n.captures) > 0 {
		n.noteEvent(&e)
	}
	if e.Kernel != nil {
		n.logKernel(e.Kernel)
	}
	n.events.publish(Event{Time: n.start.Add(time.Duration(e.At)), Chip: &e})
}

// timer runs the chip whenever the chip's next deadline has come, until the clock is closed.
func (n *Node) timer() {
	for n.clock.wait() {
		n.fired(n.now())
	}
}

// framePayload returns the largest padded payload of a frame for this port, in bytes. The path's
// MTU limits the payload, and so do the size of the largest packet, and [Config].Frame.
func (p *livePort) framePayload() int {
	return min((p.pipe.MaxDatagram()-wire.FrameOverhead)/wire.PadUnit*wire.PadUnit, p.most)
}

// limited returns the padded payload n of a frame, or the largest padded payload that Frame allows
// if this payload is smaller. All payloads are in bytes. The largest padded payload is the largest
// multiple of [wire.PadUnit] that Frame allows.
func (c *Config) limited(n int) int {
	if c.Frame == 0 {
		return n
	}
	return min(n, c.Frame/wire.PadUnit*wire.PadUnit)
}

// resize tells the chip the largest frame payload of the path of port p.
func (n *Node) resize(now mono.Time, p *livePort) {
	p.size = p.framePayload()
	if err := n.chip.SetMaxPayload(now, p.ch, p.size); err != nil {
		n.log.Warn("the path's MTU is too small for a frame", "chip", n.cfg.Node, "channel", p.ch, "error", err)
	}
}

// Self returns the chip's address.
func (n *Node) Self() wire.FabricNodeID { return n.cfg.Node }

// Incarnation returns the chip's incarnation.
func (n *Node) Incarnation() wire.Incarnation { return n.cfg.Incarnation }

// Topology returns the topology of the machine that the chip belongs to.
func (n *Node) Topology() *topo.Topology { return n.cfg.Topology }

// Status returns the chip's state, and the present time on the chip's clock.
func (n *Node) Status() (s chip.Status, now mono.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.chip.StatusAt(n.now()), n.now()
}

// Started returns the wall-clock time at which the node started.
func (n *Node) Started() time.Time { return n.start }

// Members returns the chips that the gossip pool takes for alive.
func (n *Node) Members() []membership.Member { return n.member.View() }

// Sockets returns the statistics of each channel's transport.
func (n *Node) Sockets() map[wire.Channel]transport.Stats {
	m := map[wire.Channel]transport.Stats{}
	for _, p := range n.ports {
		m[p.ch] = p.pipe.Stats()
	}
	return m
}

// Addresses returns the local UDP address of each channel.
func (n *Node) Addresses() map[wire.Channel]netip.AddrPort {
	m := map[wire.Channel]netip.AddrPort{}
	for _, p := range n.ports {
		m[p.ch] = p.pipe.LocalAddr()
	}
	return m
}

// Peers returns the address to which each channel sends, if the channel knows its peer's address.
func (n *Node) Peers() map[wire.Channel]netip.AddrPort {
	n.mu.Lock()
	defer n.mu.Unlock()
	m := map[wire.Channel]netip.AddrPort{}
	for _, p := range n.ports {
		if p.to.IsValid() {
			m[p.ch] = p.to
		}
	}
	return m
}

// GossipAddr returns the address of the chip's gossip socket.
func (n *Node) GossipAddr() netip.AddrPort { return n.member.Addr() }

// WithChip runs f on the chip, for programs inside the chip's process. f must not block. On a
// closed node, WithChip does nothing.
func (n *Node) WithChip(f func(now mono.Time, c *chip.Chip)) {
	n.step(asked, func(now mono.Time) { f(now, n.chip) })
}

// Close tells the neighbours and the gossip pool that the chip leaves, and stops the chip. Close
// does not wait for open requests: their outcomes are unknown, and their error is ErrClosed.
func (n *Node) Close() error {
	n.mu.Lock()
	if n.closed {
		n.mu.Unlock()
		return nil
	}
	now := n.now()
	if n.mu.host == nil {
		n.chip.Close(now)
		n.drain(now)
	}
	n.closed = true
	for _, s := range n.pending {
		s.ended <- ErrClosed
	}
	n.pending = nil
	n.waiting.end(now)
	n.endWaits()
	n.hosts.endLooks()
	for len(n.captures) > 0 {
		n.captures[0].close()
	}
	n.gossip.passEnd.stop()
	n.gossip.cutUp.stop()
	n.mu.Unlock()
	rerr := n.record.close()
	n.cancel()
	err := n.member.Close(leaveTime)
	n.release()
	n.wg.Wait()
	n.events.close()
	return errors.Join(err, rerr)
}

// leaveTime is the longest time that Close waits for the gossip pool. The chip's last message
// leaves with the next round of gossip, after half a second at most.
const leaveTime = time.Second
