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

// Limits of the handshake.
const (
	pskRetryMin  = 50 * time.Millisecond // time between the first two asks; doubles
	pskRetryMax  = time.Second           // longest time between two asks
	pskSessions  = 4                     // sessions under whose keys this end receives datagrams; the newest session seals the datagrams that this end sends
	pskPending   = 4                     // sessions of answers whose asker has not proved itself yet
	pskBurst     = 8                     // largest number of answers that this end sends at once
	pskRefill    = 10 * time.Millisecond // this end may send one more answer after each interval of this length
	pskUnknown   = time.Second           // shortest time between two asks because of an unknown key
	pskNoticeMax = 8                     // notices that wait until this end passes them on
)

// pskHandshake holds the state of the agreement on keys.
type pskHandshake struct {
	k      *psk
	keys   pskKeys
	cable  Cable
	fabric [4]byte

	mu       sync.Mutex
	peer     netip.AddrPort // zero: this end does not know the peer yet
	sessions []*pskSession  // oldest first
	pending  []*pskSession  // oldest first
	asking   bool
	ask      []byte // the ask that the peer has not answered yet
	retry    time.Duration
	timer    *time.Timer
	tokens   int // answers that this end may send now
	refilled time.Time
	asked    time.Time // when an unknown key last led to an ask
	refused  string    // the last reason for a refusal that this end passed on
	notices  []Notice
	closed   bool
}

func (h *pskHandshake) init(k *psk, keys pskKeys, c Cable, fabric [4]byte) {
	h.k, h.keys, h.cable, h.fabric, h.tokens = k, keys, c, fabric, pskBurst
}

// peerAt starts again with a peer at another address.
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

// unkeyed counts datagrams for which this end has no key yet.
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

// begin sends an ask, if no ask is open.
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

// again repeats an ask that the peer has not answered.
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

// renew asks for new keys.
func (h *pskHandshake) renew() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.begin()
}

// unknown sends an ask because a datagram came under an unknown key.
func (h *pskHandshake) unknown() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if now := time.Now(); now.Sub(h.asked) >= pskUnknown {
		h.asked = now
		h.begin()
	}
}

// hello makes an ask or an answer with a fresh nonce.
func (h *pskHandshake) hello(kind byte, echo []byte) []byte {
	m := pskHello{kind: kind, fabric: h.fabric, from: h.cable.From, to: h.cable.To, incarnation: h.cable.Incarnation}
	rand.Read(m.nonce[:])
	copy(m.echo[:], echo)
	return m.appendTo(make([]byte, 0, pskHelloLen), h.keys.handshake)
}

func (h *pskHandshake) send(b []byte) { _, _ = h.k.Port.Send(b, len(b)) } // the port counts the datagrams that it cannot send

// find returns the session of a key id. The result fresh says that the session's asker has not
// proved itself yet.
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

// handle takes a datagram that is not sealed.
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
			h.refuse("the peer at %s sends frames in the clear: start it with --auth psk, too", h.peer)
		}
	case m.fabric != h.fabric:
		c.wrongPeer.Add(1)
		h.refuse("the peer at %s is of another fabric than %q", h.peer, h.cable.Fabric)
	case err != nil:
		c.wrongKey.Add(1)
		h.refuse("the peer at %s has another pre-shared key: give both ends the same --psk-file", h.peer)
	case m.from != h.cable.To || m.to != h.cable.From:
		c.wrongPeer.Add(1)
		h.refuse("the peer at %s is %s, cabled to %s; %s expects %s", h.peer, m.from, m.to, h.cable.From, h.cable.To)
	case m.incarnation == h.cable.Incarnation: // this end's own ask, reflected
		c.wrongPeer.Add(1)
	case m.kind == pskAsk:
		h.answer(&m, d)
	default:
		h.answered(&m, d)
	}
}

// answer answers an ask.
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
		if s.asked == m.nonce { // the answer was lost, or is under way
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

// answered takes the answer to the open ask.
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
	// An empty datagram proves to the answerer that the asker is there. The datagram uses a
	// separate nonce buffer, since senders may be using the session's buffer.
	var nonce [12]byte
	var b [PSKOverhead]byte
	counter := s.sent.Add(1) - 1
	putPSKHeader(b[:], s.id, counter)
	for i := range 8 {
		nonce[4+i] = byte(counter >> (8 * i))
	}
	h.send(s.seal.Seal(b[:pskHeader], nonce[:], nil, b[:pskHeader]))
}

// proved puts a session into use after the session's asker has proved itself.
func (h *pskHandshake) proved(s *pskSession) {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := slices.Index(h.pending, s)
	if i < 0 || h.closed {
		return // the peer has moved meanwhile
	}
	h.pending = slices.Delete(h.pending, i, i+1)
	h.adopt(s)
}

// adopt makes a session seal the datagrams that this end sends from now on. adopt ends the sessions
// of other incarnations of the peer.
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

// refuse notes why this end refuses the peer. refuse notes each reason once.
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

// told passes notices on, without holding a lock.
func (h *pskHandshake) told() {
	h.mu.Lock()
	ns := h.notices
	h.notices = nil
	h.mu.Unlock()
	for _, n := range ns {
		h.cable.tell(n)
	}
}
