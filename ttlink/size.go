package ttlink

import (
	"fmt"
	"time"

	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// This file implements the search for the frame size. In this search, a link finds out the length
// of the longest frames that its path carries.
//
// A path may silently drop long frames and carry short frames. An example is a path with a small
// MTU on which a filter drops the routers' error messages. Only an attempt to send long frames
// shows whether the path carries them (RFC 8899, RFC 4821). In this file, a hello with WANT is
// called a question. A link never pads an answer beyond the length of its question. A padded answer
// therefore proves that the path carries frames as long as the answer in both directions.
//
// A training begins with long hellos, as long as the longest frame that this end takes. After the
// first [sizeAfter] hellos of a training, a short hello follows each long hello. Random loss hits
// both kinds alike, but a narrow path drops only the long hellos. If the peer has answered
// [sizeProofs] short hellos and no long hello, the link concludes that the path is narrow. The link
// then comes up with the longest size that the peer answered. Random loss alone causes this
// conclusion at most once in 2^sizeProofs trainings. If the conclusion would end a session, the
// link waits for [sizeSure] answered short hellos instead.
//
// Many long hellos would fill the queue of a slow path, and answers would come too late. After the
// first [sizeOften] hellos of a training, a link without any answer therefore sends long hellos
// more and more rarely. Between the long hellos, the link sends knocks. A knock is a very short
// hello. If the peer answers a knock soon, the path's queue is short, and the link sends a long
// hello at once. An end that trains and receives a knock after a silence also sends long hellos at
// once.
//
// A link may come up with shorter frames than both ends could take. Such a link sends longer hellos
// to find out whether the path carries longer frames. The first hello of this search has the
// longest size. If the path drops that size, the link finds the longest size that passes by binary
// search. The link searches again later, because paths change.

// Limits of the search for the frame size. A limit whose comment names no source is a choice of
// this project.
const (
	sizeAfter  = 3                      // number of hellos at the start of a training that no short hello follows
	sizeProofs = 8                      // this many answered short hellos without an answered long hello show that the path is narrow
	sizeSure   = 16                     // value instead of sizeProofs if the session holds frames that are too long for a narrow path
	sizeTries  = 6                      // unanswered questions of one length after which the link concludes that the path drops that length; RFC 8899 §5.1.2 has 3, for paths with less loss
	sizeOften  = 4                      // number of hellos at the start of a training, after which most hellos are knocks
	sizeRare   = 8 * time.Second        // longest time between two long hellos of a training
	sizeGap    = 20 * time.Millisecond  // smallest time between the first two questions of one length; the time is at least a retransmission timeout, and doubles after each question
	sizeFirst  = 500 * time.Millisecond // time between coming up and the first search
	sizeAgain  = 30 * time.Second       // time between the first two searches; the time doubles after each search
	sizeMost   = 10 * time.Minute       // longest time between two searches (PMTU_RAISE_TIMER of RFC 8899 §5.1.1)
)

// shortSizes are the padded payloads of short hellos, in bytes, in the order in which the link uses
// them. The first size fits into an IPv6 packet of 1280 bytes (RFC 8200 §5), with room for the
// headers of a seal and a tunnel. The second size fits into an IPv4 packet of 576 bytes (RFC 791),
// with the same room. The third size has room for a hello with all virtual channels.
var shortSizes = [...]int{1152, 480, 192}

// knockSize is the padded payload of a knock, in bytes. Every hello fits into this size. knockSize
// differs from all shortSizes, because an answer to a knock does not count as an answered short
// hello.
const knockSize = 160

// sizing holds the state of the search for the frame size.
//
// Invariant: while searching is true, Link.agreed < asks ≤ high, and asks ≤ Link.payload.
type sizing struct {
	tries  int           // number of periodic hellos after the first one of this training, or since a knock came after a silence
	knock  bool          // the periodic hellos that are due are knocks
	longAt mono.Time     // when the next long hello is due
	rare   time.Duration // time between two long hellos
	brief  pathSet       // paths on which a short hello is due
	turn   int           // index in shortSizes of the next short hello's size
	short  bool          // this end has sent a short hello since the training began; after that, only answers and padded hellos of a peer that is up prove the path
	passed int           // longest answer to a short hello of this training, in bytes of padded payload
	proofs int           // number of short hellos of this training that the peer answered
	proof  uint64        // stamp of the newest short hello that the peer answered
	most   int           // largest frame payload that the peer takes, in bytes
	told   int           // frame payload in the last event EventNarrow or EventWide; 0: the longest that both ends take

	searching bool
	asks      int           // padded payload of the present question, in bytes
	high      int           // longest payload that may still pass, in bytes
	asked     int           // number of questions of the length asks so far
	due       bool          // a question must be sent now
	at        mono.Time     // when the next question is due, or the next search begins
	wait      time.Duration // time between two searches
}

// train resets the state for a new training.
func (s *sizing) train() {
	*s = sizing{turn: s.turn, most: s.most, told: s.told}
}

// want returns the longest frame payload that both ends take, in bytes.
func (l *Link) want() int { return min(l.payload, l.size.most) }

// passes returns the longest frame payload with which the link may come up on the hello h, which
// proves the path. If the link must wait for further hellos, passes returns false.
func (l *Link) passes(f *wire.Frame, h *wire.Hello) (int, bool) {
	s := &l.size
	want := min(l.payload, int(h.MaxPayload))
	answer := h.EchoStamp != 0
	switch {
	case h.Up && !answer && f.Padded != 0 && f.Session == wire.NewSessionID(l.cfg.Local, l.cfg.Incarnation, l.cfg.Peer, h.Incarnation):
		n := min(f.Padded, want) // the peer is up, and has found out that frames of this size pass
		return n, s.proofs >= sizeSure || !l.cutWider(h, n)
	case s.short && !answer:
		return 0, false // perhaps only this end's short hellos reached the peer
	case f.Padded == 0 || f.Padded >= want: // hellos of a peer that does not pad show nothing about long frames
		return want, true
	case answer && l.state == StateTraining && f.Padded == knockSize:
		if l.now.Sub(stampTime(h.EchoStamp)) < l.cfg.Profile.HelloMax {
			s.longAt, l.train.helloAt = 0, l.now
		}
	case answer && l.state == StateTraining && h.EchoStamp > s.proof:
		s.proof = h.EchoStamp
		s.proofs++
		s.passed = max(s.passed, f.Padded)
	}
	n := min(s.passed, want)
	return n, s.proofs >= sizeSure || s.proofs >= sizeProofs && !l.cutWider(h, n)
}

// cutWider reports whether frame payloads of at most n bytes would end the link's session with the
// sender of h. When the link comes up, the link ends the session if the session holds longer
// unacknowledged frames.
func (l *Link) cutWider(h *wire.Hello, n int) bool {
	return l.sess.id != 0 && h.Incarnation == l.sess.peer && l.tx.widest() > n
}

// tickTraining decides whether the periodic hello that is due is a long hello or a knock, and
// whether a short hello follows.
func (l *Link) tickTraining(now mono.Time) {
	s := &l.size
	s.tries++
	s.knock = l.payload > knockSize && s.tries >= sizeOften && s.proofs == 0 && now.Before(s.longAt)
	if s.knock {
		return
	}
	if s.tries >= sizeAfter {
		s.brief = l.train.greet
	}
	if s.tries >= sizeOften {
		s.rare = min(max(l.cfg.Profile.HelloMax, 2*s.rare), sizeRare)
		s.longAt = now.Add(s.rare)
	}
}

// heard notes that a hello came that echoes this end's incarnation, so its sender can read this
// end's frames. If the hello came after a silence and is short, it may be a knock or the answer to
// a knock. If this end trains, it then sends a long hello at once, and continues as at the start of
// a training.
func (l *Link) heard(now mono.Time, room, want int) {
	last := max(l.train.heardAt, l.since)
	l.train.heardAt = now
	if l.state == StateTraining && room < want && now.Sub(last) > 2*l.cfg.Profile.HelloMax {
		l.size.tries, l.size.knock, l.size.longAt, l.size.rare = 0, false, 0, 0
		l.restartHellos(now)
	}
}

// settle sets the largest frame payload to n bytes when the link comes up on the hello h. If both
// ends take longer frames, settle also sets the time of the first search.
func (l *Link) settle(now mono.Time, n int, h *wire.Hello) {
	s := &l.size
	l.agreed, s.most = n, int(h.MaxPayload)
	s.searching, s.due, s.brief, s.wait = false, false, 0, 0
	if n < l.want() {
		s.at = now.Add(l.jitter(sizeFirst))
	}
	l.tellSize(now)
}

// tellSize queues an EventNarrow or EventWide if the largest frame payload has changed since the
// last such event.
func (l *Link) tellSize(now mono.Time) {
	n := l.agreed
	if n >= l.want() {
		n = 0
	}
	if n == l.size.told {
		return
	}
	kind := EventNarrow
	if n == 0 || l.size.told != 0 && n > l.size.told {
		kind = EventWide
	}
	l.size.told = n
	l.events.push(Event{Kind: kind, At: now, Session: l.sess.id, Retrains: l.history.retrains, Size: l.agreed, SizeWanted: l.want()})
}

// SizeReport describes an event of the kind [EventNarrow] or [EventWide] in words.
func (e *Event) SizeReport() string {
	text := fmt.Sprintf("%s to %d bytes of payload", e.Kind, e.Size)
	if e.Size < e.SizeWanted {
		text += fmt.Sprintf(" of %d: larger ones do not get through", e.SizeWanted)
	}
	return text
}

// sizeDeadline returns when the next call of [Link.tickSize] is due.
func (l *Link) sizeDeadline() mono.Time {
	if l.state != StateUp || !l.sess.confirmed || l.agreed >= l.want() {
		return mono.Never
	}
	return l.size.at
}

// tickSize begins a search or makes the next question due, if it is time.
func (l *Link) tickSize(now mono.Time) {
	s := &l.size
	if l.sizeDeadline() == mono.Never || now.Before(s.at) {
		return
	}
	switch {
	case !s.searching:
		s.searching, s.high = true, l.want()
		s.asks, s.asked = s.high, 0
	case s.asked >= sizeTries:
		s.high = s.asks - wire.PadUnit
		l.halve(now)
		if !s.searching {
			return
		}
	}
	s.due = true
	s.at = now.Add(l.jitter(max(sizeGap, l.rtt.timeout(&l.cfg.Profile, 0)) << s.asked))
	s.asked++
}

// halve chooses the length of the next question: the middle between the longest length that passes
// and the longest that may pass. If no longer length may pass, halve ends the search.
func (l *Link) halve(now mono.Time) {
	s := &l.size
	s.high = min(s.high, l.want())
	if l.agreed < s.high {
		s.asks, s.asked = (l.agreed+s.high+wire.PadUnit)/2/wire.PadUnit*wire.PadUnit, 0
		return
	}
	s.searching, s.due = false, false
	s.wait = min(max(sizeAgain, 2*s.wait), sizeMost)
	s.at = now.Add(l.jitter(s.wait))
	l.tellSize(now)
}

// answered uses the peer's answer to a hello of this end while the link is up. If the answer came
// by the path of the link's frames, and is longer than these frames, the link uses longer frames
// from now on.
func (l *Link) answered(now mono.Time, p Path, f *wire.Frame, h *wire.Hello) {
	s := &l.size
	s.most = int(h.MaxPayload)
	if p != l.paths.now || f.Padded <= l.agreed || f.Padded > l.payload {
		return
	}
	l.agreed = f.Padded
	if s.searching {
		s.at = now
		l.halve(now)
		return
	}
	l.tellSize(now)
}

// pollSize returns the question that is due. If no question is due, pollSize returns false.
func (l *Link) pollSize(now mono.Time) (Transmit, bool) {
	s := &l.size
	if !s.due || l.state != StateUp {
		return Transmit{}, false
	}
	s.due, s.short = false, true
	return l.hello(now, l.paths.now, echo{l.sess.peer, l.sess.training, 0}, true, s.asks), true
}

// pollShort returns the short hello that is due after a long hello. If no short hello is due,
// pollShort returns false.
func (l *Link) pollShort(now mono.Time, e echo) (Transmit, bool) {
	s := &l.size
	p, ok := s.brief.first()
	if !ok || l.state != StateTraining {
		return Transmit{}, false
	}
	s.brief.remove(p)
	n := shortSizes[s.turn%len(shortSizes)]
	if s.brief == 0 {
		s.turn++
	}
	if n >= l.payload {
		return Transmit{}, false
	}
	s.short = true
	return l.hello(now, p, e, true, n), true
}
