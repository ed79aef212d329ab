// Package pick finds cables and chips of a topology by names and patterns, as users write them.
package pick

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"ttfabric/router/topo"
	"ttfabric/wire"
)

// Links finds the used cables that the names in args stand for. Links lists each cable
// once, in the order of the topology. A name is a chip and a channel (M0D0:8, M0D0/8), two chips
// (M0D0-M0D1), one chip (M0D3), or patterns of chips (M0D*-M1D*). Other names are plane:1,
// label:NAME and all. A plane may follow any name but plane:1 (M0D0-M0D1/p1). The error quotes the
// first name that is wrong or stands for no cable.
func Links(t *topo.Topology, args []string) ([]topo.Link, error) {
	found := map[wire.PortID]topo.Link{} // key: the lower end of the cable
	for _, arg := range args {
		ls, err := linksOf(t, arg)
		if err != nil {
			return nil, fmt.Errorf("link %q: %w", arg, err)
		}
		for _, l := range ls {
			low := l.A
			if l.B.Less(l.A) {
				low = l.B
			}
			if _, ok := found[low]; !ok {
				found[low] = l
			}
		}
	}
	var out []topo.Link
	for _, c := range t.Cables {
		if l, ok := found[c.A]; ok {
			out = append(out, l)
		}
	}
	return out, nil
}

// linksOf finds the used cables that one name stands for.
func linksOf(t *topo.Topology, arg string) ([]topo.Link, error) {
	rest, plane := arg, -1
	if number, ok := strings.CutPrefix(arg, "plane:"); ok {
		rest = "all/p" + number
	}
	if at := strings.LastIndex(rest, "/p"); at >= 0 {
		n, err := strconv.ParseUint(rest[at+2:], 10, 8)
		if err != nil || int(n) >= max(t.Planes(), 1) {
			return nil, fmt.Errorf("plane %q: %s has planes 0 to %d", rest[at+2:], t.Name, t.Planes()-1)
		}
		rest, plane = rest[:at], int(n)
	}
	label, labelled := strings.CutPrefix(rest, "label:")
	if labelled && !slices.Contains(t.AllLabels(), label) {
		return nil, fmt.Errorf("no cable of %s has this label; %s", t.Name, knownLabels(t))
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
		return nil, err
	}
	var out []topo.Link
	for _, c := range t.Cables {
		switch {
		case c.Unused || plane >= 0 && int(c.Plane) != plane:
		case labelled && !slices.Contains(t.Notes[c.A].Labels, label):
		case one.holds(c.A) && other.holds(c.B):
			out = append(out, topo.Link{A: c.A, B: c.B, Plane: c.Plane})
		case one.holds(c.B) && other.holds(c.A):
			out = append(out, topo.Link{A: c.B, B: c.A, Plane: c.Plane})
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s has no such cable; 'ttfabric inspect --links' lists all cables", t.Name)
	}
	return out, nil
}

// knownLabels returns the part of an error message that lists the labels of the topology.
func knownLabels(t *topo.Topology) string {
	all := t.AllLabels()
	if len(all) == 0 {
		return "no cable of this topology has a label; the key 'labels' in a topology file gives cables labels, see 'ttfabric generate'"
	}
	return "its labels are " + strings.Join(all, ", ")
}

// cutOutside splits s at the first dash outside brackets. The result "found" is true if s has such
// a dash.
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

// side is one end in the name of a cable: a pattern of chips, and an ethernet channel or
// anyChannel.
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
	if i := strings.LastIndexAny(text, ":/"); i >= 0 && (text[i] == '/' || !isNumber(text[:i])) { // a number after a colon is a channel only if the part before the colon is no number: "0:3" is chip 3 of mesh 0
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

// chipGlob reads the name of one chip or a pattern of chips, and returns it as a pattern. The
// pattern must match at least one chip of the topology.
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
		return "", fmt.Errorf("pattern %q matches no chip of %s", text, t)
	}
	return glob, nil
}

// Chips finds the chips that a list names, such as "M0D0,M0D1" or "M0D[0-3],M1D*". The error
// quotes the list and the entry that matches no chip.
func Chips(t *topo.Topology, list string) (map[wire.FabricNodeID]bool, error) {
	set := map[wire.FabricNodeID]bool{}
	for word := range strings.SplitSeq(list, ",") {
		glob, err := chipGlob(t, strings.TrimSpace(word))
		if err != nil {
			return nil, fmt.Errorf("chips %q: %w", list, err)
		}
		for _, c := range t.Chips {
			if ok, _ := path.Match(glob, c.Node.String()); ok {
				set[c.Node] = true
			}
		}
	}
	return set, nil
}

// Between returns the used cables between the chips of two lists. End A of each [topo.Link] is at a chip
// of the first list. If the second list is "", Between returns the used cables between the chips of
// the first list and all other chips. Between returns an error if a chip is in both lists, or if
// there is no such cable.
func Between(t *topo.Topology, one, other string) ([]topo.Link, error) {
	a, err := Chips(t, one)
	if err != nil {
		return nil, err
	}
	b := map[wire.FabricNodeID]bool{}
	if other != "" {
		if b, err = Chips(t, other); err != nil {
			return nil, err
		}
	}
	for _, c := range t.Chips {
		switch {
		case other == "":
			b[c.Node] = !a[c.Node]
		case a[c.Node] && b[c.Node]:
			return nil, fmt.Errorf("chip %s is in both sets, %s and %s", c.Node, one, other)
		}
	}
	var out []topo.Link
	for _, c := range t.Cables {
		switch {
		case c.Unused:
		case a[c.A.Node] && b[c.B.Node]:
			out = append(out, topo.Link{A: c.A, B: c.B, Plane: c.Plane})
		case a[c.B.Node] && b[c.A.Node]:
			out = append(out, topo.Link{A: c.B, B: c.A, Plane: c.Plane})
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no cable of %s joins the two sets of chips", t.Name)
	}
	return out, nil
}
