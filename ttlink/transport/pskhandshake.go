package transport

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// This file handles the handshakes in which the two ends of a cable agree on keys. The file
// pskwire.go describes the format and the steps of a handshake. A handshake has two messages:
//
//   - An ask is the message by which one end, the asker, begins a handshake.
//   - An answer is the message by which the other end, the answerer, replies to an ask.
//
// The bytes of the ask and of the answer determine the keys of one session. The asker puts the
// session into use when it receives the answer. The answerer puts the session into use when it
// receives a datagram that the asker sealed with the session's key. This datagram proves that the
// asker has the keys.

// Times and limits of the handshake.
const (
	pskRetryMin  = 50 * time.Millisecond // time between the first and the second sending of an ask; the time doubles after each further sending, up to pskRetryMax
	pskRetryMax  = time.Second           // longest time between two sendings of an ask
	pskSessions  = 4                     // largest number of sessions in use; the keys of each of these sessions open received datagrams
	pskPending   = 4                     // largest number of sessions whose asker has not yet proved that it has the keys
	pskBurst     = 8                     // largest number of answers that this end may send without a pause
	pskRefill    = 10 * time.Millisecond // after each pskRefill, this end may send one more answer; answers that it does not send add up to at most pskBurst
	pskUnknown   = time.Second           // shortest time between two asks that this end sends because of datagrams under unknown keys
	pskNoticeMax = 8                     // largest number of notices that wait to be passed to Cable.Tell; this end drops further notices
)

// pskHandshake holds the state of the handshakes of one end, "this end", with its peer.
type pskHandshake struct {
	k      *psk
	keys   pskKeys
	cable  Cable
	fabric [4]byte

	mu       sync.Mutex
	peer     netip.AddrPort // address of the peer; zero before SetPeer
	sessions []*pskSession  // sessions in use, the oldest first
	pending  []*pskSession  // sessions whose asker has not yet proved that it has the keys, the oldest first
	asking   bool           // this end waits for the answer to the message in the field "ask"
	ask      []byte         // the last ask that this end sent
	retry    time.Duration  // time from the last sending of the ask to the next sending
	timer    *time.Timer    // timer of the next sending of the ask
	tokens   int            // number of answers that this end may send now
	refilled time.Time      // time of the last increase of tokens
	asked    time.Time      // time at which "unknown" last called "begin"
	refused  string         // reason in the last notice of a refusal; "" after a successful handshake, and after a change of the peer's address
	notices  []Notice       // notices that wait to be passed to Cable.Tell, the oldest first
	closed   bool
}

func (h *pskHandshake) init(k *psk, keys pskKeys, c Cable, fabric [4]byte) {
	h.k, h.keys, h.cable, h.fabric, h.tokens = k, keys, c, fabric, pskBurst
}

// peerAt sets the address of the peer to a. If the address has changed, peerAt drops all sessions
// and begins a handshake. After close, peerAt does nothing.
func (h *pskHandshake) peerAt(a netip.AddrPort) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if a == h.peer || h.closed {
		return
	}
	h.peer, h.sessions, h.pending, h.asking, h.refused = a, nil, nil, false, ""
	h.k.current.Store(nil)
	h.begin()
}

// The method "close" ends the handshakes. This end sends no more asks and answers.
func (h *pskHandshake) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed, h.asking = true, false
	h.stop()
}

// The method "stop" stops the timer, so that this end does not repeat the ask.
func (h *pskHandshake) stop() {
	if h.timer != nil {
		h.timer.Stop()
	}
}

// The method "unkeyed" counts n datagrams that this end could not send because it has no keys.
// Before SetPeer, the method counts the datagrams as NoPeer instead.
func (h *pskHandshake) unkeyed(n uint64) {
	h.mu.Lock()
	known := h.peer.IsValid()
	h.mu.Unlock()
	if known {
		h.k.counts.unkeyed.Add(n)
	} else {
		h.k.counts.noPeer.Add(n)
	}
}

// The method "begin" sends an ask with a fresh nonce, unless this end already waits for an answer.
// Before SetPeer and after close, "begin" does nothing. The caller holds mu.
func (h *pskHandshake) begin() {
	if h.asking || h.closed || !h.peer.IsValid() {
		return
	}
	h.asking, h.retry = true, pskRetryMin
	h.ask = h.hello(pskAsk, nil)
	h.send(h.ask)
	h.stop()
	ask := h.ask
	h.timer = time.AfterFunc(h.retry, func() { h.again(ask) })
}

