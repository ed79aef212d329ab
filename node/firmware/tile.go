package firmware

import (
	"encoding/binary"
	"fmt"
	"slices"

	"ttfabric/node/firmware/board"
	"ttfabric/node/noc"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// tile is the firmware of one ethernet tile.
type tile struct {
	m      *Machine
	ch     wire.Channel
	at     noc.Tile
	head   *request   // request at the head of the submission queue that the firmware has accepted
	open   []*request // accepted requests that have not ended, oldest first; head is one of them until it ends
	id     uint32     // id of the last request; each process of the chip begins with other ids
	answer []message  // answers to parts of the tile's own requests that wait for room for their transfer, or for the firmware of this tile to work
	lost   []message  // answers to requests whose fate is unknown, because a session of the cable ended; they wait for room
	in     [numClasses]inQueue
	out    [numClasses]outQueue
	ended  []transferEnd // transfers of the tile's requests that have ended, and that the tile has not handled yet
	windows
	rerouted bool      // other cables are in use, and the tile has not looked at its requests since
	owes     bool      // the tile has not sent the present numbers of messages to the other end of the cable
	told     bool      // the tile has sent its numbers in this session of the cable
	stuck    bool      // the host's indices are wrong, and the firmware has reported the wrong indices
	retry    mono.Time // end of a pause; 0: none
	pace     pace
	counters tileCounters
}

// request is an accepted request of a tile's host.
type request struct {
	id     uint32
	entry  Entry
	target wire.FabricNodeID
	from   uint32 // slot in the submission queue
	into   uint32 // of a read: slot in the completion queue
	parts  uint32 // parts of at most [BlockSize] bytes
	next   uint32 // next part to send off
	open   []uint32
	reason Reason
	until  mono.Time // the request ends if nothing moves until then

	// Of a write from host memory:
	data    []byte // bytes that a transfer pulled, of part next and the following
	more    []byte // bytes behind data that another transfer pulled
	moreWhy Reason // 0, or why no bytes come behind data
	asked   uint64 // bytes of the request that transfers have pulled or pull
	pulling int    // bytes that a transfer pulls now
}

// addr returns the address of an offset in the tile.
func (t *tile) addr(off uint64) wire.NocAddr { return wire.NewNocAddr(t.at.X, t.at.Y, off) }

// load reads L1 of the tile.
func (t *tile) load(off uint64, b []byte) { t.m.cfg.Memory.Read(t.addr(off), b) }

// store writes L1 of the tile. store returns false if the chip has no memory left.
func (t *tile) store(off uint64, b []byte) bool {
	return t.m.cfg.Memory.Execute(&wire.Command{Type: wire.NocUnicastWrite, Addr: t.addr(off)}, b) == wire.OutcomeDone
}

func (t *tile) word(off uint64) uint32 {
	var b [wire.RegisterLen]byte
	t.load(off, b[:])
	return binary.LittleEndian.Uint32(b[:])
}

func (t *tile) setWord(off uint64, v uint32) bool {
	var b [wire.RegisterLen]byte
	binary.LittleEndian.PutUint32(b[:], v)
	return t.store(off, b[:])
}

// count adds 1 to a counter of the submission queue.
func (t *tile) count(counter uint64) { t.setWord(SQ+counter, t.word(SQ+counter)+1) }

// request returns an open request, or nil.
func (t *tile) request(id uint32) *request {
	for _, r := range t.open {
		if r.id == id {
			return r
		}
	}
	return nil
}

// step lets the firmware of the tile work until nothing moves. step returns true if anything moved.
func (t *tile) step() (moved bool) {
	if t.rerouted {
		t.rerouted = false
		t.giveUp()
	}
	for ; len(t.ended) > 0; t.ended, moved = t.ended[1:], true {
		t.transferred(&t.ended[0])
	}
	for more := true; more; moved = moved || more {
		more = t.takeResponses()
		more = t.tellLost() || more
		more = t.takeRequests() || more
		more = t.consume() || more
		more = t.send() || more
	}
	return moved
}

// works reports whether the next step must look at the tile.
func (t *tile) works() bool {
	w := t.owes || t.rerouted || len(t.ended) > 0 || t.head != nil || len(t.answer)+len(t.lost) > 0
	for c := range numClasses {
		w = w || len(t.in[c].list) > 0 || t.out[c].unplaced()
	}
	return w
}

// consume accepts the next request of the submission queue, and sends the parts of the request.
func (t *tile) consume() (moved bool) {
	t.forgetOwn()
	for len(t.answer) > 0 {
		if !t.finish(&t.answer[0]) {
			return moved
		}
		t.answer, moved = t.answer[1:], true
	}
	if t.head == nil && !t.accept() {
		return moved
	}
	r := t.head
	for t.dispatch(r) {
		moved = true
	}
	if r.next < r.parts {
		return moved
	}
	t.head = nil
	t.setWord(SQ+RdIdx, (t.word(SQ+RdIdx)+1)&indexMask)
	t.endIfOver(r)
	return true
}

// accept accepts the next request of the submission queue, if there is one and the tile has room for it.
func (t *tile) accept() bool {
	wr, rd := t.word(SQ+WrIdx), t.word(SQ+RdIdx)
	n := (wr - rd) & indexMask
	if n > QueueLen {
		if !t.stuck {
			t.stuck = true
			t.tell(&Entry{}, BadIndex)
		}
		return false
	}
	t.stuck = false
	if n == 0 || len(t.open) >= MaxOpen {
		return false
	}
	if t.pace.at != t.m.now {
		t.pace = pace{at: t.m.now}
	}
	if t.pace.accepts == MaxAccepts {
		t.pause(TransferPause)
		return false
	}
	var b [EntrySize]byte
	slot := rd % QueueLen
	t.load(SQ+Entries+uint64(slot)*EntrySize, b[:])
	e := ParseEntry(b[:])
	r := &request{entry: e, from: slot, parts: 1, until: t.m.now.Add(AnswerTimeout)}
	if e.Flags&RdReq != 0 && !t.reserve(r) {
		return false
	}
	t.id++
	t.pace.accepts++
	r.id = t.id
	t.counters.Accepted++
	t.counters.types[e.Flags.Type()].Accepted++
	switch {
	case e.Flags&RdReq != 0:
		t.count(RdReqCounter)
	case e.Flags&WrReq != 0:
		t.count(WrReqCounter)
	}
	k := t.m.learn()
	var known bool
	const most = 1<<chipBits - 1
	r.target, known = k.chips[board.Coord{X: uint8(e.Target >> chipXBit & most), Y: uint8(e.Target >> chipYBit & most), Rack: uint8(e.RackXY), Shelf: uint8(e.RackXY >> 8)}]
	if r.reason = k.kinds.check(&e); r.reason == 0 && !known {
		r.reason = NoWay
	}
	if e.Flags&DataBlockDRAM != 0 {
		r.parts = uint32((uint64(e.Data) + BlockSize - 1) / BlockSize)
	}
	if r.reason != 0 {
		r.parts = 0
	}
	t.head, t.open = r, append(t.open, r)
	return true
}

// reserve writes the next entry of the completion queue for a read, with flags 0. If the queue has
// no room, reserve returns false.
func (t *tile) reserve(r *request) bool {
	wr := t.word(CQ + WrIdx)
	if (wr-t.word(CQ+RdIdx))&indexMask >= QueueLen {
		return false
	}
	r.into = wr % QueueLen
	if slices.ContainsFunc(t.open, func(o *request) bool { return o.entry.Flags&RdReq != 0 && o.into == r.into }) {
		return false // the host popped an entry before the entry was filled
	}
	c := Entry{Target: r.entry.Target}
	if r.entry.Flags&DataBlockDRAM != 0 {
		c.HostAddr = r.entry.HostAddr
	}
	t.store(CQ+Entries+uint64(r.into)*EntrySize, c.Append(nil))
	t.setWord(CQ+WrIdx, (wr+1)&indexMask)
	return true
}

// dispatch sends the next part of a request, or performs the part if this chip is the target.
// dispatch returns false if no part is left, or the part must wait.
func (t *tile) dispatch(r *request) bool {
	if r.next >= r.parts || len(r.open) >= MaxParts || len(t.answer) > 0 || t.mustFollow(r) {
		return false
	}
	e, off := &r.entry, uint64(r.next)*BlockSize
	x := message{class: requests, origin: t.m.cfg.Self, originCh: t.ch, target: r.target, id: r.id, part: r.next, addr: e.addr(), flags: e.Flags, want: wire.RegisterLen}
	n := wire.RegisterLen
	if e.Flags&DataBlock != 0 {
		n = int(min(uint64(e.Data)-off, BlockSize))
		if x.want = uint16(n); e.Flags&Mod == 0 {
			x.addr = x.addr.Add(int(off))
		}
	}
	if x.write() {
		if x.want = 0; !t.fetch(r, &x, n) {
			return false
		}
	}
	if r.target == t.m.cfg.Self {
		why, data, ended := t.perform(&x, true)
		if !ended {
			return false
		}
		r.sent(t.m.now, n)
		if a := x.reply(why, data); !t.finish(&a) {
			t.answer = append(t.answer, a)
		}
		return true
	}
	switch t.pass(&x) {
	case passed:
		r.sent(t.m.now, n)
		return true
	case noWay:
		r.fail(NoWay)
		return true
	}
	return false
}

// fetch gets the n bytes of a part of a write. If a transfer must first read the bytes from host
// memory, fetch returns false.
func (t *tile) fetch(r *request, x *message, n int) bool {
	switch e := &r.entry; {
	case e.Flags&DataBlock == 0:
		x.data = binary.LittleEndian.AppendUint32(nil, e.Data)
	case e.Flags&DataBlockDRAM == 0:
		x.data = make([]byte, n)
		t.load(Buffers+uint64(r.from)*BlockSize, x.data)
	default:
		t.pull(r)
		if len(r.data) < n {
			return false
		}
		x.data = r.data[:n:n]
	}
	return true
}

// pull lets a transfer read further bytes of a write from host memory, while the parts before them
// leave. If a transfer is under way, or its bytes already wait in r.more, pull does nothing.
func (t *tile) pull(r *request) {
	e := &r.entry
	if r.pulling > 0 || len(r.more) > 0 || r.moreWhy != 0 || r.asked >= uint64(e.Data) {
		return
	}
	p := Transfer{Addr: uint64(e.HostAddr) + r.asked, Len: int(min(uint64(e.Data)-r.asked, PullAhead))}
	if !t.m.startTransfer(transfer{ch: t.ch, id: r.id, part: uint32(r.asked / BlockSize), pull: true}, p) {
		t.pause(TransferPause)
		return
	}
	r.pulling = p.Len
	r.asked += uint64(p.Len)
}

// transferred handles the end of a transfer.
func (t *tile) transferred(e *transferEnd) {
	if e.window != 0 {
		t.moved(e)
		return
	}
	r := t.request(e.id)
	switch {
	case r == nil:
	case e.pull:
		r.took(t.m.now, e.data, e.why)
	default:
		t.partEnded(r, e.part, e.why)
	}
}

// took takes the bytes that a transfer has read from host memory.
func (r *request) took(now mono.Time, data []byte, why Reason) {
	if why == 0 && len(data) != r.pulling {
		why = HostRefused
	}
	r.pulling, r.until = 0, now.Add(AnswerTimeout)
	if r.more = data; why != 0 {
		r.more, r.moreWhy = nil, why
	}
	r.advance()
}

// advance makes the bytes of the next transfer the bytes of the next parts, if no older bytes are left. If the
// next transfer has failed, the request ends early.
func (r *request) advance() {
	if len(r.data) > 0 {
		return
	}
	if r.data, r.more = r.more, nil; r.moreWhy != 0 {
		r.fail(r.moreWhy)
	}
}

// sent notes that the next part, of n bytes, is under way.
func (r *request) sent(now mono.Time, n int) {
	r.open = append(r.open, r.next)
	r.next++
	r.until = now.Add(AnswerTimeout)
	r.data = r.data[min(n, len(r.data)):]
	r.advance()
}

// fail ends the request early: no further parts leave.
func (r *request) fail(why Reason) {
	if r.reason == 0 {
		r.reason = why
	}
	r.parts, r.data, r.more = r.next, nil, nil
}

// finish takes the answer to a part of a request of the tile. If the answer needs a transfer, and
// there is no room for the transfer, finish returns false.
func (t *tile) finish(a *message) bool {
	r := t.request(a.id)
	if r == nil || !slices.Contains(r.open, a.part) {
		t.counters.Late++
		return true
	}
	e, why := &r.entry, a.reason
	if why == 0 && len(a.data) != r.wants(a.part) {
		why = BadTarget // no firmware sends this
	}
	switch {
	case why != 0 || e.Flags&RdReq == 0:
	case e.Flags&DataBlockDRAM != 0:
		if t.m.moves(t.ch, r.id, a.part) {
			t.counters.Late++ // the answer came twice, because a cable's session ended
			return true
		}
		w := Transfer{Write: true, Addr: uint64(e.HostAddr) + uint64(a.part)*BlockSize, Data: a.data}
		if !t.m.startTransfer(transfer{ch: t.ch, id: r.id, part: a.part}, w) {
			t.pause(TransferPause)
			return false
		}
		r.until = t.m.now.Add(AnswerTimeout)
		return true
	case e.Flags&DataBlock != 0:
		t.store(Buffers+uint64(r.into)*BlockSize, a.data)
	default:
		t.store(CQ+Entries+uint64(r.into)*EntrySize+8, a.data)
	}
	t.partEnded(r, a.part, why)
	return true
}

// wants returns the number of bytes that the answer to a part brings.
func (r *request) wants(part uint32) int {
	switch e := &r.entry; {
	case e.Flags&RdReq == 0:
		return 0
	case e.Flags&DataBlock == 0:
		return wire.RegisterLen
	default:
		return int(min(uint64(e.Data)-uint64(part)*BlockSize, BlockSize))
	}
}

// partEnded notes that a part of a request has ended.
func (t *tile) partEnded(r *request, part uint32, why Reason) {
	i := slices.Index(r.open, part)
	if i < 0 {
		return
	}
	r.open = slices.Delete(r.open, i, i+1)
	r.until = t.m.now.Add(AnswerTimeout)
	if why != 0 {
		r.fail(why)
	}
	t.endIfOver(r)
}

// endIfOver ends a request if none of its parts is left. endIfOver counts the request, and fills
// the completion entry. endIfOver writes the entry's flags last.
func (t *tile) endIfOver(r *request) {
	if t.head == r || r.next < r.parts || len(r.open) > 0 || !slices.Contains(t.open, r) {
		return
	}
	t.open = slices.DeleteFunc(t.open, func(o *request) bool { return o == r })
	e := &r.entry
	t.counters.types.ended(e.Flags.Type(), r.reason)
	if r.reason != 0 {
		if r.reason.unreachable() {
			t.counters.Unreachable++
		} else {
			t.counters.Refused++
		}
		t.count(ErrorCounter)
		t.counters.last = r.reason
		t.tell(e, r.reason)
	}
	switch {
	case e.Flags&RdReq != 0:
		t.count(RdRespCounter)
	case e.Flags&WrReq != 0:
		t.count(WrRespCounter)
	}
	if e.Flags&RdReq == 0 {
		return
	}
	at := CQ + Entries + uint64(r.into)*EntrySize
	flags := RdData | e.Flags&(DataBlock|DataBlockDRAM)
	switch {
	case r.reason.unreachable():
		flags |= DestUnreachable
	case r.reason != 0:
		flags |= DataBlockUnavailable
	}
	if e.Flags&DataBlock != 0 {
		t.setWord(at+8, e.Data)
	}
	t.setWord(at+12, uint32(flags))
}

// giveUp ends the requests to chips to which no cable leads.
func (t *tile) giveUp() {
	for _, r := range slices.Clone(t.open) {
		if r.target != t.m.cfg.Self && r.reason == 0 && len(t.m.exits(r.target, false)) == 0 {
			t.abandon(r, NoWay)
		}
	}
}

// abandon ends a request. Later answers to the request have no effect.
func (t *tile) abandon(r *request, why Reason) {
	r.fail(why)
	r.open = nil
	t.answer = slices.DeleteFunc(t.answer, func(a message) bool { return a.id == r.id })
	t.endIfOver(r)
}

// check returns an error if the tile's state is inconsistent.
func (t *tile) check() error {
	if len(t.open) > MaxOpen {
		return fmt.Errorf("tile E%d: %d requests are open", t.ch, len(t.open))
	}
	if len(t.answer) > MaxParts {
		return fmt.Errorf("tile E%d: %d answers wait for the tile", t.ch, len(t.answer))
	}
	if len(t.lost) > slots {
		return fmt.Errorf("tile E%d: answers to %d lost requests wait", t.ch, len(t.lost))
	}
	for c := range numClasses {
		if n := len(t.out[c].list); n > slots {
			return fmt.Errorf("tile E%d: %d messages of class %d wait for the cable", t.ch, n, c)
		}
		if n := len(t.in[c].list); n > slots {
			return fmt.Errorf("tile E%d: %d messages of class %d came and wait", t.ch, n, c)
		}
	}
	return nil
}
