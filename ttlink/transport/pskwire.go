package transport

import (
	"bytes"
	"cmp"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"

	"ttfabric/wire"
)

// # The format of sealed UDP, version 1
//
// Numbers are little-endian. Each UDP datagram begins with
//
//	0  2  magic "TK"
//	2  1  version: 1
//	3  1  kind: 1 ask, 2 answer, 3 sealed
//
// An ask and an answer are 128 bytes:
//
//	 4  4  the first 4 bytes of the SHA-256 of the fabric's name
//	 8  8  port of the sender: mesh 2, chip 2, channel 1, zero 3
//	16  8  port of the intended receiver: mesh 2, chip 2, channel 1, zero 3
//	24  8  incarnation of the sender
//	32 32  nonce: random, a new one for each ask and for each answer
//	64 32  in an answer the nonce of the ask, in an ask zero
//	96 32  HMAC-SHA256 of the bytes before, under the handshake key
//
// A sealed datagram carries one datagram of the link, or nothing, encrypted with AES-256-GCM. A
// sealed datagram is 32 bytes longer than its content:
//
//	 4  4  key id
//	 8  8  counter: 0 for the first datagram under a key, one more for each later datagram
//	16  n  ciphertext, and behind it the tag of 16 bytes
//
// The nonce for AES-GCM is four zero bytes and the counter. The first 16 bytes of the datagram are
// the additional data, which the tag protects too.
//
// # Keys
//
// HKDF-SHA256 (RFC 5869) derives all keys from the pre-shared key of 16 bytes or more:
//
//	root      = Extract(salt "ttfabric psk 1", pre-shared key)
//	handshake = Expand(root, "handshake", 32)
//	asker 32, answerer 32, key id 4 = Expand(root, "session" ‖ ask[0:96] ‖ answer[0:96], 68)
//
// The asker is the end that sends the ask, and the answerer is the end that answers it. The asker
// seals its datagrams with the first key, and the answerer with the second key. The ask and the
// answer contain both incarnations, both ports, the fabric and both nonces. Each handshake
// therefore leads to new keys, and each key starts with counter 0. Even after a restart, an end
// therefore uses each pair of key and counter only once.
//
// # Handshake
//
// An end that has no keys sends an ask. The asker repeats the ask unchanged until the answer comes,
// or until a handshake that the other end began has finished. The first repetition comes after 50
// ms, and the later ones at intervals that grow to a second. The answerer answers with a fresh
// nonce. The asker uses the new keys as soon as an answer with the nonce of its open ask comes. The
// asker then sends an empty sealed datagram at once. The answerer continues to use its old keys
// until the first datagram under the new keys comes. This datagram proves that the asker knows the
// pre-shared key, and that the ask was no replay. If both ends ask at the same time, both
// handshakes may finish. Each end then receives under the keys of both handshakes, and sends under
// the keys of the handshake that finished last. An end that receives a datagram under unknown keys
// sends an ask, but at most once a second. An end also sends an ask after it has sealed 2²³
// datagrams with one key (RFC 9001 §6.6). An end seals at most 2²⁸ datagrams with one key.
//
// # Attacks
//
// The attacker can see, delay, repeat, change and forge datagrams. The attacker can also send from
// the peer's address. The attacker does not know the pre-shared key. The format protects against
// these attacks:
//
//   - Forged or changed datagrams: the tag or the HMAC is wrong. The end drops the datagrams.
//   - Datagrams replayed within a session: the end has received their counter before, or the
//     counter is older than the last 8192 counters. The end drops the datagrams.
//   - Replayed datagrams of earlier incarnations of either end: earlier incarnations used other
//     nonces, and therefore other keys. The end drops the datagrams.
//   - Datagrams sent back to their sender: each direction has its own key, and an ask names its
//     sender and its receiver. An end refuses an ask that carries the end's own incarnation.
//   - Datagrams moved to another cable or fabric: the keys depend on ports and fabric. The end
//     drops the datagrams.
//   - Replayed asks: the end answers a replayed ask, but at a limited rate, and with an answer as
//     long as the ask. The attacker cannot seal a datagram under the new keys. The end therefore
//     never uses the new keys.
//
// The format does not protect against the following attacks. Whoever knows the pre-shared key can
// pose as any chip of the fabric. Whoever learns the pre-shared key can also decrypt all recorded
// traffic, because there is no forward secrecy. The QUIC transport protects against both attacks.
// An attacker who drops or delays datagrams can make the link fail. An attacker sees the lengths
// and times of datagrams.
const (
	pskMagic0, pskMagic1 = 'T', 'K'
	pskVersion           = 1
	pskAsk               = 1
	pskAnswer            = 2
	pskSealed            = 3

	pskHeader   = 16
	pskTag      = 16
	pskHelloLen = 128
	pskSigned   = 96 // bytes of an ask or answer that its HMAC protects
	pskNonce    = 32

	// PSKOverhead is the number of bytes by which a sealed datagram is longer than its content.
	PSKOverhead = pskHeader + pskTag
	// MinPSK is the shortest pre-shared key, in bytes.
	MinPSK = 16
)

// Errors of decodePSKHello.
var (
	errPSKMalformed = errors.New("not a message of sealed UDP")
	errPSKKey       = errors.New("the HMAC is wrong for this key")
)

// pskHello is an ask or an answer.
type pskHello struct {
	kind        byte
	fabric      [4]byte
	from, to    wire.PortID
	incarnation wire.Incarnation
	nonce, echo [pskNonce]byte
}

