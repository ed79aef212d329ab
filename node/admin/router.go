package admin

import (
	"context"
	"fmt"
	"net/http"

	"ttfabric/node/chip"
	"ttfabric/router"
	"ttfabric/wire"
)

// RouterActions are what the routers of ports can be told, by name. Flush is no
// command of tt-metal's: it gives up what waits to be sent by a port, once.
var RouterActions = map[string]router.Command{
	"resume": router.CommandRun, "pause": router.CommandPause, "drain": router.CommandDrain, "retrain": router.CommandRetrain,
}

// FlushAction is the name of the action that is none of [RouterActions].
const FlushAction = "flush"

// RouterBody tells the routers of some ports what to do.
type RouterBody struct {
	Channels []wire.Channel `json:"channels"` // none: all of the chip
	Action   string         `json:"action"`   // resume, pause, drain, retrain, flush
}

// RouterView is what the router of a port does.
type RouterView struct {
	Chip     wire.FabricNodeID `json:"chip"`
	Channel  wire.Channel      `json:"channel"`
	Peer     wire.FabricNodeID `json:"peer"`
	PeerChan wire.Channel      `json:"peer_channel"`
	Plane    wire.Plane        `json:"plane"`
	State    string            `json:"state"`      // initializing, running, paused, draining, retraining
	Code     uint32            `json:"state_code"` // 0 to 4, as tt-metal's RouterState has it
	Waiting  int               `json:"waiting"`    // packets in its sender and receiver channels
	Flushed  int               `json:"flushed"`    // packets given up by this call
}

func (s *Server) routerStates(flushed map[wire.Channel]int) []RouterView {
	st, _ := s.n.Status()
	out := []RouterView{}
	for i := range st.Ports {
		p := &st.Ports[i]
		v := RouterView{Chip: p.Local.Node, Channel: p.Local.Channel, Peer: p.Peer.Node, PeerChan: p.Peer.Channel, Plane: p.Plane,
			State: p.Router.State.String(), Code: uint32(p.Router.State), Flushed: flushed[p.Local.Channel]}
		for vc := range wire.NumVCs {
			v.Waiting += p.Router.Sender[vc] + p.Router.Receiver[vc]
		}
		out = append(out, v)
	}
	return out
}

func (s *Server) routers(w http.ResponseWriter, _ *http.Request) { answer(w, s.routerStates(nil)) }

func (s *Server) commandRouter(w http.ResponseWriter, r *http.Request) {
	var b RouterBody
	if err := decode(r, &b); err != nil {
		problem(w, http.StatusBadRequest, err.Error())
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
	if cmd, ok := RouterActions[b.Action]; ok {
		err = s.n.Command(b.Channels, cmd)
	} else if b.Action == FlushAction {
		flushed, err = s.n.Flush(b.Channels)
	} else {
		err = fmt.Errorf("action %q: want resume, pause, drain, retrain or flush", b.Action)
	}
	if err != nil {
		problem(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	answer(w, s.routerStates(flushed))
}

// portEvent renders a command that a port has carried out.
func portEvent(v *EventView, e *chip.Event) {
	v.Type, v.Action = "router", e.Port.Action()
	v.Actor = fmt.Sprintf("%s channel %d", e.Local.Node, e.Local.Channel)
	v.Detail["peer"] = fmt.Sprintf("%s channel %d", e.Peer.Node, e.Peer.Channel)
	v.Detail["was"], v.Detail["state"] = e.Port.Was.String(), e.Port.State.String()
	if e.Port.Flush {
		v.Detail["packets"] = fmt.Sprint(e.Port.Flushed)
	}
}

// Routers says what the router of each of the chip's ports does.
func (c *Client) Routers(ctx context.Context) (v []RouterView, err error) {
	return v, c.call(ctx, "GET", "/v1/router", nil, &v)
}

// CommandRouter tells the routers of some ports, or of all where none is named, what to do.
func (c *Client) CommandRouter(ctx context.Context, b RouterBody) (v []RouterView, err error) {
	return v, c.call(ctx, "POST", "/v1/router", b, &v)
}
