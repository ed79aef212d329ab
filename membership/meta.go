// Package membership decides which chips are alive. The package defines the metadata that each chip
// gossips about itself. The package also has the rules by which a chip builds its view of all chips
// from the gossip ([View]).
//
// From gossip, a chip learns the addresses to which the chip sends hellos. Only hellos bring a link
// up, and gossip does not.
//
// # Metadata, 66 bytes, little-endian
//
//	 0  u8     version, 3
//	 1  u8     flags, 0
//	 2  u16    mesh
//	 4  u16    chip
//	 6  u16    ethernet channels in service, which routes may use; bit k stands for channel k
//	 8  u64    incarnation, not 0
//	16  u48    start of the process, Unix milliseconds
//	22  u16    TCP port of the chip's API at its gossip address; 0: no API at this address
//	24  u32    version of the channels in service and silent, equal to the version in the chip's link state
//	28  u32    low bits of the topology's hash
//	32  u16×16 UDP port of each ethernet channel; 0: no port
//	64  u16    ethernet channels that hear nothing from their peers (see wire.LinkState); none of them is in service
//
// The metadata is this short because each chip stores and sends the metadata of up to a thousand
// chips.
package membership

import (
	"encoding/binary"
	"errors"
	"fmt"

	"ttfabric/wire"
)

// MetaLen is the length of the metadata, in bytes.
const MetaLen = 66

// metaVersion is the version of the metadata's format.
const metaVersion = 3

// maxStarted is the latest start of a process that the format can express, in Unix milliseconds: a
// time in the year 10889.
const maxStarted = 1<<48 - 1

// ErrMeta is the error for bytes that are not metadata of this version.
var ErrMeta = errors.New("membership metadata: malformed")

// Meta is the metadata that a chip's process gossips about the chip.
type Meta struct {
	Node        wire.FabricNodeID
	InService   uint16                   // ethernet channels in service; bit k stands for channel k
	Incarnation wire.Incarnation         // incarnation of the process
	Started     uint64                   // start of the process in Unix milliseconds, below 2^48; of two processes that claim one chip, the later start wins
	API         uint16                   // TCP port of the chip's API at its gossip address; 0: no API at this address
	LinkVersion uint32                   // version of InService and Silent; grows with each change, wraps
	Topology    uint32                   // low bits of the topology's hash
	Ports       [wire.MaxChannels]uint16 // UDP port of each ethernet channel; 0: no port
	Silent      uint16                   // ethernet channels that hear nothing from their peers; bit k stands for channel k; none of them is in InService
}

// DecodeMeta decodes metadata from b. If b is not metadata of this version, the error is [ErrMeta].
// The error is the same if the chip's address is not valid, the incarnation is 0, or a silent
// channel is in service.
func DecodeMeta(b []byte) (Meta, error) {
	if len(b) != MetaLen || b[0] != metaVersion || b[1] != 0 {
		return Meta{}, ErrMeta
	}
	le := binary.LittleEndian
	m := Meta{
		Node:        wire.FabricNodeID{Mesh: wire.MeshID(le.Uint16(b[2:])), Chip: wire.ChipID(le.Uint16(b[4:]))},
		InService:   le.Uint16(b[6:]),
		Incarnation: wire.Incarnation(le.Uint64(b[8:])),
		Started:     le.Uint64(b[16:]) & maxStarted,
		API:         le.Uint16(b[22:]),
		LinkVersion: le.Uint32(b[24:]),
		Topology:    le.Uint32(b[28:]),
	}
	for i := range m.Ports {
		m.Ports[i] = le.Uint16(b[32+2*i:])
	}
	m.Silent = le.Uint16(b[64:])
	if !m.Node.Valid() || m.Incarnation == 0 || m.Silent&m.InService != 0 {
		return Meta{}, ErrMeta
	}
	return m, nil
}

// Append appends the encoded metadata to b. The encoded metadata has [MetaLen] bytes. Append
// encodes a start that is too late for the format as the latest possible start.
func (m *Meta) Append(b []byte) []byte {
	le := binary.LittleEndian
	b = append(b, metaVersion, 0)
	b = le.AppendUint16(b, uint16(m.Node.Mesh))
	b = le.AppendUint16(b, uint16(m.Node.Chip))
	b = le.AppendUint16(b, m.InService)
	b = le.AppendUint64(b, uint64(m.Incarnation))
	b = le.AppendUint64(b, min(m.Started, maxStarted)|uint64(m.API)<<48)
	b = le.AppendUint32(b, m.LinkVersion)
	b = le.AppendUint32(b, m.Topology)
	for _, p := range m.Ports {
		b = le.AppendUint16(b, p)
	}
	return le.AppendUint16(b, m.Silent)
}

// LinkState returns the chip's link state: the existing ports that are not in service, which
// of them are silent, and the version.
func (m *Meta) LinkState() wire.LinkState {
	s := wire.LinkState{Node: m.Node, Version: m.LinkVersion}
	for ch, port := range m.Ports {
		switch bit := uint16(1) << ch; {
		case port == 0 || m.InService&bit != 0:
		case m.Silent&bit != 0:
			s.Silent |= bit
		default:
			s.Out |= bit
		}
	}
	return s
}

// Name returns the name of the process in a gossip pool. The name consists of the chip's address
// and the incarnation, such as "M0D3-00000000000000ff".
func (m *Meta) Name() string { return fmt.Sprintf("%s-%016x", m.Node, uint64(m.Incarnation)) }

// sameProcess reports whether m and o are metadata of the same process.
func (m *Meta) sameProcess(o *Meta) bool {
	return m.Node == o.Node && m.Incarnation == o.Incarnation && m.Started == o.Started
}

// Newer reports whether the process of m has a better claim to its chip than the process of o. The
// process with the later start has the better claim. If both starts are equal, the process with the
// higher incarnation has the better claim. If the clocks of two machines differ, Newer may choose
// the wrong process. A wrong choice only costs time, because gossip only tells chips where to send
// hellos.
func (m *Meta) Newer(o *Meta) bool {
	if m.Started != o.Started {
		return m.Started > o.Started
	}
	return m.Incarnation > o.Incarnation
}
