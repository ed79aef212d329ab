package kernel

import (
	"fmt"

	"ttfabric/node/noc"
	"ttfabric/router/topo"
)

// The L1 of an ethernet tile, in bytes from its start. The addresses are those of tt-metal's
// eth_l1_address_map.h of 2024 for Wormhole. The public documents say of the kernels' area only that it
// is about 150 KB (CCL guide, "Ethernet Core (ERISC)"), so EthBase is our own choice.
const (
	EriscInfo        = 0x18030 // the words that firmware and kernels share: launch_user_kernel, three more words, then the channels
	EriscChannels    = 0x18040 // channels[0]; each channel has [ChannelSize] bytes
	EthSemaphores    = 0x18150 // semaphores of ethernet kernels
	EthBase          = 0x18300 // first byte for kernels (ERISC_L1_UNRESERVED_BASE); the setup handshake uses the first 16 bytes
	EthEnd           = 0x3FFE0 // end of the kernels' area; the last 32 bytes of L1 are the barrier's
	NumChannels      = 8       // channels of the ethernet dataflow API (tt-metal: MAX_NUM_CONCURRENT_TRANSACTIONS)
	ChannelSize      = 16      // bytes of an eth_channel_sync_t
	NumSemaphores    = 16      // semaphores of one tile that a program can create
	semaphoreSize    = 16      // distance of two semaphores in bytes
	TensixSemaphores = 0x10000 // semaphores of Tensix kernels; our own choice
	TensixBase       = 0x10400 // first byte of a Tensix tile for buffers of kernels; our own choice
	bufferAlign      = 32      // alignment of buffers, in bytes: what DRAM transfers need
)

// HandshakeAddr is the address of the setup handshake, the same for every ethernet kernel (CCL guide,
// "Ethernet Kernel Setup (Device Side)"). Kernels use addresses from HandshakeAddr + 16 on.
const HandshakeAddr = EthBase

// Builder makes a program for a chip. The builder chooses the addresses of semaphores and buffers. Two
// builders that get the same calls choose the same addresses, so the programs of two chips can use the
// same addresses at both ends of a cable.
type Builder struct {
	Program Program
	tiles   map[Tile]noc.Tile
	tensix  []Tile
	next    map[Tile]uint32
	sems    map[Tile]int
}

// NewBuilder returns a builder of a program for a chip of a machine. The builder leaves out the tiles that
// are harvested on any chip of the machine, so that all chips can use the same tiles.
func NewBuilder(t *topo.Topology) (*Builder, error) {
	m, err := noc.New(t.Arch, 0)
	if err != nil {
		return nil, err
	}
	var harvested noc.Harvested
	for _, c := range t.Chips {
		harvested |= noc.Harvested(c.Harvested)
	}
	if err := m.Harvest(harvested); err != nil {
		return nil, err
	}
	b := &Builder{tiles: map[Tile]noc.Tile{}, next: map[Tile]uint32{}, sems: map[Tile]int{}}
	for _, t := range m.Tiles() {
		if (t.Kind == noc.Tensix || t.Kind == noc.Ethernet) && !t.Harvested {
			b.tiles[Tile{t.X, t.Y}] = t
			if t.Kind == noc.Tensix {
				b.tensix = append(b.tensix, Tile{t.X, t.Y})
			}
		}
	}
	return b, nil
}

// Tensix returns the i-th Tensix tile that works on all chips of the machine, row by row, from 0. Tensix returns false if there are not so many.
func (b *Builder) Tensix(i int) (Tile, bool) {
	if i < 0 || i >= len(b.tensix) {
		return Tile{}, false
	}
	return b.tensix[i], true
}

// CreateKernel adds a kernel to the program (tt-metal: CreateKernel, SetRuntimeArgs). Each argument
// becomes four bytes, little endian.
func (b *Builder) CreateKernel(name string, t Tile, args ...uint32) error {
	if _, ok := b.tiles[t]; !ok {
		return fmt.Errorf("kernel %q: the chip has no Tensix or ethernet tile %s", name, t)
	}
	var raw []byte
	for _, a := range args {
		raw = append(raw, byte(a), byte(a>>8), byte(a>>16), byte(a>>24))
	}
	b.Program.Kernels = append(b.Program.Kernels, Start{Kernel: name, Tile: t, Args: raw})
	return nil
}

// CreateSemaphore adds a semaphore, and returns its address in the tile (tt-metal: CreateSemaphore). The
// program's start writes the value. Programs of other chips start earlier or later, so only kernels of
// this chip may use the semaphore; see CreateGlobalSemaphore.
func (b *Builder) CreateSemaphore(t Tile, value uint32) (uint32, error) {
	tile, ok := b.tiles[t]
	if !ok {
		return 0, fmt.Errorf("semaphore: the chip has no Tensix or ethernet tile %s", t)
	}
	n := b.sems[t]
	if n == NumSemaphores {
		return 0, fmt.Errorf("semaphore on tile %s: a program creates at most %d on one tile", t, NumSemaphores)
	}
	base := uint32(TensixSemaphores)
	if tile.Kind == noc.Ethernet {
		base = EthSemaphores
	}
	b.sems[t]++
	s := Semaphore{t, base + uint32(n)*semaphoreSize, value}
	b.Program.Semaphores = append(b.Program.Semaphores, s)
	return s.Addr, nil
}

// CreateGlobalSemaphore adds a semaphore that the program's start leaves alone, and returns its address in
// the tile (tt-metal: CreateGlobalSemaphore). Kernels of other chips may change it before this chip's
// program starts. Memory that nobody has written is 0.
func (b *Builder) CreateGlobalSemaphore(t Tile) (uint32, error) {
	return b.CreateBuffer(t, semaphoreSize)
}

// CreateBuffer adds a buffer of size bytes, and returns its address in the tile, a multiple of 32.
func (b *Builder) CreateBuffer(t Tile, size uint32) (uint32, error) {
	tile, ok := b.tiles[t]
	if !ok {
		return 0, fmt.Errorf("buffer: the chip has no Tensix or ethernet tile %s", t)
	}
	first, end := uint64(TensixBase), tile.Size
	if tile.Kind == noc.Ethernet {
		first, end = EthBase+bufferAlign, EthEnd // the handshake has the first bytes
	}
	at := max(uint64(b.next[t]), (first+bufferAlign-1)/bufferAlign*bufferAlign)
	if at+uint64(size) > end {
		return 0, fmt.Errorf("buffer of %d bytes on tile %s: %d bytes are left", size, t, end-min(at, end))
	}
	b.next[t] = uint32((at + uint64(size) + bufferAlign - 1) / bufferAlign * bufferAlign)
	b.Program.Buffers = append(b.Program.Buffers, Buffer{t, uint32(at), size})
	return uint32(at), nil
}
