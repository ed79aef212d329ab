package fabric

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"ttfabric/node/admin/api"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// cut lets both ends of a cable train in vain.
func cut(views []api.ChipView, c topo.Cable) {
	for _, p := range []wire.PortID{c.A, c.B} {
		at(views, p).State, at(views, p).LastDown, at(views, p).Retrains = "training", "silence", 1
	}
}

// misled lets port p find port q at the other end of its cable.
func misled(views []api.ChipView, p, q wire.PortID) {
	l := at(views, p)
	l.State, l.Miswired, l.FoundChip, l.FoundChan = "training", q.String(), &q.Node, &q.Channel
}

// encoded returns a part of the cabling as a file, and the topology that the file describes.
func encoded(t *testing.T, c *Cabling, part string, mesh wire.MeshID) (string, *topo.Topology) {
	t.Helper()
	b, err := c.Encode(part, mesh)
	if err != nil {
		t.Fatal(err)
	}
	m, err := topo.Load("cabling.yaml", b)
	if err != nil {
		t.Fatalf("%v in\n%s", err, b)
	}
	return string(b), m
}

// TestCablingOfASoundFabric exports the live cabling of sound fabrics. The file must describe the same machine as the
// declared topology, and the two files of differences must have no cable.
func TestCablingOfASoundFabric(t *testing.T) {
	for _, name := range []string{"n300", "t3000", "galaxy-umd", "torus:4x4"} {
		m := named(t, name)
		c := CablingOf(m, m, viewsOf(m), nil, nil)
		if len(c.Live) != len(m.Cables) || c.Declared != len(m.Cables) || len(c.Missing)+len(c.Found)+c.Idle != 0 {
			t.Errorf("%s: %s", name, c)
		}
		if _, got := encoded(t, c, LiveCables, 0); got.Hash() != m.Hash() {
			t.Errorf("%s: the live cabling is %s", name, got)
		}
		for _, part := range []string{MissingCables, FoundCables} {
			if b, err := c.Encode(part, 0); err != nil || !bytes.Contains(b, []byte("ethernet_connections:\n  []\n")) {
				t.Errorf("%s, %s: %v\n%s", name, part, err, b)
			}
		}
	}
}

// TestCablingOfAFaultyFabric exports the cabling of a T3000 whose cables are down, exchanged, rerouted or out of service.
func TestCablingOfAFaultyFabric(t *testing.T) {
	m := named(t, "t3000")
	short := func(c topo.Cable) string { return c.A.Short() + " " + c.B.Short() }
	var by wire.Channel = 1
	a, b := m.Cables[2], m.Cables[9]
	for _, x := range []struct {
		name           string
		change         func(views []api.ChipView)
		missing, found []string
		reason         string
	}{
		{"a cable is down", func(v []api.ChipView) { cut(v, a) }, []string{short(a)}, nil, "silence"},
		{"one end is down", func(v []api.ChipView) { at(v, a.B).State = "training" }, []string{short(a)}, nil, "up here, but not at the other end"},
		{"another cable carries the frames", func(v []api.ChipView) { at(v, a.A).By, at(v, a.B).By = &by, &by }, []string{short(a)}, nil, "does not carry frames"},
		{"an operator took a cable out of service that is up", func(v []api.ChipView) { at(v, a.A).Avoided = true }, nil, nil, ""},
		{"the far ends of two cables are exchanged", func(v []api.ChipView) {
			misled(v, a.A, b.B)
			misled(v, b.B, a.A)
			misled(v, b.A, a.B)
			misled(v, a.B, b.A)
		}, []string{short(a), short(b)}, []string{a.A.Short() + " " + b.B.Short(), b.A.Short() + " " + a.B.Short()}, "miswired: found " + b.B.String()},
		{"only one end heard the other", func(v []api.ChipView) {
			cut(v, a)
			cut(v, b)
			misled(v, a.A, b.B)
		}, []string{short(a), short(b)}, []string{a.A.Short() + " " + b.B.Short()}, "miswired"},
		{"a stray hello of a port whose cable is up", func(v []api.ChipView) { cut(v, a); misled(v, a.A, b.B) }, []string{short(a)}, nil, "miswired"},
		{"a hello of a port that does not exist", func(v []api.ChipView) {
			cut(v, a)
			misled(v, a.A, wire.PortID{Node: wire.FabricNodeID{Mesh: 7}, Channel: 3})
		}, []string{short(a)}, nil, "miswired"},
		{"a hello of the expected port of another fabric", func(v []api.ChipView) { cut(v, a); misled(v, a.A, a.B) }, []string{short(a)}, nil, "miswired"},
	} {
		views := viewsOf(m)
		x.change(views)
		c := CablingOf(m, m, views, nil, nil)
		names := func(list []CableEnds) (all []string) {
			for _, e := range list {
				all = append(all, e.A+" "+e.B)
			}
			return all
		}
		slices.Sort(x.found)
		if !slices.Equal(names(c.Missing), x.missing) || !slices.Equal(names(c.Found), x.found) || len(c.Live) != 20-len(x.missing)+len(x.found) {
			t.Errorf("%s: missing %v, found %v, %d live", x.name, c.Missing, c.Found, len(c.Live))
			continue
		}
		if len(c.Missing) > 0 && !strings.Contains(c.Missing[0].Reason, x.reason) {
			t.Errorf("%s: the reason is %q", x.name, c.Missing[0].Reason)
		}
		for part, n := range map[string]int{MissingCables: len(x.missing), FoundCables: len(x.found), LiveCables: len(c.Live)} {
			b, err := c.Encode(part, 0)
			if got := bytes.Count(b, []byte("{chip:")); err != nil || got != 2*n {
				t.Errorf("%s, %s: %v, %d ends, want %d\n%s", x.name, part, err, got, 2*n, b)
			}
		}
		if len(c.Missing) == 1 && len(c.Found) == 0 {
			if text, got := encoded(t, c, LiveCables, 0); len(got.Cables) != 19 || !strings.Contains(text, "# 19 of 20 declared cables are live.") {
				t.Errorf("%s: the live cabling is %s\n%s", x.name, got, text)
			}
		}
	}
}

