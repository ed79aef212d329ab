package serve

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"ttfabric/membership"
	"ttfabric/node"
	"ttfabric/node/admin"
	"ttfabric/node/chip"
	"ttfabric/node/fabric/folder"
	"ttfabric/node/flow"
	"ttfabric/node/kernel"
	"ttfabric/node/process"
	"ttfabric/ttlink"
	"ttfabric/ttlink/fault"
	"ttfabric/ttlink/transport"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// seat is the place of a chip, with the chip's present node. A seat is the node's host.
type seat struct {
	x  *Model
	i  int
	id wire.FabricNodeID

	n        *node.Node // nil: the chip is dead; the model's lock guards n
	srv      *admin.Server
	archived func() // waits until the events of a closed node are archived
	api      uint16 // TCP port of the chip's API
}

// loopback is the address of the chips' APIs.
var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// open starts the node of a living chip, and its API. The caller does not hold the lock.
func (s *seat) open(ctx context.Context, kernels kernel.Table) error {
	x := s.x
	l, err := net.Listen("tcp", netip.AddrPortFrom(loopback, 0).String())
	if err != nil {
		return fmt.Errorf("chip %s: cannot open the chip's API: %w", s.id, err)
	}
	s.api = l.Addr().(*net.TCPAddr).AddrPort().Port()
	host, err := x.spec.HostBytes()
	if err != nil {
		return err
	}
	x.mu.Lock()
	c := x.m.Chip(s.i)
	if c == nil { // a snapshot may lack chips
		x.mu.Unlock()
		return l.Close()
	}
	n, err := node.StartHosted(ctx, node.Config{Node: s.id, Topology: x.topo, Incarnation: c.Incarnation(), Log: x.log, Kernels: kernels, HostMemory: host, API: s.api,

		Join: func(context.Context, membership.Meta) (node.Membership, error) { return pool{s}, nil },
		Cable: func(_ netip.AddrPort, c transport.Cable) (transport.Port, error) {
			return &pipe{s: s, ch: c.From.Channel, at: address(s.i, c.From.Channel)}, nil
		}}, s)
	if err == nil {
		s.n = n
		for _, p := range x.topo.Ports(s.id) {
			n.Hosted().Aim(p.Local.Channel, address(x.topo.Index(p.Peer.Node), p.Peer.Channel))
		}
	}
	x.mu.Unlock()
	if err != nil {
		l.Close()
		return err
	}
	s.archived = admin.Collect(n, x.dir.ArchiveConfig(&x.spec, s.id), x.log)
	if err := process.Impair(n, &x.spec); err != nil {
		return err
	}
	s.srv = x.apiOf(n, l)
	self := folder.Chip{Chip: s.id, PID: os.Getpid(), Started: folder.StartTicks(os.Getpid()), API: l.Addr().String(), Gossip: n.GossipAddr().String()}
	for ch, at := range n.Addresses() {
		self.Ports[ch] = at.Port()
	}
	return x.dir.WriteChip(self)
}

// close ends the node and the API of a chip. The caller does not hold the lock.
func (s *seat) close() {
	s.x.mu.Lock()
	n := s.n
	s.n = nil
	s.x.mu.Unlock()
	if n == nil {
		return
	}
	s.x.dir.RemoveChip(s.id)
	s.srv.Close()
	n.Close()
	s.archived()
}

// firstPort is the UDP port of channel 0 in the captures of a model.
const firstPort = 17000

// address returns the address of a port in captures: a model has no sockets.
func address(i int, ch wire.Channel) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), firstPort+uint16(ch))
}

// Lock implements [node.Host].
func (s *seat) Lock() { s.x.mu.Lock() }

// Unlock implements [node.Host].
func (s *seat) Unlock() { s.x.mu.Unlock() }

// Now implements [node.Host].
func (s *seat) Now() mono.Time { return mono.Time(s.x.now.Load()) }

// Epoch implements [node.Host].
func (s *seat) Epoch() time.Time { return s.x.epoch }

// Chip implements [node.Host].
func (s *seat) Chip() *chip.Chip { return s.x.m.Chip(s.i) }

// Run implements [node.Host].
func (s *seat) Run() {
	s.x.m.Step(s.i)
	s.x.poke()
}

// Impair implements [node.Host].
func (s *seat) Impair(ch wire.Channel, o fault.Options, cut bool, seed *uint64) error {
	return s.x.m.Impair(wire.PortID{Node: s.id, Channel: ch}, o, cut, seed)
}

// Faults implements [node.Host].
func (s *seat) Faults(ch wire.Channel) fault.Counts {
	return s.x.m.Faults(wire.PortID{Node: s.id, Channel: ch})
}

// After implements [node.Host].
func (s *seat) After(d time.Duration, f func()) {
	s.x.m.After(d, func() { s.x.late = append(s.x.late, f) })
	s.x.poke()
}

