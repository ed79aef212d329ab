package topo

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// maxLeftOut is the largest number of entries of [Topology].LeftOut.
const maxLeftOut = 16

// LeftOut describes parts of a file that the topology does not have.
type LeftOut struct {
	Count int    `json:"count" yaml:"count"` // number of parts; at least 1
	What  string `json:"what" yaml:"what"`   // kind of the parts, such as "cables to other hosts"
	Why   string `json:"why" yaml:"why"`     // why the topology does not have the parts
}

// String renders the entry, such as "cables to other hosts (4), because …".
func (l LeftOut) String() string { return fmt.Sprintf("%s (%d), because %s", l.What, l.Count, l.Why) }

// Remarks returns sentences for people. The sentences say what [Load] chose itself, and what Load
// left out of the file. The sentences also name neighbours without a cable, and parts of the
// machine that no cable joins. If "short" is true, the sentences leave out that the coordinates in
// a file give the rows and columns.
func (t *Topology) Remarks(short bool) []string {
	var s []string
	if t.Layout != "" && !(short && t.Layout == PlacedByCoordinates) {
		s = append(s, "Layout: "+t.Layout+".")
	}
	for _, l := range t.LeftOut {
		s = append(s, "Left out of the file: "+l.String()+".")
	}
	for _, x := range []string{t.remarkMissing(), t.remarkParts()} {
		if x != "" {
			s = append(s, x)
		}
	}
	return s
}

// leave notes that the topology does not have n parts of the file.
func leave(list *[]LeftOut, n int, what, why string) {
	if n > 0 {
		*list = append(*list, LeftOut{n, what, why})
	}
}

// readLeftOut reads the key left_out of the rendered form.
func (r *renderedFile) readLeftOut(n *yaml.Node, ps []pair) error {
	var l LeftOut
	for _, p := range ps {
		var err error
		var v uint64
		switch p.key.Value {
		case "count":
			v, err = r.number(p.val, "count", 1<<31-1)
			l.Count = int(v)
		case "what":
			l.What, err = r.scalar(p.val, "what")
		case "why":
			l.Why, err = r.scalar(p.val, "why")
		default:
			return r.unknown(p)
		}
		if err != nil {
			return err
		}
	}
	if l.Count < 1 || l.What == "" || l.Why == "" {
		return r.fail(n, "left_out: want count (at least 1), what and why")
	}
	r.t.LeftOut = append(r.t.LeftOut, l)
	return nil
}
