package main

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ttfabric/membership"
	"ttfabric/membership/gossip"
	"ttfabric/node"
	"ttfabric/node/admin"
	"ttfabric/router"
	"ttfabric/router/topo"
	"ttfabric/ttlink"
	"ttfabric/wire"
)

// seedChips is the number of chips, by order, that others join the pool through.
const seedChips = 8

// channelStride is the distance between two chips' UDP port ranges with --port-base: one port per ethernet channel.
const channelStride = wire.MaxChannels

// nodeLong is the help of 'node'.
const nodeLong = `node runs one chip until it is told to stop: one of the fabric whose run folder
is given, as 'ttfabric up' starts them, or one that knows nothing but its
topology and where some of the others are, on a machine or in a container of
its own. The chips of a fabric have their --name, topology and gossip key in
common.

The ports of one that stands alone are fixed by --gossip-port, TCP and UDP,
with the next one for chips that have a cable to another mesh, and by
--port-base: channel k of the chip is at the k-th UDP port from there. A seed is
a host where another chip gossips; a name is looked up at each attempt, and
may have many addresses. A chip of another mesh is a seed for exit nodes only,
and is best named with its chip, as M1D0/HOST.

Containers share no file: without --topology, the environment variable
TTFABRIC_TOPOLOGY_TEXT may hold the text of a topology file. What such a file says
of transport and auth is what the flags say, where these are left out; its auth: none, too, is refused beyond loopback.

Prometheus finds counters and gauges of the chip, its links, router and sockets at
GET /metrics of the API. As all calls but /livez and /readyz it wants the
bearer token, which is in the file "token" of the run folder:

  scrape_configs:
  - job_name: ttfabric
    authorization: {credentials_file: /run/user/1000/ttfabric/default/token}
    static_configs: [{targets: ["10.0.1.1:8474"]}]

A chip's work is done by one thread at a time; the environment variable
GOMAXPROCS gives it more. Its threads wait for their turn instead of interrupting
others (SCHED_BATCH), unless the process was given another policy with chrt(1).`

func newNode() *cobra.Command {
	var chip, dir, level string
	var f aloneFlags
	c := &cobra.Command{
		Use: "node", Short: "Run one chip in this process (what 'up' starts)", Args: cobra.NoArgs,
		Long: nodeLong,
		Example: `  ttfabric node --dir $XDG_RUNTIME_DIR/ttfabric/default --chip M0D3
  ttfabric node --chip M0D3 --topology t3000 --listen eth0 --seeds chip0,chip1 --api 0.0.0.0:8474
  ttfabric node --chip M0D1 --topology ring:4 --gossip-port 7950 --port-base 17016 --seeds 10.0.0.1:7946,10.0.1.1`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if chip == "" {
				return coded(exitUsage, "name the chip with --chip, such as --chip M0D3")
			}
			id, err := wire.ParseFabricNodeID(chip)
			if err != nil {
				return coded(exitUsage, "%w", err)
			}
			var l slog.Level
			if err := l.UnmarshalText([]byte(level)); err != nil {
				return coded(exitUsage, "--log-level %q: want debug, info, warn or error", level)
			}
			node.ConfigureProcess()
			if err := nodeFlags(cmd.Flags()); err != nil {
				return err
			}
			var s *site
			if dir != "" {
				if s, err = runDir(dir).site(id); err == nil {
					s.mesh.Record, s.mesh.RecordLimit = f.record.or(s.mesh).dir, f.record.or(s.mesh).limit
				}
			} else {
				name, _ := cmd.Flags().GetString("name")
				s, err = f.site(cmd, name, id)
			}
			if err != nil {
				return fmt.Errorf("chip %s: %w", id, err)
			}
			return s.run(cmd.Context(), id, slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: l})).With("chip", id.String()))
		},
	}
	fl := c.Flags()
	fl.StringVar(&chip, "chip", "", "the chip, as M<mesh>D<chip>")
	fl.StringVar(&dir, "dir", "", "run folder of the fabric; all other flags but --log-level and --record are in it")
	fl.StringVar(&level, "log-level", "info", "debug, info, warn or error")
	f.add(c)
	return c
}

// nodeFlags refuses what a run folder says already, and a chip of which nothing says what it is part of.
func nodeFlags(fl *pflag.FlagSet) (err error) {
	if !fl.Changed("dir") {
		if !fl.Changed("topology") && os.Getenv(topologyEnv) == "" {
			return coded(exitUsage, "name the fabric that the chip is part of: its run folder with --dir, or --topology and --seeds; see 'ttfabric node --help'")
		}
		return nil
	}
	inFolder := []string{"dir", "chip", "log-level", "record", "record-limit", "name", "output"}
	fl.Visit(func(x *pflag.Flag) {
		if !slices.Contains(inFolder, x.Name) {
			err = coded(exitUsage, "--%s: the run folder that --dir names has it; leave it out", x.Name)
		}
	})
	return err
}

