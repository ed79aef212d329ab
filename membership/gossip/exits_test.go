package gossip

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"ttfabric/membership"
	"ttfabric/wire"
)

// meshes holds the pools of two meshes. Each mesh has three chips, two of which are exit nodes.
type meshes struct {
	t     *testing.T
	own   [2]*fire
	exits *fire
	nodes [2][2]*Pools // exit nodes of each mesh
	alone [2]*Pool
}

func newMeshes(t *testing.T) *meshes {
	m := &meshes{t: t, exits: &fire{swarm: swarm{t: t}, expect: 4}}
	for mesh := range 2 {
		m.own[mesh] = &fire{swarm: swarm{t: t}, expect: 3}
		for chip := range 2 {
			m.exit(mesh, chip, wire.Incarnation(10*mesh+chip+1))
		}
		m.alone[mesh] = m.own[mesh].start(mesh, 2, wire.Incarnation(10*mesh+3))
	}
	return m
}

// exit starts the two pools of an exit node.
func (m *meshes) exit(mesh, chip int, inc wire.Incarnation) {
	p := Join(m.own[mesh].start(mesh, chip, inc), m.exits.start(mesh, chip, inc))
	m.t.Cleanup(func() { p.Close(0) })
	m.nodes[mesh][chip] = p
}

// see waits until exit node p sees exactly the chips in want.
func (m *meshes) see(what string, p *Pools, want ...string) {
	m.t.Helper()
	eventually(m.t, patience, fmt.Sprintf("%s: %v", what, want), func() bool {
		var got []string
		for _, x := range p.View() {
			got = append(got, x.Meta.Node.String())
		}
		slices.Sort(got)
		return slices.Equal(got, want)
	})
}

// TestExitNodesUnderFire kills exit nodes and starts them again. The test also cuts the two meshes
// off from each other for a long time. The exit nodes must find each other again.
func TestExitNodesUnderFire(t *testing.T) {
	t.Parallel()
	m := newMeshes(t)
	here := []string{"M0D0", "M0D1", "M0D2", "M1D0", "M1D1"}
	for i := range 2 {
		m.see("all are there", m.nodes[0][i], here...)
		m.see("all are there", m.nodes[1][i], "M0D0", "M0D1", "M1D0", "M1D1", "M1D2")
	}
	m.nodes[1][0].Close(0) // without a message to the other members, as if killed
	m.see("one exit node of the other mesh was killed", m.nodes[0][0], "M0D0", "M0D1", "M0D2", "M1D1")
	m.nodes[1][1].Close(0)
	m.see("and the other, too", m.nodes[0][1], "M0D0", "M0D1", "M0D2")
	m.own[1].see("the chip without an exit is alone", 1, m.alone[1])
	m.exit(1, 0, 100)
	m.exit(1, 1, 101)
	for i := range 2 {
		m.see("both were started again", m.nodes[0][i], here...)
		for _, x := range m.nodes[0][i].View() {
			if x.Meta.Node.Mesh == 1 && x.Meta.Incarnation < 100 {
				t.Errorf("chip %s: life %d is believed", x.Meta.Node, x.Meta.Incarnation)
			}
		}
	}
	apart := func(on bool) {
		for mesh := range 2 {
			far := map[wire.FabricNodeID]bool{}
			if on {
				for chip := range 3 {
					far[wire.FabricNodeID{Mesh: wire.MeshID(1 - mesh), Chip: wire.ChipID(chip)}] = true
				}
			}
			for _, p := range m.nodes[mesh] {
				p.Cut(false, far)
			}
		}
	}
	apart(true)
	for i := range 2 {
		m.see("the meshes are apart", m.nodes[0][i], "M0D0", "M0D1", "M0D2")
		m.see("the meshes are apart", m.nodes[1][i], "M1D0", "M1D1", "M1D2")
	}
	if n := m.nodes[0][0].FaultCounts().CutOff; n == 0 {
		t.Error("nothing is counted as cut off")
	}
	time.Sleep(3 * quick.forget)
	apart(false)
	for i := range 2 {
		m.see("together again", m.nodes[0][i], here...)
	}
	m.own[0].see("the mesh knows its own chips only", 3, m.alone[0])
	eventually(t, patience, "both pools are whole", func() bool {
		return !slices.ContainsFunc(m.nodes[0][0].Status(), func(s membership.PoolStatus) bool { return s.Seen != s.Expected })
	})
	if slices.ContainsFunc(m.nodes[0][0].Events(), func(e membership.Event) bool { return e.Kind == membership.Rejected }) {
		t.Error("a claim was rejected")
	}
}
