package router

import (
	"fmt"

	"ttfabric/wire"
)

// If the router's counts and marks do not agree with the content of its channels, CheckInvariants
// returns an error. CheckInvariants is for tests and the simulator.
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
			return fmt.Errorf("router: port %d has %d packets to send in %#x, and receiver channels %#x; counted are %d in %#x, and %#x",
				i, queued, waiting, held, p.queued, p.waiting, p.held)
		}
	}
	if recvd != r.recvd {
		return fmt.Errorf("router: %d packets are in the receiver channels and %d are counted", recvd, r.recvd)
	}
	return nil
}
