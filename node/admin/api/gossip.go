package api

import (
	"context"

	"ttfabric/ttlink/fault"
	"ttfabric/wire"
)

// GossipView is what is done on purpose to a chip's gossip, and how its pools fare.
type GossipView struct {
	Chip       wire.FabricNodeID   `json:"chip"`                          // the chip
	Options    string              `json:"options"`                       // the impairments of the gossip that the chip sends, as 'ttfabric netem' writes them; "": none
	Seed       uint64              `json:"seed"`                          // of the dice of the impairments
	Alone      bool                `json:"cut_off"`                       // the chip gossips with nobody, in both directions
	Apart      []wire.FabricNodeID `json:"cut_off_from"`                  // the chips that the chip does not gossip with, in both directions
	EndsInS    float64             `json:"ends_in_seconds,omitempty"`     // until the chip takes back the impairments that were set for a time
	CutEndsInS float64             `json:"cut_ends_in_seconds,omitempty"` // until the chip takes back the cuts that were made for a time
	Counters   map[string]uint64   `json:"counters"`                      // gossip datagrams since the start of the chip, by what the impairments did to them
	Pools      []PoolView          `json:"pools"`                         // the pools that the chip is in
}

// PoolView is a gossip pool of a chip: the pool of its mesh, or the pool of the exit nodes.
type PoolView struct {
	Label      string    `json:"label"`      // the name of the pool
	Address    string    `json:"address"`    // where the chip gossips in this pool, host:port
	Seen       int       `json:"seen"`       // chips that the pool believes alive
	Expected   int       `json:"expected"`   // chips that the whole pool has
	Unreadable uint64    `json:"unreadable"` // streams that the chip could not read, since it has no key in common with their sender
	Keys       []KeyView `json:"keys"`       // the keys of the pool; none: gossip is plain
}

// KeyView names a key without giving the key away.
type KeyView struct {
	ID      string `json:"id"`      // a hash of the key
	Bits    int    `json:"bits"`    // the length of the key: 128, 192 or 256
	Primary bool   `json:"primary"` // the chip encrypts with this key; with other keys it only decrypts
}

// GossipBody changes what is done to a chip's gossip. A field that is absent
// changes nothing.
type GossipBody struct {
	Options fault.Change        `json:"options,omitempty"`      // impairments of the gossip that the chip sends, such as {"delay":"200ms"}
	Seed    *uint64             `json:"seed,omitempty"`         // starts the dice of the impairments anew
	Cut     bool                `json:"cut,omitempty"`          // cuts the chip off from all others, or from those in cut_off_from
	From    []wire.FabricNodeID `json:"cut_off_from,omitempty"` // the chips to cut this chip off from; the caller tells each of them the same of this chip
	ForS    float64             `json:"for_seconds,omitempty"`  // after so many seconds the chip takes back the change; 0: the change stays
}

// KeyBody changes the keys of a chip's gossip.
type KeyBody struct {
	Action string `json:"action"`        // install, use or remove
	Key    []byte `json:"key,omitempty"` // of install: the key, 16, 24 or 32 bytes
	ID     string `json:"id,omitempty"`  // of use and remove: which key

	// Before is when the change comes too late, in Unix milliseconds; 0: never. A
	// chip that was paused finds all changes of the meantime, in any order.
	Before int64 `json:"before,omitempty"`
}

// Gossip returns what is done on purpose to the chip's gossip, and how its pools fare.
func (c *Client) Gossip(ctx context.Context) (v GossipView, err error) {
	return v, c.call(ctx, "GET", "/v1/gossip", nil, &v)
}

// SetGossip impairs the chip's gossip, or cuts it off.
func (c *Client) SetGossip(ctx context.Context, b GossipBody) error {
	return c.call(ctx, "PUT", "/v1/gossip", b, nil)
}

// HealGossip takes back the cuts of the chip's gossip, and with all also its impairments.
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

// SetGossipKeys changes the keys of the chip's gossip, and returns the keys that
// the chip has then.
func (c *Client) SetGossipKeys(ctx context.Context, b KeyBody) (v []KeyView, err error) {
	return v, c.call(ctx, "PUT", "/v1/gossip/keys", b, &v)
}
