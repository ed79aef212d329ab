package flow

import (
	"encoding/binary"
	"time"

	"ttfabric/wire"
)

// A flow's epoch orders what its source sent. A destination that has heard of a
// later epoch of a flow performs no request of a former one, however late and by
// whatever route the request comes. The first epoch of each flow of a chip is
// [Config.Epoch]; later epochs count on from there. A chip takes the time of its
// start in milliseconds. Milliseconds pass faster than epochs, since an epoch
// ends only when nothing is open in the flow. The number wraps after 50 days: a
// chip that restarts 25 to 50 days after its last start is taken for older.
//
// A chip may start with a lower epoch than before, because its clock was set
// back. The destination then refuses the chip's requests and answers with the
// epoch that the destination knows. The source goes on from that epoch.
//
// An epoch is known once every member of the flow has answered in it. A
// destination that gets a request of a known epoch, but does not know that epoch
// itself, has restarted, and refuses the request. So a destination's word on
// requests that did not come binds its next incarnations, too:
//
//   - An epoch that a destination does not know begins there with a request that
//     was sent before the epoch was known.
//   - Each such request is behind the destination that answered for the later
//     ones: the request arrived there, or a router dropped it. A request for
//     which this is not certain ends as of unknown outcome, and the epoch ends
//     with it.
//
// An epoch also ends while the flow is idle. A destination that restarts
// meanwhile then has nothing to refuse.

// FlowIdle is the time without an open request after which a flow begins
// another epoch. Our own choice: shorter than a process takes to restart.
const FlowIdle = 100 * time.Millisecond

// epoch is what a source knows of the present epoch of a flow.
type epoch struct {
	number uint32
	older  uint32 // not 0: a member knows this later epoch; the next epoch must be later still
	known  bool   // every member has answered in this epoch
	ending bool   // a request of this epoch may still come late; another epoch begins when nothing is open
}

// over reports whether the flow must not send more requests in this epoch.
func (e *epoch) over() bool { return e.ending || e.older != 0 }

// judge takes note of how a request of this epoch ends. It makes the end more
// careful where the destination's word does not bind the destination's next incarnation.
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

// after is the number of the next epoch of the flow.
func (e *epoch) after() uint32 {
	if e.older != 0 {
		return nextEpoch(e.older)
	}
	return nextEpoch(e.number)
}

// firstEpoch is the number of the first epoch of each flow of a chip.
func firstEpoch(cfg *Config) uint32 {
	if cfg.Epoch != 0 {
		return cfg.Epoch
	}
	return wire.Checksum(binary.LittleEndian.AppendUint64(nil, uint64(cfg.Incarnation)))
}

// nextEpoch is the number of the epoch after e.
func nextEpoch(e uint32) uint32 { return e + 1 }

// olderEpoch reports whether epoch a is older than epoch b.
func olderEpoch(a, b uint32) bool { return int32(b-a) > 0 }
