package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ttfabric/node/admin/api"
	"ttfabric/node/fabric"
	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// openFabric opens the fabric that --name names.
func openFabric(c *cobra.Command) (*fabric.Fabric, error) {
	name, _ := c.Flags().GetString("name")
	return fabric.Open(c.Context(), name)
}

// peekFabric is what is known of the fabric that --name names without asking
// anybody: for completion, which must neither wait nor change anything.
func peekFabric(c *cobra.Command) *topo.Topology {
	name, _ := c.Flags().GetString("name")
	dir, err := folder.For(name)
	if err != nil {
		return nil
	}
	f, err := fabric.Peek(dir)
	if err != nil {
		return nil
	}
	return f.Topology
}

// chipArg reads a chip of the fabric that the command is about.
func chipArg(c *cobra.Command, arg string) (*fabric.Fabric, wire.FabricNodeID, error) {
	f, err := openFabric(c)
	if err != nil {
		return nil, wire.FabricNodeID{}, err
	}
	n, err := chipOf(f.Topology, arg)
	return f, n, err
}

// chipOf reads a chip of a topology.
func chipOf(t *topo.Topology, arg string) (wire.FabricNodeID, error) {
	n, err := wire.ParseFabricNodeID(arg)
	if err != nil {
		return n, spec.AsUsage(err)
	}
	if _, ok := t.Chip(n); !ok {
		return n, spec.Usagef("chip %s is not in %s", n, t)
	}
	return n, nil
}

// clientsOf are the chips that a command with optional CHIPs is about: those,
// or all that run; missing are those that do not run.
func clientsOf(c *cobra.Command, args []string) (f *fabric.Fabric, cs []*api.Client, missing []wire.FabricNodeID, err error) {
	if f, err = openFabric(c); err != nil {
		return nil, nil, nil, err
	}
	if len(args) == 0 {
		cs, missing, err = f.Clients()
		return f, cs, missing, err
	}
	for _, arg := range args {
		n, err := chipOf(f.Topology, arg)
		if err != nil {
			return nil, nil, nil, err
		}
		one, err := f.Client(n)
		if err != nil {
			return nil, nil, nil, err
		}
		cs = append(cs, one)
	}
	return f, cs, nil, nil
}

// linkArgs reads the LINKs of a command, and opens the chips that run.
func linkArgs(c *cobra.Command, args []string) ([]topo.Link, *fabric.Chips, error) {
	f, err := openFabric(c)
	if err != nil {
		return nil, nil, err
	}
	links, err := f.Topology.SelectLinks(args)
	if err != nil {
		return nil, nil, spec.AsUsage(err)
	}
	s, err := f.Chips()
	return links, s, err
}

// tellAbsent says on stderr which chips a command could not ask as they do not run.
func tellAbsent(c *cobra.Command, absent []wire.FabricNodeID) {
	for _, n := range absent {
		fmt.Fprintf(c.ErrOrStderr(), "chip %s is not running; what it sends once it is started is left as it is\n", n)
	}
}

// chipList reads CHIPS arguments: those chips, in the order of the topology.
func chipList(t *topo.Topology, args []string) ([]wire.FabricNodeID, error) {
	set := map[wire.FabricNodeID]bool{}
	for _, a := range args {
		if a == "all" {
			a = "*"
		}
		some, err := t.SelectChips(a)
		if err != nil {
			return nil, spec.AsUsage(err)
		}
		for n := range some {
			set[n] = true
		}
	}
	return slices.DeleteFunc(t.Nodes(), func(n wire.FabricNodeID) bool { return !set[n] }), nil
}

// planeOf is the routing plane that --plane names; plane 0 is there in every machine.
func planeOf(t *topo.Topology, n int) (wire.Plane, error) {
	if n < 0 || n >= max(t.Planes(), 1) {
		return 0, spec.Usagef("--plane %d: %s", n, t)
	}
	return wire.Plane(n), nil
}

