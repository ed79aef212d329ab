// Package gossip keeps a membership view with the library hashicorp/memberlist. No other package
// imports that library.
//
// The way in which many chips join at once follows measurements. If all chips join the same seed, a
// pool of 128 chips takes up to a minute and a half to form. With three measures, the pool takes
// some seconds. Each chip draws a random seed out of several. Each chip tries again. Shortly after,
// at random times, each chip joins other seeds too.
package gossip

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/memberlist"

	"ttfabric/membership"
	"ttfabric/wire"
)

// Times and limits. The values are our own choices. All other values are those of memberlist's LAN
// profile.
const (
	retryMin        = 50 * time.Millisecond // shortest time between two attempts to join
	retryMax        = 2 * time.Second
	repairs         = 3                      // further joins after the first join, with random seeds
	healDoublings   = 2                      // doublings of the time between searches for missing members, while the pool finds no member
	maxEvents       = 512                    // events that wait to be fetched; beyond this number the pool drops the oldest event
	updateTimeout   = 100 * time.Millisecond // longest time to spread new metadata
	minUpdatePeriod = 200 * time.Millisecond // shortest time between two spreads of metadata
	unreadablePause = time.Minute            // shortest time between two reports of gossip that cannot be read
	rejectedPeriod  = time.Minute            // the pool reports the rejected claims of a process once in this time
	maxRejected     = 16                     // processes whose rejected claims the pool reports in a rejectedPeriod
	reclaimTime     = time.Second            // time after its death after which a member may have another address; no other chip's process has its name
)

// pace holds the times of the pool.
type pace struct {
	gossip, probe, probeTimeout, pushPull time.Duration
	forget                                time.Duration // the pool gossips about a dead member for this long, and then forgets it
	repairMin, repairMax                  time.Duration // shortest and longest time between the first joins
	healMin, healMax                      time.Duration // shortest and longest time between searches for missing members
	tcp                                   time.Duration // how long to wait for a peer that accepts a connection and sends nothing
	stretch                               int           // largest factor by which a member that hears little waits longer for others; 0: the library's value
}

// lan is the pace of chips on one machine or in one rack. Each gossip wakes the process. If the
// chips gossip every 200 ms, 32 idle chips cost 2 % of a core more.
var lan = pace{gossip: 500 * time.Millisecond, probe: 2 * time.Second, probeTimeout: time.Second, pushPull: time.Minute,
	forget: 30 * time.Second, repairMin: 300 * time.Millisecond, repairMax: 1500 * time.Millisecond, healMin: 4 * time.Second, healMax: 8 * time.Second, tcp: 2 * time.Second}

// Config holds the settings of one chip's membership in the pool.
type Config struct {
	Node        wire.FabricNodeID
	Incarnation wire.Incarnation
	Bind        netip.AddrPort // address of the TCP and UDP sockets; port 0 for any port
	Advertise   netip.Addr     // address of this chip that the pool tells other chips; zero: the bound address
	Label       string         // pools of different labels do not mix
	Meta        membership.Meta
	Seeds       func() []string              // returns members to join, as host:port or CHIP/host:port; the pool calls Seeds for each attempt
	Expect      int                          // chips of a complete pool; while the pool has fewer chips, it joins seeds again; 0: the largest number of chips seen so far
	Seed        uint64                       // seed of the random times
	Logger      *slog.Logger                 // gets memberlist's own lines at debug level; nil: discard
	Keys        *Keys                        // keys that encrypt gossip; nil: gossip is not encrypted
	Member      func(wire.FabricNodeID) bool // reports whether a chip belongs to the fabric; nil: every chip does

	pace pace // zero: lan
}

// Pool is a live membership. Its methods are safe for concurrent use.
type Pool struct {
	cfg    Config
	list   *memberlist.Memberlist
	net    *network
	addr   netip.AddrPort
	rng    *rand.Rand // only the joining goroutine uses it
	cancel context.CancelFunc
	wg     sync.WaitGroup
	closed atomic.Bool
	notify chan struct{}
	update chan struct{}

	mu         sync.Mutex
	view       *membership.View
	meta       []byte
	events     []membership.Event
	here       map[string]string            // gossip addresses of members, by name; a copy, because nobody may read the library's own list concurrently
	last       map[wire.FabricNodeID]string // gossip address at which a chip was last heard of
	most       int                          // largest number of chips seen at once
	unreadable uint64                       // streams that could not be read
	refused    uint64                       // claims that NotifyAlive refused
	reported   map[string]bool              // processes whose claims the pool has reported as rejected in this period
	period     time.Time                    // when the period of such reports began
	told       time.Time                    // when the pool last reported unreadable streams
	self       *memberlist.Node             // the library's entry of this chip; the library's lock guards its content
	moved      []byte                       // the address that this chip's entry must get; nil: the entry is up to date
	telling    sync.Mutex                   // held while the pool reads this chip's entry without the library's lock
}

