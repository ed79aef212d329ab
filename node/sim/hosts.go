package sim

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"time"

	"ttfabric/node/firmware"
	"ttfabric/node/firmware/board"
	"ttfabric/node/flow"
	"ttfabric/node/noc"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Hosts use the queues of the base firmware (package firmware). A host has one ethernet tile of its
// chip, and reaches the tile by requests of the chip to itself, as a live host does. The rule
// "hosts" says:
//
//   - Each request of a host ends exactly once, within maxHost: with the right data, or with an
//     error.
//   - A chip performs each part of a write at most once, and exactly once if the write ended
//     without an error.
//   - A read returns bytes that the tile held while the read was open. The blocks of a request may
//     lie in host memory, which the chip uses.
//   - A request ends as unreachable only if a cable or a chip had a fault while the request was
//     open.
//   - The firmware refuses exactly the wrong requests.
//   - At rest, the counters of all queues balance, and no message is left.
//   - After the end of all faults, every host reaches every chip.

const (
	maxHost    = 3 * firmware.AnswerTimeout // longest time that a request of a host may be open
	hostBytes  = 4 << 10                    // size of a host's region on each chip, and of each buffer in host memory, in bytes
	hostToken  = 1 << 62                    // bit in the tokens of the hosts' requests to their own chips
	hostPause  = 12 * time.Millisecond      // longest pause of a host; one pause in a hundred is up to 50 times longer
	hostOffset = 1 << 16                    // offset of the first region in each tile
)

// hostTiles are the Tensix tiles of a Wormhole that hold the regions of hosts. Each host has one
// region on each chip. Only this host writes to these regions. The load does not use these tiles.
var hostTiles = [][2]uint8{{2, 3}, {3, 4}, {4, 5}, {6, 1}, {7, 2}, {8, 3}, {9, 4}, {1, 5}, {2, 7}, {3, 8}, {4, 10}, {6, 11}}

// HostReport says what the hosts of a run did.
type HostReport struct {
	Requests int // requests that ended
	Lost     int // of these: requests that ended as unreachable
	Refused  int // of these: requests that the firmware refused, because they were wrong
	Orphans  int // requests whose chip died first
	Packets  int // packets to host memory that ended
	Gone     int // of these: packets that ended because the host was slow
}

// hosts are all hosts of a run.
type hosts struct {
	s      *Sim
	rng    *rand.Rand
	list   []*host
	ops    []*hostOp // all requests; the request with the id k has the index k-1
	at     map[wire.FabricNodeID]board.Coord
	tokens uint64
	held   map[*life]map[int][]version // by incarnation and host: the contents that the host's region has had, oldest first
	proof  bool                        // the run is in its last part: the hosts make their last requests, without any fault in force
	lent   map[*life][]byte            // by incarnation: the host memory that the chip uses

	packets *hostPackets
}

// version is the content of a region from the time "at" on.
type version struct {
	at   mono.Time
	data *[hostBytes]byte
}

// host is a host at one ethernet tile.
type host struct {
	all    *hosts
	m      *machine
	number int
	ch     wire.Channel
	tile   [2]uint8
	life   *life
	open   []*hostOp // requests that have not ended, oldest first: one write, or reads
	drawn  int       // number of requests that the host has drawn
	made   uint32    // requests to the present incarnation
	errors uint32    // of these: requests that ended with an error
	todo   []int     // chips that the host must still reach in the last part of the run

	packets int   // packets under way
	cells   []int // chips to whose host memory the host must still send packets in the last part of the run
}

// hostOp is a request of a host.
type hostOp struct {
	id        uint32
	host      *host
	write     bool
	wrong     bool // the firmware must refuse the request
	dst       int
	entry     firmware.Entry
	off       int // offset in the host's region
	data      []byte
	n         int
	sent      mono.Time
	ended     bool
	failed    bool
	orphan    bool
	performed int // parts of a write that the chip has performed
	done      int // the parts that the chip has performed: bit k is part k
}

// parts returns the number of parts of the request.
func (o *hostOp) parts() int { return (o.n + firmware.BlockSize - 1) / firmware.BlockSize }

func newHosts(s *Sim, each int) *hosts {
	all := &hosts{s: s, rng: rand.New(rand.NewPCG(s.cfg.Seed, 0x686f7374)), at: board.Coords(s.cfg.Topology), held: map[*life]map[int][]version{}, lent: map[*life][]byte{}}
	all.packets = newHostPackets(all)
	for _, m := range s.machines {
		for _, ch := range all.rng.Perm(wire.MaxChannels)[:each] {
			x, y, _ := noc.EthernetTile(s.cfg.Topology.Arch, wire.Channel(ch))
			all.list = append(all.list, &host{all: all, m: m, number: len(all.list), ch: wire.Channel(ch), tile: [2]uint8{x, y}})
		}
	}
	return all
}

