package still

import (
	"context"
	"errors"
	"strings"
	"testing"

	"ttfabric/node/fabric"
	"ttfabric/node/fabric/picture"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/process/processtest"
	"ttfabric/router/topo"
	"ttfabric/router/topo/draw"
	"ttfabric/router/topo/pick"
)

// TestMain lets the test binary run the chips of a fabric.
func TestMain(m *testing.M) {
	fabric.ServesChips()
	processtest.Main(m)
}

func form(t *testing.T, name string) draw.Form {
	t.Helper()
	f, ok := draw.ByName(name)
	if !ok {
		t.Fatal(name)
	}
	return f
}

// TestPlanned draws topologies that do not run. Bad routes are refused by name.
func TestPlanned(t *testing.T) {
	closed := func() (*fabric.Fabric, error) { return nil, errors.New("nothing runs") }
	for _, c := range []struct {
		form, source string
		by           picture.By
		routes       []string
		want, fails  string
	}{
		{form: "svg", source: "t3000", want: "plane 1"},
		{form: "svg", source: "t3000", routes: []string{"M0D0-M0D6", "M0D3-M0D4,plane=1"}, want: "M0D3 to M0D4, plane 1: 4 hops by M0D2, M0D1, M0D0"},
		{form: "svg", source: "mesh:4x4", routes: []string{"M0D5-M0D15,multicast"}, want: "M0D5 to 8 chips of the rectangle with M0D15, plane 0: a tree of 8 hops"},
		{form: "svg", source: "2xt3000", routes: []string{"M0D0-M1D3,multicast,plane=1"}, want: "M0D0 to 8 chips of mesh 1, plane 1: a tree of "},
		{form: "dot", source: "t3000", want: "graph"},
		{form: "dot", source: "t3000", routes: []string{"M0D0-M0D6"}, fails: "format dot"},
		{form: "svg", source: "t3000", routes: []string{"M0D0"}, fails: `route "M0D0"`},
		{form: "svg", source: "t3000", routes: []string{"M0D0-M0D6,plain=1"}, fails: "want plane=N or multicast"},
		{form: "svg", source: "t3000", routes: []string{"M0D0-M0D6,plane=2"}, fails: "plane 2"},
		{form: "svg", source: "t3000", routes: []string{"M0D0-M0D8"}, fails: "M0D8 is not in topology t3000"},
		{form: "svg", source: "t3000", routes: []string{"M0D0-x"}, fails: "x"},
		{form: "svg", source: "t3000", routes: make([]string, MaxRoutes+1), fails: "at most 8"},
		{form: "svg", source: "t3000", by: "colour", fails: "colour"},
		{form: "svg", source: "nope", fails: "nope"},
		{form: "svg", fails: "nothing runs"},
	} {
		if c.by == "" {
			c.by = picture.ByState
		}
		_, text, err := Draw(t.Context(), Wanted{Form: form(t, c.form), Source: c.source, By: c.by, Routes: c.routes, Open: closed})
		switch {
		case c.fails == "" && err != nil, c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)):
			t.Errorf("%+v: %v", c, err)
		case !strings.Contains(string(text), c.want):
			t.Errorf("%+v: the picture has no %q", c, c.want)
		}
	}
}

// TestLive draws a running fabric whose second cable is cut.
func TestLive(t *testing.T) {
	m, err := topo.Named("n300")
	if err != nil {
		t.Fatal(err)
	}
	w := fabric.Wanted{Name: "still", Topology: m, Named: "n300", Spec: spec.Default()}
	w.Spec.Profile = "crowded"
	f, err := fabric.Create(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Remove() })
	if _, err := f.Up(t.Context(), nil, nil); err != nil {
		t.Fatal(err)
	}
	s, err := f.Chips()
	if err != nil {
		t.Fatal(err)
	}
	links, err := pick.Links(m, []string{"M0D0/9-M0D1/1"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Cut(t.Context(), links, true, 0); err != nil {
		t.Fatal(err)
	}
	open := func() (*fabric.Fabric, error) { return fabric.Open(context.Background(), "still") }
	_, text, err := Draw(t.Context(), Wanted{Form: form(t, "svg"), By: picture.ByState, Routes: []string{"M0D0-M0D1"}, Open: open})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"fabric still at ", "2 of 2 chips answer", "1 cut", "M0D0 to M0D1, plane 0: 1 hop"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the picture has no %q:\n%s", want, text)
		}
	}
}
