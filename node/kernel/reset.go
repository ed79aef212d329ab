package kernel

import (
	"fmt"

	"ttfabric/wire/mono"
)

// A store into the soft reset register of a tile can put the tile's processor into reset, see
// [ttfabric/node/noc.SoftReset]. The kernels of the tile then stop at once, and their jobs end on
// all chips. When the processor comes out of reset, no kernel runs on the processor until the next
// job. The emulator lacks the registers that say where a processor begins. A job does not start on
// a tile whose processor a store holds in reset.

// Reset ends the jobs with kernels on the tiles that stores have put into reset since the last call. The
// text "by" names who stored, such as "chip M0D1"; "" stands for somebody unknown.
func (m *Machine) Reset(now mono.Time, by string) {
	m.now = now
	for _, t := range m.cfg.Memory.TakeResets() {
		text := fmt.Sprintf("the processor of tile %d-%d was put into reset", t.X, t.Y)
		if by != "" {
			text = fmt.Sprintf("%s put the processor of tile %d-%d into reset", by, t.X, t.Y)
		}
		for {
			p := m.on(place{t.X, t.Y})
			if p == nil {
				break
			}
			m.end(p.job, End{Why: EndReset, By: m.cfg.Self, Kernel: p.String(), Text: text})
		}
	}
}

// on returns a kernel that runs on a tile, or nil.
func (m *Machine) on(at place) *process {
	for _, j := range m.jobs {
		for _, p := range j.running {
			if p.at == at {
				return p
			}
		}
	}
	return nil
}

// reset handles the resets that a store of process p caused. If the store has ended p's own job while p has
// its turn, p stops here.
func (p *process) reset() {
	if !p.m.cfg.Memory.HasResets() {
		return
	}
	p.m.Reset(p.m.now, "kernel "+p.String()+" of chip "+p.m.cfg.Self.String())
	if p.stopping && p.m.current == p {
		panic(stopped{})
	}
}
