package reliable

// Time is a time in femtoseconds since the start of the network. One part in a million of a clock
// cycle of 10 ns is 10 fs.
type Time int64

// The nominal clock (RR §2.3.1, §3): 100 MHz, and two cycles for each flit.
const (
	Cycle      Time = 10_000_000 // 10 ns
	FlitCycles      = 2
	FlitTime        = FlitCycles * Cycle
)

// Cycles of the pipeline (RR Table 3). A head flit that is in the flit register from time t on is
// routed in cycles 4 and 5, crosses in cycle 6 and leaves in cycle 7; the next chip assembles it in
// cycles 0 and 1. So the next chip has the whole flit assembledAfter cycles after t. Cycle 3 samples
// the flit; before it, synchronisation takes 0 or 1 cycle.
const (
	computeCycles  = 2 // cycles 4 and 5
	crossCycles    = 1 // cycle 6
	leaveCycles    = 1 // cycle 7
	assemblyCycles = 2 // cycles 0 and 1
	sampleCycles   = 1 // cycle 3
	assembledAfter = computeCycles + crossCycles + leaveCycles + assemblyCycles
	HopCycles      = assembledAfter + sampleCycles // without synchronisation
)

// PadEvery is the number of flit times after which a router turns off its crossbar for one (RR §6:
// "turning off the crossbar one out of a thousand times").
const PadEvery = 1000

// sentSlot is a slot on a line. At time ready the receiver's chip has assembled the whole slot.
type sentSlot struct {
	ready  Time
	sent   Time // time at which the flit was in the sender's flit register
	frames [NumFrames]uint32
	pad    bool // the slot is padding
	head   bool // the slot has a head flit
}

// lineSlots is the number of slots that a line remembers. At most five are of use: those on their way,
// and the two that the two waveforms show.
const lineSlots = 16

// line is one direction of a link. The sender adds a slot in each of its flit times. The receiver
// samples with its own clock. A wire has no delay.
//
// Invariant: slots next-lineSlots to next-1 are in the ring, slot i at index i%lineSlots.
type line struct {
	slots [lineSlots]sentSlot
	next  int64 // number of slots so far
	cut   Time  // the line carries no slot that is ready after this time
	cycle Time  // clock cycle of the sender
	wave  wave
}

func (l *line) at(i int64) *sentSlot { return &l.slots[i%lineSlots] }

// put adds the sender's slot.
func (l *line) put(s sentSlot) {
	*l.at(l.next) = s
	l.next++
}

// latest returns the number of the latest slot that is ready at time t, or -1.
func (l *line) latest(t Time) int64 {
	i := l.next - 1
	for i >= max(0, l.next-lineSlots) && (l.at(i).ready > t || l.at(i).ready > l.cut) {
		i--
	}
	if i < max(0, l.next-lineSlots) {
		return -1
	}
	return i
}

// wave is the receiver of the plesiochronous interface (RR §6, Figure 12). Waveform A shows a slot
// from the time when the slot is assembled until the next one is. Waveform B is A, one cycle later. The
// receiver samples one of the two. Where its clock edge comes near to a change of that waveform, it
// changes to the other waveform, as soon as this neither skips nor repeats a slot that carries
// information.
type wave struct {
	late    bool  // the receiver samples waveform B
	last    int64 // number of the slot sampled last; -1 before the first
	started bool
	Slips
}

// Slips count what a receiver did because its clock and the sender's differ.
type Slips struct {
	Missed  int // slots with information that the receiver did not sample
	Doubled int // slots with information that the receiver sampled twice
	Padding int // padding slots that the receiver skipped or repeated
	Changes int // changes from one waveform to the other
}

// keepOut is the time before and after a change of a waveform in which the receiver should not sample
// it. With half a cycle, one of the two waveforms is always safe. The paper gives no figure.
const keepOut = Cycle / 2

// shown returns the number of the slot that waveform A or B shows at time t, or -1.
func (l *line) shown(late bool, t Time) int64 {
	if late {
		t -= l.cycle
	}
	return l.latest(t)
}

// margin returns the time from t to the nearest change of a waveform that shows slot i.
func (l *line) margin(late bool, i int64, t Time) Time {
	at := l.at(i).ready
	if late {
		at += l.cycle
	}
	return min(t-at, at+FlitCycles*l.cycle-t)
}

// sample returns the slot that the receiver's flit register takes at time t. Before the first slot,
// sample returns nil. After the last slot of a line that was cut, "dead" is true.
func (l *line) sample(t Time) (s *sentSlot, dead bool) {
	w := &l.wave
	if !w.started {
		a := l.shown(false, t)
		b := l.shown(true, t)
		if a < 0 || b < 0 {
			return nil, l.cut < t
		}
		w.started, w.late = true, l.margin(true, b, t) > l.margin(false, a, t)
		w.last = l.shown(w.late, t) - 1
	}
	i := l.shown(w.late, t)
	if i < 0 || i <= w.last && l.cut < t {
		return nil, true
	}
	for k := w.last + 1; k < i; k++ {
		w.slip(l.at(k), &w.Missed)
	}
	if i == w.last {
		w.slip(l.at(i), &w.Doubled)
	}
	w.last = i
	l.change(t)
	return l.at(i), false
}

// slip counts a slot that was skipped or repeated.
func (w *wave) slip(s *sentSlot, lost *int) {
	if s.pad {
		w.Padding++
	} else {
		*lost++
	}
}

// change changes the waveform if the present one is not safe any more. The next sample after the
// change is one flit time later. If the next sample would repeat the present slot, or skip the slot
// that the other waveform shows already, that slot must be padding.
func (l *line) change(t Time) {
	w := &l.wave
	if l.margin(w.late, w.last, t) >= keepOut {
		return
	}
	switch other := l.shown(!w.late, t); {
	case other == w.last:
	case other == w.last-1 && l.at(w.last).pad:
	case other == w.last+1 && l.at(other).pad:
	default:
		return
	}
	w.late = !w.late
	w.Changes++
}
