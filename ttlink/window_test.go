package ttlink

import (
	"fmt"
	"slices"
	"testing"
)

// The test in this file searches all states of small models of go-back-N, with different sequence
// spaces, windows and channels. A model is safe under two conditions. The receiver never accepts an
// old frame as a new frame. The sender never accepts an old acknowledgement as a new
// acknowledgement.

// channelKind says what a channel may do with the messages under way.
type channelKind int

const (
	fifo      channelKind = iota // loses messages, and keeps their order
	repeater                     // loses messages, keeps their order, and may deliver each message several times in a row
	reorderer                    // loses, reorders and repeats all messages ever sent
)

// gbn is a state of a model. Numbers in a state do not wrap, but the receiver of a message sees
// only the number modulo m.
type gbn struct {
	base, next, expected int
	data, acks           []int // messages under way, the oldest first; for a reorderer, all messages ever sent
}

// key returns a string that differs for different states: all numbers, which are below 255, with
// 255 between the two channels.
func (s *gbn) key() string {
	b := []byte{byte(s.base), byte(s.next), byte(s.expected)}
	for _, x := range s.data {
		b = append(b, byte(x))
	}
	b = append(b, 255)
	for _, x := range s.acks {
		b = append(b, byte(x))
	}
	return string(b)
}

// gbnModel is a model of go-back-N with m sequence numbers, a window of w frames, and a total
// number of messages to send.
type gbnModel struct {
	m, w     int
	kind     channelKind
	messages int
	hold     int // largest number of messages under way in a channel that keeps their order
}

// put returns the channel ch with the message x added, if ch has room.
func (g *gbnModel) put(ch []int, x int) []int {
	if g.kind == reorderer {
		if slices.Contains(ch, x) {
			return ch
		}
		ch = append(slices.Clone(ch), x)
		slices.Sort(ch)
		return ch
	}
	if len(ch) == g.hold {
		return ch // the channel is full, and the message is lost
	}
	return append(slices.Clone(ch), x)
}

// take returns each message that a channel may deliver next, and the messages that then remain.
func (g *gbnModel) take(ch []int) (out []int, left [][]int) {
	if g.kind == reorderer {
		for _, x := range ch {
			out, left = append(out, x), append(left, ch)
		}
		return out, left
	}
	if len(ch) > 0 && g.kind == repeater {
		out, left = append(out, ch[0]), append(left, ch)
	}
	if len(ch) > 0 {
		out, left = append(out, ch[0]), append(left, slices.Clone(ch[1:]))
	}
	return out, left
}

// search visits all states. The results are the number of states and a description of the first
// unsafe step.
func (g *gbnModel) search() (states int, unsafe string) {
	start := gbn{}
	seen := map[string]bool{start.key(): true}
	queue := []gbn{start}
	for len(queue) > 0 && unsafe == "" {
		s := queue[0]
		queue = queue[1:]
		states++
		for _, n := range g.steps(&s, &unsafe) {
			if k := n.key(); !seen[k] {
				seen[k] = true
				queue = append(queue, n)
			}
		}
	}
	return states, unsafe
}

func (g *gbnModel) steps(s *gbn, unsafe *string) []gbn {
	var out []gbn
	if s.next-s.base < g.w && s.next < g.messages { // the sender sends a new frame
		n := *s
		n.next, n.data = s.next+1, g.put(s.data, s.next)
		out = append(out, n)
	}
	for x := s.base; x < s.next; x++ { // the sender sends an old frame again
		n := *s
		n.data = g.put(s.data, x)
		out = append(out, n)
	}
	frames, left := g.take(s.data)
	for i, x := range frames {
		lost := *s
		lost.data = left[i]
		n := lost
		if x%g.m == s.expected%g.m { // the receiver sees only the number modulo m
			if x != s.expected {
				*unsafe = fmt.Sprintf("the receiver accepts frame %d as frame %d", x, s.expected)
			}
			n.expected++
		}
		n.acks = g.put(s.acks, n.expected)
		out = append(out, lost, n)
	}
	acks, left := g.take(s.acks)
	for i, a := range acks {
		lost := *s
		lost.acks = left[i]
		n := lost
		if d := ((a-s.base)%g.m + g.m) % g.m; d >= 1 && d <= s.next-s.base {
			if n.base = s.base + d; n.base > s.expected {
				*unsafe = fmt.Sprintf("the sender takes acknowledgement %d for %d, but the receiver expects %d", a, n.base, s.expected)
			}
		}
		out = append(out, lost, n)
	}
	return out
}

func TestSequenceSpace(t *testing.T) {
	for _, c := range []struct {
		model gbnModel
		safe  bool
	}{
		// Over a channel that keeps the order, a window below m is safe, and a window of m is not
		// safe.
		{gbnModel{m: 2, w: 1, kind: fifo, messages: 6, hold: 4}, true},
		{gbnModel{m: 4, w: 3, kind: fifo, messages: 9, hold: 3}, true},
		{gbnModel{m: 8, w: 7, kind: fifo, messages: 9, hold: 2}, true},
		{gbnModel{m: 2, w: 2, kind: fifo, messages: 6, hold: 3}, false},
		{gbnModel{m: 4, w: 4, kind: fifo, messages: 9, hold: 3}, false},
		{gbnModel{m: 8, w: 8, kind: fifo, messages: 9, hold: 2}, false},
		// If a channel repeats messages but keeps the order, the same windows are safe.
		{gbnModel{m: 2, w: 1, kind: repeater, messages: 6, hold: 4}, true},
		{gbnModel{m: 4, w: 3, kind: repeater, messages: 9, hold: 3}, true},
		{gbnModel{m: 4, w: 4, kind: repeater, messages: 9, hold: 3}, false},
		// Over a channel that reorders and repeats messages, as UDP does, no sequence space that
		// wraps is safe.
		{gbnModel{m: 2, w: 1, kind: reorderer, messages: 6}, false},
		{gbnModel{m: 4, w: 1, kind: reorderer, messages: 8}, false},
		{gbnModel{m: 8, w: 1, kind: reorderer, messages: 12}, false},
		{gbnModel{m: 8, w: 7, kind: reorderer, messages: 12}, false},
		// A sequence space that does not wrap is safe.
		{gbnModel{m: 64, w: 3, kind: reorderer, messages: 6}, true},
	} {
		states, unsafe := c.model.search()
		if (unsafe == "") != c.safe {
			t.Errorf("%+v: safe: %v (%s), want %v", c.model, unsafe == "", unsafe, c.safe)
		}
		t.Logf("%+v: %d states, %s", c.model, states, unsafe)
	}
}
