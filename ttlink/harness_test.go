package ttlink

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"testing"
	"time"

	"ttfabric/ttlink/fault"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// TestMain makes the garbage collector run less often.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	m.Run()
}

var (
	portA = wire.PortID{Node: wire.FabricNodeID{Mesh: 0, Chip: 3}, Channel: 8}
	portB = wire.PortID{Node: wire.FabricNodeID{Mesh: 0, Chip: 7}, Channel: 1}
)

// arrival is an instant at which a datagram reaches an end, or a function is called.
type arrival struct {
	at   mono.Time
	n    int // of two arrivals at one instant, the one with the lower n comes first
	to   int
	data []byte
	via  Path
	call func()
}

// The method "before" reports whether a comes before b.
func (a *arrival) before(b *arrival) bool { return a.at < b.at || a.at == b.at && a.n < b.n }

// arrivals is a binary heap. The first entry is the next arrival.
type arrivals []arrival

func (h *arrivals) push(a arrival) {
	*h = append(*h, a)
	s := *h
	for i := len(s) - 1; i > 0; {
		up := (i - 1) / 2
		if !s[i].before(&s[up]) {
			return
		}
		s[i], s[up] = s[up], s[i]
		i = up
	}
}

func (h *arrivals) pop() arrival {
	s := *h
	first, last := s[0], len(s)-1
	s[0], s[last] = s[last], arrival{}
	s = s[:last]
	*h = s
	for i := 0; ; {
		least := 2*i + 1
		if least >= last {
			return first
		}
		if r := least + 1; r < last && s[r].before(&s[least]) {
			least = r
		}
		if !s[least].before(&s[i]) {
			return first
		}
		s[i], s[least] = s[least], s[i]
		i = least
	}
}

// packetLog holds the packets that one end sent in one session, in order.
type packetLog struct {
	sent      []sentPacket
	delivered int
	perVC     [wire.NumVCs]int // packets sent
	outVC     [wire.NumVCs]int // packets delivered
}

type sentPacket struct {
	vc   wire.VC
	data []byte
}

type logKey struct {
	from    int
	session wire.SessionID
}

// end is a Link and its owner, which sends packets and checks the delivered packets.
type end struct {
	link    *Link
	cfg     Config
	toSend  [wire.NumVCs]int
	hold    bool          // the owner frees no slots
	lag     time.Duration // longest time between the delivery of a packet and the call of Free
	held    [wire.NumVCs]int
	partial []byte
	events  []Event
	ended   map[wire.SessionID]int
	gone    bool          // the end is stopped: it neither ticks nor receives
	still   mono.Time     // until this instant the end's loop stands still: received datagrams wait, and Tick comes late
	tardy   time.Duration // Tick comes this long after its deadline
	watch   watch
}

// world is a simulation of two ends and a cable with faults, in virtual time.
type world struct {
	t      testing.TB
	name   string
	rng    *rand.Rand
	now    mono.Time
	heap   arrivals
	n      int
	ends   [2]*end
	cable  [2]*fault.Model // faults of each direction, by the end that sends
	logs   map[logKey]*packetLog
	sparse bool // whether to check the links' invariants only after every 16th step, because windows hold thousands of frames
	steps  int
	skew   mono.Time // since when both ends are up in different sessions; 0: at present they are not
	record [2][][]byte
	other  bool                                        // the fallback cable works
	keep   bool                                        // record the sent datagrams
	onSend func(from int, datagram []byte) (drop bool) // called for each datagram sent by the own cable; nil: no call

	onSession func(i int)               // called when a session starts or ends at an end, or the end starts anew; nil: no call
	onWrite   func(to int, d *Delivery) // called for each frame of an L1 or MMIO write that comes; nil: no call

	scratch [MaxPacket]byte
}

func testConfig(i int, rng *rand.Rand) Config {
	c := Config{
		Local: portA, Peer: portB, Incarnation: wire.Incarnation(rng.Uint64() | 1), Fabric: 7, MaxPayload: 1408,
		Slots: [wire.NumVCs]int{16, 5, 3}, Window: MinWindow, Seed: rng.Uint64(),
	}
	if i == 1 {
		c.Local, c.Peer = portB, portA
	}
	return c
}

