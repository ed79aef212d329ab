package chip

import (
	"time"

	"ttfabric/wire/mono"
)

// rateWindow is the shortest time over which a chip measures the data rates of its ports. If the
// chip has nothing to do when the time is over, the window lasts longer.
const rateWindow = time.Second

// Rate is the data rate of a port: the bytes and packets that crossed the link in a window (Spec
// §1.1.2: "Observed data rates by different fabric routers").
type Rate struct {
	Over                  time.Duration // length of the window; 0: the chip has not run for a whole window
	BytesOut, BytesIn     float64       // bytes of frames of every kind per second, from envelope to checksum
	PacketsOut, PacketsIn float64       // packets per second
}

// passed counts what has crossed a port's link since the chip's start.
type passed struct{ bytesOut, bytesIn, packetsOut, packetsIn uint64 }

func (p *port) passed() passed {
	f := p.link.Counters()
	return passed{f.BytesSent, f.BytesReceived, f.PacketsSent, f.PacketsReceived}
}

// rates holds the latest complete window of each port, and the beginning of the present window.
type rates struct {
	from mono.Time // beginning of the present window
	base []passed  // counts of each port at the beginning of the present window; nil: the chip has not run yet
	last []Rate    // rates of each port in the previous window
}

// pass ends the window if it is long enough.
func (r *rates) pass(now mono.Time, ports []port) {
	if r.base != nil && now.Sub(r.from) < rateWindow {
		return
	}
	if r.base == nil {
		r.base, r.last = make([]passed, len(ports)), make([]Rate, len(ports))
	} else {
		for i := range ports {
			r.last[i] = r.base[i].rate(ports[i].passed(), now.Sub(r.from))
		}
	}
	for i := range ports {
		r.base[i] = ports[i].passed()
	}
	r.from = now
}

// The method "at" returns the rate of port i at the instant now. If the present window is too
// short, at returns the rate of the previous window.
func (r *rates) at(now mono.Time, i int, p *port) Rate {
	if r.base == nil {
		return Rate{}
	}
	if d := now.Sub(r.from); d >= rateWindow {
		return r.base[i].rate(p.passed(), d)
	}
	return r.last[i]
}

// rate returns the rate between the counts a and the later counts b. The argument "over" is the
// time between the counts a and b.
func (a passed) rate(b passed, over time.Duration) Rate {
	per := func(from, to uint64) float64 { return float64(to-from) / over.Seconds() }
	return Rate{over, per(a.bytesOut, b.bytesOut), per(a.bytesIn, b.bytesIn), per(a.packetsOut, b.packetsOut), per(a.packetsIn, b.packetsIn)}
}
