package kernel

import (
	"encoding/binary"
	"fmt"

	"ttfabric/node/noc"
	"ttfabric/router/topo"
)

// The L1 of an ethernet tile, in bytes from its start. The addresses are those of tt-metal's
// eth_l1_address_map.h of 2024 for Wormhole. The public documents only say that the kernels' area
// has about 150 KB (CCL guide, "Ethernet Core (ERISC)"). So EthBase is our own choice.
const (
	EriscInfo        = 0x18030 // the words that firmware and kernels share: launch_user_kernel, which is 1 while a kernel uses the tile, three more words, then the channels
	EriscChannels    = 0x18040 // channels[0]; each channel has [ChannelSize] bytes
	EthSemaphores    = 0x18150 // semaphores of ethernet kernels
	EthBase          = 0x18300 // first byte for kernels (ERISC_L1_UNRESERVED_BASE); the setup handshake uses the first 16 bytes
	EthEnd           = 0x3FFE0 // end of the kernels' area; the last 32 bytes of L1 are for tt-metal's barrier
	NumChannels      = 8       // channels of the ethernet dataflow API (tt-metal: MAX_NUM_CONCURRENT_TRANSACTIONS)
	ChannelSize      = 16      // bytes of an eth_channel_sync_t
	NumSemaphores    = 16      // semaphores of one tile that a program can create
	semaphoreSize    = 16      // distance of two semaphores in bytes
	TensixSemaphores = 0x10000 // semaphores of Tensix kernels; our own choice
	TensixBase       = 0x10400 // first byte of a Tensix tile for buffers of kernels; our own choice
	bufferAlign      = 32      // alignment of buffers, in bytes: DRAM transfers need this alignment
)

// HandshakeAddr is the address of the setup handshake, the same for every ethernet kernel (CCL guide,
// "Ethernet Kernel Setup (Device Side)"). Kernels use addresses from HandshakeAddr + 16 on.
const HandshakeAddr = EthBase

// Builder makes a program for a chip. The builder chooses the addresses of semaphores and buffers.
// Two builders that get the same calls choose the same addresses. So the programs of two chips can
// use the same addresses at both ends of a cable. After a wrong call, all further calls do nothing,
// and [Builder.Build] returns the error.
type Builder struct {
	program Program
	err     error // error of the first wrong call
	tiles   map[Tile]noc.Tile
	tensix  []Tile
	next    map[Tile]uint32
	sems    map[Tile]int
}

// NewBuilder returns a builder of a program for a chip of a machine. The builder leaves out the tiles that
// are harvested on any chip of the machine, so that all chips can use the same tiles.
func NewBuilder(t *topo.Topology) *Builder {
	b := &Builder{tiles: map[Tile]noc.Tile{}, next: map[Tile]uint32{}, sems: map[Tile]int{}}
	m, err := noc.New(t.Arch, 0)
	if err != nil {
		b.err = err
		return b
	}
	var harvested noc.Harvested
	for _, c := range t.Chips {
		harvested |= noc.Harvested(c.Harvested)
	}
	if b.err = m.Harvest(harvested); b.err != nil {
		return b
	}
	for _, t := range m.Tiles() {
		if (t.Kind == noc.Tensix || t.Kind == noc.Ethernet) && !t.Harvested {
			b.tiles[Tile{t.X, t.Y}] = t
			if t.Kind == noc.Tensix {
				b.tensix = append(b.tensix, Tile{t.X, t.Y})
			}
		}
	}
	return b
}

// Build returns the program, or the error of the first wrong call.
func (b *Builder) Build() (Program, error) { return b.program, b.err }

// Job returns a job with the program as its only program, or the error of the first wrong call. The job's
// chips are all chips of the machine t.
func (b *Builder) Job(id JobID, t *topo.Topology) (Job, error) {
	return Job{ID: id, Chips: t.Nodes(), Programs: []Program{b.program}}, b.err
}

// fail notes the first error.
func (b *Builder) fail(format string, args ...any) {
	if b.err == nil {
		b.err = fmt.Errorf(format, args...)
	}
}

