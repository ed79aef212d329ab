package snapshot

import (
	"fmt"
	"strconv"
	"strings"

	"ttfabric/wire"
)

// Hex32 is a number of 32 bits, which is written with 8 hexadecimal digits.
type Hex32 uint32

// MarshalText returns 8 hexadecimal digits.
func (h Hex32) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%08x", uint32(h)), nil }

// UnmarshalText reads 8 hexadecimal digits.
func (h *Hex32) UnmarshalText(b []byte) error {
	v, err := hex(b, 32)
	*h = Hex32(v)
	return err
}

// Hex64 is a number of 64 bits, which is written with 16 hexadecimal digits.
type Hex64 uint64

// MarshalText returns 16 hexadecimal digits.
func (h Hex64) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%016x", uint64(h)), nil }

// UnmarshalText reads 16 hexadecimal digits.
func (h *Hex64) UnmarshalText(b []byte) error {
	v, err := hex(b, 64)
	*h = Hex64(v)
	return err
}

func hex(b []byte, bits int) (uint64, error) {
	v, err := strconv.ParseUint(string(b), 16, bits)
	if err != nil || len(b) != bits/4 {
		return 0, fmt.Errorf("%q: want %d hexadecimal digits", b, bits/4)
	}
	return v, nil
}

// Port is an ethernet port, which is written as M0D3/8: channel 8 of chip 3 of mesh 0.
type Port wire.PortID

// String returns the port in the form of the file.
func (p Port) String() string { return wire.PortID(p).Short() }

// MarshalText returns the port in the form of the file.
func (p Port) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads a port in the form of the file.
func (p *Port) UnmarshalText(b []byte) error {
	chip, ch, ok := strings.Cut(string(b), "/")
	n, err := wire.ParseFabricNodeID(chip)
	c, err2 := strconv.ParseUint(ch, 10, 8)
	if !ok || err != nil || err2 != nil || c >= wire.MaxChannels {
		return fmt.Errorf("port %q: want M<mesh>D<chip>/<channel>, with a channel below %d", b, wire.MaxChannels)
	}
	*p = Port{Node: n, Channel: wire.Channel(c)}
	return nil
}

// VCName is a virtual channel, which is written by its name.
type VCName wire.VC

// Names returns the names of all virtual channels.
func (v VCName) Names() (names []string) {
	for k := range wire.VC(wire.NumVCs) {
		names = append(names, k.String())
	}
	return names
}

// MarshalText returns the name of the virtual channel.
func (v VCName) MarshalText() ([]byte, error) { return []byte(wire.VC(v).String()), nil }

// UnmarshalText reads the name of a virtual channel.
func (v *VCName) UnmarshalText(b []byte) error {
	for k := range wire.VC(wire.NumVCs) {
		if k.String() == string(b) {
			*v = VCName(k)
			return nil
		}
	}
	return fmt.Errorf("no virtual channel has the name %q", b)
}
