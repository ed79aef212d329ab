package nexthop

import (
	"strings"
	"testing"

	"ttfabric/wire"
)

// TestRuleA checks every failure of one link and one node of every mesh from 2×2 to 8×8: no cycle in
// the direct and the extended graph, no livelock, every pair of living nodes reachable, and no route
// longer than the diameter and four hops.
func TestRuleA(t *testing.T) {
	meshes, failures := 0, 0
	for w := 2; w <= MaxProof; w++ {
		for h := 2; h <= MaxProof; h++ {
			m := Mesh{w, h}
			meshes++
			extraLink, extraNode := 0, 0
			for _, f := range append(Failures(m), Failure{}) {
				v, err := Prove(m, RuleA, f)
				if err != nil {
					t.Fatal(err)
				}
				if !v.OK() || v.Longest > w+h-2+4 || v.LongestDead > w+h-2+4 {
					t.Errorf("%v, %v: %+v", m, f, v)
				}
				failures++
				switch {
				case f.Node:
					extraNode = max(extraNode, v.Extra)
				case f.Link:
					extraLink = max(extraLink, v.Extra)
				case v.Extra != 0 || v.Longest != w+h-2:
					t.Errorf("%v without failure: %+v", m, v)
				}
			}
			if extraLink != 2 || extraNode > 4 {
				t.Errorf("%v: a failed link adds up to %d hops, a dead node %d; want 2 and at most 4", m, extraLink, extraNode)
			}
		}
	}
	t.Logf("%d meshes, %d failures", meshes, failures)
}

// TestLiteralRule shows that the choice that the paper leaves closes a cycle of channels round a dead
// node, and counts the failures with a cycle. Failed links close none. Without any 180-degree turn,
// there are fewer cycles, but some nodes cannot reach each other.
func TestLiteralRule(t *testing.T) {
	for _, c := range []struct {
		m                          Mesh
		r                          Rule
		cycles, unreachable, total int // failures with a cycle, with an unreachable pair, and of any kind
	}{
		{Mesh{4, 4}, Literal, 8, 0, 40}, {Mesh{8, 4}, Literal, 16, 0, 84}, {Mesh{4, 8}, Literal, 24, 0, 84}, {Mesh{5, 5}, Literal, 15, 0, 65},
		{Mesh{4, 4}, Strict, 4, 20, 40}, {Mesh{4, 8}, Strict, 12, 36, 84}, {Mesh{5, 5}, Strict, 9, 28, 65},
	} {
		cycles, unreachable := 0, 0
		fs := Failures(c.m)
		for _, f := range fs {
			v, err := Prove(c.m, c.r, f)
			if err != nil {
				t.Fatal(err)
			}
			if v.Unreachable > 0 {
				unreachable++
			}
			if v.Direct == nil {
				continue
			}
			cycles++
			if !f.Node || f.At.Y == 0 || f.At.Y == c.m.H-1 {
				t.Errorf("%v, %v: a cycle, %v", c.m, f, v.Direct)
			}
			if c.m == (Mesh{4, 4}) && f.At == (Place{0, 1}) {
				t.Logf("%v dead: %s", f.At, strings.Join(v.Direct, " → "))
				around(t, f.At, v.Direct)
			}
		}
		if cycles != c.cycles || unreachable != c.unreachable || len(fs) != c.total {
			t.Errorf("%v, rule %v: %d of %d failures close a cycle and %d leave nodes unreachable, want %d of %d and %d", c.m, c.r, cycles, len(fs), unreachable, c.cycles, c.total, c.unreachable)
		}
	}
}

// TestBan shows why a packet must not go back at once after a side step in y. Without the ban, packets
// can hop for ever if one of the 12 links along x or one of the 16 nodes has failed. Packets to the dead
// node count, too.
func TestBan(t *testing.T) {
	m, livelocks := Mesh{4, 4}, 0
	for _, f := range Failures(m) {
		v, err := prove(m, RuleA, f, false)
		if err != nil {
			t.Fatal(err)
		}
		if v.Livelock {
			livelocks++
		}
	}
	if livelocks != 12+16 {
		t.Errorf("without the ban, %d of %d failures of %v have a livelock, want 28", livelocks, len(Failures(m)), m)
	}
}

// around finds that a cycle of channels leads from node to node, beside the dead node.
func around(t *testing.T, dead Place, cycle []string) {
	t.Helper()
	for _, c := range cycle {
		if strings.Contains(c, dead.String()) {
			t.Errorf("channel %s of the cycle begins at the dead node", c)
		}
	}
	if len(cycle) < 4 {
		t.Errorf("a cycle of %d channels", len(cycle))
	}
}

// TestProofFinds shows that the checks of Prove can fail: dimension order in y before x on one side
// step makes a cycle, and a mesh of one row has no second route.
func TestProofFinds(t *testing.T) {
	v, err := Prove(Mesh{5, 1}, RuleA, Failure{Link: true, At: Place{1, 0}, Dir: wire.East})
	if err != nil || v.OK() || v.Unreachable != 2*2*3 {
		t.Errorf("a line with a failed link: %+v, %v", v, err)
	}
	if v, err := Prove(Mesh{9, 2}, RuleA, Failure{}); err == nil {
		t.Errorf("a mesh beyond the limit: %+v", v)
	}
}
