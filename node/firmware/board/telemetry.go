package board

import (
	"ttfabric/ttlink"
	"ttfabric/wire"
)

// Versions of firmware.
const (
	bundle    = 0x13070100 // firmware bundle 19.7.1 (0xMMmmpprr), the newest that tt-umd has tested (get_latest_supported_firmware_version)
	cmVersion = 0x02260000 // firmware of the ARC processor; luwen reads the bundle's version from 0x02190000 on
)

// Tags of the telemetry (tt-umd, TelemetryTag). The table has no entries for values that the
// emulator does not model, such as temperatures, voltages and powers.
const (
	tagBoardHigh   = 1
	tagBoardLow    = 2
	tagClock       = 14
	tagEthLive     = 21 // bits 0 to 15: heartbeats of ethernet tiles run; bits 16 to 31: the tile trains its link
	tagDRAM        = 22 // two bits for each bank: 1 trained; from bit 16 on the results of the built-in self-test
	tagEthVersion  = 24
	tagBundle      = 28
	tagCM          = 29
	tagHeartbeat   = 32
	tagColumns     = 34 // Blackhole: working columns of Tensix tiles, in the firmware's order
	tagEth         = 35 // Blackhole: working ethernet tiles
	tagBanks       = 36 // Blackhole: working DRAM banks
	tagCPUs        = 37 // Blackhole: working L2CPU tiles
	tagPCIe        = 38 // Blackhole: two bits for each PCIe tile: 1 is connected to the host
	tagTranslation = 40
	tagLocation    = 52
	tagASICHigh    = 61
	tagASICLow     = 62
	tagClockMost   = 63
)

// tags are the entries of the telemetry table. The value of entry i is telemetry(i).
var (
	wormholeTags  = []uint32{tagBoardHigh, tagBoardLow, tagClock, tagEthLive, tagDRAM, tagEthVersion, tagBundle, tagCM, tagHeartbeat, tagTranslation, tagLocation, tagASICHigh, tagASICLow, tagClockMost}
	blackholeTags = []uint32{tagBoardHigh, tagBoardLow, tagClock, tagEthLive, tagDRAM, tagBundle, tagCM, tagHeartbeat, tagColumns, tagEth, tagBanks, tagCPUs, tagPCIe, tagTranslation, tagLocation, tagASICHigh, tagASICLow, tagClockMost}
)

// The telemetry table begins with its version and the number of entries. An entry has the tag in its lower
// half, and the number of the value in its upper half.
const (
	tableVersion = 0x00010000 // tt-umd ignores the version
	tableHeader  = 2
	tableLen     = 0x100 // longest table, in bytes
	valuesLen    = 0x100
	valueBit     = 16
)

func (b *Board) tags() []uint32 {
	if b.topology.Arch == wire.Blackhole {
		return blackholeTags
	}
	return wormholeTags
}

// tableWord returns a word of the telemetry table.
func (b *Board) tableWord(i int) uint32 {
	tags := b.tags()
	switch {
	case i == 0:
		return tableVersion
	case i == 1:
		return uint32(len(tags))
	case i-tableHeader < len(tags):
		return tags[i-tableHeader] | uint32(i-tableHeader)<<valueBit
	}
	return 0
}

// Numbers of DRAM banks and of L2CPU tiles.
const (
	wormholeBanks  = 6
	blackholeBanks = 8
	blackholeCPUs  = 4
)

// banksTrained is the value of tagDRAM for two bits of each bank, all trained.
func banksTrained(banks int) uint32 {
	half := uint32(0x5555) & (1<<(2*banks) - 1)
	return half | half<<16
}

// telemetry returns telemetry value i.
func (b *Board) telemetry(i int) uint32 {
	tags := b.tags()
	if i >= len(tags) {
		return 0
	}
	n := b.names()
	most, _ := b.clocks()
	switch tags[i] {
	case tagBoardHigh:
		return uint32(n.own.Board >> 32)
	case tagBoardLow:
		return uint32(n.own.Board)
	case tagClock:
		return b.clock()
	case tagClockMost:
		return most
	case tagEthLive:
		return b.ethLive()
	case tagDRAM:
		if b.topology.Arch == wire.Blackhole {
			return banksTrained(blackholeBanks)
		}
		return banksTrained(wormholeBanks)
	case tagEthVersion:
		return ethVersionWormhole
	case tagBundle:
		return bundle
	case tagCM:
		return cmVersion
	case tagHeartbeat:
		return b.arcHeartbeat()
	case tagTranslation:
		if n.untranslated {
			return 0
		}
		return 1
	case tagLocation:
		return uint32(n.own.Location)
	case tagASICHigh:
		return uint32(n.own.ASIC >> 32)
	case tagASICLow:
		return uint32(n.own.ASIC)
	}
	return b.working(tags[i])
}

