package firmware

import (
	"encoding/binary"
	"slices"

	"ttfabric/wire"
)

// Scatter pages (BDMS, "Scatter pages").
const (
	sectionWrite  = 1
	sectionPad    = 0xF
	sectionHeader = 12   // bytes
	reservedFirst = 0xE0 // reserved bits of a write section's first byte
)

// scatterWrite is one write of a page.
type scatterWrite struct {
	at   wire.NocAddr
	data []byte
}

// parsePage lists the writes of a scatter page, in order. The argument one says that the addresses
// are of NoC 1. If a page is shorter than a block, a padding section must follow its last write
// section. parsePage returns false for a page that breaks a rule. The caller then performs no write
// of the page.
func parsePage(page []byte, one bool) (all []scatterWrite, ok bool) {
	for at := 0; at < len(page); {
		section := page[at:]
		if section[0]&0xF == sectionPad {
			return all, section[0] == sectionPad
		}
		ws, n := parseSection(section, one)
		if n == 0 {
			return nil, false
		}
		all, at = append(all, ws...), at+n
	}
	return all, len(page) == BlockSize || len(page) == 0
}

// parseSection lists the writes of a write section, and returns the section's length. A length of 0 says
// that the section breaks a rule.
func parseSection(b []byte, one bool) (all []scatterWrite, length int) {
	if len(b) < sectionHeader {
		return nil, 0
	}
	le := binary.LittleEndian
	first, sizes, low := le.Uint32(b), le.Uint32(b[4:]), le.Uint32(b[8:])
	vary, count := first>>4&1 != 0, int(first>>8&0xFF)
	size, offset := int(sizes&0xFF)*wordAlign, int(sizes>>8&0xFF)*wordAlign
	payloads := 1
	if vary {
		payloads = count
	}
	length = offset + size*payloads
	if first&0xF != sectionWrite || first&reservedFirst != 0 || sizes>>16 != 0 || size == 0 || offset == 0 || length > len(b) ||
		sectionHeader+(count-1)*wordAlign > len(b) {
		return nil, 0
	}
	at := wire.NocAddr(uint64(first>>16) << 32) // start_addr_h, noc_x and noc_y
	if one {
		at |= wire.NocOne
	}
	all = slices.Grow(all, count)
	for i := range count {
		a, from := low, offset
		if i > 0 {
			a += le.Uint32(b[sectionHeader+(i-1)*wordAlign:])
		}
		if vary {
			from += i * size
		}
		if a%wordAlign != 0 {
			return nil, 0
		}
		all = append(all, scatterWrite{at | wire.NocAddr(a), b[from:][:size]})
	}
	return all, length
}
