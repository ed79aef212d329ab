package api

import (
	"time"

	"ttfabric/wire"
)

// LinkHealth is the history of a port's link, and the state of the router at the port.
type LinkHealth struct {
	Phase       string   `json:"phase"`                   // the phase of the link training, by the name that the router firmware uses
	Postcode    string   `json:"postcode"`                // the phase of the link training, by the code that the router firmware uses, such as 0xa3b3c3d3
	Train       string   `json:"train_status"`            // the result of the link training: in progress, ok, fail or not connected
	TrainCode   uint8    `json:"train_status_code"`       // train_status by the number that a Wormhole's ethernet firmware uses, 0 to 3
	Router      string   `json:"router_state"`            // the state of the router at the port: initializing, running, paused, draining or retraining
	RouterCode  uint32   `json:"router_state_code"`       // router_state by its number in tt-metal's enumeration RouterState, 0 to 4
	RetrainedS  *float64 `json:"since_retrain_seconds"`   // the time since the link last came up again; null: the link has not come up again
	MeanDownS   float64  `json:"mean_downtime_seconds"`   // the mean length of the link's downtimes since the link first came up
	UptimeS     float64  `json:"uptime_seconds"`          // the total time that the link was up since the chip started, by its own cable or by another cable
	UptimeShare *float64 `json:"uptime_share"`            // uptime_seconds as a share of the time since the chip's first link came up, 0 to 1; null: no link came up yet
	Flaps       int      `json:"flaps"`                   // the number of failures of the link's own cable
	Held        bool     `json:"held"`                    // whether damping holds the link's own cable out of use, because the cable failed too often or is unreliable
	HeldForS    float64  `json:"held_for_seconds"`        // the time for which damping still holds the cable; 0: damping does not hold the cable
	HeldUntil   string   `json:"held_until,omitempty"`    // the time at which damping releases the cable; absent if damping does not hold the cable
	Unreliable  bool     `json:"unreliable"`              // whether too many of the frames on the own cable were sent again or came damaged
	ResentPct   int      `json:"resent_percent"`          // the share of the data frames on the own cable that the link sent again, in the latest window of at least a second and 64 frames
	DamagedPct  int      `json:"damaged_percent"`         // the share of the received frames with a wrong checksum, in the same window
	DroppedHere uint64   `json:"packets_dropped_by_port"` // the number of packets that the router dropped at the port: packets that waited to leave by the port, and received packets without a further route
}

// SocketView holds the settings and counters of a port's socket.
type SocketView struct {
	GSO                bool `json:"gso"`                        // whether the port sends several datagrams as one super-packet (UDP GSO)
	GRO                bool `json:"gro"`                        // whether the port receives several datagrams as one super-packet (UDP GRO)
	Batching           bool `json:"batching"`                   // whether one system call sends or receives several datagrams
	ReceiveBuffer      int  `json:"receive_buffer_bytes"`       // the size of the receive buffer that the kernel granted
	ReceiveBufferAsked int  `json:"receive_buffer_asked_bytes"` // the size of the receive buffer that the port asked for
	SendBuffer         int  `json:"send_buffer_bytes"`          // the size of the send buffer that the kernel granted
	SendBufferAsked    int  `json:"send_buffer_asked_bytes"`    // the size of the send buffer that the port asked for
	Largest            int  `json:"largest_datagram_bytes"`     // the size of the largest datagram that the network path takes at present

	Counters map[string]uint64 `json:"counters"` // counters of the socket, by name; names that begin with times count events, names that end in bytes or calls count bytes or system calls, and other names count datagrams
}

