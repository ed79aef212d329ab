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
// Numbers are little-endian, as everywhere in ttfabric. Each UDP datagram begins with
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
// A sealed datagram is the AES-256-GCM of one datagram of the link, or of an empty datagram. The
// seal adds 32 bytes:
//
//	 4  4  key id
//	 8  8  counter: 0 for the first datagram under a key, one more for each later datagram
//	16  n  ciphertext, and behind it the tag of 16 bytes
//
// The nonce of the AEAD is four zero bytes and the counter. The additional data is the first 16
// bytes of the datagram.
//
// # Keys
//
// HKDF-SHA256 (RFC 5869) derives all keys from the pre-shared key of 16 bytes or more:
//
//	root      = Extract(salt "ttfabric psk 1", pre-shared key)
//	handshake = Expand(root, "handshake", 32)
//	asker 32, answerer 32, key id 4 = Expand(root, "session" ‖ ask[0:96] ‖ answer[0:96], 68)
//
// The asker seals with the first key, and the answerer seals with the second key. The ask and the
// answer contain both incarnations, both ports, the fabric and both nonces. For that reason no two
// handshakes ever lead to the same keys. No end uses a counter twice with a key, even after a
// restart.
//
// # Handshake
//
// An end that has no keys asks. The end repeats the ask with the same nonce until the peer answers
// the ask. The end repeats the ask after 50 ms, and then at intervals that grow to a second. An end
// that gets an ask answers with a fresh nonce. The answerer continues to use its present keys until
// a datagram comes that the new keys open. Such a datagram proves that the asker is there now, and
// knows the key. The asker uses the new keys as soon as an answer repeats the nonce of its open
// ask. The asker then sends an empty sealed datagram at once. If both ends ask at the same time,
// both handshakes may finish. Each end then receives under the keys of either handshake, and sends
// under the keys of the last handshake. An end that gets datagrams under unknown keys asks, at most
// once a second. The ends renew a session after 2²³ datagrams (RFC 9001 §6.6). No session carries
// more than 2²⁸ datagrams.
//
// # Attacks
//
// The attacker sees, delays, repeats, changes and forges datagrams, also from the peer's address.
// The attacker does not know the key. The format handles these attacks:
//
//   - Forged or changed datagrams: the tag or the HMAC does not fit. The end drops such datagrams.
//   - Datagrams replayed within a session: the end has seen their counter, or the counter is older
//     than the last 8192 counters. The end drops such datagrams.
//   - Datagrams of earlier incarnations of either end: earlier incarnations used other nonces, and
//     therefore other keys. The end drops such datagrams.
//   - Reflected datagrams: each direction has its own key. An ask names its sender and receiver,
//     and an end takes no ask that carries its own incarnation.
//   - Datagrams moved to another cable or fabric: the keys depend on ports and fabric. The end
//     drops such datagrams.
//   - Replayed asks: the end answers a replayed ask, at a limited rate. The answer is no longer than
//     the ask. Nobody can seal under the keys of such a handshake. The end therefore never uses
//     these keys.
//
// The format does not handle these attacks. Whoever holds the key can pose as any chip of the
// fabric. Whoever holds the key can also read all recorded traffic, because there is no forward
// secrecy. QUIC protects against both. Whoever can delay datagrams can cut the cable. Lengths and
// times of datagrams are visible.
const (
	pskMagic0, pskMagic1 = 'T', 'K'
	pskVersion           = 1
	pskAsk               = 1
	pskAnswer            = 2
	pskSealed            = 3

	pskHeader   = 16
	pskTag      = 16
	pskHelloLen = 128
	pskSigned   = 96 // bytes of a hello under its HMAC
	pskNonce    = 32

	// PSKOverhead is what sealing adds to a datagram, in bytes.
	PSKOverhead = pskHeader + pskTag
	// MinPSK is the shortest pre-shared key, in bytes.
	MinPSK = 16
)

// Errors of the decoders.
var (
	errPSKMalformed = errors.New("not a message of sealed UDP")
	errPSKKey       = errors.New("the HMAC does not fit the key")
)

// pskHello is an ask or an answer.
type pskHello struct {
	kind        byte
	fabric      [4]byte
	from, to    wire.PortID
	incarnation wire.Incarnation
	nonce, echo [pskNonce]byte
}

// appendTo appends the hello with its HMAC.
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

// decodePSKHello reads a hello. The error is errPSKMalformed or errPSKKey. If the error is
// errPSKKey, h holds what the message claims.
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

// pskKeys holds the keys that are derived from the pre-shared key alone.
type pskKeys struct{ root, handshake []byte }

func newPSKKeys(psk []byte) (k pskKeys, err error) {
	if k.root, err = hkdf.Extract(sha256.New, psk, []byte("ttfabric psk 1")); err == nil {
		k.handshake, err = hkdf.Expand(sha256.New, k.root, "handshake", sha256.Size)
	}
	return k, err
}

// session derives the keys of a handshake from its two messages.
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

// parsePSKHeader reads the header of a sealed datagram. parsePSKHeader reports false for any other
// datagram.
func parsePSKHeader(b []byte) (id uint32, counter uint64, ok bool) {
	if len(b) < PSKOverhead || b[0] != pskMagic0 || b[1] != pskMagic1 || b[2] != pskVersion || b[3] != pskSealed {
		return 0, 0, false
	}
	return binary.LittleEndian.Uint32(b[4:]), binary.LittleEndian.Uint64(b[8:]), true
}

// ReplayWindow is how far a counter may lie behind the newest counter if a sealed datagram is to be
// received. The window is twice the number of frames that a link has under way (ttlink.MaxFrames).
// Each frame has its own counter. Reordering therefore loses nothing.
const ReplayWindow = 8192

// replayWindow remembers which counters came (RFC 6479). A replayWindow holds one block more than
// the window. For that reason a window that moves on clears whole blocks.
type replayWindow struct {
	next   uint64 // one beyond the newest counter; 0: no counter came
	blocks [ReplayWindow/64 + 1]uint64
}

// check reports whether a counter is new and not too old.
func (w *replayWindow) check(c uint64) bool {
	if c >= w.next {
		return true
	}
	return w.next-c <= ReplayWindow && w.blocks[c/64%uint64(len(w.blocks))]&(1<<(c%64)) == 0
}

// take notes the counter of an authentic datagram. If the counter came before, take reports false.
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

// block returns the number of the block of the newest counter. Before any counter came, block
// returns the block of counter 0, whose bits are clear anyway.
func (w *replayWindow) block() uint64 { return (cmp.Or(w.next, 1) - 1) / 64 }
