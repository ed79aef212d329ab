package admin

import (
	"fmt"
	"time"

	"ttfabric/node/chip"
	"ttfabric/ttlink"
	"ttfabric/wire/mono"
)

// LinkHealth is how a link has fared, and what the router of its port does.
type LinkHealth struct {
	Phase       string   `json:"phase"`                   // of the training: the router firmware's name of its status
	Postcode    string   `json:"postcode"`                // and its code, such as 0xa3b3c3d3
	Train       string   `json:"train_status"`            // in progress, ok, fail, not connected
	TrainCode   uint8    `json:"train_status_code"`       // 0 to 3, as a Wormhole's ethernet firmware has it
	Router      string   `json:"router_state"`            // initializing, running, paused, draining, retraining
	RouterCode  uint32   `json:"router_state_code"`       // 0 to 4, as tt-metal's RouterState has it
	RetrainedS  *float64 `json:"since_retrain_seconds"`   // since it came up again last; null: never
	MeanDownS   float64  `json:"mean_downtime_seconds"`   // of the times that it was down since it came up first
	UptimeS     float64  `json:"uptime_seconds"`          // in the chip's life, by whatever cable
	UptimeShare *float64 `json:"uptime_share"`            // of the time since the chip's first link came up, 0 to 1; null before
	Flaps       int      `json:"flaps"`                   // failures of the own cable
	Held        bool     `json:"held"`                    // the own cable is held down, as it failed too often
	HeldForS    float64  `json:"held_for_seconds"`        // how much longer; 0 if it isn't
	HeldUntil   string   `json:"held_until,omitempty"`    // the same as a time of day
	DroppedHere uint64   `json:"packets_dropped_by_port"` // that should have left by it, or came in by it and could go nowhere
}

// healthOf renders a link's health; firstUp is when the chip's first link came up, 0 for never.
func healthOf(p *chip.PortStatus, now, firstUp mono.Time) LinkHealth {
	l := &p.Link
	h := LinkHealth{Phase: l.Phase.String(), Postcode: fmt.Sprintf("%#08x", l.Phase.Postcode()),
		Train: l.Train.String(), TrainCode: uint8(l.Train), Router: p.Router.State.String(), RouterCode: uint32(p.Router.State),
		UptimeS: l.UpFor(now).Seconds(), Flaps: l.Flaps}
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
	if l.HeldUntil != 0 {
		left := max(l.HeldUntil.Sub(now), 0)
		h.Held, h.HeldForS, h.HeldUntil = true, left.Seconds(), time.Now().Add(left).Format(time.RFC3339)
	}
	for _, n := range p.Router.Counters.Dropped {
		h.DroppedHere += n
	}
	return h
}

// firstUp is when the first link of a chip came up; 0 for never.
func firstUp(s *chip.Status) mono.Time {
	first := mono.Time(0)
	for i := range s.Ports {
		if at := s.Ports[i].Link.FirstUp; at != 0 && (first == 0 || at.Before(first)) {
			first = at
		}
	}
	return first
}

// holdEvent renders a hold that begins or ends.
func holdEvent(v *EventView, l *ttlink.Event) {
	v.Detail["flaps"] = fmt.Sprint(l.Flaps)
	if l.Kind == ttlink.EventHeld {
		v.Detail["for"] = l.Until.Sub(l.At).Round(time.Millisecond).String()
		v.Detail["until"] = v.Time.Add(l.Until.Sub(l.At)).Format(time.RFC3339)
	}
}
