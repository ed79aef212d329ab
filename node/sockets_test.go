package node_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"ttfabric/node"
	"ttfabric/node/fifo"
	"ttfabric/node/session"
	"ttfabric/node/session/socket"
	"ttfabric/router"
	"ttfabric/wire"
)

// ends are both ends of a socket.
type ends struct {
	snd *socket.Sender
	rcv *socket.Receiver
}

// connect opens a socket from chip a to chip b.
func connect(ctx context.Context, t testing.TB, a, b *session.Session, o socket.Options) (e ends) {
	t.Helper()
	var wg sync.WaitGroup
	var errs [2]error
	to, from := o, o
	to.Peer, from.Peer = b.Self(), a.Self()
	wg.Go(func() { e.snd, errs[0] = socket.Dial(ctx, a, to) })
	wg.Go(func() { e.rcv, errs[1] = socket.Listen(ctx, b, from) })
	if wg.Wait(); errors.Join(errs[:]...) != nil {
		t.Fatal(errs)
	}
	return e
}

// random returns n random bytes.
func random(n int, seed uint64) []byte {
	b := make([]byte, n)
	c := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	_, _ = c.Read(b)
	return b
}

// pass sends data over a socket in random pieces, and closes both ends. pass returns what came.
func pass(ctx context.Context, t testing.TB, e ends, data []byte, page int, seed uint64) []byte {
	t.Helper()
	var wg sync.WaitGroup
	wg.Go(func() {
		r := rand.New(rand.NewPCG(seed, 1))
		for rest := data; len(rest) > 0; {
			n := min(len(rest), page*(1+r.IntN(1+(100<<r.IntN(11))/page)))
			if err := e.snd.Send(ctx, rest[:n]); err != nil {
				t.Errorf("send: %v", err)
				break
			}
			rest = rest[n:]
		}
		if err := e.snd.Close(ctx); err != nil {
			t.Errorf("close of the sender: %v", err)
		}
	})
	var got []byte
	r, b := rand.New(rand.NewPCG(seed, 2)), make([]byte, 200000)
	for {
		n, err := e.rcv.Recv(ctx, b[:page+r.IntN(len(b)-page)])
		got = append(got, b[:n]...)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Errorf("receive: %v", err)
			break
		}
	}
	if err := e.rcv.Close(ctx); err != nil {
		t.Errorf("close of the receiver: %v", err)
	}
	wg.Wait()
	return got
}

// TestSockets sends random pieces over several sockets at once, on both planes, in both directions, and
// within one chip. All bytes must arrive in order. The memory is free afterwards, and a second socket of
// the same number works.
func TestSockets(t *testing.T) {
	_, _, ns := fabric(t, "mesh:2x2")
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	defer cancel()
	for round := range 2 {
		var wg sync.WaitGroup
		for i, c := range []struct {
			a, b  int
			o     socket.Options
			bytes int
		}{
			{0, 3, socket.Options{Number: 0}, 3 << 20},
			{3, 0, socket.Options{Number: 0, Plane: 1}, 1 << 20},
			{0, 1, socket.Options{Number: 1, Size: 4096, Page: 64}, 64 * 5000},
			{0, 3, socket.Options{Number: 2, Size: 100, Page: 100}, 100 * 300},
			{2, 1, socket.Options{Number: 3, Size: 96 * 7001, Page: 7001}, 7001 * 100},
			{1, 1, socket.Options{Number: 4}, 1 << 20},
			{2, 3, socket.Options{Number: 5}, 0},
		} {
			wg.Go(func() {
				data := random(c.bytes, uint64(i+10*round))
				e := connect(ctx, t, session.New(ns[c.a]), session.New(ns[c.b]), c.o)
				if got := pass(ctx, t, e, data, max(1, int(c.o.Page)), uint64(i)); !bytes.Equal(got, data) {
					t.Errorf("socket %d: %d bytes came, want %d equal ones", i, len(got), len(data))
				}
			})
		}
		wg.Wait()
	}
}

