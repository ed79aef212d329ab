package ttlink

import (
	"math/rand/v2"
	"time"

	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Link is one end of a cable. See the package documentation for the order of calls. A Link is not
// safe for concurrent use. The chip owns it.
type Link struct {
	cfg      Config
	rng      *rand.Rand
	now      mono.Time // latest instant that a caller has passed in
	state    State
	since    mono.Time
	payload  int // this end's limit of the frame payload; applies from the next training on
	agreed   int // frame payload that both ends and the path take; 0 before the first training
	train    training
	size     sizing
	paths    paths
	sess     session
	tx       sender
	rx       receiver
	rtt      rttEstimate
	events   events
	counters Counters
	books    books
	stalled  mono.Time // when the owner's loop went on after a stall

	history history
	damping damping

	closePending bool
	control      [wire.FrameOverhead + wire.FullHelloLen]byte // the last control frame that the link handed out
	long         []byte                                       // the last control frame that does not fit into control: a padded hello; nil once the link is up
}

// session holds what this end knows about the incarnation at the other end.
type session struct {
	id        wire.SessionID // 0: none yet
	peer      wire.Incarnation
	training  uint32 // newest number of the peer's training
	slots     [wire.NumVCs]uint16
	confirmed bool // the peer has shown that it is up in this session since this end came up
	life      mono.Time
	ended     [endedRemember]wire.Incarnation // incarnations that the link never accepts again, because their sequence numbers are used up
	endedNext int
}

// New returns a link with its path off. The error names the bad value.
func New(cfg Config) (*Link, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	l := &Link{cfg: cfg, rng: rand.New(rand.NewPCG(cfg.Seed, uint64(cfg.Incarnation))), payload: cfg.MaxPayload}
	l.train.number, l.tx.flight = 1, MaxFrames
	l.train.answers.tokens = answerBurst
	l.train.strangers.tokens = answerBurst
	return l, nil
}

// HandleDatagram takes one datagram that holds exactly one frame. If the frame is the next piece of
// a packet, HandleDatagram returns the piece. The piece is a view into b. The owner may reuse b
// once the owner has consumed the piece. If b is faulty in any way, HandleDatagram counts the fault
// and does nothing else.
func (l *Link) HandleDatagram(now mono.Time, b []byte) (Delivery, bool) {
	return l.HandleVia(now, Own, b)
}

// HandleVia does the same as [Link.HandleDatagram] for a datagram that came by the cable of another
// link, see [Link.SetAlternate].
func (l *Link) HandleVia(now mono.Time, p Path, b []byte) (Delivery, bool) {
	l.now = now
	var f wire.Frame
	if err := f.Decode(b); err != nil {
		fault, _ := err.(wire.FrameFault)
		l.counters.Faults[fault]++
		if fault == wire.FaultVersion && l.state == StateTraining {
			l.incompatible(MismatchVersion)
		}
		return Delivery{}, false
	}
	l.counters.FramesReceived++
	l.counters.BytesReceived += uint64(len(b))
	switch f.Kind {
	case wire.KindHello:
		l.handleHello(now, p, &f)
	case wire.KindRaw:
		l.counters.Raw++
	case wire.KindData:
		if l.ofSession(now, p, &f) {
			return l.handleData(now, &f)
		}
	case wire.KindUpdate:
		if l.ofSession(now, p, &f) {
			l.handleUpdate(now, &f)
		}
	case wire.KindClose:
		if l.ofSession(now, p, &f) {
			l.goDown(now, DownPeerClosed)
		}
	}
	return Delivery{}, false
}

// ofSession reports whether f is a frame of the running session for this port. ofSession counts
// such a frame as a sign of life.
func (l *Link) ofSession(now mono.Time, p Path, f *wire.Frame) bool {
	switch {
	case l.sess.id == 0 || f.Session != l.sess.id:
		l.counters.StaleSession++
		return false
	case f.Channel != l.cfg.Local.Channel:
		l.counters.WrongChannel++
		return false
	case l.state != StateUp:
		l.counters.NotUp++
		return false
	case !l.paths.takes(p):
		l.counters.WrongPath++
		return false
	}
	l.sess.life = now
	l.sess.confirmed = true
	return true
}

// SetPath switches the path on or off. The path is on while the peer's address is known. While the
// path is off, the link neither sends nor takes frames.
func (l *Link) SetPath(now mono.Time, on bool) {
	l.now = now
	switch {
	case on && l.state == StateOff:
		l.setState(now, StateTraining)
		l.train.heardPeer = false
		l.size.train()
		l.restartHellos(now)
	case !on && l.state == StateUp:
		l.goDown(now, DownPathOff)
		l.setState(now, StateOff)
	case !on && l.state == StateTraining:
		l.setState(now, StateOff)
	}
}

// SetMaxPayload changes the largest padded frame payload that the path takes, in bytes. A smaller
// limit applies at once. A larger limit applies once the link has seen that the path carries such
// frames. If unacknowledged frames are longer than a smaller limit, the session ends: see
// [EventSessionEnded]. For a bad size, SetMaxPayload returns an error.
func (l *Link) SetMaxPayload(now mono.Time, n int) error {
	l.now = now
	if err := checkPayload(n); err != nil {
		return err
	}
	l.payload = n
	l.agreed = min(l.agreed, n)
	l.size.searching, l.size.due = false, false
	if l.size.told >= n {
		l.size.told = 0
	}
	if l.state == StateUp && l.tx.widest() > n {
		l.goDown(now, DownPathNarrow)
	}
	return nil
}

// Close ends this end of the link for good. Close queues a frame that tells the peer. The owner
// fetches that frame with [Link.PollTransmit].
func (l *Link) Close(now mono.Time) {
	l.now = now
	if l.state == StateClosed {
		return
	}
	if l.state == StateUp {
		l.closePending = true
		l.goDown(now, DownClosed)
	}
	l.damping.until = 0
	l.setState(now, StateClosed)
	l.tx.abandon()
}

// HasEvent reports whether [Link.PollEvent] would return an event.
func (l *Link) HasEvent() bool { return l.events.n > 0 }

// PollEvent returns the oldest event that has not been fetched.
func (l *Link) PollEvent() (Event, bool) { return l.events.pop() }

// Counters returns the counters.
func (l *Link) Counters() Counters {
	c, t := l.counters, l.books.all.Total()
	c.PacketsSent, c.PacketsReceived = t.Sent, t.Received
	c.EventsDropped = l.events.dropped
	return c
}

// Credits returns the number of packets that the peer has room for on vc now, whether the link is
// up or not.
func (l *Link) Credits(vc wire.VC) int { return int(int32(l.tx.limit[vc] - l.tx.sent[vc])) }

// Status returns the state of the link.
func (l *Link) Status() Status {
	s := Status{
		State: l.state, Since: l.since, Confirmed: l.state == StateUp && l.sess.confirmed,
		Session: l.sess.id, PeerIncarnation: l.sess.peer, Training: l.train.number,
		Retrains: l.history.retrains, LastRetrain: l.history.lastRetrain, LastDown: l.history.lastDown,
		FirstUp: l.history.firstUp, DownSince: l.history.downSince, Uptime: l.history.uptime, Downtime: l.history.downtime,
		Phase: l.phase(), Train: l.trainStatus(), Flaps: l.damping.flaps, HeldUntil: l.holdEnd(),
		RTT: l.rtt.smoothed, MaxPayload: l.agreed, PayloadWanted: l.want(),
		WindowUsed: l.tx.slab.used, Unacked: l.tx.slab.count,
		Miswired: l.train.miswired, Found: l.train.found.port, Path: l.paths.now,
		OwnCarries: l.paths.carries, OwnSince: l.paths.since,
	}
	for v := range wire.NumVCs {
		s.Credits[v] = l.Credits(wire.VC(v))
		s.PeerSlots[v] = int(l.sess.slots[v])
		s.Occupied[v] = l.rx.occupied(v)
	}
	return s
}

func (l *Link) setState(now mono.Time, s State) {
	l.state, l.since = s, now
}

// jitter returns d made longer or shorter by up to a quarter, evenly distributed. With jitter,
// links that start together do not stay in step.
func (l *Link) jitter(d time.Duration) time.Duration {
	return d*3/4 + time.Duration(l.rng.Int64N(int64(d)/2+1))
}
