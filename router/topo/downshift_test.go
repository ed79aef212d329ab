package topo

import (
	"strings"
	"testing"

	"ttfabric/wire"
)

// TestDownshift lets fabrics use fewer cables than the machines have (Spec §3: "functionally downshifted topology where all
// available ethernet links are not utilized"). The numbers of used and unused cables, and the planes, must be right. No
// unused cable is among the ports of a chip. The file of the topology must give the same topology.
func TestDownshift(t *testing.T) {
	for name, want := range map[string]struct {
		used, unused, planes int
		like                 string // a machine with the same shape and the same used cables; "": none
	}{
		"torus:4x4@mesh":            {48, 16, 2, "mesh:4x4"},
		"torus:4x4@open-x":          {56, 8, 2, "torus-y:4x4"},
		"torus:4x4@open-y":          {56, 8, 2, "torus-x:4x4"},
		"torus:4x4@open-x,open-y":   {48, 16, 2, "mesh:4x4"},
		"torus-x:3x5@mesh":          {44, 6, 2, "mesh:3x5"},
		"ring:6@line":               {10, 2, 2, "line:6"},
		"mesh:3x4@x":                {18, 16, 2, ""},
		"mesh:3x4@y":                {16, 18, 2, ""},
		"torus:3x4@x":               {24, 24, 2, ""},
		"torus:3x4@y,line":          {16, 32, 2, ""},
		"galaxy@planes=1":           {52, 156, 1, ""},
		"galaxy@planes=3":           {156, 52, 3, ""},
		"galaxy@x,planes=2":         {48, 160, 2, ""},
		"2xt3000@planes=1":          {21, 0, 1, ""},
		"torus:4x4@planes=1,mesh":   {24, 40, 1, ""},
		"torus:3x3@planes=1@mesh":   {12, 24, 1, ""},
		"spec-l1@planes=1":          {0, 0, 1, ""},
		"ring:3@line":               {4, 2, 2, "line:3"},
		"torus:16x16@mesh,planes=1": {480, 544, 1, ""},
		"torus-y:3x3@y":             {18, 12, 2, ""},
		"t3000@planes=1":            {10, 10, 1, ""},
		"mesh:1x1@planes=1":         {-1, 0, 0, ""},
		"mesh:2x2@mesh":             {-1, 0, 0, ""},
		"mesh:1x4@x":                {-1, 0, 0, ""},
		"ring:4@planes=2":           {-1, 0, 0, ""},
		"ring:4@planes=0":           {-1, 0, 0, ""},
		"ring:4@planes=x":           {-1, 0, 0, ""},
		"ring:4@lines":              {-1, 0, 0, ""},
		"ring:4@":                   {-1, 0, 0, ""},
		"ring:4@line,line":          {-1, 0, 0, ""},
		"mesh:3x3@x,y":              {-1, 0, 0, ""},
		"nothing@mesh":              {-1, 0, 0, ""},
	} {
		m, err := Named(name)
		if want.used < 0 {
			if err == nil {
				t.Errorf("%s: %s, want an error", name, m)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		used, ports := m.Routed(), 0
		for _, n := range m.Nodes() {
			ports += len(m.Ports(n))
		}
		if want.used > 0 && want.unused > 0 && (used != want.used || len(m.Cables)-used != want.unused) || m.Planes() != want.planes || ports != 2*used || m.Name != name {
			t.Errorf("%s: %s, %d used cables, %d ports; want %+v", name, m, used, ports, want)
		}
		for _, c := range m.Cables {
			if c.Unused != (m.Idle(c) != "") && m.Name != "2xt3000@planes=1" && !strings.HasPrefix(name, "spec") {
				t.Errorf("%s: cable %s-%s is unused: %t, because %q", name, c.A.Short(), c.B.Short(), c.Unused, m.Idle(c))
			}
		}
		again, err := Load("f", m.Encode())
		if err != nil || again.Hash() != m.Hash() || again.Name != name || again.Meshes[0] != m.Meshes[0] || again.MaxPlanes != m.MaxPlanes {
			t.Errorf("%s: read back as %s, %v", name, again, err)
		}
		if want.like != "" {
			like := mustName(t, want.like)
			for _, n := range m.Nodes() {
				for d := range wire.Direction(wire.NumDirections) {
					for p := range wire.Plane(2) {
						if a, ok := m.Neighbour(n, d, p); true {
							if b, also := like.Neighbour(n, d, p); a != b || ok != also {
								t.Errorf("%s: to the %s of %s on plane %d lies %s, in %s %s", name, d, n, p, a, want.like, b)
							}
						}
					}
				}
			}
		}
	}
}

// TestDownshiftLeavesTheMachine calls Downshift, and finds that the first topology has not changed.
func TestDownshiftLeavesTheMachine(t *testing.T) {
	m := mustName(t, "torus:4x4")
	hash := m.Hash()
	s, err := m.Downshift("mesh,planes=1")
	if err != nil || m.Hash() != hash || s.Hash() == hash || m.Planes() != 2 || m.Routed() != 64 {
		t.Errorf("%v: %s became %s", err, m, s)
	}
	if b, err := s.EncodeClusterDescriptor(); err != nil || strings.Count(string(b), "{chip:") != 2*64 {
		t.Errorf("the cluster descriptor lists all cables: %v\n%s", err, b)
	}
}

// TestBadDownshiftsInFiles loads files with wrong keys of a downshift.
func TestBadDownshiftsInFiles(t *testing.T) {
	text := string(mustName(t, "torus:3x3@mesh,planes=1").Encode())
	for old, change := range map[string][2]string{
		"open_x: true": {"open_x: 2", "open_x"}, "planes: 1": {"planes: 17", "planes"}, "open_y: true": {"open_y: true\n      axes: z", "want x or y"}, "rows: 3": {"rows: 3\n      wrap_x: true", "both uses and does not use"},
	} {
		if _, err := Load("f", []byte(strings.Replace(text, old, change[0], 1))); err == nil || !strings.Contains(err.Error(), change[1]) {
			t.Errorf("%s: %v", change[0], err)
		}
	}
}
