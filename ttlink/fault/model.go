// Package fault models the faults of a network: delay, loss, bursts, duplication, reordering,
// corruption, limited rate, and a cut. The model has a seed and holds no clock. For that reason the
// same seed and the same datagrams give the same faults in the simulator, in tests, and around a
// live transport.
//
// If Linux's netem (tc-netem(8)) has an option, the option here has the same name and meaning.
package fault

import (
	"fmt"
	"math/rand/v2"
	"time"

	"ttfabric/wire/mono"
)

// DefaultReorderSpan is the longest time for which the model holds a reordered datagram back.
// DefaultReorderSpan applies if Options gives no time.
const DefaultReorderSpan = 2 * time.Millisecond

// DefaultQueue is how many bytes may wait for a limited rate. DefaultQueue applies if Options gives
// no size.
const DefaultQueue = 1 << 20

// MaxDelay is the largest delay, jitter or reorder span.
const MaxDelay = time.Minute

// Options says what faults a [Model] injects in one direction. With the zero Options, the Model
// passes every datagram on at once. Probabilities are from 0 to 1 and apply to each datagram.
type Options struct {
	Delay       time.Duration // added to each datagram
	Jitter      time.Duration // longest time by which a delay is longer or shorter than Delay, evenly distributed; may reorder datagrams
	Loss        float64       // probability to lose a datagram, each independently
	Duplicate   float64       // probability to send a datagram twice
	Reorder     float64       // probability to hold a datagram back; later datagrams then overtake it
	ReorderSpan time.Duration // longest time to hold a datagram back; 0 for DefaultReorderSpan
	Corrupt     float64       // probability to flip one to three bits of a datagram
	Burst       Burst         // loss in bursts, in addition to Loss
	Rate        int64         // limit of the rate in bits per second; 0 for no limit
	Queue       int           // bytes that may wait for Rate; the model drops further datagrams; 0 for DefaultQueue
}

// Burst is the Gilbert-Elliott model of loss: a channel that changes between a
// good and a bad state (E. N. Gilbert, "Capacity of a Burst-Noise Channel",
// 1960). The zero Burst never leaves the good state.
type Burst struct {
	ToBad    float64 // probability per datagram to change to the bad state
	ToGood   float64 // probability per datagram to change to the good state; must be above 0 if ToBad is above 0
	LossGood float64 // probability to lose a datagram in the good state
	LossBad  float64 // probability to lose a datagram in the bad state
}

// Valid returns an error that names the first option that is out of range.
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
		return fmt.Errorf("fault: burst turns bad with probability %v and never good again: set ToGood above 0, or cut the link", o.Burst.ToBad)
	case o.Rate < 0:
		return fmt.Errorf("fault: rate %d bits/s: want 0 for no limit, or more", o.Rate)
	case o.Queue < 0:
		return fmt.Errorf("fault: queue of %d bytes: want 0 for the default, or more", o.Queue)
	}
	return nil
}

// Outcome is a datagram that arrives at the other end.
type Outcome struct {
	At   mono.Time
	Data []byte // a copy of the datagram; belongs to the caller
}

// Fate is what happens to a copy of a datagram that arrives at the other end.
type Fate struct {
	At      mono.Time
	flipped [maxFlips]int // bits of the datagram, by number
	flips   int           // number of entries of flipped that are in use
}

// maxFlips is the largest number of bits that are flipped in one datagram.
const maxFlips = 3

// Append appends the copy as it arrives, with its bits flipped.
func (f *Fate) Append(b, datagram []byte) []byte {
	start := len(b)
	b = append(b, datagram...)
	for _, i := range f.flipped[:f.flips] {
		b[start+i/8] ^= 1 << (i % 8)
	}
	return b
}

// Counts says how many faults a model has injected. The counts never decrease.
type Counts struct {
	Passed     uint64 // datagrams that arrived, at least once
	Lost       uint64 // datagrams lost because of Loss
	BurstLost  uint64 // datagrams lost because of Burst
	CutOff     uint64 // datagrams lost while the cable was cut
	Overflowed uint64 // datagrams lost because of Rate and Queue
	Duplicated uint64
	Reordered  uint64
	Corrupted  uint64
}

// Since returns the difference between c and the earlier counts in before.
func (c Counts) Since(before Counts) Counts {
	return Counts{c.Passed - before.Passed, c.Lost - before.Lost, c.BurstLost - before.BurstLost, c.CutOff - before.CutOff,
		c.Overflowed - before.Overflowed, c.Duplicated - before.Duplicated, c.Reordered - before.Reordered, c.Corrupted - before.Corrupted}
}

