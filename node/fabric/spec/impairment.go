package spec

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ttfabric/router/topo"
	"ttfabric/router/topo/pick"
	"ttfabric/ttlink/fault"
	"ttfabric/wire"
)

// Impairment says which ports have frames that are delayed, lost or otherwise impaired from
// the start of a fabric, and by how much.
type Impairment struct {
	Text   string                               // text of the impairment, in the form that --netem takes
	Where  map[wire.FabricNodeID][]wire.Channel // channels, by chip, that send the impaired frames
	Change fault.Change                         // values of the knobs, for example delay: 1ms
	Seed   *uint64                              // seed of the random faults; nil: the user named no seed
}

// DeclaredBy returns the impairments that a topology declares for its cables, as texts
// "LINK,KNOB=VALUE,…". DeclaredBy leaves out the notes of unused cables.
func DeclaredBy(t *topo.Topology) (out []string) {
	for _, c := range t.Cables {
		if n := t.Notes[c.A]; n.Netem != "" && !c.Unused {
			out = append(out, c.A.Short()+"-"+c.B.Short()+","+n.Netem)
		}
	}
	return append(out, t.Netem...)
}

// CheckDeclared returns an error of kind [Topology] if a topology declares an impairment
// that [ParseImpairment] refuses. The parameter "file" names the topology in the error.
func CheckDeclared(file string, t *topo.Topology) error {
	for _, text := range DeclaredBy(t) {
		if _, err := ParseImpairment(t, text); err != nil {
			return Topologyf("%s: %s", file, strings.Replace(err.Error(), "--netem", "netem", 1))
		}
	}
	return nil
}

// ParseImpairment reads an impairment from a text "LINK,KNOB=VALUE,…". The text may also contain
// "seed=NUMBER" and "direction=DIRECTION" (see [Directions]). Errors have kind [Usage].
func ParseImpairment(t *topo.Topology, text string) (d Impairment, err error) {
	d.Text = text
	bad := func(err error) (Impairment, error) {
		return d, Usagef("--netem %q: %w; want LINK,KNOB=VALUE,…, such as M0D0-M0D1,delay=1ms,loss=1%%", text, err)
	}
	words := strings.Split(text, ",")
	links, err := pick.Links(t, words[:1])
	if err != nil {
		return bad(err)
	}
	direction := "both"
	var knobs []string
	for _, w := range words[1:] {
		name, value, _ := strings.Cut(strings.TrimSpace(w), "=")
		switch name {
		case "direction":
			direction = value
		case "seed":
			n, err := strconv.ParseUint(value, 0, 64)
			if err != nil {
				return bad(fmt.Errorf("seed %q: want a whole number", value))
			}
			d.Seed = &n
		default:
			knobs = append(knobs, w)
		}
	}
	if d.Change, err = fault.ParseChange(strings.Join(knobs, ",")); err != nil {
		return bad(err)
	}
	if d.Where, err = Ends(links, direction); err != nil {
		return bad(err)
	}
	return d, nil
}

// Impairments returns all impairments that a new fabric has from its start. The
// impairments of the topology come first. The impairments that the user chose with --netem
// follow.
func (b *Behaviour) Impairments(t *topo.Topology) (out []Impairment, err error) {
	for _, text := range slices.Concat(DeclaredBy(t), b.Netem) {
		d, err := ParseImpairment(t, text)
		if err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, nil
}

// Directions are the names of the directions in which an impairment can act on a cable.
// The name "both" means the frames that both ends send. The name "a-to-b" means the frames
// that end a sends. End a is the end that LINK names first. If LINK names no end first,
// end a is the end with the lower [wire.PortID].
var Directions = []string{"both", "a-to-b", "b-to-a"}

// Ends returns the channels that send on the given links in a direction, by chip. Ends
// returns an error of kind [Usage] if the direction is none of [Directions].
func Ends(links []topo.Link, direction string) (map[wire.FabricNodeID][]wire.Channel, error) {
	out := map[wire.FabricNodeID][]wire.Channel{}
	add := func(p wire.PortID) { out[p.Node] = append(out[p.Node], p.Channel) }
	for _, l := range links {
		switch direction {
		case "both":
			add(l.A)
			add(l.B)
		case "a-to-b":
			add(l.A)
		case "b-to-a":
			add(l.B)
		default:
			return nil, Usagef("--direction %q: want both, a-to-b or b-to-a; a is the end that LINK names first", direction)
		}
	}
	return out, nil
}
