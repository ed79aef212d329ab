package fabric

import (
	"bytes"
	"strings"
	"testing"

	"ttfabric/node/admin/api"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// named returns a built-in topology.
func named(t *testing.T, name string) *topo.Topology {
	t.Helper()
	m, err := topo.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// viewsOf returns the reports of all chips of a topology, with all links up.
func viewsOf(t *topo.Topology) (views []api.ChipView) {
	for _, c := range t.Chips {
		v := api.ChipView{Chip: c.Node}
		for _, p := range t.Ports(c.Node) {
			v.Links = append(v.Links, api.LinkView{Channel: p.Local.Channel, Direction: p.Dir.String(), Plane: p.Plane, Peer: p.Peer.Node, PeerChan: p.Peer.Channel, State: "up"})
		}
		views = append(views, v)
	}
	return views
}

// The function "at" returns the link end of port p in the views.
func at(views []api.ChipView, p wire.PortID) *api.LinkView {
	for i := range views {
		for k := range views[i].Links {
			if views[i].Chip == p.Node && views[i].Links[k].Channel == p.Channel {
				return &views[i].Links[k]
			}
		}
	}
	return nil
}

func TestDiffLinks(t *testing.T) {
	m := named(t, "t3000")
	c := m.Cables[0]
	views := viewsOf(m)
	if d := DiffLinks(m, m, views, nil); d.Up != 20 || len(d.Downed)+len(d.Unused) != 0 || len(d.Planes) != 20 {
		t.Errorf("with all cables up: %+v", d)
	}

	// One end sends its frames by another cable. The end's own cable has been down for a minute.
	by, minute := wire.Channel(1), 60.0
	at(views, c.A).By, at(views, c.A).OwnDownS, at(views, c.A).SinceS = &by, &minute, 59
	d := DiffLinks(m, m, views, nil)
	if d.Up != 19 || len(d.Downed) != 2 || *d.Downed[0].SinceS != minute || *d.Downed[0].By != by || d.Downed[1].SinceS != nil {
		t.Fatalf("%+v", d.Downed)
	}
	thin := 0
	for _, p := range d.Planes {
		if p.Down == 1 {
			thin++
			if p.Declared != 2 || p.Expected != 2 || p.Live != 1 || p.Usable != 2 { // the first row of the table in tt-metal's README_fabric_reliability_mode.md
				t.Errorf("%+v", p)
			}
		}
	}
	if thin != 2 {
		t.Errorf("%d directions miss a cable, want 2", thin)
	}

	// The factory descriptor has one cable more than the fabric, and marks this cable as unused. The
	// diff must list this cable under Unused, not under Downed.
	twice, err := topo.Load("twice.yaml", bytes.Replace(named(t, "mesh:1x2").Encode(), []byte("name: mesh:1x2"), []byte("name: twice"), 1))
	if err != nil {
		t.Fatal(err)
	}
	one := named(t, "mesh:1x2")
	spare := twice.Cables[1]
	spare.A.Channel, spare.B.Channel, spare.Unused = 14, 14, true
	twice.Cables = append(twice.Cables, spare)
	d = DiffLinks(one, twice, viewsOf(one), nil)
	if len(d.Downed) != 0 || len(d.Unused) != 2 || d.Up != len(one.Cables) || d.Planes[0].Unused != 1 || d.Unused[0].Reason == "" {
		t.Errorf("%+v", d)
	}

	// A downshifted fabric leaves cables unused. Without another topology, the diff must leave out these cables. Beside the
	// machine's own topology, the diff must name the downshift.
	line := named(t, "ring:4@line")
	if d := DiffLinks(line, line, viewsOf(line), nil); d.Up != 6 || d.Declared != 6 || len(d.Downed)+len(d.Unused) != 0 || len(d.Planes) != 6 {
		t.Errorf("a line on a ring: %+v", d)
	}
	if d := DiffLinks(line, named(t, "ring:4"), viewsOf(line), nil); d.Up != 6 || len(d.Downed) != 0 || len(d.Unused) != 4 || !strings.Contains(d.Unused[0].Reason, "not brought up: the fabric uses the rows of mesh 0 as lines") {
		t.Errorf("a line on a ring, beside the ring: %+v", d)
	}

	// In the factory descriptor, two cables have swapped channels at their ends B. At each of the
	// four ports, the fabric's cable is therefore not the expected cable.
	wrong := twice.Cables[:len(one.Cables):len(one.Cables)]
	wrong = append([]topo.Cable{}, wrong...)
	wrong[0].B.Channel, wrong[1].B.Channel = wrong[1].B.Channel, wrong[0].B.Channel
	twice.Cables = wrong
	d = DiffLinks(one, twice, viewsOf(one), nil)
	if len(d.Downed) != 4 || !strings.Contains(d.Downed[0].Reason, "brought up with a cable to M0D1/") {
		t.Errorf("%+v", d.Downed)
	}
}
