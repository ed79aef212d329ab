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
	"io"
	"log"
	"log/slog"
	"math/rand/v2"
	"net/netip"
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
	gossipInterval  = 500 * time.Millisecond // each wakes the process: 200 ms cost 32 idle chips 2 % of a core more
	probeInterval   = 2 * time.Second
	probeTimeout    = time.Second
	pushPull        = 60 * time.Second
	retryMin        = 50 * time.Millisecond // between attempts to join
	retryMax        = 2 * time.Second
	repairMin       = 300 * time.Millisecond // after joining: more joins, with random seeds
	repairMax       = 1500 * time.Millisecond
	repairs         = 3
	healMin         = 4 * time.Second // between looks for members that are missing, of Config.Expect
	healMax         = 8 * time.Second
	tcpTimeout      = 2 * time.Second        // a seed that takes a connection and says nothing
	maxEvents       = 512                    // events that wait to be drained; older ones are dropped
	updateTimeout   = 100 * time.Millisecond // to spread new metadata
	minUpdatePeriod = 200 * time.Millisecond // between two spreads of metadata
)

// Config describes one chip's place in the pool.
type Config struct {
	Node        wire.FabricNodeID
	Incarnation wire.Incarnation
	Bind        netip.AddrPort // TCP and UDP; port 0 for any
	Advertise   netip.Addr     // what others are told; zero: the bound address
	Label       string         // pools of different labels do not mix
	Meta        membership.Meta
	Seeds       func() []string // host:port of members to join; asked anew for each attempt
	Expect      int             // members that a whole pool has; while there are fewer, seeds are joined again; 0: unknown
	Seed        uint64          // of the jitter
	Logger      *slog.Logger    // memberlist's own lines come at debug level; nil: discard
	Key         []byte          // 16, 24 or 32 bytes to encrypt gossip with; nil: plain
}

// Pool is a live membership. Its methods are safe for concurrent use.
type Pool struct {
	cfg    Config
	list   *memberlist.Memberlist
	addr   netip.AddrPort
	rng    *rand.Rand // joiner's only
	cancel context.CancelFunc
	wg     sync.WaitGroup
	closed atomic.Bool
	notify chan struct{}
	update chan struct{}

	mu     sync.Mutex
	view   *membership.View
	meta   []byte
	events []membership.Event
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
	p := &Pool{cfg: cfg, rng: rand.New(rand.NewPCG(cfg.Seed, uint64(cfg.Incarnation))), notify: make(chan struct{}, 1), update: make(chan struct{}, 1),
		view: membership.NewView(cfg.Meta.Topology), meta: cfg.Meta.Append(nil)}
	mc := memberlist.DefaultLANConfig()
	mc.Name = fmt.Sprintf("%s-%016x", cfg.Node, uint64(cfg.Incarnation))
	mc.BindAddr, mc.BindPort = cfg.Bind.Addr().String(), int(cfg.Bind.Port())
	mc.AdvertisePort = mc.BindPort
	if cfg.Advertise.IsValid() {
		mc.AdvertiseAddr = cfg.Advertise.String()
	}
	mc.Label, mc.SecretKey = cfg.Label, cfg.Key
	mc.GossipVerifyIncoming, mc.GossipVerifyOutgoing = true, true
	mc.GossipInterval, mc.ProbeInterval, mc.ProbeTimeout, mc.PushPullInterval = gossipInterval, probeInterval, probeTimeout, pushPull
	mc.TCPTimeout = tcpTimeout
	mc.Delegate, mc.Events = (*delegate)(p), (*delegate)(p)
	mc.Logger = log.New(logWriter{cfg.Logger}, "", 0)
	list, err := memberlist.Create(mc)
	if err != nil {
		if errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("gossip address %s is taken by another process; stop it or choose another: %w", cfg.Bind, err)
		}
		return nil, fmt.Errorf("gossip cannot start on %s: %w", cfg.Bind, err)
	}
	p.list = list
	// Read once: memberlist rewrites its own entry when metadata changes.
	self := list.LocalNode()
	a, _ := netip.AddrFromSlice(self.Addr)
	p.addr = netip.AddrPortFrom(a.Unmap(), self.Port)
	ctx, p.cancel = context.WithCancel(ctx)
	p.wg.Go(func() { p.join(ctx) })
	p.wg.Go(func() { p.spread(ctx) })
	return p, nil
}

