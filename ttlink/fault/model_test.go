package fault

import (
	"bytes"
	"math"
	"testing"
	"time"

	"ttfabric/wire/mono"
)

func model(t *testing.T, seed uint64, o Options) *Model {
	t.Helper()
	m, err := New(seed, o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestNothing checks that a model with zero options passes a datagram on at once and unchanged.
func TestNothing(t *testing.T) {
	m := model(t, 1, Options{})
	in := []byte("hello")
	out := m.Apply(42, in)
	if len(out) != 1 || out[0].At != 42 || !bytes.Equal(out[0].Data, in) {
		t.Fatalf("%v", out)
	}
	in[0] = 'x'
	if out[0].Data[0] != 'h' {
		t.Error("the outcome is not a copy")
	}
}

// TestShares checks that the shares of datagrams with faults are close to the options.
func TestShares(t *testing.T) {
	const n = 50000
	m := model(t, 7, Options{Delay: time.Millisecond, Loss: .1, Duplicate: .2, Reorder: .25, Corrupt: .05})
	in := make([]byte, 100)
	out, changed, late := 0, 0, 0
	for range n {
		for _, o := range m.Apply(0, in) {
			out++
			if !bytes.Equal(o.Data, in) {
				changed++
			}
			if o.At > mono.Time(time.Millisecond) {
				late++
			}
		}
	}
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"out", float64(out), n * .9 * 1.2}, {"corrupted", float64(changed), n * .9 * 1.2 * .05},
		{"reordered", float64(late), n * .9 * 1.2 * .25}, {"lost", float64(m.Counts().Lost), n * .1},
	} {
		if math.Abs(c.got-c.want) > .06*c.want {
			t.Errorf("%s: %v, want about %v", c.name, c.got, c.want)
		}
	}
}

// TestBurst checks the share of lost datagrams and the mean length of bursts.
func TestBurst(t *testing.T) {
	const n = 200000
	m := model(t, 3, Options{Burst: Burst{ToBad: .01, ToGood: .1, LossBad: 1}})
	lost, runs, in := 0, 0, false
	for range n {
		gone := len(m.Apply(0, []byte{1})) == 0
		if gone {
			lost++
			if !in {
				runs++
			}
		}
		in = gone
	}
	if share := float64(lost) / n; math.Abs(share-1./11) > .01 {
		t.Errorf("lost %v, want about 1/11", share)
	}
	if length := float64(lost) / float64(runs); math.Abs(length-10) > 1 {
		t.Errorf("bursts of %v, want about 10", length)
	}
}

// TestRate checks the spacing of datagrams by a rate limit, and the drops beyond the queue.
func TestRate(t *testing.T) {
	m := model(t, 1, Options{Rate: 8_000_000, Queue: 5000, Delay: time.Millisecond}) // the rate is one byte per microsecond
	for n := range 10 {
		out := m.Apply(0, make([]byte, 1000))
		if n >= 5 {
			if len(out) != 0 {
				t.Errorf("datagram %d got into a queue of 5", n)
			}
			continue
		}
		if want := mono.Time(time.Millisecond * time.Duration(n+2)); len(out) != 1 || out[0].At != want {
			t.Errorf("datagram %d: %v, want it at %v", n, out, want)
		}
	}
	if m.Counts().Overflowed != 5 {
		t.Errorf("%+v", m.Counts())
	}
	if out := m.Apply(mono.Time(time.Second), make([]byte, 1000)); len(out) != 1 || out[0].At != mono.Time(time.Second+2*time.Millisecond) {
		t.Errorf("after a pause: %v", out)
	}
}

// TestJitter checks that delays stay within the bounds of the jitter and are never negative.
func TestJitter(t *testing.T) {
	m := model(t, 1, Options{Delay: 100, Jitter: 300})
	low, high := mono.Never, mono.Time(0)
	for range 1000 {
		at := m.Apply(1000, []byte{1})[0].At
		low, high = min(low, at), max(high, at)
	}
	if low != 1000 || high > 1400 || high < 1380 {
		t.Errorf("from %v to %v", int64(low), int64(high))
	}
}

// TestCut checks that a model drops datagrams while it is cut.
func TestCut(t *testing.T) {
	m := model(t, 1, Options{})
	m.Cut(true)
	if m.Apply(0, []byte{1}) != nil || !m.IsCut() || m.Counts().CutOff != 1 {
		t.Error("a cut cable passes datagrams")
	}
	m.Cut(false)
	if err := m.Set(Options{Delay: 5}); err != nil {
		t.Fatal(err)
	}
	if out := m.Apply(0, []byte{1}); len(out) != 1 || out[0].At != 5 {
		t.Errorf("%v", out)
	}
}

// TestSameSeed checks that only models with equal seeds inject equal faults.
func TestSameSeed(t *testing.T) {
	o := Options{Delay: 1000, Jitter: 900, Loss: .2, Duplicate: .2, Reorder: .2, Corrupt: .2, Burst: Burst{ToBad: .1, ToGood: .1, LossBad: .5}}
	trace := func(seed uint64) (b []byte) {
		m := model(t, seed, o)
		for n := range 500 {
			for _, x := range m.Apply(mono.Time(n), []byte{1, 2, 3, byte(n)}) {
				b = append(append(b, x.Data...), byte(x.At), byte(x.At>>8))
			}
		}
		return b
	}
	if !bytes.Equal(trace(1), trace(1)) {
		t.Error("two models with one seed inject different faults")
	}
	if bytes.Equal(trace(1), trace(2)) {
		t.Error("two models with different seeds inject the same faults")
	}
}

// TestEmptyDatagram checks that every fault works on a datagram of no bytes.
func TestEmptyDatagram(t *testing.T) {
	m := model(t, 1, Options{Corrupt: 1, Duplicate: 1, Reorder: 1, Rate: 1})
	if out := m.Apply(0, nil); len(out) != 2 || len(out[0].Data) != 0 {
		t.Errorf("%v", out)
	}
}

// TestBadOptions checks that Set and New refuse an option out of range.
func TestBadOptions(t *testing.T) {
	m := model(t, 1, Options{Loss: .5})
	for name, o := range map[string]Options{
		"loss": {Loss: 1.1}, "nan": {Corrupt: math.NaN()}, "duplicate": {Duplicate: -.1}, "reorder": {Reorder: 2},
		"delay": {Delay: -1}, "jitter": {Jitter: 2 * MaxDelay}, "rate": {Rate: -1}, "queue": {Queue: -1}, "burst": {Burst: Burst{ToBad: .5}},
	} {
		if err := m.Set(o); err == nil || m.Options().Loss != .5 {
			t.Errorf("%s: error %v, options %+v", name, err, m.Options())
		}
		if m, err := New(1, o); err == nil || m != nil {
			t.Errorf("%s: New accepts the option", name)
		}
	}
}
