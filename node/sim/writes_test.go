package sim

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"ttfabric/node/chip"
	"ttfabric/node/noc"
	"ttfabric/ttlink"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// L1 and registers of ethernet tiles that the writes of TestWrites use. The addresses lie in the
// area of kernels.
const (
	writeSources = 0x20000 // sources of queue q: from writeSources + q*writeArea on
	writeTargets = 0x30000 // destinations of queue q: the same
	writeArea    = 0x7000
	writeSlots   = 14    // sources of a queue
	writeSlot    = 0x800 // length of a source, in bytes
	writeWindow  = 0xFFBE0000
	writeTXQ     = 0xFFB90000
)

// written is a command that a tile has started and whose frames have not all come to the other end.
type written struct {
	session wire.SessionID
	began   mono.Time
	slot    int // source of an L1 write; -1: an MMIO write
	source  *[]revision
	version uint32 // version of the source at the start of the command, or the value of the MMIO write
	next    uint32 // address of the next word
	done    uint32 // bytes that have come
	left    uint32 // bytes that have not come
}

// revision is the content of a source from some instant on.
type revision struct {
	from mono.Time
	n    uint32
}

// sessionWrites counts the commands of a session of a link.
type sessionWrites struct{ started, came [wire.NumQueues]int }

// writer is one end of a cable: the commands that it starts, and what the other end has received of them.
type writer struct {
	load     *writeLoad
	m        *machine
	at, peer wire.PortID
	chip     *chip.Chip // incarnation of the chip that the fields below are about
	started  [wire.NumQueues]int
	unknown  [wire.NumQueues]uint64
	sources  [2][writeSlots]*[]revision
	to       [2]uint32 // offset of the next destination

	sent     [2][]*written // commands of all incarnations in the order of their start, without those that came
	sessions map[wire.SessionID]*sessionWrites
}

// writeLoad starts random L1 and MMIO writes on the ends of all cables, and checks what arrives:
//
//   - The frames of a queue's commands arrive in the order of the commands, each byte once, while the session
//     lives in which the command began.
//   - The words of a frame have the content that their source had at one instant between the command's
//     start and the arrival.
//   - When a session ends, the link counts each queue's commands that are not acknowledged: at least those
//     that have not come. In the end, the counters of each link add up.
type writeLoad struct {
	s    *Sim
	rng  *rand.Rand
	ends map[wire.PortID]*writer

	commands, frames, changed, unknown, missing, fallback, retrains int
}

// writeRegisters receives the MMIO writes of a cable.
type writeRegisters struct{ w *writer } // of this end

func (r writeRegisters) Load(_ uint64, b []byte) wire.Outcome {
	clear(b)
	return wire.OutcomeDone
}

func (r writeRegisters) Store(_ uint64, b []byte) wire.Outcome {
	r.w.load.ends[r.w.peer].came(r.w, 0, true, 0, b)
	return wire.OutcomeDone
}

func newWriteLoad(s *Sim) *writeLoad {
	l := &writeLoad{s: s, rng: rand.New(rand.NewPCG(s.cfg.Seed, 0x77726974)), ends: map[wire.PortID]*writer{}}
	for _, c := range s.cables {
		for side, p := range c.ports {
			l.ends[p] = &writer{load: l, m: c.chips[side], at: p, peer: c.ports[1-side], sessions: map[wire.SessionID]*sessionWrites{}}
		}
	}
	s.onEvent = l.event
	return l
}

// addr returns the address of an offset in the end's tile.
func (w *writer) addr(off uint64) wire.NocAddr {
	x, y, _ := noc.EthernetTile(w.load.s.cfg.Topology.Arch, w.at.Channel)
	return wire.NewNocAddr(x, y, off)
}

// link returns the state of the end's link.
func (w *writer) link() *chip.PortStatus {
	ports := w.m.chip.Status().Ports
	for i := range ports {
		if ports[i].Local == w.at {
			return &ports[i]
		}
	}
	panic("no port")
}

