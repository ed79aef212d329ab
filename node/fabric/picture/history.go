package picture

import "time"

// Kept is the number of states whose rates a picture keeps.
const Kept = 300

// History holds rates over time, oldest first. All lists have the same length.
type History struct {
	Time   []time.Time `json:"time"`
	AB     []int       `json:"ab"`     // bytes per second from end a to end b; of the whole fabric: bytes per second over all cables
	BA     []int       `json:"ba"`     // bytes per second from end b to end a; of the whole fabric: packets that the chips hold
	Resent []int       `json:"resent"` // frames per second that were sent again, in both directions
	Lost   []int       `json:"lost"`   // of the whole fabric: packets dropped and requests lost since the state before; of a cable: 0
}

// sample holds the rates of one cable at one time. Smaller numbers than int save memory.
type sample struct{ ab, ba, resent int32 }

// row holds the rates of all cables at one time.
type row struct {
	at     time.Time
	cables []sample
	total  Total
}

// history keeps the latest rows, in a ring.
type history struct {
	rows []row
	next int // position of the oldest row, if the ring is full
}

func (h *history) add(s *State) {
	r := row{at: s.Time, total: s.Total}
	if len(h.rows) == Kept {
		r.cables = h.rows[h.next].cables
	} else {
		r.cables = make([]sample, len(s.Cables))
	}
	for i := range s.Cables {
		c := &s.Cables[i]
		r.cables[i] = sample{clip(c.AB.Bytes), clip(c.BA.Bytes), clip(c.AB.Resent + c.BA.Resent)}
	}
	if len(h.rows) < Kept {
		h.rows = append(h.rows, r)
		return
	}
	h.rows[h.next] = r
	h.next = (h.next + 1) % Kept
}

func clip(n int) int32 { return int32(min(n, 1<<31-1)) }

// History returns the rates of cable i. For i = -1, History returns the rates of the whole fabric.
func (p *Picture) History(i int) History {
	n := len(p.history.rows)
	out := History{Time: []time.Time{}, AB: []int{}, BA: []int{}, Resent: []int{}, Lost: []int{}}
	for k := range n {
		r := &p.history.rows[(p.history.next+k)%n]
		out.Time = append(out.Time, r.at)
		x, lost := sample{clip(r.total.Bytes), clip(r.total.InFlight), clip(r.total.Resent)}, r.total.Dropped+r.total.Lost
		if i >= 0 {
			x, lost = r.cables[i], 0
		}
		out.AB, out.BA, out.Resent, out.Lost = append(out.AB, int(x.ab)), append(out.BA, int(x.ba)), append(out.Resent, int(x.resent)), append(out.Lost, lost)
	}
	return out
}
