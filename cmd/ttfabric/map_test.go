package main

import (
	"path/filepath"
	"strings"
	"testing"

	"ttfabric/node/output"
	"ttfabric/router/topo/mapping"
)

// TestMap puts a mesh graph descriptor on a machine, and writes the topology. A name with @map= must stand for
// the same topology. If a descriptor does not fit, 'map' must name the chips that do not fit together.
func TestMap(t *testing.T) {
	c := newCLI(t)
	dir := t.TempDir()
	graph := func(name, count string) string {
		return c.saved(filepath.Join(dir, name), `mesh_descriptors { name: "M0" arch: WORMHOLE_B0 device_topology { dims: [ 2, 2 ] } channels { count: `+count+` } }
top_level_instance { mesh { mesh_descriptor: "M0" } }
`)
	}
	fits, wants3, lab := graph("fits.textproto", "2"), graph("wants3.textproto", "3"), filepath.Join(dir, "lab.yaml")
	m := read[mapping.Mapping](c, "map", fits, "t3000", "-f", lab)
	if len(m.Chips) != 4 || m.Spare != 4 || m.Chips[0].Host != "t3000" {
		t.Errorf("%+v", m)
	}
	a, b := read[output.Topology](c, "validate", lab), read[output.Topology](c, "validate", fits+"@map=t3000")
	if a.Hash != b.Hash || a.Chips != 4 || a.Cables != 8 {
		t.Errorf("%+v\n%+v", a, b)
	}
	if _, text, code := c.run("map", wants3, "t3000"); code != exitTopology || !strings.Contains(text, "2 chips do not fit together: M0D0, M0D") {
		t.Error(code, text)
	}
	c.fails(exitTopology, "map", fits, "nowhere.yaml")
	c.fails(exitTopology, "map", lab, "t3000")
	c.fails(exitUsage, "map", fits)
}
