package transport_test

import (
	"bytes"
	"fmt"
	"sync"
	"testing"
	"time"

	"ttfabric/ttlink/fault"
	"ttfabric/ttlink/transport"
	"ttfabric/ttlink/transport/transporttest"
)

func impair(t *testing.T, p transport.Port, o fault.Options) *transport.Impaired {
	t.Helper()
	i, err := transport.Impair(p, 1, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { i.Close() })
	return i
}

// TestWrappersConform runs package transporttest's suite on ports in wrappers that inject no
// faults.
func TestWrappersConform(t *testing.T) {
	ports := map[string]func(t *testing.T) transport.Port{
		"udp":    func(t *testing.T) transport.Port { return open(t, transport.Options{}) },
		"memory": nil,
	}
	wraps := map[string]func(t *testing.T, p transport.Port) transport.Port{
		"impair": func(t *testing.T, p transport.Port) transport.Port { return impair(t, p, fault.Options{}) },
		"tap": func(_ *testing.T, p transport.Port) transport.Port {
			return transport.Tap(p, func(transport.Tapped) {})
		},
	}
	for pn, port := range ports {
		for wn, wrap := range wraps {
			t.Run(pn+" "+wn, func(t *testing.T) {
				m := transport.NewMemory()
				get := port
				if get == nil {
					get = func(*testing.T) transport.Port { return m.Listen() }
				}
				transporttest.Run(t, func(t *testing.T) (transport.Port, transport.Port) {
					return wrap(t, get(t)), wrap(t, get(t))
				})
			})
		}
	}
}

// count receives from p until n reaches the number that ask returns, or for 30 s after sent is
// closed. count calls ask only after sent is closed. The result n is the number of received
// datagrams, and damaged the number that differ from want. At the end, count closes p.
func count(p transport.Port, want []byte, sent <-chan struct{}, ask func() int) (n, damaged int) {
	var mu sync.Mutex
	done := make(chan struct{})
	go func() {
		defer close(done)
		var b transport.Batch
		for p.Recv(&b) == nil {
			mu.Lock()
			b.Each(func(x []byte) {
				n++
				if !bytes.Equal(x, want) {
					damaged++
				}
			})
			mu.Unlock()
		}
	}()
	<-sent
	for range 3000 { // 30 s
		time.Sleep(10 * time.Millisecond)
		mu.Lock()
		all := n >= ask()
		mu.Unlock()
		if all {
			break
		}
	}
	p.Close()
	<-done
	return n, damaged
}

func TestImpairedPort(t *testing.T) {
	const sent = 2000 // the receiver's queue must hold two copies of each datagram
	msg := bytes.Repeat([]byte("datagram"), 8)
	for _, c := range []struct {
		name               string
		o                  fault.Options
		cut                bool
		low, high          int // limits of the number of received datagrams
		damaged, undamaged int // smallest numbers of damaged and of undamaged datagrams
	}{
		{"nothing", fault.Options{}, false, sent, sent, 0, sent},
		{"loss", fault.Options{Loss: 0.25}, false, sent / 2, sent - sent/8, 0, sent / 2},
		{"duplicate", fault.Options{Duplicate: 0.5}, false, sent + sent/4, 2 * sent, 0, sent},
		{"corrupt", fault.Options{Corrupt: 0.5}, false, sent, sent, sent / 4, sent / 4},
		{"delay", fault.Options{Delay: 20 * time.Millisecond, Jitter: 5 * time.Millisecond}, false, sent, sent, 0, sent},
		{"bursts", fault.Options{Burst: fault.Burst{ToBad: 0.1, ToGood: 0.3, LossBad: 1}}, false, sent / 2, sent - sent/8, 0, sent / 2},
		{"reorder", fault.Options{Reorder: 0.25}, false, sent, sent, 0, sent},
		{"rate", fault.Options{Rate: sent * 64 * 8 * 2}, false, sent, sent, 0, sent}, // the rate at which all datagrams take half a second
		{"cut", fault.Options{}, true, 0, 0, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := transport.NewMemory()
			a, b := impair(t, m.Listen(), c.o), m.Listen()
			if err := a.SetPeer(b.LocalAddr()); err != nil {
				t.Fatal(err)
			}
			if err := b.SetPeer(a.LocalAddr()); err != nil {
				t.Fatal(err)
			}
			a.Cut(c.cut)
			all, begun := make(chan struct{}), time.Now()
			go func() {
				defer close(all)
				for range sent / 8 {
					a.Send(bytes.Repeat(msg, 8), len(msg))
					time.Sleep(20 * time.Microsecond)
				}
			}()
			n, damaged := count(b, msg, all, func() int {
				c, _ := a.Counts()
				return int(c.Passed + c.Duplicated)
			})
			if took := time.Since(begun); c.o.Rate > 0 && took < 400*time.Millisecond {
				t.Errorf("all datagrams came within %v, despite the rate limit", took)
			}
			if n < c.low || n > c.high || damaged < c.damaged || n-damaged < c.undamaged {
				counts, dropped := a.Counts()
				t.Errorf("%d datagrams came, %d of them damaged; %+v, %d dropped", n, damaged, counts, dropped)
			}
		})
	}
}

