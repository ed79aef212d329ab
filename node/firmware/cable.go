package firmware

import (
	"encoding/binary"
	"slices"
	"time"

	"ttfabric/wire"
	"ttfabric/wire/castagnoli"
	"ttfabric/wire/mono"
)

// A message crosses a cable as two L1 writes on transaction command queue 0: first its data, and then its
// header. If the message has at most shortLen bytes of data, the header holds the data, and one L1 write is
// enough. The writes leave from an internal buffer of this tile, and reach an internal buffer of the tile at
// the other end. Messages in neighbouring buffers share their L1 writes, because few long frames cost less
// than many short ones. Each direction of a cable has buffers for each class: slots that leave, and slots
// that arrive. Message n takes buffer n modulo [slots] at both ends.
//
// A tile tells the other end of its cable four numbers, in one L1 write of 16 bytes: for each class
// the number of messages that arrived, and the number of messages that have left their arrival
// buffer. A message leaves only if its arrival buffer at the other end is free. The numbers begin
// anew with each session of the link. The number of arrived messages begins at 0. The number of
// messages that have left their arrival buffer begins at -n, if n messages of earlier sessions
// still wait in arrival buffers. If a tile has any state when a session begins, the tile sends its
// numbers at once, and sends no message before the other end's numbers have arrived. A tile without
// state sends its numbers after the other end's numbers have arrived.

// slots is the number of internal buffers of each class and direction. A tile has 20 (BDMS, "Queues").
const slots = numInternal / (2 * int(numClasses))

// noRoom is the value of outQueue.freed in a session before the other end's numbers have arrived. With this
// value, no buffer at the other end counts as free.
const noRoom = uint32(1<<32 - slots)

// The internal buffers, by their first index.
var (
	arrive = [numClasses]int{0, slots}
	leave  = [numClasses]int{2 * slots, 3 * slots}
)

// inQueue holds the messages of a class that came over the cable, oldest first.
type inQueue struct {
	list  []message
	slot  int    // buffer of the next message
	came  uint32 // messages that came in this session
	freed uint32 // came, less the messages that wait
}

// outQueue holds the messages of a class that leave over the cable, oldest first. Messages that the
// tile has given to the link are at the front.
type outQueue struct {
	list  []message
	slot  int       // buffer of the first message
	base  uint32    // number of the first message
	freed uint32    // messages that have left their buffer at the other end; below 0: messages of earlier sessions wait there
	again mono.Time // time at which the tile sends the messages at the front again; 0: the link has none of the messages
}

// How much of a message the link has, in message.placed.
const (
	unplaced = iota
	dataPlaced
	allPlaced
)

// unplaced reports whether the queue has a message that the link does not have.
func (o *outQueue) unplaced() bool {
	return len(o.list) > 0 && o.list[len(o.list)-1].placed != allPlaced
}

// passage says whether a tile could pass a message on.
type passage uint8

const (
	passed passage = iota
	mustWait
	noWay
)

// pass puts a message into the out queue of a tile of this chip whose cable leads to the message's
// goal. For a moment after a fault, the chips have different tables. A message can then go round in
// a circle. A message that has taken more cables than the topology has chips therefore waits for
// [LoopPause].
func (t *tile) pass(x *message) passage {
	m := t.m
	list := m.exits(x.goal(), x.down)
	if len(list) == 0 {
		return noWay
	}
	if int(x.hops) > len(m.cfg.Topology.Chips) {
		x.hops, x.hold = 0, m.now.Add(LoopPause)
	}
	if m.now.Before(x.hold) {
		t.pause(LoopPause)
		return mustWait
	}
	e := t.choose(x, list)
	to := m.tile(e.ch)
	o := &to.out[x.class]
	if len(o.list) >= slots {
		return mustWait
	}
	y := *x
	y.down, y.placed, y.sent, y.table, y.hold = e.down, unplaced, false, m.table, 0
	y.hops++
	if y.at == 0 {
		y.at = m.now
	}
	o.list = append(o.list, y)
	if to != t {
		t.counters.Passed++
	}
	m.busy |= 1 << e.ch
	return passed
}

