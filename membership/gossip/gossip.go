// Package gossip implements membership by gossip with the library hashicorp/memberlist. Only this
// package imports the library.
//
// Each chip joins a random seed out of several, and repeats the attempt until a seed answers. At
// random times shortly after, the chip joins further seeds. In this way a pool of 128 chips forms
// within seconds, even if all chips start at once. If all chips joined the same seed, the pool
// would take up to a minute and a half (measured).
package gossip

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/memberlist"

	"ttfabric/membership"
	"ttfabric/wire"
)

// Times and limits that ttfabric chose. All other values come from memberlist's LAN profile.
const (
	retryMin        = 50 * time.Millisecond  // longest time before the second attempt to join; the time doubles with each attempt
	retryMax        = 2 * time.Second        // longest time between two attempts to join
	repairs         = 3                      // number of random seeds that a chip joins after the first
	healDoublings   = 2                      // how often the time between searches for missing members doubles, as long as the number of chips does not change
	maxEvents       = 512                    // largest number of events that wait for a call of Events; for each further event, the pool drops the oldest
	updateTimeout   = 100 * time.Millisecond // longest time that an announcement of new metadata blocks
	minUpdatePeriod = 200 * time.Millisecond // shortest time between two announcements of metadata
	unreadablePause = time.Minute            // shortest time between two reports of unreadable gossip
	rejectedPeriod  = time.Minute            // the pool reports the rejected claims of a process once in this time
	maxRejected     = 16                     // largest number of processes whose rejected claims the pool reports in a rejectedPeriod
	maxQueue        = 4096                   // largest number of announcements that wait for memberlist, and largest number of other messages that wait; at maxPacket each, all these messages take at most 150 MiB
	loopbackPacket  = 16 << 10               // largest gossip packet on loopback, in bytes: about 100 announcements; memberlist counts the messages of a packet in 8 bits, and no message is shorter than 64 bytes
	maxPacket       = loopbackPacket + 512   // largest gossip packet that a pool accepts, in bytes: memberlist adds a label, a checksum and the overhead of encryption
	reclaimTime     = time.Second            // shortest time between a member's death and its return with another address; the time can be short, because each process has its own name
)

// pace holds the times and intervals of a pool.
type pace struct {
	gossip, probe, probeTimeout, pushPull time.Duration
	forget                                time.Duration // how long the pool gossips about a dead member before the pool forgets the member
	repairMin, repairMax                  time.Duration // shortest and longest time before each of the joins that repairs counts
	healMin, healMax                      time.Duration // shortest and longest time between searches for missing members
	tcp                                   time.Duration // longest time to wait for a connection, and for a peer that sends nothing on a connection
	stretch                               int           // largest factor by which a member lengthens its timeouts if it receives few answers; 0: the library's value
}

// lan is the pace for chips on one machine or in one rack. Each round of gossip wakes the process.
// With gossip every 200 ms instead of 500 ms, 32 idle chips would need 2 % of a core more.
var lan = pace{gossip: 500 * time.Millisecond, probe: 2 * time.Second, probeTimeout: time.Second, pushPull: time.Minute,
	forget: 30 * time.Second, repairMin: 300 * time.Millisecond, repairMax: 1500 * time.Millisecond, healMin: 4 * time.Second, healMax: 8 * time.Second, tcp: 2 * time.Second}

// manyChips is the number of chips above which a pool probes its members less often, and repeats news
// less often.
const manyChips = 64

// manyRepeats is the number of times that each member of a pool of many chips repeats each piece of
// news. Memberlist's own values are 8 below 100 members, and 12 below 1000. A member misses news
// with a probability of about e^-6, and then learns the news from its next exchange with another
// member.
const manyRepeats = 6

// retransmits returns the value of memberlist's RetransmitMult with which each of n members repeats
// each piece of news at least manyRepeats times. Memberlist multiplies this value by the number of
// decimal digits of n.
func retransmits(n int) int {
	digits := len(strconv.Itoa(n))
	return (manyRepeats + digits - 1) / digits
}

// slow returns the time d, lengthened for a pool of n chips. In a large pool, each round of gossip
// carries more news, so that fewer rounds suffice. On a busy machine, answers to probes come late,
// so that chips suspect members that live. Each wrong suspicion costs each of n chips the work for
// two more announcements. Beyond manyChips, the time grows with the square root of n.
func (*pace) slow(d time.Duration, n int) time.Duration {
	return time.Duration(float64(d) * math.Sqrt(max(1, float64(n)/manyChips)))
}

