package server_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"ttfabric/node/admin/attach"
	"ttfabric/node/chip"
	"ttfabric/node/chip/record"
	"ttfabric/node/firmware"
	"ttfabric/node/noc"
	"ttfabric/node/session"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// queues is a host that uses the queues of an ethernet tile, with reads and writes of a session.
type queues struct {
	t    *testing.T
	l    *live
	s    *session.Session
	self wire.FabricNodeID
	x, y uint8
}

func (l *live) queues(t *testing.T, i int, ch wire.Channel) *queues {
	x, y, _ := noc.EthernetTile(wire.Wormhole, ch)
	return &queues{t, l, session.New(l.dial(t, i)), l.nodes[i].Self(), x, y}
}

func (q *queues) word(off uint64) uint32 {
	q.t.Helper()
	return word(q.t, q.l.ctx, q.s, q.self, wire.NewNocAddr(q.x, q.y, off))
}

func (q *queues) store(off uint64, b []byte) {
	q.t.Helper()
	check(q.t, q.s.Write(q.l.ctx, q.self, wire.NewNocAddr(q.x, q.y, off), b))
}

// push pushes a request (BDMS, "Queues").
func (q *queues) push(e firmware.Entry) {
	q.t.Helper()
	wr := q.word(firmware.SQ + firmware.WrIdx)
	q.l.eventually(q.t, "room in the submission queue", func() bool { return (wr-q.word(firmware.SQ+firmware.RdIdx))&7 < firmware.QueueLen })
	q.store(firmware.SQ+firmware.Entries+uint64(wr%firmware.QueueLen)*firmware.EntrySize, e.Append(nil))
	q.store(firmware.SQ+firmware.WrIdx, binary.LittleEndian.AppendUint32(nil, (wr+1)&7))
}

// pop pops a completion.
func (q *queues) pop() firmware.Entry {
	q.t.Helper()
	rd := q.word(firmware.CQ + firmware.RdIdx)
	at := firmware.CQ + firmware.Entries + uint64(rd%firmware.QueueLen)*firmware.EntrySize
	q.l.eventually(q.t, "a completion", func() bool { return q.word(firmware.CQ+firmware.WrIdx) != rd && q.word(at+12) != 0 })
	var b [firmware.EntrySize]byte
	check(q.t, q.s.Read(q.l.ctx, q.self, wire.NewNocAddr(q.x, q.y, at), b[:]))
	q.store(firmware.CQ+firmware.RdIdx, binary.LittleEndian.AppendUint32(nil, (rd+1)&7))
	return firmware.ParseEntry(b[:])
}

// done waits until all requests have ended.
func (q *queues) done() {
	q.t.Helper()
	q.l.eventually(q.t, "the end of all requests", func() bool {
		var b [firmware.RdIdx + 4]byte
		check(q.t, q.s.Read(q.l.ctx, q.self, wire.NewNocAddr(q.x, q.y, firmware.SQ), b[:]))
		w := func(off int) uint32 { return binary.LittleEndian.Uint32(b[off:]) }
		return w(firmware.WrIdx) == w(firmware.RdIdx) && w(firmware.WrReqCounter) == w(firmware.WrRespCounter) && w(firmware.RdReqCounter) == w(firmware.RdRespCounter)
	})
}

// block returns a request for n bytes of DRAM of an n300's chip.
func block(f firmware.Flags, chip uint8, n int, addr uint32) firmware.Entry {
	return firmware.Entry{Target: firmware.NewTarget(chip, 0, wire.NewNocAddr(0, 0, 0x4000)), Data: uint32(n), HostAddr: addr, Flags: f | firmware.DataBlock | firmware.DataBlockDRAM}
}

func randomBytes(n int) []byte {
	r := rand.New(rand.NewPCG(5, uint64(n)))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// mapping connects a host to a chip, and maps the chip's host memory.
func (l *live) mapping(t *testing.T, i int) (*attach.Host, []byte) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("chips share memory on Linux only")
	}
	h, err := attach.DialHost(l.ctx, l.paths[i])
	check(t, err)
	t.Cleanup(func() { h.Close() })
	b, err := h.Memory()
	check(t, err)
	return h, b
}

