package admin

import (
	"fmt"
	"time"

	"ttfabric/node/admin/api"
	"ttfabric/node/chip"
	"ttfabric/ttlink"
	"ttfabric/wire/mono"
)

// healthOf returns the health of a port's link as the type of the API. The parameter "firstUp" is
// the time at which the chip's first link came up, or 0 if no link has come up yet.
func healthOf(p *chip.PortStatus, now, firstUp mono.Time) api.LinkHealth {
	l := &p.Link
	h := api.LinkHealth{Phase: l.Phase.String(), Postcode: fmt.Sprintf("%#08x", l.Phase.Postcode()),
		Train: l.Train.String(), TrainCode: uint8(l.Train), Router: p.Router.State.String(), RouterCode: uint32(p.Router.State),
		UptimeS: l.UpFor(now).Seconds(), Flaps: l.Flaps,
		Unreliable: l.Unreliable, ResentPct: l.Shares.Resent, DamagedPct: l.Shares.Damaged}
	if l.LastRetrain != 0 {
		s := now.Sub(l.LastRetrain).Seconds()
		h.RetrainedS = &s
	}
	downs := l.Retrains
	if l.FirstUp != 0 && l.State != ttlink.StateUp {
		downs++
	}
	if downs > 0 {
		h.MeanDownS = l.DownFor(now).Seconds() / float64(downs)
	}
	if whole := now.Sub(firstUp); firstUp != 0 && whole > 0 {
		share := min(l.UpFor(now).Seconds()/whole.Seconds(), 1)
		h.UptimeShare = &share
	}
	if l.HeldUntil != 0 && l.HeldUntil != mono.Never {
		left := max(l.HeldUntil.Sub(now), 0)
		h.Held, h.HeldForS, h.HeldUntil = true, left.Seconds(), time.Now().Add(left).Format(time.RFC3339)
	}
	for _, n := range p.Router.Counters.Dropped {
		h.DroppedHere += n
	}
	return h
}

// firstUp returns the time at which the first of a chip's links came up. If no link has come up
// yet, firstUp returns 0.
func firstUp(s *chip.Status) mono.Time {
	first := mono.Time(0)
	for i := range s.Ports {
		if at := s.Ports[i].Link.FirstUp; at != 0 && (first == 0 || at.Before(first)) {
			first = at
		}
	}
	return first
}

// holdEvent writes into v that damping holds a cable from now on, or has released the cable.
func holdEvent(v *api.EventView, l *ttlink.Event) {
	v.Detail["flaps"], v.Detail["reason"] = fmt.Sprint(l.Flaps), l.Hold.String()
	if l.Kind == ttlink.EventHeld && l.Until != mono.Never {
		v.Detail["for"] = l.Until.Sub(l.At).Round(time.Millisecond).String()
		v.Detail["until"] = v.Time.Add(l.Until.Sub(l.At)).Format(time.RFC3339)
	}
}
