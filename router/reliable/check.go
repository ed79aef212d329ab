package reliable

import (
	"fmt"
	"slices"

	"ttfabric/wire"
)

// Check returns the first broken invariant of the router, or nil.
func (r *Router) Check() error {
	if r.Stats.Violations > 0 {
		return fmt.Errorf("router %v has received %d frames or acknowledgements that no correct neighbour sends", r.cfg.At, r.Stats.Violations)
	}
	held := 0
	for port := range r.places {
		for vc := range r.places[port] {
			for i := range r.places[port][vc] {
				s := &r.places[port][vc][i]
				switch {
				case s.State == Held:
					held++
					if !slices.Contains(r.held, s) {
						return fmt.Errorf("router %v: a held packet is not on the list", r.cfg.At)
					}
				case s.State == Sent && (!r.links[s.dir].up || r.links[s.dir].sent[s.outVC][s.out] != s):
					return fmt.Errorf("router %v: a packet was sent by a link that does not know the packet", r.cfg.At)
				case s.State != Free && !s.live && s.port != portLocal && s.token == NoToken:
					return fmt.Errorf("router %v: a packet of a link that has failed has no token", r.cfg.At)
				}
			}
		}
	}
	if held != len(r.held) {
		return fmt.Errorf("router %v: %d packets are held, and %d are on the list", r.cfg.At, held, len(r.held))
	}
	for d := range r.links {
		for vc := range r.links[d].free {
			for _, slot := range r.links[d].free[vc] {
				if r.links[d].sent[vc][slot] != nil {
					return fmt.Errorf("router %v: place %d of channel %d of the %v neighbour is free and taken", r.cfg.At, slot, vc, wire.Direction(d))
				}
			}
		}
	}
	return nil
}
