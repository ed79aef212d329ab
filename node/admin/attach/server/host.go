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
	"ttfabric/node/noc"
	"ttfabric/wire"
)

// shares are the files that the chip shares with hosts. The lock mu guards these files. Code that
// needs both locks takes mu before the node's lock.
type shares struct {
	mu     sync.Mutex
	memory *memory // nil: no client has asked for host memory
	tiles  map[wire.Channel]*sharedTile
}

// sharedTile is the file of the L1 of an ethernet tile.
type sharedTile struct {
	file    *os.File
	mem     []byte // the mapped file
	holders int    // clients that have asked for the file
}

// host holds what a client uses as a host. Only the goroutine that reads the client's frames uses the fields.
type host struct {
	memory *memory        // nil: the client has not asked for the file
	lent   *lent          // nil: the client lends no memory
	tiles  []wire.Channel // tiles whose files the client has asked for
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
	m, err := c.holdMemory()
	if err != nil {
		c.refuse(number, codeOf(err), err.Error())
		return
	}
	c.hand(number, attach.KindMemory+attach.Answer, m.size, m.file)
}

// holdMemory makes the client a holder of the file of host memory.
func (c *client) holdMemory() (*memory, error) {
	x := &c.s.shares
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.memory == nil {
		m, err := c.s.newMemory()
		if err != nil {
			return nil, err
		}
		x.memory = m
	}
	if c.host.memory == nil {
		c.host.memory = x.memory
		x.memory.holders++
	}
	return x.memory, nil
}

// newMemory makes the file of host memory. The chip then uses the file as its host memory.
func (s *Server) newMemory() (*memory, error) {
	size := s.n.HostMemory()
	if size == 0 {
		return nil, errors.New("this chip shares no memory with hosts: the fabric was started with --host-memory 0")
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

// shareTile answers with the file of the L1 of an ethernet tile.
func (c *client) shareTile(number uint64, body []byte) {
	x, y, err := attach.ParseTile(body)
	if err != nil {
		c.refuse(number, attach.CodeBad, err.Error())
		return
	}
	t, err := c.holdTile(x, y)
	if err != nil {
		c.refuse(number, codeOf(err), err.Error())
		return
	}
	c.hand(number, attach.KindTile+attach.Answer, int64(len(t.mem)), t.file)
}

// holdTile makes the client a holder of the file of the L1 of an ethernet tile.
func (c *client) holdTile(x, y uint8) (*sharedTile, error) {
	sh := &c.s.shares
	sh.mu.Lock()
	defer sh.mu.Unlock()
	ch, size, err := c.s.ethernetTile(x, y)
	if err == nil && sh.tiles[ch] == nil {
		err = c.s.mapTile(ch, size)
	}
	if err != nil {
		return nil, err
	}
	t := sh.tiles[ch]
	if !slices.Contains(c.host.tiles, ch) {
		c.host.tiles = append(c.host.tiles, ch)
		t.holders++
	}
	return t, nil
}

// ethernetTile returns the channel of the ethernet tile at a coordinate of NoC 0, and the length of its L1.
func (s *Server) ethernetTile(x, y uint8) (ch wire.Channel, size int64, err error) {
	m, err := noc.New(s.n.Topology().Arch, 0)
	if err != nil {
		return 0, 0, err
	}
	for _, t := range m.Tiles() {
		switch {
		case t.X == x && t.Y == y && t.Kind == noc.Ethernet:
			return ch, int64(t.Size), nil
		case t.X == x && t.Y == y:
			return 0, 0, fmt.Errorf("tile %d-%d is a tile of kind %s; a host can map ethernet tiles, and reaches other tiles by commands", x, y, t.Kind)
		case t.Kind == noc.Ethernet:
			ch++
		}
	}
	return 0, 0, fmt.Errorf("the chip has no tile %d-%d", x, y)
}

// mapTile makes the file of the L1 of an ethernet tile. The caller holds the lock of the shares.
func (s *Server) mapTile(ch wire.Channel, size int64) error {
	f, err := newFile(fmt.Sprintf("ttfabric L1 of E%d of %s", ch, s.n.Self()), size)
	if err != nil {
		return err
	}
	mem, err := mapFile(f, size)
	if err != nil {
		f.Close()
		return err
	}
	if err := s.n.MapTile(ch, mem); err != nil {
		_ = unmapFile(mem) // mapFile has mapped these bytes
		f.Close()
		return err
	}
	if s.shares.tiles == nil {
		s.shares.tiles = map[wire.Channel]*sharedTile{}
	}
	s.shares.tiles[ch] = &sharedTile{file: f, mem: mem}
	return nil
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

// lend makes the client's memory the host memory of the chip.
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
		err = errors.New("a frame of kind moved from a client that lends no memory")
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
	c.start() // starts the commands that came before this frame
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
	for _, ch := range c.host.tiles {
		t := x.tiles[ch]
		if t.holders--; t.holders == 0 {
			delete(x.tiles, ch)
			c.s.n.UnmapTile(ch)
			_ = unmapFile(t.mem) // mapFile has mapped these bytes
			t.file.Close()
		}
	}
}

// hand answers a request with the length n and a descriptor of the file f.
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
