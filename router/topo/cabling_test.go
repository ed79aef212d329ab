package topo

import (
	"os"
	"strings"
	"testing"

	"ttfabric/wire"
)

// TestEncodeCablingKeepsToTheSchema finds that tt-umd's schema accepts files with any of the cables, and with any of the
// chips left out.
func TestEncodeCablingKeepsToTheSchema(t *testing.T) {
	b, err := os.ReadFile("testdata/umd/schema_cluster_descriptor.yaml")
	if err != nil {
		t.Fatal(err)
	}
	schema := readYAML(t, b).(map[string]any)
	for _, name := range []string{"n300", "t3000", "galaxy", "2xt3000", "spec-l1"} {
		m := mustName(t, name)
		for skip := range len(m.Cables) {
			cables := foundCables(m.Cables[skip:])
			cables[0].Note = "a\nremark: [x"
			for _, mesh := range m.Meshes {
				text, err := m.EncodeCabling(mesh.ID, []string{"about\nthis"}, cables, m.Nodes()[:skip%2])
				if err != nil {
					t.Fatalf("%s without %d cables: %v", name, skip, err)
				}
				if wrong := against(schema, readYAML(t, text), name); len(wrong) > 0 {
					t.Fatalf("%s without %d cables: %s\n%s", name, skip, strings.Join(wrong, "\n"), text)
				}
			}
		}
	}
}

// TestEncodeCablingRefuses calls EncodeCabling with wrong arguments.
func TestEncodeCablingRefuses(t *testing.T) {
	m := mustName(t, "n300")
	far := wire.PortID{Node: wire.FabricNodeID{Mesh: 1}, Channel: 2}
	for want, f := range map[string]func() ([]byte, error){
		"has no mesh 3":             func() ([]byte, error) { return m.EncodeCabling(3, nil, nil, nil) },
		"has no chip M1D0":          func() ([]byte, error) { return m.EncodeCabling(0, nil, []FoundCable{{A: m.Cables[0].A, B: far}}, nil) },
		"no chip of mesh 0 is left": func() ([]byte, error) { return m.EncodeCabling(0, nil, nil, m.Nodes()) },
	} {
		if b, err := f(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q\n%s", err, want, b)
		}
	}
}
