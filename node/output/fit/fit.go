// Package fit prints tables that fit the width of a terminal. If a table is too wide, the table leaves
// out its least important columns, and then shortens long texts. No line of a table wraps. A line below
// the table says what is missing. Output that goes to no terminal has all columns and whole texts.
package fit

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// Widths of cells, in characters.
const (
	border     = 1  // the left border of a table
	around     = 3  // the spaces at both sides of a cell, and the border after the cell
	shortest   = 16 // a text is shortened to this width before further columns are left out
	narrowest  = 4  // a text is shortened to this width if the table is still too wide
	noteMargin = 20 // the note below a table wraps at this width if the terminal is narrower
)

// ellipsis stands for the missing end of a shortened text.
const ellipsis = "…"

// Table is a table with rounded borders. The methods have the names of the methods of [table.Writer].
type Table struct {
	out, notes io.Writer
	width      int // width of the terminal in characters; 0: no limit
	header     table.Row
	rows       []table.Row
	footer     table.Row
	configs    []table.ColumnConfig
	least      []string
}

// New returns a table that Render prints to out. The note about missing columns goes to notes. The argument
// "width" is the width of the terminal in characters; 0: the table may have any width.
func New(out, notes io.Writer, width int, header ...any) *Table {
	return &Table{out: out, notes: notes, width: width, header: header}
}

// AppendRow adds a row.
func (t *Table) AppendRow(r table.Row) { t.rows = append(t.rows, r) }

// AppendFooter sets the last row, which a line separates from the other rows.
func (t *Table) AppendFooter(r table.Row) { t.footer = r }

// SetColumnConfigs sets the widths of columns for output that may have any width.
func (t *Table) SetColumnConfigs(c []table.ColumnConfig) { t.configs = c }

// Least names the columns that a narrow table leaves out, the least important column first. Of
// these columns, the table first leaves out those that hold only zeros and empty cells, so that a
// counted fault stays visible. If two columns have the same name, the first mention of the name
// means the right column. The second mention means the left column. After the named columns, the
// table leaves out columns from the right. The first column always stays.
func (t *Table) Least(names ...string) { t.least = names }

// Render prints the table, and a note if the table leaves out columns or shortens texts.
func (t *Table) Render() {
	if t.width == 0 {
		t.print(nil, nil)
		return
	}
	widths := t.widths()
	keep := make([]bool, len(widths))
	for i := range keep {
		keep[i] = true
	}
	order := t.order(len(widths))
	for len(order) > 0 && t.listed(order[0]) && total(widths, keep) > t.width {
		keep[order[0]], order = false, order[1:]
	}
	most := t.shorten(widths, keep, shortest)
	for len(order) > 0 && total(most, keep) > t.width {
		keep[order[0]], order = false, order[1:]
		most = t.shorten(widths, keep, shortest)
	}
	if total(most, keep) > t.width {
		most = t.shorten(widths, keep, narrowest)
	}
	t.print(keep, most)
	t.note(keep, widths, most)
}

// widths returns the width of each column.
func (t *Table) widths() []int {
	var w []int
	for _, row := range slices.Concat([]table.Row{t.header}, t.rows, []table.Row{t.footer}) {
		for i, cell := range row {
			if i == len(w) {
				w = append(w, 0)
			}
			w[i] = max(w[i], text.LongestLineLen(fmt.Sprint(cell)))
		}
	}
	return w
}

// listed reports whether [Table.Least] named the column i.
func (t *Table) listed(i int) bool {
	n := 0 // number of columns of the same name at the right of i
	for j := i + 1; j < len(t.header); j++ {
		if t.header[j] == t.header[i] {
			n++
		}
	}
	for _, name := range t.least {
		if i < len(t.header) && name == t.header[i] {
			if n == 0 {
				return true
			}
			n--
		}
	}
	return false
}

// order returns the columns in the order in which a narrow table leaves them out.
func (t *Table) order(columns int) []int {
	var out []int
	for _, name := range t.least {
		for i := len(t.header) - 1; i > 0; i-- {
			if t.header[i] == name && !slices.Contains(out, i) {
				out = append(out, i)
				break
			}
		}
	}
	slices.SortStableFunc(out, func(a, b int) int { return cmp.Compare(t.weight(a), t.weight(b)) })
	for i := columns - 1; i > 0; i-- {
		if !slices.Contains(out, i) {
			out = append(out, i)
		}
	}
	return out
}