// appendTo appends the hello to b, followed by an HMAC under the key.
func (h *pskHello) appendTo(b []byte, key []byte) []byte {
	start, le := len(b), binary.LittleEndian
	b = append(b, pskMagic0, pskMagic1, pskVersion, h.kind)
	b = append(b, h.fabric[:]...)
	for _, p := range []wire.PortID{h.from, h.to} {
		b = le.AppendUint16(b, uint16(p.Node.Mesh))
		b = le.AppendUint16(b, uint16(p.Node.Chip))
		b = append(b, byte(p.Channel), 0, 0, 0)
	}
	b = le.AppendUint64(b, uint64(h.incarnation))
	b = append(b, h.nonce[:]...)
	b = append(b, h.echo[:]...)
	return append(b, pskMAC(key, b[start:])...)
}

// decodePSKHello reads a hello. If the bytes are not a hello, the error is errPSKMalformed. If only
// the HMAC is wrong, the error is errPSKKey, and h holds the unverified fields.
func decodePSKHello(b, key []byte) (h pskHello, err error) {
	le := binary.LittleEndian
	if len(b) != pskHelloLen || b[0] != pskMagic0 || b[1] != pskMagic1 || b[2] != pskVersion || b[3] != pskAsk && b[3] != pskAnswer {
		return h, errPSKMalformed
	}
	h.kind = b[3]
	copy(h.fabric[:], b[4:])
	for i, p := range []*wire.PortID{&h.from, &h.to} {
		f := b[8+8*i:]
		p.Node.Mesh, p.Node.Chip, p.Channel = wire.MeshID(le.Uint16(f)), wire.ChipID(le.Uint16(f[2:])), wire.Channel(f[4])
		if f[5]|f[6]|f[7] != 0 || !p.Valid() {
			return h, errPSKMalformed
		}
	}
	h.incarnation = wire.Incarnation(le.Uint64(b[24:]))
	copy(h.nonce[:], b[32:])
	copy(h.echo[:], b[64:])
	if h.kind == pskAsk && h.echo != [pskNonce]byte{} || h.incarnation == 0 {
		return h, errPSKMalformed
	}
	if !hmac.Equal(b[pskSigned:], pskMAC(key, b[:pskSigned])) {
		return h, errPSKKey
	}
	return h, nil
}

func pskMAC(key, b []byte) []byte {
	m := hmac.New(sha256.New, key)
	m.Write(b)
	return m.Sum(nil)
}

// pskKeys holds the two keys that depend only on the pre-shared key.
type pskKeys struct{ root, handshake []byte }

func newPSKKeys(psk []byte) (k pskKeys, err error) {
	if k.root, err = hkdf.Extract(sha256.New, psk, []byte("ttfabric psk 1")); err == nil {
		k.handshake, err = hkdf.Expand(sha256.New, k.root, "handshake", sha256.Size)
	}
	return k, err
}

// session derives the keys and the key id of a session from the ask and the answer.
func (k *pskKeys) session(ask, answer []byte) (asker, answerer []byte, id uint32, err error) {
	info := bytes.Join([][]byte{[]byte("session"), ask[:pskSigned], answer[:pskSigned]}, nil)
	b, err := hkdf.Expand(sha256.New, k.root, string(info), 68)
	if err != nil {
		return nil, nil, 0, err
	}
	return b[:32], b[32:64], binary.LittleEndian.Uint32(b[64:]), nil
}

// putPSKHeader writes the header of a sealed datagram.
func putPSKHeader(b []byte, id uint32, counter uint64) {
	b[0], b[1], b[2], b[3] = pskMagic0, pskMagic1, pskVersion, pskSealed
	binary.LittleEndian.PutUint32(b[4:], id)
	binary.LittleEndian.PutUint64(b[8:], counter)
}

// parsePSKHeader reads the header of a sealed datagram. If b is not a sealed datagram, ok is false.
func parsePSKHeader(b []byte) (id uint32, counter uint64, ok bool) {
	if len(b) < PSKOverhead || b[0] != pskMagic0 || b[1] != pskMagic1 || b[2] != pskVersion || b[3] != pskSealed {
		return 0, 0, false
	}
	return binary.LittleEndian.Uint32(b[4:]), binary.LittleEndian.Uint64(b[8:]), true
}

// ReplayWindow is the number of newest counters that a receiver remembers. A receiver drops a
// sealed datagram whose counter is older than all remembered counters. A link has at most half as
// many frames under way (ttlink.MaxFrames), so frames that come out of order are still received.
const ReplayWindow = 8192

// replayWindow remembers which of the newest counters were received, with one bit for each counter
// (RFC 6479). A replayWindow has one block more than ReplayWindow needs, so that it can clear a
// whole block when the newest counter enters the block.
type replayWindow struct {
	next   uint64 // newest counter plus 1; 0: no counter was received yet
	blocks [ReplayWindow/64 + 1]uint64
}

// check reports whether the counter c was not received before and is within the window.
func (w *replayWindow) check(c uint64) bool {
	if c >= w.next {
		return true
	}
	return w.next-c <= ReplayWindow && w.blocks[c/64%uint64(len(w.blocks))]&(1<<(c%64)) == 0
}

// take notes the counter of an authentic datagram, and returns true. If check refuses the counter,
// take returns false.
func (w *replayWindow) take(c uint64) bool {
	if !w.check(c) {
		return false
	}
	n := uint64(len(w.blocks))
	if c >= w.next {
		newest := c / 64
		for i, k := uint64(0), newest-w.block(); i < min(k, n); i++ {
			w.blocks[(newest-i)%n] = 0
		}
		w.next = c + 1
	}
	w.blocks[c/64%n] |= 1 << (c % 64)
	return true
}

// block returns the number of the block that holds the newest counter. Before the first counter,
// block returns 0.
func (w *replayWindow) block() uint64 { return (cmp.Or(w.next, 1) - 1) / 64 }
