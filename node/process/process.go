// Package process runs one chip in a process. A [Config] describes the chip's ports and
// keys, gossip, archive of events and API, and a program that runs beside the chip.
// 'ttfabric node' uses this package, and any Go program can use the package too.
//
// A user's Go program can run in each chip's process. The function main of the program calls only
// [Main], and 'ttfabric up --program FILE' starts the program once for each chip.
package process

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"ttfabric/membership"
	"ttfabric/membership/gossip"
	"ttfabric/node"
	"ttfabric/node/admin"
	"ttfabric/node/admin/attach/server"
	"ttfabric/node/admin/barrier"
	"ttfabric/node/archive"
	"ttfabric/node/chip"
	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/kernel"
	"ttfabric/node/session"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// Config describes one chip's process. [FromFolder] and [Alone] return a Config.
type Config struct {
	Chip     wire.FabricNodeID
	Spec     spec.Spec
	Topology *topo.Topology
	Token    string         // bearer token of the chip's API
	Keys     *gossip.Keys   // gossip keys; nil: gossip is not encrypted
	Tiles    int64          // limit of this machine's memory that the tiles of the chip may take, in bytes; 0: the default
	Archive  archive.Config // archive of the chip's events; if Archive.Dir is "", the chip archives no events
	Log      *slog.Logger   // gets the chip's messages; nil: the chip logs nothing

	Ports   *Ports  // opens the chip's ethernet ports
	Address Address // addresses and ports on which the chip listens

	// Version is the version of the program that runs the chip. The chip writes Version
	// into recordings.
	Version string
	// Program runs beside the chip as soon as the chip's API answers; nil: no program. The
	// chip is the source of the requests of Program's session. If Program returns an error,
	// the process ends with this error.
	Program Program
	Kernels kernel.Table // kernels that the chip can run

	socket  string                  // path of the Unix socket for local programs; "": the chip has no such socket
	users   []uint32                // ids of the users who may use the socket, besides the chip's user and root
	seeds   func(p pool) []string   // returns gossip addresses of other chips in a pool; gossip calls seeds at each attempt to join the pool
	peer    node.PeerFinder         // finds the first addresses of the ports of other chips; nil: only gossip tells addresses
	running func(folder.Chip) error // publishes the chip's addresses; called once, when the chip runs
	gone    func() bool             // reports whether the fabric was taken down; the process then ends
}

// Program is a user's program that runs beside a chip. When the process is to end, ctx ends. The
// chip then continues to run until the program returns, but for at most two seconds.
type Program func(ctx context.Context, s *session.Session) error

// Address holds the addresses and ports on which a chip listens.
type Address struct {
	Listen    netip.Addr // address of the chip's data ports and gossip
	Interface string     // interface or network whose address the chip advertises, also after the address has changed; "": Advertise does not change
	Advertise netip.Addr // address that other chips use for this chip; zero value: the address Listen
	Gossip    uint16     // TCP and UDP port of the mesh's gossip pool, 0: any free port; the pool of exit nodes uses the next port
	PortBase  uint16     // UDP port of the chip's channel 0; 0: any free ports
	API       string     // address of the chip's API, as HOST:PORT
}

// pool names one of the two gossip pools that a chip may be in. Each chip is in the pool of
// its mesh. Exit nodes are also in the pool of the exit nodes of all meshes.
type pool uint8

const (
	meshPool pool = iota
	exitPool
)

// loopback is the address on which the chips of one machine listen.
var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// FromFolder returns the configuration of chip id of the fabric in a run folder.
func FromFolder(dir folder.Dir, id wire.FabricNodeID) (*Config, error) {
	if err := dir.Check(); err != nil {
		return nil, err
	}
	s, err := dir.Spec()
	if err != nil {
		return nil, err
	}
	t, err := dir.Topology()
	if err != nil {
		return nil, err
	}
	token, err := dir.Token()
	if err != nil {
		return nil, err
	}
	if _, ok := t.Chip(id); !ok {
		return nil, spec.Usagef("chip %s is not in topology %s", id, t)
	}
	c := &Config{Chip: id, Spec: s, Topology: t, Token: token, Archive: dir.ArchiveConfig(&s, id),
		Address: Address{Listen: loopback, API: "127.0.0.1:0"}}
	if s.PortBase != 0 {
		c.Address.PortBase = uint16(s.PortBase + t.Index(id)*spec.ChannelStride)
	}
	if s.Keyed {
		keys, err := folder.GossipKeys(dir.KeysPath(&s))
		if err == nil {
			c.Keys, err = gossip.NewKeys(keys)
		}
		if err != nil {
			return nil, err
		}
	}
	var psk []byte
	if s.Auth == spec.PSK {
		if psk, err = dir.PSK(); err != nil {
			return nil, err
		}
	}
	if c.Ports, err = newPorts(&s, id, dir.PKI(&s), psk, netip.Addr.IsLoopback); err != nil {
		return nil, err
	}
	gate := &joinGate{chips: len(t.Chips), launching: dir.IsLaunching, begin: time.Now()}
	c.seeds = func(p pool) []string {
		if !gate.open(time.Now()) {
			return nil
		}
		return folderSeeds(dir, t, id, p)
	}
	c.peer = func(p wire.PortID) (netip.AddrPort, bool) { return folderPeer(dir, p) }
	c.running = dir.WriteChip
	c.socket = dir.ChipPath(id, ".sock")
	c.gone = dir.Gone
	return c, nil
}

