package wire

import (
	"fmt"
	"strconv"
	"strings"
)

// Limits of the numbers that address meshes, chips and ports (Spec §2.2.1: "upto 1024 meshes of 256
// devices each").
const (
	MaxMeshes       = 1024 // largest number of meshes in one fabric
	MaxChipsPerMesh = 256  // largest number of chips in one mesh
	MaxChannels     = 16   // largest number of ethernet ports of one chip: Wormhole has 16, Blackhole 14
)

// MeshID numbers a mesh within the fabric: 0 to [MaxMeshes]-1 (Spec §2.2).
type MeshID uint16

// ChipID numbers a chip within its mesh, row by row: 0 to [MaxChipsPerMesh]-1. The fabric's numbers
// (Spec §2.2.1.1.1) differ from the numbers that a cluster descriptor gives to the same chips.
type ChipID uint16

// FabricNodeID is the address of a chip in the fabric (Spec §4, "Fabric Node Model").
type FabricNodeID struct {
	Mesh MeshID
	Chip ChipID
}

// Valid reports whether Mesh is below [MaxMeshes] and Chip is below [MaxChipsPerMesh].
func (n FabricNodeID) Valid() bool { return n.Mesh < MaxMeshes && n.Chip < MaxChipsPerMesh }

// String returns the address in the form "M0D3", which is chip (device) 3 of mesh 0.
func (n FabricNodeID) String() string { return fmt.Sprintf("M%dD%d", n.Mesh, n.Chip) }

// MarshalText returns the address in the form of [FabricNodeID.String].
func (n FabricNodeID) MarshalText() ([]byte, error) { return []byte(n.String()), nil }

// UnmarshalText reads an address in any form that [ParseFabricNodeID] accepts.
func (n *FabricNodeID) UnmarshalText(b []byte) error {
	v, err := ParseFabricNodeID(string(b))
	if err == nil {
		*n = v
	}
	return err
}

// ParseFabricNodeID reads the address of a chip in one of three forms: "M1D3", "1:3", or "3" for
// chip 3 of mesh 0. The error names the value and the accepted forms.
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

// Compare orders addresses by mesh, and within a mesh by chip. The result is negative if n comes
// before m, 0 if n equals m, and positive if n comes after m.
func (n FabricNodeID) Compare(m FabricNodeID) int {
	if n.Mesh != m.Mesh {
		return int(n.Mesh) - int(m.Mesh)
	}
	return int(n.Chip) - int(m.Chip)
}

// Channel numbers an ethernet port of a chip: 0 to [MaxChannels]-1.
type Channel uint8

// PortID is the address of one ethernet port in the fabric.
type PortID struct {
	Node    FabricNodeID
	Channel Channel
}

// Valid reports whether Node is valid and Channel is below [MaxChannels].
func (p PortID) Valid() bool { return p.Node.Valid() && p.Channel < MaxChannels }

// String returns the port in the form of a miswiring report: "mesh 0 chip 3 channel 8".
func (p PortID) String() string {
	return fmt.Sprintf("mesh %d chip %d channel %d", p.Node.Mesh, p.Node.Chip, p.Channel)
}

// Short returns the port in the form of commands and files: "M0D3/8".
func (p PortID) Short() string { return fmt.Sprintf("%s/%d", p.Node, p.Channel) }

// Less reports whether p comes before q in the order by mesh, then chip, then channel. Of the two
// ports of a cable, the lower port is the first in this order.
func (p PortID) Less(q PortID) bool {
	if c := p.Node.Compare(q.Node); c != 0 {
		return c < 0
	}
	return p.Channel < q.Channel
}

// Direction is the side of a chip that a cable leaves from. The numbers are those of tt-metal's
// routing tables (fabric_common.h: E0 W1 N2 S3).
type Direction uint8

// The four directions of a mesh, and the direction Z. Cables within a mesh leave East, West, North
// or South. A cable between two meshes may also leave in direction Z, which no neighbour of the mesh
// needs (Spec §2.2.2: "potentially another 2 for Up or Down direction").
const (
	East Direction = iota
	West
	North
	South
	Z
	NumDirections = 4 // number of directions within a mesh
	NumSides      = 5 // number of directions of all cables
)

// Opposite returns the side opposite to d. A packet that leaves a chip by side d enters the next
// chip of the mesh by this opposite side. A cable in direction Z has direction Z at both ends.
func (d Direction) Opposite() Direction {
	if d >= NumDirections {
		return d
	}
	return d ^ 1
}

// String returns "E", "W", "N", "S" or "Z", or "?" for any other value.
func (d Direction) String() string {
	if d >= NumSides {
		return "?"
	}
	return "EWNSZ"[d : d+1]
}

// Plane is the number of a routing plane (Spec §2.2.2). A packet uses the cables of only one plane.
type Plane uint8

// Incarnation is a random number, not 0, that a chip's process draws when it starts. Its lower 32
// bits are the [Life] of the process. An end of a link may take another incarnation of the same life.
type Incarnation uint64

// Life is a random number that names a chip's process, from the start of the process to its end. 0
// stands for an unknown process.
type Life uint32

// SessionID identifies one session of a link. 0 means no session. [NewSessionID] computes the
// value.
type SessionID uint32

// Seq is the sequence number of a data frame or write in a session. Sequence numbers wrap after 32
// bits.
type Seq uint32

// Add returns the sequence number n after s.
func (s Seq) Add(n int) Seq { return s + Seq(n) }

// Sub returns the signed distance from t to s, in frames.
func (s Seq) Sub(t Seq) int { return int(int32(s - t)) }