// run runs a chip until it is told to stop, its API fails, or it has nothing to run for.
func (s *site) run(ctx context.Context, id wire.FabricNodeID, log *slog.Logger) error {
	m := &s.mesh
	cfg := node.Config{Node: id, Topology: s.t, Log: log, Incarnation: newIncarnation(), Listen: s.listen, PortBase: s.portBase, MemoryLimit: s.tiles, Cable: s.links.open, KeyLog: s.links.keys}
	if err := m.configure(&cfg); err != nil {
		return err
	}
	if err := proved(s.t, cfg.Route, m.Checked); err != nil {
		return fmt.Errorf("chip %s: %w", id, err)
	}
	cfg.Record = recordFlags{m.Record, m.RecordLimit}.config()
	var err error
	if cfg.Profile, err = profileByName(m.Profile); err != nil {
		return err
	}
	if cfg.Slots, err = slotsByName(m.Slots); err != nil {
		return err
	}
	if s.keys != nil {
		cfg.Keys = s.keys
	}
	l, err := net.Listen("tcp", s.api)
	if err != nil {
		return fmt.Errorf("chip %s: cannot open its API on %s: %w", id, s.api, err)
	}
	defer l.Close()
	self := chipFile{Chip: id, PID: os.Getpid(), Started: startTicks(os.Getpid()), API: l.Addr().(*net.TCPAddr).AddrPort().String()}
	cfg.API = s.told(l.Addr())
	var pools node.Membership
	cfg.Join = func(ctx context.Context, meta membership.Meta) (_ node.Membership, err error) {
		pools, err = s.join(ctx, gossip.Config{Node: id, Incarnation: cfg.Incarnation, Bind: netip.AddrPortFrom(s.listen, s.gossip), Advertise: s.advertise,
			Meta: meta, Seed: uint64(cfg.Incarnation), Logger: log, Keys: s.keys}, &self)
		return pools, err
	}
	n, err := node.Start(ctx, cfg)
	if err != nil {
		return err
	}
	archived := func() {}
	if s.archive.Dir != "" {
		archived = admin.Collect(n, s.archive, log)
	}
	defer func() {
		n.Close()
		archived()
	}()
	if err := m.impairDeclared(n); err != nil {
		return fmt.Errorf("chip %s: %w", id, err)
	}
	self.Gossip = n.GossipAddr().String()
	srv := admin.NewServer(n, s.token)
	srv.Describe(fabricView{*m, string(s.t.Encode())})
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	defer srv.Close()
	if err := s.running(self); err != nil {
		return fmt.Errorf("chip %s cannot tell where it is: %w", id, err)
	}
	if s.iface != "" {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		go s.move(ctx, n, pools, log)
	}
	log.Info("running", "api", self.API, "gossip", self.Gossip, "pid", self.PID)
	return s.wait(ctx, served, log)
}

// wait returns when the process is told to stop, its API fails, or its
// run folder is gone: a fabric that was removed leaves no process behind.
func (s *site) wait(ctx context.Context, served <-chan error, log *slog.Logger) error {
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			log.Info("stopping")
			return nil
		case err := <-served:
			return err
		case <-tick.C:
			if s.gone() {
				log.Info("the run folder is gone; stopping")
				return nil
			}
		}
	}
}

// join enters the pool of the chip's mesh and, if it has a cable to another mesh, that of the exit nodes.
func (s *site) join(ctx context.Context, cfg gossip.Config, self *chipFile) (node.Membership, error) {
	id := cfg.Node
	m, _ := s.t.Mesh(id.Mesh)
	mesh := cfg
	mesh.Label, mesh.Expect = fmt.Sprintf("%s/mesh%d", s.mesh.ID, id.Mesh), m.Rows*m.Cols
	mesh.Seeds = func() []string { return s.seeds(meshPool) }
	pool, err := gossip.Start(ctx, mesh)
	if err != nil || !exitNode(s.t, id) {
		return pool, err
	}
	exits := cfg
	exits.Label = s.mesh.ID + "/exits"
	for _, c := range s.t.Chips {
		if exitNode(s.t, c.Node) {
			exits.Expect++
		}
	}
	if s.gossip != 0 {
		exits.Bind = netip.AddrPortFrom(s.listen, s.gossip+1)
	}
	exits.Seeds = func() []string { return s.seeds(exitPool) }
	other, err := gossip.Start(ctx, exits)
	if err != nil {
		pool.Close(0)
		return nil, err
	}
	self.Exits = other.Addr().String()
	return gossip.Join(pool, other), nil
}

// exitNode reports whether a chip has a cable to another mesh (Spec §2.2.1).
func exitNode(t *topo.Topology, n wire.FabricNodeID) bool {
	for _, p := range t.Ports(n) {
		if p.Peer.Node.Mesh != n.Mesh {
			return true
		}
	}
	return false
}

// seeds are the addresses of the first running chips that have one of the kind.
func seeds(dir runDir, addr func(chipFile) string) []string {
	var out []string
	for _, c := range dir.chips() {
		if a := addr(c); a != "" && len(out) < seedChips {
			out = append(out, c.Chip.String()+"/"+a)
		}
	}
	return out
}

// newIncarnation draws a random one that is not zero.
func newIncarnation() wire.Incarnation {
	var b [8]byte
	for {
		rand.Read(b[:])
		if i := wire.Incarnation(binary.LittleEndian.Uint64(b[:])); i != 0 {
			return i
		}
	}
}

func profileByName(s string) (ttlink.Profile, error) {
	for _, p := range []ttlink.Profile{ttlink.ProfileLAN, ttlink.ProfileCrowded, ttlink.ProfilePaced} {
		if p.Name == s {
			return p, nil
		}
	}
	return ttlink.Profile{}, coded(exitUsage, "--profile %q: want lan, crowded or paced", s)
}

func slotsByName(s string) (router.SlotProfile, error) {
	for _, p := range router.SlotProfiles {
		if p.Name == s {
			return p, nil
		}
	}
	return router.SlotProfile{}, coded(exitUsage, "--slots %q: want one of %s", s, slotNames())
}