// Config holds the settings of one chip's membership in the pool.
type Config struct {
	Node        wire.FabricNodeID
	Incarnation wire.Incarnation
	Bind        netip.AddrPort // address of the TCP and UDP sockets; port 0: the system chooses the port
	Advertise   netip.Addr     // address at which other chips reach this chip; zero value: the bound address
	Label       string         // name of the pool; chips of pools with different names ignore each other
	Meta        membership.Meta
	Seeds       func() []string              // returns addresses of members to join, as host:port or CHIP/host:port; the pool calls Seeds before each attempt
	Expect      int                          // number of chips of the complete pool; while a chip sees fewer chips, the chip searches for the missing chips; 0: the largest number of chips seen so far
	Seed        uint64                       // seed of the random times
	Logger      *slog.Logger                 // logger for warnings, and for memberlist's lines at debug level; nil: no log
	Keys        *Keys                        // keys that encrypt gossip; nil: gossip is not encrypted
	Member      func(wire.FabricNodeID) bool // reports whether a chip belongs to the fabric; nil: every chip does

	pace pace // zero value: lan
}

// Pool is one chip's membership in a gossip pool. The methods are safe for concurrent use.
type Pool struct {
	cfg    Config
	list   *memberlist.Memberlist
	net    *network
	addr   netip.AddrPort
	rng    *rand.Rand // used only by the goroutine that runs join
	cancel context.CancelFunc
	wg     sync.WaitGroup
	closed atomic.Bool
	notify chan struct{}
	update chan struct{}

	mu       sync.Mutex
	view     *membership.View
	own      news
	events   []membership.Event
	here     map[string]string            // gossip addresses of the present members, by name; a copy, because the library's own list is not safe for concurrent use
	last     map[wire.FabricNodeID]string // last known gossip address of each other chip
	most     int                          // largest number of chips that the view has had at once
	refusals refusals                     // gossip that this chip refused
	self     *memberlist.Node             // the library's entry of this chip; the library's lock guards its content
	moved    []byte                       // new address to write into the entry; nil: the entry has the right address
	telling  sync.Mutex                   // held during UpdateNode, which reads the entry self without the library's lock
}

// news holds a chip's metadata.
type news struct {
	meta     []byte // the metadata to announce
	accepted []byte // the metadata that the library has accepted last
}

// Start binds the sockets, and joins the pool in the background. When ctx ends, the chip joins no
// further seeds, and announces no new metadata. The chip stays in the pool until [Pool.Close]. The
// error says why the configuration is wrong or why the sockets cannot be bound.
func Start(ctx context.Context, cfg Config) (*Pool, error) {
	switch {
	case cfg.Incarnation == 0 || cfg.Meta.Incarnation != cfg.Incarnation || cfg.Meta.Node != cfg.Node:
		return nil, fmt.Errorf("gossip: chip %s, incarnation %#x, with metadata of chip %s, incarnation %#x: want equal chips and equal incarnations that are not zero",
			cfg.Node, uint64(cfg.Incarnation), cfg.Meta.Node, uint64(cfg.Meta.Incarnation))
	case cfg.Seeds == nil:
		return nil, fmt.Errorf("gossip: the configuration of chip %s has no function Seeds; the function may return an empty list", cfg.Node)
	}
	if cfg.pace == (pace{}) {
		cfg.pace = lan
	}
	p := &Pool{cfg: cfg, rng: rand.New(rand.NewPCG(cfg.Seed, uint64(cfg.Incarnation))), notify: make(chan struct{}, 1), update: make(chan struct{}, 1),
		view: membership.NewView(cfg.Meta.Topology, cfg.Member), own: news{meta: cfg.Meta.Append(nil)}, here: map[string]string{}, last: map[wire.FabricNodeID]string{}}
	logger := log.New(&logWriter{cfg.Logger, p}, "", 0)
	var port int
	var err error
	if p.net, port, err = listen(cfg.Bind, cfg.Label, cfg.pace.tcp, cfg.Keys != nil, logger); err != nil {
		if errors.Is(err, syscall.EADDRINUSE) || strings.Contains(err.Error(), syscall.EADDRINUSE.Error()) {
			return nil, fmt.Errorf("gossip address %s is taken by another process; stop that process or choose another address: %w", cfg.Bind, err)
		}
		return nil, fmt.Errorf("gossip cannot start on %s: %w", cfg.Bind, err)
	}
	list, err := memberlist.Create(p.memberlist(port, logger))
	if err != nil {
		p.net.Shutdown()
		return nil, fmt.Errorf("gossip cannot start on %s: %w", cfg.Bind, err)
	}
	p.list = list
	// Read the address in the entry only here, because memberlist changes the entry later.
	self := list.LocalNode()
	a, _ := netip.AddrFromSlice(self.Addr)
	p.mu.Lock()
	p.addr, p.self = netip.AddrPortFrom(a.Unmap(), self.Port), self
	p.mu.Unlock()
	ctx, p.cancel = context.WithCancel(ctx)
	p.wg.Go(func() { p.join(ctx) })
	p.wg.Go(func() { p.spread(ctx) })
	return p, nil
}

