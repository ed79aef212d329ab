//go:build !linux

package netem

import (
	"errors"

	"ttfabric/ttlink/fault"
)

// ErrSystem is the error on systems other than Linux.
var ErrSystem = errors.New("only Linux has netem: leave out --backend kernel")

// Host stands for a network namespace, which only Linux has.
type Host struct{}

// Open always returns [ErrSystem].
func Open(string) (*Host, error) { return nil, ErrSystem }

// Probe always returns [ErrSystem].
func Probe() error { return ErrSystem }

// Close does nothing.
func (*Host) Close() {}

// Set always returns [ErrSystem].
func (*Host) Set(Source, fault.Options, *uint64) error { return ErrSystem }

// States always returns [ErrSystem].
func (*Host) States() ([]State, error) { return nil, ErrSystem }

// Reset always returns [ErrSystem].
func (*Host) Reset(...State) error { return ErrSystem }