// tile returns a tile that a program can use on all chips. For another tile, tile notes an error that
// begins with the text "what", and returns false. After an error, tile returns false for every tile.
func (b *Builder) tile(what string, t Tile) (noc.Tile, bool) {
	n, ok := b.tiles[t]
	if !ok {
		b.fail("%s on tile %s: want a Tensix or ethernet tile that works on all chips", what, t)
	}
	return n, ok && b.err == nil
}

// Tensix returns the i-th Tensix tile that works on all chips of the machine, row by row, from 0.
func (b *Builder) Tensix(i int) Tile {
	if i < 0 || i >= len(b.tensix) {
		b.fail("Tensix tile %d: the chips have %d that work on all of them", i, len(b.tensix))
		return Tile{}
	}
	return b.tensix[i]
}

// CreateKernel adds a kernel to the program (tt-metal: CreateKernel, SetRuntimeArgs). Each argument
// becomes four bytes, little endian.
func (b *Builder) CreateKernel(name string, t Tile, args ...uint32) {
	b.CreateKernelWith(name, t, nil, args...)
}

// CreateKernelWith is CreateKernel for a kernel with compile-time arguments, see [Context.Constant].
func (b *Builder) CreateKernelWith(name string, t Tile, constants []uint32, args ...uint32) {
	if _, ok := b.tile("kernel "+name, t); !ok {
		return
	}
	var raw []byte
	for _, a := range args {
		raw = binary.LittleEndian.AppendUint32(raw, a)
	}
	b.program.Kernels = append(b.program.Kernels, Start{Kernel: name, Tile: t, Args: raw, Constants: constants})
}

// CreateSemaphore adds a semaphore, and returns its address in the tile (tt-metal: CreateSemaphore). The
// program's start writes the value. Programs of other chips start earlier or later, so only kernels of
// this chip may use the semaphore; see CreateGlobalSemaphore.
func (b *Builder) CreateSemaphore(t Tile, value uint32) uint32 {
	tile, ok := b.tile("semaphore", t)
	if !ok {
		return 0
	}
	n := b.sems[t]
	if n == NumSemaphores {
		b.fail("semaphore on tile %s: a program creates at most %d on one tile", t, NumSemaphores)
		return 0
	}
	base := uint32(TensixSemaphores)
	if tile.Kind == noc.Ethernet {
		base = EthSemaphores
	}
	b.sems[t]++
	s := Semaphore{t, base + uint32(n)*semaphoreSize, value}
	b.program.Semaphores = append(b.program.Semaphores, s)
	return s.Addr
}

// InitSemaphore says that the program's start writes the value into the word at address a of a
// tile, a multiple of 16. The 16 bytes from a on belong to the job, and may lie in a buffer of the
// program.
func (b *Builder) InitSemaphore(t Tile, a, value uint32) {
	if _, ok := b.tile("semaphore", t); ok {
		b.program.Semaphores = append(b.program.Semaphores, Semaphore{t, a, value})
	}
}

// CreateGlobalSemaphore adds a semaphore that the program's start does not write, and returns its
// address in the tile (tt-metal: CreateGlobalSemaphore). Kernels of other chips may change the
// semaphore before this chip's program starts. Memory that nobody has written is 0.
func (b *Builder) CreateGlobalSemaphore(t Tile) uint32 { return b.CreateBuffer(t, semaphoreSize) }

// CreateBuffer adds a buffer of size bytes, and returns its address in the tile, a multiple of 32.
func (b *Builder) CreateBuffer(t Tile, size uint32) uint32 {
	tile, ok := b.tile("buffer", t)
	if !ok {
		return 0
	}
	first, end := uint64(TensixBase), tile.Size
	if tile.Kind == noc.Ethernet {
		first, end = EthBase+bufferAlign, EthEnd // the handshake has the first bytes
	}
	at := max(uint64(b.next[t]), (first+bufferAlign-1)/bufferAlign*bufferAlign)
	if at+uint64(size) > end {
		b.fail("buffer of %d bytes on tile %s: %d bytes are left", size, t, end-min(at, end))
		return 0
	}
	b.next[t] = uint32((at + uint64(size) + bufferAlign - 1) / bufferAlign * bufferAlign)
	b.program.Buffers = append(b.program.Buffers, Buffer{t, uint32(at), size})
	return uint32(at)
}
