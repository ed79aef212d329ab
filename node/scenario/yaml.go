package scenario

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"ttfabric/router/topo/yamldoc"
)

// Error is a mistake in a scenario file.
type Error struct {
	File   string
	Line   int    // number of the line, from 1; 0: the mistake concerns the whole file
	Reason string // what is wrong, and what is allowed
}

// Error returns "FILE:LINE: reason".
func (e *Error) Error() string {
	if e.Line == 0 {
		return e.File + ": " + e.Reason
	}
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Reason)
}

// reader reads the values of one scenario file. A reader keeps the first error. After an error, the
// methods of the reader return values without a meaning.
type reader struct {
	path string
	err  error
}

// fail keeps an error about a line, if the reader has no error yet.
func (r *reader) fail(line int, format string, a ...any) {
	if r.err == nil {
		r.err = &Error{r.path, line, fmt.Sprintf(format, a...)}
	}
}

// root returns the root of the file's YAML document. If the file does not have exactly one
// document, root keeps an error.
func (r *reader) root(data []byte) *yaml.Node {
	root, second, err := yamldoc.Parse(data)
	if second != nil {
		r.fail(second.Line, "a second YAML document begins here; want a file with one document")
	}
	switch {
	case err != nil:
		line, complaint := yamldoc.Place(err)
		r.fail(line, "not YAML: %s", complaint)
	case root == nil:
		r.fail(0, "the file is empty; 'ttfabric scenario show partition' prints an example")
	}
	return root
}

// fields returns the values of a YAML map, by key. If n is no map, or if the map has an unknown
// key, a key twice or an alias, fields keeps an error. If n is nil, fields returns an empty map.
func (r *reader) fields(n *yaml.Node, what string, known []string) map[string]*yaml.Node {
	out := map[string]*yaml.Node{}
	if n == nil {
		return out
	}
	if n.Kind != yaml.MappingNode {
		r.fail(n.Line, "%s is %s; want a map with keys such as %s", what, kindOf(n), strings.Join(known[:min(3, len(known))], ", "))
		return out
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if !slices.Contains(known, k.Value) || k.Kind != yaml.ScalarNode {
			r.fail(k.Line, "%s has no key %q%s", what, k.Value, orList(nearest(k.Value, known), known))
			return out
		}
		if _, twice := out[k.Value]; twice {
			r.fail(k.Line, "%s has the key %q twice", what, k.Value)
		}
		if alias := yamldoc.Alias(v); alias != "" {
			r.fail(v.Line, "%s", alias)
			return out
		}
		out[k.Value] = v
	}
	return out
}

// orList returns the end of an error message about an unknown word. If near is not "", the message
// asks whether near was meant. Otherwise the message lists all known words.
func orList(near string, known []string) string {
	if near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return "; want one of " + strings.Join(known, ", ")
}

// kindOf describes a YAML value for error messages, for example as "a list".
func kindOf(n *yaml.Node) string {
	if kind := yamldoc.Kind(n); kind != "" {
		return kind
	}
	if n.ShortTag() == "!!null" {
		return "left empty"
	}
	return strconv.Quote(n.Value)
}

// list returns the entries of a YAML list. If the value is missing, list returns nil. If the value
// is no list, or has more entries than the parameter "most", list keeps an error.
func (r *reader) list(n *yaml.Node, what string, most int) []*yaml.Node {
	switch {
	case n == nil:
		return nil
	case n.Kind != yaml.SequenceNode:
		r.fail(n.Line, "%s is %s; want a list, with a dash before each entry", what, kindOf(n))
		return nil
	case len(n.Content) > most:
		r.fail(n.Line, "%s has %d entries; want at most %d entries", what, len(n.Content), most)
		return nil
	}
	return n.Content
}

// text returns a text. If the value is missing, text returns "".
func (r *reader) text(n *yaml.Node, what string) string {
	if n == nil {
		return ""
	}
	if n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" {
		r.fail(n.Line, "%s is %s; want a text", what, kindOf(n))
		return ""
	}
	return n.Value
}

// oneOf returns a text. If the text is none of the given words, oneOf keeps an error. If the value
// is missing, oneOf returns "".
func (r *reader) oneOf(n *yaml.Node, what string, words ...string) string {
	s := r.text(n, what)
	if n != nil && !slices.Contains(words, s) {
		r.fail(n.Line, "%s %q%s", what, s, orList(nearest(s, words), words))
	}
	return s
}

// time returns a duration from least to most, which the file writes with a unit. If the value is
// missing, time returns 0.
func (r *reader) time(n *yaml.Node, what string, least, most time.Duration) time.Duration {
	if n == nil {
		return 0
	}
	d, err := time.ParseDuration(r.text(n, what))
	if err != nil || d < least || d > most {
		r.fail(n.Line, "%s %q: want a time from %v to %v with its unit, such as 500ms or 2s", what, n.Value, least, most)
		return 0
	}
	return d
}

// count returns a whole number from least to most. If the value is missing, count returns 0.
func (r *reader) count(n *yaml.Node, what string, least, most uint64) uint64 {
	if n == nil {
		return 0
	}
	v, err := strconv.ParseUint(r.text(n, what), 10, 64)
	if err != nil || v < least || v > most {
		r.fail(n.Line, "%s %q: want a whole number from %d to %d", what, n.Value, least, most)
		return 0
	}
	return v
}

// number returns a number from least to most, which may have a fraction. If the value is missing,
// number returns 0.
func (r *reader) number(n *yaml.Node, what string, least, most float64) float64 {
	if n == nil {
		return 0
	}
	v, err := strconv.ParseFloat(r.text(n, what), 64)
	if err != nil || !(v >= least && v <= most) {
		r.fail(n.Line, "%s %q: want a number from %g to %g", what, n.Value, least, most)
		return 0
	}
	return v
}

// yes returns true if the value is true. If the value is false or missing, yes returns false.
func (r *reader) yes(n *yaml.Node, what string) bool {
	if n == nil {
		return false
	}
	return r.oneOf(n, what, "true", "false") == "true"
}

// nearest returns the known word that is most similar to word. If no known word is similar, nearest
// returns "".
func nearest(word string, known []string) string {
	best, at := "", len(word)/3+2 // best is the most similar word so far; a more similar word has a distance below at
	for _, k := range known {
		if d := distance(word, k); d < at {
			best, at = k, d
		}
	}
	return best
}

// longWord is the number of bytes of a word that distance compares, counted from the first byte.
const longWord = 40

// distance returns how many bytes of a must be replaced, added or removed to get b (the Levenshtein
// distance). distance compares only the first [longWord] bytes.
func distance(a, b string) int {
	a, b = a[:min(len(a), longWord)], b[:min(len(b), longWord)]
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range a {
		corner := row[0]
		row[0] = i + 1
		for j := range b {
			cost := corner
			if a[i] != b[j] {
				cost++
			}
			corner = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
