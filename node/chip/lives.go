package chip

import (
	"encoding/binary"

	"ttfabric/wire"
)

// A flow's epoch orders the lives of its source: a destination that has heard
// of a later life performs nothing of a former one, by whatever way and however
// late it comes. The upper 27 bits are [Config.Life], the lower 5 count the
// lives within it; both wrap.
//
// Should a chip start with a lower number than in a former life, since its clock
// was set back, the destination refuses its requests and answers with the
// epoch that it knows. The source then goes on from there.

const lifeShift = 5

// firstLife is the epoch of a chip's first life of a flow.
func firstLife(cfg *Config) uint32 {
	n := cfg.Life
	if n == 0 {
		n = wire.Checksum(binary.LittleEndian.AppendUint64(nil, uint64(cfg.Incarnation)))
	}
	return n << lifeShift
}

// nextLife is the epoch of the life after e.
func nextLife(e uint32) uint32 { return e + 1 }

// olderLife reports whether a is an older life than b.
func olderLife(a, b uint32) bool { return int32(b-a) > 0 }
