package textproto

import (
	"bytes"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"
)

// cpu returns the processor time that the test's process has used.
func cpu(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func TestValues(t *testing.T) {
	m, err := Parse([]byte("a: 0x1F b: -3 c: 017 d: 1_0 e: 0b1 f: True g: f h: 2 i: RING j: 'x' \"y\\\"\\?\" k: [ 1, RED ] l { m < n: t > }"))
	if err != nil {
		t.Fatal(err)
	}
	f := map[string]*Field{}
	for i := range m.Fields {
		f[m.Fields[i].Name] = &m.Fields[i]
	}
	for name, want := range map[string]uint64{"a": 31, "c": 15, "h": 2} {
		if got, ok := f[name].Uint(); !ok || got != want {
			t.Errorf("%s is %d, %t; want %d", name, got, ok, want)
		}
	}
	for _, name := range []string{"b", "d", "e", "f", "i", "j", "l"} {
		if got, ok := f[name].Uint(); ok {
			t.Errorf("%s is the number %d", name, got)
		}
	}
	for in, want := range map[string][2]bool{"true": {true, true}, "True": {true, true}, "t": {true, true}, "1": {true, true}, "0x1": {true, true},
		"false": {false, true}, "False": {false, true}, "f": {false, true}, "0": {false, true}, "2": {}, "TRUE": {}, "yes": {}, "-1": {}, "'true'": {}} {
		m, err := Parse([]byte("b: " + in))
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := m.Fields[0].Bool(); ok != want[1] || ok && got != want[0] {
			t.Errorf("%s is %t, %t; want %v", in, got, ok, want)
		}
	}
	for in, want := range map[string]string{"LINE": "LINE", "RING": "RING", "1": "LINE", "2": "RING", "0": "", "3": "", "line": "", "'LINE'": "", "-1": ""} {
		m, err := Parse([]byte("e: " + in))
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := m.Fields[0].Enum("", "LINE", "RING"); ok != (want != "") || ok && got != want {
			t.Errorf("%s is %q, %t; want %q", in, got, ok, want)
		}
	}
	if got := f["j"].Text; got != `xy"?` {
		t.Errorf("the strings are %q", got)
	}
	if k := m.Fields[len(m.Fields)-2]; k.Name != "k" || k.Text != "RED" {
		t.Errorf("the list ends with %+v", k)
	}
}

// TestLargeFilesEndSoon finds that the reader takes time in proportion to the length of the file. A
// reader in quadratic time would take minutes for the consecutive strings, and hours for the escapes.
func TestLargeFilesEndSoon(t *testing.T) {
	const size, limit = 4 << 20, 20 * time.Second
	for name, in := range map[string][2]string{
		"strings":  {"a: ", "\"M\" "},
		"empty":    {"a: ", "'' "},
		"escapes":  {"a: '", "\\\""},
		"numbers":  {"", "a:1 "},
		"list":     {"a: [0", ",1"},
		"comments": {"a: 'x' ", "# \"M\"\n"},
		"lines":    {"a: 'x'", "\n"},
		"minus":    {"a: ", "- "},
		"messages": {"", "a{}"},
	} {
		data := append([]byte(in[0]), bytes.Repeat([]byte(in[1]), size/len(in[1]))...)
		begin := cpu(t)
		_, err := Parse(data)
		took := cpu(t) - begin
		if took > limit {
			t.Errorf("%s took %s", name, took)
		}
		t.Logf("%s: %s of processor time, error %.80v", name, took, err)
	}
}

func TestFaults(t *testing.T) {
	for in, want := range map[string]string{
		"a {\n b:":                         "line 2: not a textual protobuf: the end of the file, want a value of b",
		"a: 1\n}":                          `line 2: not a textual protobuf: "}", want the name of a field`,
		"[x":                               `line 1: not a textual protobuf: the end of the file, want "]" after an extension's name`,
		"a: [1,]":                          `line 1: not a textual protobuf: "]", want a value after the comma`,
		"a: [[1]]":                         `line 1: not a textual protobuf: "[", want a value, because lists do not nest`,
		"a: '\n'":                          "line 1: not a textual protobuf: the string that begins here has no end on this line",
		"a: '\\":                           "line 1: not a textual protobuf: a string has an unknown escape after \\",
		"a: " + strings.Repeat("{a:", 40):  "line 1: messages nest deeper than 32",
		"a: " + strings.Repeat("[{a:", 40): "line 1: messages and lists nest deeper than 32",
		"1: 2":                             `line 1: not a textual protobuf: "1", want the name of a field`,
	} {
		if _, err := Parse([]byte(in)); err == nil || err.Error() != want {
			t.Errorf("%q:\n got %v\nwant %s", in, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"a: 1", "a { b: [1, 'x'] } c < d: -1.5e+3 >", "[p.e] { x: 'a' \"b\\060\" } ; # c\n", "a: \"\\xff\\?\\'\"", "\uFEFFa:1", "a: - 1", "a {"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Parse(b)
		var e *Error
		if err != nil && (!errors.As(err, &e) || e.Line < 1 || e.Line > 1+bytes.Count(b, []byte("\n"))) {
			t.Fatalf("%T %v", err, err)
		}
		if err == nil {
			check(t, m, 0)
		}
	})
}

// check finds that a message is whole: each field has a name, a line and a value of its kind.
func check(t *testing.T, m *Message, depth int) {
	if depth > MaxDepth {
		t.Fatal("too deep")
	}
	for i := range m.Fields {
		f := &m.Fields[i]
		if f.Name == "" || f.Line < 1 || (f.Kind == Nested) != (f.Msg != nil) || f.Show() == "" {
			t.Fatalf("field %+v", f)
		}
		_, isBool := f.Bool()
		_, isUint := f.Uint()
		if f.Kind != Word && (isBool || isUint) {
			t.Fatalf("field %+v is a number or a boolean", f)
		}
		if f.Msg != nil {
			check(t, f.Msg, depth+1)
		}
	}
}
