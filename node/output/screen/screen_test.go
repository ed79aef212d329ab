package screen_test

import (
	"strings"
	"testing"

	"ttfabric/node/output/screen"
)

// TestFormats prints one value in each format. The expected texts are written by hand.
func TestFormats(t *testing.T) {
	v := struct {
		Name string `json:"name"`
		Text string `json:"text"`
		Two  []int  `json:"two"`
	}{"a", "12", []int{1, 2}}
	var got [4]strings.Builder
	for i, print := range []error{screen.JSON(&got[0], v), screen.YAML(&got[1], v), screen.JSONLine(&got[2], v), screen.YAMLItem(&got[3], v)} {
		if print != nil {
			t.Errorf("format %d: %v", i, print)
		}
	}
	for i, want := range []string{
		"{\n  \"name\": \"a\",\n  \"text\": \"12\",\n  \"two\": [\n    1,\n    2\n  ]\n}\n",
		"name: a\ntext: \"12\"\ntwo:\n  - 1\n  - 2\n",
		`{"name":"a","text":"12","two":[1,2]}` + "\n",
		`- {"name":"a","text":"12","two":[1,2]}` + "\n",
	} {
		if got[i].String() != want {
			t.Errorf("format %d: %q, want %q", i, got[i].String(), want)
		}
	}
	if err := screen.YAML(&got[1], func() {}); err == nil {
		t.Error("a function has no YAML, and the call did not fail")
	}
}

// TestProgressWithoutTerminal draws a bar on a writer that is no terminal, and expects silence.
func TestProgressWithoutTerminal(t *testing.T) {
	var b strings.Builder
	p := screen.NewProgress(&b, "links", 10)
	p.Set(3)
	p.Rename("chips", 4)
	p.Set(4)
	p.Stop()
	p.Stop()
	if b.Len() > 0 {
		t.Errorf("the bar wrote %q", b.String())
	}
}
