package quicport

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// FuzzUnbundle checks that unbundle accepts only frames that the sender can write in the same form.
func FuzzUnbundle(f *testing.F) {
	f.Add([]byte{3, 0, 1, 2, 3, 4, 5})
	f.Add([]byte{0, 0, 1})
	f.Add([]byte{255, 255, 1})
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, d []byte) {
		b, seg, ok := unbundle(d)
		if !ok {
			return
		}
		if seg < 1 || seg > len(b) || !bytes.Equal(append(binary.LittleEndian.AppendUint16(nil, uint16(seg)), b...), d) {
			t.Fatalf("%x as %d bytes each of %x", d, seg, b)
		}
	})
}

// FuzzDecodeProbe checks that decodeProbe accepts only frames that probe can write, and refuses
// every frame that unbundle accepts.
func FuzzDecodeProbe(f *testing.F) {
	f.Add(probe(probeQuestion, 1, 1415))
	f.Add(probe(probeAnswer, 1<<31, probeShort))
	f.Add([]byte{0, 0, 1, 2, 3, 4})
	f.Add([]byte{1, 0, 1, 2, 3, 4, 5, 6})
	f.Fuzz(func(t *testing.T, d []byte) {
		kind, n, ok := decodeProbe(d)
		if !ok {
			return
		}
		if again := probe(kind, n, len(d)); !bytes.Equal(again[:probeHeader], d[:probeHeader]) || len(again) != len(d) {
			t.Fatalf("%x is kind %d, number %d", d, kind, n)
		}
		if _, _, ok := unbundle(d); ok {
			t.Fatalf("%x is accepted as a probe and as a bundle of datagrams", d)
		}
	})
}

func TestBundle(t *testing.T) {
	for _, c := range []struct{ left, seg, largest, want int }{
		{100, 10, 35, 30}, {100, 10, 10, 10}, {5, 10, 100, 5}, {95, 10, 1000, 95}, {20, 50, 10, 20}, {100, 50, 10, 50},
	} {
		if got := bundle(c.left, c.seg, c.largest); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// TestQueueIsBounded checks that a queue accepts no datagrams beyond its limits, and returns all
// others in order.
func TestQueueIsBounded(t *testing.T) {
	var q queue
	q.init(1000)
	n, size := q.put(bytes.Repeat([]byte{1}, 1500), 300)
	if n != 3 || size != 900 {
		t.Fatalf("%d datagrams of %d bytes", n, size)
	}
	if n, _ := q.put(make([]byte, 101), 101); n != 0 {
		t.Errorf("a full queue accepted %d datagrams", n)
	}
	if !q.add(bytes.Repeat([]byte{2}, 100), 50) || q.add([]byte{3}, 1) {
		t.Error("the queue refused the last 100 bytes, or accepted one byte more")
	}
	r, ok := q.take()
	if !ok || len(r.data) != 900 || r.seg != 300 || r.data[0] != 1 {
		t.Errorf("%d bytes in %d", len(r.data), r.seg)
	}
	if r, _ := q.take(); len(r.data) != 100 || q.bytes != 0 {
		t.Errorf("%d bytes, %d left", len(r.data), q.bytes)
	}
	for i := range maxRuns + 1 {
		if q.add([]byte{1}, 1) != (i < 1000) {
			t.Fatalf("run %d", i)
		}
	}
	q.close()
	if _, ok := q.take(); ok || q.add([]byte{1}, 1) {
		t.Error("a closed queue returns or accepts a run")
	}
}
