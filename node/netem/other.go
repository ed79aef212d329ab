//go:build !linux

package netem

import (
	"errors"

	"ttfabric/ttlink/fault"
)

// ErrSystem is returned on systems without netem.
var ErrSystem = errors.New("only Linux has netem: leave out --backend kernel")

// Host is one network namespace.
type Host struct{}

// Open fails.
func Open(string) (*Host, error) { return nil, ErrSystem }

// Probe fails.
func Probe() error { return ErrSystem }

// Close does nothing.
func (*Host) Close() {}

// Set fails.
func (*Host) Set(Source, fault.Options, *uint64) error { return ErrSystem }

// States fails.
func (*Host) States() ([]State, error) { return nil, ErrSystem }

// Reset fails.
func (*Host) Reset(...State) error { return ErrSystem }
