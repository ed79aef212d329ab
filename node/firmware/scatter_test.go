package firmware

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"ttfabric/wire"
)

// field returns a field of the table of BDMS, "Scatter pages", by its first bit and its number of bits.
func field(b []byte, first, n int) (v uint64) {
	for i := range n {
		bit := first + i
		v |= uint64(b[bit/8]>>(bit%8)&1) << i
	}
	return v
}

// model reads a scatter page as BDMS "Scatter pages" describes it, one field at a time. The model returns
// nil and false for a page that breaks a rule.
func model(page []byte, one bool) (writes []scatterWrite, ok bool) {
	for len(page) > 0 {
		if field(page, 0, 4) == 0xF { // padding
			return writes, field(page, 4, 4) == 0
		}
		if len(page) < 12 || field(page, 0, 4) != 1 || field(page, 5, 3) != 0 || field(page, 48, 16) != 0 {
			return nil, false
		}
		each, count := field(page, 4, 1) == 1, int(field(page, 8, 8))
		high, x, y := field(page, 16, 4), field(page, 20, 6), field(page, 26, 6)
		size, offset, low := int(field(page, 32, 8)), int(field(page, 40, 8)), uint32(field(page, 64, 32))
		length := (offset + size) * 4
		if each {
			length = (offset + size*count) * 4
		}
		if size == 0 || offset == 0 || length > len(page) {
			return nil, false
		}
		for i := range count {
			at := low
			if i > 0 { // a signed offset, relative to the first write; it does not reach start_addr_h
				from := 12 + 4*(i-1)
				if from+4 > len(page) {
					return nil, false
				}
				at += uint32(int32(uint32(field(page, from*8, 32))))
			}
			if at%4 != 0 {
				return nil, false
			}
			p := offset
			if each {
				p += i * size
			}
			a := wire.NocAddr(uint64(at) | high<<32 | x<<36 | y<<42)
			if one {
				a |= wire.NocOne
			}
			writes = append(writes, scatterWrite{a, page[4*p : 4*(p+size)]})
		}
		page = page[length:]
		if len(page) == 0 {
			return writes, true
		}
	}
	return writes, true
}

// full reports whether the page has its padding section if it needs one (BDMS: "if data_block_length is not a
// multiple of 1024, then software must include a padding section").
func full(page []byte, padded bool) bool { return padded || len(page)%BlockSize == 0 }

// samePage checks that the firmware and the model read a page alike.
func samePage(t *testing.T, page []byte, one bool) (ok bool) {
	t.Helper()
	got, ok := parsePage(page, one)
	want, valid := model(page, one)
	if valid && !full(page, endsInPadding(page)) {
		valid = false
	}
	if ok != valid || ok && !equalWrites(got, want) {
		t.Fatalf("page % x: firmware %v, %d writes; model %v, %d writes", page, ok, len(got), valid, len(want))
	}
	return ok
}

// endsInPadding reports whether a valid page has a padding section.
func endsInPadding(page []byte) bool {
	for len(page) > 0 {
		if page[0]&0xF == 0xF {
			return true
		}
		n := int(page[5]) + int(page[4])
		if page[0]>>4&1 == 1 {
			n = int(page[5]) + int(page[4])*int(page[1])
		}
		page = page[4*n:]
	}
	return false
}

func equalWrites(a, b []scatterWrite) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].at != b[i].at || !bytes.Equal(a[i].data, b[i].data) {
			return false
		}
	}
	return true
}

// scatterSection returns a write section.
func scatterSection(each bool, count, size, offset int, a wire.NocAddr, offsets []uint32, payload []byte) []byte {
	first := uint32(1) | uint32(count)<<8 | uint32(uint64(a)>>32)<<16
	if each {
		first |= 1 << 4
	}
	b := append(words(first, uint32(size)|uint32(offset)<<8, uint32(a)), words(offsets...)...)
	for len(b) < 4*offset {
		b = append(b, 0)
	}
	return append(b, payload...)
}

// padded returns a page of n bytes that ends with a padding section.
func padded(b []byte, n int) []byte {
	if len(b) < n {
		b = append(b, 0xF)
	}
	for len(b) < n {
		b = append(b, 0xA5) // the bytes of the padding do not matter
	}
	return b
}

