package sim

import (
	"testing"

	"ttfabric/ttlink"
)

// TestAllCablesSilent cuts all cables repeatedly. Each cut lasts until the links go down, but ends
// before the tables avoid the cables. Every link must come up again, and no request may be lost,
// refused or doubled.
func TestAllCablesSilent(t *testing.T) {
	for seed := range uint64(4) {
		s, err := newSim(Config{Topology: topology(t, []string{"n300", "t3000"}[seed%2]), Seed: seed + 304, Quick: true})
		if err != nil {
			t.Fatal(err)
		}
		s.around.profile = []ttlink.Profile{ttlink.ProfileCrowded, ttlink.ProfileLAN}[seed/2]
		down := s.around.profile.DeadTraffic * 7 / 5 // tables avoid a cable Profile.Hold after its links go down
		cuts, busy := 0, false
		r := s.commanded(t, down, func(s *Sim) {
			if busy {
				return
			}
			cuts, busy = cuts+1, true
			cut := func(on bool) {
				for _, c := range s.cables {
					for _, w := range c.way {
						w.Cut(on)
					}
				}
			}
			cut(true)
			s.after(down, func() { cut(false) })
			s.after(2*down, func() { busy = false })
		})
		allDone(t, r)
		if cuts == 0 || r.Refused != 0 || r.Downs < len(s.cables) {
			t.Errorf("seed %d: %d cuts, %d links went down, %d requests found no route", r.Seed, cuts, r.Downs, r.Refused)
		}
		t.Logf("seed %d: %d cuts of %v, %d links went down", r.Seed, cuts, down, r.Downs)
	}
}
