package api

import (
	"fmt"
	"time"

	"ttfabric/ttlink"
)

// StateWords returns the state of the link in words, with what is unusual about the link.
func (l *LinkView) StateWords() string {
	state := l.State
	if l.By != nil {
		state = fmt.Sprintf("%s by channel %d", l.State, *l.By)
	}
	if l.State == ttlink.StateUp.String() && l.Payload < l.Wanted {
		state += fmt.Sprintf(", frames of %d B, because frames of %d B get lost", l.Payload, l.Wanted)
	}
	switch {
	case l.Raw:
		state = "compliance mode"
	case l.Avoided:
		state += ", out of service"
	case l.Held:
		state += fmt.Sprintf(", held %s more", time.Duration(l.HeldForS*float64(time.Second)).Round(time.Second))
	}
	if l.Silent {
		state += ", silent"
	}
	if l.Unreliable {
		state += ", unreliable"
	}
	if l.Miswired != "" {
		state = "miswired: found " + l.Miswired
	}
	return state
}
