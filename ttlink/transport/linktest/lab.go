package linktest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ttfabric/ttlink"
	"ttfabric/ttlink/fault"
	"ttfabric/ttlink/transport"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// patience is the longest time for which the method "until" waits. The time suffices even on a busy
// machine.
const patience = 80 * time.Second

const (
	slots      = 16   // number of slots of the receiver channel on VCData
	maxPayload = 1408 // largest frame payload in the scenarios, in bytes
	header     = 16   // bytes at the start of a packet that give the sender's incarnation and the packet's number
)

// Carrier is a transport that carries frames between the two ends of a cable.
type Carrier struct {
	Name string
	// Open opens a port at the address 127.0.0.1. The port's own end c.From is [Lower] or [Upper].
	Open    func(t testing.TB, c transport.Cable) transport.Port
	Profile ttlink.Profile // times that links over the carrier use
	Silent  bool           // the carrier does not count the datagrams that it refuses
	Probes  bool           // the carrier itself measures how long datagrams may be
}

// The two ends of the scenarios' cable.
var (
	Lower = wire.PortID{Channel: 3}
	Upper = wire.PortID{Node: wire.FabricNodeID{Chip: 1}, Channel: 9}
)

// Fabric is the name of the fabric in the scenarios.
const Fabric = "lab"

// end is one incarnation of a chip at one end of the cable. An end has a link and a port, sends
// packets, and checks the packets that it receives.
type end struct {
	w     *lab
	i     int
	life  wire.Incarnation
	start time.Time

	mu     sync.Mutex
	link   *ttlink.Link
	port   transport.Port
	timer  *time.Timer
	dead   bool
	on     bool // the method "trains" has told the link that the path is usable
	size   int  // frame payload that the link was last told to use, in bytes
	toSend int
	sent   uint64 // packets sent so far; the number of the next packet
	ended  int    // sessions that have ended
	lost   int    // packets whose fate is unknown

	session wire.SessionID   // session of the last packet received
	from    wire.Incarnation // incarnation that sent the last packet received
	next    uint64           // number of the packet after the last packet received
	partial []byte
	hold    bool // the end frees no slots
	held    int
	bad     string // the first error found
}

// lab holds the two ends of a scenario, and the cable between them.
type lab struct {
	t      testing.TB
	c      Carrier
	rounds int
	cable  *cable
	ends   [2]*end
	lives  wire.Incarnation

	stood atomic.Int64 // longest stall of this process since the last try of calmly began, in nanoseconds

	mu   sync.Mutex
	came map[wire.Incarnation]uint64 // packets received, by the incarnation that sent them
}

func newLab(t testing.TB, c Carrier, seed uint64, rounds int, o fault.Options) *lab {
	w := &lab{t: t, c: c, rounds: rounds, cable: newCable(t, seed, o), lives: wire.Incarnation(seed*100 + 1), came: map[wire.Incarnation]uint64{}}
	over := make(chan struct{})
	go w.watch(over)
	t.Cleanup(func() {
		close(over)
		for _, e := range w.ends {
			if e != nil {
				e.stop()
			}
		}
	})
	for i := range w.ends {
		w.begin(i)
	}
	return w
}

// watch measures stalls: the times by which a goroutine of this process runs too late.
func (w *lab) watch(over <-chan struct{}) {
	const pulse = 2 * ms
	beat := time.NewTicker(pulse)
	defer beat.Stop()
	for last := time.Now(); ; {
		select {
		case <-over:
			return
		case <-beat.C:
		}
		now := time.Now()
		w.stood.Store(max(w.stood.Load(), int64(now.Sub(last)-pulse)))
		last = now
	}
}

// hands is the number of goroutines that must run before a frame is answered. These goroutines are
// a timer's goroutine and, in each direction, a goroutine of the relay and a goroutine that reads
// the port.
const hands = 5

// calmly runs try, which returns "" or the reason of a failure. A failure counts only if this
// process ran without long stalls. A stall may have caused the failure if the longest stall is at
// least DeadTraffic divided by hands. In this case, calmly calls try again, at most five times in
// all. If all five calls fail during stalls, calmly does not fail the test.
func (w *lab) calmly(try func() (bad string)) {
	w.t.Helper()
	for range 5 {
		w.stood.Store(0)
		bad := try()
		if bad == "" {
			return
		}
		stood := time.Duration(w.stood.Load())
		if stood < w.c.Profile.DeadTraffic/hands {
			w.t.Errorf("%s; the longest stall of this process was %v", bad, stood)
			return
		}
		w.t.Logf("this failure does not count, because this process was stalled for %v: %s", stood, bad)
	}
}

