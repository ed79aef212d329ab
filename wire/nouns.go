package wire

import (
	"fmt"
	"strconv"
	"strings"
)

// Limits of the fabric's address space (Spec §2.2.1: "upto 1024 meshes of 256 devices each").
const (
	MaxMeshes       = 1024 // meshes in one fabric
	MaxChipsPerMesh = 256  // devices in one mesh
	MaxChannels     = 16   // ethernet channels of one chip: 16 on Wormhole, 14 on Blackhole
)

// MeshID numbers a mesh within the fabric: 0 to [MaxMeshes]-1 (Spec §2.2).
type MeshID uint16

// ChipID numbers a device within its mesh, row-major: 0 to [MaxChipsPerMesh]-1. The fabric has its
// own numbering (Spec §2.2.1.1.1), which differs from the numbering of a cluster descriptor.
type ChipID uint16

// FabricNodeID addresses a chip in the fabric (Spec §4, "Fabric Node Model").
type FabricNodeID struct {
	Mesh MeshID
	Chip ChipID
}

// Valid reports whether both fields are within the fabric's limits.
func (n FabricNodeID) Valid() bool { return n.Mesh < MaxMeshes && n.Chip < MaxChipsPerMesh }

// String renders the node as people type it: "M0D3" is device 3 of mesh 0.
func (n FabricNodeID) String() string { return fmt.Sprintf("M%dD%d", n.Mesh, n.Chip) }

// MarshalText renders the node as [FabricNodeID.String] does.
func (n FabricNodeID) MarshalText() ([]byte, error) { return []byte(n.String()), nil }

// UnmarshalText reads a node as [ParseFabricNodeID] does.
func (n *FabricNodeID) UnmarshalText(b []byte) error {
	v, err := ParseFabricNodeID(string(b))
	if err == nil {
		*n = v
	}
	return err
}

// ParseFabricNodeID reads a node as people type it: "M1D3", "1:3", or "3" for
// device 3 of mesh 0. The error names the value and the accepted forms.
func ParseFabricNodeID(s string) (FabricNodeID, error) {
	bad := fmt.Errorf("chip %q: want M<mesh>D<chip>, <mesh>:<chip> or <chip>, with mesh below %d and chip below %d", s, MaxMeshes, MaxChipsPerMesh)
	mesh, chip := "0", s
	if rest, ok := strings.CutPrefix(strings.ToUpper(s), "M"); ok {
		var found bool
		if mesh, chip, found = strings.Cut(rest, "D"); !found {
			return FabricNodeID{}, bad
		}
	} else if m, c, ok := strings.Cut(s, ":"); ok {
		mesh, chip = m, c
	}
	m, err := strconv.ParseUint(mesh, 10, 16)
	if err != nil {
		return FabricNodeID{}, bad
	}
	c, err := strconv.ParseUint(chip, 10, 16)
	if err != nil {
		return FabricNodeID{}, bad
	}
	n := FabricNodeID{MeshID(m), ChipID(c)}
	if !n.Valid() {
		return FabricNodeID{}, bad
	}
	return n, nil
}

// Compare orders nodes by mesh, and within a mesh by chip. The result is negative if n comes before
// m, 0 if the two are the same, and positive otherwise.
func (n FabricNodeID) Compare(m FabricNodeID) int {
	if n.Mesh != m.Mesh {
		return int(n.Mesh) - int(m.Mesh)
	}
	return int(n.Chip) - int(m.Chip)
}

// Channel numbers an ethernet port of a chip: 0 to [MaxChannels]-1.
type Channel uint8

// PortID names one ethernet port in the fabric.
type PortID struct {
	Node    FabricNodeID
	Channel Channel
}

// Valid reports whether node and channel are within the fabric's limits.
func (p PortID) Valid() bool { return p.Node.Valid() && p.Channel < MaxChannels }