// begin starts the hosts.
func (all *hosts) begin() {
	for _, h := range all.list {
		all.s.after(startSpan+time.Duration(all.rng.Int64N(int64(startSpan))), h.step)
	}
}

// step lets a host look at its queues, and make requests.
func (h *host) step() {
	s := h.all.s
	if s.failure != nil {
		return
	}
	if h.m.chip != nil && h.m.stalled == 0 {
		if h.life != h.m.life {
			h.renew()
		}
		for h.look() {
		}
		if !s.healed || h.all.proof {
			h.ask()
			h.send()
		}
		s.run(h.m)
	}
	pause := time.Duration(h.all.rng.Int64N(int64(hostPause)))
	if h.all.rng.IntN(100) == 0 {
		pause *= 50
	}
	s.after(pause+time.Microsecond, h.step)
}

// renew makes the host begin anew with the present incarnation of its chip.
func (h *host) renew() {
	for _, o := range h.open {
		o.orphan = true
		h.all.s.report.Hosts.Orphans++
	}
	h.life, h.open, h.made, h.errors = h.m.life, nil, 0, 0
	h.packets = 0
	if s := h.all.s; h.all.lent[h.life] == nil {
		h.all.packets.lent[h.life] = s.now
		h.all.lent[h.life] = make([]byte, h.all.packets.size())
		h.m.chip.Lend(s.clock(h.m), uint64(len(h.all.lent[h.life])))
	}
}

// transfer performs the reads and writes of host memory that a chip has started. The chip learns
// the end of each transfer after a random time of up to a millisecond.
func (all *hosts) transfer(m *machine) {
	if all == nil || !m.chip.HasTransfer() {
		return
	}
	l, memory := m.life, all.lent[m.life]
	for t, ok := m.chip.PollTransfer(); ok; t, ok = m.chip.PollTransfer() {
		b := bytes.Clone(memory[t.Addr:][:t.Len])
		copy(memory[t.Addr:], t.Data)
		all.s.after(time.Duration(all.rng.Int64N(int64(time.Millisecond)))+all.packets.transfer(m, &t), func() {
			if m.life == l && m.chip != nil {
				m.chip.HandleTransfer(all.s.clock(m), t.ID, wire.OutcomeDone, b)
				all.s.run(m)
			}
		})
	}
}

// local makes the host's chip send a request to itself. If the chip does not take the request now,
// local returns false.
func (h *host) local(cmd wire.Command, payload []byte) ([]byte, bool) {
	s := h.all.s
	h.all.tokens++
	r := flow.Request{Token: hostToken | h.all.tokens, Dst: h.m.node, Command: cmd, Payload: payload}
	if h.m.chip.HandleRequest(s.clock(h.m), r) != flow.Accepted {
		return nil, false
	}
	for {
		res, ok := h.m.chip.PollResult()
		switch {
		case !ok:
			s.fail("hosts", "%s has no result of a request to itself", h.m.node)
			return nil, false
		case res.Token != r.Token:
			s.ended(h.m, res)
		case res.Fate != flow.FateDone:
			s.fail("hosts", "host %d cannot reach its tile: %s %s", h.number, res.Fate, res.Outcome)
			return nil, false
		default:
			return bytes.Clone(res.Data), true
		}
	}
}

func (h *host) read(off uint64, n int) ([]byte, bool) {
	return h.local(wire.Command{Type: wire.NocRead, Addr: wire.NewNocAddr(h.tile[0], h.tile[1], off), Size: uint16(n)}, nil)
}

func (h *host) store(off uint64, b []byte) bool {
	_, ok := h.local(wire.Command{Type: wire.NocUnicastWrite, Addr: wire.NewNocAddr(h.tile[0], h.tile[1], off)}, b)
	return ok
}

func wordAt(b []byte, off int) uint32 { return binary.LittleEndian.Uint32(b[off:]) }

