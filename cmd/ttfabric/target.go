package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ttfabric/node/admin/api"
	"ttfabric/node/fabric"
	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/router/topo"
	"ttfabric/router/topo/pick"
	"ttfabric/wire"
)

// openFabric opens the fabric with the name that --name gives.
func openFabric(c *cobra.Command) (*fabric.Fabric, error) {
	name, _ := c.Flags().GetString("name")
	return fabric.Open(c.Context(), name)
}

// peekFabric returns the topology of the fabric that --name names. If the run folder of
// this fabric cannot be read, peekFabric returns nil. peekFabric asks no chip, because
// shell completion must not wait.
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

// chipArg opens the fabric that --name names, and returns the chip of this fabric that
// arg names.
func chipArg(c *cobra.Command, arg string) (*fabric.Fabric, wire.FabricNodeID, error) {
	f, err := openFabric(c)
	if err != nil {
		return nil, wire.FabricNodeID{}, err
	}
	n, err := chipOf(f.Topology, arg)
	return f, n, err
}

// clientArg returns a client of the chip that an argument names.
func clientArg(c *cobra.Command, arg string) (*api.Client, error) {
	f, n, err := chipArg(c, arg)
	if err != nil {
		return nil, err
	}
	return f.Client(n)
}

// entryArg returns a client of the chip at which packets enter the fabric, by the flag --via. The packets go to
// the chip that an argument names, on the plane of the flag --plane.
func entryArg(c *cobra.Command, arg string) (cl *api.Client, dst wire.FabricNodeID, p wire.Plane, err error) {
	f, dst, err := chipArg(c, arg)
	via := dst
	if v, _ := c.Flags().GetString("via"); err == nil && v != "" {
		via, err = chipOf(f.Topology, v)
	}
	if err == nil {
		cl, err = f.Client(via)
	}
	if err != nil {
		return nil, dst, 0, err
	}
	n, _ := c.Flags().GetInt("plane")
	p, err = spec.Plane(cl.Topology(), n)
	return cl, dst, p, err
}

// chipOf returns the chip of a topology that arg names.
func chipOf(t *topo.Topology, arg string) (wire.FabricNodeID, error) {
	n, err := wire.ParseFabricNodeID(arg)
	if err != nil {
		return n, spec.AsUsage(err)
	}
	if _, ok := t.Chip(n); !ok {
		return n, spec.Usagef("chip %s is not in topology %s", n, t)
	}
	return n, nil
}

// clientsOf opens the fabric f that --name names, and returns clients of the chips in
// args. If args is empty, clientsOf returns clients of all running chips, and missing
// holds the chips that do not run.
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

// linkArgs returns the links that a command's arguments LINK stand for, and opens the
// running chips.
func linkArgs(c *cobra.Command, args []string) ([]topo.Link, *fabric.Chips, error) {
	f, err := openFabric(c)
	if err != nil {
		return nil, nil, err
	}
	links, err := pick.Links(f.Topology, args)
	if err != nil {
		return nil, nil, spec.AsUsage(err)
	}
	if links, err = spec.Choose(randomOf(c), "cable", links); err != nil {
		return nil, nil, err
	}
	s, err := f.Chips()
	return links, s, err
}

// addRandom adds the flags --random and --seed to a command. The argument "what" names the things that the
// command can choose, such as "cables".
func addRandom(c *cobra.Command, what string) {
	c.Flags().Int("random", 0, "choose this many of the named "+what+" at random")
	c.Flags().Uint64("seed", 0, "seed of the choice by --random; the command prints the seed (default: a random seed)")
}

// randomOf returns the choice that the flags of addRandom ask for. If --seed is left out, randomOf chooses
// a seed. If --random is given, randomOf prints the seed on stderr.
func randomOf(c *cobra.Command) (r spec.Random) {
	if c.Flags().Lookup("random") == nil {
		return r
	}
	r.Count, _ = c.Flags().GetInt("random")
	if r.Seed, _ = c.Flags().GetUint64("seed"); !c.Flags().Changed("seed") {
		r.Seed = rand.Uint64N(1e9) // a seed that is short enough to type
	}
	if r.Count > 0 {
		fmt.Fprintf(c.ErrOrStderr(), "seed %d\n", r.Seed)
	}
	return r
}

