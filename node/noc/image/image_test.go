package image

import (
	"bytes"
	"errors"
	"testing"

	"ttfabric/wire"
)

var nobody = func(*Head) error { return nil }
var nothing = func(uint8, uint8, uint64, []byte) error { return nil }

// written returns an image with a block of a Tensix tile, a page of zeros and a whole page.
func written(t testing.TB) ([]byte, Sum) {
	t.Helper()
	var out bytes.Buffer
	w, err := NewWriter(&out, &Head{wire.Wormhole, wire.FabricNodeID{Mesh: 2, Chip: 300}, 77})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range [][]byte{append(make([]byte, 100), "hello\x00world\x00\x00"...), make([]byte, MaxBlock), bytes.Repeat([]byte{7}, MaxBlock)} {
		if err := w.Put(1, 2, MaxBlock, b); err != nil {
			t.Fatal(err)
		}
	}
	sum, err := w.End()
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), sum
}

// TestImage writes an image and reads it.
func TestImage(t *testing.T) {
	b, sum := written(t)
	if want := (Sum{2, 11 + MaxBlock}); sum != want || len(b) != headLen+3*(blockLen+crcLen)+11+MaxBlock {
		t.Errorf("%+v, %d bytes; want %+v", sum, len(b), want)
	}
	var head Head
	n := 0
	got, err := Read(bytes.NewReader(b), func(h *Head) error { head = *h; return nil }, func(x, y uint8, off uint64, b []byte) error {
		if n++; n == 1 && (x != 1 || y != 2 || off != MaxBlock+100 || string(b) != "hello\x00world") {
			t.Errorf("block at %d of %d-%d: %q", off, x, y, b)
		}
		return nil
	})
	if err != nil || got != sum || n != 2 || head != (Head{wire.Wormhole, wire.FabricNodeID{Mesh: 2, Chip: 300}, 77}) {
		t.Errorf("%v, %+v, %d blocks, head %+v", err, got, n, head)
	}
	stop := errors.New("stop")
	if _, err := Read(bytes.NewReader(b), nobody, func(uint8, uint8, uint64, []byte) error { return stop }); err != stop {
		t.Error(err)
	}
}

// TestDamage reads images that are cut short, that have one wrong bit, and that have further bytes.
func TestDamage(t *testing.T) {
	b, _ := written(t)
	for n := 0; n < len(b); n += 1 + n/100 {
		if _, err := Read(bytes.NewReader(b[:n]), nobody, nothing); !errors.Is(err, ErrFormat) {
			t.Fatalf("%d bytes: %v", n, err)
		}
		c := bytes.Clone(b)
		c[n] ^= 1 << (n % 8)
		if _, err := Read(bytes.NewReader(c), nobody, nothing); !errors.Is(err, ErrFormat) {
			t.Fatalf("byte %d changed: %v", n, err)
		}
	}
	if _, err := Read(bytes.NewReader(append(b, 0)), nobody, nothing); !errors.Is(err, ErrFormat) {
		t.Error(err)
	}
}

// FuzzRead reads any bytes. Read must return.
func FuzzRead(f *testing.F) {
	b, _ := written(f)
	f.Add(b[:200])
	f.Add([]byte("TTFMEM"))
	f.Fuzz(func(t *testing.T, b []byte) {
		total := uint64(0)
		sum, err := Read(bytes.NewReader(b), nobody, func(_, _ uint8, _ uint64, b []byte) error { total += uint64(len(b)); return nil })
		if err == nil && sum.Bytes != total {
			t.Errorf("%+v, but %d bytes", sum, total)
		}
	})
}
