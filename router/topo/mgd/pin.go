package mgd

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"ttfabric/router/topo/textproto"
)

// maxPins is the largest number of chips that the pinnings of one descriptor name.
const maxPins = 1 << 16

// readPinning reads an entry of pinnings, which says where in the machine some chips are. A chip may
// stand in one entry only. A field with the ending _regex names several numbers, see pattern. If the
// field mesh_id_regex names several meshes, the entry counts once for each of them.
func (g *reader) readPinning(f *textproto.Field) error {
	m, err := g.asMessage(f)
	if err != nil {
		return err
	}
	var places []Place
	chips := map[int][]int{} // for each mesh: the chips that the entry names
	var order []int          // keys of chips
	named := false
	for i := range m.Fields {
		switch x := &m.Fields[i]; x.Name {
		case "logical_fabric_node_id":
			named = true
			meshes, list, err := g.pinned(x)
			if err != nil {
				return err
			}
			for k, mesh := range meshes {
				if !slices.Contains(order, mesh) {
					order = append(order, mesh)
				}
				chips[mesh] = append(chips[mesh], list[k]...)
			}
		case "physical_asic_position":
			p, err := g.readPlace(x)
			if err != nil {
				return err
			}
			places = append(places, p)
		}
	}
	if !named {
		return failAt(m.Line, "an entry of pinnings has no logical_fabric_node_id")
	}
	if len(places) == 0 {
		return failAt(m.Line, "an entry of pinnings has no physical_asic_position")
	}
	for _, mesh := range order {
		for _, c := range chips[mesh] {
			key := [2]int{mesh, c}
			if was, dup := g.pins[key]; dup {
				return failAt(f.Line, "pinnings: chip %d of mesh %d is already pinned on line %d", c, g.Meshes[mesh].ID, was)
			}
			if g.pins[key] = f.Line; len(g.pins) > maxPins {
				return failAt(f.Line, "pinnings: more than %d chips", maxPins)
			}
		}
		g.Pins = append(g.Pins, Pin{Mesh: mesh, Chips: chips[mesh], Places: places, Line: f.Line})
	}
	return nil
}

// pinned reads a logical_fabric_node_id. The results are the meshes that the field names, as indices
// in Graph.Meshes, and the chips of each of these meshes.
func (g *reader) pinned(f *textproto.Field) (meshes []int, chips [][]int, err error) {
	m, err := g.asMessage(f)
	if err != nil {
		return nil, nil, err
	}
	var ids []int
	for _, id := range g.ids {
		ids = append(ids, int(id))
	}
	if one, err := g.one(m, "mesh_id"); err != nil {
		return nil, nil, err
	} else if one != nil {
		if v, ok := one.Uint(); ok && !slices.Contains(g.ids, v) {
			g.note("the pinning on line %d names mesh %d, which the file does not have", f.Line, v)
			return nil, nil, nil
		}
	}
	want, err := g.numbers(m, "mesh_id", ids)
	if err != nil {
		return nil, nil, err
	}
	for i, id := range ids {
		if !slices.Contains(want, id) {
			continue
		}
		var all []int
		for c := range g.Meshes[i].Rows * g.Meshes[i].Cols {
			all = append(all, c)
		}
		list, err := g.numbers(m, "chip_id", all)
		if err != nil {
			return nil, nil, err
		}
		meshes, chips = append(meshes, i), append(chips, list)
	}
	return meshes, chips, nil
}

// readPlace reads a physical_asic_position.
func (g *reader) readPlace(f *textproto.Field) (p Place, err error) {
	m, err := g.asMessage(f)
	if err != nil {
		return p, err
	}
	var all []int
	for i := range MaxPlace + 1 {
		all = append(all, i)
	}
	if p.Trays, err = g.numbers(m, "tray_id", all); err != nil {
		return p, err
	}
	p.Locations, err = g.numbers(m, "asic_location", all)
	return p, err
}

// numbers returns those of the numbers "all" that a field of m names, or that the field with the
// ending _regex names. A field that is left out stands for 0. If the field names none of the numbers,
// the method returns an error.
func (g *reader) numbers(m *textproto.Message, name string, all []int) ([]int, error) {
	one, err := g.one(m, name)
	if err != nil {
		return nil, err
	}
	many, err := g.one(m, name+"_regex")
	if err != nil {
		return nil, err
	}
	if many == nil || many.Kind == textproto.String && many.Text == "" {
		v, line := uint64(0), m.Line
		if one != nil {
			if v, err = g.whole(one, 0, 1<<31-1); err != nil {
				return nil, err
			}
			line = one.Line
		}
		if !slices.Contains(all, int(v)) {
			return nil, failAt(line, "pinnings: %s: %d, want %s", name, v, rangeOf(all))
		}
		return []int{int(v)}, nil
	}
	if one != nil {
		return nil, failAt(many.Line, "pinnings: %s and %s: want one of the two", name, many.Name)
	}
	if many.Kind != textproto.String {
		return nil, failAt(many.Line, "%s: %s, want a string in quotes", many.Name, many.Show())
	}
	matches, err := pattern(many.Text)
	if err != nil {
		return nil, failAt(many.Line, "%s: %q: want a list of numbers and ranges such as 0,2,4-6, or a regular expression: %v", many.Name, many.Text, err)
	}
	var out []int
	for _, v := range all {
		if matches(v) && !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	if len(out) == 0 {
		return nil, failAt(many.Line, "%s: %q names no number; want %s", many.Name, many.Text, rangeOf(all))
	}
	return out, nil
}

// rangeOf describes numbers for an error message.
func rangeOf(all []int) string {
	low, high := slices.Min(all), slices.Max(all)
	if low == high {
		return fmt.Sprint(low)
	}
	return fmt.Sprintf("a number from %d to %d of the file's", low, high)
}

// pattern returns a function that reports whether a text names a number. The text is a list of
// numbers and inclusive ranges ("0,2,4-6"), or a regular expression that must match the whole number.
func pattern(text string) (func(int) bool, error) {
	var spans [][2]int
	list := true
	for part := range strings.SplitSeq(text, ",") {
		low, high, two := strings.Cut(strings.TrimSpace(part), "-")
		if !two {
			high = low
		}
		a, errA := strconv.ParseUint(low, 10, 31)
		b, errB := strconv.ParseUint(high, 10, 31)
		if list = list && errA == nil && errB == nil; list {
			spans = append(spans, [2]int{int(a), int(b)})
		}
	}
	if list {
		return func(v int) bool {
			return slices.ContainsFunc(spans, func(s [2]int) bool { return s[0] <= v && v <= s[1] })
		}, nil
	}
	re, err := regexp.Compile("^(?:" + text + ")$")
	if err != nil {
		return nil, err
	}
	return func(v int) bool { return re.MatchString(strconv.Itoa(v)) }, nil
}