// TestHostMemoryFile moves blocks of up to 1 MiB between a mapped file and both chips. The chip is recorded,
// and its recording replays without a host. The file goes with its last holder.
func TestHostMemoryFile(t *testing.T) {
	dir := t.TempDir()
	l := start(t, "n300", dir)
	q := l.queues(t, 0, 10)
	q.push(block(firmware.RdReq, 0, 64, 0))
	if e := q.pop(); e.Flags&firmware.DataBlockUnavailable == 0 {
		t.Errorf("before a host has attached: flags %#x", uint32(e.Flags))
	}
	h, mem := l.mapping(t, 0)
	other, same := l.mapping(t, 0)
	if len(mem) != 1<<30 || len(same) != len(mem) {
		t.Fatalf("host memory of %d and %d bytes", len(mem), len(same))
	}
	for i, n := range []int{4, 1028, 32 << 10, 1 << 20} {
		want, chip := randomBytes(n), uint8(i%2)
		copy(mem[1<<29:], want)
		q.push(block(firmware.WrReq, chip, n, 1<<29))
		q.done()
		q.push(block(firmware.RdReq, chip, n, 96))
		if e := q.pop(); e.Flags != firmware.RdData|firmware.DataBlock|firmware.DataBlockDRAM || !bytes.Equal(same[96:96+n], want) {
			t.Errorf("%d bytes of chip %d: flags %#x, or wrong bytes", n, chip, uint32(e.Flags))
		}
	}
	q.push(block(firmware.RdReq, 1, 64, 1<<30-32)) // beyond the end
	if e := q.pop(); e.Flags&firmware.DataBlockUnavailable == 0 {
		t.Errorf("beyond the end of the memory: flags %#x", uint32(e.Flags))
	}
	check(t, h.Close())
	copy(same[32:], "still there")
	q.push(block(firmware.WrReq, 0, 12, 32))
	q.done()
	q.push(block(firmware.RdReq, 0, 12, 64))
	if e := q.pop(); e.Flags&firmware.DataBlockUnavailable != 0 || string(same[64:75]) != "still there" {
		t.Errorf("after one of two hosts left: flags %#x, %q", uint32(e.Flags), same[64:75])
	}
	check(t, other.Close())
	l.eventually(t, "the end of host memory", func() bool {
		q.push(block(firmware.RdReq, 0, 64, 0))
		return q.pop().Flags&firmware.DataBlockUnavailable != 0
	})
	if _, fresh := l.mapping(t, 0); !bytes.Equal(fresh[:128], make([]byte, 128)) {
		t.Error("a new host found bytes of an earlier one")
	}
	file, err := l.nodes[0].EndRecording()
	check(t, err)
	replays(t, file)
}

// replays replays a recording.
func replays(t *testing.T, file string) {
	t.Helper()
	f, err := os.Open(file)
	check(t, err)
	defer f.Close()
	r, err := record.NewReader(f)
	check(t, err)
	if s, err := record.Replay(r, record.Options{Kernels: kernels}); err != nil || s.Cut != nil || s.End != record.EndStopped {
		t.Errorf("the replay of %s: %+v, %v", filepath.Base(file), s, err)
	}
}

// lends is a client that lends a chip its memory, and speaks the protocol by hand.
type lends struct {
	t    *testing.T
	conn net.Conn
	mem  []byte
}

func (l *live) lends(t *testing.T, i int, n int) *lends {
	t.Helper()
	conn, err := net.Dial("unix", l.paths[i])
	check(t, err)
	t.Cleanup(func() { conn.Close() })
	x := &lends{t, conn, make([]byte, n)}
	_, err = conn.Write(attach.AppendLend(attach.AppendHello(nil), 7, uint64(n)))
	check(t, err)
	x.frame()
	return x
}

// frame reads one frame.
func (x *lends) frame() (attach.Head, []byte) {
	x.t.Helper()
	check(x.t, x.conn.SetReadDeadline(time.Now().Add(patience)))
	var b [attach.HeadLen]byte
	_, err := io.ReadFull(x.conn, b[:])
	check(x.t, err)
	h, err := attach.ParseHead(b[:])
	check(x.t, err)
	body := make([]byte, h.Len-attach.HeadLen)
	_, err = io.ReadFull(x.conn, body)
	check(x.t, err)
	return h, body
}

// transfer waits for a transfer.
func (x *lends) transfer() firmware.Transfer {
	x.t.Helper()
	h, body := x.frame()
	p, err := attach.ParseTransfer(body)
	if err != nil || h.Kind != attach.KindTransfer || h.Number != 7 {
		x.t.Fatalf("frame %+v, %v", h, err)
	}
	return p
}