func newWorld(t testing.TB, seed uint64, o fault.Options, change func(i int, c *Config)) *world {
	w := &world{t: t, name: fmt.Sprintf("seed %d", seed), rng: rand.New(rand.NewPCG(seed, 1)), now: 1, logs: map[logKey]*packetLog{}}
	for i := range w.ends {
		cfg := testConfig(i, w.rng)
		if change != nil {
			change(i, &cfg)
		}
		w.ends[i] = &end{cfg: cfg, lag: time.Millisecond, ended: map[wire.SessionID]int{}}
		w.ends[i].link = w.mustNew(cfg)
		m, err := fault.New(seed*2+uint64(i), o)
		if err != nil {
			t.Fatal(err)
		}
		w.cable[i] = m
	}
	return w
}

func (w *world) mustNew(cfg Config) *Link {
	w.t.Helper()
	l, err := New(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	return l
}

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	for i, e := range w.ends {
		w.t.Logf("end %d: %+v\n%+v", i, e.link.Status(), e.link.Counters())
		w.t.Logf("tx %+v", e.link.tx.sent)
	}
	w.t.Fatalf("%s, %v: %s", w.name, w.now, fmt.Sprintf(format, args...))
}

func (w *world) at(d time.Duration, call func()) { w.push(arrival{at: w.now.Add(d), call: call}) }

func (w *world) push(a arrival) {
	w.n++
	a.n = w.n
	w.heap.push(a)
}

func (w *world) start() {
	for i := range w.ends {
		w.ends[i].link.SetPath(w.now, true)
		w.service(i)
	}
}

// run runs the simulation for the time d.
func (w *world) run(d time.Duration) { w.until(d, func() bool { return false }) }

// The method "until" runs the simulation until done returns true, but at most for the time d.
func (w *world) until(d time.Duration, done func() bool) bool {
	stop := w.now.Add(d)
	for steps := 0; !done(); steps++ {
		if steps > 5_000_000 {
			w.fail("the simulation takes too many steps")
		}
		next, who := stop, -1
		if len(w.heap) > 0 && w.heap[0].at <= next {
			next, who = w.heap[0].at, 2
		}
		for i, e := range w.ends {
			at, ok := e.link.Deadline()
			if at = max(at.Add(e.tardy), e.still); ok && !e.gone && at < next {
				next, who = at, i
			}
		}
		if next.Before(w.now) {
			next = w.now
		}
		w.now = next
		switch who {
		case -1:
			return done()
		case 2:
			a := w.heap.pop()
			if a.call != nil {
				a.call()
				break
			}
			if e := w.ends[a.to]; w.now.Before(e.still) {
				a.at = e.still
				w.push(a)
				break
			}
			w.receiveVia(a.to, a.via, a.data)
			w.service(a.to)
		default:
			l := w.ends[who].link
			l.Tick(w.now)
			if at, ok := l.Deadline(); ok && !w.now.Before(at) {
				w.fail("end %d: deadline %v is not after Tick", who, at)
			}
			w.service(who)
		}
		w.check()
	}
	return true
}

func (w *world) log(from int, s wire.SessionID) *packetLog {
	k := logKey{from, s}
	if w.logs[k] == nil {
		w.logs[k] = &packetLog{}
	}
	return w.logs[k]
}

// receive passes a datagram to end i by the own cable.
func (w *world) receive(i int, b []byte) { w.receiveVia(i, Own, b) }