// attach watches the tile of a chip that has started since the last call.
func (w *writer) attach() {
	if w.m.chip == nil || w.chip == w.m.chip {
		return
	}
	w.chip, w.started, w.unknown, w.to = w.m.chip, [wire.NumQueues]int{}, [wire.NumQueues]uint64{}, [2]uint32{}
	for q := range w.sources {
		for slot := range w.sources[q] {
			w.sources[q][slot] = &[]revision{}
		}
	}
	mem, a := w.chip.Memory(), w.addr(0)
	if err := mem.MapRegisters(w.addr(writeWindow), 64, writeRegisters{w}); err != nil {
		panic(err)
	}
	mem.Watch(noc.Kernels, a.X(), a.Y(), func(off uint64, n int) {
		if off < writeTargets || off >= writeTargets+2*writeArea {
			return
		}
		b := make([]byte, n)
		mem.Read(w.addr(off), b)
		w.load.ends[w.peer].came(w, int(off-writeTargets)/writeArea, false, uint32(off), b)
	})
}

// store writes b into the end's tile.
func (w *writer) store(off uint64, b []byte) wire.Outcome {
	return w.chip.Memory().Execute(&wire.Command{Type: wire.NocUnicastWrite, Addr: w.addr(off)}, b)
}

// renew gives a source a new version. Each word of 16 bytes names the version, the queue, the source and its own place.
func (w *writer) renew(q, slot int) {
	vs := w.sources[q][slot]
	v := revision{w.load.s.now, uint32(len(*vs) + 1)}
	*vs = append(*vs, v)
	b := make([]byte, 0, writeSlot)
	for at := range uint32(writeSlot / wire.WriteUnit) {
		for _, x := range []uint32{v.n, uint32(q), uint32(slot), at} {
			b = binary.LittleEndian.AppendUint32(b, x)
		}
	}
	if o := w.store(uint64(writeSources+q*writeArea+slot*writeSlot), b); o != wire.OutcomeDone {
		w.load.s.fail("writes", "a source at %s: %s", w.at, o)
	}
}

// step starts a command at a random end, or changes a source.
func (l *writeLoad) step() {
	if l.s.healed || l.s.failure != nil {
		return
	}
	c := l.s.cables[l.rng.IntN(len(l.s.cables))]
	w := l.ends[c.ports[l.rng.IntN(2)]]
	if w.m.chip != nil && w.m.stalled == 0 {
		w.attach()
		l.ends[w.peer].attach() // before a frame can come there
		for range 1 + l.rng.IntN(4) {
			w.start()
		}
		l.s.run(w.m)
	}
	l.s.after(time.Duration(l.rng.Int64N(int64(4*time.Millisecond))), l.step)
}

// start starts a command, or changes the source of one.
func (w *writer) start() {
	l, q := w.load, w.load.rng.IntN(2)
	slot := l.rng.IntN(writeSlots)
	p := w.link()
	if p.Link.Session == 0 {
		return
	}
	vs := w.sources[q][slot]
	if len(*vs) == 0 || l.rng.IntN(3) == 0 {
		w.renew(q, slot)
	}
	x := &written{session: p.Link.Session, began: l.s.now, slot: slot, source: vs}
	words := func(v ...uint32) (b []byte) {
		for _, n := range v {
			b = binary.LittleEndian.AppendUint32(b, n)
		}
		return b
	}
	txq, o := writeTXQ+uint64(q)*0x1000, wire.OutcomeDone
	if q == 0 && l.rng.IntN(4) == 0 {
		x.slot, x.version, x.left = -1, l.rng.Uint32(), wire.RegisterLen
		w.store(txq+0x44, words(x.version))
		w.store(txq+0x1C, words(writeWindow+uint32(l.rng.IntN(16))*4))
		o = w.store(txq+4, words(4))
	} else {
		x.left = wire.WriteUnit * uint32(1+l.rng.IntN(writeSlot/wire.WriteUnit))
		if w.to[q]+x.left > writeArea {
			w.to[q] = 0
		}
		x.next, x.version = writeTargets+uint32(q)*writeArea+w.to[q], (*vs)[len(*vs)-1].n
		w.to[q] += x.left
		w.store(txq+0x14, words(uint32(writeSources+q*writeArea+slot*writeSlot), x.left, x.next))
		o = w.store(txq+4, words(2))
	}
	switch o {
	case wire.OutcomeDone:
	case wire.OutcomeAgain: // the queue is busy
		return
	default:
		l.s.fail("writes", "a command at %s: %s", w.at, o)
	}
	l.commands++
	w.started[q]++
	w.session(x.session).started[q]++
	w.sent[q] = append(w.sent[q], x)
}

