package losses

import (
	"cmp"
	"slices"

	"ttfabric/ttlink"
	"ttfabric/wire"
)

// Direction is the balance of one direction of a link, over all sessions that the link's ends know.
type Direction struct {
	Src        wire.FabricNodeID `json:"src"`         // chip that sends
	SrcChannel wire.Channel      `json:"src_channel"` // ethernet channel of the chip that sends
	Dst        wire.FabricNodeID `json:"dst"`         // chip that receives
	DstChannel wire.Channel      `json:"dst_channel"` // ethernet channel of the chip that receives
	Plane      wire.Plane        `json:"plane"`       // routing plane of the link
	Sent       Count             `json:"sent"`        // packets that the present incarnation at Src has sent
	Received   Count             `json:"received"`    // packets that the present incarnation at Dst has received

	// UnderWay, Lost, ToGone and Unknown say what became of the packets counted in Sent that the
	// present incarnation at Dst has not received.
	UnderWay Count `json:"under_way"` // packets of running sessions that Dst has not received yet
	Lost     Count `json:"lost"`      // packets of ended sessions that Dst did not receive, as both ends report
	ToGone   Count `json:"to_gone"`   // packets acknowledged in sessions that Dst does not report: Dst has restarted or is dead, or the sessions are too old
	Unknown  Count `json:"unknown"`   // packets of which nobody knows whether Dst received them: not acknowledged in a session that Dst does not report, or not yet received in a session that only one end reports as ended

	FromGone Count `json:"from_gone"` // packets counted in Received of sessions that Src does not report: Src has restarted or is dead, or the sessions are too old

	Unexplained int64 `json:"unexplained"` // packets that belong to none of the fields above; a value other than 0 shows a fault of this program
	Inferred    bool  `json:"inferred"`    // the chip at Src did not report, and Sent is therefore what Dst received
}

// ChipTotal is the balance of a chip's present incarnation.
type ChipTotal struct {
	Chip        wire.FabricNodeID `json:"chip"`        // the chip
	Incarnation wire.Incarnation  `json:"incarnation"` // incarnation of the chip
	Packets     Packets           `json:"packets"`     // packets by what the chip did with them
	InFlight    Count             `json:"in_flight"`   // packets in the chip's router
	Unexplained int64             `json:"unexplained"` // packets that entered the chip, minus packets in all other fields; a value other than 0 shows a fault of this program
}

// Gone is an incarnation of a chip that has ended, with the counts that the chip's neighbours
// report.
type Gone struct {
	Chip        wire.FabricNodeID `json:"chip"`         // the chip
	Incarnation wire.Incarnation  `json:"incarnation"`  // the incarnation that has ended
	Received    Count             `json:"received"`     // packets that the incarnation acknowledged: it received at least these packets
	ReceivedMax Count             `json:"received_max"` // packets sent to the incarnation: it received at most these packets
	Sent        Count             `json:"sent"`         // packets that arrived at neighbours: the incarnation sent at least these packets
	ToldBy      int               `json:"told_by"`      // number of sessions of neighbours' ports with the incarnation
}

// Total is the balance of the fabric. Injected + Copied + FromGone is the number of packets that
// entered. The other fields say what became of the packets that entered.
type Total struct {
	Injected    uint64 `json:"injected"`    // packets that the chips themselves sent into the fabric, and copies of their own multicasts
	Copied      uint64 `json:"copied"`      // copies that routers made of received multicasts, not counting the received packets
	FromGone    uint64 `json:"from_gone"`   // packets received from incarnations that have ended
	Delivered   uint64 `json:"delivered"`   // packets delivered to their destinations
	Dropped     uint64 `json:"dropped"`     // packets dropped by routers, including malformed packets
	InFlight    uint64 `json:"in_flight"`   // packets in routers and on links
	Lost        uint64 `json:"lost"`        // packets lost on links whose session ended, as both ends report
	ToGone      uint64 `json:"to_gone"`     // packets acknowledged by incarnations that have ended
	Unknown     uint64 `json:"unknown"`     // packets whose sender cannot know whether they arrived, because the link's session ended before an acknowledgement
	Unexplained int64  `json:"unexplained"` // packets that entered, minus packets in all other fields; a value other than 0 shows a fault of this program
}

// Report is the account of all packets of a fabric.
type Report struct {
	Chips   []ChipTotal         `json:"chips"`   // balance of each chip that reported
	Gone    []Gone              `json:"gone"`    // incarnations that have ended
	Links   []Direction         `json:"links"`   // balance of each direction of each link
	Dropped map[string]uint64   `json:"dropped"` // packets dropped by reason, including malformed packets
	Classes Classes             `json:"classes"` // balance of the fabric for each class of packets
	Total   Total               `json:"total"`   // balance of the fabric for all classes together
	Missing []wire.FabricNodeID `json:"missing"` // chips that did not report
}