// begin starts a new incarnation of end i.
func (w *lab) begin(i int) {
	w.t.Helper()
	from, to := Lower, Upper
	if i == 1 {
		from, to = Upper, Lower
	}
	w.lives++
	l, err := ttlink.New(ttlink.Config{Local: from, Peer: to, Incarnation: w.lives, Fabric: 7, MaxPayload: 1152, Slots: [wire.NumVCs]int{slots, 5, 3},
		Seed: uint64(w.lives), Profile: w.c.Profile})
	if err != nil {
		w.t.Fatal(err)
	}
	e := &end{w: w, i: i, life: w.lives, start: time.Now(), link: l}
	e.timer = time.AfterFunc(time.Hour, func() { e.step(func(now mono.Time) { e.link.Tick(now) }) })
	e.port = w.c.Open(w.t, transport.Cable{Fabric: Fabric, From: from, To: to, Incarnation: w.lives, Tell: e.told})
	w.ends[i] = e
	w.cable.at(i, e.port.LocalAddr())
	e.meet()
	go e.read()
}

// meet gives the relay's address to the port as the peer, and makes the link train if the port can
// send.
func (e *end) meet() {
	if err := e.port.SetPeer(e.w.cable.addr(e.i)); err != nil {
		e.w.t.Fatal(err)
	}
	e.step(e.trains)
}

// told makes the link train when the port reports that keys are agreed.
func (e *end) told(n transport.Notice) {
	if n.Ready {
		e.step(e.trains)
	}
}

// trains makes the link train if the port is ready or needs no keys.
func (e *end) trains(now mono.Time) {
	if k, ok := e.port.(transport.Keyed); ok && !k.Ready() {
		return
	}
	e.resize(now)
	e.on = true
	e.link.SetPath(now, true)
}

func (e *end) stop() {
	e.mu.Lock()
	e.dead = true
	e.timer.Stop()
	e.mu.Unlock()
	e.port.Close()
}

func (e *end) read() {
	var b transport.Batch
	for e.port.Recv(&b) == nil {
		e.step(func(now mono.Time) {
			b.Each(func(d []byte) {
				if x, ok := e.link.HandleDatagram(now, d); ok {
					e.piece(&x)
				}
			})
		})
	}
}

// framePayload returns the size of the largest frame payload that the port takes, in bytes.
func (e *end) framePayload() int {
	return min((e.port.MaxDatagram()-wire.FrameOverhead)/wire.PadUnit*wire.PadUnit, maxPayload)
}

// resize tells the link the largest frame payload that the port takes.
func (e *end) resize(now mono.Time) {
	if n := e.framePayload(); n != e.size {
		e.size = n
		if err := e.link.SetMaxPayload(now, n); err != nil {
			e.wrong("%v", err)
		}
	}
}

// step calls f, which calls methods of the link. Then step sends the link's frames.
func (e *end) step(f func(now mono.Time)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.dead || e.port == nil {
		return
	}
	now := mono.Time(time.Since(e.start)) + 1
	f(now)
	for e.toSend > 0 && e.link.Send(now, wire.VCData, packet(e.life, e.sent)) {
		e.sent++
		e.toSend--
	}
	for v, ok := e.link.PollEvent(); ok; v, ok = e.link.PollEvent() {
		if v.Kind == ttlink.EventSessionEnded {
			e.ended++
			for _, n := range v.Unknown {
				e.lost += n
			}
		}
	}
	for t, ok := e.link.PollTransmit(now); ok; t, ok = e.link.PollTransmit(now) {
		if n, _ := e.port.Send(t.Data, t.Seg); n < len(t.Data)/t.Seg && e.on && e.framePayload() < e.size {
			e.resize(now)
		}
	}
	if at, ok := e.link.Deadline(); ok {
		e.timer.Reset(max(0, at.Sub(now)))
	}
}

func (e *end) wrong(format string, a ...any) {
	if e.bad == "" {
		e.bad = fmt.Sprintf(format, a...)
	}
}

