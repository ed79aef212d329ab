// Package textproto reads textual protobuf without a schema (protobuf.dev, "Text Format Language").
//
// The values of fields are words, numbers, strings, messages or lists. The reader keeps fields with
// unknown names, and keeps the line of each field for error messages. The reader takes time in
// proportion to the length of the file. A caller that knows the schema reads the value of a field
// with [Field.Uint], [Field.Bool] or [Field.Enum].
package textproto

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// MaxDepth is the largest depth to which messages and lists may nest. Mesh graph descriptors need a
// depth of about six.
const MaxDepth = 32

// maxShown is the largest number of bytes of a value that an error message quotes.
const maxShown = 40

// Error is a fault in the content of a file.
type Error struct {
	Line   int // number of the line, counted from 1
	Reason string
}

// Error returns the fault in the form "line 3: reason".
func (e *Error) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Reason) }

// Message is a message, with its fields in the order of the file. Each entry of a list is a field of
// its own.
type Message struct {
	Line   int // line at which the message begins
	Fields []Field
}

// Kind is the kind of a field's value.
type Kind byte

// Kinds of values.
const (
	Word   Kind = 'w' // a word or a number
	String Kind = 's'
	Nested Kind = 'm' // a message
)

// Field is one field of a message, with its value.
type Field struct {
	Name string // "[]" for an extension
	Line int
	Kind Kind
	Text string   // value, if it is a string, word or number
	Msg  *Message // value, if it is a message
}

// Show returns the value in the form that error messages quote.
func (f *Field) Show() string {
	if f.Kind == Nested {
		return "a message"
	}
	s := f.Text
	if len(s) > maxShown {
		s = strings.ToValidUTF8(s[:maxShown], "") + "…"
	}
	if f.Kind == String {
		return strconv.Quote(s)
	}
	return s
}

// number matches a whole number of at least 0.
var number = regexp.MustCompile(`^(0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)$`)

// Uint returns the value of a field that is a whole number of at least 0, in decimal, hexadecimal
// (0x) or octal (0) form. If the value is anything else, Uint reports false.
func (f *Field) Uint() (uint64, bool) {
	if f.Kind != Word || !number.MatchString(f.Text) {
		return 0, false
	}
	v, err := strconv.ParseUint(f.Text, 0, 64)
	return v, err == nil
}

// Bool returns the value of a field of the type bool. The allowed values are true, True, t and 1,
// and false, False, f and 0. If the value is anything else, Bool reports false as its second result.
func (f *Field) Bool() (value, ok bool) {
	if n, ok := f.Uint(); ok {
		return n == 1, n <= 1
	}
	switch f.Text {
	case "true", "True", "t":
		return true, f.Kind == Word
	case "false", "False", "f":
		return false, f.Kind == Word
	}
	return false, false
}

// Enum returns the value of a field of an enumeration. The argument "names" has the name of each
// value at the place of the value's number. A file may give the name or the number. Enum returns the
// name. If the enumeration has no such value, or if its name is empty, Enum reports false.
func (f *Field) Enum(names ...string) (string, bool) {
	if f.Kind != Word {
		return "", false
	}
	if n, ok := f.Uint(); ok && n < uint64(len(names)) {
		return names[n], names[n] != ""
	}
	for _, n := range names {
		if n == f.Text && n != "" {
			return n, true
		}
	}
	return "", false
}

// reader is the state of a reader of one file.
type reader struct {
	in    string
	line  int
	token string // present token: the content of a string (if str is true), a word, a number, or a sign of one byte; "" at the end of the file
	str   bool
	at    int // line of token
}

// Parse reads a whole file, and returns its fields as a message. The error is an [*Error].
func Parse(data []byte) (*Message, error) {
	r := &reader{in: strings.TrimPrefix(string(data), "\uFEFF"), line: 1}
	if err := r.next(); err != nil {
		return nil, err
	}
	return r.message("", 0)
}

func failAt(line int, format string, a ...any) error {
	return &Error{Line: line, Reason: fmt.Sprintf(format, a...)}
}

func (r *reader) wrong(want string) error {
	got := "the end of the file"
	if r.token != "" || r.str {
		got = (&Field{Kind: String, Text: r.token}).Show()
	}
	return failAt(r.at, "not a textual protobuf: %s, want %s", got, want)
}

// next reads the next token.
func (r *reader) next() error {
	for r.in != "" {
		switch r.in[0] {
		case '\n':
			r.line++
			r.in = r.in[1:]
		case ' ', '\t', '\r':
			r.in = r.in[1:]
		case '#':
			end := strings.IndexByte(r.in, '\n')
			if end < 0 {
				end = len(r.in)
			}
			r.in = r.in[end:]
		default:
			return r.take()
		}
	}
	r.token, r.str, r.at = "", false, r.line
	return nil
}