// String renders the port in the words of a miswiring report: "mesh 0 chip 3 channel 8".
func (p PortID) String() string {
	return fmt.Sprintf("mesh %d chip %d channel %d", p.Node.Mesh, p.Node.Chip, p.Channel)
}

// Short renders the port as commands and files write it: "M0D3/8".
func (p PortID) Short() string { return fmt.Sprintf("%s/%d", p.Node, p.Channel) }

// Less orders ports by mesh, chip and channel. If the two ends of a cable need an order, the lower
// port comes first.
func (p PortID) Less(q PortID) bool {
	if c := p.Node.Compare(q.Node); c != 0 {
		return c < 0
	}
	return p.Channel < q.Channel
}

// Direction is the side of a chip that a cable leaves from, numbered as
// tt-metal's routing tables do (fabric_common.h: E0 W1 N2 S3).
type Direction uint8

// The four directions of a 2D fabric.
const (
	East Direction = iota
	West
	North
	South
	NumDirections = 4
)

// Opposite returns the side at which a packet arrives that left by d.
func (d Direction) Opposite() Direction { return d ^ 1 }

// String returns "E", "W", "N" or "S".
func (d Direction) String() string {
	if d >= NumDirections {
		return "?"
	}
	return "EWNS"[d : d+1]
}

// Plane numbers a routing plane (Spec §2.2.2): port k of one edge connects only to port k of the others.
type Plane uint8

// Incarnation is a random non-zero nonce drawn at every start of a chip's process.
type Incarnation uint64

// SessionID is the 32-bit name of one TT-link session; zero is no session. See [NewSessionID].
type SessionID uint32

// Seq is a TT-link sequence number: 32 bits that wrap.
type Seq uint32

// Add returns s advanced by n.
func (s Seq) Add(n int) Seq { return s + Seq(n) }

// Sub returns the signed distance from t to s.
func (s Seq) Sub(t Seq) int { return int(int32(s - t)) }

// Before reports whether s precedes t in wrapping order.
func (s Seq) Before(t Seq) bool { return int32(s-t) < 0 }

// VC is a virtual channel of a link: a class of traffic with slots and credits of its own. In this
// way a packet never waits for a packet of a later class, in the order requests, replies, control.
type VC uint8

// The virtual channels of a link. A single mesh needs only the first three. The others keep cycles
// of waiting packets from closing:
//
//   - Dateline: on rings and tori, a packet that has crossed the dateline uses another channel
//     until it turns (Spec §2.3.1, §6.2).
//   - Up: between meshes, packets that still have to cross towards the root of the tree of meshes
//     have channels of their own. Packets that only move away from the root use the other channels.
//     Without the separate channels, exit nodes close cycles (Spec §6.1, "Notes on Inter-Mesh
//     Traffic").
//   - Detour: a packet whose route leads round a fault uses channels of its own while it is in that
//     mesh. A packet may change from the other channels to the detour channels, but never back.
//
// Control messages use no cable that wraps, so they need no dateline.
const (
	VCData            VC = iota // requests: writes, reads, atomics
	VCReply                     // read data on its way home
	VCControl                   // completions, drop reports, link state (Spec §2.3.2)
	VCDataDateline              // requests behind the dateline
	VCReplyDateline             // replies behind the dateline
	VCDataUp                    // requests with a crossing towards the root ahead
	VCReplyUp                   // replies with a crossing towards the root ahead
	VCControlUp                 // control messages with a crossing towards the root ahead
	VCDataUpDateline            // requests, up and behind the dateline
	VCReplyUpDateline           // replies, up and behind the dateline
	VCDataDetour                // requests round a fault
	VCReplyDetour               // replies round a fault
	VCControlDetour             // control messages round a fault
	VCDataUpDetour              // requests, up and round a fault
	VCReplyUpDetour             // replies, up and round a fault
	VCControlUpDetour           // control messages, up and round a fault
	NumVCs            = 16
	BasicVCs          = 3 // number of virtual channels that a single mesh without cables that wrap needs
)

// Class tells the purpose of a packet. A packet never waits for a packet of a later class.
type Class uint8

