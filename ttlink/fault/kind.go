package fault

import (
	"fmt"
)

// Kind says which fault somebody injected or ended.
type Kind uint8

// The kinds of faults. KindSet to KindRestored concern a port or the gossip of a chip, and this
// chip publishes the event. The comments name only ports. The later kinds concern the process of a
// chip. Another chip publishes their events, because a killed or paused process cannot. The program
// that injects the fault asks the other chip to do so.
const (
	KindSet      Kind = iota // the impairment of a port changed
	KindReset                // the impairment of a port was removed
	KindCut                  // a port stopped sending
	KindRestored             // a port sends again after a cut
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