// weight returns 0 if column i holds only zeros and empty cells, and otherwise 1.
func (t *Table) weight(i int) int {
	for _, r := range t.rows {
		if i < len(r) && strings.Trim(fmt.Sprint(r[i]), "0.- ") != "" {
			return 1
		}
	}
	return 0
}

// total returns the width of a table with the columns of keep.
func total(widths []int, keep []bool) int {
	sum := border
	for i, w := range widths {
		if keep[i] {
			sum += w + around
		}
	}
	return sum
}

// shorten returns widths of columns at which the table fits, if possible. shorten takes the excess
// from the widest columns of texts. Each of these columns keeps at least the width "least". Each
// also keeps the width of its name, but at most the width "shortest".
func (t *Table) shorten(widths []int, keep []bool, least int) []int {
	out := slices.Clone(widths)
	var can []int
	for i := range out {
		if keep[i] && t.texts(i) {
			can = append(can, i)
		}
	}
	for excess := total(out, keep) - t.width; excess > 0; excess-- {
		can = slices.DeleteFunc(can, func(i int) bool { return out[i] <= max(least, min(t.named(i), shortest)) })
		if len(can) == 0 {
			break
		}
		out[slices.MaxFunc(can, func(a, b int) int { return cmp.Compare(out[a], out[b]) })]--
	}
	return out
}

// named returns the width of the name of column i.
func (t *Table) named(i int) int {
	if i >= len(t.header) {
		return 0
	}
	return text.LongestLineLen(fmt.Sprint(t.header[i]))
}

// texts reports whether column i holds a text. A number would be wrong if its end were missing.
func (t *Table) texts(i int) bool {
	return slices.ContainsFunc(t.rows, func(r table.Row) bool {
		if i >= len(r) {
			return false
		}
		s := fmt.Sprint(r[i])
		return strings.Trim(s, "0123456789.-+%/: ") != ""
	})
}

// print prints the columns of keep; nil: all columns. The argument "most" has the largest width of each column.
func (t *Table) print(keep []bool, most []int) {
	w := table.NewWriter()
	w.SetOutputMirror(t.out)
	w.SetStyle(table.StyleRounded)
	w.Style().Format.Header = text.FormatDefault
	w.Style().Format.Footer = text.FormatDefault
	if keep == nil {
		w.SetColumnConfigs(t.configs)
	}
	w.AppendHeader(pick(t.header, keep, most))
	for _, r := range t.rows {
		w.AppendRow(pick(r, keep, most))
	}
	if t.footer != nil {
		w.AppendFooter(pick(t.footer, keep, most))
	}
	w.Render()
}

// pick returns the cells of a row in the columns of keep, shortened to the widths of most. A cell that needs
// no shortening keeps its type, because tables align numbers at the right.
func pick(r table.Row, keep []bool, most []int) table.Row {
	if keep == nil {
		return r
	}
	out := table.Row{}
	for i, cell := range r {
		if !keep[i] {
			continue
		}
		if s := fmt.Sprint(cell); text.LongestLineLen(s) > most[i] {
			cell = Short(s, most[i])
		}
		out = append(out, cell)
	}
	return out
}

// Short returns the text s if s has at most width characters. Otherwise, Short returns the first line of s,
// cut to this width, with an ellipsis as the last character.
func Short(s string, width int) string {
	if text.LongestLineLen(s) <= width {
		return s
	}
	line, _, _ := strings.Cut(s, "\n")
	for r := []rune(line); len(r) > 0; r = r[:len(r)-1] {
		if short := strings.TrimRight(string(r), " ") + ellipsis; text.StringWidth(short) <= width {
			return short
		}
	}
	return ellipsis
}

// note says which columns the table leaves out, and whether texts are shortened.
func (t *Table) note(keep []bool, widths, most []int) {
	var names []string
	cut := false
	for i := range keep {
		if !keep[i] {
			name := ""
			if i < len(t.header) {
				name = fmt.Sprint(t.header[i])
			}
			names = append(names, cmp.Or(name, "the last"))
		} else if most[i] < widths[i] {
			cut = true
		}
	}
	what := ""
	switch {
	case len(names) == 0 && !cut:
		return
	case len(names) > 0:
		what = "Columns left out: " + strings.Join(names, ", ") + "."
		if cut {
			what += " Long texts are shortened."
		}
	default:
		what = "Long texts are shortened."
	}
	note := text.WrapSoft(fmt.Sprintf("%s The terminal has %d columns; '-o wide' shows all.", what, t.width), max(t.width, noteMargin))
	for line := range strings.SplitSeq(note, "\n") {
		fmt.Fprintln(t.notes, strings.TrimRight(line, " "))
	}
}
