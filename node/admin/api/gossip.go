package api

import (
	"context"

	"ttfabric/ttlink/fault"
	"ttfabric/wire"
)

// GossipView describes the faults that were injected into a chip's gossip, and the
// state of the chip's gossip pools.
type GossipView struct {
	Chip       wire.FabricNodeID   `json:"chip"`                          // the chip
	Options    string              `json:"options"`                       // the impairments of the gossip that the chip sends, as 'ttfabric netem' writes them; "": none
	Seed       uint64              `json:"seed"`                          // the seed of the impairments' random numbers
	Alone      bool                `json:"cut_off"`                       // the chip is cut off from all other chips' gossip, in both directions
	Apart      []wire.FabricNodeID `json:"cut_off_from"`                  // the chips that the chip does not gossip with, in both directions
	EndsInS    float64             `json:"ends_in_seconds,omitempty"`     // the time until the chip removes impairments with a time limit
	CutEndsInS float64             `json:"cut_ends_in_seconds,omitempty"` // the time until the chip removes cuts with a time limit
	Counters   map[string]uint64   `json:"counters"`                      // the numbers of gossip datagrams since the start of the chip, by the name of the impairment
	Pools      []PoolView          `json:"pools"`                         // the pools that the chip is in
}

// PoolView is a gossip pool of a chip: the pool of its mesh, or the pool of the exit nodes.
type PoolView struct {
	Label      string    `json:"label"`      // the name of the pool
	Address    string    `json:"address"`    // the chip's address in this pool, host:port
	Seen       int       `json:"seen"`       // the number of chips that the pool believes alive
	Expected   int       `json:"expected"`   // the number of chips in the whole pool
	Unreadable uint64    `json:"unreadable"` // the number of streams that the chip could not read, because the chip and the sender have no common key
	Refused    uint64    `json:"refused"`    // the number of claims to be a chip of the fabric that the chip refused
	Versions   uint64    `json:"versions"`   // the number of datagrams and streams that the chip dropped because their encryption had another version
	Keys       []KeyView `json:"keys"`       // the keys of the pool; an empty list means plain gossip
}

// KeyView names a key without giving the key away.
type KeyView struct {
	ID      string `json:"id"`      // a hash of the key
	Bits    int    `json:"bits"`    // the length of the key in bits: 128, 192 or 256
	Primary bool   `json:"primary"` // the chip encrypts with this key, and only decrypts with other keys
}

// GossipBody changes the faults that are injected into a chip's gossip. An absent field
// changes nothing.
type GossipBody struct {
	Options fault.Change        `json:"options,omitempty"`      // impairments of the gossip that the chip sends, such as {"delay":"200ms"}
	Seed    *uint64             `json:"seed,omitempty"`         // restarts the impairments' random numbers with this seed
	Cut     bool                `json:"cut,omitempty"`          // cuts the chip off from all other chips, or only from the chips in cut_off_from
	From    []wire.FabricNodeID `json:"cut_off_from,omitempty"` // the chips to cut this chip off from; the caller must also cut each of these chips off from this chip
	ForS    float64             `json:"for_seconds,omitempty"`  // the time after which the chip undoes the change; 0: the change stays
}

// KeyBody changes the keys of a chip's gossip.
type KeyBody struct {
	Action string `json:"action"`        // install, use or remove
	Key    []byte `json:"key,omitempty"` // for install: the key, 16, 24 or 32 bytes
	ID     string `json:"id,omitempty"`  // for use and remove: the id of the key

	// Before is the time from which on the chip refuses the change, in Unix
	// milliseconds. 0 means no such time. The limit is needed because a resumed chip
	// gets all changes from its pause, in any order.
	Before int64 `json:"before,omitempty"`
}

// Gossip returns the faults that were injected into the chip's gossip, and the state of
// the chip's gossip pools.
func (c *Client) Gossip(ctx context.Context) (v GossipView, err error) {
	return v, c.call(ctx, "GET", "/v1/gossip", nil, &v)
}

// SetGossip impairs the chip's gossip, or cuts the chip off.
func (c *Client) SetGossip(ctx context.Context, b GossipBody) error {
	return c.call(ctx, "PUT", "/v1/gossip", b, nil)
}

// HealGossip removes the cuts of the chip's gossip. If all is true, it also removes the
// impairments.
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

// SetGossipKeys changes the keys of the chip's gossip, and returns the chip's keys
// after the change.
func (c *Client) SetGossipKeys(ctx context.Context, b KeyBody) (v []KeyView, err error) {
	return v, c.call(ctx, "PUT", "/v1/gossip/keys", b, &v)
}
