package board

import (
	"ttfabric/node/noc"
	"ttfabric/router/topo"
	"ttfabric/ttlink"
	"ttfabric/wire"
)

// Words in the L1 of a Wormhole ethernet tile (tt-umd, wormhole_eth.hpp and topology_discovery_wormhole.hpp,
// EthAddresses; luwen, eth_addr; tt-metal, wormhole/eth_fw_api.h, boot_results_t).
const (
	ethHeartbeat   = 0x1C
	ethVersion     = 0x210
	portsDisabled  = 0x1008 // boot parameters; bit i is 1 if port i is disabled
	routingOff     = 0x104C // boot parameters: 1: the firmware does not route requests to other chips
	trainStatus    = 0x1104 // node info, from 0x1100 on
	localCoord     = 0x1108
	remoteCoord    = 0x1124
	remoteRack     = 0x1128
	connectionInfo = 0x1200 // a word for each channel of the chip
	linkError      = 0x1440
	results        = 0x1EC0 // boot_results_t
	retrainForce   = 0x1EFC // in the results
	resultsLen     = 80 * 4
)

// wormholeRanges are the words in the L1 of an ethernet tile that the base firmware keeps up to date.
var wormholeRanges = []noc.Range{{Off: ethHeartbeat, Len: 4}, {Off: ethVersion, Len: 4}, {Off: portsDisabled, Len: 4}, {Off: routingOff, Len: 4},
	{Off: trainStatus, Len: 8}, {Off: remoteCoord, Len: 8}, {Off: connectionInfo, Len: 16 * 4}, {Off: linkError, Len: 4}, {Off: results, Len: resultsLen}}

// Indexes of words in the results, counted from 0.
const (
	resLinkStatus = 5
	resRetrains   = 7
	resForce      = (retrainForce - results) / 4
	resCRCErrors  = 47
	resHeartbeat  = 48 // heartbeat of older firmware, without a signature
	resLocal      = 64 // first of eight words about this tile; the constants from resID on name six of them
	resRemote     = 72 // first of the same eight words about the tile at the other end of the cable
)

// Words about a tile, counted from resLocal or resRemote.
const (
	resID        = 0 // low word of the chip's unique id
	resIDHigh    = 1
	resXY        = 2
	resRackShelf = 3
	resEthID     = 4
	resBoardType = 5
)

// linkUp is the value of resLinkStatus while the link is up (tt-metal, is_link_up).
const linkUp = 6

// Results of a training, values of trainStatus. A training without a peer counts as failed, and
// linkError has the reason (tt-umd, read_eth_core_training_status).
const (
	training    = 0
	trained     = 1
	trainFailed = 2
)

// Values of linkError (tt-umd, wormhole_eth.hpp). If a failed training has an error of 11 or more,
// tt-umd treats the port as not connected.
const (
	errConfig       = 2  // the cable leads to a wrong port, or the ends cannot work together
	errNoSignal     = 11 // LINK_INACTIVE_TIMEOUT_SIGDET
	errNotPopulated = 13 // LINK_INACTIVE_PORT_NOT_POPULATED
)

// Values of connectionInfo (luwen, get_neighbouring_chips).
const (
	connUnknown     = 0
	connUnconnected = 1
	connNoRouting   = 2
	connRouting     = 3
)

// ethVersionWormhole is version 7.2.0 of the ethernet tiles' firmware, as 0x00AABCCC. A is the major,
// B the minor, C the patch number. From this version on, tt-umd retrains links.
const ethVersionWormhole = 0x00072000

// train returns the result of the training of a channel's own cable, and the reason of a failure.
func (b *Board) train(ch wire.Channel) (status, err uint32) {
	s, _, ok := b.live.Link(ch)
	switch {
	case !ok:
		return trainFailed, errNotPopulated
	case s.OwnCarries:
		return trained, 0
	case s.State == ttlink.StateUp:
		return trainFailed, errNoSignal // a parallel cable carries the frames of the link
	case s.Train == ttlink.TrainInProgress:
		return training, 0
	case s.Train == ttlink.TrainNotConnected:
		return trainFailed, errNoSignal
	}
	return trainFailed, errConfig
}

