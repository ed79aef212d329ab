package kernel

import "ttfabric/wire"

// Frames of L1 writes do not say which job sent them. So a chip tells the chip at the other end of
// a cable which job uses a transaction command queue. The chip writes the job's tag into a register
// of our own, before the job's first command, and again after commands of another job. The write
// always goes by queue 0, because on Wormhole queue 1 carries no MMIO writes. A job may use queue 1
// once the frame of the tag has its sequence number. Another job's tag may follow once all frames
// of queue 1 have their sequence numbers. The frames of both queues share one sequence of numbers,
// and take effect in this order.

// OwnerOffset is the address of the first of these registers in an ethernet tile. Hardware has no such
// registers.
const OwnerOffset = 0xFFBF2000

// OwnerRegister returns the address of the register for the tag of the job that uses queue q, 0 or 1.
func OwnerRegister(q int) uint32 { return OwnerOffset + 8*uint32(q) }

// Tag returns the number by which chips tell jobs apart on a cable. The number is not 0.
func (id JobID) Tag() uint32 { return max(uint32(id)^uint32(id>>32), 1) }

// Arrived checks a store of n bytes at address a of an ethernet tile. The store came over the
// tile's cable from a chip, and belongs to the job with the given tag. The machine reports the
// store if it changes L1 of another job, or a word of a channel that kernels of another job use.
// Channel 0 is for handshakes, which may come early (CCL guide, "Ethernet Kernel Setup (Device
// Side)").
func (m *Machine) Arrived(t Tile, a uint32, n int, tag uint32, from wire.FabricNodeID) {
	if len(m.jobs) == 0 {
		return
	}
	store := Buffer{t, a, uint32(n)}
	words := Buffer{t, channelAddr(1), (NumChannels - 1) * ChannelSize}
	for _, j := range m.jobs {
		if tag == j.spec.ID.Tag() {
			continue
		}
		foreign := store.overlaps(&words) && j.on(t)
		for i := range j.buffers {
			foreign = foreign || store.overlaps(&j.buffers[i])
		}
		if foreign {
			m.violated(j, "", Violation{Rule: ForeignL1, Tile: t, Addr: a, Size: uint32(n), Command: "eth_send_packet", From: from})
		}
	}
}

// on reports whether a kernel of the job runs on a tile.
func (j *job) on(t Tile) bool {
	for _, p := range j.running {
		if p.start.Tile == t {
			return true
		}
	}
	return false
}
