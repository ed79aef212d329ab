// Package top shows the picture of a fabric on a terminal: totals, the cables in order of trouble or
// load, and the latest events.
package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"ttfabric/node/fabric/picture"
)

// Orders are the orders in which a screen lists the cables.
var Orders = []string{"state", "load", "resent"}

// View is one screen.
type View struct {
	Machine *picture.Machine
	State   *picture.State
	Events  []picture.Event // oldest first
	Loads   Loads
	Order   string // one of Orders
	Width   int    // columns of the terminal
	Height  int    // rows of the terminal
	Colour  bool   // use colours
}

// Loads holds the latest loads of each cable, and of the whole fabric at the end, for small plots.
type Loads [][]int

// kept is the number of loads of a cable.
const kept = 12

// Add adds the loads of a state.
func (l *Loads) Add(s *picture.State) {
	for len(*l) <= len(s.Cables) {
		*l = append(*l, nil)
	}
	for i := range *l {
		n := s.Total.Bytes
		if i < len(s.Cables) {
			n = load(&s.Cables[i])
		}
		if row := append((*l)[i], n); len(row) > kept {
			(*l)[i] = row[1:]
		} else {
			(*l)[i] = row
		}
	}
}

func load(c *picture.CableState) int { return c.AB.Bytes + c.BA.Bytes }

// Colours of a terminal.
const (
	plain, bold, dim   = "\x1b[0m", "\x1b[1m", "\x1b[2m"
	red, green, yellow = "\x1b[31m", "\x1b[32m", "\x1b[33m"
	blue, purple       = "\x1b[34m", "\x1b[35m"
)

var stateColours = map[string]string{picture.Up: green, picture.Fallback: yellow, picture.Out: dim, picture.Training: blue, picture.Held: purple, picture.Off: red, picture.Unknown: red}

// eventRows returns how many rows a screen of the given height has for events.
func eventRows(height int) int { return max(0, min(8, (height-8)/3)) }

// String returns the lines of the screen. No line is longer than the terminal, and there are no more
// lines than rows.
func (v *View) String() string {
	s := v.State
	var lines []string
	add := func(colour, text string) { lines = append(lines, v.line(colour, text)) }
	add(bold, fmt.Sprintf("%s   %s   %s", v.Machine.Fabric, v.Machine.Summary, s.Time.Local().Format(time.TimeOnly)))
	add("", v.totals())
	if len(v.Loads) > 0 {
		add(dim, "load "+plot(v.Loads[len(v.Loads)-1], 0))
	}
	for i, c := range s.Chips {
		if c.State != picture.Answers && c.State != picture.Waiting {
			add(red, v.Machine.Chips[i].Name+" "+c.State)
		}
	}
	add(dim, v.row("CABLE", "STATE", "A TO B", "B TO A", "USE", "RESENT", "LOAD", "NOTE"))
	events := v.Events[max(0, len(v.Events)-eventRows(v.Height)):]
	room := max(1, v.Height-len(lines)-len(events)-2)
	order := v.order()
	most := 1
	for i := range s.Cables {
		most = max(most, load(&s.Cables[i]))
	}
	for k, i := range order {
		if k == room-1 && len(order) > room {
			add(dim, fmt.Sprintf("and %d further cables", len(order)-k))
			break
		}
		colour, text := v.cable(i, most)
		add(colour, text)
	}
	if len(events) > 0 {
		add(dim, "EVENTS")
	}
	for _, e := range events {
		add(map[string]string{picture.KindFault: red, picture.KindLoss: red, picture.KindDown: yellow, picture.KindGood: green}[e.Kind], e.Time.Local().Format("15:04:05.000")+" "+e.Text)
	}
	if v.Height > 0 && len(lines) > v.Height-1 {
		lines = lines[:max(1, v.Height-1)]
	}
	return strings.Join(lines, "\n") + "\n"
}

// line shortens a text to the width of the terminal, and replaces what a terminal would take as a
// command. Names and events may come from a file.
func (v *View) line(colour, text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
	if v.Width > 0 && utf8.RuneCountInString(text) > v.Width {
		text = string([]rune(text)[:max(0, v.Width-1)]) + "…"
	}
	if colour == "" || !v.Colour {
		return text
	}
	return colour + text + plain
}

