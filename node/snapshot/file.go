package snapshot

import (
	"slices"

	"ttfabric/wire"
)

// The identification of a snapshot file.
const (
	Format  = "ttfabric-snapshot"
	Version = 1
)

// Limits of a snapshot file. A reader refuses files beyond a limit.
const (
	MaxFile    = 1 << 30 // length of a file, in bytes
	MaxChips   = 1 << 18 // chips of a file: the largest fabric of Spec §2.2.1
	MaxPackets = 1 << 22 // packets of a file, in all channels and in flight
	MaxSlots   = 1 << 12 // slots of one sender or receiver channel, as in recordings
	MaxWaiting = 1 << 14 // packets of one list; a sender channel may hold more packets than it has slots, if packets are parked
	MaxOpen    = 1 << 13 // open requests of one flow
	MaxFlows   = 1 << 16 // flows that begin or end at one chip
	MaxTopo    = 1 << 24 // length of the topology's text, in bytes
	MaxMemory  = 1 << 28 // bytes of memory of one chip
)

// The values of Source of [File].
const (
	FromSimulator = "simulator" // all chips at one instant of virtual time
	FromFabric    = "fabric"    // a consistent cut of a live fabric
)

// ClassNames are the names of the classes of packets, by [wire.Class].
var ClassNames = []string{"request", "reply", "control"}

// File is a snapshot.
type File struct {
	Format   string `json:"format"`   // always ttfabric-snapshot
	Version  int    `json:"version"`  // version of the format, 1
	Source   string `json:"source"`   // simulator: all chips at one instant; fabric: a consistent cut of a live fabric
	Cut      Hex32  `json:"cut"`      // number of the cut; 0 in a simulator
	Made     string `json:"made"`     // when the snapshot was made, in the form of RFC 3339; empty in a simulator
	Time     int64  `json:"time_ns"`  // virtual time of the simulator, in nanoseconds; 0 for a live fabric
	Payloads bool   `json:"payloads"` // whether the packets have their payloads
	Memory   bool   `json:"memory"`   // whether the file has the memory of the tiles

	Topology Topology            `json:"topology"`  // the declared machine
	Options  Options             `json:"options"`   // options of the chips
	Cables   []Cable             `json:"cables"`    // the cables as training found them
	Chips    []Chip              `json:"chips"`     // the chips of which the file holds a state, by mesh and chip
	NoAnswer []wire.FabricNodeID `json:"no_answer"` // chips whose state is unknown, because the chips did not answer in time or do not run
}

// Topology is the declared machine.
type Topology struct {
	Name string `json:"name"` // name of the machine, for people
	Hash Hex64  `json:"hash"` // hash of the topology, which all chips of the fabric share
	Text string `json:"text"` // the topology, as a topology file of ttfabric
}

// Options are the options that all chips of the fabric share. A simulator with these options computes
// the same tables.
type Options struct {
	Engine     string `json:"engine"`         // routing engine of the chips, such as dor; empty: the default engine
	Order      string `json:"order"`          // order of the axes: xy, yx or none
	Ring       string `json:"ring"`           // scheme of axes that wrap: dateline, bubble or none
	Exits      string `json:"exits"`          // how packets go up between meshes: shortest or printed
	Lines      bool   `json:"lines"`          // whether the fabric is 1D
	Slots      string `json:"slots"`          // slot profile, such as spec; the slots of each channel are at the channel
	Profile    string `json:"profile"`        // profile of the links' times, such as lan
	TTL        int    `json:"ttl"`            // time to live of new packets, in hops; 0: the longest route
	StrictTTL  bool   `json:"strict_ttl"`     // whether chips drop a packet that comes in with a time to live of 0
	LocalFirst bool   `json:"local_first"`    // whether routers serve a chip's own packets first
	MaxPayload int    `json:"frame_payload"`  // largest padded payload of a frame, in bytes
	Stuck      string `json:"stuck"`          // what routers do about stuck channels: none, or a list of notify, drop and drain
	StuckAfter int64  `json:"stuck_after_ns"` // time after which a channel counts as stuck, in nanoseconds; 0: never
}

// Cable is a cable as training found it.
type Cable struct {
	A     Port       `json:"a"`     // one end
	B     Port       `json:"b"`     // the other end, as the link at A found it
	Plane wire.Plane `json:"plane"` // routing plane
	State string     `json:"state"` // state of the cable: up, down, fallback (the frames use another cable), miswired, one end (the chip at the other end did not answer)
}

