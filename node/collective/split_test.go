package collective

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"ttfabric/router/topo"
	"ttfabric/wire"
)

func TestSplit(t *testing.T) {
	const free = 0b1110
	all := []Member{{1, 5, free, 100}, {0, 0, free, 100}, {1, 4, free, 100}, {-1, 0, free, 0}, {0, 0, 0b1100, 100}, {1, 5, free, 100}}
	groups, area, err := Split(all, 1)
	if err != nil || area != 2 || len(groups) != 2 || !slices.Equal(groups[0], []int{1, 4}) || !slices.Equal(groups[1], []int{2, 0, 5}) {
		t.Errorf("groups %v in area %d, %v", groups, area, err)
	}
	all[5].Free = 0b0010
	if _, _, err := Split(all, 1); err == nil || !strings.Contains(err.Error(), "close a communicator") {
		t.Errorf("no common area: %v", err)
	}
	all[5].Free, all[0].Spare = free, 5 // a group of three ranks waits on 6 words
	if _, _, err := Split(all, 1); err == nil || !strings.Contains(err.Error(), "rank 0 has 5 left") {
		t.Errorf("too few words: %v", err)
	}
}

// FuzzMembers checks that members survive a round trip, and that each rank is in at most one group.
func FuzzMembers(f *testing.F) {
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{1}, 3*MemberSize))
	f.Add(bytes.Repeat([]byte{0xff}, 5*MemberSize))
	f.Add([]byte{1, 2, 3})
	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := ParseMembers(b)
		if err != nil {
			return
		}
		var again []byte
		for i := range all {
			again = all[i].Append(again)
		}
		if !bytes.Equal(again, b) {
			t.Fatalf("%v became %x", b, again)
		}
		groups, area, err := Split(all, 1)
		if err != nil {
			return
		}
		seen := map[int]bool{}
		for _, g := range groups {
			for i, r := range g {
				if seen[r] || all[r].Color < 0 || all[r].Color != all[g[0]].Color || i > 0 && all[g[i-1]].Key > all[r].Key || all[r].Free>>area&1 == 0 {
					t.Fatalf("%v: groups %v", all, groups)
				}
				seen[r] = true
			}
		}
		for r, m := range all {
			if m.Color >= 0 && !seen[r] {
				t.Fatalf("%v: no group has rank %d", all, r)
			}
		}
	})
}

