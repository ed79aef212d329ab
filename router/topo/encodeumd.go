package topo

import (
	"fmt"
	"math/bits"
	"slices"

	"ttfabric/wire"
)

// boardTypes are the board types of tt-umd (docs/yaml_schemas/cluster_descriptor.yaml).
var boardTypes = []string{"n150", "n300", "p100", "p150", "p300", "ubb", "ubb_blackhole", "ubb_wormhole", "quasar"}

// EncodeClusterDescriptor renders a valid topology of one mesh as a cluster descriptor of tt-umd.
// [Load] turns this descriptor back into a topology with the same [Topology.Hash].
// EncodeClusterDescriptor leaves out labels and impairments. The mesh must have id 0, and the
// topology must not have transport or auth. Otherwise the error says what a cluster descriptor
// cannot express.
//
// EncodeClusterDescriptor makes up the data that a topology lacks. If all chips have UMD ids, the
// descriptor uses these ids. Otherwise the descriptor uses the chips' fabric ids. In the
// descriptor, the host reaches the chips with MMIO set, or all chips if no chip has MMIO set. The
// harvested ethernet channels are those of [Topology.HarvestedEthernet]. If the board of a chip is
// unknown, the descriptor puts the chip alone on an n150 or p150. The descriptor always has
// coordinates, although real files have coordinates only for Wormhole boards. Without coordinates,
// a reader might find other wraps or another orientation.
func (t *Topology) EncodeClusterDescriptor() ([]byte, error) {
	if len(t.Meshes) != 1 {
		return nil, fmt.Errorf("topology %s has %d meshes, but a cluster descriptor describes only one mesh; write the form ttfabric instead", t.Name, len(t.Meshes))
	}
	if id := t.Meshes[0].ID; id != 0 {
		return nil, fmt.Errorf("topology %s is mesh %d, but a cluster descriptor cannot give the number of its mesh; write the form ttfabric instead", t.Name, id)
	}
	if t.Transport != "" || t.Auth != "" {
		return nil, fmt.Errorf("topology %s says how its links are secured (transport, auth), but a cluster descriptor cannot say this; write the form ttfabric instead", t.Name)
	}
	return t.encodeUMD(0, []string{"Cluster descriptor of " + t.Name + ", as tt-umd reads it."}, foundCables(t.Cables), func(Chip) bool { return true }), nil
}

// boardType returns the type of a board by its name in tt-umd. The argument "board" holds the
// indices of the board's chips.
func (t *Topology) boardType(board []int) string {
	if kind := t.Chips[board[0]].Board; slices.Contains(boardTypes, kind) {
		return kind
	}
	return map[wire.Arch]string{wire.Wormhole: "n150", wire.Blackhole: "p150"}[t.Arch]
}

// Masks of the PCIe tiles of a Blackhole chip that are not connected to the host (tt-umd,
// soc_descriptor.cpp).
const (
	firstPCIe  = 1 // the tile at 2-0
	secondPCIe = 2 // the tile at 11-0
)

// place is a chip's place on its board.
type place struct {
	pcie     int // mask of the PCIe tiles that are not connected to the host
	location int // number of the chip on its board
}

// places returns the places of the chips on the given boards, by the indices of the chips. The
// numbers on a board begin with the chips that the host reaches directly. Chips of one kind have
// numbers in the order of their ids. The host reaches a P100, and the second chip of a P300, by the
// second PCIe tile.
func (t *Topology) places(boards [][]int) []place {
	out := make([]place, len(t.Chips))
	for _, board := range boards {
		kind, sorted := t.boardType(board), slices.Clone(board)
		slices.SortStableFunc(sorted, func(x, y int) int { return bit(!t.Chips[x].MMIO) - bit(!t.Chips[y].MMIO) })
		for n, i := range sorted {
			out[i] = place{secondPCIe, n}
			if kind == "p100" || kind == "p300" && n == 1 {
				out[i].pcie = firstPCIe
			}
		}
	}
	return out
}

// blackholeOff is the number of harvested ethernet channels that tt-umd requires on a Blackhole
// chip. tt-umd refuses a chip with another number, unless all channels are harvested
// (blackhole_coordinate_manager.cpp).
const blackholeOff = 2

// HarvestedEthernet returns the mask of the ethernet channels that a chip reports as harvested,
// which means switched off. Bit i is channel i. On Wormhole, the mask is 0. On Blackhole, the mask
// has the last two channels without a cable. Harvested channels change the numbers of later
// channels only, so the channels with cables before them keep their numbers. If fewer than two
// channels have no cable, the mask is 0.
func (t *Topology) HarvestedEthernet(n wire.FabricNodeID) uint16 {
	if t.Arch != wire.Blackhole {
		return 0
	}
	free := uint16(1)<<blackholeChannels - 1
	for _, p := range t.Ports(n) {
		free &^= 1 << p.Local.Channel
	}
	if bits.OnesCount16(free) < blackholeOff {
		return 0
	}
	off := uint16(0)
	for range blackholeOff {
		top := uint16(1) << (bits.Len16(free) - 1)
		free, off = free&^top, off|top
	}
	return off
}

// HostChip is how a host's driver sees a chip.
type HostChip struct {
	ID   int  // id of the chip in a cluster descriptor
	MMIO bool // the host reaches the chip directly (over PCIe)
}

// HostView returns how the host of a mesh sees the chips of this mesh, as in the descriptor of
// [Topology.EncodeClusterDescriptor]. If all chips of the mesh have UMD ids, the ids are the UMD
// ids. Otherwise, the ids are the numbers of the chips. The host reaches the chips with MMIO set,
// or all chips if no chip of the mesh has MMIO set.
func (t *Topology) HostView(m wire.MeshID) map[wire.FabricNodeID]HostChip {
	seen := map[wire.FabricNodeID]HostChip{}
	numbered, reached := true, false
	for _, c := range t.Chips {
		if c.Node.Mesh == m {
			numbered, reached = numbered && c.UMD != NoUMD, reached || c.MMIO
		}
	}
	for _, c := range t.Chips {
		if c.Node.Mesh != m {
			continue
		}
		h := HostChip{ID: int(c.Node.Chip), MMIO: c.MMIO || !reached}
		if numbered {
			h.ID = c.UMD
		}
		seen[c.Node] = h
	}
	return seen
}

// boards groups the chips into boards, in the given order; see [Topology.Boards].
func (t *Topology) boards(order []int) (bs [][]int) {
	first, _ := t.Boards()
	at := map[int]int{} // index in bs, by the first chip of the board
	for _, i := range order {
		n, known := at[first[i]]
		if !known {
			n, bs = len(bs), append(bs, nil)
			at[first[i]] = n
		}
		bs[n] = append(bs[n], i)
	}
	return bs
}
