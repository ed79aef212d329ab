package node

import "fmt"

// LeavingError is returned for requests to a chip that is about to go away.
type LeavingError struct{ Chip fmt.Stringer }

// Error says which chip it is.
func (e *LeavingError) Error() string {
	return fmt.Sprintf("chip %s is being removed and takes no new work", e.Chip)
}

// Drain makes the chip take no new requests of programs, or take them again.
// What has been started goes on, and what passes through does, too; Status
// says when nothing is left. A traffic run goes on until it is stopped.
func (n *Node) Drain(on bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.leaving = on
}

// takesWork is the error for new requests.
func (n *Node) takesWork() error {
	if n.leaving {
		return &LeavingError{n.cfg.Node}
	}
	return nil
}
