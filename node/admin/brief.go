package admin

import (
	"fmt"
	"net/http"
	"time"

	"ttfabric/node"
	"ttfabric/node/admin/api"
	"ttfabric/node/chip"
	"ttfabric/node/flow"
	"ttfabric/ttlink"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// brief answers GET /v1/brief.
func (s *Server) brief(w http.ResponseWriter, _ *http.Request) { answer(w, briefOf(s.n)) }

// briefOf converts a node's state to the brief form of the API.
func briefOf(n *node.Node) api.ChipBrief {
	s, now := n.Status()
	v := api.ChipBrief{
		Chip: s.Node, Incarnation: fmt.Sprintf("%016x", uint64(s.Incarnation)), UptimeS: time.Duration(now).Seconds(), TableEpoch: fmt.Sprintf("%08x", s.Epoch),
		Leaving: n.Leaving(), Silent: s.Silent, Unreachable: s.Unreachable, OpenOps: s.Open, InFlight: s.InFlight,
		Lost: s.Counters.Results[flow.FateLost], Unknown: s.Counters.Results[flow.FateUnknown], Starved: n.Starved().Times,
		LinksUp: s.PortsUp, Links: make([]api.LinkBrief, len(s.Ports)),
	}
	for _, k := range s.Counters.Dropped {
		v.Dropped += k
	}
	for i := range s.Ports {
		v.Links[i] = linkBrief(&s.Ports[i])
	}
	return v
}

// linkBrief converts the state of a port and its link to the brief form of the API.
func linkBrief(p *chip.PortStatus) api.LinkBrief {
	l := &p.Link
	v := api.LinkBrief{
		Channel: p.Local.Channel, State: l.State.String(), Router: p.Router.State.String(), Out: p.Out, Avoided: p.Avoided, Silent: p.Silent,
		Held: l.HeldUntil != 0 && l.HeldUntil != mono.Never, Unreliable: l.Unreliable, Raw: p.Raw, LastDown: l.LastDown.String(), Retrains: l.Retrains,
		RTTMicros: float64(l.RTT.Nanoseconds()) / 1e3, Bytes: p.Frames.BytesSent, Packets: p.Frames.PacketsSent, Injected: p.Router.Counters.Injected,
		Resent: p.Frames.Retransmitted, BytesOut: p.Rate.BytesOut, PacketsOut: p.Rate.PacketsOut,
	}
	v.By = carrier(p)
	if miswired(p) {
		v.Miswired = l.Found.String()
	}
	return v
}

// carrier returns the port whose cable carries the frames of a link by a fallback path. If the link is
// not up, or if its own cable carries the frames, carrier returns nil.
func carrier(p *chip.PortStatus) *wire.Channel {
	if p.Link.State != ttlink.StateUp || p.Link.Path == ttlink.Own {
		return nil
	}
	by := p.Link.Path.Channel()
	return &by
}

// miswired reports whether a port found another port at the end of its cable than the topology declares. While
// the link is up, a forged hello may have set Miswired.
func miswired(p *chip.PortStatus) bool { return p.Link.Miswired && p.Link.State != ttlink.StateUp }
