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

// Times and limits of the handshake.
const (
	pskRetryMin  = 50 * time.Millisecond // time between the first two sendings of an ask; the time doubles after each sending
	pskRetryMax  = time.Second           // longest time between two sendings of an ask
	pskSessions  = 4                     // largest number of sessions whose keys open received datagrams
	pskPending   = 4                     // largest number of sessions whose asker has not yet proved that it has the keys
	pskBurst     = 8                     // largest number of answers that this end sends in immediate succession
	pskRefill    = 10 * time.Millisecond // time after which this end may send one more answer
	pskUnknown   = time.Second           // shortest time between two asks that unknown keys cause
	pskNoticeMax = 8                     // largest number of notices that wait to be passed to Cable.Tell
)

// pskHandshake holds the state of an end's handshakes with its peer.
type pskHandshake struct {
	k      *psk
	keys   pskKeys
	cable  Cable
	fabric [4]byte

	mu       sync.Mutex
	peer     netip.AddrPort // address of the peer; zero before SetPeer
	sessions []*pskSession  // sessions in use, the oldest first
	pending  []*pskSession  // sessions whose asker has not yet proved that it has the keys, the oldest first
	asking   bool
	ask      []byte // the ask that the peer has not answered yet
	retry    time.Duration
	timer    *time.Timer
	tokens   int // answers that this end may send now
	refilled time.Time
	asked    time.Time // time of the last ask that unknown keys caused
	refused  string    // reason of the last refusal that this end noted; "" after a successful handshake
	notices  []Notice
	closed   bool
}

func (h *pskHandshake) init(k *psk, keys pskKeys, c Cable, fabric [4]byte) {
	h.k, h.keys, h.cable, h.fabric, h.tokens = k, keys, c, fabric, pskBurst
}

// peerAt drops all sessions and starts a handshake if a is a new address of the peer.
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

func (h *pskHandshake) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed, h.asking = true, false
	h.stop()
}

func (h *pskHandshake) stop() {
	if h.timer != nil {
		h.timer.Stop()
	}
}

// unkeyed counts n datagrams that this end could not send because it has no keys. Before SetPeer,
// the datagrams count as NoPeer.
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

// begin sends an ask if no ask is open. The caller holds mu.
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

// The method "again" repeats the ask if the ask is still open.
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

// renew sends an ask for new keys if no ask is open.
func (h *pskHandshake) renew() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.begin()
}

// unknown sends an ask because a datagram came under an unknown key. unknown does so at most once
// in the time pskUnknown, and only if no ask is open.
func (h *pskHandshake) unknown() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if now := time.Now(); now.Sub(h.asked) >= pskUnknown {
		h.asked = now
		h.begin()
	}
}

// hello makes an ask or an answer with a fresh nonce. In an answer, echo is the nonce of the ask.
func (h *pskHandshake) hello(kind byte, echo []byte) []byte {
	m := pskHello{kind: kind, fabric: h.fabric, from: h.cable.From, to: h.cable.To, incarnation: h.cable.Incarnation}
	rand.Read(m.nonce[:])
	copy(m.echo[:], echo)
	return m.appendTo(make([]byte, 0, pskHelloLen), h.keys.handshake)
}

func (h *pskHandshake) send(b []byte) { _, _ = h.k.Port.Send(b, len(b)) } // h.k.Port counts the datagrams that it cannot send

// find returns the session with a key id, or nil. The result "fresh" is true if the asker of the
// session has not proved yet that it has the keys.
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

