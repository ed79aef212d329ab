package barrier

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
)

// round lets ranks enter, and returns their errors; a rank that still waits has no entry.
func enter(t *testing.T, got map[int]error, ms ...*Member) {
	t.Helper()
	for _, m := range ms {
		if err := m.Enter(func(err error) { got[m.rank] = err }); err != nil {
			t.Fatal(err)
		}
	}
}

func join(t *testing.T, b *Table, name string, ranks int) (ms []*Member) {
	t.Helper()
	for r := range ranks {
		m, err := b.Join(name, r, ranks)
		if err != nil {
			t.Fatal(err)
		}
		ms = append(ms, m)
	}
	return ms
}

func TestAllRanksMustCome(t *testing.T) {
	var b Table
	ms := join(t, &b, "a", 3)
	for range 3 {
		got := map[int]error{}
		enter(t, got, ms[0], ms[1])
		if len(got) != 0 {
			t.Fatalf("after two of three ranks, the barrier ended: %v", got)
		}
		enter(t, got, ms[2])
		if len(got) != 3 || got[0] != nil || got[1] != nil || got[2] != nil {
			t.Fatalf("after three of three ranks: %v", got)
		}
	}
}

func TestARankThatLeavesBreaksTheBarrier(t *testing.T) {
	var b Table
	ms := join(t, &b, "a", 3)
	got := map[int]error{}
	enter(t, got, ms[0])
	ms[2].Leave()
	enter(t, got, ms[1])
	for r := range 2 {
		var left *LeftError
		if !errors.As(got[r], &left) || left.Rank != 2 || left.Name != "a" {
			t.Errorf("rank %d got %v, want the error that rank 2 has left", r, got[r])
		}
	}
	ms[0].Leave()
	ms[1].Leave()
	if len(b.groups) != 0 {
		t.Errorf("after all ranks have left, %d barriers are kept", len(b.groups))
	}
}

func TestCancelKeepsTheRank(t *testing.T) {
	var b Table
	ms := join(t, &b, "a", 2)
	got := map[int]error{}
	enter(t, got, ms[0])
	if !ms[0].Cancel() || ms[0].Cancel() {
		t.Error("a cancel did not end the wait exactly once")
	}
	enter(t, got, ms[1])
	if len(got) != 0 {
		t.Errorf("one rank ended a barrier of two: %v", got)
	}
	enter(t, got, ms[0])
	if len(got) != 2 {
		t.Errorf("both ranks entered: %v", got)
	}
}

func TestJoinRefuses(t *testing.T) {
	var b Table
	join(t, &b, "a", 2)
	for _, c := range [][2]int{{0, 2}, {0, 3}} {
		if _, err := b.Join("a", c[0], c[1]); err == nil {
			t.Errorf("rank %d of %d joined a barrier of 2 ranks with a rank 0", c[0], c[1])
		}
	}
	for i := range MaxGroups - 1 {
		join(t, &b, fmt.Sprint(i), 1)
	}
	if _, err := b.Join("one more", 0, 1); err == nil {
		t.Errorf("the table took more than %d barriers", MaxGroups)
	}
}

func TestOnceLeavesNothing(t *testing.T) {
	var b Table
	ended := 0
	for range 3 {
		for r := range 2 {
			if _, err := b.Once("a", r, 2, func(err error) {
				if err == nil {
					ended++
				}
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	cancel, err := b.Once("a", 0, 2, func(error) { t.Error("a cancelled wait ended") })
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if ended != 6 || len(b.groups) != 0 {
		t.Errorf("%d of 6 waits ended, and %d barriers are kept", ended, len(b.groups))
	}
}

// TestAgainstAModel enters, cancels and leaves at random, and compares the barrier with a count of
// the ranks inside.
func TestAgainstAModel(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		var b Table
		ranks := 1 + r.IntN(5)
		ms := join(t, &b, "a", ranks)
		inside, gone, broken := map[int]bool{}, map[int]bool{}, false
		for range 100 {
			k := r.IntN(ranks)
			if gone[k] {
				continue
			}
			switch r.IntN(12) {
			case 0:
				ms[k].Leave()
				delete(inside, k)
				gone[k], broken = true, true
			case 1, 2:
				if ms[k].Cancel() != (inside[k] && !broken) {
					t.Fatalf("seed %d: a cancel of rank %d is wrong", seed, k)
				}
				delete(inside, k)
			default:
				if inside[k] && !broken {
					if ms[k].Enter(func(error) {}) == nil {
						t.Fatalf("seed %d: rank %d entered twice", seed, k)
					}
					continue
				}
				var got []error
				if err := ms[k].Enter(func(err error) { got = append(got, err) }); err != nil {
					t.Fatal(err)
				}
				inside[k] = true
				switch {
				case broken && (len(got) != 1 || got[0] == nil):
					t.Fatalf("seed %d: a broken barrier let rank %d wait", seed, k)
				case !broken && (len(got) == 1) != (len(inside) == ranks):
					t.Fatalf("seed %d: with %d of %d ranks inside, rank %d got %v", seed, len(inside), ranks, k, got)
				}
				if len(inside) == ranks {
					clear(inside)
				}
			}
		}
	}
}