// receiveVia passes a datagram to end i by a path. If this completes a packet, receiveVia compares
// the packet with the packet that the other end sent.
func (w *world) receiveVia(i int, by Path, b []byte) {
	e := w.ends[i]
	if e.gone {
		return
	}
	d, ok := e.link.HandleVia(w.now, by, b)
	if !ok {
		return
	}
	if sessionOf(b) != e.link.sess.id {
		w.fail("end %d: a frame of session %#x is delivered in %#x (L4)", i, sessionOf(b), e.link.sess.id)
	}
	if d.Kind != wire.KindData {
		if w.onWrite != nil {
			w.onWrite(i, &d)
		}
		return
	}
	if d.Offset == 0 {
		e.partial = e.partial[:0]
	}
	if d.Offset != len(e.partial) {
		w.fail("end %d: piece at %d after %d bytes", i, d.Offset, len(e.partial))
	}
	e.partial = append(e.partial, d.Data...)
	if !d.End {
		return
	}
	log := w.log(1-i, e.link.sess.id)
	if log.delivered >= len(log.sent) {
		w.fail("end %d: a packet is delivered that was never sent", i)
	}
	want := log.sent[log.delivered]
	if want.vc != d.VC || !bytes.Equal(want.data, e.partial) {
		w.fail("end %d: packet %d of the session differs: VC %v, %d bytes; want VC %v, %d bytes", i, log.delivered, d.VC, len(e.partial), want.vc, len(want.data))
	}
	if slot := uint32(log.outVC[d.VC] % e.cfg.Slots[d.VC]); d.Slot != slot {
		w.fail("end %d: slot %d, want %d", i, d.Slot, slot)
	}
	log.delivered++
	log.outVC[d.VC]++
	e.held[d.VC]++
	link := e.link
	if !e.hold {
		w.at(time.Duration(w.rng.Int64N(int64(e.lag)+1)), func() { w.free(i, link, d.VC) })
	}
}

func (w *world) free(i int, link *Link, vc wire.VC) {
	if e := w.ends[i]; e.link == link && e.held[vc] > 0 {
		e.held[vc]--
		link.Free(vc)
		w.service(i)
	}
}

func (w *world) releaseHeld(i int) {
	e := w.ends[i]
	e.hold = false
	for v := range e.held {
		for e.held[v] > 0 {
			e.held[v]--
			e.link.Free(wire.VC(v))
		}
	}
	w.service(i)
}

// service does for end i what the owner of a link must do after each call.
func (w *world) service(i int) {
	e := w.ends[i]
	if e.gone {
		return
	}
	w.offer(i)
	for ev, ok := e.link.PollEvent(); ok; ev, ok = e.link.PollEvent() {
		e.events = append(e.events, ev)
		if w.onSession != nil && (ev.Kind == EventSessionStarted || ev.Kind == EventSessionEnded) {
			w.onSession(i)
		}
		if ev.Kind == EventSessionEnded {
			w.judgeEnd(i, ev)
		}
	}
	updates := e.link.counters.UpdatesSent
	for t, ok := e.link.PollTransmit(w.now); ok; t, ok = e.link.PollTransmit(w.now) {
		if len(t.Data) < t.Seg || len(t.Data) > MaxBatchBytes || (len(t.Data)+t.Seg-1)/t.Seg > MaxBatchFrames {
			w.fail("end %d: batch of %d bytes in segments of %d", i, len(t.Data), t.Seg)
		}
		for b := t.Data; len(b) > 0; b = b[min(t.Seg, len(b)):] {
			f := b[:min(t.Seg, len(b))]
			if t.Path != Own {
				if w.other {
					w.push(arrival{at: w.now.Add(lan), to: 1 - i, data: bytes.Clone(f), via: t.Path})
				}
				continue
			}
			if w.keep {
				w.record[i] = append(w.record[i], bytes.Clone(f))
			}
			if w.onSend != nil && w.onSend(i, f) {
				continue
			}
			for _, o := range w.cable[i].Apply(w.now, f) {
				w.push(arrival{at: o.At, to: 1 - i, data: o.Data})
			}
		}
	}
	if e.link.counters.UpdatesSent > updates+1 {
		w.fail("end %d: %d sequence updates in one round of PollTransmit", i, e.link.counters.UpdatesSent-updates)
	}
}

