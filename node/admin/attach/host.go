package attach

import (
	"encoding/binary"
	"fmt"

	"ttfabric/node/firmware"
	"ttfabric/wire"
)

// Limits of host memory.
const (
	MaxTransfer = firmware.PullAhead // largest transfer of host memory, in bytes
	minLend     = 32                 // smallest memory that a client can lend, in bytes: the alignment of host addresses
	transferLen = 24                 // length of the fixed part of a transfer, in bytes
	movedLen    = 16                 // length of the fixed part of a frame of kind moved, in bytes
)

// AppendTile appends a request for the L1 of the ethernet tile at the coordinate (x, y) of NoC 0.
func AppendTile(b []byte, number uint64, x, y uint8) []byte {
	return append(AppendHead(b, KindTile, number, 8), x, y, 0, 0, 0, 0, 0, 0)
}

// ParseTile reads the body of a request for the L1 of a tile.
func ParseTile(b []byte) (x, y uint8, err error) {
	if len(b) != 8 || binary.LittleEndian.Uint64(b)>>16 != 0 {
		return 0, 0, fmt.Errorf("a tile request has the body % x: want x, y and 6 zeros", b[:min(len(b), 16)])
	}
	return b[0], b[1], nil
}

// AppendLend appends a request that lends n bytes of memory.
func AppendLend(b []byte, number, n uint64) []byte {
	return binary.LittleEndian.AppendUint64(AppendHead(b, KindLend, number, 8), n)
}

// ParseLend reads the body of a request that lends memory.
func ParseLend(b []byte) (uint64, error) {
	if len(b) != 8 {
		return 0, fmt.Errorf("a lend request of %d bytes: want 8", len(b))
	}
	n := binary.LittleEndian.Uint64(b)
	if n < minLend || n > firmware.HostSize {
		return 0, fmt.Errorf("a lend request for %d bytes of memory: want %d to %d", n, minLend, uint64(firmware.HostSize))
	}
	return n, nil
}

// AppendTransfer appends a transfer of host memory.
func AppendTransfer(b []byte, number uint64, t *firmware.Transfer) []byte {
	b = AppendHead(b, KindTransfer, number, transferLen+len(t.Data))
	b = binary.LittleEndian.AppendUint64(b, t.ID)
	b = binary.LittleEndian.AppendUint64(b, t.Addr)
	write, n := byte(0), t.Len
	if t.Write {
		write, n = 1, len(t.Data)
	}
	b = binary.LittleEndian.AppendUint32(append(b, write, 0, 0, 0), uint32(n))
	return append(b, t.Data...)
}

// ParseTransfer reads the body of a transfer. The data of a write are a part of b.
func ParseTransfer(b []byte) (t firmware.Transfer, err error) {
	if len(b) < transferLen || b[16] > 1 || b[17]|b[18]|b[19] != 0 {
		return t, fmt.Errorf("a transfer has the body % x: want a number, an address, 0 or 1, 3 zeros and a length", b[:min(len(b), transferLen)])
	}
	t = firmware.Transfer{ID: binary.LittleEndian.Uint64(b), Addr: binary.LittleEndian.Uint64(b[8:]), Write: b[16] == 1}
	n, data := binary.LittleEndian.Uint32(b[20:]), b[transferLen:]
	if t.Write {
		t.Data = data
	} else {
		t.Len = int(n)
	}
	if n > MaxTransfer || t.Write != (len(data) > 0) || t.Write && len(data) != int(n) {
		return t, fmt.Errorf("a transfer of %d bytes comes with %d bytes of data: want a length of at most %d, data for a write, and no data for a read", n, len(data), MaxTransfer)
	}
	return t, nil
}

// Moved is how a transfer ended.
type Moved struct {
	ID      uint64
	Refused bool
	Data    []byte // of a read
}

// AppendMoved appends a frame that says how a transfer ended.
func AppendMoved(b []byte, number uint64, m *Moved) []byte {
	b = binary.LittleEndian.AppendUint64(AppendHead(b, KindMoved, number, movedLen+len(m.Data)), m.ID)
	status := byte(0)
	if m.Refused {
		status = 1
	}
	return append(append(b, status, 0, 0, 0, 0, 0, 0, 0), m.Data...)
}

// ParseMoved reads the body of a frame that says how a transfer ended. The data are a part of b.
func ParseMoved(b []byte) (Moved, error) {
	if len(b) < movedLen || len(b) > movedLen+MaxTransfer || binary.LittleEndian.Uint64(b[8:]) > 1 {
		return Moved{}, fmt.Errorf("a frame of kind moved has a body of %d bytes that begins with % x: want a number, 0 or 1, 7 zeros and up to %d bytes", len(b), b[:min(len(b), movedLen)], MaxTransfer)
	}
	return Moved{binary.LittleEndian.Uint64(b), b[8] == 1, b[movedLen:]}, nil
}

// Outcome returns the outcome of a transfer for the chip.
func (m *Moved) Outcome() wire.Outcome {
	if m.Refused {
		return wire.OutcomeBadAddress
	}
	return wire.OutcomeDone
}