// look checks whether the oldest request has ended. look returns false if the request is still
// open.
func (h *host) look() bool {
	if len(h.open) == 0 {
		return false
	}
	s, o := h.all.s, h.open[0]
	if d := s.now.Sub(o.sent); d > maxHost {
		s.fail("hosts", "request %d of host %d at E%d of %s is open for %v", o.id, h.number, h.ch, h.m.node, d)
		return false
	}
	sq, ok := h.read(firmware.SQ, firmware.Entries)
	if !ok {
		return false
	}
	errors := wordAt(sq, firmware.ErrorCounter)
	if o.write {
		if wordAt(sq, firmware.WrReqCounter) != wordAt(sq, firmware.WrRespCounter) || wordAt(sq, firmware.RdIdx) != wordAt(sq, firmware.WrIdx) {
			return false
		}
		o.failed = errors != h.errors
		h.end(o, o.failed && !o.wrong)
		return true
	}
	cq, ok := h.read(firmware.CQ, firmware.QueueSize)
	if !ok {
		return false
	}
	rd := wordAt(cq, firmware.RdIdx)
	at := firmware.Entries + int(rd%firmware.QueueLen)*firmware.EntrySize
	if rd == wordAt(cq, firmware.WrIdx) || wordAt(cq, at+12) == 0 {
		return false
	}
	e := firmware.ParseEntry(cq[at:])
	got := make([]byte, o.n)
	switch binary.LittleEndian.PutUint32(got, e.Data); {
	case o.entry.Flags&firmware.DataBlockDRAM != 0:
		copy(got, h.all.lent[h.life][o.entry.HostAddr:])
	case o.entry.Flags&firmware.DataBlock != 0:
		if got, ok = h.read(firmware.Buffers+uint64(rd%firmware.QueueLen)*firmware.BlockSize, o.n); !ok {
			return false
		}
	}
	var next [wire.RegisterLen]byte
	binary.LittleEndian.PutUint32(next[:], (rd+1)%(2*firmware.QueueLen))
	if !h.store(firmware.CQ+firmware.RdIdx, next[:]) {
		return false
	}
	want := firmware.RdData | o.entry.Flags&(firmware.DataBlock|firmware.DataBlockDRAM)
	o.failed = e.Flags != want
	switch e.Flags {
	case want:
		h.judge(o, got)
	case want | firmware.DataBlockUnavailable:
		if !o.wrong {
			s.fail("hosts", "request %d of host %d is refused", o.id, h.number)
		}
	case want | firmware.DestUnreachable:
	default:
		s.fail("hosts", "request %d of host %d ended with flags %#x", o.id, h.number, uint32(e.Flags))
	}
	h.end(o, e.Flags&firmware.DestUnreachable != 0)
	return true
}

// end notes the end of the oldest request.
func (h *host) end(o *hostOp, unreachable bool) {
	s := h.all.s
	h.open = h.open[1:]
	o.ended = true
	s.report.Hosts.Requests++
	s.note(uint64(o.id), uint64(h.number))
	switch {
	case o.wrong && !o.failed:
		s.fail("hosts", "request %d of host %d is wrong, and the firmware has performed it", o.id, h.number)
	case o.wrong && !unreachable:
		s.report.Hosts.Refused++
	case unreachable:
		s.report.Hosts.Lost++
		s.tracef("request %d of host %d at E%d of %s to %s is unreachable", o.id, h.number, h.ch, h.m.node, s.machines[o.dst].node)
		if o.dst == h.m.index || !s.troubledSince(o.sent) {
			s.fail("hosts", "request %d of host %d at E%d of %s to %s is unreachable, and nothing had a fault since %v", o.id, h.number, h.ch, h.m.node, s.machines[o.dst].node, o.sent)
		}
		if h.all.proof {
			s.fail("hosts", "host %d at E%d of %s does not reach %s without any fault in force", h.number, h.ch, h.m.node, s.machines[o.dst].node)
		}
	case o.write && !o.failed && o.performed != o.parts():
		s.fail("hosts", "write %d of host %d ended, and %d of %d parts were performed", o.id, h.number, o.performed, o.parts())
	}
	if o.failed {
		h.errors++
	}
}

// troubledSince reports whether any cable has had a fault since shortly before t.
func (s *Sim) troubledSince(t mono.Time) bool { return s.anyBad(&op{sent: t}) }

// ask makes new requests, if the host's open requests allow it.
func (h *host) ask() {
	r := h.all.rng
	for range 1 + r.IntN(firmware.QueueLen) {
		if len(h.open) >= firmware.QueueLen || len(h.open) > 0 && h.open[0].write {
			return
		}
		if h.all.proof && len(h.todo) == 0 || !h.push(h.draw(len(h.open) == 0)) {
			return
		}
	}
}

