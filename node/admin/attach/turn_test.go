package attach

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"path/filepath"
	"testing"
	"time"

	"ttfabric/node/flow"
	"ttfabric/node/session"
	"ttfabric/wire"
)

// turnPatience is the longest time that a test of this file waits for something.
const turnPatience = time.Minute

// peered returns a client whose peer answers each command with the pieces that the function "answer" returns.
// Between two pieces, the peer pauses, so that the client sees a part of a frame. After a nil piece, the peer
// closes the connection. The argument i counts the commands.
func peered(t *testing.T, answer func(i int, number uint64) [][]byte) (context.Context, *Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), turnPatience)
	t.Cleanup(cancel)
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		r := bufio.NewReader(conn)
		for i := -1; ; i++ {
			h, _, err := whole(r)
			if err != nil {
				return
			}
			if i < 0 {
				_, _ = conn.Write(AppendWelcome(nil, h.Number, &Hello{Frame: MaxFrame, InFlight: 4}))
				continue
			}
			for k, b := range answer(i, h.Number) {
				if b == nil {
					return
				}
				if k > 0 {
					time.Sleep(2 * time.Millisecond)
				}
				_, _ = conn.Write(b)
			}
		}
	}()
	c, err := Dial(ctx, path, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return ctx, c
}

// done returns an answer with the data of a read: the number of the request.
func done(number uint64) []byte {
	return AppendResult(nil, number, &flow.Result{Fate: flow.FateDone}, binary.LittleEndian.AppendUint64(nil, number))
}

var readWord = flow.Request{Command: wire.Command{Type: wire.NocRead, Size: 8}}

// TestACallerReadsItself performs requests one after the other, until a caller has read its answer in its own
// turn. Some answers come in pieces, and some come behind the answer to another request.
func TestACallerReadsItself(t *testing.T) {
	held := uint64(0) // a request that is answered before the next request
	ctx, c := peered(t, func(i int, number uint64) [][]byte {
		b := done(number)
		switch {
		case i%5 == 1:
			return [][]byte{b[:7], b[7 : HeadLen+3], b[HeadLen+3:]}
		case i%5 == 3:
			held = number
			return nil
		case held != 0:
			b = append(done(held), b...)
			held = 0
		}
		return [][]byte{b}
	})
	others := make(chan flow.Result, 1)
	for i := 0; i < 200 || c.in.calls < 50; i++ {
		if ctx.Err() != nil {
			t.Fatalf("only %d callers of %d had the turn", c.in.calls, i)
		}
		if i%5 == 3 {
			if n, err := c.Submit(ctx, []flow.Request{readWord}, func(_ int, r flow.Result) { others <- r }); n != 1 {
				t.Fatal(err)
			}
			continue
		}
		r, err := c.Perform(ctx, readWord)
		if err != nil || r.Fate != flow.FateDone || binary.LittleEndian.Uint64(r.Data) != uint64(i+1) {
			t.Fatalf("request %d: %+v, %v", i+1, r, err)
		}
		if i%5 == 4 {
			if r := <-others; binary.LittleEndian.Uint64(r.Data) != uint64(i) {
				t.Fatalf("request %d has the data % x", i, r.Data)
			}
		}
	}
}

// TestACallerThatLeaves has a chip that does not answer. A caller with a time limit must return, and the
// answer that comes later must not disturb later requests.
func TestACallerThatLeaves(t *testing.T) {
	silent := uint64(0)
	ctx, c := peered(t, func(i int, number uint64) [][]byte {
		switch {
		case i%10 == 8:
			silent = number
			return nil
		case silent != 0:
			late := silent
			silent = 0
			return [][]byte{done(late), done(number)}
		}
		return [][]byte{done(number)}
	})
	for i := range 100 {
		if i%10 != 8 {
			if r, err := c.Perform(ctx, readWord); err != nil || binary.LittleEndian.Uint64(r.Data) != uint64(i+1) {
				t.Fatalf("request %d: %+v, %v", i+1, r, err)
			}
			continue
		}
		short, cancel := context.WithTimeout(ctx, time.Millisecond)
		var unknown *session.OutcomeUnknownError
		if _, err := c.Perform(short, readWord); !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &unknown) {
			t.Fatalf("a caller with a time limit: %v", err)
		}
		cancel()
	}
}

// TestAConnectionThatEndsInAFrame ends the connection in the middle of an answer. The request is of unknown
// outcome, and the next request is not started.
func TestAConnectionThatEndsInAFrame(t *testing.T) {
	for _, at := range []int{0, 7, HeadLen, HeadLen + 9} {
		for last := range 20 {
			ctx, c := peered(t, func(i int, number uint64) [][]byte {
				if i == last {
					return [][]byte{done(number)[:at], nil}
				}
				return [][]byte{done(number)}
			})
			for i := range last + 1 {
				r, err := c.Perform(ctx, readWord)
				if err != nil || i < last && r.Fate != flow.FateDone || i == last && (r.Fate != flow.FateUnknown || r.Err == nil) {
					t.Fatalf("%d bytes of answer %d: request %d: %+v, %v", at, last, i, r, err)
				}
			}
			if _, err := c.Perform(ctx, readWord); err == nil {
				t.Error("a request was started after the end of the connection")
			}
			c.Close()
		}
	}
}

// TestARestEnds checks that a client without requests notices that the chip has closed the connection.
func TestARestEnds(t *testing.T) {
	ctx, c := peered(t, func(_ int, number uint64) [][]byte { return [][]byte{done(number), {}, nil} })
	if _, err := c.Perform(ctx, readWord); err != nil {
		t.Fatal(err)
	}
	select {
	case <-c.gone:
	case <-ctx.Done():
		t.Error("the client does not notice that the connection has ended")
	}
}
