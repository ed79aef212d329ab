package node

import "fmt"

// LeavingError is the error of requests to a chip that is about to be removed.
type LeavingError struct{ Chip fmt.Stringer }

// Error returns a message that names the chip.
func (e *LeavingError) Error() string {
	return fmt.Sprintf("chip %s is being removed and takes no new work", e.Chip)
}

// Drain makes the chip refuse new requests of programs if the argument "on" is true. If "on" is
// false, the chip accepts new requests again. Requests that the chip has started continue, and the
// chip still forwards packets of other chips. The caller reads from Status whether requests or
// packets are left. A traffic run continues until somebody stops the run.
func (n *Node) Drain(on bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.leaving = on
}

// Leaving reports whether the chip refuses new requests; see [Node.Drain].
func (n *Node) Leaving() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.leaving
}

// takesWork returns nil if the chip accepts new requests. Otherwise takesWork returns the error for
// refused requests.
func (n *Node) takesWork() error {
	if n.leaving {
		return &LeavingError{n.cfg.Node}
	}
	return nil
}