func (w *writer) session(id wire.SessionID) *sessionWrites {
	if w.sessions[id] == nil {
		w.sessions[id] = &sessionWrites{}
	}
	return w.sessions[id]
}

// came checks a frame of the commands of this end that has come to the other end "to".
func (w *writer) came(to *writer, q int, register bool, off uint32, b []byte) {
	s, l := w.load.s, w.load
	l.frames++
	session := to.link().Link.Session
	for len(w.sent[q]) > 0 && w.sent[q][0].session != session {
		w.sent[q] = w.sent[q][1:] // the session of this command has ended
		l.missing++
	}
	if len(w.sent[q]) == 0 {
		s.fail("writes", "%s: a frame of queue %d came that belongs to no command of session %#x", w.at, q, uint32(session))
		return
	}
	x := w.sent[q][0]
	n := uint32(len(b))
	switch {
	case register != (x.slot < 0) || !register && off != x.next || n > x.left:
		s.fail("writes", "%s: %d bytes for %#x came by queue %d, want at most %d for %#x (slot %d)", w.at, n, off, q, x.left, x.next, x.slot)
	case register && binary.LittleEndian.Uint32(b) != x.version:
		s.fail("writes", "%s: an MMIO write of %#x came, want %#x", w.at, binary.LittleEndian.Uint32(b), x.version)
	case !register:
		w.check(x, q, b)
	}
	x.next, x.done, x.left = x.next+n, x.done+n, x.left-n
	if x.left == 0 {
		w.sent[q] = w.sent[q][1:]
		w.session(session).came[q]++
	}
}

// check checks the content of a frame of an L1 write.
func (w *writer) check(x *written, q int, b []byte) {
	s := w.load.s
	v := binary.LittleEndian.Uint32(b)
	for at := 0; at < len(b); at += wire.WriteUnit {
		got := [4]uint32{}
		for i := range got {
			got[i] = binary.LittleEndian.Uint32(b[at+4*i:])
		}
		if want := [4]uint32{v, uint32(q), uint32(x.slot), (x.done + uint32(at)) / wire.WriteUnit}; got != want {
			s.fail("writes", "%s: the words at %d of a frame are %v, want %v", w.at, at, got, want)
			return
		}
	}
	vs := *x.source
	if v < x.version || int(v) > len(vs) || vs[v-1].from > s.now || int(v) < len(vs) && vs[v].from < x.began {
		s.fail("writes", "%s: a frame has version %d of its source, want one from %d to %d", w.at, v, x.version, len(vs))
	}
	if v != x.version {
		w.load.changed++
	}
}

// event compares the end of a session with the commands of the session.
func (l *writeLoad) event(m *machine, e chip.Event) {
	w := l.ends[e.Local]
	if w == nil || e.Link.Kind == 0 {
		return
	}
	switch e.Link.Kind {
	case ttlink.EventUp:
		l.retrains++
	case ttlink.EventSessionEnded:
		x := w.session(e.Link.Session)
		for q, n := range e.Link.UnknownWrites {
			w.unknown[q] += uint64(n)
			l.unknown += n
			if w.chip == m.chip && (n > x.started[q] || x.started[q]-n > x.came[q]) {
				l.s.fail("writes", "%s: %d of %d commands of queue %d are of unknown fate, and %d have come", w.at, n, x.started[q], q, x.came[q])
			}
		}
		x.started = [wire.NumQueues]int{} // the other end may yet receive frames, until it ends its session
	}
	if m.chip != nil && w.chip == m.chip && w.link().Link.Path != ttlink.Own {
		l.fallback++
	}
}

