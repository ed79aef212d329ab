package admin

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"strings"
	"time"

	"ttfabric/node"
	"ttfabric/node/admin/api"
	"ttfabric/node/chip"
	"ttfabric/node/flow"
	"ttfabric/ttlink"
	"ttfabric/ttlink/transport"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// View converts a node's state to the type of the API.
func View(n *node.Node) api.ChipView {
	s, now := n.Status()
	t := n.Topology()
	c, _ := t.Chip(s.Node)
	v := api.ChipView{
		Chip: s.Node, UMD: c.UMD, Row: c.Row, Col: c.Col, Fabric: t.Name,
		Incarnation: fmt.Sprintf("%016x", uint64(s.Incarnation)), TableEpoch: fmt.Sprintf("%08x", s.Epoch),
		Started: n.Started(), UptimeS: time.Duration(now).Seconds(),
		Gossip: n.GossipAddr().String(), Members: len(n.Members()), LinksUp: s.PortsUp,
		OutOfService: cableNames(s.Out), Silent: append([]wire.FabricNodeID{}, s.Silent...), Unreachable: append([]wire.FabricNodeID{}, s.Unreachable...),
		Starved: starvedView(n.Starved()), Leaving: n.Leaving(), OpenOps: s.Open, InFlight: s.InFlight, Memory: api.MemoryView{Tiles: s.Resident, Buffers: s.Buffers}, Loop: loadOf(n.Load()),
		Counters: chipCounters(&s.Counters), Dropped: dropCounters(s.Counters.Dropped),
	}
	if p, ok := node.CPUPressure(); ok {
		v.CPUPressure = &p.Percent
	}
	v.Links = []api.LinkView{}
	addrs, peers, socks, first := n.Addresses(), n.Peers(), n.Sockets(), firstUp(&s)
	for i := range s.Ports {
		l := linkView(&s.Ports[i], now)
		l.LinkHealth = healthOf(&s.Ports[i], now, first)
		at := addrs[l.Channel]
		if at.Addr().IsUnspecified() { // show the address of the chip's gossip, from which the port sends too
			at = netip.AddrPortFrom(n.GossipAddr().Addr(), at.Port())
		}
		l.Address = at.String()
		if to, ok := peers[l.Channel]; ok {
			l.PeerAddr = to.String()
		}
		l.Auth, l.Socket = authCounters(socks[l.Channel].Auth), socketView(socks[l.Channel])
		v.Links = append(v.Links, l)
	}
	return v
}

// linkView converts the state of a port and its link to the type of the API.
func linkView(p *chip.PortStatus, now mono.Time) api.LinkView {
	v := api.LinkView{
		Channel: p.Local.Channel, Direction: p.Dir.String(), Plane: p.Plane, Peer: p.Peer.Node, PeerChan: p.Peer.Channel,
		State: p.Link.State.String(), Out: p.Out, Silent: p.Silent, Avoided: p.Avoided, SinceS: now.Sub(p.Link.Since).Seconds(), Session: fmt.Sprintf("%08x", uint32(p.Link.Session)),
		Retrains: p.Link.Retrains, LastDown: p.Link.LastDown.String(), DowntimeS: p.Link.DownFor(now).Seconds(),
		RTTMicros: float64(p.Link.RTT.Nanoseconds()) / 1e3, Payload: p.Link.MaxPayload, Wanted: p.Link.PayloadWanted, Credits: map[string]int{},
		Counters: linkCounters(p), FrameDrops: frameDrops(&p.Frames),
	}
	v.Rate = api.RateView{OverS: p.Rate.Over.Seconds(), BytesOut: p.Rate.BytesOut, BytesIn: p.Rate.BytesIn, PacketsOut: p.Rate.PacketsOut, PacketsIn: p.Rate.PacketsIn}
	v.Raw = p.Raw
	v.Writes = api.WritesView{Stored: p.Writes.Stored, Registers: p.Writes.Registers, Refused: p.Writes.Refused}
	for q := range p.Payload {
		w := &p.Frames.Writes[q]
		v.Writes.Queues = append(v.Writes.Queues, api.WriteQueueView{Payload: p.Payload[q], Started: w.Started, Acked: w.Acked, Unknown: w.Unknown,
			Received: w.Received, Frames: w.Frames})
	}
	for vc, n := range p.Link.Credits {
		v.Credits[wire.VC(vc).String()] = n
	}
	if v.Assigned = p.Assigned; p.Fallback != p.Local.Channel {
		v.Fallback = &p.Fallback
	}
	v.By = carrier(p)
	if !p.Link.OwnCarries && p.Link.OwnSince != 0 {
		d := now.Sub(p.Link.OwnSince).Seconds()
		v.OwnDownS = &d
	}
	if miswired(p) {
		found := p.Link.Found
		v.Miswired, v.FoundChip, v.FoundChan = found.String(), &found.Node, &found.Channel
	}
	return v
}

