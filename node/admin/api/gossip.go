package api

import (
	"context"

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

// GossipBody changes what is done to a chip's gossip. What is not named stays.
type GossipBody struct {
	Options fault.Change        `json:"options,omitempty"`      // such as {"delay":"200ms"}, done to what is sent
	Seed    *uint64             `json:"seed,omitempty"`         // throws the dice anew
	Cut     bool                `json:"cut,omitempty"`          // off from all, or from those in From
	From    []wire.FabricNodeID `json:"cut_off_from,omitempty"` // who are to be told the same of this chip
	ForS    float64             `json:"for_seconds,omitempty"`  // takes back what is changed; 0: it stays
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