// memberlist returns the library's configuration for this pool.
func (p *Pool) memberlist(port int, logger *log.Logger) *memberlist.Config {
	cfg := &p.cfg
	mc := memberlist.DefaultLANConfig()
	mc.Name = cfg.Meta.Name()
	mc.Transport = p.net
	mc.BindAddr, mc.BindPort, mc.AdvertisePort = cfg.Bind.Addr().String(), port, port
	if cfg.Advertise.IsValid() {
		mc.AdvertiseAddr = cfg.Advertise.String()
	}
	mc.Label = cfg.Label
	if cfg.Keys != nil {
		mc.Keyring = cfg.Keys.ring
	}
	mc.GossipVerifyIncoming, mc.GossipVerifyOutgoing = true, true
	mc.GossipInterval, mc.ProbeInterval, mc.ProbeTimeout, mc.PushPullInterval = cfg.pace.slow(cfg.pace.gossip, cfg.Expect), cfg.pace.slow(cfg.pace.probe, cfg.Expect), cfg.pace.slow(cfg.pace.probeTimeout, cfg.Expect), cfg.pace.pushPull
	mc.GossipToTheDeadTime = cfg.pace.forget
	mc.DeadNodeReclaimTime = reclaimTime
	mc.TCPTimeout = cfg.pace.tcp
	if cfg.Expect > manyChips {
		mc.RetransmitMult = retransmits(cfg.Expect)
	}
	mc.EnableCompression = false // LZW costs each member more than all other work with a packet, and metadata hardly shrinks
	mc.HandoffQueueDepth = maxQueue
	if cfg.Bind.Addr().IsLoopback() {
		mc.UDPBufferSize = loopbackPacket
	}
	if n := cfg.pace.stretch; n > 0 {
		mc.AwarenessMaxMultiplier, mc.SuspicionMaxTimeoutMult = n, n
	}
	mc.Delegate, mc.Events, mc.Alive = (*delegate)(p), (*delegate)(p), (*delegate)(p)
	mc.Logger = logger
	return mc
}

// Addr returns the address at which the other chips of the pool reach this chip.
func (p *Pool) Addr() netip.AddrPort {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.addr
}

// Notify returns a Go channel. A receive from this Go channel waits until new events have come since
// the last receive.
func (p *Pool) Notify() <-chan struct{} { return p.notify }

// Events returns the events since the last call. If more than 512 events have come since then,
// Events returns the newest 512.
func (p *Pool) Events() []membership.Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.events
	p.events = nil
	return e
}

// View returns the chips that the pool believes alive, sorted by mesh and chip.
func (p *Pool) View() []membership.Member {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.view.Members()
}

// seen returns the number of chips that the pool believes alive.
func (p *Pool) seen() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.view.Len()
}

// UpdateMeta sets new metadata of this chip, which the pool announces in the background. The pool
// may announce several changes in quick succession as one change.
func (p *Pool) UpdateMeta(m membership.Meta) {
	p.mu.Lock()
	p.own.meta = m.Append(nil)
	p.mu.Unlock()
	select {
	case p.update <- struct{}{}:
	default:
	}
}

// Close leaves the pool and closes the sockets. If the argument "leave" is above 0, Close first
// tells the other members that this chip leaves. Close then waits at most the time "leave" for a
// confirmation. If "leave" is 0, the other members learn only from this chip's silence that this
// chip has left. The caller may call Close more than once.
func (p *Pool) Close(leave time.Duration) error {
	p.cancel()
	p.net.hurry()
	p.wg.Wait()
	if leave > 0 && !p.closed.Swap(true) && p.list.NumMembers() > 1 {
		if err := p.list.Leave(leave); err != nil && p.cfg.Logger != nil {
			p.cfg.Logger.Debug("gossip: no other member has confirmed that this chip leaves", "error", err)
		}
	}
	return p.list.Shutdown()
}

// tell makes memberlist announce this chip's metadata.
func (p *Pool) tell() {
	p.telling.Lock()
	defer p.telling.Unlock()
	_ = p.list.UpdateNode(updateTimeout)
}

// spread announces new metadata, at intervals of at least minUpdatePeriod.
func (p *Pool) spread(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.update:
		}
		// tell ignores memberlist's error: if the library has accepted the metadata, gossip spreads
		// them later. The library drops an announcement if at the same moment the library refutes a
		// suspicion of this chip with a higher number. Then spread announces again.
		for told := false; !told; told = p.told() {
			p.tell()
			if !sleep(ctx, minUpdatePeriod) {
				return
			}
		}
	}
}

// told reports whether the library has accepted this chip's present metadata.
func (p *Pool) told() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return bytes.Equal(p.own.accepted, p.own.meta)
}

// heard calls f to change the view. heard stores the events that f returns.
func (p *Pool) heard(f func(v *membership.View) []membership.Event) {
	p.mu.Lock()
	es := f(p.view)
	p.most = max(p.most, p.view.Len())
	p.events = append(p.events, es...)
	if n := len(p.events); n > maxEvents {
		p.events = append(p.events[:0], p.events[n-maxEvents:]...)
	}
	p.mu.Unlock()
	if len(es) > 0 {
		select {
		case p.notify <- struct{}{}:
		default:
		}
	}
}