// connection returns the word of connectionInfo for a channel.
func (b *Board) connection(ch wire.Channel) uint32 {
	switch status, _ := b.train(ch); {
	case status == training:
		return connUnknown
	case status != trained:
		return connUnconnected
	case b.names().own.Kind.galaxy():
		return connNoRouting
	}
	return connRouting
}

// wormholeWord returns a word of wormholeRanges. Words without a case in the switch read as 0.
func (b *Board) wormholeWord(ch wire.Channel, off uint64) uint32 {
	switch {
	case off == ethHeartbeat:
		return b.heartbeat(ch)
	case off == ethVersion:
		return ethVersionWormhole
	case off == routingOff:
		return flag(b.names().own.Kind.galaxy())
	case off == trainStatus:
		status, _ := b.train(ch)
		return status
	case off == linkError:
		_, err := b.train(ch)
		return err
	case off == localCoord:
		at := b.names().own.Coord
		return uint32(at.Rack) | uint32(at.Shelf)<<8 | uint32(at.X)<<16 | uint32(at.Y)<<24
	case off == remoteCoord || off == remoteRack:
		return b.remoteWord(ch, off)
	case off >= connectionInfo && off < connectionInfo+16*4:
		return b.connection(wire.Channel((off - connectionInfo) / 4))
	case off >= results && off < results+resultsLen:
		return b.result(ch, int(off-results)/4)
	}
	return 0
}

// remoteWord returns remoteCoord or remoteRack of a channel: one of two words with the position of the
// tile at the other end of the channel's cable. Without a peer, remoteWord returns 0.
func (b *Board) remoteWord(ch wire.Channel, off uint64) uint32 {
	p := b.peer(ch)
	if p == nil {
		return 0
	}
	if off == remoteRack {
		return uint32(p.Coord.Rack) | uint32(p.Coord.Shelf)<<8
	}
	x, y, _ := noc.EthernetTile(wire.Wormhole, p.port.Channel)
	return uint32(x)<<4 | uint32(y)<<10 | uint32(p.Coord.X)<<16 | uint32(p.Coord.Y)<<22
}

// result returns a word of the results.
func (b *Board) result(ch wire.Channel, i int) uint32 {
	s, n, _ := b.live.Link(ch)
	switch {
	case i == resLinkStatus && s.OwnCarries:
		return linkUp
	case i == resRetrains:
		return uint32(s.Retrains)
	case i == resForce:
		return uint32(b.asked >> ch & 1)
	case i == resCRCErrors:
		return uint32(n.Faults[wire.FaultChecksum])
	case i == resHeartbeat && b.live.Works(ch):
		return uint32(b.live.Now() / ethBeat)
	case i >= resRemote:
		if p := b.peer(ch); p != nil {
			return about(i-resRemote, &p.Identity, p.port.Channel)
		}
	case i >= resLocal:
		return about(i-resLocal, &b.names().own, ch)
	}
	return 0
}

// about returns a word about the tile of a channel.
func about(i int, id *Identity, ch wire.Channel) uint32 {
	switch i {
	case resID:
		return uint32(id.ASIC)
	case resIDHigh:
		return uint32(id.ASIC >> 32)
	case resXY:
		return uint32(id.Coord.X) | uint32(id.Coord.Y)<<8
	case resRackShelf:
		return uint32(id.Coord.Rack) | uint32(id.Coord.Shelf)<<8
	case resEthID:
		return uint32(ch)
	case resBoardType:
		return flag(!id.Kind.galaxy()) // luwen: 0 on a Galaxy, another value on other boards
	}
	return 0
}

func flag(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}

// channels returns a mask with a bit for each channel for which f returns true.
func (b *Board) channels(f func(ch wire.Channel) bool) uint32 {
	m := uint32(0)
	for ch := range wire.Channel(topo.Channels(b.topology.Arch)) {
		m |= flag(f(ch)) << ch
	}
	return m
}
