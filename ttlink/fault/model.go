// Package fault is a model of what a network does to datagrams: delay, loss,
// bursts, duplication, reordering, corruption, limited rate, and a cut. It is
// seeded and holds no clock, so that the same seed and the same datagrams give the same
// faults in the simulator, in tests, and around a live transport.
//
// The options have the names and meanings of Linux's netem (tc-netem(8)) where it has them.
package fault

import (
	"fmt"
	"math/rand/v2"
	"time"

	"ttfabric/wire/mono"
)

// DefaultReorderSpan is how long a reordered datagram is held back at most where Options names nothing.
const DefaultReorderSpan = 2 * time.Millisecond

// DefaultQueue is how many bytes wait for a limited rate where Options names nothing.
const DefaultQueue = 1 << 20

// MaxDelay is the largest delay, jitter or reorder span.
const MaxDelay = time.Minute

// Options says what a [Model] does, in one direction. The zero Options passes
// everything on at once. Probabilities are from 0 to 1, per datagram.
type Options struct {
	Delay       time.Duration // added to each datagram
	Jitter      time.Duration // varies Delay evenly by as much each way; it may reorder
	Loss        float64       // lost, each for itself
	Duplicate   float64       // sent twice
	Reorder     float64       // held back, so that later ones overtake it
	ReorderSpan time.Duration // longest time to hold back; 0 for DefaultReorderSpan
	Corrupt     float64       // one to three bits flipped
	Burst       Burst         // loss in bursts, beside Loss
	Rate        int64         // bits per second; 0 for no limit
	Queue       int           // bytes that may wait for Rate before datagrams are dropped; 0 for DefaultQueue
}

// Burst is the Gilbert-Elliott model of loss: a channel that changes between a
// good and a bad state (E. N. Gilbert, "Capacity of a Burst-Noise Channel",
// 1960). The zero Burst never leaves the good state.
type Burst struct {
	ToBad    float64 // probability per datagram to turn bad
	ToGood   float64 // and to turn good again; needs to be above 0 if ToBad is
	LossGood float64 // loss while good
	LossBad  float64 // loss while bad
}

// Valid reports the first option that is out of range.
func (o *Options) Valid() error {
	for _, p := range []struct {
		name string
		v    float64
	}{
		{"loss", o.Loss}, {"duplicate", o.Duplicate}, {"reorder", o.Reorder}, {"corrupt", o.Corrupt},
		{"burst to bad", o.Burst.ToBad}, {"burst to good", o.Burst.ToGood},
		{"burst loss while good", o.Burst.LossGood}, {"burst loss while bad", o.Burst.LossBad},
	} {
		if !(p.v >= 0 && p.v <= 1) {
			return fmt.Errorf("fault: %s %v: want a probability from 0 to 1", p.name, p.v)
		}
	}
	for _, d := range []struct {
		name string
		v    time.Duration
	}{{"delay", o.Delay}, {"jitter", o.Jitter}, {"reorder span", o.ReorderSpan}} {
		if d.v < 0 || d.v > MaxDelay {
			return fmt.Errorf("fault: %s %v: want 0 to %v", d.name, d.v, MaxDelay)
		}
	}
	switch {
	case o.Burst.ToBad > 0 && o.Burst.ToGood == 0:
		return fmt.Errorf("fault: burst turns bad with %v and never good again: give it a way back, or cut the link", o.Burst.ToBad)
	case o.Rate < 0:
		return fmt.Errorf("fault: rate %d bits/s: want 0 for no limit, or more", o.Rate)
	case o.Queue < 0:
		return fmt.Errorf("fault: queue of %d bytes: want 0 for the default, or more", o.Queue)
	}
	return nil
}

// Outcome is a datagram that comes out at the other end.
type Outcome struct {
	At   mono.Time
	Data []byte // a copy that belongs to the caller
}

// Counts says what a model has done. They only grow.
type Counts struct {
	Passed     uint64 // datagrams that came out at all
	Lost       uint64 // by Loss
	BurstLost  uint64 // by Burst
	CutOff     uint64 // while cut
	Overflowed uint64 // by Rate and Queue
	Duplicated uint64
	Reordered  uint64
	Corrupted  uint64
}

// Since is what was done after before was taken.
func (c Counts) Since(before Counts) Counts {
	return Counts{c.Passed - before.Passed, c.Lost - before.Lost, c.BurstLost - before.BurstLost, c.CutOff - before.CutOff,
		c.Overflowed - before.Overflowed, c.Duplicated - before.Duplicated, c.Reordered - before.Reordered, c.Corrupted - before.Corrupted}
}

// Model is one direction of a cable.
type Model struct {
	opts   Options
	rng    *rand.Rand
	cut    bool
	bad    bool      // state of the burst model
	free   mono.Time // when the limited rate has sent what waits
	counts Counts
	out    [2]Outcome
	spare  [][]byte // given back; at most maxSpare
}