// working returns a value that says which parts of a Blackhole chip work.
func (b *Board) working(tag uint32) uint32 {
	n := b.names()
	switch tag {
	case tagColumns:
		return ^FirmwareMask(wire.Blackhole, n.harvested) & (1<<len(blackholeColumns) - 1)
	case tagEth:
		return ^uint32(n.eth) & (1<<blackholeEth - 1)
	case tagBanks:
		return 1<<blackholeBanks - 1
	case tagCPUs:
		return 1<<blackholeCPUs - 1
	case tagPCIe:
		if n.own.Kind == P100 || n.own.Kind == P300 && n.own.Location == 1 {
			return 1 << 2 // the second PCIe tile (tt-umd, get_blackhole_chip_type)
		}
		return 1
	}
	return 0
}

// ethLive returns the ethernet tiles whose base firmware works, and those that train their links now.
func (b *Board) ethLive() uint32 {
	run := b.channels(b.live.Works) &^ uint32(b.names().eth)
	return run | b.channels(func(ch wire.Channel) bool {
		s, _, ok := b.live.Link(ch)
		return ok && s.Train == ttlink.TrainInProgress
	})<<16
}

// arcHeartbeat returns the heartbeat of the ARC processor. The heartbeat is never 0.
func (b *Board) arcHeartbeat() uint32 { return uint32(b.live.Now()/arcBeat) + 1 }

// Words of the telemetry of firmware before 18.4 (tt-umd, LegacyTelemetryTag). luwen reads all words.
const (
	legVersion   = 0
	legDevice    = 1 // PCI device and vendor
	legBoardHigh = 4
	legBoardLow  = 5
	legARC0      = 6 // versions of four processors of the ARC
	legARC3      = 9
	legEth       = 11
	legDRAM      = 14 // four bits for each channel: 2 trained
	legEth0      = 15 // four bits for each ethernet channel 0 to 7: 1 the link is up, 2 no cable; our own choice
	legEth1      = 16 // the same for channels 8 to 15
	legHealth0   = 19 // heartbeats of four processors of the ARC
	legHealth3   = 22
	legClock     = 24 // lower half: present frequency; upper half: largest frequency, in MHz
	legSeconds   = 43 // time since the start, in seconds
	legEthLive   = 48
	legBundle    = 49
	numLegacy    = 50
)

// Values of the old telemetry.
const (
	legacyVersion = 0xBA5E0001 // our own choice; hosts ignore the version
	wormholePCI   = 0x401E1E52
	dramPass      = 0x222222 // six channels
	legacyBits    = 4
	perSecond     = 1_000_000_000
)

// legacy returns word i of the old telemetry.
func (b *Board) legacy(i int) uint32 {
	n := b.names()
	switch {
	case i == legVersion:
		return legacyVersion
	case i == legDevice:
		return wormholePCI
	case i == legBoardHigh:
		return uint32(n.own.Board >> 32)
	case i == legBoardLow:
		return uint32(n.own.Board)
	case i >= legARC0 && i <= legARC3:
		return cmVersion
	case i == legEth:
		return ethVersionWormhole
	case i == legDRAM:
		return dramPass
	case i == legEth0 || i == legEth1:
		return b.legacyEth(wire.Channel(i-legEth0) * 8)
	case i >= legHealth0 && i <= legHealth3:
		return b.arcHeartbeat()
	case i == legClock:
		most, _ := b.clocks()
		return b.clock() | most<<16
	case i == legSeconds:
		return uint32(b.live.Now() / perSecond)
	case i == legEthLive:
		return b.ethLive()
	case i == legBundle:
		return bundle
	}
	return 0
}

// legacyEth returns the states of eight ethernet channels from "first" on.
func (b *Board) legacyEth(first wire.Channel) uint32 {
	v := uint32(0)
	for k := range wire.Channel(8) {
		switch status, err := b.train(first + k); {
		case status == trained:
			v |= 1 << (k * legacyBits)
		case err == errNotPopulated:
			v |= 2 << (k * legacyBits)
		}
	}
	return v
}
