package noc

import (
	"fmt"
	"strconv"

	"ttfabric/wire"
)

// Kind is the kind of a tile.
type Kind string

// The kinds of tiles that the fabric can reach.
const (
	Tensix   Kind = "tensix"
	Ethernet Kind = "ethernet"
	DRAM     Kind = "dram"
	ARC      Kind = "arc"    // the management processor; here only registers
	PCIe     Kind = "pcie"   // the interface to the host; here the registers of its NIU and, on Wormhole, the window to host memory
	Router   Kind = "router" // a tile without any device; has only the registers of its NIU
)

// Tile is one place on a chip's network on chip, in NOC 0 coordinates.
type Tile struct {
	X    uint8  `json:"x"`          // column, from 0 at the west
	Y    uint8  `json:"y"`          // row, from 0 at the north
	Kind Kind   `json:"kind"`       // kind of the tile
	Name string `json:"name"`       // T0… row by row, E0… by ethernet channel, D0… by DRAM bank, A0, P0, and R0… row by row
	Size uint64 `json:"size_bytes"` // size of the tile's memory, which begins at offset 0, in bytes; 0 for a harvested tile and for a tile without memory

	Harvested bool `json:"harvested,omitempty"` // the tile is a Tensix tile that is switched off

	bank         int32 // index of the tile's memory; the DRAM tiles of one bank share an index
	number, stop int   // number of a DRAM tile's bank, and of the tile within the bank
}

// Memory returns the size of the tile's memory as a text for people: a number of bytes, or "harvested".
func (t Tile) Memory() string {
	if t.Harvested {
		return "harvested"
	}
	return strconv.FormatUint(t.Size, 10)
}

// Sizes of tile memories, in bytes.
const (
	wormholeL1    = 1464 << 10 // tt-metal, wormhole_b0_80_arch.yaml: worker_l1_size 1499136
	wormholeEthL1 = 256 << 10  // wormhole_b0_80_arch.yaml: eth_l1_size 262144
	wormholeBank  = 2 << 30    // tt-isa-documentation, WormholeB0/DRAMTile: every three tiles share two DRAM channels of 1 GiB each
	blackholeL1   = 1536 << 10 // tt-umd, blackhole_implementation.hpp: TENSIX_L1_SIZE 1572864
	blackholeEth  = 512 << 10  // tt-isa-documentation, BlackholeA0/EthernetTile
	blackholeBank = 4 << 30    // tt-isa-documentation, BlackholeA0: "each 4 GiB is exposed identically on 3 tiles"
)

type xy [2]uint8

// layout is one architecture's floor plan, as in tt-metal's wormhole_b0_80_arch.yaml and tt-umd's
// blackhole_implementation.hpp. A layout has every Tensix, ethernet and DRAM tile of the full chip,
// including rows that harvesting switches off.
type layout struct {
	tensixX, tensixY []uint8
	eth              []xy          // by ethernet channel: coordinates of the tile
	dram             [][]xy        // by bank: coordinates of the tiles that share the bank
	bare             map[Kind][]xy // tiles without memory
	l1, ethL1, bank  uint64
	width, height    int  // number of columns and rows of the NoC (tt-umd, GRID_SIZE)
	byColumn         bool // harvesting switches off columns of Tensix tiles; false: rows
}

