package reliable

import (
	"bytes"
	"errors"
	"testing"
)

// TestFlitBits checks each field of the 75 bits against its place: 64 bits of data, 8 of byte parity,
// 3 of the kind (RR §2.1).
func TestFlitBits(t *testing.T) {
	for _, c := range []struct {
		f    Flit
		want string
	}{
		{Flit{}, "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"},
		{NewFlit(Data, 0x0807060504030201), "\x01\x02\x03\x04\x05\x06\x07\x08\xcb\x04"}, // bytes 1, 2, 4, 7 and 8 have an odd number of ones
		{NewFlit(TokenReplica, 0), "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x07"},
		{Flit{Tail, 1 << 63, 0}, "\x00\x00\x00\x00\x00\x00\x00\x80\x00\x05"},
	} {
		b := c.f.AppendBinary(nil)
		if string(b) != c.want {
			t.Errorf("%+v: % x, want % x", c.f, b, c.want)
		}
		if got, err := DecodeFlit(b); got != c.f || err != nil {
			t.Errorf("% x: %+v %v, want %+v", b, got, err, c.f)
		}
	}
	if f := (Flit{Data, 1 << 63, 0}); f.Intact() || !NewFlit(Data, 1<<63).Intact() {
		t.Error("the byte parity of bit 63 is not checked")
	}
	for _, bad := range []string{"", "123456789", "12345678901", "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x08"} {
		if f, err := DecodeFlit([]byte(bad)); err == nil {
			t.Errorf("%q was decoded: %+v", bad, f)
		}
	}
}

// TestHeadBits checks the fields of RR Table 1.
func TestHeadBits(t *testing.T) {
	for _, c := range []struct {
		h    Head
		want uint64
	}{
		{Head{}, 0},
		{Head{X: 31}, 31},
		{Head{Y: 31}, 31 << 5},
		{Head{Diagnostic: true}, 1 << 10},
		{Head{Priority: 1}, 1 << 11},
		{Head{User: userMask}, 0xfffffffffffff000},
		{Head{X: 3, Y: 5, Priority: 1, User: 0x123456789abcd}, 0x123456789abcd<<12 | 0x8a3},
	} {
		v, err := c.h.Encode()
		if v != c.want || err != nil || DecodeHead(v) != c.h {
			t.Errorf("%+v: %#x %v %+v, want %#x", c.h, v, err, DecodeHead(v), c.want)
		}
	}
	for _, bad := range []Head{{X: 32}, {Y: 32}, {Priority: 2}, {User: userMask + 1}} {
		if v, err := bad.Encode(); err == nil {
			t.Errorf("%+v was encoded as %#x", bad, v)
		}
	}
}

// TestFrameBits sets each field of RR Table 2 alone, and finds exactly the bits that the table gives.
func TestFrameBits(t *testing.T) {
	idle := Slot{Flit: Flit{Kind: Data}, Up: true}
	const up, data = 1 << 22, 4 << 18 // frame 2 of idle
	for _, c := range []struct {
		name string
		set  func(*Slot)
		want [NumFrames]uint32 // bits beyond those of the slot idle
	}{
		{"nothing", func(*Slot) {}, [4]uint32{}},
		{"PE", func(s *Slot) { s.PE = true }, [4]uint32{1 << 22}},
		{"USR0", func(s *Slot) { s.User = 1 }, [4]uint32{1 << 21}},
		{"VCI", func(s *Slot) { s.VC = 4 }, [4]uint32{4 << 18}},
		{"BP1", func(s *Slot) { s.Parity = 2 }, [4]uint32{1 << 17}},
		{"BP0", func(s *Slot) { s.Parity = 1 }, [4]uint32{1 << 16}},
		{"data 15:0", func(s *Slot) { s.Data = 0x8001 }, [4]uint32{0x8001}},
		{"copied kind", func(s *Slot) { s.Copied = CopiedTail }, [4]uint32{0, 2 << 21}},
		{"copied VCI", func(s *Slot) { s.Copied, s.CopiedVC = CopiedData, 4 }, [4]uint32{0, 1<<21 | 4<<18}},
		{"BP3 BP2", func(s *Slot) { s.Parity = 0xc }, [4]uint32{0, 3 << 16}},
		{"data 31:16", func(s *Slot) { s.Data = 0x8001 << 16 }, [4]uint32{0, 0x8001}},
		{"USR1", func(s *Slot) { s.User = 2 }, [4]uint32{0, 0, 1 << 21}},
		{"kind", func(s *Slot) { s.Kind = TokenReplica }, [4]uint32{0, 0, 3 << 18}},
		{"BP5 BP4", func(s *Slot) { s.Parity = 0x30 }, [4]uint32{0, 0, 3 << 16}},
		{"data 47:32", func(s *Slot) { s.Data = 0x8001 << 32 }, [4]uint32{0, 0, 0x8001}},
		{"freed", func(s *Slot) { s.Freed = 0x11 }, [4]uint32{0, 0, 0, 0x11 << 18}},
		{"BP7 BP6", func(s *Slot) { s.Parity = 0xc0 }, [4]uint32{0, 0, 0, 3 << 16}},
		{"data 63:48", func(s *Slot) { s.Data = 0x8001 << 48 }, [4]uint32{0, 0, 0, 0x8001}},
	} {
		s := idle
		c.set(&s)
		f, err := s.Encode()
		if err != nil {
			t.Fatal(c.name, err)
		}
		want := c.want
		want[2] |= up | data
		for i := range f {
			if f[i]&(frameParity-1) != want[i] {
				t.Errorf("%s: frame %d is %#x, want %#x", c.name, i, f[i]&(frameParity-1), want[i])
			}
		}
		if back, err := DecodeSlot(f); back != s || err != nil {
			t.Errorf("%s: decoded as %+v, %v, want %+v", c.name, back, err, s)
		}
	}
	down := Slot{Flit: Flit{Kind: Control}, PE: true}
	if f, err := down.Encode(); err != nil || f[2]&up != 0 {
		t.Errorf("a slot on a link that is down: %#x %v", f, err)
	}
}