// piece adds a received piece to the packet to which it belongs, and checks the packet when it is
// complete. Within a session, packets must come in order and without gaps. After a packet of a new
// incarnation, packets of earlier incarnations are an error.
func (e *end) piece(x *ttlink.Delivery) {
	if x.Offset == 0 {
		e.partial = e.partial[:0]
	}
	e.partial = append(e.partial, x.Data...)
	if !x.End {
		return
	}
	if len(e.partial) < header {
		e.wrong("a packet of %d bytes", len(e.partial))
		return
	}
	life, n := wire.Incarnation(binary.LittleEndian.Uint64(e.partial)), binary.LittleEndian.Uint64(e.partial[8:])
	session := e.link.Status().Session
	switch {
	case !bytes.Equal(e.partial, packet(life, n)):
		e.wrong("packet %d of incarnation %d is damaged", n, life)
	case life < e.from:
		e.wrong("packet %d of incarnation %d came after incarnation %d had begun", n, life, e.from)
	case life == e.from && (n < e.next || n > e.next && session == e.session):
		e.wrong("packet %d of incarnation %d came instead of packet %d", n, life, e.next)
	}
	e.session, e.from, e.next = session, life, n+1
	e.w.mu.Lock()
	e.w.came[life]++
	e.w.mu.Unlock()
	if e.hold {
		e.held++
	} else {
		e.link.Free(x.VC)
	}
}

// packet returns the n-th packet that an incarnation sends. The packet begins with both numbers,
// and its other bytes and its length depend on them.
func packet(life wire.Incarnation, n uint64) []byte {
	b := make([]byte, header+n*37%2000)
	for i := range b {
		b[i] = byte(n) ^ byte(life) ^ byte(i*3)
	}
	binary.LittleEndian.PutUint64(b, uint64(life))
	binary.LittleEndian.PutUint64(b[8:], n)
	return b
}

// load makes both ends send n more packets.
func (w *lab) load(n int) {
	for _, e := range w.ends {
		e.step(func(mono.Time) { e.toSend += n })
	}
}

// enough makes both ends send n more packets, instead of the packets that they still had to send.
func (w *lab) enough(n int) {
	for _, e := range w.ends {
		e.step(func(mono.Time) { e.toSend = n })
	}
}

// state is a copy of the state of one end, for checks and error messages.
type state struct {
	ttlink.Status
	counters     ttlink.Counters
	port         transport.Stats
	left         int
	sent, next   uint64
	life, from   wire.Incarnation
	ended, lost  int
	held, size   int
	bad          string
	cameFromHere uint64
}

func (e *end) look() state {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.w.mu.Lock()
	defer e.w.mu.Unlock()
	return state{e.link.Status(), e.link.Counters(), e.port.Stats(), e.toSend, e.sent, e.next, e.life, e.from, e.ended, e.lost, e.held, e.size, e.bad, e.w.came[e.life]}
}

func (w *lab) until(what string, f func(a, b state) bool) {
	w.t.Helper()
	for stop := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
		a, b := w.ends[0].look(), w.ends[1].look()
		if f(a, b) {
			return
		}
		if a.bad != "" || b.bad != "" || time.Now().After(stop) {
			w.t.Fatalf("not within %v: %s\n%+v\n%+v", patience, what, a, b)
		}
	}
}

// The method "up" waits until the link is up and confirmed at both ends.
func (w *lab) up() {
	w.t.Helper()
	w.until("the link is up", func(a, b state) bool { return a.Confirmed && b.Confirmed && a.Session == b.Session })
}

// The method "down" waits until both ends of the link are down.
func (w *lab) down() {
	w.t.Helper()
	w.until("both ends are down", func(a, b state) bool { return a.State != ttlink.StateUp && b.State != ttlink.StateUp })
}

// done waits until the last packet of each end has arrived. At most the given number of sessions
// may have ended at each end. A packet may be missing only if its sender reported its fate as
// unknown when a session ended.
func (w *lab) done(sessions int) {
	w.t.Helper()
	arrived := func(a, b state) bool { return a.left == 0 && (a.sent == 0 || b.from == a.life && b.next == a.sent) }
	w.until("the last packets have arrived", func(a, b state) bool { return arrived(a, b) && arrived(b, a) })
	for _, e := range w.ends {
		s := e.look()
		if s.bad != "" || s.ended > sessions || s.cameFromHere > s.sent || s.cameFromHere+uint64(s.lost) < s.sent || s.ended == 0 && s.lost > 0 {
			w.t.Errorf("end %d: %q; of %d packets, %d arrived and %d have an unknown fate; %d sessions ended\n%+v", e.i, s.bad, s.sent, s.cameFromHere, s.lost, s.ended, s)
		}
	}
}
