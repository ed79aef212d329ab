package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"ttfabric/node/admin/api"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

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

// link is a cable as a command names it: a is the end that was written first, or the lower.
type link struct {
	a, b  wire.PortID
	plane wire.Plane
}

// String is the cable as a command takes it again.
func (l link) String() string { return portName(l.a) + "-" + portName(l.b) }

// parseLinks finds the cables that any of args names, each once, in the order of the topology.
func parseLinks(t *topo.Topology, args []string) ([]link, error) {
	ls, err := t.SelectLinks(args)
	return toLinks(ls), usage(err)
}

func toLinks(ls []topo.Link) (out []link) {
	for _, l := range ls {
		out = append(out, link{l.A, l.B, l.Plane})
	}
	return out
}

// usage gives an error the usage exit code.
func usage(err error) error {
	if err == nil {
		return nil
	}
	return coded(exitUsage, "%w", err)
}

// parseChips finds the chips of a list such as "M0D0,M0D1" or "M0D[0-3],M1D*".
func parseChips(t *topo.Topology, list string) (map[wire.FabricNodeID]bool, error) {
	set, err := t.SelectChips(list)
	return set, usage(err)
}

// completeLinks offers the cables of the running fabric: chips and pairs of them, or channels where one is begun.
func completeLinks(c *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	dir, err := dirOf(c)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	_, t, _, err := dir.mesh()
	if err != nil {
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
	for _, c := range t.Chips {
		out = append(out, c.Node.String())
	}
	for _, c := range t.Cables {
		if c.Unused {
			continue
		}
		if channels {
			for _, p := range []wire.PortID{c.A, c.B} {
				out = append(out, portName(p), fmt.Sprintf("%s:%d", p.Node, p.Channel))
			}
		} else if pair := fmt.Sprintf("%s-%s", c.A.Node, c.B.Node); !slices.Contains(out, pair) {
			out = append(out, pair)
		}
	}
	return out
}

// ends groups the ends of links by chip: of both directions, or of one.
func ends(links []link, direction string) (map[wire.FabricNodeID][]wire.Channel, error) {
	out := map[wire.FabricNodeID][]wire.Channel{}
	add := func(p wire.PortID) { out[p.Node] = append(out[p.Node], p.Channel) }
	for _, l := range links {
		switch direction {
		case "both":
			add(l.a)
			add(l.b)
		case "a-to-b":
			add(l.a)
		case "b-to-a":
			add(l.b)
		default:
			return nil, coded(exitUsage, "--direction %q: want both, a-to-b or b-to-a; a is the end that LINK names first", direction)
		}
	}
	return out, nil
}

// linkArgs reads the LINKs of a command, and opens the chips that run.
func linkArgs(c *cobra.Command, args []string) ([]link, *chipSet, error) {
	dir, t, err := machineOf(c)
	if err != nil {
		return nil, nil, err
	}
	links, err := parseLinks(t, args)
	if err != nil {
		return nil, nil, err
	}
	s, err := openChips(dir)
	return links, s, err
}

// chipSet is the chips of a fabric that run.
type chipSet struct {
	t       *topo.Topology
	clients map[wire.FabricNodeID]*api.Client
}

func openChips(dir runDir) (*chipSet, error) {
	cs, _, t, err := dir.clients()
	if err != nil {
		return nil, err
	}
	s := &chipSet{t, map[wire.FabricNodeID]*api.Client{}}
	for _, c := range cs {
		s.clients[c.Self()] = c
	}
	return s, nil
}

// at asks the chips at the ends of cables at once. Those that don't run are
// named on stderr: they send nothing anyway. It fails where one that runs did not do it.
func (s *chipSet) at(c *cobra.Command, where map[wire.FabricNodeID][]wire.Channel, do func(context.Context, *api.Client, []wire.Channel) error) error {
	ctx, cancel := context.WithTimeout(c.Context(), askTime)
	defer cancel()
	var mu sync.Mutex
	var wg sync.WaitGroup
	var errs []error
	for _, chip := range s.t.Chips {
		channels, ok := where[chip.Node]
		if !ok {
			continue
		}
		client := s.clients[chip.Node]
		if client == nil {
			fmt.Fprintf(c.ErrOrStderr(), "chip %s is not running; what it sends once it is started is left as it is\n", chip.Node)
			continue
		}
		wg.Go(func() {
			if err := do(ctx, client, channels); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
