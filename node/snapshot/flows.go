package snapshot

import "ttfabric/wire"

// Flow is the source's end of a flow: the requests of one chip to another chip, or to the members of
// a multicast group.
type Flow struct {
	Dst     wire.FabricNodeID `json:"dst"`     // destination in the headers of the packets
	Plane   wire.Plane        `json:"plane"`   // routing plane
	Other   bool              `json:"other"`   // whether the packets take the other direction round rings
	Group   uint16            `json:"group"`   // number of the multicast group; 0: unicast
	Ranges  *wire.Ranges      `json:"ranges"`  // ranges of the group; null: none
	Members *wire.Members     `json:"members"` // chips of the group; null: none
	Via     string            `json:"via"`     // hops that the packets take instead of the tables' routes; empty: none

	Epoch  uint32 `json:"epoch"`  // epoch of the flow
	Older  uint32 `json:"older"`  // number of an epoch after this one, of which a member has heard; 0: none
	Known  bool   `json:"known"`  // whether every member has answered in the epoch
	Ending bool   `json:"ending"` // whether the epoch takes no more requests
	Open   bool   `json:"open"`   // whether the chip may send requests before the epoch is known
	Asked  bool   `json:"asked"`  // whether requests wait for the end of a probe
	Life   Hex32  `json:"life"`   // life of the destination that the packets name; 0: none

	Base    uint32  `json:"base"`    // number of the first request in the window
	Next    uint32  `json:"next"`    // number of the next new request
	Run     int     `json:"run"`     // requests since the last packet that asked for a completion
	Missed  uint64  `json:"missed"`  // missed posted requests that no flush has reported yet
	Flushes []Flush `json:"flushes"` // open flushes

	Moves   bool    `json:"moves"`    // whether the tables have a new route for the flow, which the flow takes when no request is open
	DeadEnd *uint32 `json:"dead_end"` // requests before this number may have been in a link that died; null: none

	Ends     []End     `json:"ends"`     // the members of the flow; a unicast flow has one
	Requests []Request `json:"requests"` // the window: the requests from base to next-1
	Reads    []Request `json:"reads"`    // performed reads whose data has not come
}

// Flush is an open flush of a flow.
type Flush struct {
	Seq    uint32 `json:"seq"`    // number of the flush in its flow
	Missed uint64 `json:"missed"` // missed posted requests that the flush will report
}

// End is what a source knows about a member of a flow.
type End struct {
	Chip     wire.FabricNodeID `json:"chip"`     // the member
	Next     uint32            `json:"next"`     // the member has answered every request before this one
	Answered bool              `json:"answered"` // whether the member has answered in the epoch
	Anew     bool              `json:"anew"`     // whether the member has begun the epoch in a later life, or may have
	Fates    [4]uint64         `json:"fates"`    // settled requests: done, refused, lost, unknown
}

// Request is a request in the window of a flow, or a performed read whose data has not come.
type Request struct {
	Seq       uint32    `json:"seq"`              // number of the request in its flow
	ID        Hex64     `json:"id"`               // id of the request's packet
	Token     Hex64     `json:"token"`            // number that the program gave the request
	Age       int64     `json:"age_ns"`           // time since the chip sent the request, in nanoseconds
	Settled   bool      `json:"settled"`          // whether all members have settled the request
	Waits     []int     `json:"waits,omitempty"`  // of a multicast: indices in ends of the members that have not settled the request; absent: unicast, or none
	Known     bool      `json:"known"`            // whether every member had answered in the epoch when the chip sent the request
	Probe     bool      `json:"probe"`            // whether the flow sent this probe on its own
	Flush     bool      `json:"flush"`            // whether the request is a flush
	Posted    bool      `json:"posted"`           // whether the request is posted
	Read      bool      `json:"read"`             // whether the request is a read
	Size      uint16    `json:"size"`             // bytes wanted by a read
	Addr      Hex64     `json:"addr"`             // NoC address of a read
	Failed    []Failure `json:"failed,omitempty"` // of a multicast: the members at which the request did not end as done; absent: none
	Performed *int64    `json:"performed_ns"`     // for a read whose data has not come: time since the source learned that the read was performed, in nanoseconds; null: not yet
}

// Failure is how a multicast ended at a member at which it did not end as done.
type Failure struct {
	Chip    wire.FabricNodeID `json:"chip"`    // the member
	Fate    uint8             `json:"fate"`    // code of the fate: 1 refused, 2 lost, 3 unknown
	Outcome uint8             `json:"outcome"` // of a refused request: code of the outcome (see package wire)
	Drop    uint8             `json:"drop"`    // of a lost request: code of the reason for which a router dropped the copy; 0: none
	At      wire.FabricNodeID `json:"at"`      // with a drop: the chip of the router
	Doubt   uint8             `json:"doubt"`   // of an unknown fate: code of the reason (see package flow)
}

// Arrived is the destination's end of a flow.
type Arrived struct {
	Src        wire.FabricNodeID `json:"src"`        // source of the flow
	Group      uint16            `json:"group"`      // number of the multicast group at the source; 0: unicast
	Plane      wire.Plane        `json:"plane"`      // routing plane
	Other      bool              `json:"other"`      // whether the packets take the other direction round rings
	Epoch      uint32            `json:"epoch"`      // newest epoch that the chip has heard of
	Base       uint32            `json:"base"`       // lowest request whose fate the source did not know
	Next       uint32            `json:"next"`       // number after the newest request that arrived
	Told       uint32            `json:"told"`       // first request that the next completion reports
	Void       bool              `json:"void"`       // whether the chip performs no request of the epoch
	Owed       bool              `json:"owed"`       // whether the chip owes a completion
	Exceptions []Exception       `json:"exceptions"` // requests before next that the chip did not perform
}

// Exception is a run of requests that a chip did not perform.
type Exception struct {
	First   uint32 `json:"first"`   // number of the first request
	Count   uint16 `json:"count"`   // number of requests
	Outcome uint8  `json:"outcome"` // code of the outcome (see package wire)
}