// TestImpairedShortLast checks that all datagrams of a run are duplicated if the last datagram is
// shorter than the others.
func TestImpairedShortLast(t *testing.T) {
	m := transport.NewMemory()
	a, b := impair(t, m.Listen(), fault.Options{Duplicate: 1}), m.Listen()
	a.SetPeer(b.LocalAddr())
	b.SetPeer(a.LocalAddr())
	if n, err := a.Send([]byte("aaaabbbbcc"), 4); n != 3 || err != nil {
		t.Fatal(n, err)
	}
	got := map[string]int{}
	var batch transport.Batch
	for n := 0; n < 6; {
		if err := b.Recv(&batch); err != nil {
			t.Fatal(err)
		}
		batch.Each(func(x []byte) { got[string(x)]++; n++ })
	}
	if fmt.Sprint(got) != "map[aaaa:2 bbbb:2 cc:2]" {
		t.Errorf("got %v", got)
	}
	if _, err := transport.Impair(m.Listen(), 1, fault.Options{Loss: 2}); err == nil {
		t.Error("Impair accepts a loss of 2")
	}
}

// TestUnwrap checks that Unwrap stops the wrapper and leaves the wrapped port open.
func TestUnwrap(t *testing.T) {
	m := transport.NewMemory()
	plain, b := m.Listen(), m.Listen()
	a := impair(t, plain, fault.Options{Loss: 1})
	a.SetPeer(b.LocalAddr())
	b.SetPeer(a.LocalAddr())
	a.Send([]byte("lost"), 4)
	for range 2 {
		if a.Unwrap() != plain {
			t.Error("Unwrap returns another port")
		}
	}
	if _, err := a.Send([]byte("late"), 4); err == nil {
		t.Error("the wrapper still sends")
	}
	plain.Send([]byte("here"), 4)
	var batch transport.Batch
	if err := b.Recv(&batch); err != nil {
		t.Fatal(err)
	}
	batch.Each(func(x []byte) {
		if string(x) != "here" {
			t.Errorf("got %q", x)
		}
	})
}

// TestTapSeesBothWays checks that a tap shows each sent and each received datagram once and
// unchanged.
func TestTapSeesBothWays(t *testing.T) {
	m := transport.NewMemory()
	var mu sync.Mutex
	var seen []string
	a := transport.Tap(m.Listen(), func(x transport.Tapped) {
		mu.Lock()
		seen = append(seen, fmt.Sprintf("%v %s", x.Sent, x.Data))
		mu.Unlock()
	})
	b := m.Listen()
	a.SetPeer(b.LocalAddr())
	b.SetPeer(a.LocalAddr())
	a.Send([]byte("onetwo"), 3)
	a.SendBatch([]transport.Run{{Data: []byte("three"), Seg: 5}})
	b.Send([]byte("back"), 4)
	var batch transport.Batch
	if err := a.Recv(&batch); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(seen); got != "[true one true two true three false back]" {
		t.Error(got)
	}
}

// TestFate checks that the fates of all datagrams that Watch shows add up to the counters of the
// fault model.
func TestFate(t *testing.T) {
	a, b := transport.NewMemory().Listen(), transport.NewMemory().Listen()
	defer b.Close()
	if err := a.SetPeer(b.LocalAddr()); err != nil {
		t.Fatal(err)
	}
	i := impair(t, a, fault.Options{Loss: 0.1, Duplicate: 0.1, Corrupt: 0.1, Reorder: 0.1, Delay: 5 * time.Millisecond, Burst: fault.Burst{ToBad: 0.05, ToGood: 0.5, LossBad: 1}})
	var sum fault.Counts
	data, seen, delayed := bytes.Repeat([]byte("0123456789"), 50), 0, 0
	i.Watch(func(w transport.Tapped) {
		if string(w.Data) != "0123456789" || !w.Sent || w.At.IsZero() {
			t.Fatalf("saw %q", w.Data) // Watch shows datagrams before corruption
		}
		d := w.Fate.Done
		if d.Passed+d.Lost+d.BurstLost+d.CutOff != 1 {
			t.Fatalf("fate %+v", w.Fate)
		}
		if d.Passed == 1 != (w.Fate.Delay >= 5*time.Millisecond) {
			t.Fatalf("%s: delay %v", w.Fate.String(), w.Fate.Delay)
		}
		seen++
		delayed += int(d.Passed)
		sum = fault.Counts{Passed: sum.Passed + d.Passed, Lost: sum.Lost + d.Lost, BurstLost: sum.BurstLost + d.BurstLost, CutOff: sum.CutOff + d.CutOff,
			Duplicated: sum.Duplicated + d.Duplicated, Reordered: sum.Reordered + d.Reordered, Corrupted: sum.Corrupted + d.Corrupted}
	})
	for range 20 {
		if _, err := i.Send(data, 10); err != nil {
			t.Fatal(err)
		}
	}
	i.Cut(true)
	if _, err := i.Send(data[:10], 10); err != nil {
		t.Fatal(err)
	}
	if got, _ := i.Counts(); got != sum || seen != 1001 || sum.CutOff != 1 || sum.Lost == 0 || sum.Duplicated == 0 || sum.Corrupted == 0 || sum.Reordered == 0 || sum.BurstLost == 0 {
		t.Errorf("the fates of %d datagrams add up to %+v, the counters are %+v", seen, sum, got)
	}
	i.Watch(nil)
	if _, err := i.Send(data, 10); err != nil || seen != 1001 {
		t.Errorf("see was called %d times in all, also after the watch ended: %v", seen, err)
	}
	for f, want := range map[transport.Fate]string{{}: "", {Done: fault.Counts{Passed: 1}}: "", {Done: fault.Counts{Lost: 1}}: "lost", {Overfull: true}: "lost, too many delayed datagrams wait",
		{Done: fault.Counts{Passed: 1, Corrupted: 1, Duplicated: 1}, Delay: 1234567}: "corrupted, duplicated, delayed by 1.235ms"} {
		if f.String() != want || f.Any() != (want != "") {
			t.Errorf("%+v is %q, want %q", f, f.String(), want)
		}
	}
}
