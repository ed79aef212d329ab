package server

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"ttfabric/node"
	"ttfabric/node/admin/attach"
	"ttfabric/node/firmware"
	"ttfabric/wire"
)

// shares are the files that the chip shares with hosts. A lock guards them, which is taken before the node's
// lock.
type shares struct {
	mu     sync.Mutex
	memory *memory // nil: no client has asked for host memory
}

// host is what a client uses as a host. The reading goroutine alone uses it.
type host struct {
	memory *memory // nil: the client has not asked for the file
	lent   *lent   // nil: the client lends no memory
}

// memory is the file of host memory. memory implements [node.Lender].
type memory struct {
	file    *os.File
	size    int64
	holders int // clients that have asked for the file
}

// Size returns the length of the file.
func (m *memory) Size() uint64 { return uint64(m.size) }

// Transfer reads or writes the file. The file's pages appear when they are first written. If the machine has
// no memory left, the transfer is refused.
func (m *memory) Transfer(t firmware.Transfer) (b []byte, o wire.Outcome, ended bool) {
	var err error
	if t.Write {
		_, err = m.file.WriteAt(t.Data, int64(t.Addr))
	} else {
		b = make([]byte, t.Len)
		_, err = m.file.ReadAt(b, int64(t.Addr))
	}
	if err != nil {
		return nil, wire.OutcomeNoMemory, true
	}
	return b, wire.OutcomeDone, true
}

var _, _ node.Lender = (*memory)(nil), (*lent)(nil)

// shareMemory answers with the file of host memory.
func (c *client) shareMemory(number uint64, body []byte) {
	if len(body) != 0 {
		c.refuse(number, attach.CodeBad, fmt.Sprintf("a memory request of %d bytes: want none", len(body)))
		return
	}
	x := &c.s.shares
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.memory == nil {
		m, err := c.s.newMemory()
		if err != nil {
			c.refuse(number, codeOf(err), err.Error())
			return
		}
		x.memory = m
	}
	if c.host.memory == nil {
		c.host.memory = x.memory
		x.memory.holders++
	}
	c.hand(number, attach.KindMemory+attach.Answer, x.memory.size, x.memory.file)
}

// newMemory makes the file of host memory, and lends the chip the file.
func (s *Server) newMemory() (*memory, error) {
	size := s.n.HostMemory()
	if size == 0 {
		return nil, errors.New("this chip makes no memory for hosts: the fabric was started with --host-memory 0")
	}
	f, err := newFile(fmt.Sprintf("ttfabric host memory of %s", s.n.Self()), size)
	if err != nil {
		return nil, err
	}
	m := &memory{file: f, size: size}
	if err := s.n.Lend(m); err != nil {
		f.Close()
		return nil, err
	}
	return m, nil
}

// lent is the memory of a client that performs the chip's transfers itself. lent implements [node.Lender].
type lent struct {
	c      *client
	number uint64 // number of the client's request
	size   uint64
}

// Size returns how many bytes the client lends.
func (l *lent) Size() uint64 { return l.size }

// Transfer sends the client a transfer.
func (l *lent) Transfer(t firmware.Transfer) ([]byte, wire.Outcome, bool) {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	l.c.add(func(b []byte) []byte { return attach.AppendTransfer(b, l.number, &t) })
	if !l.c.failed {
		l.c.answered-- // a transfer answers no request
	}
	return nil, 0, false
}

// lend lends the chip the client's memory.
func (c *client) lend(number uint64, body []byte) {
	n, err := attach.ParseLend(body)
	if err != nil {
		c.refuse(number, attach.CodeBad, err.Error())
		return
	}
	l := &lent{c, number, n}
	if err := c.s.n.Lend(l); err != nil {
		c.refuse(number, codeOf(err), err.Error())
		return
	}
	c.host.lent = l
	c.reply(number, attach.KindLend+attach.Answer, nil)
}

// moved tells the chip how a transfer of the client's memory ended. moved returns false if the connection
// must end.
func (c *client) moved(number uint64, body []byte) bool {
	m, err := attach.ParseMoved(body)
	if err == nil && c.host.lent == nil {
		err = errors.New("a client that lends no memory says how a transfer ended")
	}
	c.mu.Lock()
	if c.inFlight--; err != nil { // the frame has no answer
		c.inFlight++
	}
	c.mu.Unlock()
	if err != nil {
		c.refuse(0, attach.CodeBad, err.Error())
		return false
	}
	c.start() // the commands before this frame come first
	c.s.n.Transferred(c.host.lent, m.ID, m.Outcome(), slices.Clone(m.Data))
	return true
}

// endHost ends the client's use of host memory.
func (c *client) endHost() {
	if c.host.lent != nil {
		c.s.n.EndLend(c.host.lent)
	}
	x := &c.s.shares
	x.mu.Lock()
	defer x.mu.Unlock()
	if m := c.host.memory; m != nil {
		if m.holders--; m.holders == 0 {
			x.memory = nil
			c.s.n.EndLend(m)
			m.file.Close()
		}
	}
}

// hand answers a request with a number and a file descriptor.
func (c *client) hand(number uint64, k attach.Kind, n int64, f *os.File) {
	b := attach.AppendHead(nil, k, number, 8)
	b = binary.LittleEndian.AppendUint64(b, uint64(n))
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.writing && !c.failed {
		c.room.Wait() // the other goroutine writes
	}
	if c.failed {
		return
	}
	c.writing = true
	c.mu.Unlock()
	err := c.conn.SetWriteDeadline(time.Now().Add(attach.WriteTimeout))
	if err == nil {
		err = passFile(c.conn, b, f)
	}
	c.mu.Lock()
	c.writing, c.failed = false, c.failed || err != nil
	c.inFlight--
	c.room.Broadcast()
}
