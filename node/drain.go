package node

import "fmt"

// LeavingError is returned for requests to a chip that is about to be removed.
type LeavingError struct{ Chip fmt.Stringer }

// Error names the chip.
func (e *LeavingError) Error() string {
	return fmt.Sprintf("chip %s is being removed and takes no new work", e.Chip)
}

// Drain makes the chip refuse new requests of programs, or accept them again. Requests that have
// been started continue, and so do packets that pass through. Status tells when nothing is left. A
// traffic run continues until it is stopped.
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