func (v *View) totals() string {
	t := &v.State.Total
	words := []string{fmt.Sprintf("chips %d/%d", t.Answer, len(v.Machine.Chips))}
	for _, state := range picture.CableStates {
		if n := t.States[state]; n > 0 && state != picture.Unused {
			words = append(words, fmt.Sprintf("%d %s", n, state))
		}
	}
	if t.Cut > 0 {
		words = append(words, fmt.Sprintf("%d cut", t.Cut))
	}
	if t.Impaired > 0 {
		words = append(words, fmt.Sprintf("%d impaired", t.Impaired))
	}
	return strings.Join(append(words, picture.Rate(t.Bytes), fmt.Sprintf("%d sent again/s", t.Resent), fmt.Sprintf("%d lost", t.Lost+t.Dropped), fmt.Sprintf("%d requests open", t.Open), fmt.Sprintf("%d packets held", t.InFlight)), "   ")
}

// wide is the least number of columns of a terminal that has room for plots beside notes.
const wide = 120

// row lays out the columns of a cable. On a narrow terminal, row leaves out the plot.
func (v *View) row(cells ...string) string {
	if v.Width > 0 && v.Width < wide {
		return fmt.Sprintf("%-21s %-15s %10s %10s %5s %7s  %s", cells[0], cells[1], cells[2], cells[3], cells[4], cells[5], cells[7])
	}
	return fmt.Sprintf("%-21s %-15s %10s %10s %5s %7s  %-12s  %s", cells[0], cells[1], cells[2], cells[3], cells[4], cells[5], cells[6], cells[7])
}

// cable returns the colour and the row of cable i.
func (v *View) cable(i, most int) (colour, text string) {
	c := &v.State.Cables[i]
	state, note := c.State, []string{}
	colour = stateColours[c.State]
	if c.Cut {
		if state, colour = "cut", red; c.State != picture.Up && c.By == "" {
			note = append(note, c.State)
		}
	}
	for _, x := range []struct {
		is   bool
		text string
	}{{c.By != "", "by " + c.By}, {c.Impaired != "", "impaired: " + c.Impaired}, {c.Silent, "silent"}, {c.Avoided, "taken out"}, {c.Unreliable, "unreliable"}, {c.Miswired != "", "leads to " + c.Miswired},
		{c.Router != "", "router " + c.Router}, {c.Training && c.State != picture.Training, "trains"}} {
		if x.is {
			note = append(note, x.text)
		}
	}
	plotted := ""
	if i < len(v.Loads) {
		plotted = plot(v.Loads[i], most)
	}
	return colour, strings.TrimRight(v.row(v.Machine.Cables[i].Name, state, picture.Rate(c.AB.Bytes), picture.Rate(c.BA.Bytes), fmt.Sprintf("%.0f %%", 100*max(c.AB.Use, c.BA.Use)), fmt.Sprint(c.AB.Resent+c.BA.Resent), plotted, strings.Join(note, ", ")), " ")
}

// order returns the positions of the cables in the order of the screen. In each order, trouble stays
// above cables of equal rank.
func (v *View) order() []int {
	var list []int
	for i := range v.State.Cables {
		if v.State.Cables[i].State != picture.Unused {
			list = append(list, i)
		}
	}
	rank := func(i int) int {
		c := &v.State.Cables[i]
		switch v.Order {
		case "load":
			return -load(c)
		case "resent":
			return -c.AB.Resent - c.BA.Resent
		}
		n := -slices.Index(picture.CableStates, c.State) * 4
		if c.Cut {
			n -= 100
		} else if c.Impaired != "" || c.Silent || c.Router != "" {
			n--
		}
		return n
	}
	slices.SortStableFunc(list, func(a, b int) int { return cmp.Compare(rank(a), rank(b)) })
	return list
}

// plot returns values as bars. The argument "most" is the value of the highest bar; 0: the largest value.
func plot(values []int, most int) string {
	if most == 0 {
		most = max(1, slices.Max(append([]int{1}, values...)))
	}
	bars := []rune("▁▂▃▄▅▆▇█")
	var b strings.Builder
	for _, n := range values {
		b.WriteRune(bars[min(len(bars)-1, n*len(bars)/most)])
	}
	return b.String()
}
