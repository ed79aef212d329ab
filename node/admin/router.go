package admin

import (
	"fmt"
	"net/http"

	"ttfabric/node/admin/api"
	"ttfabric/node/chip"
	"ttfabric/router"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// routerStates returns the state of the router at each port. The map "flushed" holds the number of
// packets that each port has just dropped, by channel.
func (s *Server) routerStates(flushed map[wire.Channel]int) []api.RouterView {
	st, _ := s.n.Status()
	out := []api.RouterView{}
	for i := range st.Ports {
		p := &st.Ports[i]
		v := api.RouterView{Chip: p.Local.Node, Channel: p.Local.Channel, Peer: p.Peer.Node, PeerChan: p.Peer.Channel, Plane: p.Plane,
			State: p.Router.State.String(), Code: uint32(p.Router.State), Flushed: flushed[p.Local.Channel]}
		if p.Raw {
			v.State = "compliance mode"
		}
		for vc := range wire.NumVCs {
			v.Waiting += p.Router.Sender[vc] + p.Router.Receiver[vc]
		}
		out = append(out, v)
	}
	return out
}

func (s *Server) routers(w http.ResponseWriter, _ *http.Request) { answer(w, s.routerStates(nil)) }

func (s *Server) commandRouter(w http.ResponseWriter, r *http.Request) {
	var b api.RouterBody
	if err := decode(r, &b); err != nil {
		badBody(w, err)
		return
	}
	if len(b.Channels) == 0 {
		st, _ := s.n.Status()
		for i := range st.Ports {
			b.Channels = append(b.Channels, st.Ports[i].Local.Channel)
		}
	}
	var flushed map[wire.Channel]int
	var err error
	if cmd, ok := api.RouterActions[b.Action]; ok {
		err = s.n.Command(b.Channels, cmd)
	} else if b.Action == api.FlushAction {
		flushed, err = s.n.Flush(b.Channels)
	} else {
		err = fmt.Errorf("action %q: want resume, pause, drain, retrain, raw, ttlink or flush", b.Action)
	}
	if err != nil {
		problem(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	answer(w, s.routerStates(flushed))
}

// portEvent writes into v that a port has carried out a command.
func portEvent(v *api.EventView, e *chip.Event) {
	v.Type, v.Action = "router", e.Port.Action()
	v.Actor = fmt.Sprintf("%s channel %d", e.Local.Node, e.Local.Channel)
	v.Detail["peer"] = fmt.Sprintf("%s channel %d", e.Peer.Node, e.Peer.Channel)
	v.Detail["was"], v.Detail["state"] = e.Port.Was.String(), e.Port.State.String()
	if e.Port.Flush {
		v.Detail["packets"] = fmt.Sprint(e.Port.Flushed)
	}
}

// channels answers with the channels of the chip's router that hold packets.
func (s *Server) channels(w http.ResponseWriter, _ *http.Request) {
	out := []api.ChannelView{}
	var st chip.Status
	var held []router.Channel
	s.n.WithChip(func(now mono.Time, c *chip.Chip) { st, held = c.Status(), c.Waiting(now) })
	for _, h := range held {
		p := &st.Ports[h.Port]
		v := api.ChannelView{Chip: p.Local.Node, Channel: p.Local.Channel, Peer: p.Peer.Node, PeerChan: p.Peer.Channel, Link: p.Link.State.String(), Router: p.Router.State.String(),
			Credits: p.Link.Credits[h.VC], VC: h.VC.String(), Side: "receiver", Slots: h.Slots, Waiting: h.Waiting, Packets: []api.HeldView{}}
		if h.Sender >= 0 {
			v.Side, v.Sender = "sender", &h.Sender
		}
		for _, k := range h.Packets {
			v.Packets = append(v.Packets, api.HeldView{Type: k.Type.String(), Src: k.Src, Dst: k.Dst, ID: fmt.Sprintf("%016x", k.ID), TTL: k.TTL, Size: k.Bytes, AgeS: k.Age.Seconds()})
		}
		out = append(out, v)
	}
	answer(w, out)
}