// hosts hands the outputs of the chips to their nodes. The simulator calls the methods under the model's lock.
type hosts struct{ x *Model }

func (h hosts) at(i int) (node.Hosted, bool) {
	n := h.x.seats[i].n
	if n == nil {
		return node.Hosted{}, false
	}
	return n.Hosted(), true
}

// Feed implements [sim.Hosts].
func (h hosts) Feed(i int) bool {
	n, ok := h.at(i)
	return ok && n.Feed()
}

// Send implements [sim.Hosts].
func (h hosts) Send(i int, ch wire.Channel, t ttlink.Transmit) {
	if n, ok := h.at(i); ok {
		n.Send(ch, t)
		return
	}
	h.x.m.Carry(i, ch, t.Data, t.Seg)
}

// Received implements [sim.Hosts].
func (h hosts) Received(i int, ch wire.Channel, b []byte) {
	if n, ok := h.at(i); ok {
		n.Received(ch, b)
	}
}

// Result implements [sim.Hosts].
func (h hosts) Result(i int, r flow.Result) {
	if n, ok := h.at(i); ok {
		n.Result(r)
	}
}

// Event implements [sim.Hosts].
func (h hosts) Event(i int, e chip.Event) {
	if n, ok := h.at(i); ok {
		n.Event(e)
	}
}

// Stepped implements [sim.Hosts].
func (h hosts) Stepped(i int) {
	if n, ok := h.at(i); ok {
		n.Stepped()
	}
}

// pool is the gossip pool of a model. All chips that live are members.
type pool struct{ s *seat }

// Notify implements [node.Membership].
func (pool) Notify() <-chan struct{} { return nil }

// Events implements [node.Membership].
func (pool) Events() []membership.Event { return nil }

// UpdateMeta implements [node.Membership]. View reads the chips themselves.
func (pool) UpdateMeta(membership.Meta) {}

// Addr implements [node.Membership].
func (p pool) Addr() netip.AddrPort { return netip.AddrPortFrom(loopback, p.s.api) }

// Close implements [node.Membership].
func (pool) Close(time.Duration) error { return nil }

// View implements [node.Membership].
func (p pool) View() (out []membership.Member) {
	x := p.s.x
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, s := range x.seats {
		c := x.m.Chip(s.i)
		if c == nil {
			continue
		}
		links := c.LinkState()
		m := membership.Member{Name: s.id.String(), Addr: loopback, Meta: membership.Meta{Node: s.id, Incarnation: c.Incarnation(), Started: uint64(x.epoch.UnixMilli()), API: s.api,
			LinkVersion: links.Version, Silent: links.Silent, Topology: uint32(x.topo.Hash())}}
		for _, q := range c.Channels() {
			m.Meta.InService |= 1 << q.Local.Channel
			m.Meta.Ports[q.Local.Channel] = firstPort + uint16(q.Local.Channel)
		}
		m.Meta.InService &^= links.Avoided()
		out = append(out, m)
	}
	return out
}

// pipe is the port of a chip, which sends into a simulated cable. Nobody receives from a pipe: the simulator hands
// the datagrams to the chip.
type pipe struct {
	s    *seat
	ch   wire.Channel
	at   netip.AddrPort
	sent [2]atomic.Uint64 // datagrams and bytes
}

// Send implements [transport.Port]. The caller holds the model's lock.
func (p *pipe) Send(data []byte, seg int) (int, error) {
	n := (len(data) + seg - 1) / seg
	p.sent[0].Add(uint64(n))
	p.sent[1].Add(uint64(len(data)))
	p.s.x.m.Carry(p.s.i, p.ch, data, seg)
	return n, nil
}

// SendBatch implements [transport.Port].
func (p *pipe) SendBatch(runs []transport.Run) (int, error) { return transport.SendEach(p, runs) }

// Recv implements [transport.Port].
func (p *pipe) Recv(*transport.Batch) error { return net.ErrClosed }

// SetPeer implements [transport.Port].
func (p *pipe) SetPeer(netip.AddrPort) error { return nil }

// LocalAddr implements [transport.Port].
func (p *pipe) LocalAddr() netip.AddrPort { return p.at }

// MaxDatagram implements [transport.Port].
func (p *pipe) MaxDatagram() int { return transport.MaxDatagram }

// Refusals implements [transport.Port].
func (p *pipe) Refusals() uint64 { return 0 }

// Stats implements [transport.Port].
func (p *pipe) Stats() transport.Stats {
	return transport.Stats{Sent: p.sent[0].Load(), SentBytes: p.sent[1].Load(), Largest: transport.MaxDatagram}
}

// Close implements [transport.Port].
func (p *pipe) Close() error { return nil }

// Describe implements [transport.Describer].
func (p *pipe) Describe() string { return "simulated" }
