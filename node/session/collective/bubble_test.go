package collective_test

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"ttfabric/node/flow"
	"ttfabric/node/session"
	"ttfabric/node/session/collective"
	"ttfabric/node/sim"
	"ttfabric/router/topo"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// bubble runs programs on a simulated fabric. The programs are goroutines of a bubble of testing/synctest, and
// the clock of the bubble is the clock of the fabric. The goroutine of [bubble.drive] carries out the
// next event of the fabric when all programs wait. So a program needs no change to run here.
//
// At each instant, drive first lets all programs run until they wait. drive then hands the requests that they
// have made to the chips, sorted by their contents. So the order in which Go runs the programs has no effect.
type bubble struct {
	d     *sim.Driven
	topo  *topo.Topology
	begun time.Time // time of the bubble at which the fabric's time was "base"
	base  mono.Time
	wake  chan struct{} // gets a value when a program has made a request
	ended chan struct{} // closed by stop

	mu      sync.Mutex
	asked   []asked
	open    []map[int]asked // requests under way, by chip and number
	last    int             // number of the latest request
	waits   [][]*wait       // by chip
	moved   bool            // a program has got news
	hash    uint64          // hash of all results and their times
	failure error
	means   collective.Means
	jobs    jobs
	spun    mono.Time          // time of the latest wait that ended at once
	spins   int                // waits that ended at once at this time
	dark    bool               // hosts of dead chips answer nothing
	comms   []*collective.Comm // the end of the bubble closes them
}

// asked is the requests of one call of Submit.
type asked struct {
	chip int
	rs   []flow.Request
	done func(int, flow.Result)
}

// wait is a wait of a program on words.
type wait struct {
	words []session.Word
	test  session.Test
	now   []uint32      // values of the words at the end of the wait
	ended chan struct{} // gets a value at the end; closed if the chip dies
}

// maxSpins is the largest number of waits at one instant that end at once. A program that takes a message of another
// operation for its own may wait for a word that does not change any more.
const maxSpins = 100000

var errSpins = errors.New("the program waits again and again for a word that has its value already")

var errDead = errors.New("the chip has been killed")

// run calls f with a fabric in a bubble. Operations use writes over the fabric's routes.
func run(t *testing.T, machine string, seed uint64, f func(t *testing.T, b *bubble)) {
	t.Helper()
	runBy(t, collective.Fabric, machine, seed, f)
}

// runBy calls f with a fabric in a bubble. If operations use the EDM, a checker watches all EDMs.
func runBy(t *testing.T, means collective.Means, machine string, seed uint64, f func(t *testing.T, b *bubble)) {
	t.Helper()
	m, err := topo.Named(machine)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		n := len(m.Chips)
		jobs := newJobs(m)
		cfg := sim.Config{Topology: m, Seed: seed}
		if means == collective.EDM {
			cfg.Kernels = jobs.kernels()
		}
		d, err := sim.NewDriven(cfg)
		if err != nil {
			t.Fatal(err)
		}
		b := &bubble{d: d, means: means, jobs: jobs, topo: m, begun: time.Now(), base: d.Now(), wake: make(chan struct{}, 1), ended: make(chan struct{}), open: make([]map[int]asked, n), waits: make([][]*wait, n)}
		for i := range b.open {
			b.open[i] = map[int]asked{}
		}
		d.OnStep(b.look)
		d.OnKernel(b.kernel)
		var driver sync.WaitGroup
		driver.Go(b.drive)
		defer driver.Wait()
		defer close(b.ended)
		defer func() {
			for _, c := range b.comms {
				if c != nil {
					c.Close()
				}
			}
		}()
		f(t, b)
		if b.failure != nil {
			t.Error(b.failure)
		}
		for _, x := range append(b.jobs.rules, b.jobs.checker.Broken()...) {
			t.Error(x)
		}
	})
}

// now returns the fabric's time that belongs to the time of the bubble.
func (b *bubble) now() mono.Time { return b.base.Add(time.Since(b.begun)) }

