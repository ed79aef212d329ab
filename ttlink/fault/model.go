// Package fault models the faults of a network: delay, loss, bursts, duplication, reordering,
// corruption, limited rate, and a cut. The model draws its random numbers from a seed, and takes
// the time from its caller. The same seed and the same datagrams therefore give the same faults in
// the simulator, in tests, and around a live transport.
//
// Options that Linux's netem has too have the names of tc-netem(8). The meanings of these options
// are also the same, with two exceptions. The option reorder of netem sends a packet early, but a
// [Model] holds the datagram back. The option corrupt of netem flips one bit, but a Model flips one
// to three.
package fault

import (
	"fmt"
	"math/rand/v2"
	"time"

	"ttfabric/wire/mono"
)

// DefaultReorderSpan is the longest time for which a model holds a reordered datagram back if
// Options.ReorderSpan is 0.
const DefaultReorderSpan = 2 * time.Millisecond

// DefaultQueue is the number of bytes that may wait in a model with a limited rate if Options.Queue
// is 0.
const DefaultQueue = 1 << 20

// MaxDelay is the largest value of Options.Delay, Options.Jitter and Options.ReorderSpan.
const MaxDelay = time.Minute

// Options says what faults a [Model] injects in one direction. With the zero Options, the Model
// passes every datagram on at once, unless the cable is cut. Probabilities are from 0 to 1. Reorder
// and Corrupt apply to each copy of a datagram, the others to each datagram.
type Options struct {
	Delay       time.Duration // added to each datagram
	Jitter      time.Duration // largest difference between a datagram's delay and Delay; evenly distributed; may reorder datagrams; no delay is below 0
	Loss        float64       // probability to lose a datagram, independent of other datagrams
	Duplicate   float64       // probability to send a datagram twice
	Reorder     float64       // probability to hold a datagram back, so that later datagrams may overtake it
	ReorderSpan time.Duration // longest time to hold a datagram back; 0 for DefaultReorderSpan
	Corrupt     float64       // probability to flip one to three bits of a datagram
	Burst       Burst         // loss in bursts, in addition to Loss
	Rate        int64         // limit of the rate in bits per second; 0 for no limit
	Queue       int           // largest number of bytes that wait because of Rate; the model drops a datagram beyond this number, unless no other datagram waits; 0: DefaultQueue
}

// Burst holds the parameters of the Gilbert-Elliott model of loss (E. N. Gilbert, "Capacity of a
// Burst-Noise Channel", 1960). A [Model] changes at random between a good and a bad state, in which
// the probabilities of loss differ.
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
		return fmt.Errorf("fault: burst turns bad with probability %v and is never good again: set ToGood above 0, or cut the link", o.Burst.ToBad)
	case o.Rate < 0:
		return fmt.Errorf("fault: rate %d bits/s: want 0 for no limit, or more", o.Rate)
	case o.Queue < 0:
		return fmt.Errorf("fault: queue of %d bytes: want 0 for the default, or more", o.Queue)
	}
	return nil
}

// Outcome is one copy of a datagram as the copy arrives at the other end of the cable.
type Outcome struct {
	At   mono.Time
	Data []byte // a copy of the datagram; belongs to the caller
}

// Fate says when one copy of a datagram arrives at the other end of the cable, and which bits of
// the copy are flipped.
type Fate struct {
	At      mono.Time
	flipped [maxFlips]int // numbers of the flipped bits; bit 0 is the lowest bit of byte 0
	flips   int           // number of valid entries in flipped
}

// maxFlips is the largest number of bits that are flipped in one datagram.
const maxFlips = 3

// Append appends datagram to b with the bits of the fate flipped.
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
	Passed     uint64 // datagrams that the model passed on; a datagram passed on twice counts once
	Lost       uint64 // datagrams lost because of Loss
	BurstLost  uint64 // datagrams lost because of Burst
	CutOff     uint64 // datagrams lost while the cable was cut
	Overflowed uint64 // datagrams lost because of Rate and Queue
	Duplicated uint64
	Reordered  uint64 // copies of datagrams that were held back
	Corrupted  uint64 // copies of datagrams with flipped bits
}

// Since returns the difference between c and the earlier counts in before.
func (c Counts) Since(before Counts) Counts {
	return Counts{c.Passed - before.Passed, c.Lost - before.Lost, c.BurstLost - before.BurstLost, c.CutOff - before.CutOff,
		c.Overflowed - before.Overflowed, c.Duplicated - before.Duplicated, c.Reordered - before.Reordered, c.Corrupted - before.Corrupted}
}

// Model injects faults into the datagrams of one direction of a cable.
type Model struct {
	opts   Options
	plain  bool // every option but Delay is zero
	dice   dice
	rng    *rand.Rand // draws from dice
	cut    bool
	bad    bool      // the burst model is in the bad state
	free   mono.Time // when the last waiting datagram has left at the limited rate
	counts Counts
	fates  [2]Fate
	out    [2]Outcome
}

// New returns a model whose random numbers start from seed. If an option is out of range, the error
// names the option.
func New(seed uint64, o Options) (*Model, error) {
	m := &Model{}
	m.Seed(seed)
	if err := m.Set(o); err != nil {
		return nil, err
	}
	return m, nil
}

// Seed restarts the random numbers from seed, and puts the burst model into the good state. Options
// and counters keep their values.
func (m *Model) Seed(seed uint64) {
	m.dice = dice{hi: seed, lo: 0x6661756c74}
	m.rng = rand.New(&m.dice)
	m.bad = false
}

// Set replaces the options from the next datagram on. If Set returns an error, the old options stay
// in force.
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

// Cut(true) cuts the cable in this direction, and Cut(false) repairs the cable. Datagrams that were
// sent before a cut still arrive.
func (m *Model) Cut(on bool) { m.cut = on }

// IsCut reports whether the cable is cut in this direction.
func (m *Model) IsCut() bool { return m.cut }

// Counts returns the numbers of faults injected since New.
func (m *Model) Counts() Counts { return m.counts }

// Apply sends one datagram into the cable at the instant now. Apply returns the copies that arrive:
// none, one or two. The returned slice is valid until the next call, but the bytes of the copies
// stay valid. A copy may arrive earlier than copies that previous calls returned.
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

// plainRolls is the number of random numbers that the model draws for a datagram that no fault
// hits, if Jitter is 0. Bursts take two numbers. Loss, reordering, corruption and duplication take
// one number each.
const plainRolls = 6

// Send sends a datagram of n bytes into the cable at the instant now. Send returns the fates of the
// copies that arrive: none, one or two. The caller makes the copies with [Fate.Append]. The
// returned slice is valid until the next call.
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

// lose decides whether a cut, Loss or Burst loses the next datagram, and counts the loss.
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

// queue returns the instant at which a datagram of n bytes has left the queue at the limited rate.
// If the queue has no room for the datagram, queue returns false.
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

// The method "one" sets f to the fate of one copy of a datagram of n bytes. The argument "leaves"
// is the instant at which the copy leaves the queue.
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

// roll returns true with probability p. roll draws a number even if p is 0 or 1. A change of one
// probability therefore leaves the random numbers of the other options unchanged at first. These
// numbers change when the new probability makes a fault hit or miss a datagram.
func (m *Model) roll(p float64) bool {
	if p == 0 {
		m.dice.off++ // the result does not depend on the value
		return false
	}
	return m.rng.Float64() < p
}