// chipArgs opens the fabric that --name names, and returns the chips of this fabric that the arguments CHIPS
// name and --random chooses. If the arguments hold a pattern, or if --random is given, chipArgs leaves out
// chips that run, or chips that do not run, as the argument "run" says. A chip that an argument names without
// a pattern stays. The result "named" is true if the arguments are one chip without a pattern.
func chipArgs(c *cobra.Command, args []string, run bool) (f *fabric.Fabric, chips []wire.FabricNodeID, named bool, err error) {
	if f, err = openFabric(c); err != nil {
		return nil, nil, false, err
	}
	args = strings.Split(strings.Join(args, ","), ",")
	r := randomOf(c)
	if len(args) == 1 && r.Count == 0 && args[0] != "all" && !strings.ContainsAny(args[0], "*?[") {
		n, err := chipOf(f.Topology, args[0])
		return f, []wire.FabricNodeID{n}, true, err
	}
	if chips, err = spec.Chips(f.Topology, args); err != nil {
		return nil, nil, false, err
	}
	chips = slices.DeleteFunc(chips, func(n wire.FabricNodeID) bool {
		_, runs := f.Where(n)
		return runs != run && !slices.Contains(args, n.String())
	})
	if len(chips) == 0 {
		return nil, nil, false, spec.Usagef("%s: %s; 'ttfabric inspect' shows the state of each chip", strings.Join(args, " "), map[bool]string{true: "none of these chips is running", false: "all of these chips are running"}[run])
	}
	chips, err = spec.Choose(r, "chip", chips)
	return f, chips, false, err
}

// tellAbsent prints on stderr the chips that a command left out because they do not run.
func tellAbsent(c *cobra.Command, absent []wire.FabricNodeID) {
	for _, n := range absent {
		fmt.Fprintf(c.ErrOrStderr(), "chip %s is not running, and the command left this chip out; run the command again after the chip has started\n", n)
	}
}

// tellQuiet prints on stderr the chips that a table leaves out, because they do not run or do not
// answer.
func tellQuiet(c *cobra.Command, missing, silent []wire.FabricNodeID) {
	for _, n := range missing {
		fmt.Fprintf(c.ErrOrStderr(), "chip %s is not running\n", n)
	}
	for _, n := range silent {
		fmt.Fprintf(c.ErrOrStderr(), "chip %s does not answer\n", n)
	}
}

// chipNames returns the names of the fabric's chips for completion. If there is no
// fabric, chipNames returns no name.
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

// linkHelp describes the argument LINK, for the help of every command with a LINK.
const linkHelp = `LINK names cables:
  M0D0:8, M0D0/8    the cable at a chip's channel
  M0D0-M0D1         all cables between two chips
  M0D0-M0D1/p1      the cable between two chips on plane 1
  M0D3              all cables of a chip
  M0D*-M1D*         chips by pattern: * any text, ? any character, [0-3] a digit 0 to 3
  plane:1           all cables of a plane
  label:wan         all cables with this label in the topology file
  label:wan/p1      all cables with this label on plane 1
  all               every cable`

// chipsHelp describes the argument CHIPS.
const chipsHelp = `CHIPS is a list of chips or patterns of chips: M0D0,M0D1 or 'M0D[0-3]' or 'M0D*'.
The word 'all' stands for every chip.`

// completeLinks returns names for cables of the fabric, for shell completion. The names
// are those of [spec.LinkNames]. The argument "begun" is the part of a word that the user
// has typed so far. If this part contains a colon or slash, the names include ports.
func completeLinks(c *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	t := peekFabric(c)
	if t == nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return spec.LinkNames(t, strings.ContainsAny(begun, ":/")), cobra.ShellCompDirectiveNoFileComp
}

// completeTopology returns the names of the built-in topologies, and an example of each
// kind of generated topology, for shell completion. The shell also completes file names.
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

// gossipArgs returns the chips that a command's arguments CHIPS stand for, and opens the
// running chips.
func gossipArgs(c *cobra.Command, args []string) ([]wire.FabricNodeID, *fabric.Chips, error) {
	f, err := openFabric(c)
	if err != nil {
		return nil, nil, err
	}
	chips, err := spec.Chips(f.Topology, args)
	if err != nil {
		return nil, nil, err
	}
	s, err := f.Chips()
	return chips, s, err
}

func memFlags(c *cobra.Command) {
	c.Flags().String("via", "", "chip at which the packets enter the fabric (default: CHIP itself)")
	c.Flags().Int("plane", 0, "routing plane")
}

// sourceFlags adds the flags of the bytes that a command writes.
func sourceFlags(c *cobra.Command, s *folder.Source) {
	c.Flags().StringVarP(&s.File, "file", "f", "", "write the bytes of this file; -: the bytes of stdin")
	c.Flags().StringVar(&s.Hex, "hex", "", "write these bytes, in hexadecimal")
}
