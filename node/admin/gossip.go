package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"ttfabric/membership"
	"ttfabric/node"
	"ttfabric/ttlink/fault"
	"ttfabric/wire"
)

// GossipView is what is done on purpose to a chip's gossip, and how its pools fare.
type GossipView struct {
	Chip       wire.FabricNodeID   `json:"chip"`
	Options    string              `json:"options"` // done to what it sends, as "netem" reads it
	Seed       uint64              `json:"seed"`
	Alone      bool                `json:"cut_off"`      // from all, both ways
	Apart      []wire.FabricNodeID `json:"cut_off_from"` // from these
	EndsInS    float64             `json:"ends_in_seconds,omitempty"`
	CutEndsInS float64             `json:"cut_ends_in_seconds,omitempty"`
	Counters   map[string]uint64   `json:"counters"` // since the start of the chip
	Pools      []PoolView          `json:"pools"`
}

// PoolView is a gossip pool of a chip: that of its mesh, or that of the exit nodes.
type PoolView struct {
	Label      string    `json:"label"`
	Address    string    `json:"address"`
	Seen       int       `json:"seen"`     // chips believed alive
	Expected   int       `json:"expected"` // chips of a whole pool
	Unreadable uint64    `json:"unreadable"`
	Keys       []KeyView `json:"keys"`
}

// KeyView says which key it is without giving it away.
type KeyView struct {
	ID      string `json:"id"`
	Bits    int    `json:"bits"`
	Primary bool   `json:"primary"`
}

func keyViews(ks []membership.Key) []KeyView {
	out := []KeyView{}
	for _, k := range ks {
		out = append(out, KeyView(k))
	}
	return out
}

// GossipBody changes what is done to a chip's gossip. What is not named stays.
type GossipBody struct {
	Options fault.Change        `json:"options,omitempty"`      // such as {"delay":"200ms"}, done to what is sent
	Seed    *uint64             `json:"seed,omitempty"`         // throws the dice anew
	Cut     bool                `json:"cut,omitempty"`          // off from all, or from those in From
	From    []wire.FabricNodeID `json:"cut_off_from,omitempty"` // who are to be told the same of this chip
	ForS    float64             `json:"for_seconds,omitempty"`  // takes back what is changed; 0: it stays
}

func (s *Server) gossip(w http.ResponseWriter, _ *http.Request) {
	f, pools, err := s.n.Gossip()
	if err != nil {
		problem(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	v := GossipView{Chip: s.n.Self(), Options: f.Options.String(), Seed: f.Seed, Alone: f.Alone, Apart: append([]wire.FabricNodeID{}, f.Apart...),
		EndsInS: secondsTo(f.Until), CutEndsInS: secondsTo(f.CutUntil), Counters: faultCounters(&f.Counts), Pools: []PoolView{}}
	for _, p := range pools {
		v.Pools = append(v.Pools, PoolView{p.Label, p.Addr, p.Seen, p.Expected, p.Unreadable, keyViews(p.Keys)})
	}
	answer(w, v)
}

func (s *Server) setGossip(w http.ResponseWriter, r *http.Request) {
	var b GossipBody
	if err := decode(r, &b); err != nil {
		problem(w, http.StatusBadRequest, err.Error())
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

// KeyBody changes the keys of a chip's gossip.
type KeyBody struct {
	Action string `json:"action"`        // install, use or remove
	Key    []byte `json:"key,omitempty"` // of install: 16, 24 or 32 bytes
	ID     string `json:"id,omitempty"`  // of use and remove

	// Before is when the change is too late, Unix milliseconds: a chip that was
	// paused finds what it was told meanwhile, in any order. 0: never.
	Before int64 `json:"before,omitempty"`
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
	var b KeyBody
	if decode(r, &b) != nil {
		problem(w, http.StatusBadRequest, "not a change of a key") // the text may hold one
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

func gossipFaultEvent(v *EventView, e *node.FaultEvent) {
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

// Gossip says what is done on purpose to the chip's gossip, and how its pools fare.
func (c *Client) Gossip(ctx context.Context) (v GossipView, err error) {
	return v, c.call(ctx, "GET", "/v1/gossip", nil, &v)
}

// SetGossip impairs the chip's gossip, or cuts it off.
func (c *Client) SetGossip(ctx context.Context, b GossipBody) error {
	return c.call(ctx, "PUT", "/v1/gossip", b, nil)
}

// HealGossip takes back the cuts of the chip's gossip and, with all, its impairment, too.
func (c *Client) HealGossip(ctx context.Context, all bool) error {
	path := "/v1/gossip?cuts=only"
	if all {
		path = "/v1/gossip"
	}
	return c.call(ctx, "DELETE", path, nil, nil)
}

// GossipKeys lists the keys of the chip's gossip.
func (c *Client) GossipKeys(ctx context.Context) (v []KeyView, err error) {
	return v, c.call(ctx, "GET", "/v1/gossip/keys", nil, &v)
}

// SetGossipKeys changes them, and returns those that there are then.
func (c *Client) SetGossipKeys(ctx context.Context, b KeyBody) (v []KeyView, err error) {
	return v, c.call(ctx, "PUT", "/v1/gossip/keys", b, &v)
}
