package api

import (
	"time"

	"ttfabric/wire"
)

// LinkHealth is how a link has fared, and what the router of its port does.
type LinkHealth struct {
	Phase       string   `json:"phase"`                   // of the training: the router firmware's name of its status
	Postcode    string   `json:"postcode"`                // of the training: the router firmware's code of its status, such as 0xa3b3c3d3
	Train       string   `json:"train_status"`            // in progress, ok, fail, not connected
	TrainCode   uint8    `json:"train_status_code"`       // the same as a Wormhole's ethernet firmware has it, 0 to 3
	Router      string   `json:"router_state"`            // initializing, running, paused, draining, retraining
	RouterCode  uint32   `json:"router_state_code"`       // the same as tt-metal's RouterState has it, 0 to 4
	RetrainedS  *float64 `json:"since_retrain_seconds"`   // since the link came up again last; null: it never did
	MeanDownS   float64  `json:"mean_downtime_seconds"`   // the mean of the times that the link was down, since it came up first
	UptimeS     float64  `json:"uptime_seconds"`          // how long the link was up since the chip started, by its own cable or another
	UptimeShare *float64 `json:"uptime_share"`            // that time as a share of the time since the chip's first link came up, 0 to 1; null: no link came up yet
	Flaps       int      `json:"flaps"`                   // failures of the link's own cable
	Held        bool     `json:"held"`                    // the chip holds the link's own cable down, since the cable failed too often
	HeldForS    float64  `json:"held_for_seconds"`        // for how much longer the chip holds the cable down; 0: it does not
	HeldUntil   string   `json:"held_until,omitempty"`    // the same as a time of day
	DroppedHere uint64   `json:"packets_dropped_by_port"` // packets that the port dropped: they should have left by the port, or came in by the port and could go nowhere
}

// SocketView is what a port found out about its socket, and what went wrong with
// the socket.
type SocketView struct {
	GSO                bool `json:"gso"`                        // the port sends super-packets (UDP GSO)
	GRO                bool `json:"gro"`                        // the port receives super-packets (UDP GRO)
	Batching           bool `json:"batching"`                   // one system call takes several datagrams
	ReceiveBuffer      int  `json:"receive_buffer_bytes"`       // the receive buffer that the kernel granted
	ReceiveBufferAsked int  `json:"receive_buffer_asked_bytes"` // the receive buffer that the port asked for
	SendBuffer         int  `json:"send_buffer_bytes"`          // the send buffer that the kernel granted
	SendBufferAsked    int  `json:"send_buffer_asked_bytes"`    // the send buffer that the port asked for
	Largest            int  `json:"largest_datagram_bytes"`     // the largest datagram that the network path takes now

	Counters map[string]uint64 `json:"counters"` // of datagrams, unless the name says something else
}

// ChipView is a chip's state.
type ChipView struct {
	Chip         wire.FabricNodeID   `json:"chip"`              // the chip
	UMD          int                 `json:"umd"`               // the chip's id in the cluster descriptor; -1: none
	Row          int                 `json:"row"`               // in its mesh, from 0
	Col          int                 `json:"col"`               // in its mesh, from 0
	Fabric       string              `json:"fabric"`            // the name of the topology
	Incarnation  string              `json:"incarnation"`       // of the chip's process, 16 hexadecimal digits
	TableEpoch   string              `json:"table_epoch"`       // of the routing tables in force, 8 hexadecimal digits
	Started      time.Time           `json:"started"`           // when the chip started
	UptimeS      float64             `json:"uptime_seconds"`    // since then
	Gossip       string              `json:"gossip"`            // where the chip gossips, host:port
	Members      int                 `json:"members"`           // chips that the gossip pool believes alive
	LinksUp      int                 `json:"links_up"`          // links that are up
	OutOfService []string            `json:"out_of_service"`    // cables that the routing tables in force do without
	Unreachable  []wire.FabricNodeID `json:"unreachable"`       // chips of the mesh that the chip has no route to; of another mesh without a route, its first chip
	Links        []LinkView          `json:"links"`             // the chip's ports
	OpenOps      int                 `json:"open_requests"`     // requests of the chip whose fate is open
	InFlight     int                 `json:"packets_in_flight"` // packets in the router's channels
	Memory       MemoryView          `json:"memory"`            // the chip's use of host memory
	Loop         Load                `json:"loop"`              // the work of the chip's loop since the start
	Counters     map[string]uint64   `json:"counters"`          // of requests and flows
	Dropped      map[string]uint64   `json:"dropped"`           // packets that the chip dropped, by reason
}

