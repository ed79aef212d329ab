package node

import (
	"testing"
	"time"
)

// TestMeeting checks in virtual time when a node looks for its peers. The node looks at once, and
// then at growing intervals, which never exceed meetMax. The node stops when it has found all peers.
func TestMeeting(t *testing.T) {
	t.Parallel()
	begin := time.Unix(1000, 0)
	var m meeting
	if m.due(begin) {
		t.Error("a node looks that was not told to")
	}
	m.begin(begin)
	last, looks := begin, 0
	for now := begin; now.Before(begin.Add(10 * time.Second)); now = now.Add(time.Millisecond) {
		m.begin(now)
		if !m.due(now) {
			continue
		}
		looks++
		gap := now.Sub(last)
		if looks > 1 && (gap < meetMin || gap > meetMax+time.Millisecond || gap > now.Sub(begin)/5+meetMin) {
			t.Errorf("look %d comes %v after the start and %v after the look before", looks, now.Sub(begin), gap)
		}
		last = now
		m.looked(now, false)
	}
	if looks > 40 {
		t.Errorf("%d looks in 10 s", looks)
	}
	m.looked(last, true)
	if m.due(last.Add(time.Hour)) {
		t.Error("the node still looks for peers after it has found them all")
	}
}
