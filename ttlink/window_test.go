package ttlink

import (
	"fmt"
	"slices"
	"testing"
)

// These tests search a small model of go-back-N through all its states, to
// see for which sequence spaces, windows and channels it is safe: that the
// receiver never takes an old frame for a new one, and the sender never an old
// acknowledgement. The link's own rules (32-bit numbers, windows far below)
// follow from the result.

// channelKind is what a channel may do.
type channelKind int

const (
	fifo      channelKind = iota // loses, keeps order
	repeater                     // the same, and delivers again what it has just delivered
	reorderer                    // loses, reorders and repeats anything ever sent
)

// gbn is a state. Numbers are absolute; only their residues are sent.
type gbn struct {
	base, next, expected int
	data, acks           []int // under way, oldest first; of a reorderer, all ever sent
}

// key tells states apart: their numbers, all below 255, with a mark between the channels.
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

// model is a sequence space of m numbers, a window of w, and messages in all.
type gbnModel struct {
	m, w     int
	kind     channelKind
	messages int
	hold     int // frames, and acknowledgements, that a channel that keeps order holds
}

// put adds x to a channel, if it has room.
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
		return ch // lost
	}
	return append(slices.Clone(ch), x)
}

// take lists what may come out of a channel, and what is left then.
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

// search visits all states. It returns how many there are, and the first unsafe step.
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
	if s.next-s.base < g.w && s.next < g.messages { // a new frame
		n := *s
		n.next, n.data = s.next+1, g.put(s.data, s.next)
		out = append(out, n)
	}
	for x := s.base; x < s.next; x++ { // an old one again
		n := *s
		n.data = g.put(s.data, x)
		out = append(out, n)
	}
	frames, left := g.take(s.data)
	for i, x := range frames {
		lost := *s
		lost.data = left[i]
		n := lost
		if x%g.m == s.expected%g.m { // all that the receiver sees
			if x != s.expected {
				*unsafe = fmt.Sprintf("frame %d is taken for %d", x, s.expected)
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
				*unsafe = fmt.Sprintf("an acknowledgement of %d is taken for %d, and the receiver is at %d", a, n.base, s.expected)
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
		// A window below the sequence space is safe over a channel that keeps order; one as large is not.
		{gbnModel{m: 2, w: 1, kind: fifo, messages: 6, hold: 4}, true},
		{gbnModel{m: 4, w: 3, kind: fifo, messages: 9, hold: 3}, true},
		{gbnModel{m: 8, w: 7, kind: fifo, messages: 9, hold: 2}, true},
		{gbnModel{m: 2, w: 2, kind: fifo, messages: 6, hold: 3}, false},
		{gbnModel{m: 4, w: 4, kind: fifo, messages: 9, hold: 3}, false},
		{gbnModel{m: 8, w: 8, kind: fifo, messages: 9, hold: 2}, false},
		// Repeating in order changes nothing.
		{gbnModel{m: 2, w: 1, kind: repeater, messages: 6, hold: 4}, true},
		{gbnModel{m: 4, w: 3, kind: repeater, messages: 9, hold: 3}, true},
		{gbnModel{m: 4, w: 4, kind: repeater, messages: 9, hold: 3}, false},
		// Over one that reorders and repeats, as UDP does, no sequence space is safe that comes round again…
		{gbnModel{m: 2, w: 1, kind: reorderer, messages: 6}, false},
		{gbnModel{m: 4, w: 1, kind: reorderer, messages: 8}, false},
		{gbnModel{m: 8, w: 1, kind: reorderer, messages: 12}, false},
		{gbnModel{m: 8, w: 7, kind: reorderer, messages: 12}, false},
		// …and any is that does not.
		{gbnModel{m: 64, w: 3, kind: reorderer, messages: 6}, true},
	} {
		states, unsafe := c.model.search()
		if (unsafe == "") != c.safe {
			t.Errorf("%+v: safe: %v (%s), want %v", c.model, unsafe == "", unsafe, c.safe)
		}
		t.Logf("%+v: %d states, %s", c.model, states, unsafe)
	}
}