var layouts = map[wire.Arch]layout{
	wire.Wormhole: {
		tensixX: []uint8{1, 2, 3, 4, 6, 7, 8, 9}, tensixY: []uint8{1, 2, 3, 4, 5, 7, 8, 9, 10, 11},
		eth: []xy{{9, 0}, {1, 0}, {8, 0}, {2, 0}, {7, 0}, {3, 0}, {6, 0}, {4, 0}, {9, 6}, {1, 6}, {8, 6}, {2, 6}, {7, 6}, {3, 6}, {6, 6}, {4, 6}},
		dram: [][]xy{{{0, 0}, {0, 1}, {0, 11}}, {{0, 5}, {0, 6}, {0, 7}}, {{5, 0}, {5, 1}, {5, 11}},
			{{5, 2}, {5, 9}, {5, 10}}, {{5, 3}, {5, 4}, {5, 8}}, {{5, 5}, {5, 6}, {5, 7}}},
		bare: map[Kind][]xy{ARC: {{0, 10}}, PCIe: {{0, 3}}, Router: {{0, 2}, {0, 4}, {0, 8}, {0, 9}}},
		l1:   wormholeL1, ethL1: wormholeEthL1, bank: wormholeBank, width: 10, height: 12,
	},
	wire.Blackhole: {
		tensixX: []uint8{1, 2, 3, 4, 5, 6, 7, 10, 11, 12, 13, 14, 15, 16}, tensixY: []uint8{2, 3, 4, 5, 6, 7, 8, 9, 10, 11},
		eth: []xy{{1, 1}, {16, 1}, {2, 1}, {15, 1}, {3, 1}, {14, 1}, {4, 1}, {13, 1}, {5, 1}, {12, 1}, {6, 1}, {11, 1}, {7, 1}, {10, 1}},
		dram: [][]xy{{{0, 0}, {0, 1}, {0, 11}}, {{0, 2}, {0, 10}, {0, 3}}, {{0, 9}, {0, 4}, {0, 8}}, {{0, 5}, {0, 7}, {0, 6}},
			{{9, 0}, {9, 1}, {9, 11}}, {{9, 2}, {9, 10}, {9, 3}}, {{9, 9}, {9, 4}, {9, 8}}, {{9, 5}, {9, 7}, {9, 6}}},
		bare: map[Kind][]xy{ARC: {{8, 0}}, PCIe: {{2, 0}, {11, 0}}, Router: {{1, 0}, {3, 0}, {4, 0}, {5, 0}, {6, 0}, {7, 0}, {10, 0}, {12, 0}, {13, 0}, {14, 0}, {15, 0}, {16, 0},
			{8, 1}, {8, 4}, {8, 6}, {8, 8}, {8, 10}, {8, 11}}},
		l1: blackholeL1, ethL1: blackholeEth, bank: blackholeBank, width: 17, height: 12, byColumn: true,
	},
}

// tiles returns a chip's tiles: Tensix row by row, ethernet by channel, DRAM by bank, and tiles
// without memory by kind.
func tiles(a wire.Arch) ([]Tile, error) {
	l, ok := layouts[a]
	if !ok {
		return nil, fmt.Errorf("architecture %s has no floor plan: want %s or %s", a, wire.Wormhole, wire.Blackhole)
	}
	var out []Tile
	bank := int32(0)
	for _, y := range l.tensixY {
		for _, x := range l.tensixX {
			out = append(out, Tile{X: x, Y: y, Kind: Tensix, Name: fmt.Sprintf("T%d", bank), Size: l.l1, bank: bank})
			bank++
		}
	}
	for i, p := range l.eth {
		out = append(out, Tile{X: p[0], Y: p[1], Kind: Ethernet, Name: fmt.Sprintf("E%d", i), Size: l.ethL1, bank: bank})
		bank++
	}
	for i, stops := range l.dram {
		for k, p := range stops {
			out = append(out, Tile{X: p[0], Y: p[1], Kind: DRAM, Name: fmt.Sprintf("D%d", i), Size: l.bank, bank: bank, number: i, stop: k})
		}
		bank++
	}
	for _, k := range []Kind{ARC, PCIe, Router} {
		for i, p := range l.bare[k] {
			out = append(out, Tile{X: p[0], Y: p[1], Kind: k, Name: fmt.Sprintf("%c%d", k[0]-'a'+'A', i), bank: bank})
			bank++
		}
	}
	return out, nil
}

// EthernetTile returns the coordinate of the ethernet tile of a channel, on a chip of an architecture.
// EthernetTile returns false if the architecture has no such tile.
func EthernetTile(a wire.Arch, ch wire.Channel) (x, y uint8, ok bool) {
	l := layouts[a]
	if int(ch) >= len(l.eth) {
		return 0, 0, false
	}
	return l.eth[ch][0], l.eth[ch][1], true
}
