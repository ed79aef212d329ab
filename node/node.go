// Package node is one live chip: its sockets, its clock, and the loop that drives the pure
// [chip.Chip]. The chip makes all decisions. This package supplies the time, moves datagrams, and
// hands results to the programs that wait for the results.
//
// One lock guards the chip. A port's reader takes a batch from its socket and runs the chip to
// completion under the lock. Every command and the one timer do the same. There is no goroutine,
// channel or allocation per packet.
package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"ttfabric/membership"
	"ttfabric/node/chip"
	"ttfabric/router"
	"ttfabric/router/route"
	"ttfabric/router/topo"
	"ttfabric/ttlink"
	"ttfabric/ttlink/transport"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Membership is what a node needs from the gossip pool.
type Membership interface {
	Notify() <-chan struct{}         // signals a change since the last View
	View() []membership.Member       // the members that are alive
	Events() []membership.Event      // events since the last call
	UpdateMeta(membership.Meta)      // publishes new metadata of this chip
	Addr() netip.AddrPort            // address of the pool's socket
	Close(leave time.Duration) error // leaves the pool, within at most this time
}

// Config holds the settings of a live chip.
type Config struct {
	Node        wire.FabricNodeID
	Topology    *topo.Topology
	Route       route.Config
	Profile     ttlink.Profile     // zero: lan
	Slots       router.SlotProfile // zero: spec
	LocalFirst  bool               // the chip serves its own packets before packets that pass through; see router.Config
	Timeout     router.Timeout     // time after which the router drops packets that cannot move (Spec §7.3); zero: off
	TTL         uint16             // hops that a new packet may take; 0: the hops of the longest route
	MemoryLimit int64              // bytes for tile memory; 0: default
	Listen      netip.Addr         // address of the data ports; zero: 127.0.0.1
	PortBase    uint16             // UDP port of channel 0; channel k has PortBase+k; 0: any free ports
	Seed        uint64             // 0: derived from Incarnation
	Incarnation wire.Incarnation   // random, not zero

	// Port opens the datagram pipe of one channel.
	Port func(local netip.AddrPort) (transport.Port, error)
	// If Cable is set, the node calls Cable instead of Port. Cable is for transports that check who
	// is at the other end. The node leaves c.Fabric empty, and Cable fills c.Fabric in. If the port
	// is a transport.Keyed, the port's link begins to train when the port is ready.
	Cable func(local netip.AddrPort, c transport.Cable) (transport.Port, error)
	// KeyLog holds the secrets of the ports' connections; nil if nobody asked for the secrets.
	KeyLog *transport.KeyLog
	// API is the TCP port of the chip's API at the chip's gossip address. The chip tells other
	// chips this port. 0: no API at that address.
	API uint16
	// Join enters the gossip pool with the chip's first metadata.
	Join func(ctx context.Context, m membership.Meta) (Membership, error)
	Keys GossipKeys   // keys of encrypted gossip; nil: gossip is not encrypted
	Log  *slog.Logger // nil: discard

	Record *Recording // nil: the chip's calls are not recorded, and cost nothing
}

// livePort is a channel's socket.
type livePort struct {
	ch    wire.Channel
	peer  wire.PortID
	plane wire.Plane
	pipe  transport.Port
	out   transport.Port // the transport that sends: pipe, or the wrapper of pipe that injects the faults in force
	fault portFault

	captures []*Capture // captures of the port; none: packets cost nothing extra

	to    netip.AddrPort // the peer's address that was set last
	heard mono.Time      // when a datagram of the peer was last received
	news  news           // report of another address of the peer
	size  int            // frame payload that the path takes, in bytes; the value that the chip was told last
}

