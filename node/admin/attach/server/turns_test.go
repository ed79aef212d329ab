package server_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ttfabric/node/admin/attach"
	"ttfabric/node/flow"
	"ttfabric/node/session"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// TestTurns lets many goroutines use one client. The goroutines read and write words, blocks and
// batches, cancel waits, and stop waiting. Each must get the answer to its own request.
func TestTurns(t *testing.T) {
	l := start(t, "n300", "")
	c := l.dial(t, 0)
	s, self, other := session.New(c), l.nodes[0].Self(), l.nodes[1].Self()
	const rounds = 60
	var wg sync.WaitGroup
	for g := range 6 {
		wg.Go(func() {
			for i := range rounds {
				words(t, l.ctx, s, []wire.FabricNodeID{self, other}[i%2], tile(uint64(64*g)), uint32(i))
				if i%8 == g {
					time.Sleep(time.Duration(g) * time.Millisecond) // the client may rest meanwhile
				}
			}
		})
	}
	for g := range 2 {
		wg.Go(func() {
			for i := range rounds / 4 {
				turnBlocks(t, l.ctx, s, self, wire.NewNocAddr(0, 0, 4<<20*uint64(g)), byte(i))
			}
		})
	}
	wg.Go(func() {
		for i := range rounds {
			turnBatch(t, l.ctx, c, self, uint32(i))
		}
	})
	wg.Go(func() {
		for range rounds {
			short, cancel := context.WithTimeout(l.ctx, time.Millisecond)
			if err := s.WaitWord(short, tile(1<<15), 1); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a wait that cannot end: %v", err)
			}
			cancel()
		}
	})
	wg.Go(func() {
		for i := range rounds {
			short, cancel := context.WithTimeout(l.ctx, time.Duration(i%8)*20*time.Microsecond)
			if err := s.InlineWrite(short, other, tile(1<<16), 1); err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a caller that stops waiting: %v", err)
			}
			cancel()
		}
	})
	wg.Wait()
	for i := range rounds { // alone, so that the caller has the turn
		words(t, l.ctx, s, self, tile(0), uint32(i))
	}
}

// words writes, adds and reads a word.
func words(t *testing.T, ctx context.Context, s *session.Session, dst wire.FabricNodeID, a wire.NocAddr, v uint32) {
	t.Helper()
	var b [4]byte
	if err := errors.Join(s.InlineWrite(ctx, dst, a, v), s.AtomicInc(ctx, dst, a, 5, true), s.Read(ctx, dst, a, b[:])); err != nil {
		t.Error(err)
	}
	if got := binary.LittleEndian.Uint32(b[:]); got != v+5 {
		t.Errorf("chip %s: the word at %s is %d, want %d", dst, a, got, v+5)
	}
}

// turnBlocks writes and reads more than one block.
func turnBlocks(t *testing.T, ctx context.Context, s *session.Session, dst wire.FabricNodeID, a wire.NocAddr, v byte) {
	t.Helper()
	out := bytes.Repeat([]byte{v, v + 1, v + 2}, attach.MaxBlock/3+100+int(v)*1000)
	in := make([]byte, len(out))
	if err := errors.Join(s.Write(ctx, dst, a, out), s.Read(ctx, dst, a, in)); err != nil || !bytes.Equal(in, out) {
		t.Errorf("%d bytes were read back as other bytes, or not: %v", len(out), err)
	}
}

// turnBatch performs a batch of writes and reads.
func turnBatch(t *testing.T, ctx context.Context, c *attach.Client, dst wire.FabricNodeID, v uint32) {
	t.Helper()
	const n = 64
	rs := make([]flow.Request, 2*n)
	for i := range n {
		a := tile(1<<17 + 4*uint64(i))
		rs[i] = flow.Request{Dst: dst, Token: uint64(i), Command: wire.Command{Type: wire.NocInlineWrite, Addr: a, Value: v + uint32(i)}}
		rs[n+i] = flow.Request{Dst: dst, Token: uint64(n + i), Command: wire.Command{Type: wire.NocRead, Addr: a, Size: 4}}
	}
	ends := make(chan flow.Result, len(rs))
	if k, err := c.Submit(ctx, rs, func(_ int, r flow.Result) { ends <- r }); err != nil || k != len(rs) {
		t.Error(k, err)
		return
	}
	for range rs {
		switch r := <-ends; {
		case r.Fate != flow.FateDone:
			t.Errorf("request %d ended as %s", r.Token, r.Fate)
		case r.Token >= n && binary.LittleEndian.Uint32(r.Data) != v+uint32(r.Token)-n:
			t.Errorf("read %d of a batch has the data of another", r.Token-n)
		}
	}
}

