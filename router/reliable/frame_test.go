package reliable

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"testing"

	"ttfabric/router/reliable/nexthop"
	"ttfabric/wire"
)

// vectors are frames and their bytes, written by hand from the table at [ControlBytes].
var vectors = []struct {
	f    Frame
	text string
}{
	{Frame{Kind: KindCopied, VC: 6, Slot: 0x00fe}, "0206fe00"},
	{Frame{Kind: KindUnique, VC: 0, Slot: 3}, "03000300"},
	{Frame{Kind: KindReplica, VC: 1, Slot: 15}, "04010f00"},
	{Frame{Kind: KindFreed, VC: 2, Slot: 1}, "05020100"},
	{Frame{Kind: KindData, VC: 4, Slot: 2, Stays: true, P: Packet{
		Src: nexthop.Place{X: 1, Y: 2}, Dst: nexthop.Place{X: 31, Y: 30}, Priority: 2, TTL: 66,
		Epoch: 0x04030201, Seq: 0x0c0b0a0908070605, Payload: []byte{0xaa, 0xbb}}},
		"01040200" + "01021f1e" + "02420100" + "01020304" + "05060708090a0b0c" + "aabb"},
	{Frame{Kind: KindData, P: Packet{}}, "010000000000000000000000000000000000000000000000"},
}

// TestFrame encodes and decodes the vectors, and decodes every part of each.
func TestFrame(t *testing.T) {
	for _, v := range vectors {
		want, err := hex.DecodeString(v.text)
		if err != nil {
			t.Fatal(err)
		}
		if got := v.f.Append(nil); !bytes.Equal(got, want) {
			t.Errorf("%+v is %x, want %x", v.f, got, want)
		}
		if f, err := DecodeFrame(want); err != nil || !reflect.DeepEqual(f, v.f) {
			t.Errorf("%x is %+v, %v", want, f, err)
		}
		least := ControlBytes
		if v.f.Kind == KindData {
			least = HeaderBytes
		}
		for n := range least {
			if _, err := DecodeFrame(want[:n]); err != ErrFrame {
				t.Errorf("%d bytes of %x: %v", n, want, err)
			}
		}
	}
	for _, bad := range []string{"00000000", "06000000", "02070000", "02000001", "0200000000", "010000000000000003000000000000000000000000000000", "010000000000000000000200000000000000000000000000", "010000000000000000000001000000000000000000000000"} {
		b, err := hex.DecodeString(bad)
		if err != nil {
			t.Fatal(err)
		}
		if f, err := DecodeFrame(b); err != ErrFrame {
			t.Errorf("%s is %+v", bad, f)
		}
	}
	if _, err := DecodeFrame(make([]byte, HeaderBytes+MaxPayload+1)); err != ErrFrame {
		t.Error("a payload that is too long was decoded")
	}
}

// FuzzFrame decodes any bytes. What DecodeFrame takes must have the same bytes again.
func FuzzFrame(f *testing.F) {
	for _, v := range vectors {
		f.Add(v.f.Append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if x, err := DecodeFrame(b); err == nil && !bytes.Equal(x.Append(nil), b) {
			t.Errorf("%x is %+v", b, x)
		}
	})
}

// FuzzRouter gives a router any frames. The router must not panic, and must keep its invariants as long
// as no frame was wrong.
func FuzzRouter(f *testing.F) {
	for _, v := range vectors {
		f.Add(v.f.Append(nil), uint8(1))
	}
	f.Fuzz(func(t *testing.T, b []byte, d uint8) {
		r, err := New(Config{Mesh: nexthop.Mesh{W: 3, H: 3}, At: nexthop.Place{X: 1, Y: 1}})
		if err != nil {
			t.Fatal(err)
		}
		for k := range r.links {
			r.LinkUp(0, wire.Direction(k))
		}
		for ; len(b) >= ControlBytes; b = b[min(len(b), HeaderBytes):] {
			r.HandleFrame(0, wire.Direction(int(d)), b)
			r.HandleFrame(0, wire.Direction(int(d)), b[:ControlBytes])
			r.Step(0, 0xf)
			r.HandleStored(0, wire.Direction(int(d)%4), 1)
			r.Stats.Violations = 0
			if err := r.Check(); err != nil {
				t.Fatal(err)
			}
		}
		for k := range r.links {
			r.LinkDown(0, wire.Direction(k))
			if err := r.Check(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
