package ttlink

import (
	"fmt"
	"time"

	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// This file implements the search for the frame size: the link finds out how long frames may be on
// a path that nobody describes.
//
// A path may drop long frames and carry short frames without telling anybody. An example is a
// router that drops frames beyond its next link's MTU, and whose error messages are filtered. Only
// sending long frames shows whether the path carries them (RFC 8899, RFC 4821). A hello that asks
// for an answer is called a question here. An answer is never longer than its question. An answered
// question therefore proves the path both ways at the answer's length.
//
// While a link trains, its hellos are as long as the longest frame that it sends. From the
// [sizeAfter]-th hello of a training on, a short hello follows each long hello. Loss hits both
// kinds alike, but a narrow path drops only the long hellos. If the peer has answered [sizeProofs]
// short hellos and no long hello, the training takes the path for narrow. Loss alone, however high,
// leads to that result once in 2^sizeProofs trainings. If a narrow path would end a session, the
// training waits for [sizeSure] short hellos, and loss alone leads to the result once in 2^sizeSure
// trainings. The link then comes up with the longest size that the peer answered.
//
// Long hellos fill a slow path and its queue with frames that nobody waits for any more. From the
// [sizeOften]-th hello on, a training without an answer therefore sends long hellos more and more
// rarely. In between, the training sends knocks, which are very short hellos. If the peer answers a
// knock soon, the peer is there and no queue is in the way. A long hello then follows. An end that
// hears a knock after a silence begins this sequence anew.
//
// A link may be up with shorter frames than both ends take. Such a link sends longer hellos to find
// out which longer frames pass. The link first tries the longest size. The link then halves, again
// and again, the range between a size that passes and a size that does not pass. Since paths
// change, the link searches again later.

// Limits of the search for the frame size. Where a limit names no source, the limit is our own
// choice.
const (
	sizeAfter  = 3                      // hellos of a training without a proof, after which a short hello follows each long hello
	sizeProofs = 8                      // answered short hellos that show a narrow path while no long hello is answered
	sizeSure   = 16                     // answered short hellos that show a narrow path while longer frames are under way
	sizeTries  = 6                      // questions of one length before that length counts as dropped by the path; RFC 8899 §5.1.2 has 3, for less loss
	sizeOften  = 4                      // hellos of a training after which most hellos are knocks
	sizeRare   = 8 * time.Second        // longest time between two hellos that are not knocks
	sizeGap    = 20 * time.Millisecond  // time until the second question of one length; doubles with each question, and is at least a retransmission timeout
	sizeFirst  = 500 * time.Millisecond // time from coming up to the first search
	sizeAgain  = 30 * time.Second       // time from the first search to the second search; doubles with each search
	sizeMost   = 10 * time.Minute       // longest time between two searches: PMTU_RAISE_TIMER of RFC 8899 §5.1.1
)

// shortSizes are the padded payloads of short hellos, in bytes. The link sends the sizes in turn.
// The first size fits into 1280 bytes of IPv6 (RFC 8200 §5), the second into 576 bytes of IPv4 (RFC
// 791). Both leave room for a seal and a tunnel. The third size is about the smallest that holds a
// hello of all virtual channels.
var shortSizes = [...]int{1152, 480, 192}

// knockSize is the padded payload of a knock, in bytes. A knock has room for any hello. knockSize
// is not in shortSizes, since the answer to a knock tells nothing about long frames.
const knockSize = 160

// sizing holds what a link knows about the frame lengths that its path carries.
//
// Invariant: while a search runs, (size that passes) < asks ≤ high, and asks ≤ the link's own
// limit.
type sizing struct {
	tries  int           // hellos of this training since the link first heard a hello after a silence
	knock  bool          // the hellos that are due are knocks
	longAt mono.Time     // when the next hello that is not a knock is due
	rare   time.Duration // time between two hellos that are not knocks
	brief  pathSet       // paths on which a short hello is due
	turn   int           // index in shortSizes of the next short hello's size
	short  bool          // this training has sent a hello shorter than the longest frame; only answers prove the path then
	passed int           // longest short hello that the peer answered in this training
	proofs int           // short hellos that the peer answered in this training
	proof  uint64        // stamp of the newest answered short hello
	most   int           // the peer's own limit
	told   int           // frame size that the link last reported; 0: the longest

	searching bool
	asks      int           // padded payload of the question
	high      int           // longest payload that may pass
	asked     int           // questions of this length that the link has sent
	due       bool          // the link must send a question
	at        mono.Time     // time of the next question, or of the next search
	wait      time.Duration // time between two searches
}

// train resets the counts for a new training.
func (s *sizing) train() {
	*s = sizing{turn: s.turn, most: s.most, told: s.told}
}

// want returns the longest frame payload that both ends take.
func (l *Link) want() int { return min(l.payload, l.size.most) }

// passes reports whether a hello that proves the path proves the path for frames of a sufficient
// length. A link can come up with frames of that length. passes also returns how long the frames
// may be.
func (l *Link) passes(f *wire.Frame, h *wire.Hello) (int, bool) {
	s := &l.size
	want := min(l.payload, int(h.MaxPayload))
	answer := h.EchoStamp != 0
	switch {
	case h.Up && !answer && f.Padded != 0 && f.Session == wire.NewSessionID(l.cfg.Local, l.cfg.Incarnation, l.cfg.Peer, h.Incarnation):
		n := min(f.Padded, want) // the peer has searched too, and has come up with this size
		return n, s.proofs >= sizeSure || !l.cutWider(h, n)
	case s.short && !answer:
		return 0, false // the peer may have heard only the short hellos
	case f.Padded == 0 || f.Padded >= want: // a peer that does not pad its hellos tells nothing about the path
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

// cutWider reports whether coming up with frames of n bytes would end the session of h, because the
// session holds longer frames.
func (l *Link) cutWider(h *wire.Hello, n int) bool {
	return l.sess.id != 0 && h.Incarnation == l.sess.peer && l.tx.widest() > n
}

// tickTraining decides which kind of hello is due: a long hello or a knock. After the first few
// hellos, a short hello follows each long hello.
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

// heard notes that a hello of the peer came that echoes this end. A forger who sees no frames
// cannot send such a hello. After a silence, a hello shorter than the longest frame may be a knock,
// or the answer to a knock. This end then sends hellos at once, and often.
func (l *Link) heard(now mono.Time, room, want int) {
	last := max(l.train.heardAt, l.since)
	l.train.heardAt = now
	if l.state == StateTraining && room < want && now.Sub(last) > 2*l.cfg.Profile.HelloMax {
		l.size.tries, l.size.knock, l.size.longAt, l.size.rare = 0, false, 0, 0
		l.restartHellos(now)
	}
}

// settle sets the frame size with which the link comes up.
func (l *Link) settle(now mono.Time, n int, h *wire.Hello) {
	s := &l.size
	l.agreed, s.most = n, int(h.MaxPayload)
	s.searching, s.due, s.brief, s.wait = false, false, 0, 0
	if n < l.want() {
		s.at = now.Add(l.jitter(sizeFirst))
	}
	l.tellSize(now)
}

// tellSize reports when frames become shorter than both ends take, and when the frames become
// longer again.
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

// SizeReport describes in words an event of the kind [EventNarrow] or [EventWide].
func (e *Event) SizeReport() string {
	text := fmt.Sprintf("%s to %d bytes of payload", e.Kind, e.Size)
	if e.Size < e.SizeWanted {
		text += fmt.Sprintf(" of %d: larger ones do not get through", e.SizeWanted)
	}
	return text
}

// sizeDeadline returns when [Link.tickSize] next has something to do.
func (l *Link) sizeDeadline() mono.Time {
	if l.state != StateUp || !l.sess.confirmed || l.agreed >= l.want() {
		return mono.Never
	}
	return l.size.at
}

// tickSize runs the search: tickSize makes the next question for longer frames due.
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

// halve chooses the next length between the longest that passes and the shortest that does not. If
// no length is left between them, halve ends the search.
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

// answered takes the peer's answer to a hello of this end, while the link is up.
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

// pollSize returns the question that the search has made due.
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
