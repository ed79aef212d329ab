// Package gossip keeps a membership view with hashicorp/memberlist, and is its only importer.
//
// Mass start follows what was measured: with one seed for all, a pool of 128
// takes up to a minute and a half to form; with a random seed among several,
// retries, and jittered joins with other seeds shortly after, some seconds.
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

// Times and limits; our own choices, over memberlist's LAN profile.
const (
	retryMin        = 50 * time.Millisecond // between attempts to join
	retryMax        = 2 * time.Second
	repairs         = 3                      // more joins after the first, with random seeds
	healDoublings   = 2                      // of the time between looks for missing members, while none is found
	maxEvents       = 512                    // events that wait to be drained; older ones are dropped
	updateTimeout   = 100 * time.Millisecond // to spread new metadata
	minUpdatePeriod = 200 * time.Millisecond // between two spreads of metadata
	unreadablePause = time.Minute            // between two reports of gossip that cannot be read
	reclaimTime     = time.Second            // after its death a member may be at another address; no other chip's process has its name
)

// pace is how fast the pool lives.
type pace struct {
	gossip, probe, probeTimeout, pushPull time.Duration
	forget                                time.Duration // a dead member is gossiped to for this long, and then forgotten
	repairMin, repairMax                  time.Duration // between the first joins
	healMin, healMax                      time.Duration // between looks for members that are missing
	tcp                                   time.Duration // that one who takes a connection and says nothing is waited for
	stretch                               int           // times that one who hears little gives others at most; 0: the library's
}

// lan is the pace of chips on one machine or in one rack. Each gossip wakes the
// process: every 200 ms cost 32 idle chips 2 % of a core more.
var lan = pace{gossip: 500 * time.Millisecond, probe: 2 * time.Second, probeTimeout: time.Second, pushPull: time.Minute,
	forget: 30 * time.Second, repairMin: 300 * time.Millisecond, repairMax: 1500 * time.Millisecond, healMin: 4 * time.Second, healMax: 8 * time.Second, tcp: 2 * time.Second}

// Config describes one chip's place in the pool.
type Config struct {
	Node        wire.FabricNodeID
	Incarnation wire.Incarnation
	Bind        netip.AddrPort // TCP and UDP; port 0 for any
	Advertise   netip.Addr     // what others are told; zero: the bound address
	Label       string         // pools of different labels do not mix
	Meta        membership.Meta
	Seeds       func() []string // members to join, as host:port or CHIP/host:port; asked anew for each attempt
	Expect      int             // chips that a whole pool has; while there are fewer, seeds are joined again; 0: the most that were seen
	Seed        uint64          // of the jitter
	Logger      *slog.Logger    // memberlist's own lines come at debug level; nil: discard
	Keys        *Keys           // to encrypt gossip with; nil: plain

	pace pace // zero: lan
}

// Pool is a live membership. Its methods are safe for concurrent use.
type Pool struct {
	cfg    Config
	list   *memberlist.Memberlist
	net    *network
	addr   netip.AddrPort
	rng    *rand.Rand // joiner's only
	cancel context.CancelFunc
	wg     sync.WaitGroup
	closed atomic.Bool
	notify chan struct{}
	update chan struct{}

	mu         sync.Mutex
	view       *membership.View
	meta       []byte
	events     []membership.Event
	here       map[string]string            // gossip addresses of members, by name; the library's own list must not be read beside it
	last       map[wire.FabricNodeID]string // gossip address where a chip was heard of last
	most       int                          // chips that were seen at once
	unreadable uint64                       // streams that could not be read
	told       time.Time                    // when that was reported
	self       *memberlist.Node             // the library's entry of this chip; its lock guards what it holds
	moved      []byte                       // the address that it is to have; nil: it has it
	telling    sync.Mutex                   // held while the library reads that entry without its lock
}

// Start binds the pool's sockets and goes on joining in the background.
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
		view: membership.NewView(cfg.Meta.Topology), meta: cfg.Meta.Append(nil), here: map[string]string{}, last: map[wire.FabricNodeID]string{}}
	logger := log.New(&logWriter{cfg.Logger, p}, "", 0)
	var port int
	var err error
	if p.net, port, err = listen(cfg.Bind, cfg.pace.tcp, logger); err != nil {
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
	// Read once: memberlist rewrites its own entry when metadata changes.
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

// memberlist is the library's configuration.
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

// Addr is the pool's own socket.
func (p *Pool) Addr() netip.AddrPort {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.addr
}

// Notify signals that something has changed since it was last received from.
func (p *Pool) Notify() <-chan struct{} { return p.notify }

// Events drains what happened; if nobody did for long, the oldest are gone.
func (p *Pool) Events() []membership.Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.events
	p.events = nil
	return e
}

// View lists the chips that are believed alive.
func (p *Pool) View() []membership.Member {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.view.Members()
}

// UpdateMeta says something new about this chip; changes in quick succession are spread as one.
func (p *Pool) UpdateMeta(m membership.Meta) {
	p.mu.Lock()
	p.meta = m.Append(nil)
	p.mu.Unlock()
	select {
	case p.update <- struct{}{}:
	default:
	}
}

// Close says goodbye for at most leave, or not at all with 0, and frees the sockets. It may be called again.
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

// tell has memberlist say anew what this chip is.
func (p *Pool) tell() {
	p.telling.Lock()
	defer p.telling.Unlock()
	_ = p.list.UpdateNode(updateTimeout)
}

// spread hands new metadata to memberlist, not too often.
func (p *Pool) spread(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.update:
		}
		// The error says only that not all peers were told within the time; gossip goes on.
		p.tell()
		if !sleep(ctx, minUpdatePeriod) {
			return
		}
	}
}

// heard merges one event of memberlist.
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