// Addr is the pool's own socket.
func (p *Pool) Addr() netip.AddrPort {
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
	p.wg.Wait()
	if leave > 0 && !p.closed.Swap(true) && p.list.NumMembers() > 1 {
		if err := p.list.Leave(leave); err != nil && p.cfg.Logger != nil {
			p.cfg.Logger.Debug("gossip: goodbye not confirmed", "error", err)
		}
	}
	return p.list.Shutdown()
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
		_ = p.list.UpdateNode(updateTimeout)
		if !sleep(ctx, minUpdatePeriod) {
			return
		}
	}
}

// join finds the pool: a random seed, again and again until one answers, then others to mend what the rush has missed.
func (p *Pool) join(ctx context.Context) {
	wait := retryMin
	for {
		seeds := p.cfg.Seeds()
		if len(seeds) > 0 {
			if _, err := p.list.Join([]string{seeds[p.rng.IntN(len(seeds))]}); err == nil {
				break
			}
		}
		if !sleep(ctx, p.jitter(wait/2, wait)) {
			return
		}
		wait = min(2*wait, retryMax)
	}
	for range repairs {
		if !sleep(ctx, p.jitter(repairMin, repairMax)) {
			return
		}
		seeds := p.cfg.Seeds()
		if len(seeds) == 0 {
			continue
		}
		// A seed and not just any member: two islands that formed at once know only their own members, but share the seeds.
		at := seeds[p.rng.IntN(len(seeds))]
		_, _ = p.list.Join([]string{at}) // a member that has just gone is no matter
	}
	p.heal(ctx)
}

// heal joins a seed that is no member, now and then while members are missing:
// parts of a pool that lost sight of each other for long find together again.
func (p *Pool) heal(ctx context.Context) {
	for sleep(ctx, p.jitter(healMin, healMax)) {
		if p.list.NumMembers() >= p.cfg.Expect {
			continue
		}
		member := map[string]bool{}
		for _, n := range p.list.Members() {
			member[n.Address()] = true
		}
		var strangers []string
		for _, s := range p.cfg.Seeds() {
			if !member[s] {
				strangers = append(strangers, s)
			}
		}
		if len(strangers) > 0 {
			_, _ = p.list.Join([]string{strangers[p.rng.IntN(len(strangers))]}) // it may be gone; there is a next time
		}
	}
}

func (p *Pool) jitter(lo, hi time.Duration) time.Duration {
	return lo + time.Duration(p.rng.Int64N(int64(hi-lo)+1))
}

// sleep waits for d; false when ctx has ended.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// heard merges one event of memberlist.
func (p *Pool) heard(f func(v *membership.View) []membership.Event) {
	p.mu.Lock()
	es := f(p.view)
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

// delegate is the pool as memberlist sees it.
type delegate Pool

func (d *delegate) pool() *Pool { return (*Pool)(d) }

// NodeMeta is this chip's metadata.
func (d *delegate) NodeMeta(limit int) []byte {
	p := d.pool()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.meta) > limit {
		panic("gossip: metadata of 64 bytes exceeds memberlist's limit")
	}
	return p.meta
}

func (d *delegate) alive(n *memberlist.Node) {
	a, _ := netip.AddrFromSlice(n.Addr)
	d.pool().heard(func(v *membership.View) []membership.Event { return v.Alive(n.Name, a.Unmap(), n.Meta) })
}

func (d *delegate) NotifyJoin(n *memberlist.Node)   { d.alive(n) }
func (d *delegate) NotifyUpdate(n *memberlist.Node) { d.alive(n) }
func (d *delegate) NotifyLeave(n *memberlist.Node) {
	d.pool().heard(func(v *membership.View) []membership.Event { return v.Gone(n.Name) })
}

// Nothing but metadata is gossiped.
func (d *delegate) NotifyMsg([]byte)                {}
func (d *delegate) GetBroadcasts(_, _ int) [][]byte { return nil }
func (d *delegate) LocalState(bool) []byte          { return nil }
func (d *delegate) MergeRemoteState([]byte, bool)   {}

// logWriter turns memberlist's lines into debug records.
type logWriter struct{ l *slog.Logger }

func (w logWriter) Write(b []byte) (int, error) {
	if w.l != nil {
		w.l.Debug("memberlist", "line", string(b))
	}
	return len(b), nil
}

var _ io.Writer = logWriter{}