// MemberView is a chip that the gossip pool believes alive.
type MemberView struct {
	Chip        wire.FabricNodeID `json:"chip"`           // the chip
	Name        string            `json:"name"`           // of the chip in the pool
	Address     string            `json:"address"`        // where the chip gossips
	API         string            `json:"api,omitempty"`  // host:port of the chip's API, if the API listens at the address of the gossip
	Incarnation string            `json:"incarnation"`    // of the chip's process, 16 hexadecimal digits
	InService   uint16            `json:"in_service_map"` // a bit for each ethernet channel that is in service
}

// MemoryView is a chip's use of host memory, in bytes.
type MemoryView struct {
	Tiles   int64 `json:"tiles_bytes"`          // for what programs wrote to the chip's tiles
	Buffers int   `json:"packet_buffers_bytes"` // for packets
}

// LinkView is the state of one port and its link.
type LinkView struct {
	Channel    wire.Channel      `json:"channel"`                          // the ethernet channel of the port
	Direction  string            `json:"direction"`                        // the side of the chip that the cable leaves from: E, W, N or S
	Plane      wire.Plane        `json:"plane"`                            // the routing plane of the port
	Peer       wire.FabricNodeID `json:"peer"`                             // the chip at the other end of the cable
	PeerChan   wire.Channel      `json:"peer_channel"`                     // the ethernet channel at the other end of the cable
	Address    string            `json:"address"`                          // the port's own address, host:port
	PeerAddr   string            `json:"peer_address,omitempty"`           // where the port sends to; absent while the port does not know
	State      string            `json:"state"`                            // of the link, such as up or down
	Out        bool              `json:"out_of_service"`                   // the routing tables in force do without the cable
	Avoided    bool              `json:"avoided"`                          // an operator took the cable out of service
	By         *wire.Channel     `json:"by_channel,omitempty"`             // the port by whose cable the frames go, while the link's own cable does not carry them
	SinceS     float64           `json:"since_seconds"`                    // how long the link is in its state
	OwnDownS   *float64          `json:"own_cable_down_seconds,omitempty"` // since the link's own cable stopped carrying frames, though another may carry them; absent while it carries them, or if it never did
	Session    string            `json:"session"`                          // the id of the session, 8 hexadecimal digits
	Retrains   int               `json:"retrains"`                         // times that the link came up again
	LastDown   string            `json:"last_down"`                        // why the link went down last
	DowntimeS  float64           `json:"downtime_seconds"`                 // how long the link was down since it came up first
	RTTMicros  float64           `json:"rtt_microseconds"`                 // smoothed round trip; 0 before the first measurement
	Payload    int               `json:"frame_payload_bytes"`              // of a frame in use; 0 before the first training
	Wanted     int               `json:"frame_payload_wanted_bytes"`       // of a frame that both ends take: more than in use if the network path swallows longer frames
	Credits    map[string]int    `json:"credits"`                          // packets that the port may send now, by virtual channel
	Miswired   string            `json:"miswired,omitempty"`               // the port that was found at the other end of the cable, if it is a wrong one
	Counters   map[string]uint64 `json:"counters"`                         // of the link and its router
	FrameDrops map[string]uint64 `json:"frame_drops"`                      // frames that came and that the port did not take, by reason
	Auth       map[string]uint64 `json:"auth,omitempty"`                   // of a port that checks its peer: what it did and refused; counters of 0 are absent
	Socket     SocketView        `json:"socket"`                           // the socket of the port
	LinkHealth
}