// offer sends the packets that wait at end i, as many as the link accepts.
func (w *world) offer(i int) {
	e := w.ends[i]
	for v := range wire.NumVCs {
		for e.toSend[v] > 0 {
			size := 1 + w.rng.IntN(200)
			if w.rng.IntN(3) == 0 {
				size = 1 + w.rng.IntN(MaxPacket)
			}
			size = min(size, wire.VC(v).SlotSize())
			if !e.link.CanSend(wire.VC(v), size) {
				if e.link.Send(w.now, wire.VC(v), w.scratch[:size]) {
					w.fail("end %d: Send accepts a packet that CanSend refused", i)
				}
				break
			}
			p := make([]byte, size)
			var x [8]byte // random bytes, which are repeated to fill the packet
			binary.LittleEndian.PutUint64(x[:], w.rng.Uint64())
			for k := copy(p, x[:]); k < size; k *= 2 {
				copy(p[k:], p[:k])
			}
			if !e.link.Send(w.now, wire.VC(v), p) {
				w.fail("end %d: Send refuses a packet that CanSend accepted", i)
			}
			e.toSend[v]--
			log := w.log(i, e.link.sess.id)
			log.sent = append(log.sent, sentPacket{wire.VC(v), p})
			log.perVC[v]++
		}
	}
}

// judgeEnd compares an EventSessionEnded with the packets that were really lost.
func (w *world) judgeEnd(i int, ev Event) {
	e := w.ends[i]
	if e.ended[ev.Session]++; e.ended[ev.Session] > 1 {
		w.fail("end %d: session %#x ended twice", i, ev.Session)
	}
	log := w.log(i, ev.Session)
	for v := range wire.NumVCs {
		if lost := log.perVC[v] - log.outVC[v]; lost > ev.Unknown[v] || ev.Unknown[v] > log.perVC[v] {
			w.fail("end %d: VC %d: %d packets of unknown fate, %d really lost, %d sent", i, v, ev.Unknown[v], lost, log.perVC[v])
		}
	}
}

// restart replaces end i by a new incarnation, and switches its path on.
func (w *world) restart(i int) {
	e := w.ends[i]
	e.cfg.Incarnation = wire.Incarnation(w.rng.Uint64() | 1)
	e.link = w.mustNew(e.cfg)
	e.held, e.partial, e.gone = [wire.NumVCs]int{}, nil, false
	if w.onSession != nil {
		w.onSession(i)
	}
	e.link.SetPath(w.now, true)
	w.service(i)
}

// check checks the invariants of both ends, and the invariants between the two ends.
func (w *world) check() {
	w.steps++
	for i, e := range w.ends {
		if !w.sparse || w.steps%16 == 0 {
			if err := e.link.CheckInvariants(); err != nil {
				w.fail("end %d: %v", i, err)
			}
		}
		if err := e.watch.see(w.now, e.link); err != nil {
			w.fail("end %d: %v", i, err)
		}
	}
	a, b := w.ends[0].link, w.ends[1].link
	if a.state == StateUp && b.state == StateUp && a.sess.id != b.sess.id && !w.ends[0].gone && !w.ends[1].gone {
		if w.skew == 0 {
			w.skew = w.now
		}
		if w.now.Sub(w.skew) > 2*a.cfg.Profile.DeadIdle {
			w.fail("both up in different sessions for too long (L5)")
		}
	} else {
		w.skew = 0
	}
	if a.sess.id != b.sess.id || a.sess.id == 0 {
		return
	}
	w.checkPair()
}

func (w *world) bothUp() bool {
	a, b := w.ends[0].link, w.ends[1].link
	return a.state == StateUp && b.state == StateUp && a.sess.id == b.sess.id && a.sess.confirmed && b.sess.confirmed
}

// quiet reports whether all packets of the running session have arrived, all frames are
// acknowledged, and all credits have returned to the senders (L7, C4).
func (w *world) quiet() bool {
	if !w.bothUp() {
		return false
	}
	for i, e := range w.ends {
		log := w.log(i, e.link.sess.id)
		if e.toSend != [wire.NumVCs]int{} || log.delivered != len(log.sent) || e.link.tx.slab.count != 0 {
			return false
		}
		for v := range wire.NumVCs {
			if int(e.link.tx.limit[v]-e.link.tx.sent[v]) != w.ends[1-i].cfg.Slots[v] {
				return false
			}
		}
	}
	return true
}

func (w *world) mustQuiet(d time.Duration) {
	w.t.Helper()
	if !w.until(d, w.quiet) {
		w.fail("packets, frames or credits are still under way after %v", d)
	}
}