// TestCablingWithoutSomeChips exports the cabling while a chip does not run, and while a chip does not answer.
func TestCablingWithoutSomeChips(t *testing.T) {
	m := named(t, "t3000")
	n := m.Chips[7].Node
	views := viewsOf(m)[:7]
	ports := len(m.Ports(n))
	c := CablingOf(m, m, views, []wire.FabricNodeID{n}, nil)
	if len(c.Missing) != ports || len(c.Live) != 20-ports || !strings.Contains(c.Missing[0].Reason, n.String()+" is not running") {
		t.Errorf("a chip does not run: %s, missing %v", c, c.Missing)
	}
	b, err := c.Encode(LiveCables, 0)
	if err != nil || bytes.Count(b, []byte("noc_translation")) != 7 || !bytes.Contains(b, []byte("# M0D7 is not running;")) {
		t.Errorf("%v\n%s", err, b)
	}
	if b, err = c.Encode(MissingCables, 0); err != nil || bytes.Count(b, []byte("noc_translation")) != 8 {
		t.Errorf("%v\n%s", err, b)
	}
	if c = CablingOf(m, m, views, nil, []wire.FabricNodeID{n}); len(c.Missing) != 0 || len(c.Live) != 20 {
		t.Errorf("a chip does not answer: %s, missing %v", c, c.Missing)
	}
}

// TestCablingOfTwoMeshes exports the cabling of two meshes. In the file of each mesh, the cables to the other mesh lead to
// remote chips, and the ids of these chips are those in the other file.
func TestCablingOfTwoMeshes(t *testing.T) {
	m := named(t, "2xt3000")
	between := len(m.Exits(0, 0))
	c := CablingOf(m, m, viewsOf(m), nil, nil)
	var texts [2]string
	for k := range texts {
		var got *topo.Topology
		if texts[k], got = encoded(t, c, LiveCables, wire.MeshID(k)); len(got.Chips) != 8 || len(got.Cables) != 20 || strings.Count(texts[k], "remote_chip_id") != between {
			t.Errorf("mesh %d: %s\n%s", k, got, texts[k])
		}
	}
	for k, text := range texts {
		_, list, _ := strings.Cut(text, "remote_chip_id: ")
		id, _, _ := strings.Cut(list, ",")
		_, ids, _ := strings.Cut(texts[1-k], "chip_unique_ids:\n")
		ids, _, _ = strings.Cut(ids, "ethernet_connections")
		if !strings.Contains(ids, ": "+id+"\n") {
			t.Errorf("mesh %d has no chip %s:\n%s", 1-k, id, ids)
		}
	}
	if _, err := c.Encode(LiveCables, 2); err == nil || !strings.Contains(err.Error(), "mesh 2") {
		t.Errorf("mesh 2: %v", err)
	}
}

// TestCablingOfUnusedCables leaves out declared cables that the chips do not bring up.
func TestCablingOfUnusedCables(t *testing.T) {
	lines := strings.SplitAfter(string(named(t, "mesh:1x3").Encode()), "\n")
	m, err := topo.Load("thin.yaml", []byte(strings.Join(lines[:len(lines)-3], "")))
	if err != nil {
		t.Fatal(err)
	}
	c := CablingOf(m, m, viewsOf(m), nil, nil)
	if c.Idle != 1 || c.Declared != 2 || len(c.Live) != 2 || len(c.Missing) != 0 {
		t.Errorf("%s, idle %d, missing %v", c, c.Idle, c.Missing)
	}
	if b, err := c.Encode(LiveCables, 0); err != nil || !bytes.Contains(b, []byte("# The chips do not bring up 1 declared cable that no route needs")) {
		t.Errorf("%v\n%s", err, b)
	}
}