// take reads the token at the start of r.in.
func (r *reader) take() error {
	r.at, r.str = r.line, false
	switch c := r.in[0]; {
	case strings.IndexByte("{}<>[]:,;-./", c) >= 0:
		r.token, r.in = r.in[:1], r.in[1:]
	case c == '"' || c == '\'':
		return r.quoted(c)
	case word(c):
		n := 1
		for n < len(r.in) && (word(r.in[n]) || r.in[n] == '.' || (r.in[n] == '+' || r.in[n] == '-') && digit(r.in[0]) && r.in[n-1]|0x20 == 'e') {
			n++
		}
		r.token, r.in = r.in[:n], r.in[n:]
	default:
		c, _ := utf8.DecodeRuneInString(r.in)
		return failAt(r.line, "not a textual protobuf: unexpected %q", c)
	}
	return nil
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

func word(c byte) bool {
	return c == '_' || digit(c) || c|0x20 >= 'a' && c|0x20 <= 'z'
}

// quoted reads a string up to its closing quote.
func (r *reader) quoted(quote byte) error {
	r.str, r.token = true, ""
	var b strings.Builder
	in := r.in[1:]
	for {
		if in == "" || in[0] == '\n' {
			return failAt(r.line, "not a textual protobuf: the string that begins here has no end on this line")
		}
		if in[0] == quote {
			break
		}
		if len(in) > 1 && in[0] == '\\' && strings.IndexByte(`?"'`, in[1]) >= 0 { // Go lacks the escape \?, and allows only one kind of quote
			b.WriteByte(in[1])
			in = in[2:]
			continue
		}
		c, multibyte, rest, err := strconv.UnquoteChar(in, quote)
		if err != nil {
			return failAt(r.line, "not a textual protobuf: a string has an unknown escape after \\")
		}
		if multibyte {
			b.WriteRune(c)
		} else {
			b.WriteByte(byte(c))
		}
		in = rest
	}
	r.token, r.in = b.String(), in[1:]
	return nil
}

// message reads fields up to the sign "closing", or up to the end of the file if closing is "".
func (r *reader) message(closing string, depth int) (*Message, error) {
	m := &Message{Line: r.at}
	if depth > MaxDepth {
		return nil, failAt(r.at, "messages nest deeper than %d", MaxDepth)
	}
	for r.token != closing || r.str {
		name, err := r.name()
		if err != nil {
			return nil, err
		}
		line := r.at
		if err := r.next(); err != nil {
			return nil, err
		}
		colon := r.token == ":" && !r.str
		if colon {
			if err := r.next(); err != nil {
				return nil, err
			}
		}
		if err := r.value(m, Field{Name: name, Line: line}, colon, depth); err != nil {
			return nil, err
		}
		if (r.token == "," || r.token == ";") && !r.str {
			if err := r.next(); err != nil {
				return nil, err
			}
		}
	}
	return m, nil
}

// name returns the name of a field. The name of an extension is in brackets, and name returns "[]"
// for it. The last token of the name stays the present token.
func (r *reader) name() (string, error) {
	if r.token == "[" && !r.str {
		for r.token != "]" || r.str {
			if r.token == "" && !r.str {
				return "", r.wrong(`"]" after an extension's name`)
			}
			if err := r.next(); err != nil {
				return "", err
			}
		}
		return "[]", nil // no schema has a field of this name, so the callers skip the field
	}
	if r.token == "" || r.str || !word(r.token[0]) || digit(r.token[0]) {
		return "", r.wrong("the name of a field")
	}
	return r.token, nil
}

// value reads the value of a field, and appends the field to message m. The token after the value
// becomes the present token.
func (r *reader) value(m *Message, f Field, colon bool, depth int) error {
	switch {
	case r.str:
		return r.strings(m, f, colon)
	case r.token == "{" || r.token == "<":
		closing := map[string]string{"{": "}", "<": ">"}[r.token]
		open := r.at
		if err := r.next(); err != nil {
			return err
		}
		sub, err := r.message(closing, depth+1)
		if err != nil {
			return err
		}
		sub.Line = open
		f.Kind, f.Msg = Nested, sub
	case r.token == "[":
		return r.list(m, f, colon, depth)
	case !colon:
		return r.wrong("a : or { after " + f.Name)
	default:
		if r.token == "-" {
			f.Text = "-"
			if err := r.next(); err != nil {
				return err
			}
		}
		if r.token == "" || r.str || r.token != "." && !word(r.token[0]) {
			return r.wrong("a value of " + f.Name)
		}
		f.Kind, f.Text = Word, f.Text+r.token
	}
	m.Fields = append(m.Fields, f)
	return r.next()
}

// The method "strings" reads consecutive strings, such as "a" "b", which are one value.
func (r *reader) strings(m *Message, f Field, colon bool) error {
	parts := []string{r.token}
	for {
		if err := r.next(); err != nil {
			return err
		}
		if !r.str {
			break
		}
		parts = append(parts, r.token)
	}
	if !colon {
		return failAt(f.Line, "not a textual protobuf: want a : between %s and its value", f.Name)
	}
	f.Kind, f.Text = String, strings.Join(parts, "")
	m.Fields = append(m.Fields, f)
	return nil
}

// list reads [value, value …], and appends a field for each value to message m.
func (r *reader) list(m *Message, f Field, colon bool, depth int) error {
	if depth >= MaxDepth {
		return failAt(r.at, "messages and lists nest deeper than %d", MaxDepth)
	}
	if err := r.next(); err != nil {
		return err
	}
	for r.token != "]" || r.str {
		f.Line = r.at
		if r.token == "[" && !r.str {
			return r.wrong("a value, because lists do not nest")
		}
		if err := r.value(m, f, colon, depth+1); err != nil {
			return err
		}
		if r.token == "," && !r.str {
			if err := r.next(); err != nil {
				return err
			}
			if r.token == "]" && !r.str {
				return r.wrong("a value after the comma")
			}
		} else if r.token != "]" || r.str {
			return r.wrong(`"," or "]"`)
		}
	}
	return r.next()
}
