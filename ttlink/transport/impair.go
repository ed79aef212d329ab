package transport

import (
	"container/heap"
	"net"
	"sync"
	"time"

	"ttfabric/ttlink/fault"
	"ttfabric/wire/mono"
)

// MaxDelayed is how many bytes of datagrams may wait in an impaired port for their delay to end.
// The port drops further datagrams.
const MaxDelayed = 64 << 20

// Impaired is a port that injects the faults of a bad network into the datagrams that it sends. An
// Impaired does not change received datagrams. To impair both directions, wrap the ports at both
// ends.
//
// The port draws random numbers for each datagram of a run separately. The datagrams of a run that
// are neither lost nor delayed go on as one run. Delayed datagrams of one size that fall due
// together form a run again. With delay and rate limits, the port therefore loses most of the gain
// of segmentation offload.
type Impaired struct {
	Port
	start time.Time

	mu      sync.Mutex
	model   *fault.Model
	queue   delayed
	bytes   int // bytes of the datagrams in queue
	n       int
	full    uint64
	scratch []byte
	wake    chan struct{}
	watch   func(Tapped) // nil: nobody watches
	closed  bool
	wg      sync.WaitGroup
}

// Impair wraps a port. The random numbers start from seed. The error names the option that is out
// of range.
func Impair(p Port, seed uint64, o fault.Options) (*Impaired, error) {
	m, err := fault.New(seed, o)
	if err != nil {
		return nil, err
	}
	i := &Impaired{Port: p, start: time.Now(), model: m, wake: make(chan struct{}, 1)}
	i.wg.Go(i.release)
	return i, nil
}

// Set changes the options from the next datagram on.
func (i *Impaired) Set(o fault.Options) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.model.Set(o)
}

// Seed restarts the random numbers.
func (i *Impaired) Seed(seed uint64) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.model.Seed(seed)
}

// Cut cuts the cable in this direction, or repairs it.
func (i *Impaired) Cut(on bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.model.Cut(on)
}

// Watch makes Send call see for each datagram that a caller hands to Send. The function see gets
// the datagram as the caller handed it over, and the datagram's fate. Send waits for see to return.
// A nil see ends the watch.
func (i *Impaired) Watch(see func(Tapped)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.watch = see
}

// Counts returns how many faults the port has injected. Counts also returns how many datagrams the
// port dropped because too many waited.
func (i *Impaired) Counts() (c fault.Counts, dropped uint64) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.model.Counts(), i.full
}

// Send implements [Port]. Lost and delayed datagrams count as taken.
func (i *Impaired) Send(data []byte, seg int) (int, error) {
	r := Run{Data: data, Seg: seg}
	n := r.datagrams()
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case i.closed:
		return 0, net.ErrClosed
	case min(seg, len(data)) > i.Port.MaxDatagram():
		return i.Port.Send(data, seg) // the port counts the error
	}
	now := mono.Time(time.Since(i.start))
	i.scratch = i.scratch[:0]
	whole := 0 // bytes of scratch in datagrams of seg bytes; copies of a short last datagram follow
	for b := data; len(b) > 0; b = b[min(seg, len(b)):] {
		d := b[:min(seg, len(b))]
		before, full := i.model.Counts(), i.full
		outcomes := i.model.Apply(now, d)
		for _, o := range outcomes {
			if o.At.After(now) {
				i.delay(o)
				continue
			}
			i.scratch = append(i.scratch, o.Data...)
			if len(d) == seg {
				whole = len(i.scratch)
			}
		}
		if i.watch != nil {
			i.watch(Tapped{time.Now(), true, d, Fate{i.model.Counts().Since(before), i.full > full, wait(now, outcomes)}})
		}
	}
	short := len(i.scratch) - whole
	if len(i.scratch) == len(data) && short < seg { // no datagram was changed
		return i.Port.Send(i.scratch, seg)
	}
	if whole > 0 {
		if _, err := i.Port.Send(i.scratch[:whole], seg); err != nil {
			return 0, err
		}
	}
	if short > 0 {
		if _, err := i.Port.Send(i.scratch[whole:], len(data)%seg); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// wait returns how long the first outcome waits.
func wait(now mono.Time, outcomes []fault.Outcome) (d time.Duration) {
	for n, o := range outcomes {
		if w := o.At.Sub(now); n == 0 || w < d {
			d = max(0, w)
		}
	}
	return d
}

// SendBatch implements [Port].
func (i *Impaired) SendBatch(runs []Run) (int, error) { return SendEach(i, runs) }

// Close implements [Port]. Close drops the waiting datagrams.
func (i *Impaired) Close() error { return i.Unwrap().Close() }

// Unwrap ends the impairment and returns the port beneath, which stays open. Unwrap drops the
// waiting datagrams.
func (i *Impaired) Unwrap() Port {
	i.mu.Lock()
	i.closed = true
	i.queue = nil
	i.mu.Unlock()
	i.nudge()
	i.wg.Wait()
	return i.Port
}

// delay puts a datagram into the queue.
func (i *Impaired) delay(o fault.Outcome) {
	if i.bytes+len(o.Data) > MaxDelayed {
		i.full++
		return
	}
	i.bytes += len(o.Data)
	i.n++
	heap.Push(&i.queue, waiting{o, i.n})
	if i.queue[0].n == i.n {
		i.nudge()
	}
}

func (i *Impaired) nudge() {
	select {
	case i.wake <- struct{}{}:
	default:
	}
}

// release sends delayed datagrams when their delay has ended.
func (i *Impaired) release() {
	t := time.NewTimer(time.Hour)
	defer t.Stop()
	for {
		i.mu.Lock()
		if i.closed {
			i.mu.Unlock()
			return
		}
		wait := time.Hour
		for len(i.queue) > 0 {
			if wait = i.queue[0].At.Sub(mono.Time(time.Since(i.start))); wait > 0 {
				break
			}
			i.sendDue()
		}
		i.mu.Unlock()
		t.Reset(wait)
		select {
		case <-t.C:
		case <-i.wake:
		}
	}
}

// sendDue sends the first datagram, together with datagrams of the same size that are due too.
func (i *Impaired) sendDue() {
	now := mono.Time(time.Since(i.start))
	seg := len(i.queue[0].Data)
	i.scratch = i.scratch[:0]
	for len(i.queue) > 0 && !i.queue[0].At.After(now) && len(i.queue[0].Data) == seg && (len(i.scratch) == 0 || len(i.scratch)+seg <= MaxDatagram) {
		w := heap.Pop(&i.queue).(waiting)
		i.bytes -= len(w.Data)
		i.scratch = append(i.scratch, w.Data...)
	}
	_, _ = i.Port.Send(i.scratch, seg) // the port counts the datagrams that it cannot send
}

// waiting is a delayed datagram. The number n keeps the order of datagrams of the same instant.
type waiting struct {
	fault.Outcome
	n int
}

type delayed []waiting

func (d delayed) Len() int { return len(d) }
func (d delayed) Less(a, b int) bool {
	return d[a].At < d[b].At || d[a].At == d[b].At && d[a].n < d[b].n
}
func (d delayed) Swap(a, b int) { d[a], d[b] = d[b], d[a] }

// Push appends, for container/heap.
func (d *delayed) Push(x any) { *d = append(*d, x.(waiting)) }

// Pop takes the last, for container/heap.
func (d *delayed) Pop() any {
	old := *d
	w := old[len(old)-1]
	old[len(old)-1] = waiting{}
	*d = old[:len(old)-1]
	return w
}
