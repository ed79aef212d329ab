package server_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"ttfabric/node"
	"ttfabric/node/admin/attach"
	"ttfabric/node/admin/attach/server"
	"ttfabric/node/chip/record"
	"ttfabric/node/flow"
	"ttfabric/node/session"
	"ttfabric/node/session/linear"
	"ttfabric/wire"
)

// tile is a Tensix tile of a Wormhole chip that works on every chip.
func tile(off uint64) wire.NocAddr { return wire.NewNocAddr(1, 1, off) }

// check fails the test if a call failed.
func check(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func word(t *testing.T, ctx context.Context, s *session.Session, dst wire.FabricNodeID, a wire.NocAddr) uint32 {
	t.Helper()
	var b [4]byte
	check(t, s.Read(ctx, dst, a, b[:]))
	return binary.LittleEndian.Uint32(b[:])
}

// TestCalls makes the calls of a session on the chip's own memory and on another chip's.
func TestCalls(t *testing.T) {
	l := start(t, "ring:4", "")
	ctx, s := l.ctx, session.New(l.dial(t, 0))
	for i, dst := range []wire.FabricNodeID{l.nodes[0].Self(), l.nodes[1].Self()} {
		long := bytes.Repeat([]byte{1, 2, 3, 5, 8, 13, byte(i)}, 400000) // more than two blocks
		got := make([]byte, len(long))
		dram := wire.NewNocAddr(0, 0, 4097)
		check(t, s.Write(ctx, dst, dram, long), s.Read(ctx, dst, dram, got))
		if !bytes.Equal(got, long) {
			t.Errorf("chip %s: a long write was read back as other bytes", dst)
		}
		check(t, s.InlineWrite(ctx, dst, tile(0), 7), s.AtomicInc(ctx, dst, tile(0), 5, true), s.WriteInc(ctx, dst, tile(64), []byte("abcd"), tile(0), 30, true),
			s.ScatterWrite(ctx, dst, []session.Chunk{{Addr: tile(128), Data: []byte{1, 0, 0, 0}}, {Addr: tile(192), Data: []byte{2, 0, 0, 0}}}))
		if a, b, c, d := word(t, ctx, s, dst, tile(0)), word(t, ctx, s, dst, tile(64)), word(t, ctx, s, dst, tile(128)), word(t, ctx, s, dst, tile(192)); a != 42 || b != binary.LittleEndian.Uint32([]byte("abcd")) || c != 1 || d != 2 {
			t.Errorf("chip %s: the words are %d, %x, %d, %d", dst, a, b, c, d)
		}
		_, err := s.Ping(ctx, dst)
		check(t, err, s.Write(ctx, dst, tile(256), []byte{9}, session.Posted()), s.Flush(ctx, dst))
		var refused *session.RefusedError
		if err := s.Write(ctx, dst, wire.NewNocAddr(0, 13, 0), []byte{1}); !errors.As(err, &refused) || refused.Outcome != wire.OutcomeBadAddress {
			t.Errorf("chip %s: a write to a tile that does not exist: %v", dst, err)
		}
		if err := s.Write(ctx, dst, tile(1400<<10), make([]byte, 1<<20)); !errors.As(err, &refused) {
			t.Errorf("chip %s: a long write beyond a tile: %v", dst, err)
		}
	}
	check(t, s.MulticastWrite(ctx, session.Line(wire.East, 1, 3), tile(512), []byte{4, 0, 0, 0}), s.MulticastInc(ctx, session.Line(wire.East, 1, 3), tile(512), 3, true))
	ls, err := linear.Connect(s.Sender(ctx), linear.To{Dir: wire.East})
	check(t, err, linear.UnicastAtomicInc(ls, tile(512), 1, true, 2))
	for i, want := range []uint32{0, 7, 8, 7} {
		if got := word(t, ctx, s, l.nodes[i].Self(), tile(512)); got != want {
			t.Errorf("after the multicasts, chip %d has %d, want %d", i, got, want)
		}
	}
	before, err := s.Checkpoint(ctx)
	check(t, err)
	losses, err := s.LostSince(ctx, before)
	if err != nil || losses.Any() {
		t.Errorf("losses: %+v, %v", losses, err)
	}
}

// TestFlushOfPostedCommands posts commands without waiting, and flushes. After the flush, the destinations
// have performed all of them. The flush also tells how many commands were not performed.
func TestFlushOfPostedCommands(t *testing.T) {
	l := start(t, "n300", "")
	ctx, s := l.ctx, session.New(l.dial(t, 0))
	for _, dst := range []wire.FabricNodeID{l.nodes[0].Self(), l.nodes[1].Self()} {
		for range 50 {
			check(t, s.WriteInc(ctx, dst, tile(64), []byte("abcd"), tile(0), 3, false, session.Posted()), s.AtomicInc(ctx, dst, tile(0), 1, false, session.Posted()))
		}
		check(t, s.Flush(ctx, dst))
		if n, abcd := word(t, ctx, s, dst, tile(0)), word(t, ctx, s, dst, tile(64)); n != 200 || abcd != binary.LittleEndian.Uint32([]byte("abcd")) {
			t.Errorf("chip %s: after a flush, the counter is %d, want 200, and the data are %x", dst, n, abcd)
		}
	}
	var missed *session.MissedError
	dst := l.nodes[1].Self() // the own chip would refuse the next command at once
	check(t, s.WriteInc(ctx, dst, tile(64), []byte("abcd"), tile(2), 3, false, session.Posted()))
	if err := s.Flush(ctx, dst); !errors.As(err, &missed) || missed.Count != 1 {
		t.Errorf("a flush after a misaligned counter: %v", err)
	}
}

func TestErrorsOfTheChip(t *testing.T) {
	l := start(t, "mesh:2x2", "")
	c := l.dial(t, 0)
	s := session.New(c)
	if err := s.Write(l.ctx, l.nodes[1].Self(), tile(0), []byte{1}, session.OnPlane(15)); err == nil || !strings.Contains(err.Error(), "plane 15") {
		t.Errorf("a plane that does not exist: %v", err)
	}
	if err := s.Write(l.ctx, wire.FabricNodeID{Mesh: 3}, tile(0), []byte{1}); err == nil || !strings.Contains(err.Error(), "M3D0") {
		t.Errorf("a chip that does not exist: %v", err)
	}
	rs := []flow.Request{{Dst: c.Self(), Command: wire.Command{Type: wire.NocInlineWrite, Addr: tile(0), Value: 1}}, {Dst: wire.FabricNodeID{Mesh: 3}},
		{Dst: c.Self(), Command: wire.Command{Type: wire.NocInlineWrite, Addr: tile(4), Value: 2}}}
	ends := make(chan flow.Result, len(rs))
	n, err := c.Submit(l.ctx, rs, func(_ int, r flow.Result) { ends <- r })
	if n != 3 || err != nil {
		t.Fatal(n, err)
	}
	for range rs {
		<-ends
	}
	if a, b := word(t, l.ctx, s, c.Self(), tile(0)), word(t, l.ctx, s, c.Self(), tile(4)); a != 1 || b != 2 {
		t.Errorf("the commands beside a bad command wrote %d and %d, want 1 and 2", a, b)
	}
	l.nodes[0].Drain(true)
	if err := s.Write(l.ctx, c.Self(), tile(0), []byte{1}); err == nil || !strings.Contains(err.Error(), "removed") {
		t.Errorf("a chip that is being removed: %v", err)
	}
}

// TestCommandsOfAClientKeepTheirOrder sends writes and reads of one word without waiting. Each read
// must see the write before it.
func TestCommandsOfAClientKeepTheirOrder(t *testing.T) {
	l := start(t, "n300", "")
	c := l.dial(t, 0)
	for _, dst := range []wire.FabricNodeID{l.nodes[0].Self(), l.nodes[1].Self()} {
		const n = 2000
		var mu sync.Mutex
		seen, left := map[int]uint32{}, make(chan struct{}, 2*n)
		for i := range n {
			rs := []flow.Request{{Dst: dst, Command: wire.Command{Type: wire.NocInlineWrite, Addr: tile(0), Value: uint32(i)}}, {Dst: dst, Command: wire.Command{Type: wire.NocRead, Addr: tile(0), Size: 4}}}
			_, err := c.Submit(l.ctx, rs, func(k int, r flow.Result) {
				if mu.Lock(); k == 1 && r.Fate == flow.FateDone {
					seen[i] = binary.LittleEndian.Uint32(r.Data)
				}
				mu.Unlock()
				left <- struct{}{}
			})
			check(t, err)
		}
		for range 2 * n {
			<-left
		}
		for i, v := range seen {
			if v != uint32(i) {
				t.Fatalf("chip %s: the read after write %d saw %d", dst, i, v)
			}
		}
		if len(seen) == 0 {
			t.Error("no read was performed")
		}
	}
}

// TestABlockIsWrittenAtOneInstant writes blocks of one byte each from one client. Another client
// must never read a mixture.
func TestABlockIsWrittenAtOneInstant(t *testing.T) {
	l := start(t, "n300", "")
	a, b, self := session.New(l.dial(t, 0)), session.New(l.dial(t, 0)), l.nodes[0].Self()
	ctx, stop := context.WithCancel(l.ctx)
	defer stop()
	ended := make(chan struct{})
	dram := wire.NewNocAddr(0, 0, 0)
	go func() {
		defer close(ended)
		for i := 0; ctx.Err() == nil; i++ {
			_ = a.Write(ctx, self, dram, bytes.Repeat([]byte{byte(i)}, attach.MaxBlock))
		}
	}()
	got := make([]byte, attach.MaxBlock)
	for range 100 {
		check(t, b.Read(l.ctx, self, dram, got))
		if bytes.Count(got, got[:1]) != len(got) {
			t.Fatal("a read saw a part of a write")
		}
	}
	stop()
	<-ended
}

func TestWaits(t *testing.T) {
	l := start(t, "n300", "")
	s, other, self := session.New(l.dial(t, 0)), session.New(l.dial(t, 1)), l.nodes[0].Self()
	got := make(chan uint32)
	go func() {
		v, err := s.WaitCounter(l.ctx, tile(0), 3)
		if err != nil {
			t.Error(err)
		}
		got <- v
	}()
	for range 3 {
		select {
		case v := <-got:
			t.Fatalf("the wait ended too early, at %d", v)
		default:
		}
		check(t, other.AtomicInc(l.ctx, self, tile(0), 1, true))
	}
	if v := <-got; v != 3 {
		t.Errorf("the counter is %d, want 3", v)
	}
	check(t, s.WaitWord(l.ctx, tile(0), 3)) // holds already
	short, cancel := context.WithTimeout(l.ctx, 10*time.Millisecond)
	defer cancel()
	if err := s.WaitWord(short, tile(0), 4); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a wait that cannot end: %v", err)
	}
	for _, a := range []wire.NocAddr{tile(2), wire.NewNocAddr(0, 13, 0)} {
		if err := s.WaitWord(l.ctx, a, 0); err == nil || !strings.Contains(err.Error(), "refused") {
			t.Errorf("a wait on %s: %v", a, err)
		}
	}
}

