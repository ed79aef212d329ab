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

// single gives the Go runtime one processor for the time of a test. Ports poll only if the runtime
// has one processor.
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

// TestPollInVain checks that a port that has polled in vain does not poll again until it has saved up
// time.
func TestPollInVain(t *testing.T) {
	single(t)
	a, b := joinedLinux(t, Options{})
	calls := countCalls(t, b)
	batch := Batch{Poll: 2 * pollSpare}
	receive := func() {
		t.Helper()
		if err := b.Recv(&batch); err != nil || batch.Len() != 1 {
			t.Fatalf("%d datagrams, %v", batch.Len(), err)
		}
	}
	a.Send([]byte("x"), 1)
	receive() // Recv prepares the batch
	batch.sys.vain = vain{pollSpare, time.Now()}
	before := *calls
	if err := b.poll(&batch); err != nil || *calls == before {
		t.Fatalf("a port with spare time made %d pauses: %v", (*calls-before)/2, err)
	}
	if s := batch.sys.vain.spare; s > pollSpare-batch.Poll {
		t.Errorf("after polling in vain for %v, %v are left of %v", batch.Poll, s, pollSpare)
	}
	batch.sys.vain = vain{-time.Hour, time.Now()}
	before = *calls
	if err := b.poll(&batch); err != nil || *calls > before {
		t.Errorf("a port without spare time made %d pauses: %v", (*calls-before)/2, err)
	}
	time.AfterFunc(time.Millisecond, func() { a.Send([]byte("y"), 1) })
	if receive(); *calls > before {
		t.Errorf("Recv of a port without spare time made %d pauses", (*calls-before)/2)
	}
}

// TestVain checks how the time that a port may poll in vain grows.
func TestVain(t *testing.T) {
	now := time.Now()
	var v vain
	for _, x := range []struct {
		after, took time.Duration
		allows      bool
		left        time.Duration // afterwards
	}{
		{0, 0, true, pollSpare},
		{0, pollSpare + time.Millisecond, true, -time.Millisecond},
		{pollShare * time.Millisecond, 0, false, 0},
		{pollShare * time.Millisecond, 0, true, time.Millisecond},
		{time.Hour, time.Second, true, pollSpare - time.Second},
		{pollShare * time.Second / 2, 0, false, pollSpare - time.Second/2},
	} {
		now = now.Add(x.after)
		if ok := v.allows(now); ok != x.allows {
			t.Errorf("after %v: allows %v, want %v", x.after, ok, x.allows)
		}
		if v.spare -= x.took; v.spare != x.left {
			t.Errorf("after %v and polling for %v, %v are left, want %v", x.after, x.took, v.spare, x.left)
		}
	}
}
