package netem

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"ttfabric/ttlink/fault"
)

// Numbers of netem's netlink attributes (include/uapi/linux/pkt_sched.h). The package encodes
// netem's options itself, because the netlink library lacks the loss models, the times in
// nanoseconds and the seed.
const (
	attrCorr      = 1
	attrReorder   = 3
	attrCorrupt   = 4
	attrLoss      = 5
	attrRate      = 6
	attrRate64    = 8
	attrLatency64 = 10
	attrJitter64  = 11
	attrSeed      = 14 // exists since Linux 6.6

	lossGE = 2 // number of the attribute within attrLoss for the Gilbert-Elliott model

	lenQopt = 24 // length of struct tc_netem_qopt, in bytes
)

// stage holds the options of one netem qdisc.
type stage struct {
	latency, jitter          time.Duration
	loss, duplicate, corrupt float64
	ge                       *[4]float64 // parameters of the Gilbert-Elliott model: probability to turn bad, to turn good, to keep a packet while bad, to lose a packet while good; nil: no model
	rate                     uint64      // bytes per second
	limit                    uint32      // largest number of packets that wait
	gap                      uint32      // 1: netem reorders packets, with the share in prompt; 0: netem does not reorder
	prompt                   float64     // share of packets that netem sends without delay; used only if gap is 1
	seed                     *uint64
}

// stages returns the netem qdiscs that together impair packets by the options o, from top to
// bottom. If o is zero, stages returns none.
//
// Our fault model (package fault) reorders packets by holding back a share of them, for up to
// ReorderSpan. netem sends the share in the field "prompt" at once, and delays all other packets.
// The stage therefore delays the held-back share, and sends the rest at once. If the options also
// have a delay, jitter or rate, the reordering has a stage of its own. If the options have both
// loss and the Gilbert-Elliott model, our model draws two random numbers for a packet, and netem
// draws one. The stage combines the probabilities, so that both models lose the same share of
// packets.
func stages(o fault.Options, seed *uint64) []stage {
	if o == (fault.Options{}) {
		return nil
	}
	s := stage{latency: o.Delay, jitter: o.Jitter, loss: o.Loss, duplicate: o.Duplicate, corrupt: o.Corrupt,
		rate: uint64(o.Rate+7) / 8, limit: DefaultLimit, seed: seed}
	if o.Burst != (fault.Burst{}) {
		b := o.Burst
		s.ge = &[4]float64{b.ToBad, b.ToGood, (1 - b.LossBad) * (1 - o.Loss), 1 - (1-b.LossGood)*(1-o.Loss)}
	}
	if o.Rate > 0 {
		queue := o.Queue
		if queue == 0 {
			queue = fault.DefaultQueue
		}
		s.limit = uint32(max(1, queue/frameForLimit))
	}
	if o.Reorder == 0 {
		return []stage{s}
	}
	span := o.ReorderSpan
	if span == 0 {
		span = fault.DefaultReorderSpan
	}
	if o.Delay == 0 && o.Jitter == 0 && o.Rate == 0 {
		s.latency, s.jitter, s.gap, s.prompt = span/2, span/2, 1, 1-o.Reorder
		return []stage{s}
	}
	return []stage{s, {latency: span / 2, jitter: span / 2, gap: 1, prompt: 1 - o.Reorder, limit: DefaultLimit, seed: seed}}
}

// splits reports whether netem must handle each datagram of a super-packet separately. If a fixed
// delay is the only option, netem may handle a super-packet as a whole.
func splits(o fault.Options) bool {
	o.Delay = 0
	return o != (fault.Options{})
}

// optionsOf returns the options from which stages makes the given netem qdiscs, except Queue. The
// values are as exact as the kernel's resolution allows.
func optionsOf(ss []stage) (o fault.Options) {
	for i, s := range ss {
		if i == 0 {
			o.Loss, o.Duplicate, o.Corrupt, o.Rate = s.loss, s.duplicate, s.corrupt, int64(s.rate)*8
			if s.ge != nil {
				o.Burst = fault.Burst{ToBad: s.ge[0], ToGood: s.ge[1], LossBad: 1 - share(s.ge[2], 1-o.Loss), LossGood: 1 - share(1-s.ge[3], 1-o.Loss)}
				o.Burst.LossBad, o.Burst.LossGood = roundShare(o.Burst.LossBad), roundShare(o.Burst.LossGood)
			}
		}
		if s.gap != 0 {
			o.Reorder = roundShare(1 - s.prompt)
			if span := s.latency + s.jitter; span != fault.DefaultReorderSpan {
				o.ReorderSpan = span
			}
		} else {
			o.Delay, o.Jitter = s.latency, s.jitter
		}
	}
	return o
}

func share(a, b float64) float64 {
	if b <= 0 {
		return 0
	}
	return min(1, a/b)
}

// roundShare rounds a share to eight decimals. The rounding removes the error of the kernel's
// format, 32 bits with a resolution of 2.3e-10.
func roundShare(p float64) float64 { return math.Round(p*1e8) / 1e8 }

func share32(p float64) uint32 { return uint32(math.Round(p * math.MaxUint32)) }
func shareOf(v uint32) float64 { return roundShare(float64(v) / math.MaxUint32) }
func u32s(v ...uint32) (b []byte) {
	for _, x := range v {
		b = binary.NativeEndian.AppendUint32(b, x)
	}
	return b
}

