package ttlink

import (
	"time"

	"ttfabric/ttlink/fault"
)

// load makes both ends send n packets on each VC that has slots.
func (w *world) load(n int) {
	for i, e := range w.ends {
		for v := range e.toSend {
			if w.ends[1-i].cfg.Slots[v] > 0 {
				e.toSend[v] += n
			}
		}
		w.service(i)
	}
}

// heal removes all faults from the cable.
func (w *world) heal() {
	for _, m := range w.cable {
		m.Cut(false)
		if err := m.Set(fault.Options{Delay: 50 * time.Microsecond}); err != nil {
			w.t.Fatal(err)
		}
	}
}

func countEvents(e *end, k EventKind) (n int) {
	for _, ev := range e.events {
		if ev.Kind == k {
			n++
		}
	}
	return n
}