// TestSocketCalls starts sends and receives without waiting, and polls them.
func TestSocketCalls(t *testing.T) {
	_, _, ns := fabric(t, "n300")
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	e := connect(ctx, t, session.New(ns[0]), session.New(ns[1]), socket.Options{Size: 1 << 10})
	var in, out []*socket.Call
	const each, calls = 300, 40
	data, got := random(each*calls, 1), make([]byte, each*calls)
	for i := range calls {
		c, err := e.snd.Start(ctx, data[i*each:(i+1)*each])
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, c)
	}
	if ended, _, _ := out[calls-1].Poll(); ended {
		t.Error("a FIFO of 1 KiB took 12000 bytes without a receiver")
	}
	for i := range calls {
		c, err := e.rcv.Start(ctx, got[i*each:(i+1)*each])
		if err != nil {
			t.Fatal(err)
		}
		in = append(in, c)
	}
	for i := range calls {
		for _, c := range []*socket.Call{in[i], out[i]} {
			if n, err := c.Wait(ctx); n != each || err != nil {
				t.Errorf("call %d: %d bytes, %v", i, n, err)
			}
			if ended, n, err := c.Poll(); !ended || n != each || err != nil {
				t.Errorf("call %d has ended, but Poll says %v, %d, %v", i, ended, n, err)
			}
		}
	}
	if !bytes.Equal(got, data) {
		t.Error("the bytes differ")
	}
	more := make([]byte, 8)
	c, err := e.rcv.Start(ctx, more)
	if err == nil {
		err = e.snd.Send(ctx, []byte("end"))
	}
	if err == nil {
		go e.snd.Close(ctx)
		var n int
		if n, err = c.Wait(ctx); n != 3 || err != io.ErrUnexpectedEOF {
			t.Errorf("3 bytes of 8 before the end: %d, %v", n, err)
		}
		err = e.rcv.Close(ctx)
	}
	if err != nil {
		t.Error(err)
	}
	if _, err := e.rcv.Recv(ctx, more); err != socket.ErrClosed {
		t.Errorf("a receive after Close: %v", err)
	}
}

// TestSocketRefusals opens ends that do not fit.
func TestSocketRefusals(t *testing.T) {
	_, _, ns := fabric(t, "n300")
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	a, b := session.New(ns[0]), session.New(ns[1])
	var wg sync.WaitGroup
	var errs [2]error
	short, stop := context.WithTimeout(ctx, 5*time.Second)
	defer stop()
	wg.Go(func() { _, errs[0] = socket.Dial(short, a, socket.Options{Peer: b.Self(), Size: 4096}) })
	wg.Go(func() {
		_, errs[1] = socket.Listen(short, b, socket.Options{Peer: a.Self(), Size: 8192})
	})
	wg.Wait()
	var bad *fifo.MismatchError
	if !errors.As(errs[0], &bad) && !errors.As(errs[1], &bad) {
		t.Errorf("a FIFO of 4096 bytes met one of 8192: %v", errs)
	}
	e := connect(ctx, t, a, b, socket.Options{})
	if _, err := socket.Dial(ctx, a, socket.Options{Peer: b.Self()}); !errors.Is(err, socket.ErrInUse) {
		t.Errorf("a second sender of number 0: %v", err)
	}
	for text, o := range map[string]socket.Options{
		"sockets 0 to 79": {Peer: b.Self(), Number: 99}, "multiple of the page": {Peer: b.Self(), Size: 10, Page: 3},
		"the tile has": {Peer: b.Self(), Size: 1400 << 10}, "not in topology": {Peer: chipID(9)},
	} {
		if _, err := socket.Dial(ctx, a, o); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%+v: %v, want %q", o, err, text)
		}
	}
	if err := e.snd.Send(ctx, []byte("unread")); err != nil {
		t.Error(err)
	}
	if err := e.rcv.Close(ctx); err != nil {
		t.Errorf("a receiver that closes early: %v", err)
	}
	if err := e.snd.Close(ctx); !errors.Is(err, &fifo.PeerError{Why: fifo.PeerClosed}) {
		t.Errorf("the sender of a receiver that closed early: %v", err)
	}
	e = connect(ctx, t, a, b, socket.Options{})
	over, stop := context.WithCancel(ctx)
	stop()
	if err := e.snd.Send(ctx, []byte("abc")); err != nil {
		t.Error(err)
	}
	if err := e.snd.Close(over); !errors.Is(err, context.Canceled) {
		t.Errorf("a sender that gives up: %v", err)
	}
	if _, err := e.rcv.RecvFull(ctx, make([]byte, 4)); !errors.Is(err, &fifo.PeerError{Why: fifo.PeerFailed}) {
		t.Errorf("the receiver of a sender that gave up: %v", err)
	}
	if err := e.rcv.Close(ctx); err != nil {
		t.Error(err)
	}
}

