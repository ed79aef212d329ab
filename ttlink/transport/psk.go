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

// Limits of a key.
const (
	pskRekeyAfter = 1 << 23 // number of datagrams under one key after which an end asks for new keys (RFC 9001 §6.6)
	pskStopAfter  = 1 << 28 // largest number of datagrams under one key (RFC 9001 §B.1.1, for packets of up to 2 KiB)
)

// psk is a wrapper around a port that seals sent datagrams and opens received datagrams. pskwire.go
// describes the format.
type psk struct {
	Port
	hs      pskHandshake
	current atomic.Pointer[pskSession] // the session whose key seals sent datagrams; nil: no keys are agreed
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

// pskSession holds the two keys on which the ends of a cable agreed, one for each direction.
type pskSession struct {
	id         uint32
	peer       uint64 // incarnation of the other end
	asked      [pskNonce]byte
	answer     []byte // at the answerer, the answer, which the answerer may have to repeat; nil at the asker
	seal, open cipher.AEAD
	sent       atomic.Uint64 // counter of the next datagram to seal
	window     replayWindow  // counters of received datagrams; guarded by rx
}

// slabs is a pool of the buffers in which Send seals runs.
var slabs = sync.Pool{New: func() any { return new([MaxDatagram]byte) }}

// PSK wraps a port in one that seals all datagrams. The keys are derived from a pre-shared key of
// at least [MinPSK] bytes. The wrapper receives only datagrams that the other end of the cable
// sealed. The returned port is a [Keyed].
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

// newPSKSession makes a session from the ask and the answer of a handshake. The argument "asker" is
// true if this end sent the ask.
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
			k.counts.full.Add(uint64(total - sent - (want - n))) // k.Port has counted the refused datagrams of this part
			return sent, err
		}
	}
	return sent, nil
}

// sealed seals each datagram of a run, and returns the sealed run in slab. The caller holds tx.
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

// seal completes a sealed datagram in out with the content d. The slice "out" ends with room for
// the sealed datagram's header, from the offset "at" on. seal writes the header into this room, and
// appends the ciphertext.
func (k *psk) seal(out []byte, at int, s *pskSession, d []byte) []byte {
	counter := s.sent.Add(1) - 1
	putPSKHeader(out[at:], s.id, counter)
	binary.LittleEndian.PutUint64(k.tx.nonce[4:], counter)
	return s.seal.Seal(out, k.tx.nonce[:], d, out[at:at+pskHeader])
}

// spent sends an ask for new keys, because the session s has carried rekeyAfter datagrams. If an
// ask is open, spent sends no second ask. spent returns true if s may carry another super-packet
// before the ends agree on new keys.
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

// opened opens the datagrams of a super-packet in place, and removes the datagrams that are empty
// or not authentic. opened reports whether any datagram remains. The caller holds rx.
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

// open opens one datagram in place, and returns the datagram's content for the link. If the
// datagram is not authentic or carries nothing for the link, the result is empty. The caller holds
// rx.
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

// SetPeer implements [Port]. If the address differs from the present peer's, the port drops all
// keys and starts a new handshake.
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

// Stats implements [Port]. Sent, Received and their bytes count the datagrams of the link before
// they are sealed and after they are opened.
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