// Unexplained returns the number of unexplained packets. Surplus packets and missing packets both
// count as positive.
func (r *Report) Unexplained() (n uint64) {
	for _, c := range r.Chips {
		n += abs(c.Unexplained)
	}
	for _, l := range r.Links {
		n += abs(l.Unexplained)
	}
	return max(n, abs(r.Total.Unexplained))
}

func abs(n int64) uint64 {
	if n < 0 {
		return uint64(-n)
	}
	return uint64(n)
}

// merger is the state of Merge.
type merger struct {
	ports map[wire.PortID]*Port
	alive map[goneKey]bool
	gone  map[goneKey]*Gone
	rep   Report
}

type goneKey struct {
	node wire.FabricNodeID
	inc  wire.Incarnation
}

// Merge joins the reports of a fabric's chips. The argument "missing" lists the chips that did not
// report because they are dead. If packets move, all reports must be of one instant.
func Merge(chips []Chip, missing []wire.FabricNodeID) Report {
	m := merger{ports: map[wire.PortID]*Port{}, alive: map[goneKey]bool{}, gone: map[goneKey]*Gone{}}
	m.rep = Report{Chips: []ChipTotal{}, Gone: []Gone{}, Links: []Direction{}, Dropped: map[string]uint64{}, Missing: append([]wire.FabricNodeID{}, missing...)}
	for i := range chips {
		m.alive[goneKey{chips[i].Node, chips[i].Incarnation}] = true
		for k := range chips[i].Ports {
			m.ports[chips[i].Ports[k].Local] = &chips[i].Ports[k]
		}
	}
	for i := range chips {
		m.chip(&chips[i])
		for k := range chips[i].Ports {
			p := &chips[i].Ports[k]
			m.direction(p)
			if m.ports[p.Peer] == nil {
				m.inferred(p)
			}
		}
	}
	for _, g := range m.gone {
		m.rep.Gone = append(m.rep.Gone, *g)
	}
	slices.SortFunc(m.rep.Gone, func(a, b Gone) int {
		return cmp.Or(a.Chip.Compare(b.Chip), cmp.Compare(a.Incarnation, b.Incarnation))
	})
	m.total()
	return m.rep
}

// chip computes the balance of one chip.
func (m *merger) chip(c *Chip) {
	t := ChipTotal{Chip: c.Node, Incarnation: c.Incarnation, InFlight: c.InFlight}
	for i := range c.Ports {
		p := &c.Ports[i]
		t.Packets = t.Packets.add(&p.Packets)
		// The counts of the router and of the link must agree.
		sent, received := p.Link.All()
		for k := range wire.NumClasses {
			t.Unexplained += int64(abs(int64(sent[k]-p.Packets.Sent[k])) + abs(int64(received[k]-p.Packets.Received[k]-p.Packets.Malformed[k])))
		}
	}
	p := &t.Packets
	for k, n := range c.Refused {
		p.Delivered[k] -= n
		p.Dropped[wire.DropMalformed][k] += n
	}
	dropped := p.AllDropped()
	for k := range wire.NumClasses {
		in := p.Received[k] + p.Malformed[k] + p.Injected[k] + p.Copied[k]
		out := p.Sent[k] + p.Delivered[k] + dropped[k] + c.InFlight[k]
		t.Unexplained += int64(abs(int64(in - out)))
	}
	m.rep.Chips = append(m.rep.Chips, t)
}

func between(a, b wire.PortID, pl wire.Plane) Direction {
	return Direction{Src: a.Node, SrcChannel: a.Channel, Dst: b.Node, DstChannel: b.Channel, Plane: pl}
}

// direction computes the balance of the packets that port p has sent to its peer.
func (m *merger) direction(p *Port) {
	d := between(p.Local, p.Peer, p.Plane)
	far := m.ports[p.Peer]
	for _, s := range sessions(&p.Link) {
		d.Sent = d.Sent.Add(count(s.Packets, sent))
		other, state := lookFor(far, s.ID)
		switch {
		case s.ID == 0 || other == nil:
			d.ToGone = d.ToGone.Add(count(s.Packets, acked))
			d.Unknown = d.Unknown.Add(count(s.Packets, open))
			m.endedSession(p, &s)
		default:
			d.matched(&s, other, state, s.ID == p.Link.Now.ID)
		}
	}
	if far != nil {
		for _, s := range sessions(&far.Link) {
			got := count(s.Packets, received)
			d.Received = d.Received.Add(got)
			if other, _ := lookFor(p, s.ID); s.ID == 0 || other == nil {
				d.FromGone = d.FromGone.Add(got)
			}
		}
	}
	m.rep.Links = append(m.rep.Links, d)
}

