package fault

import (
	"fmt"
)

// Kind says which fault somebody injected or ended.
type Kind uint8

// The kinds of faults. KindSet to KindRestored concern a port or the gossip of a chip, and this
// chip publishes the event. The later kinds concern the process of a chip. Another chip publishes
// the events of these later kinds, because a killed or paused process cannot publish events. The
// program that injects the fault asks the other chip to publish the event.
const (
	KindSet      Kind = iota // the impairment changed
	KindReset                // the impairment was removed
	KindCut                  // the port stopped sending, or the gossip was cut off from some or all chips
	KindRestored             // the cut ended
	KindKilled
	KindPaused
	KindResumed
	KindRestarted
	KindRemoved
	numKinds
)

var kindNames = [numKinds]string{"set", "reset", "cut", "restored", "killed", "paused", "resumed", "restarted", "removed"}

// String returns the kind's name, such as "cut".
func (k Kind) String() string { return kindNames[k] }

// MarshalText returns the kind's name, for JSON.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText sets k to the kind with the name b.
func (k *Kind) UnmarshalText(b []byte) error {
	for i, s := range kindNames {
		if s == string(b) {
			*k = Kind(i)
			return nil
		}
	}
	return fmt.Errorf("fault %q: want one of %q", b, kindNames)
}
