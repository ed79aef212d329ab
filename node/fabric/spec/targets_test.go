package spec

import (
	"slices"
	"testing"
)

// TestChoose compares random choices. The same seed must give the same choice, and a choice has the order of the candidates.
func TestChoose(t *testing.T) {
	from := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}
	seen := map[int]bool{}
	for seed := range uint64(100) {
		a, err := Choose(Random{3, seed}, "number", from)
		b, _ := Choose(Random{3, seed}, "number", from)
		if err != nil || len(a) != 3 || !slices.Equal(a, b) || !slices.IsSorted(a) || len(slices.Compact(a)) != 3 {
			t.Fatalf("seed %d: %v, %v, %v", seed, a, b, err)
		}
		for _, n := range a {
			seen[n] = true
		}
	}
	if len(seen) != len(from) {
		t.Errorf("100 seeds choose only %v", seen)
	}
	if all, err := Choose(Random{}, "number", from); err != nil || !slices.Equal(all, from) {
		t.Errorf("without a count: %v, %v", all, err)
	}
	for _, n := range []int{-1, 11} {
		if _, err := Choose(Random{Count: n}, "number", from); err == nil {
			t.Errorf("count %d: no error", n)
		}
	}
}