// handle processes a received datagram that is not sealed. Before SetPeer and after close, handle
// drops the datagram uncounted.
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
			h.refuse("the peer at %s sends frames in the clear: start the peer with --auth psk, too", h.peer)
		}
	case m.fabric != h.fabric:
		c.wrongPeer.Add(1)
		h.refuse("the peer at %s is of another fabric than %q", h.peer, h.cable.Fabric)
	case err != nil:
		c.wrongKey.Add(1)
		h.refuse("the peer at %s has another pre-shared key: give both ends the same --psk-file", h.peer)
	case m.from != h.cable.To || m.to != h.cable.From:
		c.wrongPeer.Add(1)
		h.refuse("the peer at %s is %s and expects to be cabled to %s; this end is %s and expects %s", h.peer, m.from, m.to, h.cable.From, h.cable.To)
	case m.incarnation == h.cable.Incarnation: // this end's own ask or answer came back
		c.wrongPeer.Add(1)
	case m.kind == pskAsk:
		h.answer(&m, d)
	default:
		h.answered(&m, d)
	}
}

// answer answers the ask m, whose bytes are in ask. answer drops an ask that led to a session in
// use, and asks beyond the rate limit. answer repeats the old answer to a repeated ask. The caller
// holds mu.
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
		if s.asked == m.nonce { // the peer repeats an ask that was answered before: the answer was lost, or is under way
			h.send(s.answer)
			return
		}
	}
	answer := h.hello(pskAnswer, m.nonce[:])
	s, err := newPSKSession(&h.keys, bytes.Clone(ask), answer, false)
	if err != nil {
		h.refuse("keys cannot be derived: %v", err)
		return
	}
	s.peer = uint64(m.incarnation)
	if len(h.pending) == pskPending {
		h.pending = slices.Delete(h.pending, 0, 1)
	}
	h.pending = append(h.pending, s)
	h.send(answer)
}

// answered uses the answer m to the open ask, whose bytes are in answer, to make a session.
// answered drops answers to other asks. The caller holds mu.
func (h *pskHandshake) answered(m *pskHello, answer []byte) {
	if !h.asking || !bytes.Equal(m.echo[:], h.ask[32:32+pskNonce]) {
		h.k.counts.stale.Add(1)
		return
	}
	s, err := newPSKSession(&h.keys, h.ask, answer, true)
	if err != nil {
		h.refuse("keys cannot be derived: %v", err)
		return
	}
	s.peer = uint64(m.incarnation)
	h.adopt(s)
	// An empty sealed datagram proves to the answerer that the asker has the keys. The datagram
	// needs a nonce buffer of its own, because a call of Send may be using k.tx.nonce.
	var nonce [12]byte
	var b [PSKOverhead]byte
	counter := s.sent.Add(1) - 1
	putPSKHeader(b[:], s.id, counter)
	for i := range 8 {
		nonce[4+i] = byte(counter >> (8 * i))
	}
	h.send(s.seal.Seal(b[:pskHeader], nonce[:], nil, b[:pskHeader]))
}

// proved puts a session into use after the session's asker has proved that it has the keys.
func (h *pskHandshake) proved(s *pskSession) {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := slices.Index(h.pending, s)
	if i < 0 || h.closed {
		return // the peer's address changed after the call of find
	}
	h.pending = slices.Delete(h.pending, i, i+1)
	h.adopt(s)
}

// adopt makes s the session that seals all datagrams from now on. adopt drops the sessions with
// other incarnations of the peer, and the oldest session if there are too many. The caller holds
// mu.
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

// refuse notes the reason why this end refuses the peer. If the last noted reason was the same,
// refuse does nothing. The caller holds mu.
func (h *pskHandshake) refuse(format string, a ...any) {
	if why := fmt.Sprintf(format, a...); why != h.refused {
		h.refused = why
		h.note(Notice{Refused: why})
	}
}

func (h *pskHandshake) note(n Notice) {
	if len(h.notices) < pskNoticeMax {
		h.notices = append(h.notices, n)
	}
}

// told passes the waiting notices to Cable.Tell, in their order. told holds no lock during these
// calls.
func (h *pskHandshake) told() {
	h.mu.Lock()
	ns := h.notices
	h.notices = nil
	h.mu.Unlock()
	for _, n := range ns {
		h.cable.tell(n)
	}
}
