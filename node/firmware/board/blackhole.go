package board

import (
	"ttfabric/node/noc"
	"ttfabric/wire"
)

// The boot results in the L1 of a Blackhole ethernet tile (tt-umd, blackhole_eth.hpp, boot_results_t).
const (
	bootResults    = 0x7CC00
	bootResultsLen = 0x400
	blackholeEth   = 14 // number of ethernet tiles
)

var blackholeRanges = []noc.Range{{Off: bootResults, Len: bootResultsLen}}

// blackholeWindows are the windows of registers of a Blackhole ARC tile. Package noc has the NIU
// registers.
var blackholeWindows = []region{
	{csm, csmLen, (*Board).csmWord, (*Board).csmWritable, (*Board).storeCSM},
	{apbOnBlackhole + resetUnit, resetLen, (*Board).resetWord, (*Board).resetWritable, (*Board).storeReset},
}

// apbOnBlackhole is the address of the ARC processor's peripherals (tt-umd, ARC_NOC_XBAR_ADDRESS_START).
const apbOnBlackhole = 0x80000000

// Numbers of words in the boot results.
const (
	bootPostcode  = 0
	bootPort      = 1
	bootTrain     = 2
	bootSpeed     = 3
	bootHeartbeat = 28
	serdesCode    = 32
	macCode       = 96
	bootRetrains  = 128
	bootRxUp      = 129
	bootTx        = 136 // six counters of 64 bits, low word first: frames, good frames, frames with a bad checksum, and the same in bytes
	bootRx        = 148 // eight counters: frames, good, with a bad checksum, dropped, and the same in bytes
	bootSerdesVer = 238
	bootVersion   = 239
	bootLocal     = 240 // eight words about this tile
	bootRemote    = 248 // the same about the tile at the other end of the cable
)

// Values in the boot results.
const (
	initPass      = 0xC0DEA000
	portUnknown   = 0 // the link trains
	portUp        = 1
	portDown      = 2
	portUnused    = 3
	linkTraining  = 0 // values of bootTrain
	linkSkipped   = 1
	linkPassed    = 2
	linkTimeout   = 9          // LINK_TRAIN_TIMEOUT_LINK_UP
	linkSpeed     = 400        // Gbit/s
	ethVersionBH  = 0x00010700 // 1.7.0: patch, minor and major number, one byte each
	fieldLogical  = 24
	fieldEth      = 16
	fieldLocation = 8
)

// bootResult returns a word of the boot results. Words without a name here read as 0.
func (b *Board) bootResult(ch wire.Channel, off uint64) uint32 {
	s, n, _ := b.live.Link(ch)
	port, train := b.portState(ch)
	switch i := int(off-bootResults) / 4; {
	case i == bootPostcode || i == serdesCode || i == macCode:
		return initPass
	case i == bootPort:
		return port
	case i == bootTrain:
		return train
	case i == bootSpeed && port == portUp:
		return linkSpeed
	case i == bootHeartbeat:
		return b.heartbeat(ch)
	case i == bootRetrains:
		return uint32(s.Retrains)
	case i == bootRxUp:
		return flag(port == portUp)
	case i >= bootTx && i < bootTx+12:
		return half(i-bootTx, []uint64{n.FramesSent, n.FramesSent, 0, n.BytesSent, n.BytesSent, 0})
	case i >= bootRx && i < bootRx+16:
		bad := n.Faults[wire.FaultChecksum]
		return half(i-bootRx, []uint64{n.FramesReceived + bad, n.FramesReceived, bad, n.Duplicates + n.Gaps, n.BytesReceived, n.BytesReceived})
	case i == bootSerdesVer || i == bootVersion:
		return ethVersionBH
	case i >= bootRemote:
		if p := b.peer(ch); p != nil {
			return chipInfo(i-bootRemote, &p.Identity, p.port.Channel, b.topology.HarvestedEthernet(p.port.Node))
		}
	case i >= bootLocal:
		return chipInfo(i-bootLocal, &b.names().own, ch, b.names().eth)
	}
	return 0
}

// half returns word i of a list of 64-bit counters, low word first. Counters beyond the last are 0.
func half(i int, of []uint64) uint32 {
	if i/2 >= len(of) {
		return 0
	}
	return uint32(of[i/2] >> (i % 2 * 32))
}

// portState returns the state of a port and the result of its training.
func (b *Board) portState(ch wire.Channel) (port, train uint32) {
	switch status, err := b.train(ch); {
	case status == trained:
		return portUp, linkPassed
	case status == training:
		return portUnknown, linkTraining
	case err == errNotPopulated:
		return portUnused, linkSkipped
	}
	return portDown, linkTimeout
}

// chipInfo returns word i of the eight words about a tile, see bootLocal. Harvested channels do not
// count in the logical number of a channel. The words of the MAC address are 0, because the
// emulator has no MAC addresses.
func chipInfo(i int, id *Identity, ch wire.Channel, harvested uint16) uint32 {
	switch i {
	case 0:
		logical := uint32(0)
		for k := range ch {
			logical += uint32(^harvested >> k & 1)
		}
		return uint32(id.Board>>upiBit)&0xFF | uint32(id.Location)<<fieldLocation | uint32(ch)<<fieldEth | logical<<fieldLogical
	case 1:
		return uint32(id.Board >> 32)
	case 2:
		return uint32(id.Board)
	case 5:
		return uint32(id.ASIC >> 32)
	case 6:
		return uint32(id.ASIC)
	case 7:
		return 1 // the tile has sent its identity
	}
	return 0
}