// Node is a live chip. Its methods are safe for concurrent use.
type Node struct {
	cfg   Config
	log   *slog.Logger
	start time.Time

	mu      sync.Mutex
	chip    *chip.Chip
	waiting waiters
	pending []*submission  // submissions that wait for room, oldest first
	armed   mono.Time      // instant at which the timer fires
	links   wire.LinkState // the chip's link state that the pool was told last
	meta    membership.Meta
	closed  bool
	leaving bool // the chip refuses new requests
	work    [numCauses]Work
	record  *recording // nil: the chip is not recorded
	gossip  gossipFault

	captures []*Capture
	addr     netip.Addr // address of this chip that the pool knows

	ports  []*livePort
	byCh   [wire.MaxChannels]*livePort
	member Membership
	rearm  chan struct{}
	moved  chan struct{} // signals that a port with news no longer carries its link
	events *hub
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// ErrClosed is the error of requests to a node that has been closed.
var ErrClosed = errors.New("the chip has been shut down")

// Start opens the chip's ports, joins the pool and begins to run the chip. An error names the port
// or limit concerned, and a remedy.
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
		armed: mono.Never, rearm: make(chan struct{}, 1), moved: make(chan struct{}, 1), events: newHub(cfg.Incarnation)}
	var err error
	began, cc := n.now(), chip.Config{Node: cfg.Node, Incarnation: cfg.Incarnation, FlowEpoch: uint32(n.start.UnixMilli()), Topology: cfg.Topology, Route: cfg.Route,
		Profile: cfg.Profile, Slots: cfg.Slots, MaxPayload: defaultPayload, MemoryLimit: cfg.MemoryLimit, Seed: cfg.Seed,
		LocalFirst: cfg.LocalFirst, Timeout: cfg.Timeout, TTL: cfg.TTL}
	if n.chip, err = chip.New(began, cc); err != nil {
		return nil, err
	}
	if err := n.openPorts(); err != nil {
		return nil, err
	}
	if err := n.startRecording(began, cc); err != nil {
		n.closePorts()
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
		n.closePorts()
		n.record.close()
		return nil, err
	}
	for _, p := range n.ports {
		n.wg.Go(func() { n.read(p) })
	}
	n.wg.Go(func() { n.timer(ctx) })
	n.wg.Go(func() { n.follow(ctx) })
	return n, nil
}

// defaultPayload is a frame's padded payload until the path is known, in bytes. defaultPayload is an
// MTU of 1500 B less IPv4, UDP and the frame's own overhead, in whole units of padding.
const defaultPayload = (1500 - 28 - wire.FrameOverhead) / wire.PadUnit * wire.PadUnit

func (n *Node) openPorts() error {
	for _, p := range n.chip.Channels() {
		local := netip.AddrPortFrom(n.cfg.Listen, 0)
		if n.cfg.PortBase != 0 {
			local = netip.AddrPortFrom(n.cfg.Listen, n.cfg.PortBase+uint16(p.Local.Channel))
		}
		lp := &livePort{ch: p.Local.Channel, peer: p.Peer, plane: p.Plane}
		pipe, err := n.openPipe(local, lp)
		if err != nil {
			n.closePorts()
			return fmt.Errorf("chip %s channel %d: %w", n.cfg.Node, p.Local.Channel, err)
		}
		lp.pipe, lp.out = pipe, pipe
		n.ports = append(n.ports, lp)
		n.byCh[lp.ch] = lp
	}
	return nil
}

func (n *Node) closePorts() {
	for _, p := range n.ports {
		p.close()
	}
}

func (n *Node) now() mono.Time { return mono.Time(time.Since(n.start)) }

// cause names what made the loop run a step.
type cause int

const (
	received cause = iota
	submitted
	timed
	asked
	numCauses
)

// Work says how often the chip's loop ran for one cause, and for how long. The time includes
// sending the resulting datagrams.
type Work struct {
	Steps   uint64
	Time    time.Duration
	Sending time.Duration // part of the loop's time that began with the first frame handed to the kernel; includes notifying programs
}

