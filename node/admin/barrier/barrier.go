// Package barrier lets the ranks of a job wait for each other at one chip. A barrier has a name, a
// number of ranks, and any number of rounds. When all ranks have entered the barrier, a round ends,
// and the next round begins. A rank that goes away breaks the barrier, because otherwise the other
// ranks would wait forever.
//
// The package knows neither connections nor the chip. Package server and the HTTP API use one
// [Table] for each chip.
package barrier

import (
	"fmt"
	"slices"
	"sync"
)

// MaxGroups is the largest number of names of barriers that a chip keeps at once.
const MaxGroups = 256

// Table holds the barriers of a chip. The zero Table is ready for use, by any number of goroutines.
type Table struct {
	mu     sync.Mutex
	groups map[string]*group
}

// group is the ranks that use one name.
type group struct {
	name    string
	ranks   int
	members map[int]*Member
	inside  int   // number of members that wait
	broken  error // error that says which rank has left; nil: no rank has left
}

// Member is one rank of a barrier.
type Member struct {
	t    *Table
	g    *group
	rank int
	done func(error) // not nil while the rank waits
}

// LeftError says that a rank has left a barrier.
type LeftError struct {
	Name string
	Rank int
}

// Error names the barrier and the rank.
func (e *LeftError) Error() string {
	return fmt.Sprintf("rank %d has left barrier %q, so not all ranks can come", e.Rank, e.Name)
}

// Join makes a rank a member of the barrier with the given name. Join returns an error if the rank
// is taken, if other members state another number of ranks, or if the table already has [MaxGroups]
// names.
func (t *Table) Join(name string, rank, ranks int) (*Member, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.join(name, rank, ranks)
}

func (t *Table) join(name string, rank, ranks int) (*Member, error) {
	g := t.groups[name]
	switch {
	case g == nil && len(t.groups) >= MaxGroups:
		return nil, fmt.Errorf("the chip keeps %d barriers, as many as it may", MaxGroups)
	case g == nil:
		if t.groups == nil {
			t.groups = map[string]*group{}
		}
		g = &group{name: name, ranks: ranks, members: map[int]*Member{}}
		t.groups[name] = g
	case g.ranks != ranks:
		return nil, fmt.Errorf("barrier %q has %d ranks; rank %d states %d", name, g.ranks, rank, ranks)
	case g.members[rank] != nil:
		return nil, fmt.Errorf("barrier %q has a rank %d already", name, rank)
	}
	m := &Member{t: t, g: g, rank: rank}
	g.members[rank] = m
	return m, nil
}

// Enter makes the rank wait for the other ranks. When all ranks have entered, the Table calls
// "done" with nil. If a rank has left or leaves, the Table calls "done" with a [LeftError]. The
// function "done" must not block, and must not call the Table. If the rank waits already, Enter
// returns an error.
func (m *Member) Enter(done func(error)) error {
	m.t.mu.Lock()
	defer m.t.mu.Unlock()
	return m.enter(done)
}

func (m *Member) enter(done func(error)) error {
	g := m.g
	switch {
	case m.done != nil:
		return fmt.Errorf("rank %d waits in barrier %q already", m.rank, g.name)
	case g.broken != nil:
		done(g.broken)
		return nil
	}
	m.done = done
	if g.inside++; g.inside == g.ranks {
		g.end(nil)
	}
	return nil
}

// end ends the wait of each rank that waits, with the error err.
func (g *group) end(err error) {
	g.inside = 0
	for _, rank := range g.order() {
		if m := g.members[rank]; m != nil && m.done != nil {
			done := m.done
			m.done = nil
			done(err)
		}
	}
}

func (g *group) order() (ranks []int) {
	for r := range g.members {
		ranks = append(ranks, r)
	}
	slices.Sort(ranks)
	return ranks
}

// Cancel ends the rank's wait without a call of its "done". The rank stays a member. Cancel reports
// whether the rank was waiting.
func (m *Member) Cancel() bool {
	m.t.mu.Lock()
	defer m.t.mu.Unlock()
	if m.done == nil {
		return false
	}
	m.done = nil
	m.g.inside--
	return true
}

// Leave removes the rank, and breaks the barrier: for the other ranks, each wait ends with a
// [LeftError].
func (m *Member) Leave() {
	m.t.mu.Lock()
	defer m.t.mu.Unlock()
	m.leave()
}

func (m *Member) leave() {
	if m.g.members[m.rank] != m {
		return
	}
	if m.remove(); len(m.g.members) > 0 && m.g.broken == nil {
		m.g.broken = &LeftError{m.g.name, m.rank}
		m.g.end(m.g.broken)
	}
}

// remove takes the rank out of its group, and the group out of the table if the group is empty.
func (m *Member) remove() {
	g := m.g
	if g.members[m.rank] != m {
		return
	}
	if m.done != nil {
		m.done = nil
		g.inside--
	}
	delete(g.members, m.rank)
	if len(g.members) == 0 {
		delete(m.t.groups, g.name)
	}
}

// Once makes a rank join, wait for one round, and leave without breaking the barrier, for callers
// that have no lasting connection. The function "cancel" makes the rank leave earlier, which breaks
// the barrier. After the call of "done", "cancel" does nothing.
func (t *Table) Once(name string, rank, ranks int, done func(error)) (cancel func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	m, err := t.join(name, rank, ranks)
	if err != nil {
		return nil, err
	}
	err = m.enter(func(err error) {
		m.remove()
		done(err)
	})
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		m.leave()
	}, err
}
