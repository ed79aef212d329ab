package main

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ttfabric/node"
	"ttfabric/router"
	"ttfabric/router/route"
	"ttfabric/router/topo"
)

// routeFlags say how a machine is routed.
type routeFlags struct {
	order, ring, engine, fabric string
	unsafe                      bool
}

func (f *routeFlags) add(c *cobra.Command) {
	var engines []string
	for _, e := range route.Engines {
		engines = append(engines, e.Name+" ("+e.Help+")")
	}
	fl := c.Flags()
	fl.StringVar(&f.order, "order", "xy", "route order: xy (specification), yx (tt-metal), none (every turn to the right, which can deadlock)")
	fl.StringVar(&f.ring, "ring", "dateline", "what keeps rings and tori free of deadlock: dateline (specification), bubble (tt-metal), none")
	fl.StringVar(&f.engine, "engine", route.Engines[0].Name, "routing engine: "+strings.Join(engines, ", "))
	fl.StringVar(&f.fabric, "fabric", "2d", "2d, or 1d: rows and columns are lines, or rings, of their own")
	fl.BoolVar(&f.unsafe, "allow-deadlock", false, "take routes that can deadlock, to see it happen")
}

// config is what the flags say; the error names the bad one.
func (f *routeFlags) config() (route.Config, error) {
	cfg := route.Config{Engine: f.engine}
	var err error
	if cfg.Order, err = route.ParseOrder(f.order); err != nil {
		return cfg, coded(exitUsage, "--order: %w", err)
	}
	if cfg.Ring, err = route.ParseRing(f.ring); err != nil {
		return cfg, coded(exitUsage, "--ring: %w", err)
	}
	switch f.fabric {
	case "1d":
		cfg.Lines = true
	case "2d":
	default:
		return cfg, coded(exitUsage, "--fabric %q: want 1d or 2d", f.fabric)
	}
	return cfg, nil
}

// prove plans the routes of a machine and finds that they cannot deadlock. It returns their hash.
func (f *routeFlags) prove(t *topo.Topology) (uint32, error) {
	cfg, err := f.config()
	if err != nil {
		return 0, err
	}
	p, err := route.New(t, cfg)
	if err != nil {
		return 0, coded(exitTopology, "%w", err)
	}
	if f.unsafe {
		return p.Hash(), nil
	}
	if v := p.Check(p.Multicasts()); !v.Sound() {
		return 0, coded(exitTopology, "the routes of %s are refused, as they %s; take them anyway with --allow-deadlock", t.Name, &v)
	}
	return p.Hash(), nil
}

// proved finds that a chip's routes are those that were proved, or proves them.
func proved(t *topo.Topology, cfg route.Config, hash uint32) error {
	p, err := route.New(t, cfg)
	if err != nil {
		return err
	}
	if p.Hash() == hash {
		return nil
	}
	if v := p.Check(p.Multicasts()); !v.Sound() {
		return fmt.Errorf("routes %08x are refused, as they %s", p.Hash(), &v)
	}
	return nil
}

// configure gives a chip's configuration what the fabric was started with.
func (m *meshFile) configure(cfg *node.Config) error {
	f := routeFlags{order: m.Order, ring: m.Ring, engine: m.Engine, fabric: m.Fabric}
	var err error
	if cfg.Route, err = f.config(); err != nil {
		return err
	}
	if cfg.Timeout, err = router.ParseTimeout(m.Stuck); err != nil {
		return coded(exitUsage, "--stuck %w", err)
	}
	cfg.Timeout.After = time.Duration(m.StuckMS) * time.Millisecond
	if m.StuckMS < 0 {
		return coded(exitUsage, "--stuck-after %v: want 0 or more", cfg.Timeout.After)
	}
	if m.TTL < 0 || m.TTL > math.MaxUint16 {
		return coded(exitUsage, "--ttl %d: want 0 to %d", m.TTL, math.MaxUint16)
	}
	cfg.LocalFirst, cfg.TTL = m.Local, uint16(m.TTL)
	return nil
}

func slotNames() string {
	var names []string
	for _, p := range router.SlotProfiles {
		names = append(names, p.Name)
	}
	return strings.Join(names, ", ")
}
