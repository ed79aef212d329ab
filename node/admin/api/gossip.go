package api

import (
	"context"

	"ttfabric/ttlink/fault"
	"ttfabric/wire"
)

// GossipView describes the faults injected into a chip's gossip, and the state of the chip's gossip
// pools.
type GossipView struct {
	Chip       wire.FabricNodeID   `json:"chip"`                          // the chip
	Options    string              `json:"options"`                       // the impairments of the gossip that the chip sends, in the notation of 'ttfabric up --netem'; "": none
	Seed       uint64              `json:"seed"`                          // the seed of the impairments' random numbers
	Alone      bool                `json:"cut_off"`                       // whether the chip's gossip is cut off from all other chips, in both directions
	Apart      []wire.FabricNodeID `json:"cut_off_from"`                  // the chips from which this chip's gossip is cut off, in both directions
	EndsInS    float64             `json:"ends_in_seconds,omitempty"`     // the time until the chip removes impairments that have a set duration
	CutEndsInS float64             `json:"cut_ends_in_seconds,omitempty"` // the time until the chip ends cuts that have a set duration
	Counters   map[string]uint64   `json:"counters"`                      // the numbers of gossip datagrams that passed or that a fault hit since the start of the chip, by the name of the fault
	Pools      []PoolView          `json:"pools"`                         // the pools that the chip is in
}

// PoolView is a gossip pool of a chip. The pool is either the pool of the chip's mesh or the pool
// of the exit nodes.
type PoolView struct {
	Label      string    `json:"label"`      // the name of the pool
	Address    string    `json:"address"`    // the chip's address in this pool, host:port
	Seen       int       `json:"seen"`       // the number of chips that are alive according to the pool
	Expected   int       `json:"expected"`   // the number of chips in the whole pool
	Unreadable uint64    `json:"unreadable"` // the number of TCP streams that the chip could not decrypt, because the chip and the sender have no common key
	Refused    uint64    `json:"refused"`    // how often the chip refused a sender that claimed to be a chip of the fabric, plus the number of refused datagrams that were longer than a member's datagrams
	Versions   uint64    `json:"versions"`   // the number of datagrams and streams that the chip dropped because their encryption had another version
	Keys       []KeyView `json:"keys"`       // the keys that encrypt the pool's gossip; empty: the gossip is not encrypted
}

// KeyView names a key of encrypted gossip, but does not contain the key.
type KeyView struct {
	ID      string `json:"id"`      // a hash of the key
	Bits    int    `json:"bits"`    // the length of the key in bits: 128, 192 or 256
	Primary bool   `json:"primary"` // whether the chip encrypts with this key; the chip decrypts with all keys
}

// GossipBody changes the faults injected into a chip's gossip. An absent field changes nothing.
type GossipBody struct {
	Options fault.Change        `json:"options,omitempty"`      // impairments of the gossip that the chip sends, such as {"delay":"200ms"}
	Seed    *uint64             `json:"seed,omitempty"`         // restarts the impairments' random numbers with this seed
	Cut     bool                `json:"cut,omitempty"`          // whether to cut the chip's gossip off from the chips in cut_off_from, or from all other chips if cut_off_from is absent
	From    []wire.FabricNodeID `json:"cut_off_from,omitempty"` // the chips to cut this chip's gossip off from; the caller must also cut the gossip of each of these chips off from this chip
	ForS    float64             `json:"for_seconds,omitempty"`  // the time after which the chip undoes the change; 0: the change has no set end
}

// KeyBody changes the keys of a chip's gossip.
type KeyBody struct {
	Action string `json:"action"`        // install, use or remove
	Key    []byte `json:"key,omitempty"` // for install: the key, 16, 24 or 32 bytes
	ID     string `json:"id,omitempty"`  // for use and remove: the id of the key

	// Before is the time from which on the chip refuses the change, in Unix milliseconds. 0 means
	// that the chip never refuses the change as too late. Callers set Before because a chip that
	// was paused gets the changes sent during its pause all at once, in any order.
	Before int64 `json:"before,omitempty"`
}

// Gossip returns the faults injected into the chip's gossip, and the state of the chip's gossip
// pools.
func (c *Client) Gossip(ctx context.Context) (v GossipView, err error) {
	return v, c.call(ctx, "GET", "/v1/gossip", nil, &v)
}

// SetGossip changes the impairments of the chip's gossip, or cuts the gossip off from other chips.
func (c *Client) SetGossip(ctx context.Context, b GossipBody) error {
	return c.call(ctx, "PUT", "/v1/gossip", b, nil)
}

// HealGossip ends the cuts of the chip's gossip. If "all" is true, HealGossip also removes the
// impairments of the gossip.
func (c *Client) HealGossip(ctx context.Context, all bool) error {
	path := "/v1/gossip?cuts=only"
	if all {
		path = "/v1/gossip"
	}
	return c.call(ctx, "DELETE", path, nil, nil)
}

// GossipKeys returns the ids and properties of the keys that encrypt the chip's gossip.
func (c *Client) GossipKeys(ctx context.Context) (v []KeyView, err error) {
	return v, c.call(ctx, "GET", "/v1/gossip/keys", nil, &v)
}

// SetGossipKeys changes the keys that encrypt the chip's gossip, and returns the keys after the
// change.
func (c *Client) SetGossipKeys(ctx context.Context, b KeyBody) (v []KeyView, err error) {
	return v, c.call(ctx, "PUT", "/v1/gossip/keys", b, &v)
}
