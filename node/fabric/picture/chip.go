package picture

import (
	"slices"
	"time"

	"ttfabric/node/admin/api"
	"ttfabric/router"
	"ttfabric/wire"
)

// ChipDetail is a chip with its routers, as in figure 3.1 of the specification: for each port, the
// sender and receiver channels of each virtual channel.
type ChipDetail struct {
	Chip        string       `json:"chip"`
	Time        time.Time    `json:"time"`
	State       ChipState    `json:"state"`
	Incarnation string       `json:"incarnation"`
	UptimeS     float64      `json:"uptime_seconds"`
	Members     int          `json:"members"`
	MemoryBytes int64        `json:"memory_bytes"` // memory of the chip's tiles
	Routers     []RouterView `json:"routers"`      // in the order of the ports
}

// RouterView is the router at one port.
type RouterView struct {
	Channel   wire.Channel `json:"channel"`
	Direction string       `json:"direction"`
	Plane     wire.Plane   `json:"plane"`
	Peer      string       `json:"peer"` // the port at the other end, such as M0D1/0
	Cable     int          `json:"cable"`
	Link      string       `json:"link"`   // the state of the link
	Router    string       `json:"router"` // the state of the router
	VCs       []VCView     `json:"vcs"`    // the virtual channels that the fabric uses
}

// VCView is one virtual channel of a router.
type VCView struct {
	VC       string        `json:"vc"`
	Credits  int           `json:"credits"` // packets that the port may send now
	Senders  []ChannelView `json:"senders"`
	Receiver ChannelView   `json:"receiver"`
}

// ChannelView is a sender or receiver channel.
type ChannelView struct {
	From    string         `json:"from,omitempty"` // where the packets of a sender channel come from: worker, or the side E, W, N or S
	Slots   int            `json:"slots"`
	Waiting int            `json:"waiting"`
	Packets []api.HeldView `json:"packets,omitempty"` // the first packets, in the order in which they leave
}

// Sizes are the numbers of slots of the fabric's channels, by virtual channel. A virtual channel
// without slots is not in use.
type Sizes = router.SlotProfile

// Detail puts the view of a chip and its channels that hold packets into the form of figure 3.1. Empty
// channels come from the sizes.
func (p *Picture) Detail(now time.Time, v *api.ChipView, held []api.ChannelView, sizes Sizes) ChipDetail {
	d := ChipDetail{Chip: v.Chip.String(), Time: now, Incarnation: v.Incarnation, UptimeS: v.UptimeS, Members: v.Members, MemoryBytes: v.Memory.Tiles, Routers: []RouterView{}}
	if i := p.m.Chip(v.Chip); i >= 0 {
		d.State = p.state.Chips[i]
	}
	for i := range v.Links {
		l := &v.Links[i]
		r := RouterView{Channel: l.Channel, Direction: l.Direction, Plane: l.Plane, Peer: wire.PortID{Node: l.Peer, Channel: l.PeerChan}.Short(),
			Cable: p.m.Cable(wire.PortID{Node: v.Chip, Channel: l.Channel}), Link: l.State, Router: l.Router, VCs: []VCView{}}
		for vc := range wire.VC(wire.NumVCs) {
			if sizes.Receiver[vc] > 0 {
				r.VCs = append(r.VCs, vcOf(l, vc, held, sizes))
			}
		}
		d.Routers = append(d.Routers, r)
	}
	return d
}

// vcOf returns the virtual channel vc of a port.
func vcOf(l *api.LinkView, vc wire.VC, held []api.ChannelView, sizes Sizes) VCView {
	out := VCView{VC: vc.String(), Credits: l.Credits[vc.String()], Receiver: ChannelView{Slots: sizes.Receiver[vc]}}
	out.Senders = append(out.Senders, ChannelView{From: "worker", Slots: sizes.Sender[vc]})
	for d := range wire.Direction(wire.NumDirections) { // the router numbers the sender channels in this order
		if d.String() != l.Direction {
			out.Senders = append(out.Senders, ChannelView{From: d.String(), Slots: sizes.Sender[vc]})
		}
	}
	for i := range held {
		h := &held[i]
		if h.Channel != l.Channel || h.VC != out.VC {
			continue
		}
		c := &out.Receiver
		if h.Sender != nil {
			if *h.Sender < 0 || *h.Sender >= len(out.Senders) {
				continue
			}
			c = &out.Senders[*h.Sender]
		}
		c.Slots, c.Waiting, c.Packets = h.Slots, h.Waiting, slices.Clone(h.Packets)
	}
	return out
}
