package collective

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestPlanAlong compares the schedules between neighbours with those of Plan, for all operations, schemes and planes, on
// lines and rings. Each move must go to a neighbour.
func TestPlanAlong(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 2))
	longest, schedules := 0, 0
	for _, name := range []string{"mesh:1x1", "n300", "mesh:1x3", "mesh:1x4", "ring:3", "mesh:2x2", "ring:5", "t3000", "mesh:3x3"} {
		p, _ := path(t, name, 0)
		n := len(p.Order)
		for k := range Barrier {
			for scheme := range numSchemes {
				for planes := 1; planes <= 2; planes++ {
					c := Call{Kind: k, Count: 1 + r.IntN(100), Scheme: scheme, Type: Type(r.IntN(int(numTypes))), Op: Op(r.IntN(int(numOps))), Root: r.IntN(n)}
					x, err := Plan(c, p, planes)
					if err != nil {
						continue // halves on a line
					}
					s, err := PlanAlong(c, p, planes)
					if err == nil {
						err = s.Check()
					}
					if err != nil {
						t.Fatalf("%+v on %s: %v", c, p, err)
					}
					var in [][]byte
					for rank := range n {
						b := make([]byte, c.Type.Size()*c.InCount(rank, n))
						for i := range b {
							b[i] = byte(r.Uint32())
						}
						in = append(in, b)
					}
					got, want := s.Reference(in), x.Reference(in)
					for rank := range want {
						if !bytes.Equal(got[rank], want[rank]) {
							t.Fatalf("%+v on %s: rank %d has other bytes than by Plan", c, p, rank)
						}
					}
					once(t, s)
					if err := neighbours(s, p); err != nil {
						t.Fatalf("%+v on %s: %v", c, p, err)
					}
					schedules++
					longest = max(longest, len(s.Moves))
				}
			}
		}
	}
	t.Logf("%d schedules, up to %d moves", schedules, longest)
}

// neighbours returns an error if a move does not go to a neighbour.
func neighbours(s *Schedule, p *Path) error {
	n := len(p.Order)
	for i, m := range s.Moves {
		straight := max(p.At[m.To]-p.At[m.From], p.At[m.From]-p.At[m.To])
		if straight != 1 && (!p.Ring || straight != n-1) {
			return fmt.Errorf("move %d: rank %d is no neighbour of rank %d", i, m.To, m.From)
		}
	}
	return nil
}