// chipCounters returns the counters of a chip, by name.
func chipCounters(c *chip.Counters) map[string]uint64 {
	return map[string]uint64{
		"requests": c.Requests, "done": c.Results[flow.FateDone], "refused": c.Results[flow.FateRefused],
		"lost": c.Results[flow.FateLost], "unknown": c.Results[flow.FateUnknown], "performed": c.Performed,
		"duplicates": c.Duplicates, "gaps": c.Gaps, "overflows": c.Overflows, "stale_requests": c.StaleRequests,
		"stale_completions": c.StaleCompletions, "stale_replies": c.StaleReplies, "probes": c.Probes,
		"flow_resets": c.FlowResets, "reports_lost": c.ReportsLost, "events_dropped": c.EventsDropped, "timeouts": c.Timeouts,
	}
}

// authCounters returns the counters of a port that checks its peer, by name. authCounters leaves
// out counters that are 0.
func authCounters(a transport.AuthStats) map[string]uint64 {
	m := map[string]uint64{
		"keyings": a.Keyings, "not_sent_without_keys": a.Unkeyed, "malformed": a.Malformed, "in_the_clear": a.Plain, "wrong_key": a.WrongKey,
		"wrong_peer": a.WrongPeer, "stale": a.Stale, "limited": a.Limited, "unknown_key": a.UnknownKey, "forged": a.Forged, "replayed": a.Replayed,
		"refused_by_peer": a.RefusedByIt, "failed": a.Failed, "strangers": a.Strangers,
	}
	maps.DeleteFunc(m, func(_ string, n uint64) bool { return n == 0 })
	return m
}

// dropCounters returns the counts of dropped packets, by the name of the reason.
func dropCounters(d [wire.NumDropReasons]uint64) map[string]uint64 {
	m := map[string]uint64{}
	for r := wire.DropReason(1); r < wire.NumDropReasons; r++ {
		m[r.String()] = d[r]
	}
	return m
}

// linkCounters returns the counters of a port's link and router, by name.
func linkCounters(p *chip.PortStatus) map[string]uint64 {
	f, r := &p.Frames, &p.Router.Counters
	return map[string]uint64{
		"frames_sent": f.FramesSent, "frames_received": f.FramesReceived, "bytes_sent": f.BytesSent, "bytes_received": f.BytesReceived,
		"packets_sent": f.PacketsSent, "packets_received": f.PacketsReceived, "retransmitted": f.Retransmitted,
		"timeouts": f.Timeouts, "nacks_sent": f.NACKsSent, "nacks_received": f.NACKsReceived,
		"updates_sent": f.UpdatesSent, "updates_received": f.UpdatesReceived, "hellos_sent": f.HellosSent, "hellos_received": f.HellosReceived,
		"duplicates": f.Duplicates, "gaps": f.Gaps, "stale_session": f.StaleSession, "injected": r.Injected, "forwarded": r.Forwarded, "delivered": r.Delivered, "copied": r.Copied,
		"redirected": r.Redirected, "dropped_next_hop_dead": r.Dropped[wire.DropNextHopDead],
	}
}

