package firmware

import (
	"slices"
	"time"

	"ttfabric/wire/mono"
)

// pace counts the requests that a tile accepted at one instant, and since the last store of its host.
type pace struct {
	at      mono.Time
	accepts int
}

// pause makes the tile look at its messages again after a time.
func (t *tile) pause(d time.Duration) {
	if at := t.m.now.Add(d); t.retry == 0 || at.Before(t.retry) {
		t.retry = at
	}
}

// expire handles the deadlines of the tile that have passed.
func (t *tile) expire() {
	now := t.m.now
	for _, r := range slices.Clone(t.open) {
		if !now.Before(r.until) {
			t.abandon(r, NoAnswer)
		}
	}
	if t.retry != 0 && !now.Before(t.retry) {
		t.retry = 0
	}
	for c := range numClasses {
		t.in[c].expire(t)
		t.out[c].expire(t)
	}
}

// deadline returns the tile's next deadline.
func (t *tile) deadline() mono.Time {
	at := mono.Never
	for _, r := range t.open {
		at = mono.Min(at, r.until)
	}
	if t.retry != 0 {
		at = mono.Min(at, t.retry)
	}
	for c := range numClasses {
		if l := t.in[c].list; len(l) > 0 {
			at = mono.Min(at, l[0].at.Add(AnswerTimeout))
		}
		o := &t.out[c]
		if o.again != 0 {
			at = mono.Min(at, o.again)
		}
		for i := range o.list {
			if x := &o.list[i]; !x.sent {
				at = mono.Min(at, x.at.Add(AnswerTimeout))
			}
		}
	}
	return at
}

// expire drops the messages that have waited for too long.
func (q *inQueue) expire(t *tile) {
	for len(q.list) > 0 && q.list[0].late(t.m.now) {
		t.counters.Lost++
		q.pop(t)
	}
}

// expire drops the messages that have waited for too long, and sends messages again that the other
// end has not acknowledged.
func (o *outQueue) expire(t *tile) {
	now := t.m.now
	for i := 0; i < len(o.list); {
		if x := &o.list[i]; !x.sent && x.late(now) {
			t.counters.Lost++
			o.remove(i)
			continue
		}
		i++
	}
	if o.again == 0 || now.Before(o.again) {
		return
	}
	if o.again = now.Add(ResendAfter); !t.m.cfg.Host.Up(t.ch) {
		return
	}
	o.again = 0
	for i := range o.list {
		if o.list[i].placed == allPlaced {
			t.counters.Resent++
		}
		o.list[i].placed = unplaced
	}
}