func u64(v uint64) []byte { return binary.NativeEndian.AppendUint64(nil, v) }

// appendAttr appends a netlink attribute (netlink(7)) to b, padded to four bytes.
func appendAttr(b []byte, kind uint16, data []byte) []byte {
	b = binary.NativeEndian.AppendUint16(b, uint16(4+len(data)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = append(b, data...)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

// encode returns the options in the kernel's format, the attribute TCA_OPTIONS. encode writes zero
// values too, because a change leaves missing attributes as they are. encode leaves out the loss
// model and the seed if the stage has none, and the 64-bit rate if 32 bits suffice.
func (s *stage) encode() []byte {
	b := u32s(0, s.limit, share32(s.loss), s.gap, share32(s.duplicate), 0)
	b = appendAttr(b, attrLatency64, u64(uint64(s.latency)))
	b = appendAttr(b, attrJitter64, u64(uint64(s.jitter)))
	b = appendAttr(b, attrCorr, u32s(0, 0, 0))
	b = appendAttr(b, attrReorder, u32s(share32(s.prompt), 0))
	b = appendAttr(b, attrCorrupt, u32s(share32(s.corrupt), 0))
	b = appendAttr(b, attrRate, u32s(uint32(min(s.rate, math.MaxUint32)), 0, 0, 0))
	if s.rate > math.MaxUint32 {
		b = appendAttr(b, attrRate64, u64(s.rate))
	}
	if g := s.ge; g != nil {
		b = appendAttr(b, attrLoss, appendAttr(nil, lossGE, u32s(share32(g[0]), share32(g[1]), share32(g[2]), share32(g[3]))))
	}
	if s.seed != nil {
		b = appendAttr(b, attrSeed, u64(*s.seed))
	}
	return b
}

// attrs calls f with each attribute in b.
func attrs(b []byte, f func(kind uint16, data []byte)) error {
	for len(b) >= 4 {
		n := int(binary.NativeEndian.Uint16(b))
		if n < 4 || n > len(b) {
			return fmt.Errorf("netem: an attribute states a length of %d bytes, but %d bytes are left", n, len(b))
		}
		f(binary.NativeEndian.Uint16(b[2:])&0x3fff, b[4:n]) // the mask removes two flags of netlink(7): nested attribute, and byte order
		b = b[min(len(b), (n+3)&^3):]
	}
	return nil
}

// words decodes the first n 32-bit integers in b. If b is too short, the missing integers are 0.
func words(b []byte, n int) []uint32 {
	out := make([]uint32, n)
	for i := range out {
		if len(b) >= 4*i+4 {
			out[i] = binary.NativeEndian.Uint32(b[4*i:])
		}
	}
	return out
}

func word64(b []byte) uint64 {
	if len(b) < 8 {
		return 0
	}
	return binary.NativeEndian.Uint64(b)
}

// decodeStage decodes the options of a netem qdisc as the kernel reports them, the attribute
// TCA_OPTIONS.
func decodeStage(b []byte) (s stage, err error) {
	if len(b) < lenQopt {
		return s, fmt.Errorf("netem: options of %d bytes: want at least %d bytes", len(b), lenQopt)
	}
	q := words(b, 6)
	s.limit, s.loss, s.gap, s.duplicate = q[1], shareOf(q[2]), q[3], shareOf(q[4])
	err = attrs(b[lenQopt:], func(kind uint16, data []byte) {
		switch kind {
		case attrLatency64:
			s.latency = time.Duration(word64(data))
		case attrJitter64:
			s.jitter = time.Duration(word64(data))
		case attrReorder:
			s.prompt = shareOf(words(data, 1)[0])
		case attrCorrupt:
			s.corrupt = shareOf(words(data, 1)[0])
		case attrRate:
			s.rate = max(s.rate, uint64(words(data, 1)[0]))
		case attrRate64:
			s.rate = max(s.rate, word64(data))
		case attrSeed:
			if seed := word64(data); len(data) >= 8 {
				s.seed = &seed
			}
		case attrLoss:
			_ = attrs(data, func(kind uint16, data []byte) {
				if w := words(data, 4); kind == lossGE {
					s.ge = &[4]float64{shareOf(w[0]), shareOf(w[1]), shareOf(w[2]), shareOf(w[3])}
				}
			})
		}
	})
	return s, err
}

// splitOptions returns the options of a tbf qdisc that splits packets longer than "size" bytes. The
// tbf delays no packet noticeably, because its rate is 100 GB/s.
func splitOptions(size uint32) []byte {
	const rate = 100e9 // bytes per second
	p := append(rateSpec(math.MaxUint32), rateSpec(0)...)
	p = append(p, u32s(64<<20, 0, 0)...) // struct tc_tbf_qopt: rate, peak rate, limit of tbf's own queue (which netem replaces), buffer, mtu
	b := appendAttr(nil, 1, p)           // TCA_TBF_PARMS
	b = appendAttr(b, 4, u64(rate))      // TCA_TBF_RATE64
	return appendAttr(b, 6, u32s(size))  // TCA_TBF_BURST
}

// rateSpec returns the struct tc_ratespec of a rate on ethernet.
func rateSpec(bytesPerSecond uint32) []byte {
	const ethernet = 1 // TC_LINKLAYER_ETHERNET, with which the kernel needs no rate table
	return append([]byte{0, ethernet, 0, 0, 0, 0, 0, 0}, u32s(bytesPerSecond)...)
}