// frameDrops returns the numbers of received frames that the link dropped, by the name of the
// reason.
func frameDrops(c *ttlink.Counters) map[string]uint64 {
	m := map[string]uint64{
		"not_up": c.NotUp, "wrong_channel": c.WrongChannel, "wrong_path": c.WrongPath, "credit_violation": c.CreditViolations, "bad_piece": c.BadPieces,
		"bad_ack": c.BadAcks, "malformed_hello": c.MalformedHellos, "malformed_update": c.MalformedUpdates,
		"miswired_hello": c.MiswiredHellos, "held_hello": c.HeldHellos, "stale_hello": c.StaleHellos, "unproved_hello": c.UnprovedHellos,
	}
	for f := wire.FrameFault(1); f < wire.NumFrameFaults; f++ {
		m[f.Error()[len("frame: "):]] = c.Faults[f]
	}
	return m
}

// EventOf converts an event of a node to the type of the API. The parameter "self" is the address
// of the node's chip.
func EventOf(self wire.FabricNodeID, e node.Event) api.EventView {
	v := api.EventView{Time: e.Time, Chip: self, Lost: e.Lost, Detail: map[string]string{}, Seq: e.Seq, Life: fmt.Sprintf("%016x", uint64(e.Life))}
	switch {
	case e.Archive != nil:
		archiveEvent(&v, e.Archive)
	case e.Fault != nil:
		faultEvent(&v, e.Fault)
	case e.Record != nil:
		recordEvent(&v, e.Record)
	case e.Port != nil:
		v.Type, v.Action, v.Actor = "port", "taken", fmt.Sprintf("%s channel %d", self, e.Port.Local.Channel)
		v.Detail["peer"] = fmt.Sprintf("%s channel %d", e.Port.Peer.Node, e.Port.Peer.Channel)
		if e.Port.Refused != "" {
			v.Action, v.Detail["reason"] = "refused", e.Port.Refused
		}
	case e.Starved != nil:
		v.Type, v.Action, v.Actor = "chip", "starved", self.String()
		v.Detail["for"] = e.Starved.For.Round(time.Millisecond).String()
	case e.Member != nil:
		v.Type, v.Action, v.Actor = "member", e.Member.Kind.String(), e.Member.Member.Meta.Node.String()
		v.Detail["name"] = e.Member.Member.Name
		if e.Member.Reason != "" {
			v.Detail["reason"] = e.Member.Reason
		}
	case e.Chip != nil && e.Chip.Stuck != nil:
		s := e.Chip.Stuck
		v.Type, v.Action, v.Actor = "packet", "stuck", fmt.Sprintf("%s channel %d", self, e.Chip.Local.Channel)
		v.Detail["vc"], v.Detail["for"], v.Detail["waiting"] = s.VC.String(), s.For.Round(time.Millisecond).String(), fmt.Sprint(s.Waiting)
		v.Detail["in"] = "receiver channel"
		if s.Sender >= 0 {
			v.Detail["in"] = fmt.Sprintf("sender channel %d", s.Sender)
		}
		v.Detail["src"], v.Detail["dst"], v.Detail["id"] = s.Src.String(), s.Dst.String(), fmt.Sprintf("%016x", s.ID)
	case e.Chip != nil && e.Chip.Kernel != nil:
		v.Actor = self.String()
		kernelEvent(&v, e.Chip.Kernel)
	case e.Chip != nil && e.Chip.Firmware != nil:
		v.Actor = self.String()
		firmwareEvent(&v, e.Chip.Firmware)
	case e.Chip != nil && e.Chip.Tables != nil:
		tablesEvent(&v, e.Chip.Tables)
	case e.Chip != nil && e.Chip.Drop != 0:
		v.Type, v.Action, v.Actor = "packet", "dropped", fmt.Sprintf("%s channel %d", self, e.Chip.Local.Channel)
		v.Detail["reason"], v.Detail["count"] = e.Chip.Drop.String(), fmt.Sprint(e.Chip.Count)
		v.Detail["src"], v.Detail["dst"] = e.Chip.Src.String(), e.Chip.Dst.String() // for a multicast, both are the source
	case e.Chip != nil && e.Chip.Port != nil:
		portEvent(&v, e.Chip)
	case e.Chip != nil:
		linkEvent(&v, e.Chip)
	}
	return v
}

