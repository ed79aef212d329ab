package admin

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"ttfabric/membership"
	"ttfabric/node"
	"ttfabric/node/admin/api"
	"ttfabric/wire"
)

// keyViews converts keys to the type of the API. The result holds ids and states of the keys, but
// no secrets.
func keyViews(ks []membership.Key) []api.KeyView {
	out := []api.KeyView{}
	for _, k := range ks {
		out = append(out, api.KeyView(k))
	}
	return out
}

func (s *Server) gossip(w http.ResponseWriter, _ *http.Request) {
	f, pools, err := s.n.Gossip()
	if err != nil {
		problem(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	v := api.GossipView{Chip: s.n.Self(), Options: f.Options.String(), Seed: f.Seed, Alone: f.Alone, Apart: append([]wire.FabricNodeID{}, f.Apart...),
		EndsInS: secondsTo(f.Until), CutEndsInS: secondsTo(f.CutUntil), Counters: faultCounters(&f.Counts), Pools: []api.PoolView{}}
	for _, p := range pools {
		v.Pools = append(v.Pools, api.PoolView{Label: p.Label, Address: p.Addr, Seen: p.Seen, Expected: p.Expected, Unreadable: p.Unreadable, Refused: p.Refused, Versions: p.Version, Keys: keyViews(p.Keys)})
	}
	answer(w, v)
}

func (s *Server) setGossip(w http.ResponseWriter, r *http.Request) {
	var b api.GossipBody
	if err := decode(r, &b); err != nil {
		badBody(w, err)
		return
	}
	d := time.Duration(b.ForS * float64(time.Second))
	var errs [2]error
	if len(b.Options) > 0 || b.Seed != nil {
		errs[0] = s.n.ImpairGossip(b.Options, b.Seed, d)
	}
	if b.Cut {
		errs[1] = s.n.CutGossip(b.From, d)
	}
	if err := errors.Join(errs[:]...); err != nil {
		problem(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	s.gossip(w, r)
}

func (s *Server) healGossip(w http.ResponseWriter, r *http.Request) {
	if err := s.n.HealGossip(r.URL.Query().Get("cuts") == ""); err != nil {
		problem(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	s.gossip(w, r)
}

func (s *Server) gossipKeys(w http.ResponseWriter, _ *http.Request) {
	k, err := s.n.GossipKeys()
	if err != nil {
		problem(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	answer(w, keyViews(k.List()))
}

func (s *Server) setGossipKeys(w http.ResponseWriter, r *http.Request) {
	var b api.KeyBody
	if err := decode(r, &b); err != nil {
		var long *http.MaxBytesError
		if !errors.As(err, &long) {
			err = errors.New("the body is not a valid change of a key") // the message of the decoding error could quote a key
		}
		badBody(w, err)
		return
	}
	k, err := s.n.GossipKeys()
	if err == nil && b.Before != 0 && time.Now().UnixMilli() > b.Before {
		err = errors.New("the change of keys came too late")
	}
	if err == nil {
		switch b.Action {
		case "install":
			err = k.Install(b.Key)
		case "use":
			err = k.Use(b.ID)
		case "remove":
			err = k.Remove(b.ID)
		default:
			err = fmt.Errorf("action %q: want install, use or remove", b.Action)
		}
	}
	if err != nil {
		problem(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	answer(w, keyViews(k.List()))
}

// gossipFaultEvent writes into v that the fault injected into a chip's gossip has changed.
func gossipFaultEvent(v *api.EventView, e *node.FaultEvent) {
	v.Actor = fmt.Sprintf("%s gossip", e.Chip)
	if len(e.From) > 0 {
		var names []string
		for _, c := range e.From {
			names = append(names, c.String())
		}
		slices.Sort(names)
		v.Detail["from"] = fmt.Sprint(names)
	}
}