// TestAClientThatDiesLeavesNothing opens as many waits as a chip may have, and closes the connection.
// Another client must then be able to wait.
func TestAClientThatDiesLeavesNothing(t *testing.T) {
	l := start(t, "n300", "")
	c := l.dial(t, 0)
	var wg sync.WaitGroup
	for range node.MaxWaits + 10 {
		wg.Go(func() {
			for { // a wait that is refused is tried again: a wait of the other client may have had the place for a short time
				_, err := c.Await(l.ctx, tile(0), session.Equal, 1)
				if err == nil {
					t.Error("a wait ended well")
				}
				if err == nil || !strings.Contains(err.Error(), "as many as it may have") {
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
	s := session.New(l.dial(t, 0))
	l.eventually(t, "the limit of waits", func() bool {
		short, cancel := context.WithTimeout(l.ctx, 50*time.Millisecond)
		defer cancel()
		err := s.WaitWord(short, tile(0), 1)
		return err != nil && strings.Contains(err.Error(), "as many as it may have")
	})
	c.Close()
	wg.Wait()
	l.eventually(t, "the end of the client", func() bool { return l.servers[0].Clients() == 1 })
	go func() { _ = session.New(l.nodes[1]).InlineWrite(l.ctx, l.nodes[0].Self(), tile(0), 1) }()
	check(t, s.WaitWord(l.ctx, tile(0), 1))
}

func TestBarriers(t *testing.T) {
	l := start(t, "n300", "")
	const ranks = 3
	var cs []*attach.Client
	for range ranks {
		cs = append(cs, l.dial(t, 0))
	}
	all := func(cs []*attach.Client) []error {
		var wg sync.WaitGroup
		errs := make([]error, len(cs))
		for i, c := range cs {
			wg.Go(func() { errs[i] = c.Barrier(l.ctx, "job", i, ranks) })
		}
		wg.Wait()
		return errs
	}
	for range 5 {
		check(t, all(cs)...)
	}
	short, cancel := context.WithTimeout(l.ctx, 10*time.Millisecond)
	defer cancel()
	if err := cs[0].Barrier(short, "job", 0, ranks); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a barrier of one rank: %v", err)
	}
	check(t, all(cs)...) // the rank that left the wait is still a member
	time.AfterFunc(10*time.Millisecond, func() { cs[2].Close() })
	for i, err := range all(cs[:2]) {
		var left *attach.Error
		if !errors.As(err, &left) || left.Code != attach.CodeLeft || !strings.Contains(err.Error(), "rank 2") {
			t.Errorf("rank %d: %v, want that rank 2 has left", i, err)
		}
	}
	if err := cs[0].Barrier(l.ctx, "", 0, 1); err == nil {
		t.Error("a barrier without a name was taken")
	}
}

// TestClaims claims a part of a chip by two programs. The second program gets the claim when the first one
// releases it, and when the connection of the first one ends. The chip's own process has the same claims.
func TestClaims(t *testing.T) {
	l := start(t, "n300", "")
	a, b := l.dial(t, 0), l.dial(t, 0)
	var held *session.HeldError
	release, err := a.Claim(l.ctx, "the printer", "program a")
	check(t, err)
	if _, err := b.Claim(l.ctx, "the printer", "program b"); !errors.As(err, &held) || !strings.Contains(held.Text, "chip M0D0: the printer has been in use by program a since 20") {
		t.Errorf("a second claim: %v", err)
	}
	if _, err := l.nodes[0].Claim(l.ctx, "the printer", "the chip"); !errors.As(err, &held) {
		t.Errorf("a claim by the chip's own process: %v", err)
	}
	if _, err := l.dial(t, 1).Claim(l.ctx, "the printer", "program b"); err != nil {
		t.Errorf("a claim of another chip: %v", err)
	}
	release()
	if _, err = b.Claim(l.ctx, "the printer", "program b"); err != nil {
		t.Errorf("a claim after a release: %v", err)
	}
	if _, err := a.Claim(l.ctx, "", "program a"); err == nil {
		t.Error("a claim without a name: no error")
	}
	b.Close()
	if _, err := session.New(a).Claim(l.ctx, "the printer"); err != nil { // waits until the chip has seen the end of b
		t.Errorf("a claim after the end of its holder: %v", err)
	}
	if _, err := session.New(l.dial(t, 0)).Claim(l.ctx, "the printer"); !errors.As(err, &held) || !strings.Contains(err.Error(), "process ") {
		t.Errorf("a claim of a session: %v", err)
	}
}

func TestEvents(t *testing.T) {
	l := start(t, "n300", "")
	s := session.New(l.dial(t, 0))
	ctx, cancel := context.WithCancel(l.ctx)
	kinds := make(chan session.Event, 64)
	ended := make(chan error, 1)
	go func() { ended <- s.Watch(ctx, func(e session.Event) { kinds <- e }) }()
	time.Sleep(10 * time.Millisecond) // a later event is seen in any case, because the links go down again and again
	go l.nodes[1].Close()
	for e := range kinds {
		if e.Kind == session.LinkDown {
			if e.Port.Node != l.nodes[0].Self() || e.Peer.Node != l.nodes[1].Self() || e.Reason == "" || e.Time.IsZero() {
				t.Errorf("event %+v", e)
			}
			break
		}
	}
	cancel()
	if err := <-ended; err != context.Canceled {
		t.Errorf("Watch: %v", err)
	}
}

func TestASocketIsPrivate(t *testing.T) {
	l := start(t, "n300", "")
	i, err := os.Stat(l.paths[0])
	if err != nil || i.Mode().Perm() != 0o600 {
		t.Errorf("mode of the socket: %v, %v", i.Mode(), err)
	}
	long := filepath.Join("/tmp", strings.Repeat("x", attach.MaxPath))
	var p *server.PathError
	if _, err := server.Listen(l.nodes[0], server.Options{Path: long}); !errors.As(err, &p) || !strings.Contains(err.Error(), "XDG_RUNTIME_DIR") {
		t.Errorf("a long path: %v", err)
	}
	if _, err := attach.Dial(l.ctx, long, nil); err == nil || !strings.Contains(err.Error(), "XDG_RUNTIME_DIR") {
		t.Errorf("a client with a long path: %v", err)
	}
}

func TestClientsAreLimited(t *testing.T) {
	l := start(t, "n300", "")
	for range attach.MaxClients {
		l.dial(t, 0)
	}
	if _, err := attach.Dial(l.ctx, l.paths[0], l.topology); err == nil || !strings.Contains(err.Error(), "64 clients") {
		t.Errorf("one client too many: %v", err)
	}
}

// TestGarbage sends frames with random bytes in them. The server must close the connection or answer,
// and must serve others.
func TestGarbage(t *testing.T) {
	l := start(t, "n300", "")
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		conn, err := net.Dial("unix", l.paths[0])
		check(t, err)
		var b []byte
		if r.IntN(4) > 0 {
			b = attach.AppendHello(b)
		}
		for range r.IntN(20) {
			n := r.IntN(200)
			b = attach.AppendHead(b, attach.Kind(r.IntN(9)), r.Uint64N(8), n)
			for range n {
				b = append(b, byte(r.Uint32()>>r.IntN(32)))
			}
			if r.IntN(10) == 0 {
				b[r.IntN(len(b))] ^= 1 << r.IntN(8)
			}
		}
		_, _ = conn.Write(b) // the server may have closed the connection
		check(t, conn.(*net.UnixConn).CloseWrite())
		_, _ = io.Copy(io.Discard, conn) // ends when the server closes the connection
		conn.Close()
	}
	s := session.New(l.dial(t, 0))
	check(t, s.InlineWrite(l.ctx, l.nodes[0].Self(), tile(0), 1))
	l.eventually(t, "the end of all other clients", func() bool { return l.servers[0].Clients() == 1 })
}

// TestAClientThatDoesNotRead sends reads of whole blocks and takes no answer. The server must stop
// reading, and must serve others.
func TestAClientThatDoesNotRead(t *testing.T) {
	l := start(t, "n300", "")
	conn, err := net.Dial("unix", l.paths[0])
	check(t, err)
	defer conn.Close()
	b := attach.AppendHello(nil)
	for i := range 10000 {
		b = attach.AppendCommand(b, uint64(i), &flow.Request{Dst: l.nodes[0].Self(), Command: wire.Command{Type: wire.NocRead, Addr: wire.NewNocAddr(0, 0, 0)}}, attach.MaxBlock)
	}
	check(t, conn.SetWriteDeadline(time.Now().Add(300*time.Millisecond)))
	if n, err := conn.Write(b); err == nil {
		t.Errorf("the server took %d bytes of requests without an answer", n)
	}
	check(t, session.New(l.dial(t, 0)).InlineWrite(l.ctx, l.nodes[0].Self(), tile(0), 1))
}

func TestCloseEndsTheRequests(t *testing.T) {
	l := start(t, "n300", "")
	c := l.dial(t, 0)
	ended := make(chan error, 1)
	go func() {
		_, err := c.Await(l.ctx, tile(0), session.Equal, 1)
		ended <- err
	}()
	l.eventually(t, "a client", func() bool { return l.servers[0].Clients() == 1 })
	check(t, l.servers[0].Close())
	if err := <-ended; err == nil {
		t.Error("a wait ended well although the server was closed")
	}
	var unknown *session.OutcomeUnknownError
	if err := session.New(c).InlineWrite(l.ctx, c.Self(), tile(0), 1); err == nil || errors.As(err, &unknown) {
		t.Errorf("a write on a connection that has ended: %v; want an error that says that it was not started", err)
	}
}

// TestRecordingsHoldTheCommands replays the recording of a chip with a client.
func TestRecordingsHoldTheCommands(t *testing.T) {
	dir := t.TempDir()
	l := start(t, "n300", dir)
	s, self := session.New(l.dial(t, 0)), l.nodes[0].Self()
	got := make([]byte, 9000)
	check(t, s.Write(l.ctx, self, tile(0), make([]byte, 9000)), s.AtomicInc(l.ctx, self, tile(8), 1, true), s.Read(l.ctx, self, tile(0), got), s.Read(l.ctx, l.nodes[1].Self(), tile(0), got))
	check(t, l.nodes[0].Close())
	files, _ := filepath.Glob(filepath.Join(dir, "chip-"+self.String()+"-*"))
	if len(files) != 1 {
		t.Fatal(files)
	}
	b, err := os.ReadFile(files[0])
	check(t, err)
	r, err := record.NewReader(bytes.NewReader(b))
	check(t, err)
	local := 0
	_, err = record.Replay(r, record.Options{})
	check(t, err)
	r, err = record.NewReader(bytes.NewReader(b))
	check(t, err)
	for {
		rec, err := r.Next()
		if err != nil {
			break
		}
		if rec.Kind == record.Kind(2) && rec.Request.Dst == self { // HandleRequest
			local++
		}
	}
	if local < 7 { // three packets of the write, one increment, three packets of the read
		t.Errorf("the recording has %d commands to the chip itself, want at least 7", local)
	}
}
