package arrange

// Groups joins numbers from 0 on into groups. For each number, Groups has a number of the same group
// that is not higher.
type Groups []int

// NewGroups returns n groups of one number each.
func NewGroups(n int) Groups {
	g := make(Groups, n)
	for i := range g {
		g[i] = i
	}
	return g
}

// Group returns the lowest number of the group of i.
func (g Groups) Group(i int) int {
	for g[i] != i {
		g[i] = g[g[i]]
		i = g[i]
	}
	return i
}

// Join makes one group of the groups of a and b.
func (g Groups) Join(a, b int) {
	a, b = g.Group(a), g.Group(b)
	g[max(a, b)] = min(a, b)
}
