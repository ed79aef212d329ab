package api

import (
	"context"

	"ttfabric/wire"
)

// ChipBrief is the part of a chip's state that a monitor reads every second. As JSON, a ChipBrief
// has less than a fifth of the bytes of a [ChipView].
type ChipBrief struct {
	Chip        wire.FabricNodeID   `json:"chip"`                       // the chip
	Incarnation string              `json:"incarnation"`                // the incarnation of the chip's process, 16 hexadecimal digits
	UptimeS     float64             `json:"uptime_seconds"`             // the time since the chip started
	TableEpoch  string              `json:"table_epoch"`                // the table epoch of the present routing tables, 8 hexadecimal digits
	Leaving     bool                `json:"refuses_requests,omitempty"` // whether the chip refuses new requests, because somebody removes the chip
	Silent      []wire.FabricNodeID `json:"silent,omitempty"`           // the silent chips, as in the chip's state
	Unreachable []wire.FabricNodeID `json:"unreachable,omitempty"`      // the chips without a route, as in the chip's state
	OpenOps     int                 `json:"open_requests"`              // the number of the chip's requests that have not ended yet
	InFlight    int                 `json:"packets_in_flight"`          // the number of packets in the router's channels
	Lost        uint64              `json:"lost"`                       // requests of the chip that certainly were not performed
	Unknown     uint64              `json:"unknown"`                    // requests of the chip that may have been performed
	Dropped     uint64              `json:"dropped"`                    // packets that the chip dropped, for any reason
	Starved     uint64              `json:"starved_times"`              // how often the chip was starved
	LinksUp     int                 `json:"links_up"`                   // the number of links that are up
	Links       []LinkBrief         `json:"links"`                      // the chip's ports
}

// LinkBrief is the part of a port's state that a monitor reads every second.
type LinkBrief struct {
	Channel    wire.Channel  `json:"channel"`                   // the ethernet channel of the port
	State      string        `json:"state"`                     // the state of the link: off, training, up or closed
	Router     string        `json:"router_state"`              // the state of the router at the port: initializing, running, paused, draining or retraining
	By         *wire.Channel `json:"by_channel,omitempty"`      // the port whose cable carries the link's frames; absent if the link's own cable carries the frames, or if the link is not up
	Out        bool          `json:"out_of_service,omitempty"`  // whether the present routing tables avoid the cable
	Avoided    bool          `json:"avoided,omitempty"`         // whether an operator took the cable out of service
	Silent     bool          `json:"silent,omitempty"`          // whether the port hears nothing from its peer, which is perhaps only late
	Held       bool          `json:"held,omitempty"`            // whether damping holds the link's own cable out of use
	Unreliable bool          `json:"unreliable,omitempty"`      // whether too many frames on the own cable were sent again or came damaged
	Raw        bool          `json:"compliance_mode,omitempty"` // whether the port is in compliance mode, in which the port carries no packets
	Miswired   string        `json:"miswired,omitempty"`        // the port found at the other end of the cable, if the topology declares another port there
	LastDown   string        `json:"last_down"`                 // the reason for which the link last went down; none: the link never went down
	Retrains   int           `json:"retrains,omitempty"`        // the number of times that the link came up again
	RTTMicros  float64       `json:"rtt_microseconds"`          // the smoothed round trip time; 0 before the first measurement
	Bytes      uint64        `json:"bytes_sent"`                // bytes of the frames that the link sent
	Packets    uint64        `json:"packets_sent"`              // packets that the router handed to the link
	Injected   uint64        `json:"injected"`                  // packets of the chip itself that left by the port
	Resent     uint64        `json:"retransmitted"`             // frames that the link sent again
	BytesOut   float64       `json:"sent_bytes_per_second"`     // bytes per second over the latest complete window of at least a second
	PacketsOut float64       `json:"sent_packets_per_second"`   // packets per second over the same window
}

// Brief returns the part of the chip's state that a monitor reads every second.
func (c *Client) Brief(ctx context.Context) (v ChipBrief, err error) {
	return v, c.call(ctx, "GET", "/v1/brief", nil, &v)
}