// Start binds the pool's sockets and joins the pool in the background.
func Start(ctx context.Context, cfg Config) (*Pool, error) {
	switch {
	case cfg.Incarnation == 0 || cfg.Meta.Incarnation != cfg.Incarnation || cfg.Meta.Node != cfg.Node:
		return nil, fmt.Errorf("gossip: chip %s, incarnation %#x, with metadata of chip %s, incarnation %#x: want the same chip and incarnation, not zero",
			cfg.Node, uint64(cfg.Incarnation), cfg.Meta.Node, uint64(cfg.Meta.Incarnation))
	case cfg.Seeds == nil:
		return nil, fmt.Errorf("gossip: chip %s has no source of seeds; give a function, which may return none", cfg.Node)
	}
	if cfg.pace == (pace{}) {
		cfg.pace = lan
	}
	p := &Pool{cfg: cfg, rng: rand.New(rand.NewPCG(cfg.Seed, uint64(cfg.Incarnation))), notify: make(chan struct{}, 1), update: make(chan struct{}, 1),
		view: membership.NewView(cfg.Meta.Topology, cfg.Member), meta: cfg.Meta.Append(nil), here: map[string]string{}, last: map[wire.FabricNodeID]string{}}
	logger := log.New(&logWriter{cfg.Logger, p}, "", 0)
	var port int
	var err error
	if p.net, port, err = listen(cfg.Bind, cfg.pace.tcp, cfg.Keys != nil, logger); err != nil {
		if errors.Is(err, syscall.EADDRINUSE) || strings.Contains(err.Error(), syscall.EADDRINUSE.Error()) {
			return nil, fmt.Errorf("gossip address %s is taken by another process; stop it or choose another: %w", cfg.Bind, err)
		}
		return nil, fmt.Errorf("gossip cannot start on %s: %w", cfg.Bind, err)
	}
	list, err := memberlist.Create(p.memberlist(port, logger))
	if err != nil {
		p.net.Shutdown()
		return nil, fmt.Errorf("gossip cannot start on %s: %w", cfg.Bind, err)
	}
	p.list = list
	// Read the entry only once, because memberlist changes its own entry when metadata changes.
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

// memberlist returns the library's configuration.
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
	mc.GossipInterval, mc.ProbeInterval, mc.ProbeTimeout, mc.PushPullInterval = cfg.pace.gossip, cfg.pace.probe, cfg.pace.probeTimeout, cfg.pace.pushPull
	mc.GossipToTheDeadTime = cfg.pace.forget
	mc.DeadNodeReclaimTime = reclaimTime
	mc.TCPTimeout = cfg.pace.tcp
	if n := cfg.pace.stretch; n > 0 {
		mc.AwarenessMaxMultiplier, mc.SuspicionMaxTimeoutMult = n, n
	}
	mc.Delegate, mc.Events, mc.Alive = (*delegate)(p), (*delegate)(p), (*delegate)(p)
	mc.Logger = logger
	return mc
}

// Addr returns the address of the pool's own socket.
func (p *Pool) Addr() netip.AddrPort {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.addr
}

// Notify returns a channel that signals a change since the last receive from the channel.
func (p *Pool) Notify() <-chan struct{} { return p.notify }

// Events returns the events since the last call. If nobody has called Events for long, the oldest
// events are lost.
func (p *Pool) Events() []membership.Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.events
	p.events = nil
	return e
}

// View lists the chips that the pool believes alive.
func (p *Pool) View() []membership.Member {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.view.Members()
}

// UpdateMeta sets new metadata for this chip. The pool spreads several changes in quick succession
// as one change.
func (p *Pool) UpdateMeta(m membership.Meta) {
	p.mu.Lock()
	p.meta = m.Append(nil)
	p.mu.Unlock()
	select {
	case p.update <- struct{}{}:
	default:
	}
}

// Close tells the other members that this chip leaves, within at most the time leave. If leave is
// 0, Close does not tell the other members. Close then frees the sockets. The caller may call Close
// again.
func (p *Pool) Close(leave time.Duration) error {
	p.cancel()
	p.net.hurry()
	p.wg.Wait()
	if leave > 0 && !p.closed.Swap(true) && p.list.NumMembers() > 1 {
		if err := p.list.Leave(leave); err != nil && p.cfg.Logger != nil {
			p.cfg.Logger.Debug("gossip: goodbye not confirmed", "error", err)
		}
	}
	return p.list.Shutdown()
}

// tell makes memberlist announce this chip's metadata again.
func (p *Pool) tell() {
	p.telling.Lock()
	defer p.telling.Unlock()
	_ = p.list.UpdateNode(updateTimeout)
}

// spread hands new metadata to memberlist, at limited intervals.
func (p *Pool) spread(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.update:
		}
		// The error only says that the pool could not tell all peers within the time. Gossip
		// continues.
		p.tell()
		if !sleep(ctx, minUpdatePeriod) {
			return
		}
	}
}

// heard adds one event of memberlist to the view.
func (p *Pool) heard(f func(v *membership.View) []membership.Event) {
	p.mu.Lock()
	es := f(p.view)
	p.most = max(p.most, len(p.view.Members()))
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
