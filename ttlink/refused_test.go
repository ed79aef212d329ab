package ttlink

import (
	"testing"
	"time"

	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// until runs the timers of a link until an instant, and drops what the link sends.
func until(l *Link, end mono.Time) {
	for at, ok := l.Deadline(); ok && !at.After(end); at, ok = l.Deadline() {
		l.Tick(at)
		frames(l, at)
	}
}

// TestRefused refuses a datagram of a link that is up. The link must ask the peer at once. Without a
// frame of the peer, the link must go down after refusedMin, long before DeadIdle.
func TestRefused(t *testing.T) {
	w := upWorld(t, 1, func(_ int, c *Config) { c.Profile = ProfilePaced })
	p := &pair{w.ends[0].link, w.ends[1].link, w.now}
	l := p.a
	frames(l, p.now)
	l.Refused(p.now)
	if fs := frames(l, p.now); len(fs) != 1 || fs[0].Kind != wire.KindUpdate {
		t.Errorf("after a refusal the link sends %+v, want one frame that asks the peer", fs)
	}
	until(l, p.now.Add(refusedMin-1))
	if l.state != StateUp {
		t.Fatal("the link is down before refusedMin")
	}
	until(l, p.now.Add(refusedMin))
	if l.state != StateTraining {
		t.Errorf("the link is %s %v after a refusal", l.state, refusedMin)
	}
}

// TestRefusedByAForger refuses a datagram although the peer lives. The peer answers, and the link must
// stay up, however often a datagram is refused.
func TestRefusedByAForger(t *testing.T) {
	w := upWorld(t, 1, func(_ int, c *Config) { c.Profile = ProfilePaced })
	p := &pair{w.ends[0].link, w.ends[1].link, w.now}
	now := p.now
	for range 100 {
		p.a.Refused(now)
		for _, f := range frames(p.a, now) {
			give(p.b, now, f)
		}
		now = now.Add(50 * time.Microsecond)
		p.b.Tick(now)
		for _, f := range frames(p.b, now) {
			give(p.a, now, f)
		}
		if p.a.refused() {
			t.Fatal("the peer has answered, but the link takes it for dead")
		}
		now = now.Add(10 * time.Millisecond)
		p.a.Tick(now)
		p.b.Tick(now)
	}
	if p.a.state != StateUp {
		t.Errorf("the link is %s", p.a.state)
	}
}