// draw draws a request.
func (h *host) draw(mayWrite bool) *hostOp {
	s, r := h.all.s, h.all.rng
	o := &hostOp{id: uint32(len(h.all.ops) + 1), host: h, dst: r.IntN(len(s.machines)), n: wire.RegisterLen, write: mayWrite && r.IntN(2) == 0}
	if h.all.proof {
		o.dst, h.todo = h.todo[0], h.todo[1:]
	}
	h.all.ops = append(h.all.ops, o)
	e := &o.entry
	if e.Flags = firmware.RdReq; o.write {
		e.Flags = firmware.WrReq
	}
	align := wire.RegisterLen
	switch r.IntN(4) {
	case 0:
		o.n, align = 4*(1+r.IntN(3*firmware.BlockSize/4)), 16
		e.Flags |= firmware.DataBlock | firmware.DataBlockDRAM
		e.HostAddr = uint32((h.number*firmware.QueueLen + h.drawn%firmware.QueueLen) * hostBytes)
	case 1:
		o.n, align = 4*(1+r.IntN(firmware.BlockSize/4)), 16
		e.Flags |= firmware.DataBlock
	}
	if h.drawn++; e.Flags&firmware.DataBlock != 0 {
		e.Data = uint32(o.n)
	}
	o.off = r.IntN((hostBytes-o.n)/align+1) * align
	if o.write {
		o.data = pattern(uint64(o.id), o.n)
		for at := 0; at < o.n; at += firmware.BlockSize { // each part says to which request it belongs
			binary.LittleEndian.PutUint32(o.data[at:], o.id)
		}
		if e.Flags&firmware.DataBlock == 0 {
			e.Data = o.id
		}
	}
	a := h.region(o.off)
	if r.IntN(20) == 0 && !h.all.proof {
		o.wrong, a = true, a.Add(1+r.IntN(3))
	}
	if r.IntN(3) == 0 {
		e.Flags |= firmware.Ordered
	}
	if r.IntN(3) == 0 { // the same tile, in coordinates of NoC 1
		e.Flags |= firmware.NocID
		a = wire.NewNocAddr(9-a.X(), 11-a.Y(), a.Offset())
	}
	pos := h.all.at[s.machines[o.dst].node]
	e.Target, e.RackXY = firmware.NewTarget(pos.X, pos.Y, a), uint16(pos.Rack)|uint16(pos.Shelf)<<8
	return o
}

// region returns the address of an offset in the host's region.
func (h *host) region(off int) wire.NocAddr {
	t := hostTiles[h.number%len(hostTiles)]
	return wire.NewNocAddr(t[0], t[1], uint64(hostOffset+h.number/len(hostTiles)*hostBytes+off))
}

// push pushes a request (BDMS, "Queues"). If the chip does not take the host's stores now, push
// forgets the request and returns false.
func (h *host) push(o *hostOp) bool {
	idx, ok := h.read(firmware.SQ+firmware.WrIdx, 4)
	if !ok {
		return h.undo(o)
	}
	wr := wordAt(idx, 0)
	slot := uint64(wr % firmware.QueueLen)
	if o.write && o.entry.Flags&firmware.DataBlockDRAM != 0 {
		copy(h.all.lent[h.life][o.entry.HostAddr:], o.data)
	} else if o.write && o.entry.Flags&firmware.DataBlock != 0 && !h.store(firmware.Buffers+slot*firmware.BlockSize, o.data) {
		return h.undo(o)
	}
	if !h.store(firmware.SQ+firmware.Entries+slot*firmware.EntrySize, o.entry.Append(nil)) {
		return h.undo(o)
	}
	var next [wire.RegisterLen]byte
	binary.LittleEndian.PutUint32(next[:], (wr+1)%(2*firmware.QueueLen))
	if !h.store(firmware.SQ+firmware.WrIdx, next[:]) {
		return h.undo(o)
	}
	h.made++
	o.sent = h.all.s.now
	h.open = append(h.open, o)
	return true
}

func (h *host) undo(o *hostOp) bool {
	h.all.ops = h.all.ops[:len(h.all.ops)-1]
	if h.all.proof {
		h.todo = append([]int{o.dst}, h.todo...)
	}
	return false
}

// prove lets every host reach every chip, without any fault in force.
func (all *hosts) prove() {
	if all == nil || all.s.failure != nil {
		return
	}
	all.proof = true
	for _, h := range all.list {
		h.todo, h.cells = all.rng.Perm(len(all.s.machines)), all.packets.rng.Perm(len(all.s.machines))
	}
	if s := all.s; !s.runUntil(s.now.Add(SettleTime), s.atRest) {
		s.fail("hosts", "%s", s.unrest())
	}
}
