package record

import (
	"encoding/binary"

	"ttfabric/node/flow"
	"ttfabric/wire"
)

// lifeLen is the length of an encoded [flow.Life], in bytes.
const lifeLen = 8

// putLives encodes the argument of HandleLives.
func putLives(lives []flow.Life) []byte {
	le := binary.LittleEndian
	b := make([]byte, 0, lifeLen*len(lives))
	for _, l := range lives {
		b = le.AppendUint16(b, uint16(l.Node.Mesh))
		b = le.AppendUint16(b, uint16(l.Node.Chip))
		b = le.AppendUint32(b, uint32(l.Life))
	}
	return b
}

// getLives decodes the argument of HandleLives. getLives ignores bytes after the last whole life.
func getLives(b []byte) []flow.Life {
	le := binary.LittleEndian
	lives := make([]flow.Life, 0, len(b)/lifeLen)
	for ; len(b) >= lifeLen; b = b[lifeLen:] {
		n := wire.FabricNodeID{Mesh: wire.MeshID(le.Uint16(b)), Chip: wire.ChipID(le.Uint16(b[2:]))}
		lives = append(lives, flow.Life{Node: n, Life: wire.Life(le.Uint32(b[4:]))})
	}
	return lives
}
