package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"ttfabric/node"
	"ttfabric/node/admin"
	"ttfabric/node/session"
	"ttfabric/router/route"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// planOf is how the running fabric is routed, or how the named machine would be.
func planOf(c *cobra.Command, machine string, f *routeFlags) (*route.Plan, error) {
	if machine != "" {
		t, err := loadTopology(c.Context(), machine)
		if err != nil {
			return nil, err
		}
		cfg, err := f.config()
		if err != nil {
			return nil, err
		}
		p, err := route.New(t, cfg)
		if err != nil {
			return nil, coded(exitTopology, "%w", err)
		}
		return p, nil
	}
	for _, name := range []string{"order", "ring", "engine", "fabric", "allow-deadlock"} {
		if c.Flags().Changed(name) {
			return nil, coded(exitUsage, "--%s goes with --topology; the routes of a running fabric are settled", name)
		}
	}
	dir, err := dirOf(c)
	if err != nil {
		return nil, err
	}
	m, t, _, err := dir.mesh()
	if err != nil {
		return nil, err
	}
	var cfg node.Config
	if err := m.configure(&cfg); err != nil {
		return nil, err
	}
	p, err := route.New(t, cfg.Route)
	if err != nil {
		return nil, err
	}
	out, err := outOfService(c.Context(), dir, t)
	return p.Around(out), err
}

// outOfService are the cables that the running chips do without, by an end of
// each. They may disagree for a moment after a fault: then it is any of them that has heard of one.
func outOfService(ctx context.Context, dir runDir, t *topo.Topology) ([]wire.PortID, error) {
	cs, _, _, err := dir.clients()
	if err != nil {
		return nil, err
	}
	views, _ := ask(ctx, cs)
	var out []wire.PortID
	for _, v := range views {
		links, err := parseLinks(t, v.OutOfService)
		if err != nil {
			return nil, err
		}
		for _, l := range links {
			out = append(out, l.a)
		}
	}
	return out, nil
}

// l0Row is the source routes of one chip, as the specification prints them.
type l0Row struct {
	Src    wire.FabricNodeID   `json:"src"`
	Dst    []wire.FabricNodeID `json:"dst"`
	Routes []string            `json:"routes"` // "-" to itself, "x" where there is no way
}

// l1Row is the exit nodes of one chip.
type l1Row struct {
	Src   wire.FabricNodeID `json:"src"`
	To    []wire.MeshID     `json:"to"`
	Exits []string          `json:"exits"` // chip in the own mesh; "-" for the own mesh, "x" where there is no way
	Ports []string          `json:"ports"` // direction out of the exit node, "up" or "down" the tree of meshes
}

func newRoutes() *cobra.Command {
	var f routeFlags
	var machine, class string
	var plane, mesh int
	c := &cobra.Command{Use: "routes [CHIP]", Short: "Print the routing tables, L0 and L1", Args: cobra.MaximumNArgs(1),
		Long: `routes prints the routing tables as TT-Fabric's specification prints them: L0,
the source route from each chip of a mesh to each other (§2.2.1.1), and, where
there are several meshes, L1, the exit node on the way to each other mesh
(§2.2.1.2). With CHIP, those of one chip. They are the running fabric's, or with
--topology those that a machine would have.

Requests take the tables of --class request; what answers them takes the other
order of dimensions, and control messages avoid cables that wrap.`,
		Example: "  ttfabric routes\n  ttfabric routes M0D3\n  ttfabric routes --topology spec-l1\n  ttfabric routes --topology torus:4x4 --order yx -o json",
		RunE: func(c *cobra.Command, args []string) error {
			format, err := format(c)
			if err != nil {
				return err
			}
			p, err := planOf(c, machine, &f)
			if err != nil {
				return err
			}
			i := slices.Index([]string{"request", "reply", "control"}, class)
			if i < 0 {
				return coded(exitUsage, "--class %q: want request, reply or control", class)
			}
			if plane < 0 || plane >= max(p.Topology().Planes(), 1) {
				return coded(exitUsage, "--plane %d: %s", plane, p.Topology())
			}
			chips, err := routeChips(p.Topology(), args, mesh)
			if err != nil {
				return err
			}
			l0, l1 := routeTables(p, wire.Class(i), wire.Plane(plane), chips)
			if format == "json" {
				return printJSON(c, map[string]any{"epoch": fmt.Sprintf("%08x", p.Hash()), "l0": l0, "l1": l1})
			}
			printRoutes(c, p, l0, l1)
			return nil
		}}
	f.add(c)
	c.Flags().Lookup("allow-deadlock").Hidden = true
	c.Flags().StringVarP(&machine, "topology", "t", "", "a machine that need not run: a file or a name")
	c.Flags().IntVar(&plane, "plane", 0, "routing plane")
	c.Flags().IntVar(&mesh, "mesh", -1, "only the chips of this mesh (default: the first, or CHIP's)")
	c.Flags().StringVar(&class, "class", "request", "class of packets: request, reply, control")
	c.RegisterFlagCompletionFunc("topology", completeTopology)
	return c
}