// The timer calls the method "again". If this end still waits for the answer to the message in the
// parameter "ask", the method sends the message again.
func (h *pskHandshake) again(ask []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.asking || h.closed || &h.ask[0] != &ask[0] {
		return
	}
	h.send(ask)
	h.retry = min(2*h.retry, pskRetryMax)
	h.timer.Reset(h.retry)
}

// The method "renew" sends an ask, so that the ends agree on new keys. If this end already waits
// for an answer, "renew" sends nothing.
func (h *pskHandshake) renew() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.begin()
}

// The caller calls the method "unknown" when a datagram came under an unknown key. The method sends
// an ask, unless this end already waits for an answer. If the method has called "begin" within the
// last pskUnknown, the method does nothing.
func (h *pskHandshake) unknown() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if now := time.Now(); now.Sub(h.asked) >= pskUnknown {
		h.asked = now
		h.begin()
	}
}

// The method "hello" returns the bytes of an ask or an answer with a fresh nonce. The parameter
// "kind" is pskAsk or pskAnswer. For an answer, the parameter "echo" is the nonce of the ask. For
// an ask, "echo" is nil.
func (h *pskHandshake) hello(kind byte, echo []byte) []byte {
	m := pskHello{kind: kind, fabric: h.fabric, from: h.cable.From, to: h.cable.To, incarnation: h.cable.Incarnation}
	rand.Read(m.nonce[:])
	copy(m.echo[:], echo)
	return m.appendTo(make([]byte, 0, pskHelloLen), h.keys.handshake)
}

// The method "send" sends one message to the peer.
func (h *pskHandshake) send(b []byte) { _, _ = h.k.Port.Send(b, len(b)) } // h.k.Port counts the datagrams that it cannot send

