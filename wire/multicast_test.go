package wire

import (
	"math/rand/v2"
	"testing"
)

// reach sends a multicast over an endless grid of chips. reach returns how often each chip performs
// the multicast, by column and row.
func reach(t Trunk, r Ranges) map[[2]int]int {
	seen := map[[2]int]int{}
	var walk func(x, y int, from Direction, r Ranges)
	walk = func(x, y int, from Direction, r Ranges) {
		parts := r.Parts(from)
		if parts&PartHere != 0 {
			seen[[2]int{x, y}]++
		}
		for d := range Direction(NumDirections) {
			if parts>>d&1 == 0 {
				continue
			}
			step := [NumDirections][2]int{{1, 0}, {-1, 0}, {0, -1}, {0, 1}}[d]
			walk(x+step[0], y+step[1], d.Opposite(), r.Copy(t, d, from == d.Opposite()))
		}
	}
	walk(0, 0, NumSides, r)
	return seen
}

// TestRanges checks that ranges without skips reach a rectangle of chips except the start, each
// chip once, with both trunks.
func TestRanges(t *testing.T) {
	for _, trunk := range []Trunk{TrunkX, TrunkY} {
		for n := range 4 * 4 * 4 * 4 {
			e, w, no, s := n&3, n>>2&3, n>>4&3, n>>6
			got := reach(trunk, Ranges{Hops: [NumDirections]uint8{uint8(e), uint8(w), uint8(no), uint8(s)}})
			all := Ranges{Hops: [NumDirections]uint8{uint8(e), uint8(w), uint8(no), uint8(s)}}
			if len(got) != (e+w+1)*(no+s+1)-1 || all.Members() != len(got) {
				t.Fatalf("E%d W%d N%d S%d: %d chips", e, w, no, s, len(got))
			}
			for c, times := range got {
				if times != 1 || c[0] > e || c[0] < -w || c[1] > s || c[1] < -no || c == [2]int{} {
					t.Fatalf("E%d W%d N%d S%d reach %v %d times", e, w, no, s, c, times)
				}
			}
		}
	}
}

// TestSkippingRanges checks random ranges with skips. No chip performs the multicast twice, and the
// number of chips that perform it is Members.
func TestSkippingRanges(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		var r Ranges
		for d := range r.Hops {
			if r.Hops[d] = uint8(rng.IntN(5)); r.Hops[d] > 0 {
				r.Skip[d] = uint8(rng.IntN(int(r.Hops[d])))
			}
		}
		for _, trunk := range []Trunk{TrunkX, TrunkY} {
			got := reach(trunk, r)
			for c, n := range got {
				if n != 1 {
					t.Fatalf("%s reach %v %d times", r, c, n)
				}
			}
			if len(got) != r.Members() {
				t.Fatalf("%s reach %d chips by trunk %d; want %d", r, len(got), trunk, r.Members())
			}
		}
	}
}

// TestLineRanges checks ranges that correspond to a start and a range, in hops, of tt-metal's
// linear API.
func TestLineRanges(t *testing.T) {
	for start := 1; start < 4; start++ {
		for n := 1; n < 4; n++ {
			for d := range Direction(NumDirections) {
				var r Ranges
				r.Hops[d], r.Skip[d] = uint8(start+n-1), uint8(start-1)
				got := reach(TrunkX, r)
				for k := start; k < start+n; k++ {
					step := [NumDirections][2]int{{k, 0}, {-k, 0}, {0, -k}, {0, k}}[d]
					if got[step] != 1 {
						t.Errorf("%s start %d range %d: %v", d, start, n, got)
					}
				}
				if len(got) != n || r.Members() != n {
					t.Errorf("%s start %d range %d: %v", d, start, n, got)
				}
			}
		}
	}
}

func TestPartsRefuse(t *testing.T) {
	for name, r := range map[string]Ranges{
		"back to where it came from": {Hops: [NumDirections]uint8{West: 1}},
		"passed over at the end":     {Skip: [NumDirections]uint8{East: 1}},
	} {
		if p := r.Parts(West); p != 0 {
			t.Errorf("%s: parts %b", name, p)
		}
	}
}

func TestParseRanges(t *testing.T) {
	for s, want := range map[string]Ranges{
		"E2,W1,N0,S1": {Hops: [NumDirections]uint8{2, 1, 0, 1}},
		"n3":          {Hops: [NumDirections]uint8{North: 3}},
		"E2-4, s1":    {Hops: [NumDirections]uint8{East: 4, South: 1}, Skip: [NumDirections]uint8{East: 1}},
		"W255-255":    {Hops: [NumDirections]uint8{West: 255}, Skip: [NumDirections]uint8{West: 254}},
	} {
		if r, err := ParseRanges(s); err != nil || r != want {
			t.Errorf("%q: %+v, %v", s, r, err)
		}
	}
	for _, s := range []string{"", "E", "E0", "N0,S0", "E2,E3", "Q1", "E-1", "E0-2", "E3-2", "E256", "2", "E1,,W1", "E1;W1"} {
		if r, err := ParseRanges(s); err == nil {
			t.Errorf("%q: taken as %s", s, r)
		}
	}
}

func FuzzParseRanges(f *testing.F) {
	for _, s := range []string{"E2,W1,N0,S1", "E2-4", "", "E", "é1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := ParseRanges(s)
		if err != nil {
			return
		}
		if again, err := ParseRanges(r.String()); err != nil || again != r {
			t.Fatalf("%q: %s, again %s: %v", s, r, again, err)
		}
	})
}