// axes returns the paths of all rows, or of all columns, of the first mesh.
func axes(t *testing.T, m *topo.Topology, rows bool) (paths []*Path, chips [][]wire.FabricNodeID) {
	t.Helper()
	mesh := m.Meshes[0]
	var all []Member
	for i := range mesh.Rows * mesh.Cols {
		x := Member{Color: int32(i / mesh.Cols), Key: int32(i % mesh.Cols), Free: 1, Spare: 1000}
		if !rows {
			x.Color, x.Key = x.Key, x.Color
		}
		all = append(all, x)
	}
	groups, _, err := Split(all, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range groups {
		var ns []wire.FabricNodeID
		for _, r := range g {
			ns = append(ns, wire.FabricNodeID{Mesh: mesh.ID, Chip: wire.ChipID(r)})
		}
		p, err := FindPath(m, ns)
		if err != nil || p.Strided {
			t.Fatalf("%v: %v, %v", ns, p, err)
		}
		paths, chips = append(paths, p), append(chips, ns)
	}
	return paths, chips
}

// TestRowsAndColumns plans the same operation for all rows and all columns of a mesh. No cable direction of a
// plane carries data of two groups. All cables of one axis carry the same number of bytes, which the formula of
// the operation gives, if the data can be split evenly. The number of planes is num_links.
func TestRowsAndColumns(t *testing.T) {
	for _, c := range []struct {
		name  string
		rings bool
	}{{"mesh:4x4", false}, {"torus:4x4", true}, {"galaxy", false}, {"t3000", false}} {
		m, err := topo.Named(c.name)
		if err != nil {
			t.Fatal(err)
		}
		for _, planes := range []int{1, 2} {
			type way struct {
				from, to wire.FabricNodeID
				plane    int
			}
			owner := map[way]string{}
			for axis, rows := range map[string]bool{"row": true, "column": false} {
				paths, chips := axes(t, m, rows)
				for g, p := range paths {
					n := len(p.Order)
					if p.Ring != (c.rings && n > 2) {
						t.Errorf("%s, %s %d: %s", c.name, axis, g, p)
					}
					for _, kind := range []Kind{AllGather, ReduceScatter, AllReduce} {
						call := Call{Kind: kind, Count: 8 * n * planes, Type: Float32, Scheme: Both}
						if p.Ring {
							call.Scheme = Halves
						}
						s, err := Plan(call, p, planes)
						if err == nil {
							err = s.Check()
						}
						if err != nil {
							t.Fatal(err)
						}
						carried := map[way]int{}
						for _, v := range s.Moves {
							w := way{chips[g][v.From], chips[g][v.To], v.Lane / 2}
							if carried[w] += v.Len; !joined(m, w.from, w.to) {
								t.Fatalf("%s, %s %d: a move from %s to %s, which no cable joins", c.name, axis, g, w.from, w.to)
							}
							name := fmt.Sprintf("%s %d", axis, g)
							if first := owner[w]; first != "" && first != name {
								t.Fatalf("%s: the way %v carries data of %s and of %s", c.name, w, first, name)
							}
							owner[w] = name
						}
						perWay(t, s, p, planes, func(from, to int) int {
							sum := 0
							for plane := range planes {
								sum += carried[way{chips[g][from], chips[g][to], plane}]
							}
							return sum
						})
					}
				}
			}
		}
	}
}

// perWay compares the elements on each direction of each cable of a path with the formula.
func perWay(t *testing.T, s *Schedule, p *Path, planes int, carried func(from, to int) int) {
	t.Helper()
	n, c := s.Ranks, s.Count
	for pos := range n {
		next := (pos + 1) % n
		if next == 0 && !p.Ring {
			continue
		}
		for dir, ends := range [2][2]int{{pos, next}, {next, pos}} {
			want := 0
			before := pos + 1 // ranks on the side of the sender
			if dir == 1 {
				before = n - pos - 1
			}
			switch { // a ring carries one half of each part, n-1 times; a line carries the parts of one side to the other
			case p.Ring && s.Kind == AllReduce:
				want = (n - 1) * c / n
			case p.Ring:
				want = (n - 1) * c / 2
			case s.Kind == AllGather:
				want = before * c
			case s.Kind == ReduceScatter:
				want = (n - before) * c
			default: // the sums for the other side, and the results of this side
				want = (n-before)*c/n + before*c/n
			}
			if got := carried(p.Order[ends[0]], p.Order[ends[1]]); got != want {
				t.Errorf("%s of %d elements on %s, %d planes: from position %d to %d go %d elements, want %d", s.Kind, c, p, planes, ends[0], ends[1], got, want)
			}
		}
	}
}

// TestSplitAgrees splits random members on all ranks, which must compute the same groups.
func TestSplitAgrees(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 1000 {
		var said []byte
		for range 1 + r.IntN(MaxRanks) {
			x := Member{int32(r.IntN(5) - 1), int32(r.IntN(3)), uint32(r.IntN(16)), uint32(r.IntN(300))}
			said = x.Append(said)
		}
		a, _ := ParseMembers(said)
		b, _ := ParseMembers(said)
		ga, xa, ea := Split(a, 1)
		gb, xb, eb := Split(b, 1)
		if fmt.Sprint(ga, xa, ea) != fmt.Sprint(gb, xb, eb) {
			t.Fatalf("%v %d %v, and %v %d %v", ga, xa, ea, gb, xb, eb)
		}
	}
}