// leads reports whether the tile's cable is still on a route of a message in its out queue.
func (t *tile) leads(x *message) bool {
	return slices.ContainsFunc(t.m.exits(x.goal(), false), func(e exit) bool { return e.ch == t.ch }) ||
		slices.ContainsFunc(t.m.exits(x.goal(), true), func(e exit) bool { return e.ch == t.ch })
}

// send gives messages, and the numbers for the other end, to the link. send returns true if anything moved.
func (t *tile) send() (moved bool) {
	for c := numClasses; c > 0; c-- { // responses first
		o := &t.out[c-1]
		up := t.m.cfg.Host.Up(t.ch) && (c-1 == responses || len(t.lost) == 0) // requests wait until the answers to lost requests have left, so that only requests of one session can be lost
		end := 0                                                              // number of messages at the front that may leave by this cable
		for ; end < len(o.list); end++ {
			x := &o.list[end]
			if x.placed != allPlaced && !x.sent && x.table != t.m.table && (end == 0 || !t.m.inOrder(x)) {
				if gone, ok := t.divert(o, end); gone || !ok {
					moved = moved || gone
					break // the list has changed, or the message waits for room elsewhere
				}
			}
		}
		for up && t.place(o, end) {
			moved = true
		}
	}
	if t.owes && t.m.cfg.Host.Up(t.ch) {
		var b [wire.WriteUnit]byte
		for c := range numClasses {
			binary.LittleEndian.PutUint32(b[8*c:], t.in[c].came)
			binary.LittleEndian.PutUint32(b[8*c+4:], t.in[c].freed)
		}
		if t.store(tellWord, b[:]) && t.m.cfg.Host.Send(t.ch, tellWord, heardWord, 1) {
			t.owes, t.told, moved = false, true, true
		}
	}
	return moved
}

// divert takes message i of an out queue to another tile, if the tile's cable is no longer on a route. If the
// message must wait, divert returns ok = false.
func (t *tile) divert(o *outQueue, i int) (gone, ok bool) {
	x := o.list[i]
	if t.leads(&x) {
		o.list[i].table = t.m.table
		return false, true
	}
	x.down = false
	x.hops--
	switch t.pass(&x) {
	case mustWait:
		o.list[i].hops, o.list[i].hold = x.hops+1, x.hold
		return false, false
	case noWay:
		if a := x.reply(NoWay, nil); x.class == requests && !t.respond(&a) {
			return false, false
		}
		t.counters.Lost++
	}
	o.remove(i)
	return true, true
}

// remove removes message i, which has not left completely. The later messages move to other buffers.
func (o *outQueue) remove(i int) {
	o.list = slices.Delete(o.list, i, i+1)
	for j := i; j < len(o.list); j++ {
		if o.list[j].placed == dataPlaced {
			o.list[j].placed = unplaced
		}
	}
}

// tellLost sends answers to requests that were lost. tellLost returns true if an answer left.
func (t *tile) tellLost() (moved bool) {
	for len(t.lost) > 0 && t.respond(&t.lost[0]) {
		t.lost, moved = t.lost[1:], true
	}
	return moved
}

// respond sends an answer to the origin of its request. respond returns false if the answer must
// wait. If no cable leads to the origin, respond drops the answer, and the origin ends the request
// after [AnswerTimeout].
func (t *tile) respond(a *message) bool {
	if a.origin == t.m.cfg.Self {
		if int(a.originCh) >= len(t.m.at) {
			return true
		}
		to := t.m.tile(a.originCh)
		t.m.busy |= 1 << a.originCh
		switch {
		case t.m.cfg.Host.Works(a.originCh):
			return to.finish(a)
		case len(to.answer) >= MaxParts:
			return false
		}
		to.answer = append(to.answer, *a)
		return true
	}
	switch t.pass(a) {
	case mustWait:
		return false
	case noWay:
		t.counters.Lost++
	}
	return true
}

// next returns which messages of an out queue can leave together now: n messages from index i on,
// before index end. The buffers of these messages are neighbours, and the buffers at the other end
// are free. If the messages have data, all of them except the last fill their buffers.
func (o *outQueue) next(end int) (i, n int) {
	for i < end && o.list[i].placed == allPlaced {
		i++
	}
	for k := i; k < end && o.base+uint32(k)-o.freed < uint32(slots); k++ {
		if k > i {
			before, x := &o.list[k-1], &o.list[k]
			joins := before.long() == BlockSize && x.long() > 0 || before.long()+x.long() == 0
			if x.placed != before.placed || (o.slot+k)%slots == 0 || x.placed == unplaced && !joins {
				break
			}
		}
		n++
	}
	return i, n
}

