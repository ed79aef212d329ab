package ttlink

import (
	"fmt"
	"time"

	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Frame size: how long frames may be that a path carries, where nobody says.
//
// A path may swallow long frames and carry short ones without a word: a router
// that drops what is beyond its next link's MTU, and whose complaint is
// filtered. Only frames tell (RFC 8899, RFC 4821). An answer is never longer than its
// question, so an answered question proves the path both ways at the answer's length.
//
// While a link trains, its hellos are as long as the longest frame that it
// sends. From the training's [sizeAfter]-th on, each is followed by a short
// one. Both suffer the same from loss, and only the long one from a narrow
// path: so when [sizeProofs] short ones have been answered in a training and no
// long one, the path is taken for narrow, which by loss alone, however high,
// happens once in 2^sizeProofs; where a session ends for it, once in 2^[sizeSure].
// The link then comes up with the longest that was answered.
//
// Long hellos fill a slow path, and a queue before it with what nobody waits
// for any more. So a training without an answer sends them ever more rarely, from the
// [sizeOften]-th on, and knocks meanwhile. A knock that is answered soon has a
// long one follow: somebody is there, and no queue before him. Whoever hears a
// knock after a silence begins anew.
//
// A link that is up with shorter frames than both ends take asks with longer
// hellos for what more there is: at first for the longest, then in halves between what
// passes and what does not; and again later, as paths change.

// Limits of the search for the frame size. They are our own choices unless a source is named.
const (
	sizeAfter  = 3                      // hellos of a training without a proof, before short ones go along
	sizeProofs = 8                      // short ones that are answered while no long one is, that tell a narrow path
	sizeSure   = 16                     // the same where frames are under way that are cut longer
	sizeTries  = 6                      // questions of one length, until it counts as swallowed; RFC 8899 §5.1.2 has 3, for less loss
	sizeOften  = 4                      // hellos of a training, before most are knocks
	sizeRare   = 8 * time.Second        // longest time between two that are none
	sizeGap    = 20 * time.Millisecond  // until the second question of one length; doubles, and is a timeout at least
	sizeFirst  = 500 * time.Millisecond // from coming up to the first search
	sizeAgain  = 30 * time.Second       // from the first search to the next; doubles
	sizeMost   = 10 * time.Minute       // and is never longer: PMTU_RAISE_TIMER of RFC 8899 §5.1.1
)

// shortSizes are the padded payloads of short hellos, in turn: within 1280
// bytes of IPv6 (RFC 8200 §5), within 576 of IPv4 (RFC 791), with room for seal
// and tunnel, and about the least that holds a hello of all virtual channels.
var shortSizes = [...]int{1152, 480, 192}

// knockSize is the padded payload of a knock: it holds any hello, and is not
// one of the short ones, as its answer tells nothing of long ones.
const knockSize = 160

// sizing is what a link knows of the lengths that its path carries.
//
// Invariant: while searching is set, what passes < asks ≤ high, and asks ≤ the link's own limit.
type sizing struct {
	tries  int           // hellos of this training since something was heard after a silence
	knock  bool          // those that are due are knocks
	longAt mono.Time     // when the next is due that is none
	rare   time.Duration // between two of those
	brief  pathSet       // paths that a short hello is due on
	turn   int           // of shortSizes
	short  bool          // a hello shorter than the longest was sent under the training's number: only answers prove
	passed int           // longest short hello that was answered in this training
	proofs int           // short hellos that were answered in this training
	proof  uint64        // stamp of the newest of them
	most   int           // the peer's own limit
	told   int           // frame size that was last told of; 0: the longest

	searching bool
	asks      int           // padded payload that is asked for
	high      int           // longest that may pass
	asked     int           // times
	due       bool          // a question is to be sent
	at        mono.Time     // of the next question, or of the next search
	wait      time.Duration // between two searches
}

// train begins to count anew, as a training does.
func (s *sizing) train() {
	*s = sizing{turn: s.turn, most: s.most, told: s.told}
}

// want is the longest frame payload that both ends take.
func (l *Link) want() int { return min(l.payload, l.size.most) }

// passes reports whether a hello that proves the path proves it for frames that
// are long enough to come up with, and how long they may be.
func (l *Link) passes(f *wire.Frame, h *wire.Hello) (int, bool) {
	s := &l.size
	want := min(l.payload, int(h.MaxPayload))
	answer := h.EchoStamp != 0
	switch {
	case h.Up && !answer && f.Padded != 0 && f.Session == wire.NewSessionID(l.cfg.Local, l.cfg.Incarnation, l.cfg.Peer, h.Incarnation):
		n := min(f.Padded, want) // the peer, which has tried as well, has come up with that
		return n, s.proofs >= sizeSure || !l.cutWider(h, n)
	case s.short && !answer:
		return 0, false // the peer may have heard no more than the short ones
	case f.Padded == 0 || f.Padded >= want: // a peer that does not pad says nothing of the path
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

// cutWider reports whether coming up with frames of n bytes ends the session
// that h is of: it holds longer ones.
func (l *Link) cutWider(h *wire.Hello, n int) bool {
	return l.sess.id != 0 && h.Incarnation == l.sess.peer && l.tx.widest() > n
}

// tickTraining decides what the hellos that are due are: long ones, each
// followed by a short one after the first few, or knocks.
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

// heard notes that a hello of the peer came that echoes this end, so that
// it is not forged blindly. After a silence, one shorter than the longest may
// be a knock, or the answer to one: hellos of this end follow at once, and often.
func (l *Link) heard(now mono.Time, room, want int) {
	last := max(l.train.heardAt, l.since)
	l.train.heardAt = now
	if l.state == StateTraining && room < want && now.Sub(last) > 2*l.cfg.Profile.HelloMax {
		l.size.tries, l.size.knock, l.size.longAt, l.size.rare = 0, false, 0, 0
		l.restartHellos(now)
	}
}

// settle takes the frame size with which the link comes up.
func (l *Link) settle(now mono.Time, n int, h *wire.Hello) {
	s := &l.size
	l.agreed, s.most = n, int(h.MaxPayload)
	s.searching, s.due, s.brief, s.wait = false, false, 0, 0
	if n < l.want() {
		s.at = now.Add(l.jitter(sizeFirst))
	}
	l.tellSize(now)
}

// tellSize reports that frames are shorter than both ends take, or no longer so.
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

// SizeReport says in words what an [EventNarrow] or [EventWide] is about.
func (e *Event) SizeReport() string {
	text := fmt.Sprintf("%s to %d bytes of payload", e.Kind, e.Size)
	if e.Size < e.SizeWanted {
		text += fmt.Sprintf(" of %d: larger ones do not get through", e.SizeWanted)
	}
	return text
}

// sizeDeadline is when [Link.tickSize] has something to do.
func (l *Link) sizeDeadline() mono.Time {
	if l.state != StateUp || !l.sess.confirmed || l.agreed >= l.want() {
		return mono.Never
	}
	return l.size.at
}

// tickSize asks for longer frames.
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

// halve chooses the next length between what passes and what does not; where none is left, the search is over.
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

// answered takes the answer of the peer of a link that is up to a hello of this end's.
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

// pollSize returns the question that the search wants to be sent.
func (l *Link) pollSize(now mono.Time) (Transmit, bool) {
	s := &l.size
	if !s.due || l.state != StateUp {
		return Transmit{}, false
	}
	s.due, s.short = false, true
	return l.hello(now, l.paths.now, echo{l.sess.peer, l.sess.training, 0}, true, s.asks), true
}

// pollShort returns the short hello that follows a long one.
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
