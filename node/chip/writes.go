package chip

import (
	"encoding/binary"

	"ttfabric/node/kernel"
	"ttfabric/ttlink"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// L1 writes and MMIO writes over the cable. A kernel on an ethernet tile, or a store to the tile's
// registers, starts a command on one of the transaction command queues of the port. The link
// carries the command to the ethernet tile at the other end, whose chip performs the command at
// once. The command waits in no receiver channel, and overtakes packets that wait in receiver
// channels.

// WriteStatus counts what a chip did with writes that came over the cable of one port.
type WriteStatus struct {
	Stored    uint64 // frames of L1 writes whose words the chip stored into the L1 of the port's ethernet tile
	Registers uint64 // MMIO writes that the chip performed
	Refused   uint64 // frames that the chip dropped: beyond L1, to an address without registers, on a queue that the tile lacks, or an MMIO write on a queue that takes none
}

// l1 returns the size of the L1 of a port's ethernet tile, in bytes.
func (c *machine) l1(p *port) uint64 {
	t, _ := c.memory.TileAt(p.mail.at.X(), p.mail.at.Y())
	return t.Size
}

// tileAddr returns the NoC address of the byte "at" of a port's ethernet tile.
func (p *port) tileAddr(at uint32) wire.NocAddr {
	return wire.NewNocAddr(p.mail.at.X(), p.mail.at.Y(), uint64(at))
}

// readSource returns the function that reads the sources of L1 writes from the L1 of port i, for
// [ttlink.Config]. Bytes that cannot be read, because registers hide them, are 0.
func (c *machine) readSource(i int) func(from uint32, b []byte) {
	return func(from uint32, b []byte) {
		if c.memory.Read(c.ports.list[i].tileAddr(from), b) != wire.OutcomeDone {
			clear(b)
		}
	}
}

// queueBusy reports whether a transaction command queue of a channel takes no command now. The result
// is true for a channel without a cable.
func (c *machine) queueBusy(ch wire.Channel, q int) bool {
	i := c.ports.index(ch)
	return i < 0 || c.ports.list[i].link.Busy(q)
}

// startWrite starts an L1 write on a queue of a channel. The write copies "words" words of 16
// bytes, from address "from" in the L1 of the channel's ethernet tile to address "to" in the L1 at
// the other end. startWrite returns OutcomeAgain for a busy queue, and OutcomeBadCommand for a
// queue that the tile does not have. startWrite returns OutcomeMisaligned for an address that is
// not a multiple of 16. startWrite returns OutcomeBadAddress for a channel without a cable, and for
// words beyond L1. The command ends with the link's session.
func (c *machine) startWrite(ch wire.Channel, q int, from, to uint32, words int) wire.Outcome {
	i := c.ports.index(ch)
	if i < 0 || words < 1 {
		return wire.OutcomeBadAddress
	}
	p := &c.ports.list[i]
	n, size := uint64(words)*wire.WriteUnit, c.l1(p)
	switch {
	case q >= c.queues():
		return wire.OutcomeBadCommand
	case from%wire.WriteUnit != 0 || to%wire.WriteUnit != 0:
		return wire.OutcomeMisaligned
	case n > size || uint64(from)+n > size || uint64(to)+n > size:
		return wire.OutcomeBadAddress
	case !p.link.StartWrite(q, from, to, words):
		return wire.OutcomeAgain
	}
	return wire.OutcomeDone
}

// startRegister starts an MMIO write on a queue of a channel. The outcomes are those of startWrite,
// and OutcomeBadCommand for a queue that sends no MMIO writes.
func (c *machine) startRegister(ch wire.Channel, q int, to, value uint32) wire.Outcome {
	i := c.ports.index(ch)
	switch {
	case i < 0:
		return wire.OutcomeBadAddress
	case !c.mmioQueue(q):
		return wire.OutcomeBadCommand
	case to%wire.RegisterLen != 0:
		return wire.OutcomeMisaligned
	case !c.ports.list[i].link.StartRegister(q, to, value):
		return wire.OutcomeAgain
	}
	return wire.OutcomeDone
}

// queues returns the number of transaction command queues of an ethernet tile (tt-isa-documentation,
// EthernetTxRx.md in WormholeB0/EthernetTile and BlackholeA0/EthernetTile).
func (c *machine) queues() int {
	if c.cfg.Topology.Arch == wire.Wormhole {
		return 2
	}
	return wire.NumQueues
}

// mmioQueue reports whether a queue carries MMIO writes. The last queue of an ethernet tile neither
// sends nor receives MMIO writes (tt-isa-documentation, as above).
func (c *machine) mmioQueue(q int) bool { return q < c.queues()-1 }

// sourceInUse reports whether a command under way may still read some of n bytes in the L1 of a
// channel's ethernet tile. The bytes begin at address a. sourceInUse also returns the queue of the
// command.
func (c *machine) sourceInUse(ch wire.Channel, a uint32, n int) (queue int, inUse bool) {
	if i := c.ports.index(ch); i >= 0 {
		return c.ports.list[i].link.SourceInUse(a, n)
	}
	return 0, false
}

// wrote performs a frame of an L1 or MMIO write that came over the cable of port i. An L1 write
// reaches the L1 of the port's ethernet tile. An MMIO write reaches the registers of this tile,
// which lie beyond the L1.
func (c *machine) wrote(now mono.Time, i int, d *ttlink.Delivery) {
	p := &c.ports.list[i]
	cmd := wire.Command{Type: wire.NocUnicastWrite, Addr: p.tileAddr(d.Addr)}
	inL1 := uint64(d.Addr)+uint64(len(d.Data)) <= c.l1(p)
	if d.Kind == wire.KindMMIO && d.Addr == wire.MarkRegister {
		p.writes.Registers++
		c.marked(now, i, binary.LittleEndian.Uint32(d.Data))
		return
	}
	if d.Kind == wire.KindMMIO {
		if inL1 || !c.mmioQueue(int(d.VC)) || c.memory.Execute(&cmd, d.Data) != wire.OutcomeDone {
			p.writes.Refused++
			return
		}
		if p.writes.Registers++; p.owner.news {
			c.peerReleased(p)
		}
		c.resetBy(now, p.Peer.Node)
		return
	}
	if !inL1 || int(d.VC) >= c.queues() || c.memory.Execute(&cmd, d.Data) != wire.OutcomeDone {
		p.writes.Refused++
		return
	}
	p.writes.Stored++
	if d.VC != 0 || !c.firmware.Arrived(now, p.Local.Channel, d.Addr, len(d.Data)) {
		c.kernels.Arrived(kernel.Tile{X: p.mail.at.X(), Y: p.mail.at.Y()}, d.Addr, len(d.Data), p.owner.heard[d.VC], p.Peer.Node)
	}
}
