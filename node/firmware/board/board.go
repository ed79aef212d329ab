package board

import (
	"ttfabric/node/noc"
	"ttfabric/router/topo"
	"ttfabric/ttlink"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Live gives the state of the running chip that a board's words show.
type Live interface {
	// Now returns the instant of the chip's present step.
	Now() mono.Time
	// Link returns the state and the counters of the link of an ethernet channel. For a channel without a
	// cable, Link returns false.
	Link(ch wire.Channel) (ttlink.Status, ttlink.Counters, bool)
	// Works reports whether the base firmware of an ethernet channel's tile works now: the tile's
	// processor is not in reset, and no kernel of a strict job keeps the firmware from working.
	Works(ch wire.Channel) bool
}

// Board shows a host the words of one chip. A Board takes further memory when a host first reads or
// writes a word. A Board is not safe for concurrent use.
type Board struct {
	topology *topo.Topology
	node     wire.FabricNodeID
	live     Live
	ids      *ids // made at the first use
	arc      *arc // made at the first store
	asked    uint16
}

// ids are the identities that a chip knows: its own, and those of the chips at the other ends of
// its cables.
type ids struct {
	own       Identity
	harvested uint16     // mask of the Tensix rows or columns, as in a descriptor
	eth       uint16     // mask of the harvested ethernet tiles
	peers     []neighbor // in the order of the channels

	untranslated bool // the chip translates no NoC coordinates
}

// neighbor is what an ethernet tile learns from the tile at the other end of its cable.
type neighbor struct {
	channel wire.Channel // this end
	port    wire.PortID  // the other end
	Identity
}

// New returns the board of chip n, which must be in the topology t. The live words come from l.
func New(t *topo.Topology, n wire.FabricNodeID, l Live) *Board {
	return &Board{topology: t, node: n, live: l}
}

// Map makes the words readable in the chip's memory: in the L1 of the ethernet tiles, and in the
// ARC tile.
func (b *Board) Map(m *noc.Memory) error {
	ranges, windows := wormholeRanges, wormholeWindows
	if b.topology.Arch == wire.Blackhole {
		ranges, windows = blackholeRanges, blackholeWindows
	}
	if err := m.ShowLive(b, ranges); err != nil {
		return err
	}
	x, y := arcTile(b.topology.Arch)
	for _, w := range windows {
		if err := m.MapRegisters(wire.NewNocAddr(x, y, w.at), w.n, &registers{b, w}); err != nil {
			return err
		}
	}
	return nil
}

// Identity returns the chip's own identity.
func (b *Board) Identity() Identity { return b.names().own }

// names returns the identities that the chip knows.
func (b *Board) names() *ids {
	if b.ids != nil {
		return b.ids
	}
	all := Identify(b.topology)
	i := b.topology.Index(b.node)
	b.ids = &ids{own: all[i], harvested: b.topology.Chips[i].Harvested, untranslated: b.topology.Chips[i].Untranslated, eth: b.topology.HarvestedEthernet(b.node)}
	for _, p := range b.topology.Ports(b.node) {
		b.ids.peers = append(b.ids.peers, neighbor{p.Local.Channel, p.Peer, all[b.topology.Index(p.Peer.Node)]})
	}
	return b.ids
}

// peer returns what the tile of a channel has learned from the tile at the other end of its cable.
// The ends send each other their identities when the link first comes up. Until then, and for a
// channel without a cable, peer returns nil.
func (b *Board) peer(ch wire.Channel) *neighbor {
	s, _, ok := b.live.Link(ch)
	if !ok || s.State != ttlink.StateUp && s.FirstUp == 0 {
		return nil
	}
	n := b.names()
	for i := range n.peers {
		if n.peers[i].channel == ch {
			return &n.peers[i]
		}
	}
	return nil
}

// TakeRetrains returns the channels whose links a host has asked to train again, one bit for each
// channel. Channels for which works returns false stay for a later call.
func (b *Board) TakeRetrains(works func(wire.Channel) bool) (taken uint16) {
	for ch := wire.Channel(0); b.asked>>ch != 0; ch++ {
		if b.asked>>ch&1 != 0 && works(ch) {
			taken |= 1 << ch
		}
	}
	b.asked &^= taken
	return taken
}

// Word returns a word in the L1 of the tile of an ethernet channel, see [noc.Live].
func (b *Board) Word(ch wire.Channel, off uint64) uint32 {
	if b.topology.Arch == wire.Blackhole {
		return b.bootResult(ch, off)
	}
	return b.wormholeWord(ch, off)
}

// Stored takes a store to a word in the L1 of the tile of an ethernet channel, see [noc.Live]. Only the
// word that forces a retrain has an effect. The base firmware overwrites all other words.
func (b *Board) Stored(ch wire.Channel, off uint64, v uint32) {
	if b.topology.Arch == wire.Wormhole && off == retrainForce && v == 1 {
		if _, _, ok := b.live.Link(ch); ok {
			b.asked |= 1 << ch
		}
	}
}

// Periods of the counters that show that firmware runs. A host reads a counter until it changes. tt-umd
// waits at most 50 ms for the heartbeat of an ethernet tile.
const (
	ethBeat   = 100_000     // of an ethernet tile, in nanoseconds; our own choice
	arcBeat   = 100_000_000 // of the ARC processor, in nanoseconds; our own choice
	baseBeats = 0xABCD0000  // signature of the base firmware (tt-umd, BASE_FW_HEARTBEAT_SIGNATURE)
)

// heartbeat returns the heartbeat of the base firmware of the ethernet tile of a channel. The heartbeat
// does not change while the firmware does not work.
func (b *Board) heartbeat(ch wire.Channel) uint32 {
	if !b.live.Works(ch) {
		return baseBeats
	}
	return baseBeats | uint32(b.live.Now()/ethBeat)&0xFFFF
}

// arcTile returns the coordinates of the ARC tile on NoC 0 (tt-umd, ARC_CORES_NOC0).
func arcTile(a wire.Arch) (x, y uint8) {
	if a == wire.Blackhole {
		return 8, 0
	}
	return 0, 10
}
