package fault

import (
	"fmt"
)

// Kind says which fault somebody injected or ended.
type Kind uint8

// The kinds of faults. The kinds from KindKilled on concern another chip's process. Whoever
// injects such a fault reports the fault.
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

// String returns the kind in one word.
func (k Kind) String() string { return kindNames[k] }

// MarshalText writes the kind for JSON.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (k *Kind) UnmarshalText(b []byte) error {
	for i, s := range kindNames {
		if s == string(b) {
			*k = Kind(i)
			return nil
		}
	}
	return fmt.Errorf("fault %q: want one of %q", b, kindNames)
}
