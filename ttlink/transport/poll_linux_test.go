package transport

import (
	"errors"
	"math"
	"net"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// single gives the Go runtime one processor for the time of a test. Ports poll only then.
func single(t *testing.T) {
	before := runtime.GOMAXPROCS(1)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
}

// TestPollReceives checks that a port that polls receives what comes during the polling and after
// it, and that polling ends.
func TestPollReceives(t *testing.T) {
	single(t)
	a, b := joinedLinux(t, Options{})
	batch := Batch{Poll: 2 * time.Millisecond}
	for k := range 20 {
		wait := time.Duration(k%4) * time.Millisecond // 0 to 1 ms: while b polls, 3 ms: b sleeps
		time.AfterFunc(wait, func() { a.Send(make([]byte, 100+k), 100+k) })
		if err := b.Recv(&batch); err != nil || batch.Len() != 1 || len(batch.Supers()[0].Data) != 100+k {
			t.Fatalf("datagram %d: %d datagrams, %v", k, batch.Len(), err)
		}
	}
}

// TestPollEnds checks that a port without datagrams polls only for a short time, and that a sleeping
// port holds no memory for datagrams.
func TestPollEnds(t *testing.T) {
	single(t)
	a, b := joinedLinux(t, Options{})
	batch := Batch{Poll: time.Millisecond}
	done := make(chan error, 1)
	go func() { done <- b.Recv(&batch) }()
	time.Sleep(20 * time.Millisecond)
	var before, after unix.Rusage
	unix.Getrusage(unix.RUSAGE_SELF, &before)
	time.Sleep(50 * time.Millisecond)
	unix.Getrusage(unix.RUSAGE_SELF, &after)
	used := time.Duration(after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano())
	if used > 20*time.Millisecond {
		t.Errorf("the process used %v of processor time in 50 ms, long after the polling", used)
	}
	a.Send([]byte("x"), 1)
	if err := <-done; err != nil || batch.Len() != 1 {
		t.Fatalf("%d datagrams, %v", batch.Len(), err)
	}
}

// countCalls counts the calls by which a port makes pauses: two calls for each pause.
func countCalls(t *testing.T, u *udp) *int {
	t.Helper()
	if !u.lull.pass() {
		t.Fatal("the port cannot pause")
	}
	calls, inner := 0, u.lull.call
	u.lull.call = func(fd uintptr) bool { calls++; return inner(fd) }
	return &calls
}

// TestPollLeavesOthersRoom checks that goroutines run, and other ports receive, while a port polls.
// The Go runtime by itself looks at other sockets every 10 ms if a goroutine is always ready.
func TestPollLeavesOthersRoom(t *testing.T) {
	single(t)
	_, b := joinedLinux(t, Options{})
	c, d := joinedLinux(t, Options{})
	e, f := joinedLinux(t, Options{})
	calls := countCalls(t, b)
	batch := Batch{Poll: time.Minute}
	done := make(chan error, 1)
	go func() { done <- b.Recv(&batch) }()
	go func() { // the answerer: its port sleeps
		var batch Batch
		for d.Recv(&batch) == nil {
			f.Send([]byte("answer"), 6)
		}
	}()
	const trips, most = 20, 2000
	fewest := math.MaxInt
	var answer Batch
	for range trips {
		b.lull.mu.Lock()
		before := *calls
		b.lull.mu.Unlock()
		c.Send([]byte("ask"), 3)
		if err := e.Recv(&answer); err != nil {
			t.Fatal(err)
		}
		b.lull.mu.Lock()
		fewest = min(fewest, (*calls-before)/2)
		b.lull.mu.Unlock()
	}
	if fewest > most {
		t.Errorf("a round trip by ports that sleep took at least %d pauses of the port that polls, want at most %d", fewest, most)
	}
	b.Close()
	if err := <-done; !errors.Is(err, net.ErrClosed) {
		t.Errorf("a port that polls was closed, and Recv returned %v", err)
	}
}

// TestPollInVain checks that a port that has polled in vain does not poll again soon.
func TestPollInVain(t *testing.T) {
	single(t)
	a, b := joinedLinux(t, Options{})
	calls := countCalls(t, b)
	batch := Batch{Poll: 2 * pollSpare}
	for k := range 3 {
		before := *calls
		time.AfterFunc(2*batch.Poll, func() { a.Send([]byte("x"), 1) })
		if err := b.Recv(&batch); err != nil || batch.Len() != 1 {
			t.Fatalf("%d datagrams, %v", batch.Len(), err)
		}
		if polled := *calls > before; polled != (k == 0) {
			t.Errorf("Recv %d: polled %v", k, polled)
		}
	}
	batch.sys.spared = batch.sys.spared.Add(-pollShare * 2 * batch.Poll)
	before := *calls
	time.AfterFunc(2*batch.Poll, func() { a.Send([]byte("x"), 1) })
	if err := b.Recv(&batch); err != nil || *calls == before {
		t.Errorf("long after the polling in vain, Recv did not poll: %v", err)
	}
}
