package quicport

import (
	"net/netip"
	"sync"
	"time"

	"ttfabric/ttlink/transport"
)

// queue is a first-in-first-out queue of runs of datagrams.
type queue struct {
	limit int // largest number of bytes in the queue

	mu     sync.Mutex
	cond   sync.Cond // signalled when the queue has changed
	runs   []run
	head   int // index in runs of the oldest run that waits
	bytes  int
	busy   bool // the caller of take is still sending the run that take last returned
	closed bool
}

// run holds consecutive datagrams of seg bytes each. The last datagram may be shorter.
type run struct {
	data []byte
	seg  int
}

// maxRuns is the largest number of runs in a queue.
const maxRuns = 8192

func (q *queue) init(limit int) {
	q.limit = limit
	q.cond.L = &q.mu
}

// put copies as many datagrams of a run into the queue as the queue has room for. put returns the
// number of copied datagrams, and their bytes.
func (q *queue) put(data []byte, seg int) (n, bytes int) {
	if len(data) == 0 {
		return 0, 0
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	bytes = len(data)
	if room := q.limit - q.bytes; room < bytes {
		bytes = room / seg * seg
	}
	if q.closed || bytes <= 0 || len(q.runs)-q.head >= maxRuns {
		return 0, 0
	}
	q.push(run{append([]byte(nil), data[:bytes]...), seg})
	return (bytes + seg - 1) / seg, bytes
}

// add adds a run to the queue without a copy, so the caller must not use d afterwards. If the queue
// has no room or is closed, add returns false.
func (q *queue) add(d []byte, seg int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.bytes+len(d) > q.limit || len(q.runs)-q.head >= maxRuns {
		return false
	}
	q.push(run{d, seg})
	return true
}

func (q *queue) push(r run) {
	if q.head > 0 && len(q.runs) == cap(q.runs) {
		q.runs = q.runs[:copy(q.runs, q.runs[q.head:])]
		q.head = 0
	}
	q.runs = append(q.runs, r)
	q.bytes += len(r.data)
	q.cond.Broadcast()
}

// take waits for the next run, removes it from the queue, and returns it. If the queue is closed,
// take returns false.
func (q *queue) take() (run, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.busy = false
	q.cond.Broadcast()
	for q.head == len(q.runs) && !q.closed {
		q.cond.Wait()
	}
	if q.closed {
		return run{}, false
	}
	q.busy = true
	return q.pop(), true
}

// pop removes and returns the oldest run. The caller holds mu.
func (q *queue) pop() run {
	r := q.runs[q.head]
	q.runs[q.head] = run{}
	if q.head++; q.head == len(q.runs) {
		q.runs, q.head = q.runs[:0], 0
		if cap(q.runs) > 64 {
			q.runs = nil // the memory is freed, so that an idle port needs none
		}
	}
	q.bytes -= len(r.data)
	return r
}

// batch waits until the queue has datagrams, and moves as many datagrams into b as b has room for.
// The argument "from" is the sender that the datagrams have in b. If the queue is closed, ok is
// false.
func (q *queue) batch(b *transport.Batch, from netip.AddrPort) (n, bytes int, ok bool) {
	b.Reset()
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.head == len(q.runs) && !q.closed {
		q.cond.Wait()
	}
	if q.closed {
		return 0, 0, false
	}
	for q.head < len(q.runs) {
		r := &q.runs[q.head]
		for len(r.data) > 0 {
			d := r.data[:min(r.seg, len(r.data))]
			if !b.Append(d, from) {
				return n, bytes, true
			}
			r.data = r.data[len(d):]
			q.bytes -= len(d)
			n, bytes = n+1, bytes+len(d)
		}
		q.pop()
	}
	return n, bytes, true
}

// empty waits until the queue is empty and the last run is sent, but at most for the time d.
func (q *queue) empty(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Millisecond) {
		q.mu.Lock()
		done := q.head == len(q.runs) && !q.busy
		q.mu.Unlock()
		if done {
			return
		}
	}
}

// clear drops all runs that wait.
func (q *queue) clear() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.runs, q.head, q.bytes = nil, 0, 0
}

// close drops all runs that wait, and makes all waiting calls of take and batch return.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.runs, q.head, q.bytes = nil, 0, 0
	q.cond.Broadcast()
}
