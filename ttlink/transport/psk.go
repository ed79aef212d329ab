package transport

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
)

// Limits of a sealed port.
const (
	pskRekeyAfter = 1 << 23 // datagrams under one key after which the ends agree on new keys (RFC 9001 §6.6)
	pskStopAfter  = 1 << 28 // largest number of datagrams that one key carries (RFC 9001 §B.1.1, for packets of up to 2 KiB)
)

// psk is a port that seals the datagrams that it sends. See pskwire.go for the format.
type psk struct {
	Port
	hs      pskHandshake
	current atomic.Pointer[pskSession] // the session that seals sent datagrams; nil: there is no session
	closed  atomic.Bool

	tx struct {
		sync.Mutex
		nonce [12]byte
	}
	rx struct {
		sync.Mutex
		nonce [12]byte
	}
	counts                  pskCounters
	rekeyAfter, rekeyBounds uint64
}

type pskCounters struct {
	sent, sentBytes, received, receivedBytes       atomic.Uint64
	unkeyed, noPeer, tooLong, full                 atomic.Uint64
	keyings, malformed, plain, wrongKey, wrongPeer atomic.Uint64
	stale, limited, unknownKey, forged, replayed   atomic.Uint64
}

// pskSession holds the keys that two ends agreed on, one key for each direction.
type pskSession struct {
	id         uint32
	peer       uint64 // incarnation of the other end
	asked      [pskNonce]byte
	answer     []byte // the answer that this end sent and may have to repeat; nil at the asker
	seal, open cipher.AEAD
	sent       atomic.Uint64 // counter of the next datagram
	window     replayWindow  // guarded by rx
}

// slabs are the buffers in which runs are sealed.
var slabs = sync.Pool{New: func() any { return new([MaxDatagram]byte) }}

// PSK wraps a port. PSK seals sent datagrams under keys that are derived from a pre-shared key of
// at least [MinPSK] bytes. PSK receives only datagrams that the other end of the cable sealed. The
// returned port is a [Keyed]. The errors name what is wrong with the key or the cable.
func PSK(p Port, key []byte, c Cable) (Port, error) {
	switch {
	case len(key) < MinPSK:
		return nil, fmt.Errorf("pre-shared key of %d bytes: want at least %d; 'ttfabric gossip keygen' makes one", len(key), MinPSK)
	case !c.From.Valid() || !c.To.Valid() || c.From == c.To:
		return nil, fmt.Errorf("sealed port of a cable from %v to %v: want two ports", c.From, c.To)
	case c.Incarnation == 0:
		return nil, fmt.Errorf("sealed port %v: incarnation is zero: draw a random one at every start", c.From)
	}
	keys, err := newPSKKeys(key)
	if err != nil {
		return nil, fmt.Errorf("sealed port %v: %w", c.From, err)
	}
	k := &psk{Port: p, rekeyAfter: pskRekeyAfter, rekeyBounds: pskStopAfter}
	sum := sha256.Sum256([]byte(c.Fabric))
	k.hs.init(k, keys, c, [4]byte(sum[:4]))
	return k, nil
}

// newPSKSession makes the session of a handshake from the handshake's two messages.
func newPSKSession(keys *pskKeys, ask, answer []byte, asker bool) (*pskSession, error) {
	a, b, id, err := keys.session(ask, answer)
	if err != nil {
		return nil, err
	}
	s := &pskSession{id: id, asked: [pskNonce]byte(ask[32:])}
	if !asker {
		a, b = b, a
		s.answer = answer
	}
	if s.seal, err = pskAEAD(a); err == nil {
		s.open, err = pskAEAD(b)
	}
	return s, err
}

func pskAEAD(key []byte) (cipher.AEAD, error) {
	c, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(c)
}

// Ready implements [Keyed].
func (k *psk) Ready() bool { return k.current.Load() != nil }

// MaxDatagram implements [Port].
func (k *psk) MaxDatagram() int { return max(1, k.Port.MaxDatagram()-PSKOverhead) }

// Send implements [Port].
func (k *psk) Send(data []byte, seg int) (int, error) {
	r := Run{Data: data, Seg: seg}
	total := r.datagrams()
	s := k.current.Load()
	switch {
	case k.closed.Load():
		return 0, net.ErrClosed
	case s == nil:
		k.hs.unkeyed(uint64(total))
		return 0, nil
	case min(seg, len(data)) > k.MaxDatagram():
		k.counts.tooLong.Add(uint64(total))
		return 0, nil
	}
	k.tx.Lock()
	defer k.tx.Unlock()
	slab := slabs.Get().(*[MaxDatagram]byte)
	defer slabs.Put(slab)
	per := max(1, min(MaxSegments, MaxDatagram/(min(seg, len(data))+PSKOverhead)))
	sent := 0
	for rest := data; len(rest) > 0; {
		part := rest[:min(len(rest), per*seg)]
		rest = rest[len(part):]
		if s.sent.Load() >= k.rekeyAfter && !k.spent(s) {
			k.counts.unkeyed.Add(uint64(total - sent))
			return sent, nil
		}
		want := Run{part, seg}.datagrams()
		n, err := k.Port.Send(k.sealed(slab, s, part, seg), seg+PSKOverhead)
		k.counts.sent.Add(uint64(n))
		k.counts.sentBytes.Add(uint64(min(n*seg, len(part))))
		sent += n
		if err != nil || n < want {
			k.counts.full.Add(uint64(total - sent - (want - n))) // the port itself has counted the refused datagrams of this part
			return sent, err
		}
	}
	return sent, nil
}