// ChipView is a chip's state.
type ChipView struct {
	Chip         wire.FabricNodeID   `json:"chip"`                           // the chip
	UMD          int                 `json:"umd"`                            // the chip's id in the cluster descriptor; -1: the chip has no id there
	Row          int                 `json:"row"`                            // the chip's row in its mesh, from 0
	Col          int                 `json:"col"`                            // the chip's column in its mesh, from 0
	Fabric       string              `json:"fabric"`                         // the name of the topology
	Incarnation  string              `json:"incarnation"`                    // the incarnation of the chip's process, 16 hexadecimal digits
	TableEpoch   string              `json:"table_epoch"`                    // the table epoch of the present routing tables, 8 hexadecimal digits
	Started      time.Time           `json:"started"`                        // the time at which the chip started
	UptimeS      float64             `json:"uptime_seconds"`                 // the time since the chip started
	Gossip       string              `json:"gossip"`                         // the chip's gossip address, host:port
	Members      int                 `json:"members"`                        // the number of chips that are alive according to the gossip pool
	LinksUp      int                 `json:"links_up"`                       // the number of links that are up
	OutOfService []string            `json:"out_of_service"`                 // the cables that the present routing tables do not use
	Silent       []wire.FabricNodeID `json:"silent"`                         // the silent chips of the mesh: nothing is heard from them, and requests to them wait; the first chip of another mesh in the list stands for all chips of the other mesh
	Unreachable  []wire.FabricNodeID `json:"unreachable"`                    // the chips of the mesh to which the chip has no route; the first chip of another mesh in the list stands for all chips of the other mesh
	Starved      StarvedView         `json:"starved"`                        // how often and how long the chip was starved
	CPUPressure  *float64            `json:"cpu_pressure_percent,omitempty"` // the share of the last 10 s in which at least one process of the chip's machine waited for a processor; absent if the kernel does not measure it
	Links        []LinkView          `json:"links"`                          // the chip's ports
	Leaving      bool                `json:"refuses_requests"`               // whether the chip refuses new requests, because somebody removes the chip
	OpenOps      int                 `json:"open_requests"`                  // the number of the chip's requests that have not ended yet
	InFlight     int                 `json:"packets_in_flight"`              // the number of packets in the router's channels
	Memory       MemoryView          `json:"memory"`                         // the chip's use of host memory
	Loop         Load                `json:"loop"`                           // the work of the chip's process since the start
	Counters     map[string]uint64   `json:"counters"`                       // counters of requests and flows, by name
	Dropped      map[string]uint64   `json:"dropped"`                        // the numbers of packets that the chip dropped, by reason
}

// StarvedView says how often and how long a chip was starved since its start. A chip is starved
// while its process waits for a processor, or is stopped, for at least 100 ms. A starved chip sends
// and receives nothing.
type StarvedView struct {
	Times    uint64     `json:"times"`              // how often the chip was starved
	TotalS   float64    `json:"total_seconds"`      // how long the chip was starved in all
	LongestS float64    `json:"longest_seconds"`    // the length of the longest starvation
	LastS    float64    `json:"last_for_seconds"`   // the length of the latest starvation; 0: the chip was never starved
	LastEnd  *time.Time `json:"last_end,omitempty"` // when the latest starvation ended; absent if the chip was never starved
	LatestS  []float64  `json:"latest_seconds"`     // the lengths of the latest starvations, at most 16, oldest first
}

// MemberView is a chip that is alive according to the gossip pool.
type MemberView struct {
	Chip        wire.FabricNodeID `json:"chip"`           // the chip
	Name        string            `json:"name"`           // the name of the chip in the pool
	Address     string            `json:"address"`        // the chip's gossip address
	API         string            `json:"api,omitempty"`  // the address of the chip's API, host:port; absent if the API does not listen at the chip's gossip address
	Incarnation string            `json:"incarnation"`    // the incarnation of the chip's process, 16 hexadecimal digits
	InService   uint16            `json:"in_service_map"` // a bit mask of the ethernet channels in service; bit k stands for channel k
}

// MemoryView is a chip's use of host memory, in bytes.
type MemoryView struct {
	Tiles   int64 `json:"tiles_bytes"`          // the memory for data in the chip's tiles
	Buffers int   `json:"packet_buffers_bytes"` // the memory for buffers of packets
}

