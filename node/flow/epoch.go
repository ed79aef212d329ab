package flow

import (
	"encoding/binary"
	"time"

	"ttfabric/wire"
)

// The source of a flow sends its requests in consecutive epochs. If a destination has
// heard of a later epoch of a flow, it performs no request of a former epoch. This rule
// holds however late and by whatever route the request comes. The first epoch of each
// flow of a chip is [Config.Epoch]. Each later epoch has the next number. A chip uses
// the time of its start in milliseconds as first epoch. Milliseconds pass faster than
// epochs, since an epoch ends only when nothing is open in the flow. The number wraps
// after 50 days. If a chip restarts 25 to 50 days after its last start, its new epoch
// therefore looks older.
//
// A chip may start with a lower epoch than before, if its clock was set back. The
// destination then refuses the chip's requests and answers with the epoch that the
// destination knows. The source goes on from that epoch.
//
// An epoch is known once every member of the flow has answered in this epoch. Suppose a
// destination gets a request of a known epoch, but has not heard of this epoch. The
// destination has then restarted, and refuses the request. Therefore a destination's
// answer about requests that did not come also binds the next incarnations of the
// destination:
//
//   - A destination can begin an epoch only with a request that the source sent before
//     the epoch was known.
//   - Once the destination has answered for later requests, no request from this time
//     is under way: it arrived, or a router dropped it. If this is not certain for a
//     request, the request ends as FateUnknown, and the epoch ends with the request.
//
// An epoch also ends while the flow is idle. If the destination restarts in the idle
// time, it then has no request to refuse.

// FlowIdle is the time without an open request after which a flow begins another epoch.
// The value is our own choice. FlowIdle is shorter than the restart of a process.
const FlowIdle = 100 * time.Millisecond

// epoch holds what a source knows about the present epoch of a flow.
type epoch struct {
	number uint32
	older  uint32 // not 0: a member knows this later epoch, and the next epoch must be even later
	known  bool   // every member has answered in this epoch
	ending bool   // a request of this epoch may still arrive late, and another epoch begins when nothing is open
}

// over reports whether the flow must not send more requests in this epoch.
func (e *epoch) over() bool { return e.ending || e.older != 0 }

// judge takes note of how a request of this epoch ends. If the destination's answer
// does not bind the destination's next incarnation, judge changes the end to an unknown
// outcome.
func (e *epoch) judge(o *op, x *end) {
	if x.fate == FateLost && x.drop == 0 && (!o.known || e.ending) {
		*x = unknown(DoubtLate)
	}
	if x.fate == FateUnknown && !o.known {
		e.ending = true
	}
}

// heard takes note of a completion of this epoch.
func (e *epoch) heard(m *wire.Completion) {
	for _, x := range m.Exceptions {
		if x.Outcome == wire.OutcomeRestarted || x.Outcome == wire.OutcomeUnknownFlow {
			e.ending = true
		}
	}
}

// exceeded takes note that a member knows a later epoch.
func (e *epoch) exceeded(later uint32) {
	if e.older == 0 || olderEpoch(e.older, later) {
		e.older = later
	}
}

// after returns the number of the next epoch of the flow.
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
