package flow

import (
	"encoding/binary"
	"time"

	"ttfabric/wire"
)

// The source of a flow sends its requests in consecutive epochs. Once a destination has heard of an
// epoch of a flow, the destination refuses all requests of older epochs, however late a request
// comes. The first epoch of each flow of a chip is [Config.Epoch]. Each later epoch has the next
// number. A chip uses the time of its start in milliseconds as first epoch. A flow begins fewer
// than one epoch per millisecond, because an epoch ends only when no request of the flow is open.
// After a restart, the first epoch is therefore higher than all epochs before. The number wraps
// after 50 days. If a chip restarts 25 to 50 days after its last start, its new epoch therefore
// looks older.
//
// A chip may start with a lower epoch than before, if its clock was set back. The
// destination then refuses the chip's requests, and its completions name the newer epoch.
// The source continues with the epoch after the newer epoch.
//
// An epoch is known once every member of the flow has answered in this epoch. Suppose a
// destination gets a request of a known epoch, but has not heard of this epoch. The
// destination has then restarted, and refuses the request. Therefore the answer "this
// request did not come" stays true after a restart of the destination, for two reasons:
//
//   - A destination can begin an epoch only with a request that the source sent before
//     the epoch was known.
//   - Once the destination has answered a later request, no request that the source sent before the
//     epoch was known is still under way. Each such request arrived, or a router dropped it. If a
//     request may still be under way, the request ends as FateUnknown, and the epoch ends too.
//
// If the packets of an epoch name a life of the destination, no other life performs requests of the
// epoch. The file lives.go describes such epochs.
//
// An epoch also ends when the flow has been idle for FlowIdle. The next epoch is not known yet. A
// destination that restarts in the idle time therefore performs the next request, unless the
// request names the destination's previous life.

// FlowIdle is the time without an open request after which a flow begins another epoch.
// The value is our own choice. A process takes longer than FlowIdle to restart.
const FlowIdle = 100 * time.Millisecond

// epoch holds what a source knows about the present epoch of a flow.
type epoch struct {
	number uint32
	older  uint32 // number of a later epoch that a member has heard of; the flow's next epoch comes after it; 0: none
	known  bool   // every member has answered in this epoch
	ending bool   // the flow sends no more requests in this epoch, and begins another epoch when no request is open

	peer    *peer // the destination, if all packets of the epoch name its life; nil: the packets name no life
	open    bool  // requests need not wait until the epoch is known
	asked   bool  // requests wait for the end of a probe, which the flow has sent
	dropped end   // end of the epoch's last probe that a router dropped
}

// life returns the life that all packets of the epoch name, or 0.
func (e *epoch) life() wire.Life {
	if e.peer == nil {
		return 0
	}
	return e.peer.life
}

// The method "over" reports whether this epoch takes no more requests.
func (e *epoch) over() bool { return e.ending || e.older != 0 }

// judge may change how a request of this epoch ends, and may end the epoch. If a lost request may
// still arrive at a later incarnation of the destination, judge changes the end from lost to
// unknown. If nobody knows whether the destination performed the request, and the epoch was not
// known when the source sent the request, judge ends the epoch. If the packets of the epoch name a
// life, judge does neither. If only the destination's host has gone, the epoch goes on. The
// parameter m is the member that settles the request.
func (e *epoch) judge(o *op, m *member, x *end) {
	if e.peer == nil {
		if x.fate == FateLost && x.drop == 0 && (!o.known || m.anew) {
			*x = unknown(DoubtLate)
		}
		if x.fate == FateUnknown && x.doubt != DoubtData && x.doubt != DoubtHost && !o.known {
			e.ending, m.anew = true, true
		}
	}
	if o.probe && x.fate == FateLost {
		e.dropped = *x
	}
}

// heard notes a completion of this epoch. The epoch ends if the completion says that the
// destination restarted or does not know the flow. heard reports whether the completion says so.
func (e *epoch) heard(m *wire.Completion) (anew bool) {
	for _, x := range m.Exceptions {
		if x.Outcome == wire.OutcomeRestarted || x.Outcome == wire.OutcomeUnknownFlow {
			e.ending, anew = true, true
		}
	}
	return anew
}

// exceeded notes that a member has heard of a later epoch.
func (e *epoch) exceeded(later uint32) {
	if e.older == 0 || olderEpoch(e.older, later) {
		e.older = later
	}
}

// The method "after" returns the number of the next epoch of the flow.
func (e *epoch) after() uint32 {
	if e.older != 0 {
		return nextEpoch(e.older)
	}
	return nextEpoch(e.number)
}

// firstEpoch returns the number of the first epoch of each flow of a chip.
func firstEpoch(cfg *Config) uint32 {
	if cfg.Epoch != 0 {
		return cfg.Epoch
	}
	return wire.Checksum(binary.LittleEndian.AppendUint64(nil, uint64(cfg.Incarnation)))
}

// nextEpoch returns the number of the epoch after e.
func nextEpoch(e uint32) uint32 { return e + 1 }

// olderEpoch reports whether epoch a is older than epoch b.
func olderEpoch(a, b uint32) bool { return int32(b-a) > 0 }
