package node

import "fmt"

// LeavingError is the error of requests to a chip that is about to be removed.
type LeavingError struct{ Chip fmt.Stringer }

// Error returns a message that names the chip.
func (e *LeavingError) Error() string {
	return fmt.Sprintf("chip %s is being removed and takes no new work", e.Chip)
}

// Drain makes the chip refuse new requests of programs, or accept new requests again. Requests that
// have been started continue. Packets that pass through continue too. Status tells when no request
// and no packet is left. A traffic run continues until somebody stops the run.
func (n *Node) Drain(on bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.leaving = on
}

// takesWork returns the error for new requests, or nil if the chip takes new requests.
func (n *Node) takesWork() error {
	if n.leaving {
		return &LeavingError{n.cfg.Node}
	}
	return nil
}