// place writes the next messages of an out queue, before index end, into their internal buffers, and gives
// them to the link. If no message can leave, or if the link has no room, place returns false.
func (t *tile) place(o *outQueue, end int) bool {
	i, n := o.next(end)
	if n == 0 {
		return false
	}
	run, slot := o.list[i:i+n], (o.slot+i)%slots
	c := run[0].class
	from, to := leave[c]+slot, arrive[c]+slot
	if run[0].placed == unplaced {
		size := 0
		for k := range run {
			if size += run[k].long(); run[k].long() > 0 && !t.store(bufferAt(from+k), run[k].data) {
				return false
			}
		}
		if size > 0 && !t.m.cfg.Host.Send(t.ch, uint32(bufferAt(from)), uint32(bufferAt(to)), (size+wire.WriteUnit-1)/wire.WriteUnit) {
			return false
		}
		for k := range run {
			run[k].placed = dataPlaced
		}
	}
	var b [slots * headerSize]byte
	for k := range run {
		x := &run[k]
		x.age = uint32(max(t.m.now.Sub(x.at), 0) / time.Millisecond)
		x.encode(b[k*headerSize:], o.base+uint32(i+k))
	}
	if !t.store(headerAt(from), b[:n*headerSize]) || !t.m.cfg.Host.Send(t.ch, uint32(headerAt(from)), uint32(headerAt(to)), n*headerSize/wire.WriteUnit) {
		return false
	}
	for k := range run {
		run[k].placed, run[k].sent = allPlaced, true
	}
	if o.again == 0 {
		o.again = t.m.now.Add(ResendAfter)
	}
	t.counters.Sent += uint64(n)
	return true
}

func headerAt(buffer int) uint64 { return headers + uint64(buffer)*headerSize }
func bufferAt(buffer int) uint64 { return InternalBuffers + uint64(buffer)*BlockSize }

// Arrived tells the machine that an L1 write stored n bytes at an address of a tile, over the tile's cable and
// on transaction command queue 0. Arrived returns true if the bytes belong to the firmware.
func (m *Machine) Arrived(now mono.Time, ch wire.Channel, a uint32, n int) bool {
	at, end := uint64(a), uint64(a)+uint64(n)
	if int(ch) >= len(m.at) || end <= QueueBase || at >= End {
		return false
	}
	last := func(off, size uint64) bool { return at < off+size && off+size <= end } // the store reaches the end of the range
	for c := range numClasses {
		for slot := range slots {
			if last(headerAt(arrive[c]+slot), headerSize) {
				m.now = now
				m.tile(ch).arrived(c, slot)
			}
		}
	}
	if last(heardWord, wire.WriteUnit) {
		m.now = now
		m.tile(ch).heard()
	}
	return at >= QueueBase && end <= End
}

// arrived adds the message in an arrival buffer to its in queue.
func (t *tile) arrived(c class, slot int) {
	var b [headerSize]byte
	t.load(headerAt(arrive[c]+slot), b[:])
	x, number, n, sum, ok := decode(b[:])
	q := &t.in[c]
	t.m.busy |= 1 << t.ch
	switch ahead := number - q.came; {
	case !ok || x.class != c || ahead > 0 && int32(ahead) > 0:
		t.counters.Bad++
		return
	case ahead != 0:
		t.owes = true // the message has already arrived earlier, but the other end does not know this yet
		return
	case slot != q.slot || len(q.list) >= slots:
		t.counters.Bad++
		return
	}
	if n > shortLen {
		x.data = make([]byte, n)
		t.load(bufferAt(arrive[c]+slot), x.data)
	}
	if castagnoli.Checksum(x.data) != sum {
		t.counters.Bad++
		return
	}
	x.at = t.m.now.Add(-time.Duration(x.age) * time.Millisecond)
	q.list = append(q.list, x)
	q.slot = (q.slot + 1) % slots
	q.came++
	t.owes = true
	t.counters.Received++
}