// sealed seals each datagram of a run. The caller holds tx.
func (k *psk) sealed(slab *[MaxDatagram]byte, s *pskSession, data []byte, seg int) []byte {
	out := slab[:0]
	for len(data) > 0 {
		d := data[:min(seg, len(data))]
		data = data[len(d):]
		at := len(out)
		out = k.seal(out[:at+pskHeader], at, s, d)
	}
	return out
}

// seal appends one sealed datagram. The datagram's header begins at offset at.
func (k *psk) seal(out []byte, at int, s *pskSession, d []byte) []byte {
	counter := s.sent.Add(1) - 1
	putPSKHeader(out[at:], s.id, counter)
	binary.LittleEndian.PutUint64(k.tx.nonce[4:], counter)
	return s.seal.Seal(out, k.tx.nonce[:], d, out[at:at+pskHeader])
}

// spent asks for new keys once a session has carried pskRekeyAfter datagrams. spent reports whether
// the session may carry more datagrams until the ends have agreed on new keys.
func (k *psk) spent(s *pskSession) bool {
	k.hs.renew()
	return s.sent.Load()+MaxSegments <= k.rekeyBounds
}

// SendBatch implements [Port].
func (k *psk) SendBatch(runs []Run) (int, error) {
	n := 0
	for _, r := range runs {
		i, err := k.Send(r.Data, r.Seg)
		n += i
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// Recv implements [Port].
func (k *psk) Recv(b *Batch) error {
	for {
		if err := k.Port.Recv(b); err != nil {
			return err
		}
		k.rx.Lock()
		kept := 0
		for i := range b.n {
			s := b.supers[i]
			if k.opened(&s) {
				b.supers[kept] = s
				kept++
			}
		}
		b.n = kept
		k.rx.Unlock()
		k.hs.told()
		if kept > 0 {
			return nil
		}
	}
}

// opened opens the datagrams of a super-packet in place, and moves the authentic datagrams
// together. opened reports whether any datagram remains.
func (k *psk) opened(s *Super) bool {
	rest, out := s.Data, 0
	for len(rest) > 0 {
		d := rest[:min(s.Seg, len(rest))]
		rest = rest[len(d):]
		if p := k.open(d); len(p) > 0 {
			out += copy(s.Data[out:], p)
			k.counts.received.Add(1)
			k.counts.receivedBytes.Add(uint64(len(p)))
		}
	}
	s.Data, s.Seg = s.Data[:out], max(1, s.Seg-PSKOverhead)
	return out > 0
}

// open opens one datagram in place. The caller holds rx. If the datagram carries nothing for the
// link, open returns nil.
func (k *psk) open(d []byte) []byte {
	id, counter, ok := parsePSKHeader(d)
	if !ok {
		k.hs.handle(d)
		return nil
	}
	s, fresh := k.hs.find(id)
	switch {
	case s == nil:
		k.counts.unknownKey.Add(1)
		k.hs.unknown()
		return nil
	case counter >= pskStopAfter:
		k.counts.forged.Add(1)
		return nil
	case !s.window.check(counter):
		k.counts.replayed.Add(1)
		return nil
	}
	binary.LittleEndian.PutUint64(k.rx.nonce[4:], counter)
	p, err := s.open.Open(d[pskHeader:pskHeader], k.rx.nonce[:], d[pskHeader:], d[:pskHeader])
	if err != nil {
		k.counts.forged.Add(1)
		return nil
	}
	s.window.take(counter)
	if fresh {
		k.hs.proved(s)
	}
	return p
}

// SetPeer implements [Port]. If the peer is at another address, the ends must agree on new keys.
func (k *psk) SetPeer(a netip.AddrPort) error {
	if err := k.Port.SetPeer(a); err != nil {
		return err
	}
	k.hs.peerAt(netip.AddrPortFrom(a.Addr().Unmap(), a.Port()))
	return nil
}

// Close implements [Port].
func (k *psk) Close() error {
	k.closed.Store(true)
	k.hs.close()
	return k.Port.Close()
}

// Stats implements [Port]. The counts of datagrams and bytes are counts of the link's datagrams,
// without the seal.
func (k *psk) Stats() Stats {
	s, c := k.Port.Stats(), &k.counts
	s.Sent, s.SentBytes, s.Received, s.ReceivedBytes = c.sent.Load(), c.sentBytes.Load(), c.received.Load(), c.receivedBytes.Load()
	s.SendFull += c.full.Load()
	s.NoPeer += c.noPeer.Load()
	s.TooLong += c.tooLong.Load()
	s.Largest = max(1, s.Largest-PSKOverhead)
	s.Auth = AuthStats{Keyings: c.keyings.Load(), Unkeyed: c.unkeyed.Load(), Malformed: c.malformed.Load(), Plain: c.plain.Load(),
		WrongKey: c.wrongKey.Load(), WrongPeer: c.wrongPeer.Load(), Stale: c.stale.Load(), Limited: c.limited.Load(),
		UnknownKey: c.unknownKey.Load(), Forged: c.forged.Load(), Replayed: c.replayed.Load()}
	return s
}