// chipNames are the chips of the fabric, for completion; none if there is no fabric.
func chipNames(c *cobra.Command) (names []string) {
	if t := peekFabric(c); t != nil {
		for _, n := range t.Nodes() {
			names = append(names, n.String())
		}
	}
	return names
}

func completeChipNames(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return chipNames(c), cobra.ShellCompDirectiveNoFileComp
}

// linkHelp says what LINK may be, for the help of every command that takes one.
const linkHelp = `LINK names cables:
  M0D0:8, M0D0/8    the cable at a chip's channel
  M0D0-M0D1         all cables between two chips
  M0D0-M0D1/p1      of those, the one of a plane
  M0D3              all cables of a chip
  M0D*-M1D*         chips by pattern: * any text, ? one character, [0-3] one of these
  plane:1           all cables of a plane
  label:wan         those that the topology file labels so; label:wan/p1 of a plane
  all               every cable`

// chipsHelp says what CHIPS may be.
const chipsHelp = `CHIPS is a list of chips, or of patterns of them: M0D0,M0D1 or 'M0D[0-3]' or
'M0D*'; all is every chip.`

// completeLinks offers the cables of the fabric: chips and pairs of them, or channels where one is begun.
func completeLinks(c *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	t := peekFabric(c)
	if t == nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return linkNames(t, strings.ContainsAny(begun, ":/")), cobra.ShellCompDirectiveNoFileComp
}

// linkNames are words for cables, as people write them.
func linkNames(t *topo.Topology, channels bool) []string {
	out := []string{"all"}
	for p := range t.Planes() {
		out = append(out, fmt.Sprintf("plane:%d", p))
	}
	for _, l := range t.AllLabels() {
		out = append(out, "label:"+l)
	}
	for _, n := range t.Nodes() {
		out = append(out, n.String())
	}
	for _, c := range t.Cables {
		if c.Unused {
			continue
		}
		if channels {
			for _, p := range []wire.PortID{c.A, c.B} {
				out = append(out, p.Short(), fmt.Sprintf("%s:%d", p.Node, p.Channel))
			}
		} else if pair := fmt.Sprintf("%s-%s", c.A.Node, c.B.Node); !slices.Contains(out, pair) {
			out = append(out, pair)
		}
	}
	return out
}

// completeTopology offers the built-in topologies, and files.
func completeTopology(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, b := range topo.Builders {
		names = append(names, b.Example+"\t"+b.Help)
	}
	return names, cobra.ShellCompDirectiveDefault
}

// gossipArgs reads the CHIPS of a command, and opens the chips that run.
func gossipArgs(c *cobra.Command, args []string) ([]wire.FabricNodeID, *fabric.Chips, error) {
	if _, err := format(c); err != nil {
		return nil, nil, err
	}
	f, err := openFabric(c)
	if err != nil {
		return nil, nil, err
	}
	chips, err := chipList(f.Topology, args)
	if err != nil {
		return nil, nil, err
	}
	s, err := f.Chips()
	return chips, s, err
}

// twoSets reads CHIPS [CHIPS]: without the second, it is the rest.
func twoSets(t *topo.Topology, args []string) (one, other []wire.FabricNodeID, err error) {
	if one, err = chipList(t, args[:1]); err != nil {
		return nil, nil, err
	}
	if len(args) == 2 {
		if other, err = chipList(t, args[1:]); err != nil {
			return nil, nil, err
		}
	}
	for _, c := range t.Chips {
		switch in := slices.Contains(one, c.Node); {
		case len(args) == 1 && !in:
			other = append(other, c.Node)
		case in && slices.Contains(other, c.Node):
			return nil, nil, spec.Usagef("chip %s is in both sets, %s and %s", c.Node, args[0], args[1])
		}
	}
	if len(other) == 0 {
		return nil, nil, spec.Usagef("%s are all chips of %s; nobody is left to be cut off from", args[0], t.Name)
	}
	return one, other, nil
}

func memFlags(c *cobra.Command) {
	c.Flags().String("via", "", "chip that the command enters the fabric at (default: the chip itself)")
	c.Flags().Int("plane", 0, "routing plane")
}