// heard takes the numbers that the other end of the cable has sent.
func (t *tile) heard() {
	var b [wire.WriteUnit]byte
	t.load(heardWord, b[:])
	t.m.busy |= 1 << t.ch
	t.owes = t.owes || !t.told
	for c := range numClasses {
		o := &t.out[c]
		came, freed := binary.LittleEndian.Uint32(b[8*c:]), binary.LittleEndian.Uint32(b[8*c+4:])
		sent := 0
		for sent < len(o.list) && o.list[sent].sent {
			sent++
		}
		n := came - o.base
		if n > uint32(sent) || came-freed > uint32(slots) || came-o.freed > uint32(2*slots) {
			continue // older numbers, or numbers that no firmware wrote
		}
		o.freed = freed
		o.list = slices.Delete(o.list, 0, int(n))
		o.base += n
		o.slot = (o.slot + int(n)) % slots
		switch {
		case sent == int(n):
			o.again = 0
		case n > 0:
			o.again = t.m.now.Add(ResendAfter)
		}
	}
}

// takeResponses hands the responses that came to the tiles that wait for them, or passes them on.
func (t *tile) takeResponses() (moved bool) {
	q := &t.in[responses]
	for len(q.list) > 0 && t.respond(&q.list[0]) {
		q.pop(t)
		moved = true
	}
	return moved
}

// takeRequests performs the requests that came, or passes them on.
func (t *tile) takeRequests() (moved bool) {
	q := &t.in[requests]
	t.forgetQueued()
	for len(q.list) > 0 {
		x := &q.list[0]
		if x.late(t.m.now) { // the message may have become late while the firmware could not work
			t.counters.Lost++
		} else if x.target != t.m.cfg.Self {
			switch t.pass(x) {
			case mustWait:
				return moved
			case noWay:
				if a := x.reply(NoWay, nil); !t.respond(&a) {
					return moved
				}
			}
		} else if !t.answerTo(x) {
			return moved
		}
		q.pop(t)
		moved = true
	}
	return moved
}

// answerTo performs a request, and sends the answer. If there is no room for the answer, or if the request must
// wait for the host, answerTo returns false.
func (t *tile) answerTo(x *message) bool {
	a := x.reply(0, nil)
	if a.origin != t.m.cfg.Self && !t.hasRoom(&a) {
		return false
	}
	var ended bool
	if a.reason, a.data, ended = t.perform(x, false); !ended {
		return false
	}
	if a.reason != 0 {
		a.data = nil
	}
	t.respond(&a)
	return true
}

// hasRoom returns false if pass would return mustWait for a message now.
func (t *tile) hasRoom(x *message) bool {
	list := t.m.exits(x.goal(), x.down)
	for _, e := range t.m.lowest(list, x.class) {
		if len(t.m.tile(e.ch).out[x.class].list) >= slots {
			return false
		}
	}
	return true
}

// pop removes the first message.
func (q *inQueue) pop(t *tile) {
	q.list = q.list[1:]
	q.freed++
	t.owes = true
}

// SessionEnded tells the machine that the session of a channel's link has ended, or a new session
// has begun. Nobody knows which messages on the cable arrived. The tile sends reads and answers
// again, because the origin counts an answer only once. The chip must not perform a write twice, so
// the request of the write ends.
func (m *Machine) SessionEnded(now mono.Time, ch wire.Channel) {
	if int(ch) >= len(m.at) || m.tiles[ch] == nil {
		return
	}
	m.now = now
	t := m.tiles[ch]
	for c := range numClasses {
		q, o := &t.in[c], &t.out[c]
		*q = inQueue{list: q.list, freed: -uint32(len(q.list))}
		kept := make([]message, 0, slots)
		for _, x := range o.list {
			if x.sent && x.class == requests && x.write() {
				t.counters.Lost++
				t.lost = append(t.lost, x.reply(UnknownFate, nil))
				continue
			}
			if x.sent {
				t.counters.Resent++
			}
			x.placed, x.sent = unplaced, false
			kept = append(kept, x)
		}
		*o = outQueue{list: kept, freed: noRoom}
	}
	t.owes, t.told = true, false
	m.wake()
}
