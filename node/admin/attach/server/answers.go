package server

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"net"
	"time"

	"ttfabric/node"
	"ttfabric/node/admin/attach"
	"ttfabric/node/admin/barrier"
	"ttfabric/node/session"
)

// take waits until the client may have another request in flight. take returns false if the
// connection has ended.
func (c *client) take() bool {
	c.mu.Lock()
	for c.full() && !c.failed {
		c.mu.Unlock()
		c.start() // starts the waiting commands, whose answers will make room
		c.mu.Lock()
		c.reading = false
		c.mu.Unlock()
		ok := c.flush()
		c.mu.Lock()
		for ok && c.full() && !c.failed {
			c.room.Wait()
		}
		c.reading = true
	}
	defer c.mu.Unlock()
	c.inFlight++
	return !c.failed
}

// full reports whether the client has as many requests in flight, or as many bytes of answers, as it
// may have.
func (c *client) full() bool { return c.inFlight >= attach.MaxInFlight || c.bytes >= attach.MaxAnswers }

// promise notes that a read under way will have data. For the data of more than one packet, promise
// takes memory.
func (c *client) promise(o *op) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bytes += o.size
	if o.left == 1 {
		return
	}
	var b []byte
	if k := len(c.blocks); k > 0 {
		b, c.blocks = c.blocks[k-1], c.blocks[:k-1]
	}
	if cap(b) < o.size {
		b = make([]byte, 1<<bits.Len(uint(o.size-1))) // a power of 2, so that memory fits later reads of about the same length
	}
	o.data = b[:o.size]
}

// keep keeps the memory of a long read for later reads. The caller holds the lock.
func (c *client) keep(b []byte) {
	if len(c.blocks) < maxBlocks {
		c.blocks = append(c.blocks, b)
	}
}

// add appends an answer. The function f appends the answer to the bytes that it gets. The caller holds
// the lock.
func (c *client) add(f func(b []byte) []byte) {
	if c.failed {
		return
	}
	c.append(f)
	c.ring()
}

// append appends an answer, and wakes nobody. The caller holds the lock.
func (c *client) append(f func(b []byte) []byte) {
	before := len(c.out)
	c.out = f(c.out)
	c.bytes += len(c.out) - before
	c.answered++
}

// ring wakes the goroutine that writes answers, unless the reading goroutine writes them itself. The caller
// holds the lock.
func (c *client) ring() {
	if !c.reading {
		select {
		case c.wake <- struct{}{}:
		default:
		}
	}
}

// answer adds an answer to a request that is not a command.
func (c *client) answer(f func(b []byte) []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add(f)
}

// reply adds an answer with the given body.
func (c *client) reply(number uint64, k attach.Kind, body []byte) {
	c.answer(func(b []byte) []byte { return append(attach.AppendHead(b, k, number, len(body)), body...) })
}

// refuse adds an error.
func (c *client) refuse(number uint64, code attach.Code, text string) {
	c.answer(func(b []byte) []byte { return attach.AppendError(b, number, code, text) })
}

// flush writes the answers, unless another goroutine is writing the answers. flush returns false if
// the connection has ended.
func (c *client) flush() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.writing {
		return !c.failed
	}
	c.writing = true
	for len(c.out) > 0 && !c.failed {
		b, data, n := c.out, c.long, c.answered
		c.out, c.long, c.answered = c.spare[:0], c.spent[:0], 0
		c.mu.Unlock()
		err := c.conn.SetWriteDeadline(time.Now().Add(attach.WriteTimeout))
		if err == nil {
			err = c.write(b, data)
		}
		c.mu.Lock()
		c.spare, c.spent = b[:0], data[:0]
		c.bytes -= len(b)
		for _, d := range data {
			c.bytes -= len(d.data)
			c.keep(d.data)
		}
		c.inFlight -= n
		c.failed = c.failed || err != nil
		c.room.Broadcast()
	}
	c.writing = false
	if c.failed {
		c.conn.Close() // ends the reading goroutine
	}
	return !c.failed
}

// write writes answers, and the data of long reads at their places.
func (c *client) write(b []byte, data []long) error {
	if len(data) == 0 {
		_, err := c.conn.Write(b)
		return err
	}
	vec, from := c.vec[:0], 0
	for _, d := range data {
		vec = append(vec, b[from:d.at], d.data)
		from = d.at
	}
	if from < len(b) {
		vec = append(vec, b[from:])
	}
	rest := net.Buffers(vec)
	_, err := rest.WriteTo(c.conn)
	clear(vec)
	c.vec = vec[:0]
	return err
}

// writeLater writes the answers that come while the reading goroutine waits, until the connection
// ends.
func (c *client) writeLater() {
	for {
		select {
		case <-c.wake:
			c.flush()
		case <-c.ctx.Done():
			return
		}
	}
}

// open notes how to end a request that may take long. open returns false if the connection has
// ended, and the caller then ends the request itself.
func (c *client) open(number uint64, end func() bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waits == nil {
		return false
	}
	c.waits[number] = end
	return true
}

// shut answers a request that took long, and forgets the request. The caller does not hold the
// lock.
func (c *client) shut(number uint64, f func(b []byte) []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waits, number)
	c.add(f)
}

