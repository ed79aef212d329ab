// Package still makes one picture of a fabric as a file: the state of a running fabric, and routes.
package still

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"ttfabric/node/fabric"
	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/picture"
	"ttfabric/node/fabric/picture/live"
	"ttfabric/node/fabric/spec"
	"ttfabric/router/topo"
	"ttfabric/router/topo/draw"
	"ttfabric/wire"
)

// MaxRoutes is the largest number of routes in one picture. The legend has a line for each route.
const MaxRoutes = 8

// patience is the longest time to wait for two states of the fabric. The chips are asked once a second.
const patience = 15 * time.Second

// way is a route that a caller wants to see.
type way struct {
	src, dst string
	plane    int
	all      bool // the tree of a multicast, see picture.Machine.Tree
}

// parse reads a route such as M0D0-M0D7, or M0D0-M0D7,plane=1,multicast.
func parse(text string) (w way, err error) {
	parts := strings.Split(text, ",")
	var ok bool
	if w.src, w.dst, ok = strings.Cut(parts[0], "-"); !ok {
		return w, spec.Usagef("route %q: want two chips and perhaps a plane, such as M0D0-M0D7 or M0D0-M0D7,plane=1", text)
	}
	for _, x := range parts[1:] {
		value, found := strings.CutPrefix(x, "plane=")
		switch {
		case found:
			w.plane, err = strconv.Atoi(value)
		case x == "multicast":
			w.all = true
		}
		if err != nil || !found && x != "multicast" {
			return w, spec.Usagef("route %q: after the chips, want plane=N or multicast", text)
		}
	}
	return w, nil
}

// ways reads the routes that a caller wants to see.
func ways(texts []string) (out []way, err error) {
	if len(texts) > MaxRoutes {
		return nil, spec.Usagef("%d routes: a picture shows at most %d", len(texts), MaxRoutes)
	}
	for _, text := range texts {
		w, err := parse(text)
		if err != nil {
			return nil, err
		}
		out = append(out, w)
	}
	return out, nil
}

// Wanted says what a picture shows.
type Wanted struct {
	Form   draw.Form
	Source string     // file or name of a topology, which need not run; "": the running fabric
	By     picture.By // meaning of the cables' colours, for a running fabric
	Routes []string   // routes such as M0D0-M0D7 or M0D0-M0D7,plane=1,multicast, at most [MaxRoutes]
	Open   func() (*fabric.Fabric, error)
}

// Draw draws a topology, or the state of a running fabric. Draw returns the name of the topology and the
// picture.
func Draw(ctx context.Context, w Wanted) (name string, text []byte, err error) {
	wanted, err := ways(w.Routes)
	if err != nil {
		return "", nil, err
	}
	if w.By != picture.ByState && w.By != picture.ByLoad {
		return "", nil, spec.Usagef("--by %q: want %s or %s", w.By, picture.ByState, picture.ByLoad)
	}
	marked := w.Form.Name == "svg"
	if len(wanted) > 0 && !marked {
		return "", nil, spec.Usagef("--route needs the format svg; the format %s has no routes", w.Form.Name)
	}
	var t *topo.Topology
	if w.Source != "" {
		if t, err = folder.LoadTopology(ctx, w.Source); err != nil {
			return "", nil, err
		}
	} else {
		f, err := w.Open()
		if err != nil {
			return "", nil, err
		}
		t = f.Topology
	}
	if len(t.Chips) > draw.MaxChips {
		return "", nil, spec.Usagef("%s has %d chips, but the command draws at most %d chips; 'ttfabric validate' prints figures of a large topology", t.Name, len(t.Chips), draw.MaxChips)
	}
	var m *draw.Marks
	switch {
	case !marked || w.Source != "" && len(wanted) == 0:
		return t.Name, w.Form.Draw(t), nil
	case w.Source != "":
		m, err = planned(t, wanted)
	default:
		m, err = present(ctx, w, wanted)
	}
	if err != nil {
		return "", nil, err
	}
	return t.Name, draw.SVG(t, m), nil
}

// planned returns marks for routes in a topology. The chips need not run.
func planned(t *topo.Topology, wanted []way) (*draw.Marks, error) {
	defaults := spec.Default()
	p, err := defaults.Plan(t)
	if err != nil {
		return nil, err
	}
	m := picture.NewMachine("", t)
	var rs []picture.Route
	for _, w := range wanted {
		src, err := chip(t, w.src)
		if err != nil {
			return nil, err
		}
		dst, err := chip(t, w.dst)
		if err != nil {
			return nil, err
		}
		plane, err := spec.Plane(t, w.plane)
		if err != nil {
			return nil, err
		}
		if w.all {
			rs = append(rs, m.Tree(p, src, dst, plane))
		} else {
			rs = append(rs, m.Route(p, src, dst, plane))
		}
	}
	return m.Planned(rs), nil
}

func chip(t *topo.Topology, name string) (n wire.FabricNodeID, err error) {
	if n, err = wire.ParseFabricNodeID(name); err != nil {
		return n, spec.AsUsage(err)
	}
	if _, ok := t.Chip(n); !ok {
		return n, spec.Usagef("chip %s is not in topology %s", n, t.Name)
	}
	return n, nil
}

// present returns marks for the state of the running fabric, and for the wanted routes. To know the loads,
// present asks the chips twice, a second apart.
func present(ctx context.Context, w Wanted, wanted []way) (*draw.Marks, error) {
	c, err := live.New(w.Open)
	if err != nil {
		return nil, err
	}
	s, err := second(ctx, c)
	if err != nil {
		return nil, err
	}
	var rs []picture.Route
	for _, w := range wanted {
		r, err := c.Route(w.src, w.dst, w.plane, w.all)
		if err != nil {
			return nil, err
		}
		rs = append(rs, r)
	}
	return c.Machine().Marks(s, w.By, rs), nil
}

// second runs a collector until its second state, and returns this state.
func second(ctx context.Context, c *live.Collector) (*picture.State, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errors.New("the fabric gave no state within "+patience.String()))
	updates, leave, err := c.Subscribe()
	if err != nil {
		cancel()
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx, func(string, ...any) {}) }()
	defer func() {
		leave()
		cancel()
		<-ended
	}()
	for states := 0; ; {
		select {
		case u, open := <-updates:
			if !open {
				return nil, errors.New("the fabric has more events than the command can read")
			}
			if u.State == nil {
				continue
			}
			if states++; states == 2 {
				return u.State, nil
			}
		case err := <-ended:
			ended <- err
			if err == nil {
				err = context.Cause(ctx)
			}
			return nil, err
		}
	}
}
