// Package claim keeps which program uses a part of a chip that only one program can use at a time, such
// as memory at a fixed address. A claim ends when its holder releases it. The chip's servers release the
// claims of a program when the program's connection ends.
package claim

import (
	"fmt"
	"time"

	"ttfabric/wire"
)

// Limits of claims.
const (
	MaxName   = 64  // largest length of the name of a claim, in bytes
	MaxHolder = 256 // largest length of the name of a holder, in bytes
	MaxClaims = 256 // largest number of claims that a chip keeps
)

// HeldError says that another program uses a part of a chip that only one program can use at a time.
type HeldError struct {
	Text string // names the chip, what is in use, the holder, and the time of the claim
}

// Error returns the text.
func (e *HeldError) Error() string { return e.Text }

// Table holds the claims of a chip. The zero Table is ready for use.
type Table struct {
	held map[string]held
	last uint64 // number of the latest claim
}

type held struct {
	number uint64
	holder string
	since  time.Time
}

// Check returns an error if a claim has a bad value.
func Check(name, holder string) error {
	switch {
	case len(name) < 1 || len(name) > MaxName:
		return fmt.Errorf("the name %q of a claim has %d bytes: want 1 to %d", name, len(name), MaxName)
	case len(holder) < 1 || len(holder) > MaxHolder:
		return fmt.Errorf("the holder %q of a claim has %d bytes: want 1 to %d", holder, len(holder), MaxHolder)
	}
	return nil
}

// Claim claims what "name" names at a chip, and returns the number of the claim. If another holder has
// the claim, Claim returns a [HeldError].
func (t *Table) Claim(chip wire.FabricNodeID, name, holder string, now time.Time) (number uint64, err error) {
	if err := Check(name, holder); err != nil {
		return 0, err
	}
	if h, ok := t.held[name]; ok {
		return 0, &HeldError{fmt.Sprintf("chip %s: %s has been in use by %s since %s", chip, name, h.holder, h.since.Format(time.RFC3339))}
	}
	if len(t.held) >= MaxClaims {
		return 0, fmt.Errorf("chip %s keeps %d claims, as many as it may", chip, MaxClaims)
	}
	if t.held == nil {
		t.held = map[string]held{}
	}
	t.last++
	t.held[name] = held{t.last, holder, now}
	return t.last, nil
}

// Release ends the claim with the given number. If the claim has ended before, Release does nothing.
func (t *Table) Release(name string, number uint64) {
	if t.held[name].number == number {
		delete(t.held, name)
	}
}