// The method "find" returns the session whose key id is id, or nil if there is no such session. The
// result "fresh" is true if the asker of the session has not proved yet that it has the keys.
func (h *pskHandshake) find(id uint32) (s *pskSession, fresh bool) {
	if c := h.k.current.Load(); c != nil && c.id == id {
		return c, false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.sessions {
		if s.id == id {
			return s, false
		}
	}
	for _, s := range h.pending {
		if s.id == id {
			return s, true
		}
	}
	return nil, false
}

// The method "handle" processes a received datagram that is not sealed: an ask, an answer, or an
// invalid datagram. Before SetPeer and after close, the method drops the datagram and does not
// count it.
func (h *pskHandshake) handle(d []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || !h.peer.IsValid() {
		return
	}
	c := &h.k.counts
	m, err := decodePSKHello(d, h.keys.handshake)
	switch {
	case err == errPSKMalformed:
		c.malformed.Add(1)
		if len(d) > 2 && d[0] == 'T' && d[1] == 'T' { // wire.Frame's magic
			c.plain.Add(1)
			h.refuse("the peer at %s sends frames without encryption: start the peer with --auth psk, too", h.peer)
		}
	case m.fabric != h.fabric:
		c.wrongPeer.Add(1)
		h.refuse("the peer at %s belongs to another fabric, and this end belongs to fabric %q", h.peer, h.cable.Fabric)
	case err != nil:
		c.wrongKey.Add(1)
		h.refuse("the peer at %s has another pre-shared key: give both ends the same --psk-file", h.peer)
	case m.from != h.cable.To || m.to != h.cable.From:
		c.wrongPeer.Add(1)
		h.refuse("the peer at %s is %s and expects a cable to %s, but this end is %s and expects a cable to %s", h.peer, m.from, m.to, h.cable.From, h.cable.To)
	case m.incarnation == h.cable.Incarnation: // this end's own ask or answer came back
		c.wrongPeer.Add(1)
	case m.kind == pskAsk:
		h.answer(&m, d)
	default:
		h.answered(&m, d)
	}
}

// The method "answer" handles the ask m. The parameter "ask" holds the bytes of m. If m has led to
// a session that is in use, or if this end may send no answer now, the method drops m. If this end
// has answered m before, the method sends the same answer again. Otherwise, the method sends a new
// answer and adds a session to pending. If pending already has pskPending sessions, the method
// drops the oldest of them. The caller holds mu.
func (h *pskHandshake) answer(m *pskHello, ask []byte) {
	for _, s := range h.sessions {
		if s.asked == m.nonce {
			h.k.counts.stale.Add(1)
			return
		}
	}
	now := time.Now()
	if n := int(now.Sub(h.refilled) / pskRefill); n > 0 {
		h.tokens, h.refilled = min(pskBurst, h.tokens+n), now
	}
	if h.tokens == 0 {
		h.k.counts.limited.Add(1)
		return
	}
	h.tokens--
	for _, s := range h.pending {
		if s.asked == m.nonce { // the peer has repeated its ask, because the answer was lost or is still under way
			h.send(s.answer)
			return
		}
	}
	answer := h.hello(pskAnswer, m.nonce[:])
	s, err := newPSKSession(&h.keys, bytes.Clone(ask), answer, false)
	if err != nil {
		h.refuse("this end cannot derive keys: %v", err)
		return
	}
	s.peer = uint64(m.incarnation)
	if len(h.pending) == pskPending {
		h.pending = slices.Delete(h.pending, 0, 1)
	}
	h.pending = append(h.pending, s)
	h.send(answer)
}

// The method "answered" handles the answer m. The parameter "answer" holds the bytes of m. If this
// end waits for an answer, and m answers the last ask, the method makes a session of the ask and
// the answer. Otherwise, the method drops m. The caller holds mu.
func (h *pskHandshake) answered(m *pskHello, answer []byte) {
	if !h.asking || !bytes.Equal(m.echo[:], h.ask[32:32+pskNonce]) {
		h.k.counts.stale.Add(1)
		return
	}
	s, err := newPSKSession(&h.keys, h.ask, answer, true)
	if err != nil {
		h.refuse("this end cannot derive keys: %v", err)
		return
	}
	s.peer = uint64(m.incarnation)
	h.adopt(s)
	// An empty sealed datagram proves to the answerer that this end has the keys. The datagram
	// needs a nonce buffer of its own, because a call of Send may be using k.tx.nonce at this time.
	var nonce [12]byte
	var b [PSKOverhead]byte
	counter := s.sent.Add(1) - 1
	putPSKHeader(b[:], s.id, counter)
	for i := range 8 {
		nonce[4+i] = byte(counter >> (8 * i))
	}
	h.send(s.seal.Seal(b[:pskHeader], nonce[:], nil, b[:pskHeader]))
}

// The method "proved" puts the session s into use, after the asker of s has proved that it has the
// keys.
func (h *pskHandshake) proved(s *pskSession) {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := slices.Index(h.pending, s)
	if i < 0 || h.closed {
		return // since the call of find, this end has dropped the session, or the port was closed
	}
	h.pending = slices.Delete(h.pending, i, i+1)
	h.adopt(s)
}

// The method "adopt" puts the session s into use. From now on, this end seals all datagrams with
// the key of s. The method drops all sessions with other incarnations of the peer. If pskSessions
// sessions are left, the method also drops the oldest of them. The caller holds mu.
func (h *pskHandshake) adopt(s *pskSession) {
	h.asking = false
	h.stop()
	other := func(o *pskSession) bool { return o.peer != s.peer }
	h.sessions, h.pending = slices.DeleteFunc(h.sessions, other), slices.DeleteFunc(h.pending, other)
	if len(h.sessions) == pskSessions {
		h.sessions = slices.Delete(h.sessions, 0, 1)
	}
	h.sessions = append(h.sessions, s)
	h.k.current.Store(s)
	h.k.counts.keyings.Add(1)
	h.refused = ""
	h.note(Notice{Ready: true})
}

// The method "refuse" adds a notice with the reason why this end refuses the peer. If the last
// notice of a refusal had the same reason, the method does nothing. After a successful handshake or
// a change of the peer's address, the method adds a notice even if the reason is the same. The
// caller holds mu.
func (h *pskHandshake) refuse(format string, a ...any) {
	if why := fmt.Sprintf(format, a...); why != h.refused {
		h.refused = why
		h.note(Notice{Refused: why})
	}
}

// The method "note" adds n to the notices that wait to be passed to Cable.Tell. If pskNoticeMax
// notices wait already, the method drops n.
func (h *pskHandshake) note(n Notice) {
	if len(h.notices) < pskNoticeMax {
		h.notices = append(h.notices, n)
	}
}

// The method "told" passes the notices that wait to Cable.Tell, the oldest first. During these
// calls, the method holds no lock.
func (h *pskHandshake) told() {
	h.mu.Lock()
	ns := h.notices
	h.notices = nil
	h.mu.Unlock()
	for _, n := range ns {
		h.cable.tell(n)
	}
}
