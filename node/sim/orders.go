package sim

import (
	"fmt"
	"time"

	"ttfabric/router"
)

// The mishaps in this file are commands of operators, and repeated cuts of a cable. A command may
// delay requests, but must have no other effect on requests.

// longestPause is the longest time for which a mishap pauses a port.
const longestPause = time.Second

// order gives a command to the router at one port of a chip. If "all" is true, order gives the
// command at all ports of the chip. If the chip is dead or stalled, order does nothing.
func (s *Sim) order(m *machine, c *cable, side int, all bool, cmd router.Command) {
	if m.chip == nil || m.stalled > 0 {
		return
	}
	for _, p := range m.chip.Channels() {
		if all || p.Local == c.ports[side] {
			// A retrain fails if the link has no path. order ignores this error.
			_ = m.chip.Command(s.now, p.Local.Channel, cmd)
		}
	}
	s.run(m)
}

// retrain makes a link train anew several times.
func (s *Sim) retrain() mishap {
	c, side, n := s.anyCable(), s.rng.IntN(2), 1+s.rng.IntN(20)
	gap := time.Duration(s.rng.Int64N(int64(20 * time.Millisecond)))
	return mishap{what: fmt.Sprintf("%d retrains by %s", n, c.ports[side]), begin: func() {
		for k := range n {
			s.after(time.Duration(k)*gap, func() {
				s.unlessHealed(func() { s.order(c.chips[side], c, side, false, router.CommandRetrain) })
			})
		}
	}}
}

// pause pauses the router at one port or at all ports of a chip.
func (s *Sim) pause() mishap {
	c, side, all := s.anyCable(), s.rng.IntN(2), s.rng.IntN(3) == 0
	m := c.chips[side]
	return mishap{last: s.span(longestPause), what: fmt.Sprintf("pause of %s, the whole chip: %v", c.ports[side], all),
		begin: func() { s.order(m, c, side, all, router.CommandPause) },
		end:   func() { s.order(m, c, side, all, router.CommandRun) }}
}

// flapping cuts and repairs a cable several times.
func (s *Sim) flapping() mishap {
	c, n := s.anyCable(), 2+s.rng.IntN(10)
	down := 20*time.Millisecond + time.Duration(s.rng.Int64N(int64(200*time.Millisecond)))
	up := time.Duration(s.rng.Int64N(int64(200 * time.Millisecond)))
	last := time.Duration(n) * (down + up)
	return mishap{last: last, what: fmt.Sprintf("%d cuts of %s, %v down and %v up", n, c, down, up), begin: func() {
		for k := range n {
			at := time.Duration(k) * (down + up)
			s.after(at, func() { s.unlessHealed(func() { s.cutWays(c, 1, 0, 1) }) })
			s.after(at+down, func() { s.unlessHealed(func() { s.cutWays(c, -1, 0, 1) }) })
		}
	}}
}

func (s *Sim) unlessHealed(do func()) {
	if !s.healed {
		do()
	}
}

// resumeAll ends the pauses of all ports of a chip.
func (s *Sim) resumeAll(m *machine) {
	for _, p := range m.chip.Channels() {
		_ = m.chip.Command(s.now, p.Local.Channel, router.CommandRun)
	}
}
