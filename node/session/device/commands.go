package device

import (
	"fmt"

	"ttfabric/wire"
)

// Write returns the command of a write. If the address is the address of a rectangle, the command is
// a NoC multicast.
func Write(to wire.NocAddr) wire.Command { return wire.Command{Type: to.ForWrite(), Addr: to} }

// InlineWrite returns the command that writes one 32-bit word.
func InlineWrite(to wire.NocAddr, value uint32) wire.Command {
	return wire.Command{Type: wire.NocInlineWrite, Addr: to, Value: value}
}

// AtomicInc returns the command that adds to a 32-bit counter. If the address is the address of a
// rectangle, the command is a NoC multicast, which adds to a counter in each tile. A NoC multicast
// has no flush.
func AtomicInc(counter wire.NocAddr, add uint32, flush bool) wire.Command {
	return wire.Command{Type: counter.ForInc(), Addr: counter, Value: add, Flush: flush}
}

// FusedAtomicInc returns the command of a write that then adds to a 32-bit counter.
func FusedAtomicInc(to, counter wire.NocAddr, add uint32, flush bool) wire.Command {
	return wire.Command{Type: wire.NocFusedInc, Addr: to, Sem: counter, Value: add, Flush: flush}
}

// Chunk is one part of a scatter write.
type Chunk struct {
	Addr wire.NocAddr
	Data []byte
}

// Scatter returns the command and the payload of a scatter write of two to four chunks, at most 4096
// bytes together.
func Scatter(chunks []Chunk) (wire.Command, []byte, error) {
	c := wire.Command{Type: wire.NocScatterWrite, Chunks: uint8(len(chunks))}
	if len(chunks) < 2 || len(chunks) > wire.MaxScatter {
		return c, nil, fmt.Errorf("a scatter write of %d chunks: want 2 to %d chunks", len(chunks), wire.MaxScatter)
	}
	n := 0
	for i, k := range chunks {
		if n += len(k.Data); n > wire.MaxPayload {
			return c, nil, fmt.Errorf("a scatter write of more than %d bytes: a packet carries at most %d", wire.MaxPayload, wire.MaxPayload)
		}
		c.Scatter[i], c.Sizes[i] = k.Addr, uint16(len(k.Data))
	}
	data := make([]byte, 0, n)
	for _, k := range chunks {
		data = append(data, k.Data...)
	}
	return c, data, nil
}
