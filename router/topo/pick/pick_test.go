package pick

import (
	"strings"
	"testing"

	"ttfabric/router/topo"
)

func names(ls []topo.Link) string {
	var out []string
	for _, l := range ls {
		out = append(out, l.String())
	}
	return strings.Join(out, " ")
}

// TestParseLinks finds that Links finds cables by their names. The error must quote a bad
// name.
func TestParseLinks(t *testing.T) {
	m := named(t, "n300")
	for _, c := range []struct{ args, want string }{
		{"M0D0:8", "M0D0/8-M0D1/0"},
		{"M0D0/8", "M0D0/8-M0D1/0"},
		{"m0d1:0", "M0D1/0-M0D0/8"}, // the end in the name becomes end A
		{"M0D0-M0D1", "M0D0/8-M0D1/0 M0D0/9-M0D1/1"},
		{"M0D1-M0D0", "M0D1/0-M0D0/8 M0D1/1-M0D0/9"},
		{"M0D0-M0D1/p1", "M0D0/9-M0D1/1"},
		{"M0D0/8-M0D1:0", "M0D0/8-M0D1/0"},
		{"1", "M0D1/0-M0D0/8 M0D1/1-M0D0/9"},
		{"0:1/1", "M0D1/1-M0D0/9"},
		{"M0D1/p0", "M0D1/0-M0D0/8"},
		{"all", "M0D0/8-M0D1/0 M0D0/9-M0D1/1"},
		{"all/p1", "M0D0/9-M0D1/1"},
		{"plane:1", "M0D0/9-M0D1/1"},
		{"M0D[1-3]-M0D[0]", "M0D1/0-M0D0/8 M0D1/1-M0D0/9"},
		{"M?D*", "M0D0/8-M0D1/0 M0D0/9-M0D1/1"},
		{"M0D1:1 plane:0 all", "M0D0/8-M0D1/0 M0D1/1-M0D0/9"}, // each cable once, with the ends in the order of the first name
	} {
		ls, err := Links(m, strings.Fields(c.args))
		if err != nil || names(ls) != c.want {
			t.Errorf("%s: %v, %s, want %s", c.args, err, names(ls), c.want)
		}
	}
	for arg, want := range map[string]string{
		"":               "chip \"\"",
		"M0D9":           "chip M0D9 is not in n300",
		"M0D0-M0D9":      "chip M0D9 is not in n300",
		"M0D0-M0D0":      "no such cable",
		"M0D0:3":         "no such cable",
		"M0D0:16":        "channel \"16\": want 0 to 15",
		"M0D0:x":         "channel \"x\"",
		"M0D0/px":        "planes 0 to 1",
		"plane:2":        "planes 0 to 1",
		"plane:":         "planes 0 to 1",
		"M0D[":           "bracket",
		"M0D7*":          "matches no chip",
		"M0D0-":          "chip \"\"",
		"M0D0-M0D1-M0D0": "M0D1-M0D0",
	} {
		_, err := Links(m, []string{arg})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "link \""+arg+"\"") {
			t.Errorf("%s: %v, want it to say %q", arg, err, want)
		}
	}
}

func named(t *testing.T, name string) *topo.Topology {
	t.Helper()
	m, err := topo.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	return m
}