// Load is the work of the chip's loop since the start. Received is work for received datagrams,
// Submitted for requests of programs, Timed for timers, and Asked for everything else.
type Load struct{ Received, Submitted, Timed, Asked Work }

// Load returns the work of the chip's loop since the start.
func (n *Node) Load() Load {
	n.mu.Lock()
	defer n.mu.Unlock()
	return Load{n.work[received], n.work[submitted], n.work[timed], n.work[asked]}
}

// step runs f on the chip, and then runs the chip until nothing moves.
func (n *Node) step(why cause, f func(now mono.Time)) {
	n.mu.Lock()
	panics := true
	defer func() {
		if panics {
			n.record.save()
		}
		n.mu.Unlock()
	}()
	if panics = !n.closed; !panics {
		return
	}
	now := n.now()
	f(now)
	n.chip.Pump(now)
	for n.feed(now) {
		n.chip.Pump(now)
	}
	ran := n.now()
	n.drain(now)
	w, end := &n.work[why], n.now()
	w.Steps++
	w.Time += end.Sub(now)
	w.Sending += end.Sub(ran)
	panics = false
}

// drain takes what the chip hands out: datagrams, results, events and the next deadline.
func (n *Node) drain(now mono.Time) {
	for {
		ch, t, ok := n.chip.PollTransmit(now)
		if !ok {
			break
		}
		// A short count means a full socket buffer, or a path that has become narrower. The link
		// repairs either fault. If the path has become narrower, the link first trains.
		p := n.byCh[ch]
		k, err := p.out.Send(t.Data, t.Seg)
		if err != nil {
			n.log.Debug("send failed", "chip", n.cfg.Node, "channel", ch, "error", err)
		}
		if k < len(t.Data)/t.Seg && p.framePayload() < p.size {
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
		n.meta.InService, n.meta.LinkVersion = n.channels()&^s.Out, s.Version
		n.member.UpdateMeta(n.meta)
	}
	if n.record.over() {
		n.chip.Unwrap()
	}
	if d, ok := n.chip.Deadline(); ok && d.Before(n.armed) {
		n.armed = d
		select {
		case n.rearm <- struct{}{}:
		default:
		}
	}
}

// channels returns the chip's ports, one bit for each channel.
func (n *Node) channels() (m uint16) {
	for _, p := range n.ports {
		m |= 1 << p.ch
	}
	return m
}

// tell publishes an event of the chip. The event goes to the heap. If tell were part of its caller,
// steps without an event would pay for the heap too.
func (n *Node) tell(e chip.Event) {
	if p := n.byCh[e.Local.Channel]; p != nil && p.news.to.IsValid() && !n.chip.Carries(p.ch) {
		select {
		case n.moved <- struct{}{}:
		default:
		}
	}
	if len(n.captures) > 0 {
		n.noteEvent(&e)
	}
	n.events.publish(Event{Time: n.start.Add(time.Duration(e.At)), Chip: &e})
}

// read runs as a port's reader. read passes batches from the socket to the chip.
func (n *Node) read(p *livePort) {
	var b transport.Batch
	for {
		err := p.pipe.Recv(&b)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			n.log.Warn("receive failed", "chip", n.cfg.Node, "channel", p.ch, "error", err)
			time.Sleep(10 * time.Millisecond)
			continue
		}
		n.step(received, func(now mono.Time) {
			p.heard = now
			if len(p.captures) > 0 {
				p.received(&b)
			}
			b.Each(func(d []byte) { n.chip.HandleDatagram(now, p.ch, d) })
		})
	}
}

// timer runs the node's only timer.
func (n *Node) timer(ctx context.Context) {
	t := time.NewTimer(time.Hour)
	defer t.Stop()
	for {
		n.mu.Lock()
		at := n.armed
		n.mu.Unlock()
		if at == mono.Never {
			t.Reset(time.Hour)
		} else {
			t.Reset(at.Sub(n.now()))
		}
		select {
		case <-ctx.Done():
			return
		case <-n.rearm:
			continue
		case <-t.C:
		}
		n.step(timed, func(now mono.Time) {
			n.armed = mono.Never
			n.chip.Tick(now)
		})
	}
}