// wait performs a wait on a word.
func (c *client) wait(number uint64, body []byte) {
	w, err := attach.ParseWait(body)
	if err != nil {
		c.refuse(number, attach.CodeBad, err.Error())
		return
	}
	c.reserve(number)
	cancel, err := c.s.n.StartAwait(w.Addr, w.Test, w.Value, func(word uint32, err error) {
		c.shut(number, func(b []byte) []byte {
			if err != nil {
				return attach.AppendError(b, number, codeOf(err), err.Error())
			}
			b = attach.AppendHead(b, attach.KindWait+attach.Answer, number, 8)
			return append(binary.LittleEndian.AppendUint32(b, word), 0, 0, 0, 0)
		})
	})
	if err == nil {
		c.reserved(number, cancel)
		return
	}
	c.shut(number, func(b []byte) []byte {
		var refused *session.RefusedError
		switch {
		case errors.As(err, &refused):
			return attach.AppendError(b, number, attach.CodeRefused, err.Error())
		case errors.Is(err, node.ErrWaits):
			return attach.AppendError(b, number, attach.CodeFull, err.Error())
		}
		return attach.AppendError(b, number, codeOf(err), err.Error())
	})
}

// reserve notes a request that may take long, before the caller knows how to end the request.
func (c *client) reserve(number uint64) { c.open(number, func() bool { return false }) }

// reserved notes how to end a request that reserve has noted, unless the request has ended meanwhile.
func (c *client) reserved(number uint64, end func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.waits[number]; ok {
		c.waits[number] = end
	}
}

// cancelOne ends a request that may take long.
func (c *client) cancelOne(number uint64, body []byte) {
	if len(body) != 8 {
		c.refuse(number, attach.CodeBad, fmt.Sprintf("a cancel of %d bytes: want 8", len(body)))
		return
	}
	which := binary.LittleEndian.Uint64(body)
	c.mu.Lock()
	end := c.waits[which]
	c.mu.Unlock()
	if end != nil && end() {
		c.shut(which, func(b []byte) []byte {
			return attach.AppendError(b, which, attach.CodeCancelled, "the client cancelled the request")
		})
	}
	c.reply(number, attach.KindCancel+attach.Answer, nil)
}

// barrier makes the client wait for the other ranks.
func (c *client) barrier(number uint64, body []byte) {
	w, err := attach.ParseBarrier(body)
	if err != nil {
		c.refuse(number, attach.CodeBad, err.Error())
		return
	}
	key := fmt.Sprintf("%d/%d/%s", w.Rank, w.Ranks, w.Name)
	m := c.members[key]
	if m == nil {
		if len(c.members) >= barrier.MaxGroups {
			c.refuse(number, attach.CodeFull, fmt.Sprintf("this client has joined %d barriers, as many as it may", barrier.MaxGroups))
			return
		}
		if m, err = c.s.barriers.Join(w.Name, w.Rank, w.Ranks); err != nil {
			c.refuse(number, attach.CodeRefused, err.Error())
			return
		}
		c.members[key] = m
	}
	c.reserve(number)
	err = m.Enter(func(err error) {
		c.shut(number, func(b []byte) []byte {
			if err != nil {
				return attach.AppendError(b, number, attach.CodeLeft, err.Error())
			}
			return attach.AppendHead(b, attach.KindBarrier+attach.Answer, number, 0)
		})
	})
	if err != nil {
		c.shut(number, func(b []byte) []byte { return attach.AppendError(b, number, attach.CodeRefused, err.Error()) })
		return
	}
	c.reserved(number, m.Cancel)
}

// events sends the client an event frame for each event of the chip, until the client cancels.
func (c *client) events(number uint64) {
	stop := make(chan struct{})
	events, end := c.s.n.NewEvents()
	c.reply(number, attach.KindEvents+attach.Answer, nil)
	first := true
	ok := c.open(number, func() bool {
		was := first
		if first = false; was {
			close(stop)
		}
		return was
	})
	if !ok {
		end()
		return
	}
	c.s.ended.Go(func() {
		defer end()
		for {
			select {
			case e, open := <-events:
				if !open {
					return
				}
				if v, ok := node.SessionEvent(&e); ok {
					b, _ := json.Marshal(attach.NewEvent(&v))
					c.tell(number, b)
				}
			case <-stop:
				return
			case <-c.ctx.Done():
				return
			}
		}
	})
}

// claim claims a part of the chip, until the client cancels the request or the connection ends.
func (c *client) claim(number uint64, body []byte) {
	w, err := attach.ParseClaim(body)
	if err != nil {
		c.refuse(number, attach.CodeBad, err.Error())
		return
	}
	release, err := c.s.n.Claim(c.ctx, w.Name, w.Holder)
	switch {
	case errors.As(err, new(*session.HeldError)):
		c.refuse(number, attach.CodeHeld, err.Error())
		return
	case err != nil:
		c.refuse(number, attach.CodeFull, err.Error())
		return
	}
	c.reply(number, attach.KindClaim+attach.Answer, nil)
	if !c.open(number, func() bool { release(); return true }) {
		release()
	}
}

// maxEvents is the length of waiting answers, in bytes, above which the client misses events.
const maxEvents = 1 << 20

// tell adds an event frame, unless too many answers wait.
func (c *client) tell(number uint64, body []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.out) > maxEvents {
		return
	}
	c.add(func(b []byte) []byte {
		return append(attach.AppendHead(b, attach.KindEvent, number, len(body)), body...)
	})
	c.answered-- // an event answers no request
}
