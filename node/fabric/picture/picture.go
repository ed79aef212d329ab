package picture

import (
	"cmp"
	"slices"
	"time"

	"ttfabric/node/admin/api"
	"ttfabric/wire"
)

// Round holds the answers of all chips in one round of questions.
type Round struct {
	Views  []api.ChipBrief
	Silent []wire.FabricNodeID // chips that run and did not answer
	Absent []wire.FabricNodeID // chips that do not run
}

// Picture makes states from the answers of chips. A Picture must not be used by several goroutines
// at once.
type Picture struct {
	m        *Machine
	state    *State
	last     map[wire.PortID]counts             // counts at each port when its chip last answered
	impaired map[wire.PortID]api.ImpairmentView // impaired ports
	losses   map[wire.FabricNodeID]lossesOf     // counts of each chip when the chip last answered
	links    map[wire.PortID]*api.LinkBrief     // ports in the last answers
	history  history
	scale    int
}

// counts are the counts of a port at one time of its chip.
type counts struct {
	life                            string
	at                              float64 // uptime of the chip, in seconds
	bytes, packets, injected, again uint64
}

type lossesOf struct {
	life          string
	dropped, lost uint64
}

// New returns a picture of the machine m.
func New(m *Machine) *Picture {
	p := &Picture{m: m, last: map[wire.PortID]counts{}, impaired: map[wire.PortID]api.ImpairmentView{}, losses: map[wire.FabricNodeID]lossesOf{}, scale: MinScale}
	p.state = &State{Chips: make([]ChipState, len(m.Chips)), Cables: make([]CableState, len(m.Cables)), Total: Total{Scale: MinScale, States: map[string]int{}}}
	for i := range p.state.Chips {
		p.state.Chips[i].State = Waiting
	}
	for i := range p.state.Cables {
		p.state.Cables[i].State = Unknown
		if m.Cables[i].Unused {
			p.state.Cables[i].State = Unused
		}
	}
	return p
}

// State returns the latest state. Nobody changes a state later.
func (p *Picture) State() *State { return p.state }

// Impair replaces what the picture knows about impairments and cuts. The list must hold the views
// of all ports whose chips answered.
func (p *Picture) Impair(ports []api.ImpairmentView) {
	clear(p.impaired)
	for _, v := range ports {
		if v.Active || v.Cut {
			p.impaired[wire.PortID{Node: v.Chip, Channel: v.Channel}] = v
		}
	}
}

// Take makes the next state from the answers of chips at the instant now.
func (p *Picture) Take(now time.Time, r Round) *State {
	s := &State{Seq: p.state.Seq + 1, Time: now, Chips: make([]ChipState, len(p.m.Chips)), Cables: make([]CableState, len(p.m.Cables)), Total: Total{States: map[string]int{}}}
	p.links = map[wire.PortID]*api.LinkBrief{}
	for i := range s.Chips {
		s.Chips[i].State = Absent
	}
	for _, n := range r.Silent {
		if i := p.m.Chip(n); i >= 0 {
			s.Chips[i] = p.state.Chips[i]
			s.Chips[i].State = NoAnswer
		}
	}
	flows := map[wire.PortID]Flow{}
	for i := range r.Views {
		p.chip(s, &r.Views[i], flows)
	}
	for i := range r.Views {
		p.heard(s, &r.Views[i])
	}
	for i := range s.Cables {
		p.cable(s, i, flows)
	}
	for i := range s.Cables { // the scale is known only now
		c := &s.Cables[i]
		c.AB.Use, c.BA.Use = p.use(i, true, c.AB.Bytes), p.use(i, false, c.BA.Bytes)
	}
	s.Total.Scale = p.scale
	p.history.add(s)
	p.state = s
	return s
}

// chip writes the state of a chip that answered into s, and the flows out of the chip's ports into flows.
func (p *Picture) chip(s *State, v *api.ChipBrief, flows map[wire.PortID]Flow) {
	at := p.m.Chip(v.Chip)
	if at < 0 {
		return
	}
	c := &s.Chips[at]
	*c = ChipState{State: Answers, LinksUp: v.LinksUp, Links: len(v.Links), Open: v.OpenOps, InFlight: v.InFlight, Epoch: v.TableEpoch,
		Dropped: v.Dropped, Lost: v.Lost, Unknown: v.Unknown, Starved: v.Starved}
	if v.Leaving {
		c.State = Unwanted
	}
	now := lossesOf{v.Incarnation, c.Dropped, c.Lost + c.Unknown}
	if old, known := p.losses[v.Chip]; known && old.life == now.life {
		s.Total.Dropped += int(now.dropped - old.dropped)
		s.Total.Lost += int(now.lost - old.lost)
	}
	p.losses[v.Chip] = now
	s.Total.Answer++
	s.Total.Open += c.Open
	s.Total.InFlight += c.InFlight
	for i := range v.Links {
		l := &v.Links[i]
		port := wire.PortID{Node: v.Chip, Channel: l.Channel}
		p.links[port] = l
		f, injected := p.flow(port, v, l)
		flows[port] = f
		s.Total.Bytes += f.Bytes
		s.Total.Resent += f.Resent
		s.Total.Packets += injected
	}
}

