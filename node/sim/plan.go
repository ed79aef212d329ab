package sim

import (
	"fmt"
	"slices"
	"time"

	"ttfabric/ttlink/fault"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// mishap is one planned fault of a run. The simulator calls "begin" at the time "at", and calls
// "end" when the duration "last" is over. Once the run has ended all faults, the simulator calls no
// "begin" and no "end" any more.
type mishap struct {
	at         mono.Time
	last       time.Duration
	what       string
	begin, end func()
}

// String returns the mishap's time, duration and description.
func (f mishap) String() string { return fmt.Sprintf("at %v for %v: %s", f.at, f.last, f.what) }

// Limits of a plan.
const (
	maxMishaps  = 12
	longestCut  = 3 * time.Second
	longestDead = 2 * time.Second
	longestRest = 1500 * time.Millisecond // longest duration of a chip's stall
)

// drawPlan draws the impairments of the cables and the mishaps of the run. drawPlan plans the
// mishaps, or only those with the numbers in Only.
func (s *Sim) drawPlan(end mono.Time) {
	if s.rng.IntN(3) == 0 { // all cables get an impairment for the whole time of the faults
		for _, c := range s.cables {
			for side := range c.way {
				s.set(c, side, s.weather(0.05))
			}
		}
	}
	kinds := []func() mishap{s.storm, s.cut, s.sever, s.sever, s.avoid, s.oneWayCut, s.restart, s.restart, s.stall, s.swap, s.forge, s.replay, s.unplug, s.narrow, s.retrain, s.pause, s.flapping}
	for range s.rng.IntN(maxMishaps + 1) {
		f := kinds[s.rng.IntN(len(kinds))]()
		f.at = mono.Time(s.rng.Int64N(int64(end)))
		s.plan = append(s.plan, f)
	}
	slices.SortStableFunc(s.plan, func(a, b mishap) int { return int(a.at - b.at) })
	for i, f := range s.plan {
		if s.cfg.Only != nil && !slices.Contains(s.cfg.Only, i) {
			continue
		}
		s.report.Faults++
		s.at(f.at, func() { s.happen(f.what, f.begin) })
		s.at(f.at.Add(f.last), func() { s.happen("over: "+f.what, f.end) })
	}
}

func (s *Sim) happen(what string, do func()) {
	if !s.healed && do != nil {
		s.tracef("-- %s", what)
		do()
	}
}

// heal ends all faults, and starts the chips that are dead.
func (s *Sim) heal() {
	s.tracef("-- all faults end")
	s.healed = true
	for _, c := range s.cables {
		if c.avoided { // the cable was out of service until now; recent packets may have taken another route
			c.lastBad = s.now
		}
		c.swapped, c.cuts, c.avoided = nil, [2]int{}, false
		for side := range c.way {
			s.cutWay(c, side, false, false)
			s.set(c, side, fault.Options{Delay: cleanDelay})
		}
	}
	for _, m := range s.machines {
		m.stalled = 0
		if m.chip == nil {
			s.start(m)
			continue
		}
		for _, p := range m.chip.Channels() {
			m.chip.SetPath(s.now, p.Local.Channel, true)
			m.chip.Avoid(s.now, p.Local.Channel, false)
		}
		s.resumeAll(m)
		s.run(m)
	}
}

func (s *Sim) set(c *cable, side int, o fault.Options) {
	if err := c.way[side].Set(o); err != nil {
		s.fail("plan", "%v", err)
	}
}

// weather draws the impairment of a bad cable at random. The argument "level" is the largest share
// of datagrams that the options Loss and Corrupt hit. Bursts may lose more.
func (s *Sim) weather(level float64) fault.Options {
	r := s.rng
	o := fault.Options{Delay: time.Duration(r.Int64N(int64(2 * time.Millisecond)))}
	maybe := func(p float64) float64 {
		if r.IntN(2) == 0 {
			return 0
		}
		return r.Float64() * p
	}
	o.Loss, o.Duplicate, o.Reorder, o.Corrupt = maybe(level), maybe(2*level), maybe(2*level), maybe(level)
	if r.IntN(3) == 0 {
		o.Jitter = time.Duration(r.Int64N(int64(time.Millisecond)))
	}
	if r.IntN(4) == 0 {
		o.Burst = fault.Burst{ToBad: 0.02, ToGood: 0.2, LossBad: 1}
	}
	if r.IntN(4) == 0 {
		o.Rate = 20_000_000 + r.Int64N(1_000_000_000)
	}
	return o
}

func (s *Sim) anyCable() *cable { return s.cables[s.rng.IntN(len(s.cables))] }

func (s *Sim) anyMachine() *machine { return s.machines[s.rng.IntN(len(s.machines))] }

func (s *Sim) span(longest time.Duration) time.Duration {
	d := time.Duration(s.rng.Int64N(int64(longest))) + time.Millisecond
	if s.rng.IntN(2) == 0 {
		d /= 20
	}
	return d
}

func (c *cable) String() string { return fmt.Sprintf("%s to %s", c.ports[0], c.ports[1]) }

func (s *Sim) storm() mishap {
	c, o := s.anyCable(), s.weather(0.3)
	return mishap{last: s.span(longestCut), what: fmt.Sprintf("storm on %s: %+v", c, o),
		begin: func() { s.set(c, 0, o); s.set(c, 1, o) },
		end:   func() { s.set(c, 0, fault.Options{Delay: cleanDelay}); s.set(c, 1, fault.Options{Delay: cleanDelay}) }}
}

// cutWays cuts the directions of a cable from the given sides if "by" is 1. If "by" is -1, cutWays
// ends one cut of each of these directions. If the field "untold" of the run is false, the chips
// cut the cables themselves, as the impairment of a live chip does.
func (s *Sim) cutWays(c *cable, by int, sides ...int) {
	for _, side := range sides {
		c.cuts[side] += by
		s.cutWay(c, side, c.cuts[side] > 0, !s.around.untold)
	}
}

// cutWay cuts or repairs the direction of a cable from the given side. If "told" is true, the chip
// at this side cuts the cable itself.
func (s *Sim) cutWay(c *cable, side int, on, told bool) {
	c.way[side].Cut(on)
	m, bit := c.chips[side], uint16(1)<<c.ports[side].Channel
	if m.cut &^= bit; on && told && m.chip != nil {
		m.cut |= bit
	}
	if m.cut != m.knows && m.chip != nil {
		s.wakeAt(m, s.now)
	}
}

func (s *Sim) cut() mishap {
	c := s.anyCable()
	return mishap{last: s.span(longestCut), what: "cut of " + c.String(),
		begin: func() { s.cutWays(c, 1, 0, 1) }, end: func() { s.cutWays(c, -1, 0, 1) }}
}

// sever cuts all cables between two chips.
func (s *Sim) sever() mishap {
	c := s.anyCable()
	each := func(by int) {
		for _, k := range s.cables {
			if k.chips == c.chips || k.chips[0] == c.chips[1] && k.chips[1] == c.chips[0] {
				s.cutWays(k, by, 0, 1)
			}
		}
	}
	return mishap{last: s.span(longestCut), what: fmt.Sprintf("cut of all cables between %s and %s", c.chips[0].node, c.chips[1].node),
		begin: func() { each(1) }, end: func() { each(-1) }}
}

// avoid takes a cable out of service at one end, as an operator would, and later puts the cable
// back into service.
func (s *Sim) avoid() mishap {
	c, side := s.anyCable(), s.rng.IntN(2)
	set := func(on bool) {
		if m := c.chips[side]; m.chip != nil && m.stalled == 0 {
			m.chip.Avoid(s.now, c.ports[side].Channel, on)
			s.run(m)
		}
		c.avoided, c.lastBad = on, s.now
	}
	return mishap{last: s.span(longestCut), what: "out of service: " + c.String(),
		begin: func() { set(true) }, end: func() { set(false) }}
}

func (s *Sim) oneWayCut() mishap {
	c, side := s.anyCable(), s.rng.IntN(2)
	return mishap{last: s.span(longestCut), what: fmt.Sprintf("cut of the direction from %s", c.ports[side]),
		begin: func() { s.cutWays(c, 1, side) }, end: func() { s.cutWays(c, -1, side) }}
}

func (s *Sim) restart() mishap {
	m, goodbye := s.anyMachine(), s.rng.IntN(3) == 0
	return mishap{last: s.span(longestDead), what: fmt.Sprintf("restart of %s, goodbye: %v", m.node, goodbye),
		begin: func() { s.stop(m, goodbye) }, end: func() { s.start(m) }}
}

func (s *Sim) stall() mishap {
	m := s.anyMachine()
	return mishap{last: s.span(longestRest), what: fmt.Sprintf("stall of %s", m.node),
		begin: func() { m.stalled++ },
		end: func() {
			if m.stalled--; m.stalled == 0 && m.chip != nil {
				s.run(m)
			}
		}}
}

// swap exchanges the far ends of two cables, like a mistake in cabling.
func (s *Sim) swap() mishap {
	a, b := s.anyCable(), s.anyCable()
	return mishap{last: s.span(longestCut), what: fmt.Sprintf("swap of %s and %s", a, b),
		begin: func() {
			if a != b && a.swapped == nil && b.swapped == nil {
				a.swapped, b.swapped = b, a
			}
		},
		end: func() {
			if a.swapped == b {
				a.swapped, b.swapped = nil, nil
			}
		}}
}

// forge sends datagrams of random bytes to a port.
func (s *Sim) forge() mishap {
	c, side, n := s.anyCable(), s.rng.IntN(2), 1+s.rng.IntN(200)
	return mishap{what: fmt.Sprintf("%d datagrams of garbage at %s", n, c.ports[side]), begin: func() {
		for range n {
			b := make([]byte, s.rng.IntN(200))
			for i := range b {
				b[i] = byte(s.rng.Uint32())
			}
			if len(b) > 3 && s.rng.IntN(2) == 0 && len(c.record[1-side]) > 0 { // the datagram begins like a recorded frame
				copy(b[:len(b)/2], c.record[1-side][s.rng.IntN(len(c.record[1-side]))])
			}
			s.deliver(c, side, &fault.Fate{At: s.now}, b)
		}
	}}
}

// replay sends recorded datagrams to a port again. The datagrams may be from earlier incarnations
// of the chips.
func (s *Sim) replay() mishap {
	c, side, n := s.anyCable(), s.rng.IntN(2), 1+s.rng.IntN(100)
	return mishap{what: fmt.Sprintf("%d old datagrams at %s", n, c.ports[side]), begin: func() {
		for range n {
			if r := c.record[1-side]; len(r) > 0 {
				b := r[s.rng.IntN(len(r))]
				s.deliver(c, side, &fault.Fate{At: s.now.Add(time.Duration(s.rng.Int64N(int64(time.Millisecond))))}, b)
			}
		}
	}}
}

// unplug tells a chip that a port has no path to its peer, as a live node does if gossip does not
// know the peer.
func (s *Sim) unplug() mishap {
	c, side := s.anyCable(), s.rng.IntN(2)
	set := func(on bool) {
		if m := c.chips[side]; m.chip != nil && m.stalled == 0 {
			m.chip.SetPath(s.now, c.ports[side].Channel, on)
			s.run(m)
		}
	}
	return mishap{last: s.span(longestCut), what: fmt.Sprintf("path off at %s", c.ports[side]),
		begin: func() { set(false) }, end: func() { set(true) }}
}

// narrow sets another largest frame payload at one end of a cable, as if the MTU of the path had
// changed.
func (s *Sim) narrow() mishap {
	c, side := s.anyCable(), s.rng.IntN(2)
	n := (96 + s.rng.IntN(4000)) / wire.PadUnit * wire.PadUnit
	return mishap{what: fmt.Sprintf("frame payloads of at most %d bytes at %s", n, c.ports[side]), begin: func() {
		if m := c.chips[side]; m.chip != nil {
			if err := m.chip.SetMaxPayload(s.now, c.ports[side].Channel, n); err != nil {
				s.fail("plan", "%v", err)
			}
			s.run(m)
		}
	}}
}