// drive carries out the events of the fabric, until stop.
func (b *bubble) drive() {
	timer := time.NewTimer(time.Hour)
	for {
		synctest.Wait()
		b.mu.Lock()
		b.moved = false
		b.hand()
		b.handJobs()
		if err := b.d.Run(b.now()); err != nil && b.failure == nil {
			b.failure = err
			for i := range b.open {
				b.bury(i)
			}
		}
		wait, moved := b.d.Next().Sub(b.now()), b.moved
		b.mu.Unlock()
		if moved {
			continue
		}
		timer.Reset(min(wait, time.Hour))
		select {
		case <-timer.C:
		case <-b.wake:
		case <-b.ended:
			return
		}
	}
}

// key orders requests by their contents.
func (a *asked) key() []byte {
	r := &a.rs[0]
	k := binary.BigEndian.AppendUint32(nil, uint32(a.chip))
	k = fmt.Appendf(k, "%s %d %d %x %x %d %d %v %d|", r.Dst, r.Plane, r.Command.Type, r.Command.Addr, r.Command.Sem, r.Command.Value, r.Command.Size, r.Probe, len(a.rs))
	return append(k, r.Payload...)
}

// hand hands the requests of the programs to the chips.
func (b *bubble) hand() {
	type keyed struct {
		asked
		key string
	}
	var all []keyed
	for _, a := range b.asked {
		all = append(all, keyed{a, string(a.key())})
	}
	b.asked = nil
	slices.SortStableFunc(all, func(x, y keyed) int { return cmp.Compare(x.key, y.key) })
	for _, a := range all {
		if !b.d.Alive(a.chip) {
			b.fail(a.asked)
			continue
		}
		for i, r := range a.rs {
			b.last++
			number := b.last
			b.open[a.chip][number] = asked{a.chip, nil, func(_ int, r flow.Result) { a.done(i, r) }}
			b.d.Submit(a.chip, r, func(r flow.Result) {
				delete(b.open[a.chip], number)
				b.note(uint64(number), uint64(r.Fate), uint64(r.Outcome))
				b.moved = true
				a.done(i, r)
			})
		}
	}
}

// fail ends requests of a dead chip.
func (b *bubble) fail(a asked) {
	for i := range max(1, len(a.rs)) {
		a.done(i, flow.Result{Fate: flow.FateUnknown, Err: errDead})
	}
	b.moved = true
}

func (b *bubble) note(vs ...uint64) {
	h := fnv.New64a()
	var w [8]byte
	for _, v := range append(vs, b.hash, uint64(b.d.Now())) {
		binary.LittleEndian.PutUint64(w[:], v)
		h.Write(w[:])
	}
	b.hash = h.Sum64()
}

// look ends the waits of a chip whose words pass their tests.
func (b *bubble) look(chip int) {
	kept := b.waits[chip][:0]
	for _, w := range b.waits[chip] {
		if one, o, _ := b.passes(chip, w); o == wire.OutcomeDone && one {
			w.ended <- struct{}{}
			b.moved = true
		} else {
			kept = append(kept, w)
		}
	}
	clear(b.waits[chip][len(kept):])
	b.waits[chip] = kept
}

func (b *bubble) word(chip int, a wire.NocAddr) (uint32, wire.Outcome) {
	var w [4]byte
	o := b.d.Read(chip, a, w[:])
	return binary.LittleEndian.Uint32(w[:]), o
}

// passes reads the words of a wait, and reports whether one of them passes the test.
func (b *bubble) passes(chip int, w *wait) (one bool, o wire.Outcome, bad wire.NocAddr) {
	for i, x := range w.words {
		if w.now[i], o = b.word(chip, x.At); o != wire.OutcomeDone {
			return false, o, x.At
		}
		one = one || w.test.Holds(w.now[i], x.Value)
	}
	return one, wire.OutcomeDone, 0
}

// do changes the fabric between two of its events.
func (b *bubble) do(f func(d *sim.Driven)) {
	b.mu.Lock()
	f(b.d)
	b.mu.Unlock()
	b.ring()
}

