package ttlink

import (
	"math/rand/v2"
	"time"

	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Link is the protocol machine at one end of a cable. The package documentation describes the order
// of calls. A Link is not safe for concurrent use.
type Link struct {
	cfg      Config
	rng      *rand.Rand
	now      mono.Time // latest instant that a caller has passed to a method
	state    State
	since    mono.Time
	payload  int // largest frame payload that this end takes, in bytes
	agreed   int // largest frame payload in use, in bytes; 0 before the link first comes up
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
	stalled  mono.Time // when the owner's loop last continued after a stall

	history history
	damping damping

	writes writes
	unnumbered
}

// unnumbered holds the frames without a number that PollTransmit returns.
type unnumbered struct {
	closePending bool
	control      [wire.FrameOverhead + wire.FullHelloLen]byte // buffer of the last control frame that PollTransmit returned
	long         []byte                                       // buffer of the last control frame if the frame is a padded hello that does not fit into control; otherwise nil
}

// session holds what this end knows about the incarnation at the other end.
type session struct {
	id        wire.SessionID // 0: there is no session
	peer      wire.Incarnation
	last      wire.Incarnation // the peer of this session, or of the session before; 0: there was no session yet
	training  uint32           // newest training number of the peer
	slots     [wire.NumVCs]uint16
	confirmed bool                            // since this end came up, the peer has shown that the peer's end is up too
	life      mono.Time                       // when a frame of the session last came from the peer; stalls of the owner's loop move this time forward
	refused   mono.Time                       // time of the first refusal of a datagram by a host since the last frame of the peer; 0: never
	asked     mono.Time                       // when this end last asked the silent peer for a frame
	dry       mono.Time                       // last time at which this end had no credit for a packet, or at which the peer used its last credit; 0: never in this session
	late      time.Duration                   // how much longer than usual the link waits for a silent peer, because the owner's loop was stalled; at most DeadIdle
	forgiven  time.Duration                   // the length of the stalls that moved "life" forward since the last frame of the peer
	lateAt    mono.Time                       // end of the latest stall that the link did not count as silence
	ended     [endedRemember]wire.Incarnation // the last replaced incarnations of the peer; the link refuses their frames
	endedNext int
}

// New returns a link in the state [StateOff]. If a value of cfg is out of range, the error names
// the value.
func New(cfg Config) (*Link, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	l := &Link{cfg: cfg, rng: rand.New(rand.NewPCG(cfg.Seed, uint64(cfg.Incarnation))), payload: cfg.MaxPayload}
	l.train.number, l.tx.flight = 1, MaxFrames
	l.train.answers.tokens = answerBurst
	l.train.strangers.tokens = answerBurst
	for q := range l.writes.most {
		l.writes.most[q] = DefaultMaxPacket
	}
	return l, nil
}

// HandleDatagram processes a datagram b that came by the link's own cable. If the datagram holds
// the next piece of a packet, or the next L1 or MMIO write, HandleDatagram returns the piece or the
// write, and true. The bytes of the piece lie in b, so the owner must use the piece before the
// owner reuses b. If b is not exactly one valid frame, HandleDatagram only counts the fault. If b
// has another version of the frame format, a link that trains may also queue an
// [EventIncompatible].
func (l *Link) HandleDatagram(now mono.Time, b []byte) (Delivery, bool) {
	return l.HandleVia(now, Own, b)
}

// HandleVia processes a datagram that came by the path p, like [Link.HandleDatagram]. The path p
// may be a fallback path (see [Link.SetAlternate]).
func (l *Link) HandleVia(now mono.Time, p Path, b []byte) (Delivery, bool) {
	l.now = now
	var f wire.Frame
	if err := f.Decode(b); err != nil {
		fault, _ := err.(wire.FrameFault)
		l.counters.Faults[fault]++
		if fault == wire.FaultVersion && l.state == StateTraining {
			if wire.IsRaw(b) {
				l.incompatible(MismatchMode)
			} else {
				l.incompatible(MismatchVersion)
			}
		}
		return Delivery{}, false
	}
	l.counters.FramesReceived++
	l.counters.BytesReceived += uint64(len(b))
	l.assess(now)
	switch f.Kind {
	case wire.KindHello:
		l.handleHello(now, p, &f)
	case wire.KindData, wire.KindWrite, wire.KindMMIO:
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

// ofSession reports whether f is a frame of the running session for this port that came by an
// accepted path. If the result is true, ofSession also notes that the peer is alive. If the result
// is false, ofSession also counts the reason.
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
	l.alive(now)
	l.sess.confirmed = true
	if p == Own && l.paths.now != Own {
		l.damping.peerOwn = true
	}
	return true
}

// SetPath tells the link whether the peer's address is known. If "on" is true, a link that is off
// begins to train. If "on" is false, the link goes to the state [StateOff], in which it sends no
// frames and drops received frames. A closed link stays closed.
func (l *Link) SetPath(now mono.Time, on bool) { l.setPath(now, on, DownPathOff) }

// Leave takes the link to the state [StateOff], like SetPath with false, because the owner puts the
// port into compliance mode. A call of SetPath with true makes the link train again.
func (l *Link) Leave(now mono.Time) { l.setPath(now, false, DownCompliance) }

// setPath performs SetPath and Leave. The argument "why" is the reason if the link goes down.
func (l *Link) setPath(now mono.Time, on bool, why DownReason) {
	l.now = now
	switch {
	case on && l.state == StateOff:
		l.setState(now, StateTraining)
		l.train.heardPeer = false
		l.size.train()
		l.restartHellos(now)
	case !on && l.state == StateUp:
		l.goDown(now, why)
		l.setState(now, StateOff)
	case !on && l.state == StateTraining:
		l.setState(now, StateOff)
	}
}

// SetMaxPayload changes the largest padded frame payload that the path takes, in bytes. The link
// obeys a smaller limit at once. The link uses longer frames only after an answered hello has shown
// that the path carries longer frames. If unacknowledged frames are longer than n, a link that is
// up goes down. The session then ends when the next hello proves the path (see
// [EventSessionEnded]). If n is out of range, SetMaxPayload returns an error.
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

// Close closes this end of the link for good, and drops the unacknowledged packets without an
// [EventSessionEnded]. If the link was up, the next [Link.PollTransmit] returns a close frame for
// the peer.
func (l *Link) Close(now mono.Time) {
	l.now = now
	if l.state == StateClosed {
		return
	}
	if l.state == StateUp {
		l.closePending = true
		l.goDown(now, DownClosed)
	}
	l.damping.until, l.damping.why = 0, HoldNone
	l.setState(now, StateClosed)
	l.tx.abandon()
	l.writes.abandon()
}

// HasEvent reports whether [Link.PollEvent] would return an event.
func (l *Link) HasEvent() bool { return l.events.n > 0 }

// PollEvent removes and returns the oldest event of the queue. If no event waits, PollEvent returns
// false.
func (l *Link) PollEvent() (Event, bool) { return l.events.pop() }

// Counters returns the link's counters since the link was made.
func (l *Link) Counters() Counters {
	c, t := l.counters, l.books.all.Total()
	c.PacketsSent, c.PacketsReceived = t.Sent, t.Received
	c.EventsDropped = l.events.dropped
	c.Writes = l.writes.count
	return c
}

// Credits returns the number of packets for which the peer has granted room on vc and which this
// end has not sent yet. The number stays valid while the link is down.
func (l *Link) Credits(vc wire.VC) int { return int(int32(l.tx.limit[vc] - l.tx.sent[vc])) }

// ShortOfCredits reports whether an end of the link has run out of credits within the last
// [CreditMemory]. This end ran out of credits if it had a packet and no credit for the packet. The
// peer ran out of credits, as far as this end knows, if it used the last credit that this end had
// granted. Without credits, one end waits for frames of the other end. Every delay of a frame at
// one end then lowers the goodput. Control channels, and channels with more than [FewSlots], do not
// count.
func (l *Link) ShortOfCredits(now mono.Time) bool {
	return l.state == StateUp && l.sess.dry != 0 && now.Sub(l.sess.dry) < CreditMemory
}

// ranDry notes that an end has run out of credits on vc, which has the given number of slots.
func (l *Link) ranDry(now mono.Time, vc wire.VC, slots int) {
	if slots > 0 && slots <= FewSlots && vc.Class() != wire.ClassControl {
		l.sess.dry = now
	}
}

// Status returns a copy of the state of the link.
func (l *Link) Status() Status {
	s := Status{
		State: l.state, Since: l.since, Confirmed: l.state == StateUp && l.sess.confirmed,
		Session: l.sess.id, PeerIncarnation: l.sess.peer, Training: l.train.number,
		Retrains: l.history.retrains, LastRetrain: l.history.lastRetrain, LastDown: l.history.lastDown,
		FirstUp: l.history.firstUp, DownSince: l.history.downSince, Uptime: l.history.uptime, Downtime: l.history.downtime,
		Phase: l.phase(), Train: l.trainStatus(), Cable: l.cable(),
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

// jitter returns a random time between 3/4 and 5/4 of d, evenly distributed. With jitter, links
// that start at the same time do not keep sending at the same times.
func (l *Link) jitter(d time.Duration) time.Duration {
	return d*3/4 + time.Duration(l.rng.Int64N(int64(d)/2+1))
}
