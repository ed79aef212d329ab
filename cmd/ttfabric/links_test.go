package main

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"ttfabric/node/fabric/spec"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

func machine(t *testing.T, name string) *topo.Topology {
	t.Helper()
	m, err := topo.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func names(ls []topo.Link) string {
	var out []string
	for _, l := range ls {
		out = append(out, l.String())
	}
	return strings.Join(out, " ")
}

func TestParseLinks(t *testing.T) {
	m := machine(t, "n300")
	for _, c := range []struct{ args, want string }{
		{"M0D0:8", "M0D0/8-M0D1/0"},
		{"M0D0/8", "M0D0/8-M0D1/0"},
		{"m0d1:0", "M0D1/0-M0D0/8"}, // the end that is written is a
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
		{"M0D1:1 plane:0 all", "M0D0/8-M0D1/0 M0D1/1-M0D0/9"}, // each once, as it was first named
	} {
		ls, err := parseLinks(m, strings.Fields(c.args))
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
		"M0D7*":          "fits no chip",
		"M0D0-":          "chip \"\"",
		"M0D0-M0D1-M0D0": "M0D1-M0D0",
	} {
		_, err := parseLinks(m, []string{arg})
		var code *codedError
		if !errors.As(err, &code) || code.code != exitUsage || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "link \""+arg+"\"") {
			t.Errorf("%s: %v, want it to say %q", arg, err, want)
		}
	}
}

// Over two meshes a pattern finds the cables that join them, and the ends are by the side that was written.
func TestLinksBetweenMeshes(t *testing.T) {
	m := machine(t, "2xt3000")
	ls, err := parseLinks(m, []string{"M1D*-M0D*"})
	if err != nil || len(ls) == 0 {
		t.Fatal(err, ls)
	}
	for _, l := range ls {
		if l.A.Node.Mesh != 1 || l.B.Node.Mesh != 0 {
			t.Errorf("%s", l)
		}
	}
	where, err := spec.Ends(ls, "a-to-b")
	if err != nil {
		t.Fatal(err)
	}
	for n := range where {
		if n.Mesh != 1 {
			t.Errorf("a-to-b impairs what %s sends", n)
		}
	}
	back, _ := spec.Ends(ls, "b-to-a")
	both, _ := spec.Ends(ls, "both")
	if len(both) != len(where)+len(back) {
		t.Errorf("%v, %v, %v", where, back, both)
	}
	if _, err := spec.Ends(ls, "up"); err == nil || !strings.Contains(err.Error(), "a-to-b") {
		t.Error(err)
	}
	cut, err := between(m, []string{"M0D*", "M1D*"})
	if err != nil || len(cut) != len(ls) {
		t.Errorf("%v, %s", err, names(cut))
	}
	rest, err := between(m, []string{"M1D*"})
	if err != nil || len(rest) != len(ls) {
		t.Errorf("%v, %s", err, names(rest))
	}
	for _, bad := range [][]string{{"M0D*", "M0D1,M1D*"}, {"*"}, {"M0D0", "M1D7"}, {"M0D99"}, {"M0D0,"}} {
		if ls, err := between(m, bad); err == nil && !slices.Equal(bad, []string{"M0D0", "M1D7"}) {
			t.Errorf("%v cuts %s", bad, names(ls))
		}
	}
}

// Whatever the shell completes is read.
func TestLinkNamesAreLinks(t *testing.T) {
	for _, name := range []string{"n300", "t3000", "2xt3000", "torus:4x4"} {
		m := machine(t, name)
		for _, channels := range []bool{false, true} {
			for _, word := range linkNames(m, channels) {
				if _, err := parseLinks(m, []string{word}); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
	}
}

func TestParseDeclared(t *testing.T) {
	m := machine(t, "n300")
	d, err := spec.ParseImpairment(m, "M0D0:8,delay=1ms,loss-gemodel=1%,10%,70%,seed=7,direction=b-to-a,loss=1%")
	if err != nil || *d.seed != 7 || d.change["delay"] != "1ms" || d.change["loss"] != "1%" || d.change["loss-gemodel"] != "1%,10%,70%" || len(d.change) != 3 {
		t.Errorf("%v: %+v", err, d)
	}
	if got := d.where[wire.FabricNodeID{Chip: 1}]; len(d.where) != 1 || !slices.Equal(got, []wire.Channel{0}) {
		t.Errorf("%v", d.where)
	}
	for in, want := range map[string]string{
		"M0D0:8":                    "KNOB=VALUE",
		"delay=1ms":                 "link \"delay=1ms\"",
		"all,delay=1":               "unit",
		"all,loss=1,seed=x":         "seed",
		"all,loss=1,direction=left": "a-to-b",
		"all,speed=9":               "delay, jitter",
	} {
		if _, err := spec.ParseImpairment(m, in); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "--netem") {
			t.Errorf("%s: %v, want it to say %q", in, err, want)
		}
	}
}