// TestSocketSurvivesFaults sends bytes over two planes while the test retrains each link of the sender, and
// cuts each cable so long that the packets need another route. Both sums over the bytes must be equal.
func TestSocketSurvivesFaults(t *testing.T) {
	_, _, ns := fabric(t, "mesh:2x2")
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	defer cancel()
	var wg sync.WaitGroup
	over := make(chan struct{})
	for plane := range 2 {
		e := connect(ctx, t, session.New(ns[0]), session.New(ns[3]), socket.Options{Number: plane, Plane: wire.Plane(plane), Size: 64 << 10})
		var sums [2][32]byte
		wg.Go(func() {
			var both sync.WaitGroup
			defer both.Wait()
			both.Go(func() {
				h, b := sha256.New(), make([]byte, 30000)
				for n, err := 0, error(nil); err != io.EOF; h.Write(b[:n]) {
					if n, err = e.rcv.Recv(ctx, b); err != nil && err != io.EOF {
						t.Errorf("plane %d, receive: %v", plane, err)
						break
					}
				}
				if err := e.rcv.Close(ctx); err != nil {
					t.Errorf("plane %d, close of the receiver: %v", plane, err)
				}
				sums[1] = [32]byte(h.Sum(nil))
			})
			h := sha256.New()
			for seed := uint64(0); ; seed++ {
				b := random(50000, seed)
				if err := e.snd.Send(ctx, b); err != nil {
					t.Errorf("plane %d, send: %v", plane, err)
					break
				}
				h.Write(b)
				select {
				case <-over:
				default:
					continue
				}
				break
			}
			if err := e.snd.Close(ctx); err != nil {
				t.Errorf("plane %d, close of the sender: %v", plane, err)
			}
			sums[0] = [32]byte(h.Sum(nil))
			if both.Wait(); sums[0] != sums[1] {
				t.Errorf("plane %d: the sums differ", plane)
			}
		})
	}
	ready := func() {
		for s, _ := ns[0].Status(); s.PortsUp < len(s.Ports) && ctx.Err() == nil; s, _ = ns[0].Status() {
			time.Sleep(time.Millisecond)
		}
	}
	s, _ := ns[0].Status()
	for _, p := range s.Ports {
		if err := ns[0].Command([]wire.Channel{p.Local.Channel}, router.CommandRetrain); err != nil {
			t.Error(err)
		}
		ready()
		if err := ns[0].Cut(p.Local.Channel, true, time.Second); err != nil { // longer than the links' patience
			t.Error(err)
		}
		time.Sleep(time.Second)
		ready()
	}
	for _, n := range []*node.Node{ns[0], ns[3]} { // both cables of an edge at once: no fallback is left, and the packets take another route
		s, _ := n.Status()
		first := s.Ports[0].Peer.Node
		for _, p := range s.Ports {
			if p.Peer.Node == first {
				if err := n.Cut(p.Local.Channel, true, 2*time.Second); err != nil {
					t.Error(err)
				}
			}
		}
		time.Sleep(2 * time.Second)
		for s, _ := n.Status(); s.PortsUp < len(s.Ports) && ctx.Err() == nil; s, _ = n.Status() {
			time.Sleep(time.Millisecond)
		}
	}
	close(over)
	wg.Wait()
}

// TestSocketPeerRestarts restarts the chip of one end. Both ends get an error, and the other end's error
// says that the chip restarted. If the other end looks for the chip while no route leads to the chip, the
// error says so instead; the test then tries again.
func TestSocketPeerRestarts(t *testing.T) {
	const tries = 5
	for _, dies := range []int{0, 1} {
		for try := 1; !peerRestarts(t, dies); try++ {
			if try == tries {
				t.Errorf("chip %d restarted: in each of %d tries, the other end looked while no route led to the chip", dies, tries)
				break
			}
		}
	}
}

// peerRestarts connects two chips by a socket, and restarts the chip "dies". peerRestarts returns false if
// the other end's error says that no route leads to the chip.
func peerRestarts(t *testing.T, dies int) bool {
	m, p, ns := fabric(t, "n300")
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	e := connect(ctx, t, session.New(ns[0]), session.New(ns[1]), socket.Options{Size: 4096})
	if err := e.snd.Send(ctx, []byte("before")); err != nil {
		t.Fatal(err)
	}
	if _, err := e.rcv.RecvFull(ctx, make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	ns[dies].Close()
	n, err := node.Start(ctx, config(m, p, chipID(dies), wire.Incarnation(5000)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	if err := session.New(n).Ready(ctx); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var errs [2]error
	wg.Go(func() {
		for errs[0] == nil {
			errs[0] = e.snd.Send(ctx, make([]byte, 4000))
		}
	})
	wg.Go(func() {
		for errs[1] == nil {
			_, errs[1] = e.rcv.Recv(ctx, make([]byte, 100))
		}
	})
	wg.Wait()
	t.Logf("%v\n%v", errs[0], errs[1])
	unreachable := errors.Is(errs[1-dies], session.ErrUnreachable)
	if !unreachable && !errors.Is(errs[1-dies], &fifo.PeerError{Why: fifo.PeerRestarted}) || errors.Is(errs[dies], io.EOF) || errors.Is(errs[dies], ctx.Err()) {
		t.Errorf("chip %d restarted: the sender's error is %v, the receiver's %v", dies, errs[0], errs[1])
	}
	short, stop := context.WithTimeout(ctx, 5*time.Second)
	defer stop()
	if err := e.snd.Close(short); err == nil {
		t.Error("the sender closed without an error")
	}
	_ = e.rcv.Close(short) // the memory of a chip that has gone is free
	return !unreachable
}
