package main

import (
	"math/rand/v2"
	"syscall"

	"ttfabric/wire"
)

// noise returns one random datagram for the target t: random bytes, a forged or damaged frame, or a
// frame that t received earlier.
func noise(r *rand.Rand, t *target) []byte {
	random := make([]byte, r.IntN(1500))
	for i := range random {
		random[i] = byte(r.Uint32())
	}
	f := wire.Frame{Channel: t.self.Channel, Kind: wire.Kind(1 + r.IntN(8)), VC: wire.VC(r.IntN(wire.NumVCs)), Session: wire.SessionID(r.Uint32()),
		TxSeq: wire.Seq(r.Uint32()), RxSeq: wire.Seq(r.Uint32()), Dest: r.Uint32(), Payload: random}
	switch r.IntN(8) {
	case 0:
		return random
	case 1: // a stranger's or a forged peer's hello
		h := wire.Hello{From: t.peer, Expected: t.self, WantAnswer: r.IntN(2) == 0, Up: r.IntN(2) == 0, MaxPayload: 1408,
			Incarnation: wire.Incarnation(r.Uint64() | 1), EchoIncarnation: wire.Incarnation(r.Uint64()), Training: r.Uint32(), EchoTraining: r.Uint32N(4)}
		for v := range h.Slots {
			h.Slots[v], h.Grants[v] = uint16(r.Uint32()), r.Uint32()
		}
		if r.IntN(3) == 0 {
			h.From.Node.Chip = wire.ChipID(r.IntN(8))
		}
		f.Kind, f.Session, f.Payload = wire.KindHello, 0, h.Append(nil)
	case 2: // a frame with a wrong bit
		b := f.Append(nil)
		b[r.IntN(len(b))] ^= 1 << r.IntN(8)
		return b
	case 3:
		b := f.Append(nil)
		return b[:r.IntN(len(b))]
	case 4:
		if len(t.seen) > 0 {
			return t.seen[r.IntN(len(t.seen))]
		}
	case 5: // wrong numbers, credits and acknowledgements in the true session
		f.Session = t.session
		switch f.Kind = wire.KindData; r.IntN(4) {
		case 0:
			f.Kind = wire.KindWrite
		case 1:
			f.Kind = wire.KindMMIO
		case 2:
			u := wire.Update{}
			for v := range u.Grants {
				u.Grants[v] = r.Uint32()
			}
			f.Kind, f.Payload = wire.KindUpdate, u.Append(nil)
		}
	case 6: // a frame of compliance mode
		return wire.AppendRaw(nil, t.self.Channel, append(random[:min(len(random), wire.MaxRaw-1)], 0))
	}
	return f.Append(nil)
}

// spoof wraps b in UDP and IPv4 with the peer's address as the source. The kernel fills in the IP
// checksum. The UDP checksum may be 0 over IPv4 (RFC 768).
func spoof(t *target, b []byte) []byte {
	src, dst := t.peerAt.Addr().As4(), t.at.Addr().As4()
	n := 28 + len(b)
	p := []byte{0x45, 0, byte(n >> 8), byte(n), 0, 0, 0, 0, 64, syscall.IPPROTO_UDP, 0, 0}
	p = append(append(p, src[:]...), dst[:]...)
	n -= 20
	p = append(p, byte(t.peerAt.Port()>>8), byte(t.peerAt.Port()), byte(t.at.Port()>>8), byte(t.at.Port()), byte(n>>8), byte(n), 0, 0)
	return append(p, b...)
}
