package chip

import (
	"encoding/binary"
	"time"

	"ttfabric/wire"
)

// A flow's epoch orders the lives of its source: a destination that has heard
// of a later life performs nothing of a former one, by whatever way and however
// late it comes. A chip's first life of a flow is [Config.Life], and the next
// ones count on from it. Milliseconds pass faster than lives, each of which
// waits for what is open in it, and wrap after 50 days: a chip that starts again
// 25 to 50 days after it started last is taken for older.
//
// Should a chip start with a lower number than in a former life, since its clock
// was set back, the destination refuses its requests and answers with the
// epoch that it knows. The source then goes on from there.

// A life of a flow is known once its destination has answered in it, of a group
// once all members have. A destination that gets a request of a known life, and
// does not know that life, has restarted, and refuses it. So what a
// destination says of requests that did not come holds for its next lives, too:
//
//   - A life that is not known to a destination begins there with a request
//     that was sent before the life was known.
//   - Each of these requests is behind the destination that answered for the
//     later ones: it came there, or a router dropped it. One of which that is
//     not so ends as of unknown outcome, and the life of the flow with it.
//
// A life also ends while the flow is idle, so that a destination that restarts
// meanwhile has nothing to refuse.

// FlowIdle is the time without an open request after which a flow goes on with
// another life. Our own choice: shorter than a process takes to start anew.
const FlowIdle = 100 * time.Millisecond

// life is what a source knows of the present life of a flow, or of a group's.
type life struct {
	known  bool // every destination has answered in it
	ending bool // what does not come in it may come late; another one begins when nothing is open
}

// judge takes note of how a request of this life ends, and says so more
// carefully where the destination's word does not bind its next life.
func (l *life) judge(o *op, r Result) Result {
	if r.Fate == FateLost && r.Drop == 0 && (!o.known || l.ending) {
		r = Result{Fate: FateUnknown, Doubt: DoubtLate}
	}
	if r.Fate == FateUnknown && !o.known {
		l.ending = true
	}
	return r
}

// heard takes note of a completion of this life.
func (l *life) heard(m *wire.Completion) {
	for _, e := range m.Exceptions {
		if e.Outcome == wire.OutcomeRestarted || e.Outcome == wire.OutcomeUnknownFlow {
			l.ending = true
		}
	}
}

// firstLife is the epoch of a chip's first life of a flow.
func firstLife(cfg *Config) uint32 {
	if cfg.Life != 0 {
		return cfg.Life
	}
	return wire.Checksum(binary.LittleEndian.AppendUint64(nil, uint64(cfg.Incarnation)))
}

// nextLife is the epoch of the life after e.
func nextLife(e uint32) uint32 { return e + 1 }

// olderLife reports whether a is an older life than b.
func olderLife(a, b uint32) bool { return int32(b-a) > 0 }