// TestScatterPages has a page for each sentence of BDMS "Scatter pages".
func TestScatterPages(t *testing.T) {
	at := wire.NocAddr(0x3<<32|0x20000) | wire.NewNocAddr(1, 2, 0)
	p := fill(8)
	one := scatterSection(false, 1, 2, 3, at, nil, p)
	var exact []byte
	for len(exact) < BlockSize-2*len(one) {
		exact = append(exact, one...)
	}
	exact = append(exact, scatterSection(false, 1, (BlockSize-len(exact))/4-3, 3, at, nil, fill(BlockSize-len(exact)-12))...)
	for _, c := range []struct {
		sentence string
		page     []byte
		want     string // writes as addresses and bytes; "": refused
	}{
		{"Write with identical payload", padded(scatterSection(false, 3, 2, 5, at, []uint32{16, 0x100}, p), 1024),
			fmt.Sprint([]scatterWrite{{at, p}, {at + 16, p}, {at + 0x100, p}})},
		{"Write with identical length", padded(scatterSection(true, 2, 1, 4, at, []uint32{32}, p), 1024),
			fmt.Sprint([]scatterWrite{{at, p[:4]}, {at + 32, p[4:]}})},
		{"signed 32-bit offsets", padded(scatterSection(false, 2, 2, 4, at, []uint32{0xFFFFFFF0}, p), 1024),
			fmt.Sprint([]scatterWrite{{at, p}, {at - 16, p}})},
		{"each offset relative to the address of the first write", padded(scatterSection(false, 3, 1, 5, at, []uint32{8, 8}, p[:4]), 64),
			fmt.Sprint([]scatterWrite{{at, p[:4]}, {at + 8, p[:4]}, {at + 8, p[:4]}})},
		{"the low 32 bits can vary per write: no carry", padded(scatterSection(false, 2, 1, 4, at|0xFFFFFFFC, []uint32{8}, p[:4]), 64),
			fmt.Sprint([]scatterWrite{{at | 0xFFFFFFFC, p[:4]}, {at&^0xFFFFFFFF | 4, p[:4]}})},
		{"scatr_count 0", padded(scatterSection(false, 0, 1, 3, at, nil, p[:4]), 64), "[]"},
		{"p_size cannot be zero", padded(scatterSection(false, 1, 0, 3, at, nil, nil), 64), ""},
		{"p_offset cannot be zero", padded(words(1|1<<8, 2, 0x20000), 64), ""},
		{"p_offset below 3: the payload is in the header", padded(words(1|1<<8, 1|2<<8, 0x20000), 64),
			fmt.Sprint([]scatterWrite{{0x20000, words(0x20000)}})},
		{"several sections", padded(append(bytes.Clone(one), one...), 1024), fmt.Sprint([]scatterWrite{{at, p}, {at, p}})},
		{"the sections occupy the full page: no padding", exact, "any"},
		{"software must include a padding section", one, ""},
		{"a padding section of a single byte", append(bytes.Clone(one), 0xF, 0, 0, 0), fmt.Sprint([]scatterWrite{{at, p}})},
		{"reserved bits of padding should be zero", append(bytes.Clone(one), 0x1F, 0, 0, 0), ""},
		{"a section is not permitted to span pages", scatterSection(false, 1, 255, 3, at, nil, make([]byte, BlockSize-12)), ""},
		{"the header of a section must fit", append(bytes.Clone(one), 1, 1, 0, 0), ""},
		{"scatr_cmd 0", padded(words(0, 1|3<<8, 0x20000, 7), 64), ""},
		{"4-byte aligned", padded(scatterSection(false, 1, 1, 3, at+2, nil, p[:4]), 64), ""},
		{"4-byte aligned offsets", padded(scatterSection(false, 2, 1, 4, at, []uint32{2}, p[:4]), 64), ""},
		{"an empty request", nil, "[]"},
	} {
		for _, noc1 := range []bool{false, true} {
			samePage(t, c.page, noc1)
		}
		ws, ok := parsePage(c.page, false)
		if got := fmt.Sprint(ws); ok != (c.want != "") || ok && c.want != "any" && got != c.want {
			t.Errorf("%s: %v, %s, want %q", c.sentence, ok, got, c.want)
		}
	}
}

// TestScatterBits changes each bit of the header of a section, of its offsets and of the padding, and compares
// the firmware with the model. Reserved bits must make the firmware refuse the page.
func TestScatterBits(t *testing.T) {
	at := wire.NewNocAddr(1, 2, 0x20000)
	for _, each := range []bool{false, true} {
		section := scatterSection(each, 3, 2, 6, at, []uint32{64, 0xFFFFFFC0}, fill(24))
		page := padded(section, 256)
		for bit := range (len(section) + 1) * 8 {
			b := bytes.Clone(page)
			b[bit/8] ^= 1 << (bit % 8)
			ok := samePage(t, b, false)
			if reserved := bit >= 5 && bit < 8 || bit >= 48 && bit < 64; reserved && ok {
				t.Errorf("reserved bit %d is set, and the firmware performs the page", bit)
			}
		}
	}
}

// FuzzScatterPage compares the firmware with the model on any bytes.
func FuzzScatterPage(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 1))
	at := wire.NewNocAddr(1, 1, 0x20000)
	for range 200 {
		var b []byte
		for range r.IntN(5) {
			count, size := r.IntN(6), 1+r.IntN(6)
			offsets := make([]uint32, max(0, count-1))
			for i := range offsets {
				offsets[i] = r.Uint32N(1<<16) &^ 3
			}
			b = append(b, scatterSection(r.IntN(2) == 0, count, size, 3+len(offsets), at, offsets, fill(4*size*max(1, count)))...)
		}
		f.Add(padded(b, 4*r.IntN(257)), r.IntN(2) == 0)
	}
	f.Fuzz(func(t *testing.T, page []byte, one bool) {
		page = page[:min(len(page), BlockSize)&^3]
		samePage(t, page, one)
	})
}
