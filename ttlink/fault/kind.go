package fault

import (
	"fmt"
)

// Kind says what was done on purpose.
type Kind uint8

// The kinds. Those from FaultKilled on are done to another chip's process, and
// told by who does them.
const (
	KindSet      Kind = iota // a port's impairment was changed
	KindReset                // and taken away
	KindCut                  // a port sends nothing any more
	KindRestored             // and sends again
	KindKilled
	KindPaused
	KindResumed
	KindRestarted
	KindRemoved
	numKinds
)

var kindNames = [numKinds]string{"set", "reset", "cut", "restored", "killed", "paused", "resumed", "restarted", "removed"}

// String is the kind in one word.
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
