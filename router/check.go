package router

import (
	"fmt"

	"ttfabric/wire"
)

// CheckInvariants returns an error if the router's counts do not agree with the content of its
// channels. CheckInvariants is for tests.
func (r *Router) CheckInvariants() error {
	recvd := 0
	for i := range r.ports {
		p := &r.ports[i]
		queued, held, waiting := 0, uint16(0), Skip(0)
		for v := range wire.VC(wire.NumVCs) {
			if p.recv[v].n > 0 {
				recvd += p.recv[v].n
				held |= 1 << v
			}
			for c := range p.send[v] {
				if p.send[v][c].n > 0 {
					queued += p.send[v][c].n
					waiting |= one(v, c)
				}
			}
		}
		if queued != p.queued || held != p.held || waiting != p.waiting {
			return fmt.Errorf("router: port %d holds %d packets in the sender channels %#x and has packets in the receiver channels %#x, but the router counts %d packets in the sender channels %#x, and the receiver channels %#x",
				i, queued, waiting, held, p.queued, p.waiting, p.held)
		}
	}
	if recvd != r.recvd {
		return fmt.Errorf("router: the receiver channels hold %d packets, but the router counts %d", recvd, r.recvd)
	}
	return nil
}
