package bench

import (
	"slices"
	"testing"

	"ttfabric/router/topo"
	"ttfabric/wire"
)

// TestGuideShare compares GuideShare with the figures in the text of the CCL guide. The
// share is about 91 % for the smallest tiles. The overhead is less than 5 % for tiles of
// bfp8 and fp16, and 3 to 6 % for packets of more than 1 KiB.
func TestGuideShare(t *testing.T) {
	for _, c := range []struct {
		name      string
		size      int
		low, high float64
	}{
		{"tile of bfp4", 576, .91, .93},
		{"tile of bfp8", 1088, .95, .97},
		{"tile of fp16", 2048, .95, .97},
		{"1 KiB", 1024, .94, .97},
		{"4 KiB", 4096, .94, .97},
		{"16 KiB", 16384, .94, .97},
		{"the longest packet", 1500, .967, .968},
	} {
		if s := GuideShare(c.size); s < c.low || s > c.high {
			t.Errorf("%s: share %.3f, want %.3f to %.3f", c.name, s, c.low, c.high)
		}
	}
}

// TestHeaderShare builds the frames of packets, and compares HeaderShare with the
// payload's share of the bytes of these frames.
func TestHeaderShare(t *testing.T) {
	for _, frame := range []int{512, 1408, 4288} {
		for _, size := range []int{1, 64, 500, 1024, 4096} {
			p := wire.Packet{Type: wire.PacketRequest, Route: make([]byte, 1), Payload: make([]byte, size)}
			rest, bytes := p.Len(), 0
			n := (rest + frame - 1) / frame
			each := (rest + n - 1) / n
			for ; rest > 0; rest -= each {
				f := wire.Frame{Kind: wire.KindData, Payload: make([]byte, min(rest, each)), Padded: wire.PadTo(each)}
				bytes += len(f.Append(nil))
			}
			if got, want := HeaderShare(size, frame), float64(size)/float64(bytes); got != want {
				t.Errorf("%d bytes in frames of %d: %.4f, want %.4f", size, frame, got, want)
			}
		}
	}
}

// TestRingPath compares routes on a T3000 with the routes of the CCL guide. Eight hops
// lead through all chips. Twelve hops also lead once round the inner square, in the same
// direction of rotation.
func TestRingPath(t *testing.T) {
	top, err := topo.Named("t3000")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		hops int
		want []wire.ChipID
	}{
		{4, []wire.ChipID{1, 5, 4, 0}},
		{8, []wire.ChipID{1, 2, 3, 7, 6, 5, 4, 0}},
		{12, []wire.ChipID{1, 2, 6, 5, 1, 2, 3, 7, 6, 5, 4, 0}},
	} {
		p, err := RingPath(top, 0, c.hops)
		if err != nil {
			t.Fatal(err)
		}
		at := top.Chips[0].Node
		var got []wire.ChipID
		for _, d := range p {
			at, _ = top.Neighbour(at, d, 0)
			got = append(got, at.Chip)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%d hops by %v, want %v", c.hops, got, c.want)
		}
	}
	for _, hops := range []int{2, 3, 7} {
		if _, err := RingPath(top, 0, hops); err == nil {
			t.Errorf("a ring of %d hops", hops)
		}
	}
}
