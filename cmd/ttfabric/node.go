package main

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"ttfabric/membership"
	"ttfabric/membership/gossip"
	"ttfabric/node"
	"ttfabric/node/admin"
	"ttfabric/router"
	"ttfabric/router/topo"
	"ttfabric/ttlink"
	"ttfabric/ttlink/transport"
	"ttfabric/wire"
)

// seedChips is the number of chips, by order, that others join the pool through.
const seedChips = 8

// channelStride is the distance between two chips' UDP port ranges with --port-base: one port per ethernet channel.
const channelStride = wire.MaxChannels

func newNode() *cobra.Command {
	var chip, dir, level string
	var rec recordFlags
	c := &cobra.Command{
		Use: "node", Short: "Run one chip in this process (what 'up' starts)", Args: cobra.NoArgs,
		Long: `node runs one chip of the fabric whose run folder is given, until it is
told to stop. 'ttfabric up' starts one per chip. A chip's work is done by one
thread at a time; the environment variable GOMAXPROCS gives it more.`,
		Example: "  ttfabric node --dir $XDG_RUNTIME_DIR/ttfabric/default --chip M0D3",
		RunE: func(cmd *cobra.Command, _ []string) error {
			n, err := wire.ParseFabricNodeID(chip)
			if err != nil {
				return coded(exitUsage, "%w", err)
			}
			var l slog.Level
			if err := l.UnmarshalText([]byte(level)); err != nil {
				return coded(exitUsage, "--log-level %q: want debug, info, warn or error", level)
			}
			// A chip has one lock, so a second processor of the Go runtime only adds
			// wake-ups on other cores; T3000 all-to-all is half as fast again with one.
			if os.Getenv("GOMAXPROCS") == "" {
				runtime.GOMAXPROCS(1)
			}
			log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: l})).With("chip", n.String())
			return runNode(cmd.Context(), runDir(dir), n, rec, log)
		},
	}
	c.Flags().StringVar(&chip, "chip", "", "the chip, as M<mesh>D<chip>")
	c.Flags().StringVar(&dir, "dir", "", "run folder of the fabric")
	c.Flags().StringVar(&level, "log-level", "info", "debug, info, warn or error")
	rec.add(c)
	c.MarkFlagRequired("chip")
	c.MarkFlagRequired("dir")
	return c
}

func runNode(ctx context.Context, dir runDir, id wire.FabricNodeID, rec recordFlags, log *slog.Logger) error {
	m, t, token, err := dir.mesh()
	if err != nil {
		return err
	}
	cfg := node.Config{Node: id, Topology: t, Log: log, Incarnation: newIncarnation(), Port: func(a netip.AddrPort) (transport.Port, error) {
		return transport.Listen(transport.Options{Local: a})
	}}
	if err := m.configure(&cfg); err != nil {
		return err
	}
	if err := proved(t, cfg.Route, m.Checked); err != nil {
		return fmt.Errorf("chip %s: %w", id, err)
	}
	cfg.Record = rec.or(m).config()
	if cfg.Profile, err = profileByName(m.Profile); err != nil {
		return err
	}
	if cfg.Slots, err = slotsByName(m.Slots); err != nil {
		return err
	}
	if m.PortBase != 0 {
		cfg.PortBase = uint16(m.PortBase + chipIndex(t.Chips, id)*channelStride)
	}
	var keys *gossip.Keys
	if m.Keyed {
		if keys, err = dir.keyring(); err != nil {
			return fmt.Errorf("chip %s: %w", id, err)
		}
		cfg.Keys = keys
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("chip %s: cannot open its API on 127.0.0.1: %w", id, err)
	}
	defer l.Close()
	api := l.Addr().(*net.TCPAddr).AddrPort()
	self := chipFile{Chip: id, PID: os.Getpid(), Started: startTicks(os.Getpid()), API: api.String()}
	cfg.Join = func(ctx context.Context, meta membership.Meta) (node.Membership, error) {
		return joinPools(ctx, dir, t, m.ID, gossip.Config{Node: id, Incarnation: cfg.Incarnation, Bind: netip.MustParseAddrPort("127.0.0.1:0"),
			Meta: meta, Seed: uint64(cfg.Incarnation), Logger: log, Keys: keys}, &self)
	}
	n, err := node.Start(ctx, cfg)
	if err != nil {
		return err
	}
	archived := admin.Collect(n, m.archive(dir, id), log)
	defer func() {
		n.Close()
		archived()
	}()
	if err := m.impairDeclared(n); err != nil {
		return fmt.Errorf("chip %s: %w", id, err)
	}
	self.Gossip = n.GossipAddr().String()
	srv := admin.NewServer(n, token)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	defer srv.Close()
	b, err := json.Marshal(self)
	if err == nil {
		err = writeFile(dir.chipPath(id, ".json"), b)
	}
	if err != nil {
		return fmt.Errorf("chip %s cannot tell where it is: %w", id, err)
	}
	log.Info("running", "api", self.API, "gossip", self.Gossip, "pid", self.PID)
	return waitNode(ctx, dir, served, log)
}

// waitNode returns when the process is told to stop, its API fails, or its
// run folder is gone: a fabric that was removed leaves no process behind.
func waitNode(ctx context.Context, dir runDir, served <-chan error, log *slog.Logger) error {
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
			if _, err := os.Stat(dir.path("mesh.json")); os.IsNotExist(err) {
				log.Info("the run folder is gone; stopping")
				return nil
			}
		}
	}
}

// joinPools enters the pool of the chip's mesh and, if it has a cable to another mesh, that of the exit nodes.
func joinPools(ctx context.Context, dir runDir, t *topo.Topology, fabric string, cfg gossip.Config, self *chipFile) (node.Membership, error) {
	id := cfg.Node
	m, _ := t.Mesh(id.Mesh)
	mesh := cfg
	mesh.Label, mesh.Expect = fmt.Sprintf("%s/mesh%d", fabric, id.Mesh), m.Rows*m.Cols
	mesh.Seeds = func() []string {
		return seeds(dir, func(c chipFile) string {
			if c.Chip == id || c.Chip.Mesh != id.Mesh {
				return ""
			}
			return c.Gossip
		})
	}
	pool, err := gossip.Start(ctx, mesh)
	if err != nil || !exitNode(t, id) {
		return pool, err
	}
	exits := cfg
	exits.Label = fabric + "/exits"
	for _, c := range t.Chips {
		if exitNode(t, c.Node) {
			exits.Expect++
		}
	}
	exits.Seeds = func() []string {
		return seeds(dir, func(c chipFile) string {
			if c.Chip == id {
				return ""
			}
			return c.Exits
		})
	}
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
	for _, p := range []ttlink.Profile{ttlink.ProfileLAN, ttlink.ProfileCrowded} {
		if p.Name == s {
			return p, nil
		}
	}
	return ttlink.Profile{}, coded(exitUsage, "--profile %q: want lan or crowded", s)
}

func slotsByName(s string) (router.SlotProfile, error) {
	for _, p := range router.SlotProfiles {
		if p.Name == s {
			return p, nil
		}
	}
	return router.SlotProfile{}, coded(exitUsage, "--slots %q: want one of %s", s, slotNames())
}