// Before reports whether s comes before t, which means that the signed 32-bit difference s-t is
// negative.
func (s Seq) Before(t Seq) bool { return int32(s-t) < 0 }

// VC is a virtual channel of a link: a class of traffic with its own slots and credits. Requests,
// replies and control packets use different virtual channels. A packet therefore never waits for a
// slot that a packet of another class holds.
type VC uint8

// The virtual channels of a link. A single mesh without wraps and detours needs only the first
// three. The further virtual channels prevent closed cycles of packets that wait for each other
// (deadlocks):
//
//   - Dateline: on rings and tori, a packet that has crossed the dateline uses a dateline VC until
//     the packet turns or leaves the mesh (Spec §2.3.1, §6.2).
//   - Up: a packet uses an upward VC as long as its route still has a crossing towards the root of
//     the tree of meshes. All other packets use VCs that are not upward. Without upward VCs, packets
//     at exit nodes could wait for each other in a cycle (Spec §6.1, "Notes on Inter-Mesh
//     Traffic").
//   - Detour: a packet whose route leads round a fault uses a detour VC until the packet leaves the
//     mesh. Within a mesh, a packet may change to a detour VC, and then keeps to detour VCs.
//
// Control packets have no dateline VCs, because control packets use no cable that wraps, except
// on up*/down* routes. These routes need no dateline.
const (
	VCData            VC = iota // requests: writes, reads, atomics
	VCReply                     // replies: the data of reads
	VCControl                   // completions, drop reports, link state (Spec §2.3.2)
	VCDataDateline              // requests behind the dateline
	VCReplyDateline             // replies behind the dateline
	VCDataUp                    // requests with a crossing ahead towards the root
	VCReplyUp                   // replies with a crossing ahead towards the root
	VCControlUp                 // control packets with a crossing ahead towards the root
	VCDataUpDateline            // requests behind the dateline, with a crossing ahead towards the root
	VCReplyUpDateline           // replies behind the dateline, with a crossing ahead towards the root
	VCDataDetour                // requests round a fault
	VCReplyDetour               // replies round a fault
	VCControlDetour             // control packets round a fault
	VCDataUpDetour              // requests round a fault, with a crossing ahead towards the root
	VCReplyUpDetour             // replies round a fault, with a crossing ahead towards the root
	VCControlUpDetour           // control packets round a fault, with a crossing ahead towards the root
	NumVCs            = 16
	BasicVCs          = 3 // number of virtual channels that a single mesh without wraps and detours needs
)

// Class is the class of a packet: request, reply or control packet. Each class has its own virtual
// channels.
type Class uint8

// The classes of packets.
const (
	ClassRequest Class = iota
	ClassReply
	ClassControl
	NumClasses = 3
)

// vcTraits holds the name and the properties of each virtual channel.
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

// vcOf holds the virtual channels that are not for detours. The indexes are the parameters of VCFor.
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

// VCFor returns the virtual channel for packets of class c that are not on a detour. The parameter
// "up" says whether a crossing towards the root of the tree of meshes lies ahead. The parameter
// "dateline" says whether the packets are behind the dateline. For control packets, VCFor ignores
// dateline.
func VCFor(c Class, up, dateline bool) VC { return vcOf[c][bit(up)][bit(dateline)] }

// DetourVC returns the virtual channel for packets of class c that are on a detour. The parameter
// "up" says whether a crossing towards the root of the tree of meshes lies ahead.
func DetourVC(c Class, up bool) VC {
	return VCDataDetour + VC(c) + VC(bit(up))*NumClasses
}

// Class returns the class of the packets that use virtual channel v.
func (v VC) Class() Class { return vcTraits[v].class }

// Up reports whether v is for packets with a crossing ahead towards the root of the tree of meshes.
func (v VC) Up() bool { return vcTraits[v].up }

// Dateline reports whether v is for packets that have crossed the dateline of their row or column.
func (v VC) Dateline() bool { return vcTraits[v].dateline }

// Detour reports whether v is for packets on a detour.
func (v VC) Detour() bool { return vcTraits[v].detour }

// String returns the name of the virtual channel, such as "data-up".
func (v VC) String() string {
	if v < NumVCs {
		return vcTraits[v].name
	}
	return "vc" + strconv.Itoa(int(v))
}

// Arch is a chip architecture. All chips of a cluster have the same architecture (Spec §1.2).
type Arch uint8

// The architectures that TT-Fabric runs on.
const (
	ArchUnknown Arch = iota
	Wormhole
	Blackhole
)

// String returns the name of the architecture in cluster descriptors, such as "wormhole_b0".
func (a Arch) String() string {
	switch a {
	case Wormhole:
		return "wormhole_b0"
	case Blackhole:
		return "blackhole"
	}
	return "unknown"
}

// MarshalText returns the name that [Arch.String] gives.
func (a Arch) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText reads any name that [ParseArch] accepts.
func (a *Arch) UnmarshalText(b []byte) error {
	v, err := ParseArch(string(b))
	if err == nil {
		*a = v
	}
	return err
}

// ParseArch reads the name of an architecture: "wormhole_b0", "wormhole" or "blackhole", in upper
// or lower case. The error names the value and the accepted names.
func ParseArch(s string) (Arch, error) {
	switch strings.ToLower(s) {
	case "wormhole_b0", "wormhole":
		return Wormhole, nil
	case "blackhole":
		return Blackhole, nil
	}
	return ArchUnknown, fmt.Errorf("architecture %q: want wormhole_b0 or blackhole", s)
}
