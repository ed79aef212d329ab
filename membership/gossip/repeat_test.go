package gossip

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"net"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
)

// compound returns a compound message of memberlist.
func compound(msgs ...string) []byte {
	b := []byte{compoundMsg, byte(len(msgs))}
	for _, m := range msgs {
		b = binary.BigEndian.AppendUint16(b, uint16(len(m)))
	}
	for _, m := range msgs {
		b = append(b, m...)
	}
	return b
}

func summed(b []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{hasCrcMsg}, crc32.ChecksumIEEE(b)), b...)
}

func labelled(t testing.TB, label string, b []byte) []byte {
	t.Helper()
	out, err := memberlist.AddLabelHeaderToPacket(b, label)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestRepeats passes packets to the method strip, one after the other. strip must leave out
// announcements that it has passed before. After repeatTime, strip must pass a known announcement once
// more. strip must also remove a correct checksum of a compound packet. strip must change nothing
// else.
func TestRepeats(t *testing.T) {
	const a, b, c, dead, ping = "\x04alive a", "\x04alive b", "\x04alive c", "\x05dead a", "\x00ping"
	begin := time.Now()
	r := newRepeats("pool")
	wrong := summed(compound(a, c))
	wrong[2]++
	for i, s := range []struct {
		after    time.Duration
		in, want []byte
	}{
		{0, labelled(t, "pool", summed(compound(a, b, ping, dead))), labelled(t, "pool", compound(a, b, ping, dead))},
		{0, labelled(t, "pool", summed(compound(a, ping, b, dead, c))), labelled(t, "pool", compound(ping, dead, c))},
		{0, labelled(t, "pool", []byte(a)), nil},
		{0, labelled(t, "pool", summed([]byte(c))), nil},
		{0, labelled(t, "pool", compound(a, b, c)), nil},
		{0, labelled(t, "pool", []byte(dead)), labelled(t, "pool", []byte(dead))},
		{0, labelled(t, "other", []byte(a)), labelled(t, "other", []byte(a))}, // memberlist refuses the label
		{0, labelled(t, "pool", wrong), labelled(t, "pool", wrong)},           // memberlist refuses the checksum
		{0, labelled(t, "pool", compound(a, b)[:12]), labelled(t, "pool", compound(a, b)[:12])},
		{repeatTime, labelled(t, "pool", compound(a, a)), labelled(t, "pool", compound(a))},
	} {
		if got := r.strip(begin.Add(s.after), bytes.Clone(s.in)); !bytes.Equal(got, s.want) {
			t.Errorf("packet %d: %q, want %q", i, got, s.want)
		}
	}
}

// TestRepeatsAfterAFullQueue sets r.full, as the pool does when memberlist drops a message. After
// repeatAgain, strip must pass the announcement once more. Then strip must drop the announcement for
// repeatTime.
func TestRepeatsAfterAFullQueue(t *testing.T) {
	begin, a := time.Now(), []byte("\x04alive a")
	r := newRepeats("")
	for i, s := range []struct {
		after  time.Duration
		full   bool // the test sets r.full just before
		passes bool
	}{
		{0, false, true},
		{repeatAgain, false, false},
		{repeatAgain, true, true},
		{repeatAgain, true, false},
		{2 * repeatAgain, false, true},
		{2*repeatAgain + repeatTime - 1, false, false},
		{2*repeatAgain + repeatTime, false, true},
	} {
		if s.full {
			r.full.Store(true)
		}
		if got := r.strip(begin.Add(s.after), a) != nil; got != s.passes {
			t.Errorf("packet %d passes: %v, want %v", i, got, s.passes)
		}
	}
}

// TestFullQueue fills memberlist's queue of announcements, while memberlist waits for the pool. The
// pool must notice that memberlist drops messages.
func TestFullQueue(t *testing.T) {
	t.Parallel()
	sw := &swarm{t: t}
	p, other := sw.start(0, 1, "full"), sw.start(1, 1, "full")
	eventually(t, patience, "the chips see each other", func() bool { return p.seen() == 2 })
	conn, err := net.Dial("udp", p.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	p.mu.Lock() // memberlist's call of NotifyAlive waits for this lock
	defer p.mu.Unlock()
	m := other.cfg.Meta
	m.LinkVersion++
	other.UpdateMeta(m)
	n := 0
	eventually(t, patience, "the pool notices the full queue", func() bool {
		for range maxQueue / 64 {
			var msgs []string
			for range 64 {
				n++
				msgs = append(msgs, fmt.Sprintf("\x04announcement %d", n))
			}
			if _, err := conn.Write(labelled(t, "full", compound(msgs...))); err != nil {
				t.Fatal(err)
			}
		}
		return p.net.repeats.full.Load()
	})
}

// FuzzRepeats passes any packet twice to the method strip, which must not panic. The result of strip
// must never be longer than the packet.
func FuzzRepeats(f *testing.F) {
	f.Add(summed(compound("\x04a", "\x05b")))
	f.Add([]byte{compoundMsg, 255})
	f.Add([]byte{hasCrcMsg, 0, 0})
	f.Add([]byte("\x04a"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, now := newRepeats(""), time.Now()
		first := r.strip(now, b)
		if again := r.strip(now, b); len(again) > len(b) || len(first) > len(b) {
			t.Errorf("%d bytes became %d and %d", len(b), len(first), len(again))
		}
	})
}