// Model is one direction of a cable.
type Model struct {
	opts   Options
	plain  bool // opts contains nothing but a delay
	dice   dice
	rng    *rand.Rand // draws from dice
	cut    bool
	bad    bool      // the burst model is in the bad state
	free   mono.Time // when the limited rate has sent all waiting datagrams
	counts Counts
	fates  [2]Fate
	out    [2]Outcome
}

// New returns a model whose random numbers start from seed. The error names the option that is out
// of range.
func New(seed uint64, o Options) (*Model, error) {
	m := &Model{}
	m.Seed(seed)
	if err := m.Set(o); err != nil {
		return nil, err
	}
	return m, nil
}

// Seed restarts the random numbers from seed. Options and counters stay.
func (m *Model) Seed(seed uint64) {
	m.dice = dice{hi: seed, lo: 0x6661756c74}
	m.rng = rand.New(&m.dice)
	m.bad = false
}

// Set changes the options from the next datagram on. If it returns an error, nothing changes.
func (m *Model) Set(o Options) error {
	if err := o.Valid(); err != nil {
		return err
	}
	if o.Burst == (Burst{}) {
		m.bad = false
	}
	m.opts, m.plain = o, o == Options{Delay: o.Delay}
	return nil
}

// Options returns the options in force.
func (m *Model) Options() Options { return m.opts }

// Cut cuts the cable in this direction, or repairs it. Datagrams that are already under way still
// arrive.
func (m *Model) Cut(on bool) { m.cut = on }

// IsCut reports whether the cable is cut.
func (m *Model) IsCut() bool { return m.cut }

// Counts returns the counters.
func (m *Model) Counts() Counts { return m.counts }

// Apply sends one datagram into the cable at the instant now. Apply returns what arrives: nothing,
// the datagram, or the datagram twice. The slice is valid until the next call. The copies in the
// slice stay valid. An outcome may have an earlier instant than the outcomes of previous calls.
func (m *Model) Apply(now mono.Time, datagram []byte) []Outcome {
	fates := m.Send(now, len(datagram))
	if fates == nil {
		return nil
	}
	for i := range fates {
		m.out[i] = Outcome{fates[i].At, fates[i].Append(nil, datagram)}
	}
	return m.out[:len(fates)]
}

// plainRolls is how many random numbers the model draws for a datagram without a fault. Bursts take
// two numbers. Loss, reordering, corruption and duplication take one number each.
const plainRolls = 6

// Send does the same as [Model.Apply] for a datagram of n bytes that the caller copies with
// [Fate.Append]. The slice is valid until the next call.
func (m *Model) Send(now mono.Time, n int) []Fate {
	if m.plain && !m.cut {
		m.dice.off += plainRolls
		m.counts.Passed++
		m.fates[0] = Fate{At: now.Add(m.opts.Delay)}
		return m.fates[:1]
	}
	if m.lose() {
		return nil
	}
	leaves, ok := m.queue(now, n)
	if !ok {
		m.counts.Overflowed++
		return nil
	}
	m.counts.Passed++
	m.one(&m.fates[0], leaves, n)
	if !m.roll(m.opts.Duplicate) {
		return m.fates[:1]
	}
	m.counts.Duplicated++
	m.one(&m.fates[1], leaves, n)
	return m.fates[:2]
}

// lose decides whether a datagram is lost.
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

// queue returns when a datagram of n bytes has left the queue at the limited rate.
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

// one decides the fate of one copy of n bytes.
func (m *Model) one(f *Fate, leaves mono.Time, n int) {
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
	f.At, f.flips = at, 0
	if m.roll(m.opts.Corrupt) && n > 0 {
		m.counts.Corrupted++
		for range 1 + m.rng.IntN(maxFlips) {
			f.flipped[f.flips] = 8 * m.rng.IntN(n)
			f.flipped[f.flips] += m.rng.IntN(8)
			f.flips++
		}
	}
}

// roll reports true with probability p. roll draws a number even if p is 0 or 1. For that reason
// changing one option does not change the random numbers of the other options.
func (m *Model) roll(p float64) bool {
	if p == 0 {
		m.dice.off++ // nobody needs the value
		return false
	}
	return m.rng.Float64() < p
}
