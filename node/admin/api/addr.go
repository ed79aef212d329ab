package api

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"ttfabric/wire"
)

// Addr is the address of a byte in a tile of the destination chip. In JSON, Addr is a text. The text
// is an offset in the tile that the body names, such as "0x1000", or a tile and an offset, such as
// "1-1:0x1000". All forms of [wire.NocAddr.String] are allowed, such as the rectangle
// "1-2..4-5:0x1000". Offsets are decimal, or hexadecimal with 0x. A body may have a number instead of the
// text; see [AddrNumbers].
type Addr struct {
	at   wire.NocAddr
	form addrForm
}

// addrForm is the form that an [Addr] had in JSON.
type addrForm uint8

const (
	addrNone   addrForm = iota // no address
	addrWhole                  // tile and offset
	addrOffset                 // an offset alone
	addrNumber                 // a number, as clients of an earlier version of the API send: tile and offset as in wire.NocAddr, or an offset if the body names a tile
)

// maxAddr is the largest address as a number: 36 bits of offset and two NoC coordinates of 6 bits.
const maxAddr = 1<<(wire.NocOffsetBits+2*wire.NocCoordBits) - 1

// AddrNumbers says what a number means as an address, for the OpenAPI document.
const AddrNumbers = "In a body, a number of at most 48 bits may stand for an address. Bits 0 to 35 are the offset, bits 36 to 41 the x coordinate of the tile, and bits 42 to 47 the y coordinate. " +
	"If the body names a tile, a number of at most 36 bits is an offset in this tile."

// NewAddr returns the address a, which names its tile.
func NewAddr(a wire.NocAddr) Addr { return Addr{a, addrWhole} }

// MarshalText returns the address as tile and offset. If only the offset is known, MarshalText
// returns the offset.
func (a Addr) MarshalText() (b []byte, err error) {
	if a.form != addrOffset {
		return []byte(a.at.String()), nil
	}
	return strconv.AppendUint(append(b, "0x"...), a.at.Offset(), 16), nil
}

// UnmarshalJSON reads a text or a number.
func (a *Addr) UnmarshalJSON(b []byte) error {
	text, err := string(b), error(nil)
	switch quoted := strings.HasPrefix(text, `"`); {
	case quoted && strings.Contains(text, ":"):
		a.form = addrWhole
		a.at, err = wire.ParseNocAddr(text[1 : len(text)-1])
	case quoted:
		a.form = addrOffset
		a.at, err = wire.ParseNocAddr("0-0:" + text[1:len(text)-1])
	default:
		a.form = addrNumber
		if err = json.Unmarshal(b, (*uint64)(&a.at)); err == nil && a.at > maxAddr {
			return fmt.Errorf("address %s: want a number of at most 48 bits, or a text such as \"1-1:0x1000\"", b)
		}
	}
	if err != nil || text == "null" {
		return fmt.Errorf("address %s: want an offset of at most 36 bits in the tile, such as \"0x1000\", or tile and offset, such as \"1-1:0x1000\"", b)
	}
	return nil
}

// The method "in" returns the address in the tile "x-y" that the body names. The tile "" means that
// the body names no tile. A text with a tile of its own must name the same tile.
func (a Addr) in(tile string) (wire.NocAddr, error) {
	if tile == "" {
		if a.form == addrOffset {
			return 0, fmt.Errorf("address \"%#x\" names no tile: add \"tile\":\"1-1\", or write \"1-1:%#[1]x\"", a.at.Offset())
		}
		return a.at, nil
	}
	at, err := wire.ParseNocAddr(tile + ":0")
	if err != nil {
		return 0, fmt.Errorf("tile %q: want <x>-<y>, such as 1-1", tile)
	}
	switch whole := at.Add(int(a.at.Offset())); {
	case whole == a.at, a.form == addrNone, a.form == addrOffset, a.form == addrNumber && a.at <= wire.MaxNocOffset:
		return whole, nil
	}
	return 0, fmt.Errorf("address %q is not in tile %q", a.at, tile)
}