// The classes.
const (
	ClassRequest Class = iota
	ClassReply
	ClassControl
	NumClasses = 3
)

// vcTraits lists the virtual channels' names and properties.
var vcTraits = [NumVCs]struct {
	name                 string
	class                Class
	up, dateline, detour bool
}{
	{"data", ClassRequest, false, false, false}, {"reply", ClassReply, false, false, false}, {"control", ClassControl, false, false, false},
	{"data-dateline", ClassRequest, false, true, false}, {"reply-dateline", ClassReply, false, true, false},
	{"data-up", ClassRequest, true, false, false}, {"reply-up", ClassReply, true, false, false}, {"control-up", ClassControl, true, false, false},
	{"data-up-dateline", ClassRequest, true, true, false}, {"reply-up-dateline", ClassReply, true, true, false},
	{"data-detour", ClassRequest, false, false, true}, {"reply-detour", ClassReply, false, false, true}, {"control-detour", ClassControl, false, false, true},
	{"data-up-detour", ClassRequest, true, false, true}, {"reply-up-detour", ClassReply, true, false, true}, {"control-up-detour", ClassControl, true, false, true},
}

// vcOf holds the virtual channel for each class, up and dateline.
var vcOf = func() (t [NumClasses][2][2]VC) {
	for v, x := range vcTraits {
		if !x.detour {
			t[x.class][bit(x.up)][bit(x.dateline)] = VC(v)
		}
	}
	t[ClassControl][0][1], t[ClassControl][1][1] = VCControl, VCControlUp
	return t
}()

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// VCFor returns the virtual channel of a class of packets. The parameter up says whether a crossing
// towards the root of the tree of meshes lies ahead. The parameter dateline says whether the
// packets are behind the dateline. Control messages have no dateline.
func VCFor(c Class, up, dateline bool) VC { return vcOf[c][bit(up)][bit(dateline)] }

// DetourVC returns the virtual channel of a class of packets whose route through a mesh leads round
// a fault.
func DetourVC(c Class, up bool) VC {
	return VCDataDetour + VC(c) + VC(bit(up))*NumClasses
}

// Class returns the class of the channel's packets.
func (v VC) Class() Class { return vcTraits[v].class }

// Up reports whether a crossing towards the root lies ahead of the channel's packets.
func (v VC) Up() bool { return vcTraits[v].up }

// Dateline reports whether the channel's packets have crossed the dateline of their row or column.
func (v VC) Dateline() bool { return vcTraits[v].dateline }

// Detour reports whether the channel's packets go round a fault.
func (v VC) Detour() bool { return vcTraits[v].detour }

// String returns the channel's name.
func (v VC) String() string {
	if v < NumVCs {
		return vcTraits[v].name
	}
	return "vc" + strconv.Itoa(int(v))
}

// Arch is a chip architecture. A cluster is homogeneous (Spec §1.2).
type Arch uint8

// The architectures that TT-Fabric runs on.
const (
	ArchUnknown Arch = iota
	Wormhole
	Blackhole
)

// String returns the name that cluster descriptors use.
func (a Arch) String() string {
	switch a {
	case Wormhole:
		return "wormhole_b0"
	case Blackhole:
		return "blackhole"
	}
	return "unknown"
}

// MarshalText renders the architecture's name.
func (a Arch) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText reads an architecture as [ParseArch] does.
func (a *Arch) UnmarshalText(b []byte) error {
	v, err := ParseArch(string(b))
	if err == nil {
		*a = v
	}
	return err
}

// ParseArch reads an architecture's name in any of the spellings that real descriptors use.
func ParseArch(s string) (Arch, error) {
	switch strings.ToLower(s) {
	case "wormhole_b0", "wormhole":
		return Wormhole, nil
	case "blackhole":
		return Blackhole, nil
	}
	return ArchUnknown, fmt.Errorf("architecture %q: want wormhole_b0 or blackhole", s)
}