// final checks the counters of all links at rest.
func (l *writeLoad) final() {
	for _, w := range l.ends {
		if w.chip != w.m.chip {
			continue // the chip started no command
		}
		p := w.link()
		for q, c := range p.Frames.Writes {
			if c.Started != uint64(w.started[q]) || c.Unknown != w.unknown[q] || c.Acked+c.Unknown != c.Started {
				l.s.fail("writes", "%s queue %d: %+v, want %d started and %d of unknown fate", w.at, q, c, w.started[q], w.unknown[q])
			}
		}
		for q := range w.sent {
			for _, x := range w.sent[q] {
				if x.session == p.Link.Session {
					l.s.fail("writes", "%s queue %d: a command of the present session has not come", w.at, q)
				}
			}
		}
	}
}

// runWrites runs a seed with L1 writes, MMIO writes and fabric packets, under faults of all kinds.
func runWrites(t testing.TB, seed uint64) (*writeLoad, *Sim) {
	s, err := newSim(Config{Topology: topology(t, "t3000"), Seed: seed, Quick: true})
	if err != nil {
		t.Fatal(err)
	}
	s.around.dark, s.around.untold = seed%3 == 0, seed%2 == 1
	l := newWriteLoad(s)
	s.begin()
	s.after(startSpan, l.step)
	faultsEnd := s.now.Add(time.Second + s.span(time.Second))
	s.drawPlan(faultsEnd)
	s.drawLoad(faultsEnd)
	if seed%2 == 0 {
		f := s.restart()
		s.at(mono.Time(300*time.Millisecond), func() { s.happen(f.what, f.begin) })
		s.at(mono.Time(300*time.Millisecond).Add(f.last), func() { s.happen("over: "+f.what, f.end) })
	}
	s.runUntil(faultsEnd, func() bool { return false })
	s.heal()
	if !s.runUntil(s.now.Add(SettleTime), s.atRest) {
		s.fail("progress", "%s", s.unrest())
	}
	s.provePairs()
	s.finalChecks()
	l.final()
	return l, s
}

// TestWrites runs random L1 writes and MMIO writes beside fabric packets, under faults of all kinds, and checks
// what arrives; see writeLoad. A seed must repeat.
func TestWrites(t *testing.T) {
	var sum writeLoad
	restarts, resent := 0, uint64(0)
	n := cmp.Or(*flagSeeds, many(12, 120))
	for seed := *flagFirst; seed < *flagFirst+uint64(n); seed++ {
		l, s := runWrites(t, seed)
		if s.failure != nil {
			t.Errorf("%v\n%v", s.failure, s.failure.Plan)
			continue
		}
		sum.commands, sum.frames, sum.changed, sum.unknown, sum.missing = sum.commands+l.commands, sum.frames+l.frames, sum.changed+l.changed, sum.unknown+l.unknown, sum.missing+l.missing
		sum.fallback, sum.retrains, restarts = sum.fallback+l.fallback, sum.retrains+l.retrains, restarts+s.report.Starts
		for _, m := range s.machines {
			for _, p := range m.chip.Status().Ports {
				resent += p.Frames.Retransmitted
			}
		}
		if seed == *flagFirst {
			if again, r := runWrites(t, seed); r.hash != s.hash || again.frames != l.frames {
				t.Errorf("seed %d does not repeat", seed)
			}
		}
	}
	text := fmt.Sprintf("%d commands, %d frames, %d of them with a source that had changed; %d commands of unknown fate, %d that did not come; %d links came up, %d events by another cable, %d restarts, %d frames sent again",
		sum.commands, sum.frames, sum.changed, sum.unknown, sum.missing, sum.retrains, sum.fallback, restarts, resent)
	t.Log(text)
	if n >= 12 && (sum.changed == 0 || sum.unknown == 0 || sum.missing == 0 || sum.fallback == 0 || restarts == 0 || resent == 0) {
		t.Errorf("something never happened: %s", text)
	}
}
