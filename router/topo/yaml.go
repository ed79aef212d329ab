package topo

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"ttfabric/router/topo/yamldoc"
)

// file is a topology file that is being read. The path of the file appears in every error message
// about the file.
type file struct {
	path string
}

// fail returns an error about the line of YAML node n. If n is nil, the error is about the whole
// file.
func (f file) fail(n *yaml.Node, format string, a ...any) error {
	e := &Error{File: f.path, Reason: fmt.Sprintf(format, a...)}
	if n != nil {
		e.Line = n.Line
	}
	return e
}

// failAt returns an error about a line of the file. Line 0 stands for the whole file.
func (f file) failAt(line int, format string, a ...any) error {
	return &Error{File: f.path, Line: line, Reason: fmt.Sprintf(format, a...)}
}

// parse returns the root of the YAML document in data, or nil if data has no document. More than
// one document is an error. The package reads YAML nodes instead of Go structs, because only nodes
// have line numbers.
func (f file) parse(data []byte) (*yaml.Node, error) {
	if line, what := unprintable(data); line > 0 {
		return nil, &Error{File: f.path, Line: line, Reason: "not YAML: " + what}
	}
	root, second, err := yamldoc.Parse(data)
	switch {
	case err != nil:
		return nil, f.syntax(err)
	case second != nil:
		return nil, f.fail(second, "a second YAML document begins here; a file must have only one document, for one machine")
	}
	return root, nil
}

// unprintable finds the first line with a character that YAML forbids (YAML 1.2.2 §5.1), and
// describes the character. The YAML parser refuses this character too, but its error does not name
// the line.
func unprintable(data []byte) (line int, what string) {
	line = 1
	for rest := data; len(rest) > 0; {
		r, n := utf8.DecodeRune(rest)
		switch {
		case r == utf8.RuneError && n == 1:
			return line, fmt.Sprintf("byte 0x%02X is not UTF-8 text", rest[0])
		case r == '\n':
			line++
		case r < ' ' && r != '\t' && r != '\r', r >= 0x7F && r < 0xA0 && r != 0x85, r == 0xFFFE, r == 0xFFFF:
			return line, fmt.Sprintf("character %U is not text", r)
		}
		rest = rest[n:]
	}
	return 0, ""
}

// syntax turns an error of the YAML parser into an [*Error] with the right line. The parser gives
// no line number for the first line. In errors about structure ("did not find expected …"), the
// parser counts lines from 0. In errors about single characters, the parser counts lines from 1.
func (f file) syntax(err error) error {
	line, complaint := yamldoc.Place(err)
	switch {
	case line > 0 && (strings.HasPrefix(complaint, "did not find expected") || complaint == "found undefined tag handle"):
		line++
	case line == 0 && !strings.HasPrefix(complaint, "unknown anchor"): // in the error "unknown anchor", the parser never gives a line
		line = 1
	}
	return &Error{File: f.path, Line: line, Err: err, Reason: "not YAML: " + complaint}
}

// pair is one entry of a mapping.
type pair struct{ key, val *yaml.Node }

// isNull returns true if n is nil or stands for no value, as in "chips:" or "chips: ~".
func isNull(n *yaml.Node) bool { return n == nil || yamldoc.Null(n) }

// noAlias returns an error if n is a YAML alias. A few lines of aliases can stand for billions of
// values, and no descriptor uses aliases.
func (f file) noAlias(n *yaml.Node) error {
	if alias := yamldoc.Alias(n); alias != "" {
		return f.fail(n, "%s", alias)
	}
	return nil
}

// pairs returns the entries of map n, or no entries if n has no value. Each key must be a plain
// word or number, and must occur only once. In error messages, the argument "what" names the map,
// and the argument "want" says what is allowed.
func (f file) pairs(n *yaml.Node, what, want string) ([]pair, error) {
	if isNull(n) {
		return nil, nil
	}
	if err := f.noAlias(n); err != nil {
		return nil, err
	}
	if n.Kind != yaml.MappingNode {
		return nil, f.fail(n, "%s: want %s", what, want)
	}
	ps := make([]pair, 0, len(n.Content)/2)
	seen := make(map[string]int, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if k.Kind != yaml.ScalarNode {
			return nil, f.fail(k, "%s: a key must be a plain word or number", what)
		}
		if line, dup := seen[k.Value]; dup {
			return nil, f.fail(k, "%s: key %q occurs already on line %d", what, k.Value, line)
		}
		seen[k.Value] = k.Line
		if err := f.noAlias(v); err != nil {
			return nil, err
		}
		ps = append(ps, pair{k, v})
	}
	return ps, nil
}

// items returns the entries of list n, or no entries if n has no value. In error messages, the
// argument "what" names the list, and the argument "want" says what is allowed.
func (f file) items(n *yaml.Node, what, want string) ([]*yaml.Node, error) {
	if isNull(n) {
		return nil, nil
	}
	if err := f.noAlias(n); err != nil {
		return nil, err
	}
	if n.Kind != yaml.SequenceNode {
		return nil, f.fail(n, "%s: want %s", what, want)
	}
	for _, v := range n.Content {
		if err := f.noAlias(v); err != nil {
			return nil, err
		}
	}
	return n.Content, nil
}

// number reads a whole number from 0 to the argument "most", in decimal, hexadecimal (0x), octal
// (0o or 0) or binary (0b) form.
func (f file) number(n *yaml.Node, what string, most uint64) (uint64, error) {
	v, err := strconv.ParseUint(n.Value, 0, 64)
	if n.Kind != yaml.ScalarNode || err != nil || v > most {
		return 0, f.fail(n, "%s %s: want a number from 0 to %d", what, show(n), most)
	}
	return v, nil
}

// boolean reads true or false, in upper or lower case.
func (f file) boolean(n *yaml.Node, what string) (bool, error) {
	switch {
	case n.Kind == yaml.ScalarNode && strings.EqualFold(n.Value, "true"):
		return true, nil
	case n.Kind == yaml.ScalarNode && strings.EqualFold(n.Value, "false"):
		return false, nil
	}
	return false, f.fail(n, "%s %s: want true or false", what, show(n))
}

// scalar reads a value that is neither a map nor a list.
func (f file) scalar(n *yaml.Node, what string) (string, error) {
	if n.Kind != yaml.ScalarNode {
		return "", f.fail(n, "%s: want a plain value, not %s", what, show(n))
	}
	return n.Value, nil
}

// maxShown is the largest number of bytes of a wrong value that an error message quotes.
const maxShown = 40

// show returns a value in the form that error messages quote.
func show(n *yaml.Node) string {
	if kind := yamldoc.Kind(n); kind != "" {
		return kind
	}
	s := n.Value
	if len(s) > maxShown {
		s = strings.ToValidUTF8(s[:maxShown], "") + "…"
	}
	return strconv.Quote(s)
}