// perform performs a transfer.
func (x *lends) perform(p firmware.Transfer) {
	x.t.Helper()
	m := attach.Moved{ID: p.ID}
	if p.Write {
		copy(x.mem[p.Addr:], p.Data)
	} else {
		m.Data = x.mem[p.Addr:][:p.Len]
	}
	_, err := x.conn.Write(attach.AppendMoved(nil, 0, &m))
	check(x.t, err)
}

// TestLentMemory moves a block between a client's own memory and the other chip. Flags change only
// after the client has acknowledged the last write. A client that refuses transfers, and a client
// that leaves in the middle, make the requests end with an error.
func TestLentMemory(t *testing.T) {
	l := start(t, "n300", "")
	q, x := l.queues(t, 0, 10), l.lends(t, 0, 1<<20)
	if h, body := x.frame(); h.Kind != attach.KindLend+attach.Answer || h.Number != 7 || len(body) != 0 {
		t.Fatalf("the answer to a lend: %+v, %x", h, body)
	}
	const n = 100 << 10
	copy(x.mem, randomBytes(n))
	q.push(block(firmware.WrReq, 1, n, 0))
	for moved := 0; moved < n; {
		p := x.transfer()
		x.perform(p)
		moved += p.Len
	}
	q.done()
	q.push(block(firmware.RdReq, 1, n, 512<<10))
	for moved := 0; moved < n; {
		if v := q.word(firmware.CQ + firmware.Entries + 12); v != 0 {
			t.Fatalf("%d of %d bytes are acknowledged, and the flags are %#x", moved, n, v)
		}
		p := x.transfer()
		moved += len(p.Data)
		x.perform(p)
	}
	if e := q.pop(); e.Flags != firmware.RdData|firmware.DataBlock|firmware.DataBlockDRAM || !bytes.Equal(x.mem[512<<10:][:n], x.mem[:n]) {
		t.Errorf("flags %#x, or wrong bytes", uint32(e.Flags))
	}

	h, err := attach.DialHost(l.ctx, l.paths[0])
	check(t, err)
	defer h.Close()
	var refused *attach.Error
	if _, err := h.Memory(); !errors.As(err, &refused) || refused.Code != attach.CodeRefused || !strings.Contains(err.Error(), "another host") {
		t.Errorf("a second memory: %v", err)
	}
	q.push(block(firmware.RdReq, 0, 64, 0))
	p := x.transfer()
	_, err = x.conn.Write(attach.AppendMoved(nil, 0, &attach.Moved{ID: p.ID, Refused: true}))
	check(t, err)
	if e := q.pop(); e.Flags&firmware.DataBlockUnavailable == 0 {
		t.Errorf("the client refused, and the flags are %#x", uint32(e.Flags))
	}
	q.push(block(firmware.RdReq, 1, n, 0))
	q.push(block(firmware.WrReq, 1, n, 0))
	x.transfer()
	x.conn.Close()
	if e := q.pop(); e.Flags&firmware.DataBlockUnavailable == 0 {
		t.Errorf("the client left, and the flags are %#x", uint32(e.Flags))
	}
	q.done()
	var tile firmware.Tile
	l.nodes[0].WithChip(func(_ mono.Time, c *chip.Chip) { tile = c.HostQueues()[10] })
	if tile.Open != 0 || tile.SQ.Errors != 3 {
		t.Errorf("%+v", tile)
	}
	l.eventually(t, "a new host's memory", func() bool { _, err := h.Memory(); return err == nil })
}

// TestBadHosts sends frames of host memory that the chip must refuse.
func TestBadHosts(t *testing.T) {
	l := start(t, "n300", "")
	for _, c := range []struct {
		frame []byte
		want  string
		ends  bool
	}{
		{attach.AppendLend(nil, 1, 0), "lend request for 0 bytes", false}, {attach.AppendLend(nil, 1, 1<<33), "want 32 to 4294967296", false},
		{append(attach.AppendHead(nil, attach.KindMemory, 1, 1), 0), "want none", false},
		{attach.AppendMoved(nil, 1, &attach.Moved{ID: 5}), "lends no memory", true},
		{append(attach.AppendHead(nil, attach.KindMoved, 1, 3), 1, 2, 3), "want a number", true},
	} {
		conn, err := net.Dial("unix", l.paths[0])
		check(t, err)
		x := &lends{t: t, conn: conn}
		_, err = conn.Write(append(attach.AppendHello(nil), c.frame...))
		check(t, err)
		x.frame()
		h, body := x.frame()
		e, err := attach.ParseError(body)
		if err != nil || h.Kind != attach.KindError || e.Code != attach.CodeBad || !strings.Contains(e.Text, c.want) || c.ends != (h.Number == 0) {
			t.Errorf("frame %x: %+v, %+v", c.frame, h, e)
		}
		if c.ends {
			if _, err := conn.Read(make([]byte, 1)); err != io.EOF {
				t.Errorf("frame %x: the connection goes on: %v", c.frame, err)
			}
		}
		conn.Close()
	}
}

