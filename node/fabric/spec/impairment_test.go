package spec

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"ttfabric/router/topo"
	"ttfabric/router/topo/pick"
	"ttfabric/wire"
)

// TestParseDeclared parses impairments in the notation of --netem. The error for a bad text
// must say what is wrong.
func TestParseDeclared(t *testing.T) {
	m := machine(t, "n300")
	d, err := ParseImpairment(m, "M0D0:8,delay=1ms,loss-gemodel=1%,10%,70%,seed=7,direction=b-to-a,loss=1%")
	if err != nil || *d.Seed != 7 || d.Change["delay"] != "1ms" || d.Change["loss"] != "1%" || d.Change["loss-gemodel"] != "1%,10%,70%" || len(d.Change) != 3 {
		t.Errorf("%v: %+v", err, d)
	}
	if got := d.Where[wire.FabricNodeID{Chip: 1}]; len(d.Where) != 1 || !slices.Equal(got, []wire.Channel{0}) {
		t.Errorf("%v", d.Where)
	}
	for in, want := range map[string]string{
		"M0D0:8":                    "KNOB=VALUE",
		"delay=1ms":                 "link \"delay=1ms\"",
		"all,delay=1":               "unit",
		"all,loss=1,seed=x":         "seed",
		"all,loss=1,direction=left": "a-to-b",
		"all,speed=9":               "delay, jitter",
	} {
		if _, err := ParseImpairment(m, in); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "--netem") {
			t.Errorf("%s: %v, want an error with %q", in, err, want)
		}
	}
}

func machine(t *testing.T, name string) *topo.Topology {
	t.Helper()
	m, err := topo.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestLinksBetweenMeshes selects the cables between two meshes by a pattern. End a of each
// cable must be in the mesh that the pattern names first.
func TestLinksBetweenMeshes(t *testing.T) {
	m := machine(t, "2xt3000")
	ls, err := pick.Links(m, []string{"M1D*-M0D*"})
	if err != nil || len(ls) == 0 {
		t.Fatal(err, ls)
	}
	for _, l := range ls {
		if l.A.Node.Mesh != 1 || l.B.Node.Mesh != 0 {
			t.Errorf("%s", l)
		}
	}
	where, err := Ends(ls, "a-to-b")
	if err != nil {
		t.Fatal(err)
	}
	for n := range where {
		if n.Mesh != 1 {
			t.Errorf("a-to-b impairs what %s sends", n)
		}
	}
	back, _ := Ends(ls, "b-to-a")
	both, _ := Ends(ls, "both")
	if len(both) != len(where)+len(back) {
		t.Errorf("%v, %v, %v", where, back, both)
	}
	if _, err := Ends(ls, "up"); err == nil || !strings.Contains(err.Error(), "a-to-b") {
		t.Error(err)
	}
	cut, err := pick.Between(m, "M0D*", "M1D*")
	if err != nil || len(cut) != len(ls) {
		t.Errorf("%v, %s", err, fmt.Sprint(cut))
	}
	rest, err := pick.Between(m, "M1D*", "")
	if err != nil || len(rest) != len(ls) {
		t.Errorf("%v, %s", err, fmt.Sprint(rest))
	}
	for _, bad := range [][2]string{{"M0D*", "M0D1,M1D*"}, {"*", ""}, {"M0D0", "M1D7"}, {"M0D99", ""}, {"M0D0,", ""}} {
		if ls, err := pick.Between(m, bad[0], bad[1]); err == nil && bad != [2]string{"M0D0", "M1D7"} {
			t.Errorf("%v cuts %s", bad, fmt.Sprint(ls))
		}
	}
}
