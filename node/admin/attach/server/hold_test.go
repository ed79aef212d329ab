package server_test

import (
	"encoding/binary"
	"testing"
	"time"

	"ttfabric/node/admin/attach"
	"ttfabric/node/flow"
	"ttfabric/node/session"
	"ttfabric/wire"
)

// TestHolds polls words as a driver does. A hold ends when a word changes, or after its time. The client may
// send further requests meanwhile, and the chip performs these requests at once.
func TestHolds(t *testing.T) {
	l := start(t, "n300", "")
	x, s, self := l.lends(t, 0, 64), session.New(l.dial(t, 1)), l.nodes[0].Self() // the other program changes words from the other chip
	if h, _ := x.frame(); h.Kind != attach.KindLend+attach.Answer {
		t.Fatalf("the answer to a lend: %+v", h)
	}
	send := func(b []byte) {
		t.Helper()
		_, err := x.conn.Write(b)
		check(t, err)
	}
	answer := func(number uint64) []byte {
		t.Helper()
		h, body := x.frame()
		if h.Number != number {
			t.Fatalf("an answer to request %d, want one to %d: %x", h.Number, number, body)
		}
		return body
	}
	words := func(v ...uint32) (list []session.Word) {
		for i, w := range v {
			list = append(list, session.Word{At: tile(uint64(4 * i)), Value: w})
		}
		return list
	}
	holds := func(number uint64, want ...uint32) {
		t.Helper()
		body := answer(number)
		if len(body) != 4*len(want) {
			t.Fatalf("the answer %d has %d bytes, want %d", number, len(body), 4*len(want))
		}
		for i, w := range want {
			if v := binary.LittleEndian.Uint32(body[4*i:]); v != w {
				t.Errorf("answer %d: word %d is %d, want %d", number, i, v, w)
			}
		}
	}
	send(attach.AppendHold(nil, 20, &attach.Hold{Most: attach.MaxHoldTime, Words: words(0, 5)})) // word 1 differs already
	holds(20, 0, 0)
	send(attach.AppendHold(nil, 21, &attach.Hold{Most: time.Microsecond, Words: words(0, 0)})) // nothing changes
	holds(21, 0, 0)
	for i := uint32(1); i <= 50; i++ { // the word changes while the chip holds the answer, or just before or after
		write := attach.AppendCommand(nil, 23, &flow.Request{Dst: self, Command: wire.Command{Type: wire.NocInlineWrite, Addr: tile(64), Value: i}}, 0)
		send(append(attach.AppendHold(nil, 22, &attach.Hold{Most: attach.MaxHoldTime, Words: words(0, i-1)}), write...))
		check(t, s.InlineWrite(l.ctx, self, tile(4), i))
		held, wrote := 0, false
		for held != 2 {
			switch h, body := x.frame(); {
			case h.Number == 23 && h.Kind == attach.KindCommand+attach.Answer && body[0] == 0:
				wrote = true
			case h.Number == 22 && h.Kind == attach.KindHold+attach.Answer:
				if held = 1; binary.LittleEndian.Uint32(body[4:]) == i {
					held = 2
					break
				}
				send(attach.AppendHold(nil, 22, &attach.Hold{Most: attach.MaxHoldTime, Words: words(0, i-1)})) // the time was over
			default:
				t.Fatalf("frame %+v, %x", h, body)
			}
		}
		if !wrote {
			answer(23)
		}
	}
	if v := word(t, l.ctx, s, self, tile(64)); v != 50 {
		t.Errorf("the command behind a hold wrote %d, want 50", v)
	}
	for _, a := range []wire.NocAddr{tile(2), wire.NewNocAddr(0, 13, 0)} { // misaligned, and no tile
		send(attach.AppendHold(nil, 24, &attach.Hold{Most: time.Millisecond, Words: []session.Word{{At: a}}}))
		if e, err := attach.ParseError(answer(24)); err != nil || e.Code != attach.CodeRefused {
			t.Errorf("a hold at %s: %v, %v", a, e, err)
		}
	}
	send(attach.AppendHold(nil, 25, &attach.Hold{Most: 2 * attach.MaxHoldTime, Words: words(0)}))
	if e, err := attach.ParseError(answer(25)); err != nil || e.Code != attach.CodeBad {
		t.Errorf("a hold of %v: %v, %v", 2*attach.MaxHoldTime, e, err)
	}
}