// routeChips are the chips whose tables are asked for.
func routeChips(t *topo.Topology, args []string, mesh int) (chips []wire.FabricNodeID, err error) {
	if len(args) == 1 {
		n, err := wire.ParseFabricNodeID(args[0])
		if err != nil {
			return nil, coded(exitUsage, "%w", err)
		}
		if _, ok := t.Chip(n); !ok {
			return nil, coded(exitUsage, "chip %s is not in %s", n, t)
		}
		return []wire.FabricNodeID{n}, nil
	}
	if mesh < 0 {
		mesh = int(t.Meshes[0].ID)
	}
	for _, c := range t.Chips {
		if int(c.Node.Mesh) == mesh {
			chips = append(chips, c.Node)
		}
	}
	if len(chips) == 0 {
		return nil, coded(exitUsage, "--mesh %d: %s", mesh, t)
	}
	return chips, nil
}

func routeTables(p *route.Plan, class wire.Class, plane wire.Plane, chips []wire.FabricNodeID) (l0 []l0Row, l1 []l1Row) {
	t := p.Topology()
	for _, src := range chips {
		r := l0Row{Src: src}
		m, _ := t.Mesh(src.Mesh)
		for k := range m.Rows * m.Cols {
			dst := wire.FabricNodeID{Mesh: src.Mesh, Chip: wire.ChipID(k)}
			leg, ok := p.Leg(nil, class, plane, src, dst)
			s := "x"
			if src == dst {
				s = "-"
			} else if ok {
				s = directions(leg)
			}
			r.Dst, r.Routes = append(r.Dst, dst), append(r.Routes, s)
		}
		l0 = append(l0, r)
		if len(t.Meshes) == 1 {
			continue
		}
		e := l1Row{Src: src}
		for _, to := range t.Meshes {
			exit, port := "x", ""
			if to.ID == src.Mesh {
				exit = "-"
			} else if x, up, ok := p.Exit(class, plane, src, to.ID); ok {
				exit, port = fmt.Sprint(x.Local.Node.Chip), x.Dir.String()+map[bool]string{true: " up", false: " down"}[up]
			}
			e.To, e.Exits, e.Ports = append(e.To, to.ID), append(e.Exits, exit), append(e.Ports, port)
		}
		l1 = append(l1, e)
	}
	return l0, l1
}

func directions(ds []wire.Direction) string {
	var b strings.Builder
	for _, d := range ds {
		b.WriteString(d.String())
	}
	return b.String()
}

func printRoutes(c *cobra.Command, p *route.Plan, l0 []l0Row, l1 []l1Row) {
	head := []any{"Src\\Dst"}
	for _, d := range l0[0].Dst {
		head = append(head, d.Chip)
	}
	fmt.Fprintf(c.OutOrStdout(), "L0, mesh %d\n", l0[0].Src.Mesh)
	tw := newTable(c, head...)
	for _, r := range l0 {
		row := table.Row{r.Src.Chip}
		for _, s := range r.Routes {
			row = append(row, s)
		}
		tw.AppendRow(row)
	}
	tw.Render()
	if len(l1) == 0 {
		return
	}
	fmt.Fprintf(c.OutOrStdout(), "L1, exit nodes of mesh %d\n", l1[0].Src.Mesh)
	head = []any{"Src Mesh", "Node"}
	for _, m := range l1[0].To {
		head = append(head, fmt.Sprintf("Mesh%d", m))
	}
	tw = newTable(c, head...)
	for _, r := range l1 {
		row := table.Row{r.Src.Mesh, r.Src.Chip}
		for _, s := range r.Exits {
			row = append(row, s)
		}
		tw.AppendRow(row)
	}
	tw.Render()
}

// traceHop is one hop of a packet, as planned and as it was seen.
type traceHop struct {
	Hop      int               `json:"hop"`
	From     wire.FabricNodeID `json:"from"`
	Dir      string            `json:"direction"`
	To       wire.FabricNodeID `json:"to"`
	VC       string            `json:"vc"`
	Seen     string            `json:"seen_at,omitempty"` // chip and channel where the packet came in
	SeenVC   string            `json:"seen_vc,omitempty"`
	SeenTTL  int               `json:"seen_ttl"`
	Agrees   bool              `json:"agrees"`
	Crossing bool              `json:"leaves_mesh,omitempty"`
}

