package main

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"ttfabric/node/admin"
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
	found := map[wire.PortID]link{} // by the lower end
	for _, arg := range args {
		ls, err := parseLink(t, arg)
		if err != nil {
			return nil, err
		}
		for _, l := range ls {
			low := l.a
			if l.b.Less(l.a) {
				low = l.b
			}
			if _, ok := found[low]; !ok {
				found[low] = l
			}
		}
	}
	var out []link
	for _, c := range t.Cables {
		if l, ok := found[c.A]; ok {
			out = append(out, l)
		}
	}
	return out, nil
}

// parseLink finds the cables that one LINK names.
func parseLink(t *topo.Topology, arg string) ([]link, error) {
	rest, plane := arg, -1
	if number, ok := strings.CutPrefix(arg, "plane:"); ok {
		rest = "all/p" + number
	}
	if at := strings.LastIndex(rest, "/p"); at >= 0 {
		n, err := strconv.ParseUint(rest[at+2:], 10, 8)
		if err != nil || int(n) >= max(t.Planes(), 1) {
			return nil, coded(exitUsage, "link %q: plane %q: %s has planes 0 to %d", arg, rest[at+2:], t.Name, t.Planes()-1)
		}
		rest, plane = rest[:at], int(n)
	}
	label, labelled := strings.CutPrefix(rest, "label:")
	if labelled && !slices.Contains(t.AllLabels(), label) {
		return nil, coded(exitUsage, "link %q: no cable of %s has that label; %s", arg, t.Name, knownLabels(t))
	}
	if rest == "all" || labelled {
		rest = "*"
	}
	left, right, two := cutOutside(rest)
	one, err := parseSide(t, left)
	other := side{glob: "*", channel: anyChannel}
	if err == nil && two {
		other, err = parseSide(t, right)
	}
	if err != nil {
		return nil, coded(exitUsage, "link %q: %w", arg, err)
	}
	var out []link
	for _, c := range t.Cables {
		switch {
		case c.Unused || plane >= 0 && int(c.Plane) != plane:
		case labelled && !slices.Contains(t.Notes[c.A].Labels, label):
		case one.holds(c.A) && other.holds(c.B):
			out = append(out, link{c.A, c.B, c.Plane})
		case one.holds(c.B) && other.holds(c.A):
			out = append(out, link{c.B, c.A, c.Plane})
		}
	}
	if len(out) == 0 {
		return nil, coded(exitUsage, "link %q: %s has no such cable; 'ttfabric inspect --links' lists them", arg, t.Name)
	}
	return out, nil
}

// knownLabels says which labels there are.
func knownLabels(t *topo.Topology) string {
	all := t.AllLabels()
	if len(all) == 0 {
		return "none has any; a topology file gives them with the key labels, see 'ttfabric generate'"
	}
	return "there are " + strings.Join(all, ", ")
}

// cutOutside splits at the first dash that is not within brackets.
func cutOutside(s string) (left, right string, found bool) {
	within := false
	for i, c := range s {
		switch {
		case c == '[':
			within = true
		case c == ']':
			within = false
		case c == '-' && !within:
			return s[:i], s[i+1:], true
		}
	}
	return s, "", false
}

const anyChannel = -1

// side is one half of a LINK: chips, and a channel of theirs or anyChannel.
type side struct {
	glob    string
	channel int
}

func (s side) holds(p wire.PortID) bool {
	ok, _ := path.Match(s.glob, p.Node.String())
	return ok && (s.channel == anyChannel || s.channel == int(p.Channel))
}

func parseSide(t *topo.Topology, text string) (side, error) {
	s := side{channel: anyChannel}
	chips := text
	if i := strings.LastIndexAny(text, ":/"); i >= 0 && (text[i] == '/' || !isNumber(text[:i])) { // "0:3" is a chip of mesh 0
		n, err := strconv.ParseUint(text[i+1:], 10, 8)
		if err != nil || n >= wire.MaxChannels {
			return s, fmt.Errorf("channel %q: want 0 to %d", text[i+1:], wire.MaxChannels-1)
		}
		chips, s.channel = text[:i], int(n)
	}
	var err error
	s.glob, err = chipGlob(t, chips)
	return s, err
}

func isNumber(s string) bool {
	_, err := strconv.Atoi(s)
	return err == nil
}

// chipGlob is the pattern of a chip, or of chips by pattern. One of them at least has to be in the topology.
func chipGlob(t *topo.Topology, text string) (string, error) {
	if !strings.ContainsAny(text, "*?[") {
		n, err := wire.ParseFabricNodeID(text)
		if err != nil {
			return "", err
		}
		if _, ok := t.Chip(n); !ok {
			return "", fmt.Errorf("chip %s is not in %s", n, t)
		}
		return n.String(), nil
	}
	glob := strings.ToUpper(text)
	if _, err := path.Match(glob, ""); err != nil {
		return "", fmt.Errorf("pattern %q: a bracket is not closed", text)
	}
	if !slices.ContainsFunc(t.Chips, func(c topo.Chip) bool { ok, _ := path.Match(glob, c.Node.String()); return ok }) {
		return "", fmt.Errorf("pattern %q: it fits no chip of %s", text, t)
	}
	return glob, nil
}

// parseChips finds the chips of a list such as "M0D0,M0D1" or "M0D[0-3],M1D*".
func parseChips(t *topo.Topology, list string) (map[wire.FabricNodeID]bool, error) {
	set := map[wire.FabricNodeID]bool{}
	for word := range strings.SplitSeq(list, ",") {
		glob, err := chipGlob(t, word)
		if err != nil {
			return nil, coded(exitUsage, "chips %q: %w", list, err)
		}
		for _, c := range t.Chips {
			if ok, _ := path.Match(glob, c.Node.String()); ok {
				set[c.Node] = true
			}
		}
	}
	return set, nil
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
	dir, err := dirOf(c)
	if err != nil {
		return nil, nil, err
	}
	_, t, _, err := dir.mesh()
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
	clients map[wire.FabricNodeID]*admin.Client
}

func openChips(dir runDir) (*chipSet, error) {
	cs, _, t, err := dir.clients()
	if err != nil {
		return nil, err
	}
	s := &chipSet{t, map[wire.FabricNodeID]*admin.Client{}}
	for _, c := range cs {
		s.clients[c.Self()] = c
	}
	return s, nil
}

// at asks the chips at the ends of cables at once. Those that don't run are
// named on stderr: they send nothing anyway. It fails where one that runs did not do it.
func (s *chipSet) at(c *cobra.Command, where map[wire.FabricNodeID][]wire.Channel, do func(context.Context, *admin.Client, []wire.Channel) error) error {
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
