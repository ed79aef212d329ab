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
		queued, parked, held, waiting := 0, 0, uint16(0), Skip(0)
		for v := range wire.VC(wire.NumVCs) {
			if p.recv[v].n > 0 {
				recvd += p.recv[v].n
				held |= 1 << v
			}
			for c := range p.send[v] {
				if p.send[v][c].n > 0 {
					queued += p.send[v][c].n
					parked += max(0, p.send[v][c].n-p.send[v][c].size)
					waiting |= one(v, c)
				}
			}
		}
		if parked != p.parked || parked > MaxParked {
			return fmt.Errorf("router: port %d has %d parked packets, but the router counts %d, and parks at most %d", i, parked, p.parked, MaxParked)
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