// cableNames returns the names of cables, such as M0D0/8-M0D1/0. The list "ends" holds the two
// ports of the first cable, then the two ports of the second cable, and so on.
func cableNames(ends []wire.PortID) []string {
	names := []string{}
	for i := 0; i+1 < len(ends); i += 2 {
		names = append(names, fmt.Sprintf("%s/%d-%s/%d", ends[i].Node, ends[i].Channel, ends[i+1].Node, ends[i+1].Channel))
	}
	return names
}

// chipNames returns the names of chips, such as M0D0.
func chipNames(chips []wire.FabricNodeID) (names []string) {
	for _, n := range chips {
		names = append(names, n.String())
	}
	return names
}

// listed joins names with spaces. Without names, listed returns "none".
func listed(names []string) string { return cmp.Or(strings.Join(names, " "), "none") }

// starvedView converts the times for which a chip was starved to the type of the API.
func starvedView(s node.Starved) api.StarvedView {
	v := api.StarvedView{Times: s.Times, TotalS: s.Total.Seconds(), LongestS: s.Longest.Seconds(), LatestS: []float64{}}
	for _, d := range s.Latest {
		v.LatestS = append(v.LatestS, d.Seconds())
	}
	if s.Times > 0 {
		v.LastEnd, v.LastS = &s.LastEnd, v.LatestS[len(v.LatestS)-1]
	}
	return v
}

// tablesEvent writes into v that the chip has installed or refused routing tables.
func tablesEvent(v *api.EventView, t *chip.Tables) {
	v.Type, v.Action, v.Actor = "tables", "installed", v.Chip.String()
	v.Detail["epoch"], v.Detail["out_of_service"] = fmt.Sprintf("%08x", t.Epoch), listed(cableNames(t.Out))
	v.Detail["silent"], v.Detail["unreachable"] = listed(chipNames(t.Silent)), listed(chipNames(t.Unreachable))
	switch {
	case t.Refused:
		v.Action, v.Detail["reason"] = "refused", "the tables could deadlock or lead packets astray"
	case t.Strict:
		v.Detail["old_packets"] = "routers park packets of the old tables that go round a fault or to another mesh, instead of letting them wait"
	}
}

// linkEvent writes into v the event of a link.
func linkEvent(v *api.EventView, e *chip.Event) {
	l := &e.Link
	v.Type, v.Action = "link", l.Kind.String()
	v.Actor = fmt.Sprintf("%s channel %d", e.Local.Node, e.Local.Channel)
	v.Detail["peer"] = fmt.Sprintf("%s channel %d", e.Peer.Node, e.Peer.Channel)
	switch l.Kind {
	case ttlink.EventUp, ttlink.EventPath:
		v.Detail["retrains"] = fmt.Sprint(l.Retrains)
		v.Detail["cable"] = "own"
		if l.Path != ttlink.Own {
			v.Detail["cable"] = fmt.Sprintf("channel %d", l.Path.Channel())
		}
	case ttlink.EventDown:
		v.Detail["reason"] = l.Reason.String()
		if l.Late > 0 {
			v.Detail["late"] = l.Late.String()
		}
	case ttlink.EventHeld, ttlink.EventReleased:
		holdEvent(v, l)
	case ttlink.EventUnreliable, ttlink.EventReliable:
		v.Detail["resent"], v.Detail["damaged"] = fmt.Sprintf("%d%%", l.Shares.Resent), fmt.Sprintf("%d%%", l.Shares.Damaged)
	case ttlink.EventNarrow, ttlink.EventWide:
		v.Detail["report"] = l.SizeReport()
	case ttlink.EventSessionEnded:
		n := 0
		for _, u := range l.Unknown {
			n += u
		}
		v.Detail["packets_of_unknown_fate"] = fmt.Sprint(n)
		if l.End != 0 {
			v.Detail["reason"] = l.End.String()
		}
		for q, u := range l.UnknownWrites {
			if u > 0 {
				v.Detail[fmt.Sprintf("writes_of_unknown_fate_on_queue_%d", q)] = fmt.Sprint(u)
			}
		}
	case ttlink.EventMiswired:
		v.Detail["report"] = fmt.Sprintf("%s expected %s, found %s", e.Local, e.Peer, l.Found)
	case ttlink.EventIncompatible:
		v.Detail["reason"] = l.Mismatch.String()
	}
}
