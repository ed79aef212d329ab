package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ttfabric/node"
	"ttfabric/node/admin/api"
	"ttfabric/node/fabric"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/output"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// maxListed is the largest number of cables or chips that a message lists by name.
const maxListed = 8

// toldLinks prints what the command has done, and the names of the cables.
func toldLinks(c *cobra.Command, done string, links []topo.Link) error {
	f, err := format(c)
	if err != nil {
		return err
	}
	names := namesOf(links)
	if f == "json" {
		return printJSON(c, output.Cables{Action: done, Links: names})
	}
	n := len(names)
	if n == 0 {
		fmt.Fprintf(c.ErrOrStderr(), "No cable %s.\n", done)
		return nil
	}
	if n > maxListed {
		names = append(names[:maxListed:maxListed], fmt.Sprintf("and %d more", n-maxListed))
	}
	fmt.Fprintf(c.ErrOrStderr(), "%s %s: %s\n", topo.Count(n, "cable"), done, strings.Join(names, ", "))
	return nil
}

func namesOf(links []topo.Link) []string {
	names := []string{}
	for _, l := range links {
		names = append(names, l.String())
	}
	return names
}

// faultTime returns an error if d, the value of a flag, is out of range. The chips end a
// fault after the time d. If d is 0, the chips do not end the fault.
func faultTime(flag string, d time.Duration) error {
	if d < 0 || d > node.MaxFaultTime {
		return spec.Usagef("%s %v: want a time up to %v, or 0 for no end", flag, d, node.MaxFaultTime)
	}
	return nil
}

func endsIn(v *api.ImpairmentView) string {
	var words []string
	for _, s := range []float64{v.CutEndsInS, v.EndsInS} {
		if s > 0 {
			words = append(words, fmt.Sprintf("%.1fs", s))
		}
	}
	return strings.Join(words, " ")
}

// toldChips prints what the command has done to the gossip of chips, and the names of
// the chips.
func toldChips(c *cobra.Command, done string, chips []wire.FabricNodeID) error {
	f, err := format(c)
	if err != nil {
		return err
	}
	if f == "json" {
		return printJSON(c, output.GossipChips{Action: done, Chips: append([]wire.FabricNodeID{}, chips...)})
	}
	if len(chips) == 0 {
		fmt.Fprintf(c.ErrOrStderr(), "No chip's gossip %s.\n", done)
		return nil
	}
	names := nodeNames(chips)
	if len(names) > maxListed {
		names = append(names[:maxListed:maxListed], fmt.Sprintf("and %d more", len(chips)-maxListed))
	}
	fmt.Fprintf(c.ErrOrStderr(), "gossip of %s %s: %s\n", topo.Count(len(chips), "chip"), done, strings.Join(names, ", "))
	return nil
}

func nodeNames(ns []wire.FabricNodeID) (out []string) {
	for _, n := range ns {
		out = append(out, n.String())
	}
	return out
}

// leftOut is the message about pairs of chips without a route. A 1D fabric has pairs
// without a route. If too few cables join two meshes, some planes have no route between the chips
// of the two meshes.
const leftOut = "Left out: %s without a route in this fabric.\n"

// printHealed prints what 'heal' put back, and what it left.
func printHealed(c *cobra.Command, h *fabric.Healed) error {
	if f, _ := format(c); f == "json" {
		return printJSON(c, output.Healed{Action: "put back", Links: namesOf(h.Cables), Service: namesOf(h.Service), Routers: append([]api.RouterView{}, h.Routers...),
			Gossip: append([]wire.FabricNodeID{}, h.Gossip...), Leaving: append([]wire.FabricNodeID{}, h.Leaving...), Left: append([]string{}, h.Left...), NoAnswer: append([]wire.FabricNodeID{}, h.Silent...)})
	}
	for _, k := range []struct {
		done  string
		links []topo.Link
	}{{"put back", h.Cables}, {"put back in service", h.Service}} {
		if len(k.links) > 0 || k.done == "put back" && len(h.Service)+len(h.Routers)+len(h.Gossip)+len(h.Leaving) == 0 {
			if err := toldLinks(c, k.done, k.links); err != nil {
				return err
			}
		}
	}
	if n := len(h.Routers); n > 0 {
		fmt.Fprintf(c.ErrOrStderr(), "routers of %s resumed\n", topo.Count(n, "port"))
	}
	if len(h.Gossip) > 0 {
		if err := toldChips(c, "put back", h.Gossip); err != nil {
			return err
		}
	}
	if n := len(h.Leaving); n > 0 {
		fmt.Fprintf(c.ErrOrStderr(), "%s accept new requests again\n", topo.Count(n, "chip"))
	}
	for _, what := range h.Left {
		fmt.Fprintf(c.ErrOrStderr(), "left as it is: %s\n", what)
	}
	return nil
}

// toldMemory prints the result of writing to memory: text on stderr, or v as JSON.
func toldMemory(c *cobra.Command, v *output.Memory, text string) error {
	if as, err := format(c); err != nil || as == "json" {
		return errors.Join(err, printJSON(c, v))
	}
	fmt.Fprintln(c.ErrOrStderr(), text)
	return nil
}
