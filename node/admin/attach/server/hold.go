package server

import (
	"encoding/binary"
	"errors"
	"syscall"
	"time"

	"ttfabric/node"
	"ttfabric/node/admin/attach"
)

// hold answers a driver that polls words, when one of the words has changed or the time is over.
func (c *client) hold(number uint64, body []byte) {
	h, err := attach.ParseHold(body)
	if err != nil {
		c.refuse(number, attach.CodeBad, err.Error())
		return
	}
	c.reserve(number)
	d := &held{c: c, number: number}
	c.source.Rest()
	end, err := c.s.n.StartHold(h.Words, d.end)
	switch {
	case errors.Is(err, node.ErrWaits):
		c.source.Wake()
		c.shut(number, func(b []byte) []byte { return attach.AppendError(b, number, attach.CodeFull, err.Error()) })
		return
	case err != nil:
		d.end(nil, err)
		return
	}
	d.limit(h.Most, func() {
		if now, open := end(); open {
			d.end(now, nil)
		}
	})
	c.reserved(number, func() bool {
		d.timer.Stop()
		_, open := end()
		c.source.Wake()
		return open
	})
}

// held is a hold under way.
type held struct {
	c      *client
	number uint64
	ended  bool        // the hold has its answer; guarded by c.mu
	timer  *time.Timer // ends the hold; nil: the hold ended before its timer began; guarded by c.mu
}

// limit calls f after the time d, unless the hold has ended before. A timer that still runs after the end of its
// hold would wake the chip once more.
func (d *held) limit(most time.Duration, f func()) {
	d.c.mu.Lock()
	defer d.c.mu.Unlock()
	if !d.ended {
		d.timer = time.AfterFunc(most, f)
	}
}

// end answers a hold with the values of the words, or with an error. The driver waits for this answer, so
// end writes the answer at once, and wakes the goroutine that writes answers only for the rest.
func (d *held) end(now []uint32, err error) {
	c, number := d.c, d.number
	c.mu.Lock()
	defer c.mu.Unlock()
	if d.ended = true; d.timer != nil {
		d.timer.Stop()
	}
	if delete(c.waits, number); c.failed {
		return
	}
	c.append(func(b []byte) []byte {
		if err != nil {
			return attach.AppendError(b, number, codeOf(err), err.Error())
		}
		b = attach.AppendHead(b, attach.KindHold+attach.Answer, number, 4*len(now))
		for _, v := range now {
			b = binary.LittleEndian.AppendUint32(b, v)
		}
		return b
	})
	if !c.writeSoon() {
		c.ring()
	}
	if c.source.Wake() && !c.reading {
		_ = c.conn.SetReadDeadline(past) // the connection may have ended
	}
}

// past is a deadline that makes the reading goroutine poll again: the driver's next request comes soon.
var past = time.Unix(1, 0)

// writeSoon writes the waiting answers, as far as the connection takes them without waiting. writeSoon returns
// false if answers are left. The caller holds the lock, and may hold the node's lock.
func (c *client) writeSoon() bool {
	if c.writing || c.reading || len(c.long) > 0 {
		return false
	}
	n := 0
	err := c.raw.Write(func(fd uintptr) bool {
		n, _ = syscall.Write(int(fd), c.out)
		return true
	})
	if err != nil || n <= 0 {
		return false
	}
	c.out = c.out[:copy(c.out, c.out[n:])]
	if c.bytes -= n; len(c.out) > 0 {
		return false
	}
	c.inFlight -= c.answered
	c.answered = 0
	c.room.Broadcast()
	return true
}