// A chip of a large fabric joins the gossip after the launch of the fabric's chips. Otherwise the
// running chips would spend more processor time on news of new chips than the new chips need to start.
// The chips do not all join at the same moment, because on a few cores none of them would answer in
// time.
const (
	joinsAtOnce    = 64                    // largest fabric, in chips, whose chips join at their start
	joinRest       = 8 * time.Millisecond  // in a fabric of n chips, the first chip joins n times this time after the end of the launch; meanwhile, 'up' learns that the links are up
	launchPatience = time.Minute           // longest time after its start for which a chip waits for the end of the launch
	joinPace       = 20 * time.Millisecond // average time between two chips that join; a chip of a fabric of n chips waits at most n times this time
)

// joinGate decides when a chip may join the gossip. The method "open" is safe for concurrent use,
// because each pool of the chip asks in a goroutine of its own. All pools may join from the same
// moment on.
type joinGate struct {
	chips     int         // number of chips of the fabric
	launching func() bool // reports whether chips of the fabric are still being launched
	begin     time.Time   // start of the chip

	mu    sync.Mutex
	joins time.Time // when the chip may join; zero: not known yet
}

// open reports whether the chip may join at the time now.
func (g *joinGate) open(now time.Time) bool {
	if g.chips <= joinsAtOnce {
		return true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.joins.IsZero() && (!g.launching() || now.Sub(g.begin) > launchPatience) {
		n := time.Duration(g.chips)
		g.joins = now.Add(n*joinRest + mathrand.N(n*joinPace))
	}
	return !g.joins.IsZero() && !now.Before(g.joins)
}

// folderSeeds returns gossip addresses of running chips in pool p, as CHIP/HOST:PORT. The chips are
// the first [spec.SeedChips] that run, in the order of the topology, without the chip "self".
func folderSeeds(dir folder.Dir, t *topo.Topology, self wire.FabricNodeID, p pool) (out []string) {
	for _, n := range t.Nodes() {
		if n == self || p == meshPool && n.Mesh != self.Mesh {
			continue
		}
		c, ok := dir.RunningChip(n)
		addr := c.Gossip
		if p == exitPool {
			addr = c.Exits
		}
		if ok && addr != "" {
			if out = append(out, n.String()+"/"+addr); len(out) == spec.SeedChips {
				break
			}
		}
	}
	return out
}

// folderPeer returns the address of a port of a running chip, from the chip's file in the run folder.
func folderPeer(dir folder.Dir, port wire.PortID) (to netip.AddrPort, ok bool) {
	c, ok := dir.RunningChip(port.Node)
	at, err := netip.ParseAddrPort(c.Gossip)
	if !ok || err != nil || int(port.Channel) >= len(c.Ports) || c.Ports[port.Channel] == 0 {
		return netip.AddrPort{}, false
	}
	return netip.AddrPortFrom(at.Addr(), c.Ports[port.Channel]), true
}

// Run runs a chip until ctx ends, until the chip's API or program fails, or until somebody
// removes the chip's run folder.
func Run(ctx context.Context, c *Config) error {
	log, id := c.Log, c.Chip
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	cfg, err := c.node(log)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", c.Address.API)
	if err != nil {
		return fmt.Errorf("chip %s: cannot open the chip's API at %s: %w; choose another address with --api", id, c.Address.API, err)
	}
	defer l.Close()
	self := folder.Chip{Chip: id, PID: os.Getpid(), Started: folder.StartTicks(os.Getpid()), API: l.Addr().(*net.TCPAddr).AddrPort().String()}
	cfg.API = c.told(l.Addr())
	var pools node.Membership
	cfg.Join = func(ctx context.Context, meta membership.Meta) (_ node.Membership, err error) {
		pools, err = c.join(ctx, gossip.Config{Node: id, Incarnation: cfg.Incarnation, Bind: netip.AddrPortFrom(c.Address.Listen, c.Address.Gossip), Advertise: c.Address.Advertise,
			Meta: meta, Seed: uint64(cfg.Incarnation), Logger: log, Keys: c.Keys, Member: c.member}, &self)
		return pools, err
	}
	n, err := node.Start(ctx, cfg)
	if err != nil {
		return err
	}
	archived := func() {}
	if c.Archive.Dir != "" {
		archived = admin.Collect(n, c.Archive, log)
	}
	defer func() {
		n.Close()
		archived()
	}()
	if err := c.impair(n); err != nil {
		return fmt.Errorf("chip %s: %w", id, err)
	}
	self.Gossip = n.GossipAddr().String()
	self.Ports = portsOf(n)
	srv := admin.NewServer(n, c.Token)
	srv.Describe(description{c})
	ended := make(chan error, 2)
	go func() { ended <- srv.Serve(l) }()
	defer srv.Close()
	if local := c.listen(n, srv.Barriers(), log); local != nil {
		self.Socket = c.socket
		defer local.Close()
	}
	if err := c.running(self); err != nil {
		return fmt.Errorf("chip %s cannot write its addresses into the run folder: %w", id, err)
	}
	if c.peer != nil {
		n.Meet(c.peer)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if c.Address.Interface != "" {
		go c.move(ctx, n, pools, log)
	}
	log.Info("running", "api", self.API, "gossip", self.Gossip, "pid", self.PID)
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		c.runProgram(ctx, n, log, ended)
	}()
	err = c.wait(ctx, ended, log)
	cancel()
	awaitEnd(finished, log)
	return err
}

// awaitEnd waits until the user's program has ended, but at most programTime.
func awaitEnd(finished <-chan struct{}, log *slog.Logger) {
	select {
	case <-finished:
	case <-time.After(programTime):
		log.Warn("the program has not ended in time; the process ends now", "after", programTime)
	}
}

// listen opens the chip's socket for local programs. If listen cannot open the socket, listen logs
// the error and returns nil, because local programs can use the API instead.
func (c *Config) listen(n *node.Node, barriers *barrier.Table, log *slog.Logger) *server.Server {
	if c.socket == "" {
		return nil
	}
	s, err := server.Listen(n, server.Options{Path: c.socket, Users: c.users, Topology: uint32(c.Topology.Hash()), Barriers: barriers, Log: log})
	if err != nil {
		log.Warn("local programs must use the API", "error", err)
		return nil
	}
	return s
}

func portsOf(n *node.Node) (ps folder.Ports) {
	for ch, at := range n.Addresses() {
		ps[ch] = at.Port()
	}
	return ps
}

// description is the [spec.View] of a chip's fabric. The text of the topology is made only when
// somebody asks for the description, because few chips are asked.
type description struct{ c *Config }

// MarshalJSON implements [json.Marshaler].
func (d description) MarshalJSON() ([]byte, error) {
	return json.Marshal(spec.View{Mesh: d.c.Spec, Topology: string(d.c.Topology.Encode())})
}

// programTime is the longest time to wait for a program's return when the process ends.
const programTime = 2 * time.Second

// runProgram runs the user's program. If the program returns an error before ctx ends,
// runProgram sends the error to ended.
func (c *Config) runProgram(ctx context.Context, n *node.Node, log *slog.Logger, ended chan<- error) {
	if c.Program == nil {
		return
	}
	switch err := c.Program(ctx, session.New(n)); {
	case err == nil:
		log.Info("the program has ended")
	case ctx.Err() == nil:
		ended <- fmt.Errorf("chip %s: the program failed: %w", c.Chip, err)
	}
}

// node returns the configuration that package node needs to start the chip.
func (c *Config) node(log *slog.Logger) (cfg node.Config, err error) {
	s := &c.Spec
	cfg = node.Config{Node: c.Chip, Kernels: c.Kernels, Hung: hung(log), Topology: c.Topology, Log: log, Incarnation: newIncarnation(), Listen: c.Address.Listen, PortBase: c.Address.PortBase,
		Cable: c.Ports.open, KeyLog: c.Ports.keys, Frame: s.Frame}
	if cfg.Behaviour, err = Behaviour(s); err != nil {
		return cfg, err
	}
	cfg.MemoryLimit = c.Tiles
	if cfg.HostMemory, err = s.HostBytes(); err != nil {
		return cfg, err
	}
	if err := proved(c.Topology, cfg.Route, s.Checked); err != nil {
		return cfg, fmt.Errorf("chip %s: %w", c.Chip, err)
	}
	if s.Record != "" {
		cfg.Record = &node.Recording{Dir: s.Record, Limit: int64(s.RecordMiB) << 20, Program: c.Version}
	}
	if c.Keys != nil {
		cfg.Keys = c.Keys
	}
	return cfg, nil
}

// Behaviour returns the behaviour of the chips of a fabric.
func Behaviour(s *spec.Spec) (b chip.Behaviour, err error) {
	b = chip.Behaviour{LocalFirst: s.LocalFirst, KeepUnreliable: s.KeepUnreliable, TTL: uint16(s.TTL), StrictTTL: s.StrictTTL}
	if b.Route, err = s.Route(); err != nil {
		return b, err
	}
	if b.Timeout, err = s.Timeout(); err != nil {
		return b, err
	}
	if b.Profile, err = s.LinkProfile(); err != nil {
		return b, err
	}
	b.Slots, err = s.SlotProfile()
	return b, err
}

// Impair sets the impairments that the topology and the options of a fabric declare for the ports of a chip.
func Impair(n *node.Node, s *spec.Spec) error {
	return (&Config{Chip: n.Self(), Spec: *s, Topology: n.Topology()}).impair(n)
}

// impair sets the impairments that the topology and the fabric's options declare for the
// chip's ports.
func (c *Config) impair(n *node.Node) error {
	all, err := c.Spec.Impairments(c.Topology)
	if err != nil {
		return err
	}
	for _, d := range all {
		for _, ch := range d.Where[c.Chip] {
			if err := n.SetImpairment(ch, d.Change, d.Seed, 0); err != nil {
				return fmt.Errorf("--netem %q: %w", d.Text, err)
			}
		}
	}
	return nil
}

// goneInterval is the time between two checks that a chip's run folder still exists.
const goneInterval = 5 * time.Second

// wait returns when ctx ends, when the chip's API or program fails, or when the run folder does not
// exist any more. The removal of a run folder therefore ends the chips of the fabric.
func (c *Config) wait(ctx context.Context, ended <-chan error, log *slog.Logger) error {
	tick := time.NewTicker(goneInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			log.Info("stopping")
			return nil
		case err := <-ended:
			return err
		case <-tick.C:
			if c.gone() {
				log.Info("the run folder does not exist any more; stopping")
				return nil
			}
		}
	}
}

