package node

import (
	"testing"
	"time"

	"ttfabric/ttlink"
)

// TestPhase asks for the phase of a profile, of no profile, and of a profile without keepalives,
// which the chip refuses later.
func TestPhase(t *testing.T) {
	at := time.Unix(0, 7*int64(ttlink.ProfileLAN.Keepalive)+5)
	for _, p := range []ttlink.Profile{ttlink.ProfileLAN, {}} {
		if got := phase(at, p); time.Duration(got) != ttlink.ProfileLAN.Keepalive-5 {
			t.Errorf("profile %q: %v", p.Name, got)
		}
	}
	if got := phase(at, ttlink.Profile{Name: "no keepalive", DeadIdle: time.Second}); got != 0 {
		t.Errorf("without keepalives: %v", got)
	}
}