// Chip is the state of one chip at its cut.
type Chip struct {
	Node        wire.FabricNodeID `json:"chip"`        // the chip
	Incarnation wire.Incarnation  `json:"incarnation"` // incarnation of the chip
	FlowEpoch   uint32            `json:"flow_epoch"`  // first epoch of each flow of the chip
	LastID      Hex64             `json:"last_id"`     // id of the last request that the chip sent
	Ports       []PortState       `json:"ports"`       // ports with a cable, by channel
	Tables      Tables            `json:"tables"`      // routing tables in force

	Own     []Own     `json:"own"`              // multicasts of this chip that wait for room in sender channels
	Replies []Packet  `json:"replies"`          // replies that wait for room in a sender channel
	Reports []Report  `json:"reports"`          // reports of dropped packets that wait for room in a sender channel
	Host    []Packet  `json:"host"`             // requests of other chips to host memory that wait for the host
	OwnHost int       `json:"own_host"`         // number of the chip's own requests to host memory that wait for the host; a loaded model does not have these requests
	Flows   []Flow    `json:"flows"`            // flows that begin at the chip
	Arrived []Arrived `json:"arrived"`          // flows that end at the chip; first the flows to which the chip owes a completion, in the order in which the chip answers
	Jobs    []Job     `json:"jobs"`             // jobs whose kernels run on the chip; a loaded model does not have these kernels
	Queues  []Queue   `json:"queues"`           // queues of the base firmware that hosts have used
	Memory  []Block   `json:"memory,omitempty"` // memory of the tiles that is not zero; only on demand
}

// PortState is the state of a port.
type PortState struct {
	Channel   wire.Channel `json:"channel"`           // ethernet channel
	Direction string       `json:"direction"`         // side of the chip: E, W, N, S or Z
	Plane     wire.Plane   `json:"plane"`             // routing plane
	Peer      Port         `json:"peer"`              // declared port at the other end of the cable
	Link      string       `json:"link"`              // state of the link: off, training, up or closed
	Session   Hex32        `json:"session"`           // session of the link; 0: none
	Found     *Port        `json:"found"`             // wrong port that training found at the other end; null: none
	By        wire.Channel `json:"by"`                // channel whose cable carries the link's frames: the port's own channel, or the channel of a parallel cable
	Fallback  wire.Channel `json:"fallback"`          // channel whose cable would carry the frames if the port's own cable failed now; the port's own channel: there is none
	Assigned  bool         `json:"assigned"`          // whether an operator assigned the fallback
	Avoided   bool         `json:"avoided"`           // whether an operator took the cable out of service
	Out       bool         `json:"out"`               // whether the tables in force do not use the cable
	Silent    bool         `json:"silent"`            // whether the chip calls the port silent
	Router    string       `json:"router"`            // state of the router: initializing, running, paused, draining or retraining
	Raw       bool         `json:"raw"`               // whether the port is in compliance mode
	Unacked   int          `json:"unacked"`           // frames that this end has sent and the peer has not acknowledged
	Complete  bool         `json:"complete"`          // whether in_flight is complete, because the mark or the state of the peer came
	Pending   []Packet     `json:"pending,omitempty"` // packets that this end has sent and the peer has not acknowledged; perhaps the peer has received some of these packets; absent: none, or in_flight of the peer is complete
	Partial   []byte       `json:"-"`                 // bytes of the packet that the port has received in part; [File.Join] puts them into a packet in flight
	VCs       []VC         `json:"vcs"`               // virtual channels that have slots or packets
}

// VC is the state of a virtual channel of a port.
type VC struct {
	VC            VCName     `json:"vc"`             // name of the virtual channel, such as data
	SenderSlots   int        `json:"sender_slots"`   // slots of each sender channel
	ReceiverSlots int        `json:"receiver_slots"` // slots of the receiver channel
	PeerSlots     int        `json:"peer_slots"`     // slots of the peer's receiver channel, as the link knows them
	Credits       int        `json:"credits"`        // packets that the peer's grants still allowed this chip to send, as far as this chip knew; 0 without a session
	Sent          uint32     `json:"sent"`           // packets that this end has sent in the session, modulo 2³²
	Received      uint32     `json:"received"`       // packets that this end has received in the session, modulo 2³²
	Receiver      []Packet   `json:"receiver"`       // packets of the receiver channel
	Senders       [][]Packet `json:"senders"`        // packets of each sender channel; channel 0 is for the chip's own packets
	InFlight      []Packet   `json:"in_flight"`      // packets that were under way to this chip at the cut
}