// TestMappedTile stores words on both sides of a mapped L1, and blocks by the queues. Two programs map the
// same L1. Other tiles are refused by name.
func TestMappedTile(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("chips share memory on Linux only")
	}
	l := start(t, "n300", "")
	var hosts [2]*attach.Host
	var l1 [2][]byte
	for i := range hosts {
		h, err := attach.DialHost(l.ctx, l.paths[0])
		check(t, err)
		l1[i], err = h.Tile(8, 6)
		check(t, err)
		hosts[i] = h
	}
	var err error
	load := func(i, off int) uint32 { return atomic.LoadUint32((*uint32)(unsafe.Pointer(&l1[i][off]))) }
	q := l.queues(t, 0, 10)
	const here, there = 0x20000, 0x23ffc // beside the queues
	q.store(here, []byte("of the chip "))
	if got := string(l1[0][here:][:12]); got != "of the chip " {
		t.Errorf("the map shows %q", got)
	}
	copy(l1[0][there:], "of a host, across a page")
	got := make([]byte, 24)
	l.eventually(t, "the host's bytes in the chip", func() bool {
		check(t, q.s.Read(l.ctx, q.self, wire.NewNocAddr(8, 6, there), got))
		return string(got) == "of a host, across a page"
	})
	if string(l1[1][there:][:24]) != "of a host, across a page" {
		t.Error("two maps of one tile differ")
	}
	beat := load(0, 0x1C)
	l.eventually(t, "a new heartbeat in the map", func() bool { return load(0, 0x1C) != beat })
	version := load(0, 0x210)
	atomic.StoreUint32((*uint32)(unsafe.Pointer(&l1[0][0x210])), version+1)
	l.eventually(t, "the firmware's version in the map, after a store of the host", func() bool { return load(0, 0x210) == version })

	q.push(firmware.Entry{Target: firmware.NewTarget(1, 0, wire.NewNocAddr(1, 1, 0x40)), Data: 1024, Flags: firmware.RdReq | firmware.DataBlock})
	if e := q.pop(); e.Flags != firmware.RdData|firmware.DataBlock {
		t.Errorf("a read through the other door: flags %#x", uint32(e.Flags))
	}
	l.eventually(t, "the indices in the map", func() bool {
		return load(1, firmware.SQ+firmware.RdIdx) == 1 && load(1, firmware.CQ+firmware.RdIdx) == 1 && load(1, firmware.CQ+firmware.WrIdx) == 1
	})
	check(t, hosts[1].Close())
	copy(l1[0][here:], "one map left")
	l.eventually(t, "the bytes of the last map", func() bool {
		check(t, q.s.Read(l.ctx, q.self, wire.NewNocAddr(8, 6, here), got[:12]))
		return string(got[:12]) == "one map left"
	})
	for _, c := range []struct {
		x, y uint8
		want string
	}{{1, 1, "tensix"}, {0, 0, "dram"}, {0, 3, "pcie"}, {12, 1, "no tile 12-1"}} {
		var e *attach.Error
		if _, err := hosts[0].Tile(c.x, c.y); !errors.As(err, &e) || e.Code != attach.CodeRefused || !strings.Contains(err.Error(), c.want) {
			t.Errorf("tile %d-%d: %v", c.x, c.y, err)
		}
	}
	for i := range 20 { // the last stores of a program that ends count
		at := 0x21000 + 4*i
		binary.LittleEndian.PutUint32(l1[0][at:], uint32(i+1))
		check(t, hosts[0].Close())
		l.eventually(t, "the last store", func() bool { return q.word(uint64(at)) == uint32(i+1) })
		hosts[0], err = attach.DialHost(l.ctx, l.paths[0])
		check(t, err)
		l1[0], err = hosts[0].Tile(8, 6)
		check(t, err)
	}
	check(t, hosts[0].Close())
	l.eventually(t, "the end of the map", func() bool {
		return l.nodes[0].MapTile(10, make([]byte, 256<<10)) == nil // the server has unmapped the tile
	})
}
