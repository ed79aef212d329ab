package node

import (
	"time"

	"ttfabric/ttlink"
	"ttfabric/wire/mono"
)

// phase returns an instant on the clock of a node that started at the given time. The keepalives of
// all chips of a machine are sent at multiples of the profile's Keepalive on the machine's clock.
func phase(start time.Time, p ttlink.Profile) mono.Time {
	if p == (ttlink.Profile{}) {
		p = ttlink.ProfileLAN
	}
	if p.Keepalive <= 0 {
		return 0 // the chip refuses this profile and names the reason
	}
	return mono.Time(p.Keepalive - time.Duration(start.UnixNano())%p.Keepalive)
}