// counters returns the counters of the fabric between two of its events.
func (b *bubble) counters() (tables, downs int, resent uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.d.Counters()
}

func (b *bubble) ring() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// kill ends a chip by kill -9. The commands of its program fail.
func (b *bubble) kill(chip int) {
	b.do(func(d *sim.Driven) {
		d.Kill(chip)
		b.bury(chip)
	})
}

// bury ends the requests and waits of a dead chip.
func (b *bubble) bury(chip int) {
	numbers := make([]int, 0, len(b.open[chip]))
	for n := range b.open[chip] {
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	for _, n := range numbers {
		b.fail(b.open[chip][n])
	}
	clear(b.open[chip])
	for _, w := range b.waits[chip] {
		close(w.ended)
	}
	b.waits[chip] = nil
	b.jobs.bury(chip)
}

// spin counts waits that end at once, and reports whether there are too many of them at one instant.
func (b *bubble) spin() bool {
	if now := b.now(); now != b.spun {
		b.spun, b.spins = now, 0
	}
	b.spins++
	return b.spins > maxSpins
}

// port is what the program of one chip sees of the fabric.
type port struct {
	b    *bubble
	chip int
}

// Self implements [session.Fabric].
func (p *port) Self() wire.FabricNodeID { return p.b.topo.Chips[p.chip].Node }

// Topology implements [session.Fabric].
func (p *port) Topology() *topo.Topology { return p.b.topo }

// Submit implements [session.Fabric].
func (p *port) Submit(_ context.Context, rs []flow.Request, done func(int, flow.Result)) (int, error) {
	p.b.mu.Lock()
	defer p.b.mu.Unlock()
	if !p.b.d.Alive(p.chip) || p.b.failure != nil {
		return 0, errDead
	}
	p.b.asked = append(p.b.asked, asked{p.chip, slices.Clone(rs), done})
	p.b.ring()
	return len(rs), nil
}

// LoadOwn implements [session.Loader].
func (p *port) LoadOwn(a wire.NocAddr, b []byte) (wire.Outcome, error) {
	p.b.mu.Lock()
	defer p.b.mu.Unlock()
	if !p.b.d.Alive(p.chip) {
		return 0, errDead
	}
	return p.b.d.Read(p.chip, a, b), nil
}

// Await implements [session.Waiter].
func (p *port) Await(ctx context.Context, a wire.NocAddr, t session.Test, value uint32) (uint32, error) {
	var now [1]uint32
	err := p.await(ctx, &wait{words: []session.Word{{At: a, Value: value}}, test: t, now: now[:]})
	return now[0], err
}

// AwaitAny implements [session.Replier].
func (p *port) AwaitAny(ctx context.Context, words []session.Word, now []uint32) error {
	return p.await(ctx, &wait{words: words, test: session.AtLeast, now: now})
}

func (p *port) await(ctx context.Context, w *wait) error {
	b := p.b
	b.mu.Lock()
	if !b.d.Alive(p.chip) || b.failure != nil {
		b.mu.Unlock()
		return errDead
	}
	if one, o, bad := b.passes(p.chip, w); one || o != wire.OutcomeDone {
		spins := b.spin()
		b.mu.Unlock()
		if spins {
			return errSpins
		}
		if o != wire.OutcomeDone {
			return &session.RefusedError{Dst: p.Self(), Outcome: o, Addr: bad}
		}
		return nil
	}
	w.ended = make(chan struct{}, 1)
	b.waits[p.chip] = append(b.waits[p.chip], w)
	b.mu.Unlock()
	select {
	case _, ok := <-w.ended:
		if !ok {
			return errDead
		}
		return nil
	case <-ctx.Done():
		b.mu.Lock()
		defer b.mu.Unlock()
		if i := slices.Index(b.waits[p.chip], w); i >= 0 {
			b.waits[p.chip] = slices.Delete(b.waits[p.chip], i, i+1)
		}
		return ctx.Err()
	}
}
