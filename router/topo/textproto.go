package topo

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxProtoDepth is the largest depth to which messages and lists may nest in a textual protobuf.
// Mesh graph descriptors need a depth of about six.
const maxProtoDepth = 32

// protoMessage is a message of a textual protobuf, with its fields in the order of the file. Each
// entry of a list is a field of its own.
type protoMessage struct {
	line   int
	fields []protoField
}

// protoField is one field of a message, with its value.
type protoField struct {
	name string
	line int
	kind byte          // kind of the value: 'm' message, 's' string, 'w' word or number
	text string        // value, if it is a string, word or number
	msg  *protoMessage // value, if it is a message
}

// show returns the value in the form that error messages quote.
func (f *protoField) show() string {
	if f.kind == 'm' {
		return "a message"
	}
	s := f.text
	if len(s) > maxShown {
		s = strings.ToValidUTF8(s[:maxShown], "") + "…"
	}
	if f.kind == 's' {
		return strconv.Quote(s)
	}
	return s
}

// protoReader reads textual protobuf without a schema (protobuf.dev, "Text Format Language"). The
// values of fields are words, numbers, strings, messages or lists. A protoReader also reads fields
// with unknown names.
type protoReader struct {
	file
	in    string
	line  int
	token string // present token: the content of a string (if str is true), a word, a number, or a sign of one byte; "" at the end of the file
	str   bool
	at    int // line of token
}

// parseProto reads a whole file of textual protobuf, and returns its fields as a message.
func (f file) parseProto(data []byte) (*protoMessage, error) {
	if line, what := unprintable(data); line > 0 {
		return nil, f.failAt(line, "not a textual protobuf: %s", what)
	}
	r := &protoReader{file: f, in: strings.TrimPrefix(string(data), "\uFEFF"), line: 1}
	if err := r.next(); err != nil {
		return nil, err
	}
	return r.message("", 0)
}

// failAt returns an error about a line of the file. Line 0 stands for the whole file.
func (f file) failAt(line int, format string, a ...any) error {
	return &Error{File: f.path, Line: line, Reason: fmt.Sprintf(format, a...)}
}

func (r *protoReader) wrong(want string) error {
	got := "the end of the file"
	if r.token != "" || r.str {
		got = (&protoField{kind: 's', text: r.token}).show()
	}
	return r.failAt(r.at, "not a textual protobuf: %s, want %s", got, want)
}

// next reads the next token.
func (r *protoReader) next() error {
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
func (r *protoReader) take() error {
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
		return r.failAt(r.line, "not a textual protobuf: unexpected %q", c)
	}
	return nil
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

func word(c byte) bool {
	return c == '_' || digit(c) || c|0x20 >= 'a' && c|0x20 <= 'z'
}

// quoted reads a string up to its closing quote.
func (r *protoReader) quoted(quote byte) error {
	r.str, r.token = true, ""
	var b strings.Builder
	in := r.in[1:]
	for {
		if in == "" || in[0] == '\n' {
			return r.failAt(r.line, "not a textual protobuf: the string that begins here has no end on this line")
		}
		if in[0] == quote {
			break
		}
		c, multibyte, rest, err := strconv.UnquoteChar(unproto(in), quote)
		if err != nil {
			return r.failAt(r.line, "not a textual protobuf: a string has an unknown escape after \\")
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

// unproto rewrites an escape at the start of a text if Go lacks this escape. Textual protobuf has
// the escape \?, and allows escapes of both kinds of quotes in any string.
func unproto(in string) string {
	if len(in) > 1 && in[0] == '\\' && (in[1] == '?' || in[1] == '"' || in[1] == '\'') {
		return fmt.Sprintf(`\x%02x`, in[1]) + in[2:]
	}
	return in
}

// message reads fields up to the sign "closing", or up to the end of the file if closing is "".
func (r *protoReader) message(closing string, depth int) (*protoMessage, error) {
	m := &protoMessage{line: r.at}
	if depth > maxProtoDepth {
		return nil, r.failAt(r.at, "messages nest deeper than %d", maxProtoDepth)
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
		if err := r.value(m, protoField{name: name, line: line}, colon, depth); err != nil {
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
func (r *protoReader) name() (string, error) {
	if r.token == "[" && !r.str {
		for r.token != "]" || r.str {
			if r.token == "" {
				return "", r.wrong(`"]" after an extension's name`)
			}
			if err := r.next(); err != nil {
				return "", err
			}
		}
		return "[]", nil // no descriptor has a field of this name, so the callers skip the field
	}
	if r.token == "" || r.str || !word(r.token[0]) || digit(r.token[0]) {
		return "", r.wrong("the name of a field")
	}
	return r.token, nil
}

// value reads the value of a field, and appends the field to message m. Consecutive strings, such
// as "a" "b", are one value. The token after the value becomes the present token.
func (r *protoReader) value(m *protoMessage, f protoField, colon bool, depth int) error {
	switch {
	case r.str:
		f.kind, f.text = 's', r.token
		for {
			if err := r.next(); err != nil {
				return err
			}
			if !r.str {
				break
			}
			f.text += r.token
		}
		if !colon {
			return r.failAt(f.line, "not a textual protobuf: want a : between %s and its value", f.name)
		}
		m.fields = append(m.fields, f)
		return nil
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
		sub.line = open
		f.kind, f.msg = 'm', sub
	case r.token == "[":
		return r.list(m, f, colon, depth)
	case !colon:
		return r.wrong("a : or { after " + f.name)
	default:
		if r.token == "-" {
			f.text = "-"
			if err := r.next(); err != nil {
				return err
			}
		}
		if r.token == "" || r.str || r.token != "." && !word(r.token[0]) {
			return r.wrong("a value of " + f.name)
		}
		f.kind, f.text = 'w', f.text+r.token
	}
	m.fields = append(m.fields, f)
	return r.next()
}

// list reads [value, value …], and appends a field for each value to message m.
func (r *protoReader) list(m *protoMessage, f protoField, colon bool, depth int) error {
	if depth >= maxProtoDepth {
		return r.failAt(r.at, "messages and lists nest deeper than %d", maxProtoDepth)
	}
	if err := r.next(); err != nil {
		return err
	}
	for r.token != "]" || r.str {
		f.line = r.at
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