// matched adds a session that both ends report to the balance. The argument s is the sender's
// end, and other is the receiver's end.
func (d *Direction) matched(s, other *ttlink.SessionTally, farRuns, runs bool) {
	for k := range wire.NumClasses {
		sent, acked, got := s.Packets[k].Sent, s.Packets[k].Acked, other.Packets[k].Received
		if got > sent || acked > got {
			d.Unexplained += int64(max(got, sent) - min(got, sent))
			continue
		}
		switch left := sent - got; {
		case runs && farRuns:
			d.UnderWay[k] += left
		case runs || farRuns: // one end has not yet noticed that the session has ended
			d.Unknown[k] += left
		default:
			d.Lost[k] += left
		}
	}
}

// inferred computes the balance of the packets that p received from a peer that did not report.
func (m *merger) inferred(p *Port) {
	d := between(p.Peer, p.Local, p.Plane)
	d.Inferred = true
	for _, s := range sessions(&p.Link) {
		d.Received = d.Received.Add(count(s.Packets, received))
	}
	d.Sent, d.FromGone = d.Received, d.Received
	m.rep.Links = append(m.rep.Links, d)
}

// endedSession adds a session of port p to the counts of an ended incarnation of p's peer.
func (m *merger) endedSession(p *Port, s *ttlink.SessionTally) {
	k := goneKey{p.Peer.Node, s.Peer}
	if s.ID == 0 || m.alive[k] {
		return // s is a sum over several sessions, or a session that the living peer has not noticed yet
	}
	g := m.gone[k]
	if g == nil {
		g = &Gone{Chip: k.node, Incarnation: k.inc}
		m.gone[k] = g
	}
	g.ToldBy++
	g.Received = g.Received.Add(count(s.Packets, acked))
	g.ReceivedMax = g.ReceivedMax.Add(count(s.Packets, sent))
	g.Sent = g.Sent.Add(count(s.Packets, received))
}

// total computes the balance of the fabric.
func (m *merger) total() {
	for k := range wire.NumClasses {
		t := &m.rep.Classes[k]
		for i := range m.rep.Chips {
			c := &m.rep.Chips[i]
			t.Injected += c.Packets.Injected[k]
			t.Copied += c.Packets.Copied[k]
			t.Delivered += c.Packets.Delivered[k]
			t.Dropped += c.Packets.AllDropped()[k]
			t.InFlight += c.InFlight[k]
		}
		for i := range m.rep.Links {
			d := &m.rep.Links[i]
			t.InFlight += d.UnderWay[k]
			t.Lost += d.Lost[k]
			t.ToGone += d.ToGone[k]
			t.Unknown += d.Unknown[k]
			t.FromGone += d.FromGone[k]
		}
		t.Unexplained = int64(t.Injected + t.Copied + t.FromGone - t.Delivered - t.Dropped - t.InFlight - t.Lost - t.ToGone - t.Unknown)
		m.rep.Total = m.rep.Total.add(t)
	}
	for _, c := range m.rep.Chips {
		for r := wire.DropReason(1); r < wire.NumDropReasons; r++ {
			m.rep.Dropped[r.String()] += c.Packets.Dropped[r].Total()
		}
		m.rep.Dropped[wire.DropMalformed.String()] += c.Packets.Malformed.Total()
	}
}

func (t Total) add(o *Total) Total {
	return Total{t.Injected + o.Injected, t.Copied + o.Copied, t.FromGone + o.FromGone, t.Delivered + o.Delivered, t.Dropped + o.Dropped,
		t.InFlight + o.InFlight, t.Lost + o.Lost, t.ToGone + o.ToGone, t.Unknown + o.Unknown, t.Unexplained + o.Unexplained}
}

// sessions returns the sessions of a link, oldest first. The first entry has ID 0, and is the sum
// of the sessions that are too old to be listed.
func sessions(h *ttlink.History) []ttlink.SessionTally {
	out := append([]ttlink.SessionTally{{Packets: h.Older}}, h.Ended...)
	return append(out, h.Now)
}

// lookFor returns the session of port p with the given ID, and reports whether the session still
// runs at p. lookFor returns nil if p has no such session.
func lookFor(p *Port, id wire.SessionID) (s *ttlink.SessionTally, runs bool) {
	if p == nil || id == 0 {
		return nil, false
	}
	if p.Link.Now.ID == id {
		return &p.Link.Now, true
	}
	for i := range p.Link.Ended {
		if p.Link.Ended[i].ID == id {
			return &p.Link.Ended[i], false
		}
	}
	return nil, false
}

func sent(t ttlink.Tally) uint64     { return t.Sent }
func acked(t ttlink.Tally) uint64    { return t.Acked }
func open(t ttlink.Tally) uint64     { return t.Sent - t.Acked }
func received(t ttlink.Tally) uint64 { return t.Received }

func count(t ttlink.Tallies, of func(ttlink.Tally) uint64) (c Count) {
	for k := range t {
		c[k] = of(t[k])
	}
	return c
}