// join starts the chip's gossip in the pool of the chip's mesh. If the chip is an exit
// node, join also starts gossip in the pool of the exit nodes, and sets self.Exits.
func (c *Config) join(ctx context.Context, cfg gossip.Config, self *folder.Chip) (node.Membership, error) {
	id := cfg.Node
	m, _ := c.Topology.Mesh(id.Mesh)
	mesh := cfg
	mesh.Label, mesh.Expect = fmt.Sprintf("%s/mesh%d", c.Spec.ID, id.Mesh), m.Rows*m.Cols
	mesh.Seeds = func() []string { return c.seeds(meshPool) }
	pool, err := gossip.Start(ctx, mesh)
	if err != nil || !c.Topology.ExitNode(id) {
		return pool, err
	}
	exits := cfg
	exits.Label = c.Spec.ID + "/exits"
	for _, n := range c.Topology.Nodes() {
		if c.Topology.ExitNode(n) {
			exits.Expect++
		}
	}
	if c.Address.Gossip != 0 {
		exits.Bind = netip.AddrPortFrom(c.Address.Listen, c.Address.Gossip+1)
	}
	exits.Seeds = func() []string { return c.seeds(exitPool) }
	other, err := gossip.Start(ctx, exits)
	if err != nil {
		pool.Close(0)
		return nil, err
	}
	self.Exits = other.Addr().String()
	return gossip.Join(pool, other), nil
}

// member reports whether a chip belongs to the fabric.
func (c *Config) member(n wire.FabricNodeID) bool {
	_, ok := c.Topology.Chip(n)
	return ok
}

// told returns the port of the chip's API that the chip tells other chips. The parameter a
// is the address on which the API listens. If other chips cannot reach the API at this
// address, told returns 0.
func (c *Config) told(a net.Addr) uint16 {
	at := a.(*net.TCPAddr).AddrPort()
	reached := c.Address.Listen
	if c.Address.Advertise.IsValid() {
		reached = c.Address.Advertise
	}
	if ip := at.Addr().Unmap(); ip.IsUnspecified() || ip == reached || ip == c.Address.Listen {
		return at.Port()
	}
	return 0
}

// newIncarnation returns a random incarnation that is not zero.
func newIncarnation() wire.Incarnation {
	var b [8]byte
	for {
		rand.Read(b[:])
		if i := wire.Incarnation(binary.LittleEndian.Uint64(b[:])); i != 0 {
			return i
		}
	}
}