// TestEveryWrongBit flips each of the 96 lines of a slot. Each flip must be a parity error. A dead
// wire, all zeros, must be one too.
func TestEveryWrongBit(t *testing.T) {
	s := Slot{Flit: NewFlit(Tail, 0x0123456789abcdef), VC: 3, Copied: CopiedData, CopiedVC: 2, Freed: 9, Up: true, User: 1}
	f, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for i := range NumFrames {
		for b := range FrameBits + 1 {
			g := f
			g[i] ^= 1 << b
			if got, err := DecodeSlot(g); !errors.Is(err, ErrParity) {
				t.Errorf("frame %d, line %d: %+v, %v", i, b, got, err)
			}
		}
	}
	if got, err := DecodeSlot([NumFrames]uint32{}); !errors.Is(err, ErrParity) {
		t.Errorf("a dead wire: %+v, %v", got, err)
	}
	for _, bad := range []Slot{{Flit: Flit{Kind: Data}, VC: 5}, {CopiedVC: 1, Up: true}, {Copied: 3}, {Freed: 32}, {User: 4}, {Flit: Flit{Kind: Control, Data: 1}}, {Freed: 1, Up: true}, {PE: true, Up: true}, {}, {Flit: Flit{Kind: 8}}} {
		if f, err := bad.Encode(); err == nil {
			t.Errorf("%+v was encoded: %#x", bad, f)
		}
	}
}

func FuzzFlit(f *testing.F) {
	f.Add(NewFlit(Data, 77).AppendBinary(nil))
	f.Add([]byte("too short"))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := DecodeFlit(b)
		if err != nil {
			return
		}
		if again := got.AppendBinary(nil); !bytes.Equal(again, b) {
			t.Fatalf("% x became % x", b, again)
		}
		if got.Kind.Head() {
			if v, err := DecodeHead(got.Data).Encode(); v != got.Data || err != nil {
				t.Fatalf("head %#x became %#x, %v", got.Data, v, err)
			}
		}
	})
}

func FuzzSlot(f *testing.F) {
	s := Slot{Flit: NewFlit(HeadRestart, 1<<63|5), VC: 4, Copied: CopiedTail, CopiedVC: 1, Freed: 31, Up: true, PE: true, User: 3}
	v, _ := s.Encode()
	f.Add(v[0], v[1], v[2], v[3])
	f.Add(uint32(1)<<FrameBits, uint32(1)<<FrameBits, uint32(1)<<22, uint32(1)<<FrameBits) // padding
	f.Fuzz(func(t *testing.T, a, b, c, d uint32) {
		in := [NumFrames]uint32{a, b, c, d}
		got, err := DecodeSlot(in)
		if err != nil {
			return
		}
		if again, err := got.Encode(); again != in || err != nil {
			t.Fatalf("%#x became %#x, %v", in, again, err)
		}
	})
}
