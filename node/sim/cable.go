package sim

import (
	"fmt"

	"ttfabric/router/topo"
	"ttfabric/ttlink/fault"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// maxRecorded is how many datagrams of each direction the simulator keeps, so that an attacker can
// send them again.
const maxRecorded = 64

// cable is one cable of the machine, with the faults that are in force on it.
type cable struct {
	topo.Cable
	ports   [2]wire.PortID
	chips   [2]*machine
	avoided bool            // an operator took the cable out of service
	way     [2]*fault.Model // fault models of the two directions, by the side that sends
	cuts    [2]int          // number of cuts in force, by the side that sends
	swapped *cable          // the other cable, while the far ends of both cables are exchanged
	up      [2]bool         // the state of the link at each side, as the side's chip reports it
	renewed bool            // a session has ended although both ends live
	lastBad mono.Time       // when either end was last not up, or last changed its state
	record  [2][][]byte     // recorded datagrams, by the side that sent them
	seen    [2]int
}

// end is one side of a cable.
type end struct {
	cable *cable
	side  int
}

func (s *Sim) layCables() error {
	for _, tc := range s.cfg.Topology.Cables {
		if tc.Unused {
			continue
		}
		c := &cable{Cable: tc, ports: [2]wire.PortID{tc.A, tc.B}}
		for side, p := range c.ports {
			m, err := fault.New(s.rng.Uint64(), fault.Options{Delay: cleanDelay})
			if err != nil {
				return err
			}
			c.way[side] = m
			for _, k := range s.machines {
				if k.node == p.Node {
					c.chips[side] = k
				}
			}
			if c.chips[side] == nil {
				return fmt.Errorf("sim: cable end %s is no chip of %s", p, s.cfg.Topology)
			}
			s.byPort[p] = end{c, side}
			c.chips[side].ends[p.Channel] = end{c, side}
		}
		s.cables = append(s.cables, c)
	}
	return nil
}

// carry sends one datagram into the cable at a port.
func (s *Sim) carry(m *machine, ch wire.Channel, b []byte) {
	e := m.ends[ch]
	c := e.cable
	if c.seen[e.side]++; !s.cfg.bare && s.rng.IntN(c.seen[e.side]) < maxRecorded/4 {
		s.keep(e, b)
	}
	to := c
	if c.swapped != nil {
		to = c.swapped
	}
	fates := c.way[e.side].Send(s.now, len(b))
	for i := range fates {
		s.deliver(to, 1-e.side, &fates[i], b)
	}
}

// deliver plans the arrival of a datagram.
func (s *Sim) deliver(c *cable, side int, f *fault.Fate, b []byte) {
	s.queue.send(f, s.now, c.chips[side], c.ports[side].Channel, b)
}

// keep records a datagram. If there are already many, keep overwrites an old datagram.
func (s *Sim) keep(e end, b []byte) {
	r := &e.cable.record[e.side]
	if len(*r) < maxRecorded {
		*r = append(*r, append([]byte(nil), b...))
		return
	}
	i := s.rng.IntN(maxRecorded)
	(*r)[i] = append((*r)[i][:0], b...)
}

func (c *cable) bothUp() bool { return c.up[0] && c.up[1] }

// badSince reports whether the cable failed to connect its chips, or was out of service, at any
// time from t on.
func (c *cable) badSince(t mono.Time) bool { return !c.bothUp() || c.avoided || c.lastBad >= t }

// markCables notes that a chip has died.
func (s *Sim) markCables(m *machine) {
	for _, c := range s.cables {
		for side := range c.chips {
			if c.chips[side] == m {
				c.up[side] = false
				c.lastBad = s.now
			}
		}
	}
}