// Own are the multicasts of a chip on a plane that wait for room in sender channels.
type Own struct {
	Plane   wire.Plane `json:"plane"`   // routing plane
	Packets []Packet   `json:"packets"` // multicasts, in the order in which they leave
}

// Report is a report of a dropped packet, to the chip that waits for the packet's answer.
type Report struct {
	To   wire.FabricNodeID `json:"to"`   // chip that gets the report
	Data []byte            `json:"data"` // the report, as in a packet (see package wire)
}

// Tables are the routing tables of a chip (Spec §2.2.1).
type Tables struct {
	Epoch       Hex32               `json:"epoch"`       // epoch of the tables: the hash of their inputs
	Out         []Port              `json:"out"`         // ports of the cables that the tables do not use
	Silent      []wire.FabricNodeID `json:"silent"`      // silent chips, to which requests wait
	Unreachable []wire.FabricNodeID `json:"unreachable"` // chips without a route
	Routes      []Routes            `json:"routes"`      // tables L0 and L1 of each class of packets; planes with equal tables share an entry
}

// Routes are the tables L0 and L1 of one chip, for one class of packets and for some planes.
type Routes struct {
	Class  string   `json:"class"`  // class of the packets: request, reply or control
	Planes []int    `json:"planes"` // routing planes
	L0     []string `json:"l0"`     // directions of the hops to each chip of the mesh, by chip; "-": the chip itself; "x": no route
	L1     []Exit   `json:"l1"`     // way to each other mesh; empty with one mesh
}

// Exit is a row of table L1: the way to another mesh.
type Exit struct {
	Mesh wire.MeshID  `json:"mesh"` // destination mesh
	Exit *wire.ChipID `json:"exit"` // exit node in the chip's own mesh; null: no route
	Port *Port        `json:"port"` // port of the exit node by which packets leave the mesh; null: no route
	Up   bool         `json:"up"`   // whether the crossing leads up the tree of meshes
}

// Job is a job of kernels, for people.
type Job struct {
	Job     Hex64    `json:"job"`     // number of the job
	Name    string   `json:"name"`    // name of the job
	Owner   string   `json:"owner"`   // who started the chip's part
	Kernels []Kernel `json:"kernels"` // kernels that run on the chip
}

// Kernel is a kernel that runs on a tile. Nobody can save the state of a kernel, which is a coroutine.
type Kernel struct {
	Name      string   `json:"name"`                // name of the kernel
	X         uint8    `json:"x"`                   // x coordinate of the tile on the NoC
	Y         uint8    `json:"y"`                   // y coordinate of the tile on the NoC
	Args      []byte   `json:"args,omitempty"`      // runtime arguments
	Constants []uint32 `json:"constants,omitempty"` // compile-time arguments
	Waits     string   `json:"waits"`               // what the kernel waits for, in words
}

// Queue is the state of the queues of an ethernet tile's base firmware, through which a host uses the
// chip (BDMS, "Host queues"). The entries of the queues are in the memory of the tile.
type Queue struct {
	Channel   wire.Channel `json:"channel"`   // ethernet channel of the tile
	Submitted uint32       `json:"submitted"` // write pointer of the submission queue
	Taken     uint32       `json:"taken"`     // read pointer of the submission queue
	Completed uint32       `json:"completed"` // write pointer of the completion queue
	Fetched   uint32       `json:"fetched"`   // read pointer of the completion queue
}

// Block is a range of a tile's memory.
type Block struct {
	X    uint8  `json:"x"`    // x coordinate of the tile on the NoC
	Y    uint8  `json:"y"`    // y coordinate of the tile on the NoC
	At   uint64 `json:"at"`   // offset of the first byte in the tile
	Data []byte `json:"data"` // content
}

// Same reports whether two tables are equal, apart from their planes.
func (r *Routes) Same(q *Routes) bool {
	return r.Class == q.Class && slices.Equal(r.L0, q.L0) && slices.EqualFunc(r.L1, q.L1, func(a, b Exit) bool {
		return a.Mesh == b.Mesh && a.Up == b.Up && (a.Port == nil) == (b.Port == nil) && (a.Port == nil || *a.Port == *b.Port)
	})
}
