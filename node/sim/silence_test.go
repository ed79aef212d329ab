package sim

import (
	"testing"

	"ttfabric/ttlink"
)

// All cables are cut, again and again, for longer than a link lives without its
// peer, and put back before chips are taken for unreachable: every link goes
// down and comes up again, and nothing is lost, refused or doubled.
func TestAllCablesSilent(t *testing.T) {
	for seed := range uint64(4) {
		s, err := newSim(Config{Topology: topology(t, []string{"n300", "t3000"}[seed%2]), Seed: seed + 300, Quick: true})
		if err != nil {
			t.Fatal(err)
		}
		s.around.profile = []ttlink.Profile{ttlink.ProfileCrowded, ttlink.ProfileLAN}[seed/2]
		down := s.around.profile.DeadTraffic * 7 / 5 // tables do without a cable after twice the silence
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
			t.Errorf("seed %d: %d cuts, %d links went down, %d requests found no way", r.Seed, cuts, r.Downs, r.Refused)
		}
		t.Logf("seed %d: %d cuts of %v, %d links went down", r.Seed, cuts, down, r.Downs)
	}
}