// flow returns the rates out of a port since its chip last answered, and the rate of packets that
// the chip itself sent by the port.
func (p *Picture) flow(port wire.PortID, v *api.ChipBrief, l *api.LinkBrief) (f Flow, injected int) {
	now := counts{v.Incarnation, v.UptimeS, l.Bytes, l.Packets, l.Injected, l.Resent}
	old, known := p.last[port]
	p.last[port] = now
	over := now.at - old.at
	if !known || old.life != now.life || over <= 0 {
		return Flow{Bytes: int(l.BytesOut), Packets: int(l.PacketsOut)}, 0
	}
	per := func(from, to uint64) int {
		if to < from {
			return 0
		}
		return int(float64(to-from)/over + 0.5)
	}
	return Flow{Bytes: per(old.bytes, now.bytes), Packets: per(old.packets, now.packets), Resent: per(old.again, now.again)}, per(old.injected, now.injected)
}

// heard marks the chips from which chip v hears nothing, and the chips to which chip v has no route.
func (p *Picture) heard(s *State, v *api.ChipBrief) {
	mark := func(list []wire.FabricNodeID, state string) {
		for _, n := range list {
			if i := p.m.Chip(n); i >= 0 && s.Chips[i].State == Answers {
				s.Chips[i].State = state
			}
		}
	}
	mark(v.Unreachable, Cornered)
	mark(v.Silent, Late)
}

// cable writes the state of cable i into s.
func (p *Picture) cable(s *State, i int, flows map[wire.PortID]Flow) {
	info, c := &p.m.topo.Cables[i], &s.Cables[i]
	if c.State = Unknown; info.Unused {
		c.State = Unused
	}
	for _, port := range []wire.PortID{info.A, info.B} {
		if l := p.links[port]; l != nil && !info.Unused {
			p.end(c, port, l)
		}
		v := p.impaired[port]
		c.Cut = c.Cut || v.Cut
		if v.Options != "" && v.Options != c.Impaired {
			if c.Impaired != "" {
				c.Impaired += "; "
			}
			c.Impaired += v.Options
		}
	}
	c.AB, c.BA = flows[info.A], flows[info.B]
	p.scale = max(p.scale, c.AB.Bytes, c.BA.Bytes)
	s.Total.States[c.State]++
	if c.Cut {
		s.Total.Cut++
	}
	if c.Impaired != "" {
		s.Total.Impaired++
	}
}

// end adds what one end says about its cable to c. If the ends differ, the worse state counts.
func (p *Picture) end(c *CableState, port wire.PortID, l *api.LinkBrief) {
	state := Up
	switch {
	case l.Avoided:
		state = Out
	case l.State == "up" && l.By != nil:
		state = Fallback
	case l.State == "up" && l.Out:
		state = Out
	case l.State == "up":
	case l.Held:
		state = Held
	case l.Out:
		state = Out
	case l.State == "training":
		state = Training
	default:
		state = Off
	}
	if c.State == Unknown || slices.Index(CableStates, state) > slices.Index(CableStates, c.State) {
		c.State = state
	}
	if l.By != nil {
		if k := p.m.Cable(wire.PortID{Node: port.Node, Channel: *l.By}); k >= 0 {
			c.By = p.m.Cables[k].Name
		}
	}
	c.Training = c.Training || l.State != "up"
	c.Silent, c.Avoided, c.Unreliable, c.Raw = c.Silent || l.Silent, c.Avoided || l.Avoided, c.Unreliable || l.Unreliable, c.Raw || l.Raw
	c.Miswired, c.LastDown = cmp.Or(c.Miswired, l.Miswired), cmp.Or(c.LastDown, l.LastDown)
	if l.Router != "running" && l.Router != "initializing" {
		c.Router = cmp.Or(c.Router, l.Router)
	}
	c.Retrains, c.RTT = max(c.Retrains, l.Retrains), max(c.RTT, int(l.RTTMicros))
}

// use returns which share of its capacity one direction of cable i carries. The capacity is the
// rate limit of an impairment. Without a limit, the capacity is the largest rate that the picture has
// seen on any cable.
func (p *Picture) use(i int, fromA bool, bytes int) float64 {
	port := p.m.topo.Cables[i].A
	if !fromA {
		port = p.m.topo.Cables[i].B
	}
	capacity := float64(p.scale)
	if kbit := p.impaired[port].Rate; kbit > 0 {
		capacity = float64(kbit) * 1000 / 8
	}
	return float64(min(1000, int(1000*float64(bytes)/capacity))) / 1000
}
