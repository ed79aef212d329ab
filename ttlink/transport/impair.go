package transport

import (
	"container/heap"
	"net"
	"sync"
	"time"

	"ttfabric/ttlink/fault"
	"ttfabric/wire/mono"
)

// MaxDelayed limits the bytes of delayed datagrams that wait in an impaired port. The port drops a
// delayed datagram that would exceed MaxDelayed.
const MaxDelayed = 64 << 20

// Impaired is a wrapper around a port that injects the faults of a bad network into sent datagrams.
// An Impaired does not change received datagrams. To impair both directions, wrap the ports at both
// ends.
//
// Each datagram of a run has its own random faults. An Impaired sends the datagrams of a run that
// are neither lost nor delayed as one run. A shorter last datagram may follow as a run of its own.
// An Impaired also sends consecutive delayed datagrams of one size as one run if their delays end
// together. With delays, runs are short, and segmentation offload gains little.
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

// Impair wraps a port. The random numbers start from seed. If an option is out of range, the error
// names the option.
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

// Seed restarts the random numbers from seed.
func (i *Impaired) Seed(seed uint64) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.model.Seed(seed)
}

// Cut(true) cuts the cable in the sending direction, and Cut(false) repairs the cable.
func (i *Impaired) Cut(on bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.model.Cut(on)
}

// Watch makes Send call see for each datagram that a caller sends, unless the datagram is too long
// for the wrapped port. The function "see" gets the datagram before any fault, together with the
// datagram's fate. Send waits until see returns. If "see" is nil, the watch ends.
func (i *Impaired) Watch(see func(Tapped)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.watch = see
}

// Counts returns the numbers of faults that the port has injected. The result "dropped" is the
// number of datagrams that the port dropped because of [MaxDelayed].
func (i *Impaired) Counts() (c fault.Counts, dropped uint64) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.model.Counts(), i.full
}

// Send implements [Port]. In the number that Send returns, lost and delayed datagrams count as
// accepted. If faults have changed a run, datagrams that the wrapped port refuses count as
// accepted, too.
func (i *Impaired) Send(data []byte, seg int) (int, error) {
	r := Run{Data: data, Seg: seg}
	n := r.datagrams()
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case i.closed:
		return 0, net.ErrClosed
	case min(seg, len(data)) > i.Port.MaxDatagram():
		return i.Port.Send(data, seg) // the port beneath counts the datagrams as too long
	}
	now := mono.Time(time.Since(i.start))
	i.scratch = i.scratch[:0]
	whole := 0 // scratch[:whole] holds datagrams of seg bytes; copies of a short last datagram follow
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
	if len(i.scratch) == len(data) && short < seg { // the datagrams still form one run
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

// wait returns the time from now until the earliest outcome. If there is no outcome, wait returns
// 0.
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

// Unwrap stops the wrapper and returns the wrapped port, which stays open. Unwrap drops the waiting
// datagrams.
func (i *Impaired) Unwrap() Port {
	i.mu.Lock()
	i.closed = true
	i.queue = nil
	i.mu.Unlock()
	i.nudge()
	i.wg.Wait()
	return i.Port
}

// delay puts a datagram into the queue of delayed datagrams. If MaxDelayed leaves no room, delay
// drops and counts the datagram.
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

// release sends each delayed datagram when its delay ends. release runs in a goroutine until the
// wrapper is closed.
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

// sendDue sends the first datagram of the queue. In the same run, sendDue sends the next datagrams
// of the same size whose delay has ended. The run has at most MaxDatagram bytes.
func (i *Impaired) sendDue() {
	now := mono.Time(time.Since(i.start))
	seg := len(i.queue[0].Data)
	i.scratch = i.scratch[:0]
	for len(i.queue) > 0 && !i.queue[0].At.After(now) && len(i.queue[0].Data) == seg && (len(i.scratch) == 0 || len(i.scratch)+seg <= MaxDatagram) {
		w := heap.Pop(&i.queue).(waiting)
		i.bytes -= len(w.Data)
		i.scratch = append(i.scratch, w.Data...)
	}
	_, _ = i.Port.Send(i.scratch, seg) // the port beneath counts the datagrams that it cannot send
}

// waiting is a delayed datagram. Among datagrams whose delays end at the same instant, the datagram
// with the lowest n is sent first.
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

// Push appends x. Only container/heap calls Push.
func (d *delayed) Push(x any) { *d = append(*d, x.(waiting)) }

// Pop removes and returns the last element. Only container/heap calls Pop.
func (d *delayed) Pop() any {
	old := *d
	w := old[len(old)-1]
	old[len(old)-1] = waiting{}
	*d = old[:len(old)-1]
	return w
}
