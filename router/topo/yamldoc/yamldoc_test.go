package yamldoc

import (
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]struct {
		root   string // value of the root; "": no root
		second int    // line of the second document; 0: none
		err    string
	}{
		"":                   {},
		"# only a comment\n": {},
		"word":               {root: "word"},
		"one\n---\ntwo\n":    {root: "one", second: 2},
		"a: [1\n":            {err: "did not find expected"},
		"one\n---\na: [1\n":  {err: "did not find expected"},
		"a: \x01":            {err: "control characters are not allowed"},
		"a: *b":              {err: "unknown anchor"},
	} {
		root, second, err := Parse([]byte(text))
		switch {
		case want.err != "":
			if err == nil || !strings.Contains(err.Error(), want.err) || root != nil || second != nil {
				t.Errorf("%q: %v %v %v", text, root, second, err)
			}
		case err != nil || (root != nil) != (want.root != "") || (second != nil) != (want.second > 0):
			t.Errorf("%q: %v %v %v", text, root, second, err)
		case root != nil && root.Value != want.root, second != nil && second.Line != want.second:
			t.Errorf("%q: %+v, %+v", text, root, second)
		}
	}
}

func TestPlace(t *testing.T) {
	for text, want := range map[string]struct {
		line      int
		complaint string
	}{
		"a: 1\nb: [1\nc: 2\n": {1, "did not find expected ',' or ']'"},
		"a: *b":               {0, "unknown anchor 'b' referenced"},
		"a: \x01":             {0, "control characters are not allowed"},
	} {
		_, _, err := Parse([]byte(text))
		if err == nil {
			t.Errorf("%q is read", text)
		} else if line, complaint := Place(err); line != want.line || complaint != want.complaint {
			t.Errorf("%q: line %d, %q; want %d, %q", text, line, complaint, want.line, want.complaint)
		}
	}
}

func TestNodes(t *testing.T) {
	root, _, err := Parse([]byte("- {}\n- []\n- &x word\n- *x\n- ~\n-\n- null\n- 'null'\n"))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		kind string
		null bool
	}{{"a map", false}, {"a list", false}, {"", false}, {"an alias", false}, {"", true}, {"", true}, {"", true}, {"", false}} {
		n := root.Content[i]
		if Kind(n) != want.kind || Null(n) != want.null || (Alias(n) != "") != (n.Kind == yaml.AliasNode) {
			t.Errorf("%d: %q, left out %v, %q", i, Kind(n), Null(n), Alias(n))
		}
	}
	if got := Alias(root.Content[3]); got != "*x is a YAML alias, which is not supported; write the value out" {
		t.Errorf("%q", got)
	}
}
