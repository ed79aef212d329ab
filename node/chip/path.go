package chip

import (
	"time"

	"ttfabric/ttlink"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Carries reports whether the link of a port is up and its frames go by the port's own cable.
func (c *Chip) Carries(ch wire.Channel) bool {
	i := c.portIndex(ch)
	return i >= 0 && c.ports[i].link.Carries()
}

// Up reports whether the link of a port is up, whichever cable its frames go by, and since when.
func (c *Chip) Up(ch wire.Channel) (since mono.Time, up bool) {
	i := c.portIndex(ch)
	if i < 0 {
		return 0, false
	}
	l := c.ports[i].link.Status()
	return l.Since, l.State == ttlink.StateUp
}

// Ask makes a port that carries its link say hello; see [ttlink.Link.Ask]. It
// returns how long the answer of a peer that lives takes at most: the silence
// after which a link under traffic is down, or some round trips.
func (c *Chip) Ask(now mono.Time, ch wire.Channel) time.Duration {
	if c.tap != nil {
		c.tap.Call(OpAsk, now, ch, 0, nil)
	}
	i := c.portIndex(ch)
	if i < 0 {
		return 0
	}
	l := c.ports[i].link
	l.Ask(now)
	p := c.cfg.Profile
	if p == (ttlink.Profile{}) {
		p = ttlink.ProfileLAN
	}
	return max(p.DeadTraffic, answerTrips*l.Status().RTT)
}

// answerTrips is how many round trips an answer may take.
const answerTrips = 4
