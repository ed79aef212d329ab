// Package everyorder searches all states that a system can reach if its steps happen in any order.
package everyorder

// State is one state of a system. Two states with equal keys are the same.
type State interface{ Key() string }

// Search begins with the first state, and follows all steps. The function next calls its argument with
// each state that one step leads to, and returns whether the system can move on without a failure.
// Search calls visit once for each state; a false result ends the search. Search calls end for each
// state from which the system cannot move on. The result is the number of states.
func Search[S State](first S, visit func(S) bool, next func(S, func(S)) bool, end func(S)) int {
	seen := map[string]struct{}{}
	var todo []S
	ok := true
	add := func(s S) {
		k := s.Key()
		if _, known := seen[k]; known || !ok {
			return
		}
		seen[k] = struct{}{}
		todo = append(todo, s)
		ok = visit(s)
	}
	for add(first); len(todo) > 0 && ok; {
		s := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if !next(s, add) {
			end(s)
		}
	}
	return len(seen)
}