func newTrace() *cobra.Command {
	var f routeFlags
	var machine string
	var plane int
	var timeout time.Duration
	c := &cobra.Command{Use: "trace SRC DST", Short: "Show the hops between two chips, as planned and as a packet takes them", Args: cobra.ExactArgs(2),
		Long: `trace prints the way that the routing tables give a request from one chip to
another, hop by hop with its virtual channel, and beside it what a packet did
that was sent along it and that every chip on the way took note of. With
--topology, only the plan of a machine that need not run. Exit code 5 if the
packet went another way, or didn't arrive.`,
		Example: "  ttfabric trace M0D0 M0D7\n  ttfabric trace M0D0 M3D8 --topology spec-l1\n  ttfabric trace M0D0 M0D15 --plane 1 -o json",
		RunE: func(c *cobra.Command, args []string) error {
			format, err := format(c)
			if err != nil {
				return err
			}
			p, err := planOf(c, machine, &f)
			if err != nil {
				return err
			}
			var ends [2]wire.FabricNodeID
			for i, a := range args {
				n, err := routeChips(p.Topology(), []string{a}, 0)
				if err != nil {
					return err
				}
				ends[i] = n[0]
			}
			walk, ok := p.Walk(wire.ClassRequest, wire.Plane(plane), ends[0], ends[1])
			if !ok {
				return coded(exitAssert, "there is no way from %s to %s on plane %d", ends[0], ends[1], plane)
			}
			hops := plannedHops(walk)
			live := machine == ""
			var failed error
			if live {
				failed = observe(c, hops, ends, wire.Plane(plane), timeout)
			}
			if format == "json" {
				if err := printJSON(c, hops); err != nil {
					return err
				}
			} else {
				printTrace(c, hops, live)
			}
			return failed
		}}
	f.add(c)
	c.Flags().Lookup("allow-deadlock").Hidden = true
	c.Flags().StringVarP(&machine, "topology", "t", "", "a machine that need not run: a file or a name")
	c.Flags().IntVar(&plane, "plane", 0, "routing plane")
	c.Flags().DurationVar(&timeout, "timeout", 5*time.Second, "for the packet's answer")
	c.RegisterFlagCompletionFunc("topology", completeTopology)
	return c
}

func plannedHops(walk []route.Hop) []traceHop {
	hops := []traceHop{}
	for i, h := range walk {
		hops = append(hops, traceHop{Hop: i + 1, From: h.At, Dir: h.Dir.String(), To: h.To, VC: h.VC.String(), Crossing: h.At.Mesh != h.To.Mesh})
	}
	return hops
}

// observe sends a packet that is noted on its way, and puts what was seen beside the plan.
func observe(c *cobra.Command, hops []traceHop, ends [2]wire.FabricNodeID, plane wire.Plane, timeout time.Duration) error {
	if len(hops) == 0 {
		return nil
	}
	dir, err := dirOf(c)
	if err != nil {
		return err
	}
	cs, _, _, err := dir.clients()
	if err != nil {
		return err
	}
	chips := map[wire.FabricNodeID]*admin.Client{}
	for _, cl := range cs {
		chips[cl.Self()] = cl
	}
	if chips[ends[0]] == nil {
		return fmt.Errorf("chip %s is not running", ends[0])
	}
	ctx, cancel := context.WithTimeout(c.Context(), timeout)
	defer cancel()
	_, sent := session.New(chips[ends[0]]).Ping(ctx, ends[1], session.OnPlane(plane), session.Traced())
	ask, stop := context.WithTimeout(c.Context(), askTime)
	defer stop()
	id, missing := "", 0
	for i := range hops {
		h := &hops[i]
		cl := chips[h.To]
		if cl == nil {
			missing++
			continue
		}
		seen, err := cl.Traces(ask)
		if err != nil {
			return err
		}
		for k := len(seen) - 1; k >= 0; k-- {
			s := &seen[k]
			if s.Src == ends[0] && s.Dst == ends[1] && s.Plane == plane && (id == "" || s.ID == id) {
				id = s.ID
				h.Seen, h.SeenVC, h.SeenTTL = fmt.Sprintf("%s channel %d", h.To, s.Channel), s.VC, int(s.TTL)
				h.Agrees = s.VC == h.VC
				break
			}
		}
		if !h.Agrees {
			missing++
		}
	}
	switch {
	case sent != nil:
		return coded(exitAssert, "the packet was not answered: %w", sent)
	case missing > 0:
		return coded(exitAssert, "%d of %d hops were not taken as planned", missing, len(hops))
	}
	return nil
}

func printTrace(c *cobra.Command, hops []traceHop, live bool) {
	head := []any{"Hop", "From", "Dir", "To", "VC"}
	if live {
		head = append(head, "Seen at", "VC", "TTL", "")
	}
	tw := newTable(c, head...)
	for _, h := range hops {
		row := table.Row{h.Hop, h.From, h.Dir, h.To, h.VC}
		if live {
			row = append(row, h.Seen, h.SeenVC, h.SeenTTL, map[bool]string{true: "as planned", false: "not seen"}[h.Agrees])
		}
		tw.AppendRow(row)
	}
	tw.Render()
}
