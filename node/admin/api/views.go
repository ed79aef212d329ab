package api

import (
	"time"

	"ttfabric/wire"
)

// LinkHealth is how a link has fared, and what the router of its port does.
type LinkHealth struct {
	Phase       string   `json:"phase"`                   // of the training: the router firmware's name of its status
	Postcode    string   `json:"postcode"`                // and its code, such as 0xa3b3c3d3
	Train       string   `json:"train_status"`            // in progress, ok, fail, not connected
	TrainCode   uint8    `json:"train_status_code"`       // 0 to 3, as a Wormhole's ethernet firmware has it
	Router      string   `json:"router_state"`            // initializing, running, paused, draining, retraining
	RouterCode  uint32   `json:"router_state_code"`       // 0 to 4, as tt-metal's RouterState has it
	RetrainedS  *float64 `json:"since_retrain_seconds"`   // since it came up again last; null: never
	MeanDownS   float64  `json:"mean_downtime_seconds"`   // of the times that it was down since it came up first
	UptimeS     float64  `json:"uptime_seconds"`          // in the chip's life, by whatever cable
	UptimeShare *float64 `json:"uptime_share"`            // of the time since the chip's first link came up, 0 to 1; null before
	Flaps       int      `json:"flaps"`                   // failures of the own cable
	Held        bool     `json:"held"`                    // the own cable is held down, as it failed too often
	HeldForS    float64  `json:"held_for_seconds"`        // how much longer; 0 if it isn't
	HeldUntil   string   `json:"held_until,omitempty"`    // the same as a time of day
	DroppedHere uint64   `json:"packets_dropped_by_port"` // that should have left by it, or came in by it and could go nowhere
}

// SocketView is what a port found out about its socket, and what went wrong
// with it; see [transport.Stats].
type SocketView struct {
	GSO                bool `json:"gso"` // super-packets out
	GRO                bool `json:"gro"` // super-packets in
	Batching           bool `json:"batching"`
	ReceiveBuffer      int  `json:"receive_buffer_bytes"` // granted
	ReceiveBufferAsked int  `json:"receive_buffer_asked_bytes"`
	SendBuffer         int  `json:"send_buffer_bytes"`
	SendBufferAsked    int  `json:"send_buffer_asked_bytes"`
	Largest            int  `json:"largest_datagram_bytes"` // that the path takes now

	Counters map[string]uint64 `json:"counters"` // of datagrams, if the name says nothing else
}

// ChipView is a chip's state as the API tells it.
type ChipView struct {
	Chip         wire.FabricNodeID   `json:"chip"`
	UMD          int                 `json:"umd"` // id in the cluster descriptor, -1 for none
	Row          int                 `json:"row"`
	Col          int                 `json:"col"`
	Fabric       string              `json:"fabric"`
	Incarnation  string              `json:"incarnation"`
	TableEpoch   string              `json:"table_epoch"`
	Started      time.Time           `json:"started"`
	UptimeS      float64             `json:"uptime_seconds"`
	Gossip       string              `json:"gossip"`
	Members      int                 `json:"members"` // chips alive, as the pool says
	LinksUp      int                 `json:"links_up"`
	OutOfService []string            `json:"out_of_service"` // cables that the tables in force do without
	Unreachable  []wire.FabricNodeID `json:"unreachable"`    // chips of its mesh without a way from it; of another mesh the first, for all
	Links        []LinkView          `json:"links"`
	OpenOps      int                 `json:"open_requests"`
	InFlight     int                 `json:"packets_in_flight"`
	Memory       MemoryView          `json:"memory"`
	Loop         Load                `json:"loop"` // what the chip's loop has done since the start
	Counters     map[string]uint64   `json:"counters"`
	Dropped      map[string]uint64   `json:"dropped"`
}

// MemberView is a chip that the pool believes alive, as the API tells it.
type MemberView struct {
	Chip        wire.FabricNodeID `json:"chip"`
	Name        string            `json:"name"`
	Address     string            `json:"address"`
	API         string            `json:"api,omitempty"` // host:port of its API, where it listens at that address
	Incarnation string            `json:"incarnation"`
	InService   uint16            `json:"in_service_map"`
}

// MemoryView is a chip's use of host memory, in bytes.
type MemoryView struct {
	Tiles   int64 `json:"tiles_bytes"`
	Buffers int   `json:"packet_buffers_bytes"`
}

// LinkView is one port's state as the API tells it.
type LinkView struct {
	Channel    wire.Channel      `json:"channel"`
	Direction  string            `json:"direction"`
	Plane      wire.Plane        `json:"plane"`
	Peer       wire.FabricNodeID `json:"peer"`
	PeerChan   wire.Channel      `json:"peer_channel"`
	Address    string            `json:"address"`
	PeerAddr   string            `json:"peer_address,omitempty"` // that it sends to; "" while none is known
	State      string            `json:"state"`
	Out        bool              `json:"out_of_service"`       // by the tables in force
	Avoided    bool              `json:"avoided"`              // taken out of service by an operator
	By         *wire.Channel     `json:"by_channel,omitempty"` // by whose cable the frames go while the own one doesn't carry them
	SinceS     float64           `json:"since_seconds"`
	OwnDownS   *float64          `json:"own_cable_down_seconds,omitempty"` // since the own cable stopped carrying frames, though others may carry them; absent while it does, or if it never did
	Session    string            `json:"session"`
	Retrains   int               `json:"retrains"`
	LastDown   string            `json:"last_down"`
	DowntimeS  float64           `json:"downtime_seconds"`
	RTTMicros  float64           `json:"rtt_microseconds"`
	Payload    int               `json:"frame_payload_bytes"`
	Wanted     int               `json:"frame_payload_wanted_bytes"` // that both ends take: more, where the path swallows longer frames
	Credits    map[string]int    `json:"credits"`
	Miswired   string            `json:"miswired,omitempty"` // what was found at the other end
	Counters   map[string]uint64 `json:"counters"`
	FrameDrops map[string]uint64 `json:"frame_drops"`
	Auth       map[string]uint64 `json:"auth,omitempty"` // of a port that checks its peer: what it did and refused, where it is not 0
	Socket     SocketView        `json:"socket"`
	LinkHealth
}
