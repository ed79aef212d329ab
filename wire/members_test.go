package wire

import (
	"math/rand/v2"
	"testing"
)

// walker sends multicasts to members over a grid, and counts how often each chip performs a
// multicast.
type walker struct {
	t     *testing.T
	at    Place // place of the root; the other chips have the same grid
	trunk Trunk
	seen  map[ChipID]int
}

func (w *walker) chip(c ChipID) *Place {
	p := w.at
	p.Chip = c
	return &p
}

// The method "beside" returns the neighbour of a chip, or false where the grid ends.
func (w *walker) beside(c ChipID, d Direction) (ChipID, bool) {
	row, col := int(c)/w.at.Cols, int(c)%w.at.Cols
	step := [NumDirections][2]int{{0, 1}, {0, -1}, {-1, 0}, {1, 0}}[d]
	row, col = row+step[0], col+step[1]
	inX, inY := col >= 0 && col < w.at.Cols, row >= 0 && row < w.at.Rows
	if !inX && !w.at.WrapX || !inY && !w.at.WrapY {
		return 0, false
	}
	return ChipID((row+w.at.Rows)%w.at.Rows*w.at.Cols + (col+w.at.Cols)%w.at.Cols), true
}

func (w *walker) walk(c ChipID, from Direction, m Members, hops int) {
	copies, parts := m.Spread(w.chip(c), w.trunk, from)
	if parts == 0 || hops > w.at.Rows/2+w.at.Cols/2 && (w.at.WrapX && w.at.WrapY) || hops > w.at.Rows+w.at.Cols {
		w.t.Fatalf("%+v trunk %d: chip %d got %s from %s after %d hops", w.at, w.trunk, c, m, from, hops)
	}
	if parts&PartHere != 0 {
		w.seen[c]++
	}
	for d := range Direction(NumDirections) {
		if parts>>d&1 == 0 {
			continue
		}
		next, ok := w.beside(c, d)
		if !ok || d == from {
			w.t.Fatalf("%+v: chip %d sends %s %s, and it came from %s", w.at, c, copies[d], d, from)
		}
		if from < NumDirections && !w.trunk.Along(from) && w.trunk.Along(d) {
			w.t.Fatalf("%+v: chip %d turns back to the trunk", w.at, c)
		}
		w.walk(next, d.Opposite(), copies[d], hops+1)
	}
}

// TestSpread sends a multicast to every set of chips of small grids, from every root. Each member
// must get the multicast once, by a route that turns at most once and is as short as possible. No
// other chip may perform the multicast.
func TestSpread(t *testing.T) {
	for _, grid := range []Place{{Rows: 1, Cols: 6}, {Rows: 5, Cols: 1, WrapY: true}, {Rows: 2, Cols: 4}, {Rows: 3, Cols: 3, WrapX: true, WrapY: true}, {Rows: 2, Cols: 5, WrapX: true}} {
		for root := range grid.Rows * grid.Cols {
			for n := uint64(1); n < 1<<(grid.Rows*grid.Cols); n++ {
				w := &walker{t, grid, Trunk(n%2 + 1), map[ChipID]int{}}
				m := Members{n}
				w.walk(ChipID(root), NumDirections, m, 0)
				for c := range m.All() {
					if w.seen[c] != 1 {
						t.Fatalf("%+v from %d to %s: chip %d got %d", grid, root, m, c, w.seen[c])
					}
				}
				if len(w.seen) != m.Len() {
					t.Fatalf("%+v from %d to %s: %v", grid, root, m, w.seen)
				}
			}
		}
	}
}

// TestHostileMembers gives random sets, sides and places to Spread. Spread neither fails nor gives a
// member to two copies.
func TestHostileMembers(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	for range 20_000 {
		m := Members{rng.Uint64(), rng.Uint64() & rng.Uint64(), rng.Uint64(), rng.Uint64() & 0xFF}
		at := Place{ChipID(rng.IntN(300)), rng.IntN(17), rng.IntN(17), rng.IntN(2) == 0, rng.IntN(2) == 0}
		if at.Rows == 0 {
			at.Cols = 0
		}
		copies, parts := m.Spread(&at, Trunk(rng.IntN(3)), Direction(rng.IntN(NumDirections+1)))
		sum := 0
		for d := range copies {
			sum += copies[d].Len()
			if parts != 0 && copies[d].Any() != (parts>>d&1 != 0) {
				t.Fatalf("%s at %+v: parts %#x, copies %v", m, at, parts, copies)
			}
		}
		if parts&PartHere != 0 {
			sum++
		}
		if parts != 0 && sum != m.Len() {
			t.Fatalf("%s at %+v: %d of %d members are in a copy", m, at, sum, m.Len())
		}
	}
}

// FuzzMembers parses texts of sets. If a text is a set, the method String gives a text of this set,
// and this second text must give the same set again.
func FuzzMembers(f *testing.F) {
	for _, s := range []string{"0", "0-3,7", "255", " 1 , 2", "5-4", "256", "", ",", "1-", "-1", "0-255"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		m, err := ParseMembers(s)
		if err != nil {
			if m.Any() {
				t.Fatalf("%q: %s in spite of %v", s, m, err)
			}
			return
		}
		var back Members
		if err := back.UnmarshalText([]byte(m.String())); err != nil || back != m || !m.Any() {
			t.Fatalf("%q: %s is read as %s: %v", s, m, back, err)
		}
		n := 0
		for c := range m.All() {
			if n++; !m.Has(c) {
				t.Fatalf("%s lists %d", m, c)
			}
			back.Remove(c)
		}
		if n != m.Len() || back.Any() {
			t.Fatalf("%s has %d chips, and lists %d", m, m.Len(), n)
		}
	})
}