// framePayload returns a padded payload in bytes. The value is the smaller of the largest payload
// that the path takes and the largest payload that a packet needs.
func (p *livePort) framePayload() int {
	return min((p.pipe.MaxDatagram()-wire.FrameOverhead)/wire.PadUnit*wire.PadUnit, wire.PadTo(wire.MaxPacket))
}

// resize tells the chip how long frames may be on the path.
func (n *Node) resize(now mono.Time, p *livePort) {
	p.size = p.framePayload()
	if err := n.chip.SetMaxPayload(now, p.ch, p.size); err != nil {
		n.log.Warn("path too narrow for a frame", "chip", n.cfg.Node, "channel", p.ch, "error", err)
	}
}

// Self returns the chip's address.
func (n *Node) Self() wire.FabricNodeID { return n.cfg.Node }

// Topology returns the topology of the machine that the chip is part of.
func (n *Node) Topology() *topo.Topology { return n.cfg.Topology }

// Status returns the chip's state and the time on its clock.
func (n *Node) Status() (s chip.Status, now mono.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.chip.Status(), n.now()
}

// Started returns the time at which the node began to run.
func (n *Node) Started() time.Time { return n.start }

// Members lists the chips that the pool says are alive.
func (n *Node) Members() []membership.Member { return n.member.View() }

// Sockets returns the statistics of each channel's datagram pipe.
func (n *Node) Sockets() map[wire.Channel]transport.Stats {
	m := map[wire.Channel]transport.Stats{}
	for _, p := range n.ports {
		m[p.ch] = p.pipe.Stats()
	}
	return m
}

// Addresses returns the UDP addresses of the chip's channels.
func (n *Node) Addresses() map[wire.Channel]netip.AddrPort {
	m := map[wire.Channel]netip.AddrPort{}
	for _, p := range n.ports {
		m[p.ch] = p.pipe.LocalAddr()
	}
	return m
}

// Peers returns the addresses that the chip's channels send to, as far as the addresses are known.
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

// GossipAddr returns the address of the pool's socket.
func (n *Node) GossipAddr() netip.AddrPort { return n.member.Addr() }

// WithChip runs f on the chip. WithChip is for programs that live inside the chip's process. f must
// not block.
func (n *Node) WithChip(f func(now mono.Time, c *chip.Chip)) {
	n.step(asked, func(now mono.Time) { f(now, n.chip) })
}

// Events subscribes to the node's events. The returned function ends the subscription. A slow
// reader loses events. The field Lost of the next event then counts the lost events.
func (n *Node) Events() (<-chan Event, func()) { return n.events.subscribe() }

// Close tells the neighbours and the pool that the chip leaves, and stops the chip. Close does not
// wait for open requests.
func (n *Node) Close() error {
	n.mu.Lock()
	if n.closed {
		n.mu.Unlock()
		return nil
	}
	now := n.now()
	n.chip.Close(now)
	n.drain(now)
	n.closed = true
	for _, s := range n.pending {
		s.ended <- ErrClosed
	}
	n.pending = nil
	for len(n.captures) > 0 {
		n.captures[0].close()
	}
	n.gossip.passEnd.set(0, nil)
	n.gossip.cutUp.set(0, nil)
	n.mu.Unlock()
	rerr := n.record.close()
	n.cancel()
	err := n.member.Close(leaveTime)
	n.closePorts()
	n.wg.Wait()
	n.events.close()
	return errors.Join(err, rerr)
}

// leaveTime is the longest time that the chip takes for leaving the pool. The message that the chip
// leaves goes out with the next round of gossip, half a second later at most.
const leaveTime = time.Second