// LinkView is the state of one port and its link.
type LinkView struct {
	Channel    wire.Channel       `json:"channel"`                          // the ethernet channel of the port
	Direction  string             `json:"direction"`                        // the side of the chip that the cable leaves from: E, W, N, S or Z
	Plane      wire.Plane         `json:"plane"`                            // the routing plane of the port
	Peer       wire.FabricNodeID  `json:"peer"`                             // the chip at the other end of the cable
	PeerChan   wire.Channel       `json:"peer_channel"`                     // the ethernet channel at the other end of the cable
	Address    string             `json:"address"`                          // the port's own address, host:port
	PeerAddr   string             `json:"peer_address,omitempty"`           // the address to which the port sends; absent while the port knows no address
	State      string             `json:"state"`                            // the state of the link: off, training, up or closed
	Out        bool               `json:"out_of_service"`                   // whether the present routing tables avoid the cable, by a fault or by an operator; see avoided
	Silent     bool               `json:"silent"`                           // whether the port hears nothing from its peer, and no evidence shows that the peer or the cable has failed: the peer is perhaps only late
	Avoided    bool               `json:"avoided"`                          // whether an operator took the cable out of service
	Fallback   *wire.Channel      `json:"fallback_channel,omitempty"`       // the port whose cable carries the link's frames, or would carry them if the own cable failed now; absent if no parallel cable works
	Assigned   bool               `json:"fallback_assigned"`                // whether an operator assigned a fallback path to the link
	By         *wire.Channel      `json:"by_channel,omitempty"`             // the port whose cable carries the link's frames; absent if the link's own cable carries the frames, or if the link is not up
	SinceS     float64            `json:"since_seconds"`                    // the time since the link entered its state
	OwnDownS   *float64           `json:"own_cable_down_seconds,omitempty"` // the time since the link's own cable stopped carrying frames, even if another cable carries the frames; absent while the own cable carries frames, or if the own cable has not carried frames yet
	Session    string             `json:"session"`                          // the id of the link's session, 8 hexadecimal digits
	Retrains   int                `json:"retrains"`                         // the number of times that the link came up again
	LastDown   string             `json:"last_down"`                        // the reason for which the link last went down
	DowntimeS  float64            `json:"downtime_seconds"`                 // the total time that the link was down since the link first came up
	RTTMicros  float64            `json:"rtt_microseconds"`                 // the smoothed round trip time; 0 before the first measurement
	Payload    int                `json:"frame_payload_bytes"`              // the largest frame payload that the link uses at present; 0 before the first training
	Wanted     int                `json:"frame_payload_wanted_bytes"`       // the largest frame payload that both ends take; larger than frame_payload_bytes if the network path drops longer frames
	Credits    map[string]int     `json:"credits"`                          // the number of packets that the port may send now, by virtual channel
	Miswired   string             `json:"miswired,omitempty"`               // the port found at the other end of the cable, if the topology declares another port there; absent while the link is up
	FoundChip  *wire.FabricNodeID `json:"found_chip,omitempty"`             // the chip found at the other end of the cable, with miswired
	FoundChan  *wire.Channel      `json:"found_channel,omitempty"`          // the ethernet channel found at the other end of the cable, with miswired
	Counters   map[string]uint64  `json:"counters"`                         // counters of the link and of the router at the port, by name
	FrameDrops map[string]uint64  `json:"frame_drops"`                      // the numbers of received frames that the port dropped, by reason
	Auth       map[string]uint64  `json:"auth,omitempty"`                   // for a port that checks its peer: counters of agreements on keys and of refusals, by name; counters of 0 are absent
	Socket     SocketView         `json:"socket"`                           // the settings and counters of the port's socket
	Rate       RateView           `json:"rate"`                             // the data rate of the link
	Writes     WritesView         `json:"writes"`                           // L1 and MMIO writes, over the cable and from it
	Raw        bool               `json:"compliance_mode"`                  // whether the port is in compliance mode, in which the port carries no packets
	LinkHealth
}

// WritesView counts the L1 writes and MMIO writes of a port.
type WritesView struct {
	Queues    []WriteQueueView `json:"queues"`    // the port's transaction command queues, in order
	Stored    uint64           `json:"stored"`    // frames of L1 writes whose words the chip stored into the L1 of the port's ethernet tile
	Registers uint64           `json:"registers"` // MMIO writes that the chip performed
	Refused   uint64           `json:"refused"`   // frames of writes that the chip dropped: beyond L1, to an address without registers, or on a queue that takes no MMIO writes
}

// WriteQueueView is the state of one transaction command queue.
type WriteQueueView struct {
	Payload  int    `json:"frame_data_bytes"` // the largest number of bytes of data in one frame of an L1 write
	Started  uint64 `json:"started"`          // commands that began
	Acked    uint64 `json:"acknowledged"`     // commands that the peer has acknowledged completely
	Unknown  uint64 `json:"unknown"`          // commands of ended sessions that the peer had not acknowledged completely
	Received uint64 `json:"received"`         // commands of the peer's queue that came completely
	Frames   uint64 `json:"frames"`           // frames of writes that the link sent, including repetitions
}

// RateView is the data rate of a port's link, over the latest complete window of at least a second.
type RateView struct {
	OverS      float64 `json:"over_seconds"`                // the length of the window; 0: the chip has not run for a second
	BytesOut   float64 `json:"sent_bytes_per_second"`       // bytes of the frames that the link sent, per second
	BytesIn    float64 `json:"received_bytes_per_second"`   // bytes of the frames that the link received, per second
	PacketsOut float64 `json:"sent_packets_per_second"`     // packets that the router handed to the link, per second
	PacketsIn  float64 `json:"received_packets_per_second"` // packets that the link received completely, per second
}