// TestTurnsEnd ends the connection while callers have the turn again and again. The client, the
// chip's socket, the chip, or a kill of the chip's process ends the connection. Each call must end,
// and calls after it must fail.
func TestTurnsEnd(t *testing.T) {
	for _, e := range []struct {
		name string
		end  func(c *attach.Client, l *live)
	}{
		{"client", func(c *attach.Client, _ *live) { c.Close() }},
		{"socket", func(_ *attach.Client, l *live) { l.servers[0].Close() }},
		{"chip", func(_ *attach.Client, l *live) { l.nodes[0].Close(); l.servers[0].Close() }},
	} {
		for _, callers := range []int{1, 5} {
			t.Run(fmt.Sprintf("%s, %d callers", e.name, callers), func(t *testing.T) {
				l := start(t, "n300", "")
				c := l.dial(t, 0)
				endTurns(t, l.ctx, c, l.nodes[0].Self(), callers, func() { e.end(c, l) })
			})
		}
	}
	t.Run("kill", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		dir, err := os.MkdirTemp("", "tt") // the killed process cannot remove its folder
		check(t, err)
		defer os.RemoveAll(dir)
		child := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestChipToKill$")
		child.Env = append(os.Environ(), killEnv+"=1", "TMPDIR="+dir)
		out, err := child.StdoutPipe()
		check(t, err)
		check(t, child.Start())
		defer func() { child.Process.Kill(); _ = child.Wait() }()
		line, err := bufio.NewReader(out).ReadString('\n')
		check(t, err)
		machine, err := topo.Named("n300")
		check(t, err)
		c, err := attach.Dial(ctx, strings.TrimSpace(line), machine)
		check(t, err)
		defer c.Close()
		endTurns(t, ctx, c, c.Self(), 1, func() { check(t, child.Process.Kill()) })
	})
}

// endTurns lets goroutines write words one at a time, calls "end" after some words, and checks that all
// goroutines end.
func endTurns(t *testing.T, ctx context.Context, c *attach.Client, dst wire.FabricNodeID, callers int, end func()) {
	t.Helper()
	s := session.New(c)
	var done atomic.Int64
	var wg sync.WaitGroup
	for g := range callers {
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := s.InlineWrite(ctx, dst, tile(uint64(4*g)), 1); err != nil {
					return
				}
				done.Add(1)
			}
		})
	}
	for done.Load() < 500 && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	end()
	wg.Wait()
	check(t, ctx.Err())
	if err := s.InlineWrite(ctx, dst, tile(0), 1); err == nil {
		t.Error("a write went well after the end of the connection")
	}
	if n, err := c.Submit(ctx, []flow.Request{{Dst: dst, Probe: true}}, func(int, flow.Result) {}); n != 0 || err == nil {
		t.Errorf("Submit after the end of the connection: %d, %v", n, err)
	}
	check(t, ctx.Err())
}

// killEnv is the variable of the process that TestTurnsEnd kills.
const killEnv = "TTFABRIC_TEST_CHIP_TO_KILL"

// TestChipToKill is the process that TestTurnsEnd kills: TestChipToKill prints the path of a chip's socket, and
// serves the socket until the kill.
func TestChipToKill(t *testing.T) {
	if os.Getenv(killEnv) == "" {
		t.Skip("this test is a part of TestTurnsEnd")
	}
	l := start(t, "n300", "")
	fmt.Println(l.paths[0])
	<-l.ctx.Done()
}
