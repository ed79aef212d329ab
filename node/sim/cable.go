package sim

import (
	"fmt"

	"ttfabric/router/topo"
	"ttfabric/ttlink/fault"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// maxRecorded is the largest number of datagrams that the simulator records in each direction of a
// cable. The mishaps replay and forge use the recorded datagrams.
const maxRecorded = 64

// cable is one cable of the fabric, with the faults in force.
type cable struct {
	topo.Cable
	ports   [2]wire.PortID
	chips   [2]*machine
	avoided bool            // whether an operator has taken the cable out of service
	way     [2]*fault.Model // fault models of the two directions, by the side that sends
	gone    bool            // whether a loaded snapshot's tables do not use the cable
	cuts    [2]int          // number of cuts in force, by the side that sends
	swapped *cable          // the cable with which this cable has exchanged its far end; nil: none
	up      [2]bool         // whether the link at each side is up, as the chip at this side has reported
	renewed bool            // whether a session of the link has ended
	lastBad mono.Time       // time of the link's last event at either end, of the last death of a chip at the cable, or of the last change of avoided
	record  [2][][]byte     // recorded datagrams, by the side that sent them
	seen    [2]int          // number of datagrams sent, by the side that sent them
}

// end is one end of a cable. The field "side" is 0 or 1.
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

// carry sends one datagram from a port into its cable, and perhaps records the datagram.
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

// deliver plans the arrival of a datagram at one side of a cable.
func (s *Sim) deliver(c *cable, side int, f *fault.Fate, b []byte) {
	s.queue.send(f, s.now, c.chips[side], c.ports[side].Channel, b)
}

// keep records a datagram. If maxRecorded datagrams are recorded already, the new datagram replaces
// a random recorded one.
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

// badSince reports whether the cable is in trouble now, or has been in trouble at any time since t.
// A cable is in trouble while its link is not up, and while the cable is out of service. An event
// of the link, and the death of a chip at the cable, are trouble at one instant, which the field
// lastBad holds.
func (c *cable) badSince(t mono.Time) bool { return !c.bothUp() || c.avoided || c.lastBad >= t }

// markCables notes at the cables of a chip that the chip has ended.
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

// refuse tells the chip at the other end of a dead chip's cable that a host refused a datagram. In a
// dark run, hosts refuse nothing.
func (s *Sim) refuse(m *machine, ch wire.Channel) {
	if e := m.ends[ch]; !s.around.dark && e.cable.swapped == nil {
		if peer := e.cable.chips[1-e.side]; peer.chip != nil {
			peer.refused |= 1 << e.cable.ports[1-e.side].Channel
			s.wakeAt(peer, s.now)
		}
	}
}

// tell tells a chip which cables it cuts itself, and which of its datagrams a host has refused.
func (s *Sim) tell(m *machine, now mono.Time) {
	for ch := range wire.Channel(wire.MaxChannels) {
		if (m.cut^m.knows)>>ch&1 != 0 {
			m.chip.Cut(now, ch, m.cut>>ch&1 != 0)
		}
		if m.refused>>ch&1 != 0 {
			m.chip.Refused(now, ch)
		}
	}
	m.knows, m.refused = m.cut, 0
}
