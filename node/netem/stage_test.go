package netem

import (
	"bytes"
	"math"
	"testing"
	"time"

	"ttfabric/ttlink/fault"
)

// TestStages encodes options in the kernel's format, and decodes them again.
func TestStages(t *testing.T) {
	for _, x := range []struct {
		o      fault.Options
		stages int
		split  bool
	}{
		{fault.Options{}, 0, false},
		{fault.Options{Delay: 10 * time.Millisecond}, 1, false},
		{fault.Options{Delay: 10 * time.Millisecond, Jitter: 2 * time.Millisecond}, 1, true},
		{fault.Options{Loss: .01}, 1, true},
		{fault.Options{Loss: .001, Duplicate: .5, Corrupt: 1}, 1, true},
		{fault.Options{Reorder: .25}, 1, true},
		{fault.Options{Reorder: .25, Loss: .1, ReorderSpan: 10 * time.Millisecond}, 1, true},
		{fault.Options{Reorder: .25, Delay: time.Millisecond}, 2, true},
		{fault.Options{Reorder: 1, Rate: 8e6}, 2, true},
		{fault.Options{Rate: 100e9}, 1, true},
		{fault.Options{Burst: fault.Burst{ToBad: .01, ToGood: .1, LossBad: .7, LossGood: .001}}, 1, true},
		{fault.Options{Loss: .2, Burst: fault.Burst{ToBad: .01, ToGood: .1, LossBad: 1}}, 1, true},
		{fault.Options{Loss: 1, Burst: fault.Burst{ToBad: .01, ToGood: .1, LossBad: 1}}, 1, true},
		{fault.Options{Delay: fault.MaxDelay, Jitter: fault.MaxDelay, Loss: 1e-7, Rate: fault.MaxRate}, 1, true},
	} {
		seed := uint64(7)
		var got []stage
		for _, s := range stages(x.o, &seed) {
			back, err := decodeStage(s.encode())
			if err != nil {
				t.Fatal(err)
			}
			if back.seed == nil || *back.seed != seed {
				t.Errorf("%v: the seed is lost", x.o)
			}
			got = append(got, back)
		}
		want := x.o
		if want.Loss == 1 && want.Burst.LossBad == 1 {
			want.Burst.LossGood = 0 // if all packets are lost, the stage does not show which of the two probabilities was 1
			b := optionsOf(got)
			b.Burst.LossGood = 0
			if b != want {
				t.Errorf("%+v became %+v", x.o, b)
			}
			continue
		}
		if o := optionsOf(got); o != want {
			t.Errorf("%+v became %+v", x.o, o)
		}
		if len(got) != x.stages || splits(x.o) != x.split {
			t.Errorf("%+v: %d stages, split %v; want %d, %v", x.o, len(got), splits(x.o), x.stages, x.split)
		}
	}
}

// TestLossTwice checks how stages combines Loss with the probabilities of the Gilbert-Elliott
// model.
func TestLossTwice(t *testing.T) {
	s := stages(fault.Options{Loss: .1, Burst: fault.Burst{ToBad: .5, ToGood: .5, LossBad: .6, LossGood: .2}}, nil)[0]
	if lost := s.ge[3]; math.Abs(lost-.28) > 1e-9 { // 1 − 0.9·0.8
		t.Errorf("the probability to lose a packet while good is %v, want 0.28", lost)
	}
	if kept := s.ge[2]; math.Abs(kept-.36) > 1e-9 { // 0.9·0.4
		t.Errorf("the probability to keep a packet while bad is %v, want 0.36", kept)
	}
}

// TestEncodeIsCanonical checks that encoded values are where the kernel expects them.
func TestEncodeIsCanonical(t *testing.T) {
	s := stages(fault.Options{Delay: 10 * time.Millisecond, Loss: .01, Rate: 8e6}, nil)[0]
	b := s.encode()
	if len(b)%4 != 0 || len(b) < lenQopt {
		t.Fatalf("%d bytes", len(b))
	}
	w := words(b, 6)
	if w[1] != 1<<20/1500 || w[2] != 42949673 {
		t.Errorf("limit %d, loss %d", w[1], w[2])
	}
	if !bytes.Contains(b, u64(10e6)) || !bytes.Contains(b, u32s(1e6, 0, 0, 0)) {
		t.Errorf("the delay of 10e6 ns or the rate of 1e6 bytes per second is missing in %x", b)
	}
}

// FuzzDecode checks that decodeStage never panics, and that encoding and decoding a decoded stage
// again changes nothing.
func FuzzDecode(f *testing.F) {
	s := stages(fault.Options{Delay: 1, Loss: .5, Reorder: .1, Burst: fault.Burst{ToBad: .1, ToGood: .2, LossBad: 1}}, nil)
	f.Add(s[0].encode())
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{0xff}, 60))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := decodeStage(b)
		if err != nil {
			return
		}
		again, err := decodeStage(s.encode())
		if err != nil {
			t.Fatal(err)
		}
		if a, b := optionsOf([]stage{s}), optionsOf([]stage{again}); a != b {
			t.Errorf("%+v became %+v", a, b)
		}
	})
}