// maxSpare is how many copies that were given back wait to be used again.
const maxSpare = 64

// New returns a model whose dice start from seed. The error names the option that is out of range.
func New(seed uint64, o Options) (*Model, error) {
	m := &Model{}
	m.Seed(seed)
	if err := m.Set(o); err != nil {
		return nil, err
	}
	return m, nil
}

// Seed throws the dice anew from seed. Options and counters stay.
func (m *Model) Seed(seed uint64) {
	m.rng = rand.New(rand.NewPCG(seed, 0x6661756c74))
	m.bad = false
}

// Set changes the options from the next datagram on. On an error nothing changes.
func (m *Model) Set(o Options) error {
	if err := o.Valid(); err != nil {
		return err
	}
	if o.Burst == (Burst{}) {
		m.bad = false
	}
	m.opts = o
	return nil
}

// Options returns the options in force.
func (m *Model) Options() Options { return m.opts }

// Cut takes the cable away in this direction, or puts it back. What was under way still arrives.
func (m *Model) Cut(on bool) { m.cut = on }

// IsCut reports whether the cable is cut.
func (m *Model) IsCut() bool { return m.cut }

// Counts returns the counters.
func (m *Model) Counts() Counts { return m.counts }

// Apply sends one datagram into the cable at now and returns what comes out:
// nothing, it, or it twice. The slice is valid until the next call, the copies
// in it stay valid. Outcomes may be earlier than those of former calls.
func (m *Model) Apply(now mono.Time, datagram []byte) []Outcome {
	if m.lose() {
		return nil
	}
	leaves, ok := m.queue(now, len(datagram))
	if !ok {
		m.counts.Overflowed++
		return nil
	}
	m.counts.Passed++
	m.out[0] = m.one(leaves, datagram)
	if !m.roll(m.opts.Duplicate) {
		return m.out[:1]
	}
	m.counts.Duplicated++
	m.out[1] = m.one(leaves, datagram)
	return m.out[:2]
}

// lose decides whether a datagram is lost on the way.
func (m *Model) lose() bool {
	b := &m.opts.Burst
	loss, change := b.LossGood, b.ToBad
	if m.bad {
		loss, change = b.LossBad, b.ToGood
	}
	burst := m.roll(loss)
	if m.roll(change) {
		m.bad = !m.bad
	}
	switch {
	case m.cut:
		m.counts.CutOff++
	case m.roll(m.opts.Loss):
		m.counts.Lost++
	case burst:
		m.counts.BurstLost++
	default:
		return false
	}
	return true
}

// queue returns when a datagram of n bytes has left at the limited rate.
func (m *Model) queue(now mono.Time, n int) (mono.Time, bool) {
	if m.opts.Rate == 0 {
		return now, true
	}
	limit := m.opts.Queue
	if limit == 0 {
		limit = DefaultQueue
	}
	start := now
	if start.Before(m.free) {
		start = m.free
	}
	if waiting := start.Sub(now).Seconds() * float64(m.opts.Rate) / 8; waiting > 0 && waiting+float64(n) > float64(limit) {
		return 0, false
	}
	m.free = start.Add(time.Duration(float64(n) * 8 / float64(m.opts.Rate) * float64(time.Second)))
	return m.free, true
}

// one makes one copy come out.
func (m *Model) one(leaves mono.Time, datagram []byte) Outcome {
	at := leaves.Add(m.opts.Delay)
	if j := m.opts.Jitter; j > 0 {
		at = at.Add(time.Duration(m.rng.Int64N(2*int64(j)+1)) - j)
	}
	if m.roll(m.opts.Reorder) {
		m.counts.Reordered++
		span := m.opts.ReorderSpan
		if span == 0 {
			span = DefaultReorderSpan
		}
		at = at.Add(time.Duration(m.rng.Int64N(int64(span)) + 1))
	}
	if at.Before(leaves) {
		at = leaves
	}
	var data []byte
	if n := len(m.spare); n > 0 {
		m.spare, data = m.spare[:n-1], m.spare[n-1][:0]
	}
	data = append(data, datagram...)
	if m.roll(m.opts.Corrupt) && len(data) > 0 {
		m.counts.Corrupted++
		for range 1 + m.rng.IntN(3) {
			data[m.rng.IntN(len(data))] ^= 1 << m.rng.IntN(8)
		}
	}
	return Outcome{At: at, Data: data}
}

// Recycle takes back the data of an outcome that nobody reads any more, to save
// memory. Nobody has to call it.
func (m *Model) Recycle(b []byte) {
	if len(m.spare) < maxSpare {
		m.spare = append(m.spare, b)
	}
}

// roll reports true with probability p. It rolls the dice for 0 and 1 too, so
// that changing one option leaves the dice of the others as they were.
func (m *Model) roll(p float64) bool { return m.rng.Float64() < p }
