package chip

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
	"time"

	"ttfabric/node/firmware/board"
	"ttfabric/node/noc"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// discovery reads the chips of a fabric as tt-umd's topology discovery does. A discovery does not
// know the topology, and has only the answers to its reads.
type discovery struct {
	w     *fabric
	arch  wire.Arch
	reads int
	fail  error // first read or value that tt-umd would refuse

	chips map[uint64]*found // by unique id
	order []uint64          // unique ids in the order of discovery
	links map[[2]end]bool
	away  map[end]uint64 // links to chips of other hosts
}

// found is a chip that a discovery has found.
type found struct {
	at       *Chip // the emulator behind the reads; for a remote chip, reached by the position that its neighbour gave
	coord    board.Coord
	board    uint64
	location uint32
	harvest  uint16
	mmio     bool
}

type end struct {
	chip uint64
	ch   uint32
}

func (d *discovery) failed(format string, args ...any) {
	if d.fail == nil {
		d.fail = fmt.Errorf(format, args...)
	}
}

// read reads n bytes of a tile.
func (d *discovery) read(c *Chip, x, y uint8, off uint64, n int) []byte {
	b := make([]byte, n)
	d.reads++
	d.w.now = d.w.now.Add(10 * time.Microsecond)
	c.Pump(d.w.now)
	if o := c.Memory().Read(wire.NewNocAddr(x, y, off), b); o != wire.OutcomeDone {
		d.failed("chip %s (%d,%d) offset %#x: %s", c.Node(), x, y, off, o)
	}
	return b
}

func (d *discovery) word(c *Chip, x, y uint8, off uint64) uint32 {
	return binary.LittleEndian.Uint32(d.read(c, x, y, off, 4))
}

func (d *discovery) write(c *Chip, x, y uint8, off uint64, v uint32) {
	cmd := wire.Command{Type: wire.NocInlineWrite, Addr: wire.NewNocAddr(x, y, off), Value: v}
	if o := c.Memory().Execute(&cmd, nil); o != wire.OutcomeDone {
		d.failed("chip %s (%d,%d) store at %#x: %s", c.Node(), x, y, off, o)
	}
}

// telemetry reads the telemetry table and its values, tag by tag.
func (d *discovery) telemetry(c *Chip, x, y uint8, table, values uint64) map[uint32]uint32 {
	n := d.word(c, x, y, table+4)
	if n == 0 || n > 69 {
		d.failed("the telemetry has %d entries", n)
		return nil
	}
	tags, data := d.read(c, x, y, table+8, int(n)*4), d.read(c, x, y, values, int(n)*4)
	out := map[uint32]uint32{}
	for i := range n {
		e := d.word(c, x, y, table+8+uint64(i)*4)
		if e != binary.LittleEndian.Uint32(tags[i*4:]) || e>>16 >= n {
			d.failed("telemetry entry %d is %#x", i, e)
			return nil
		}
		out[e&0xFFFF] = binary.LittleEndian.Uint32(data[e>>16*4:])
	}
	return out
}

// translation checks that NIU_CFG_0 and the telemetry agree with the topology on whether the chip
// translates NoC coordinates. The chip must take a translated coordinate only if the chip
// translates coordinates.
func (d *discovery) translation(c *Chip, config, tag uint32) {
	on := uint32(0)
	if t, _ := d.w.m.Chip(c.Node()); !t.Untranslated {
		on = 1
	}
	if config>>14&1 != on || tag != on {
		d.failed("NIU_CFG_0 is %#x and the telemetry's tag 40 is %d, want %d", config, tag, on)
	}
	at, want := wire.NewNocAddr(25, 16, 0), wire.OutcomeDone // E0 of Wormhole
	if d.arch == wire.Blackhole {
		at = wire.NewNocAddr(20, 25, 0)
	}
	if on == 0 {
		want = wire.OutcomeUntranslated
	}
	if o := c.Memory().Check(at, 4); o != want {
		d.failed("chip %s at %s: %s, want %s", c.Node(), at, o, want)
	}
}

// initWormhole is tt-umd's init_tt_device for a Wormhole chip.
func (d *discovery) initWormhole(c *Chip) (f found, ethVersion uint32) {
	const arcX, arcY, apb = 0, 10, 0x880000000
	if v := d.word(c, arcX, arcY, 0xFFFB2002C); v == 0xFFFFFFFF {
		d.failed("the NoC hangs")
	}
	scratch0 := d.word(c, arcX, arcY, apb+0x30060)
	if status := d.word(c, arcX, arcY, apb+0x30074); status != 0 && status&0xFFFF <= 1 && status != 1 || scratch0 != 0xC0DE0001 {
		d.failed("the ARC processor is not ready: %#x, %#x", status, scratch0)
	}
	if d.word(c, arcX, arcY, 0x8100784D4) != 0 {
		d.failed("a DMA transfer is under way")
	}
	if v := d.word(c, arcX, arcY, 0x820078D60+49*4); v < 0x12040000 || v >= 80<<24 {
		d.failed("firmware bundle %#x", v)
	}
	t := d.telemetry(c, arcX, arcY, uint64(d.word(c, arcX, arcY, apb+0x301D0))+0x800000000, uint64(d.word(c, arcX, arcY, apb+0x301D4))+0x800000000)
	if t[28] < 0x12030000 {
		d.failed("firmware bundle %#x in the telemetry", t[28])
	}
	d.translation(c, d.word(c, arcX, arcY, apb+0x50100), t[40])
	d.write(c, arcX, arcY, apb+0x3006C, 0)
	d.write(c, arcX, arcY, apb+0x30074, 0xAA57)
	misc := d.word(c, arcX, arcY, apb+0x30100)
	if misc>>16&1 != 0 {
		d.failed("the trigger of messages stays set")
	}
	d.write(c, arcX, arcY, apb+0x30100, misc|1<<16)
	if s := d.word(c, arcX, arcY, apb+0x30074); s != 0x57 {
		d.failed("message 0xAA57 ended with %#x", s)
	}
	mask := d.word(c, arcX, arcY, apb+0x3006C)
	rows := []int{11, 1, 10, 2, 9, 3, 8, 4, 7, 5}
	sorted := slices.Sorted(slices.Values(rows))
	for bit, row := range rows {
		f.harvest |= uint16(mask>>bit&1) << slices.Index(sorted, row)
	}
	f.at, f.board, f.location = c, uint64(t[1])<<32|uint64(t[2]), t[52]
	return f, t[24]
}

// isTrained is tt-umd's read_eth_core_training_status.
func (d *discovery) isTrained(c *Chip, x, y uint8) bool {
	if d.word(c, x, y, 0x1EFC) == 1 {
		return false
	}
	switch d.word(c, x, y, 0x1104) {
	case 1:
		return true
	case 2:
		d.word(c, x, y, 0x1440)
	}
	return false
}

func (d *discovery) id(c *Chip, x, y uint8, at uint64) uint64 {
	return uint64(d.word(c, x, y, 0x1EC0+4*at)) | uint64(d.word(c, x, y, 0x1EC0+4*(at+1)))<<32
}

// wormhole discovers a fabric of Wormhole chips from the chips that the host reaches.
func (d *discovery) wormhole(mmio []*Chip) {
	boards := map[uint64]bool{}
	galaxy := false
	for i, c := range mmio {
		f, _ := d.initWormhole(c)
		f.mmio = true
		if i == 0 {
			galaxy = f.board>>36&0xFFFFF == 0x35
		}
		id, unconnected := f.board, true
		for ch := range wire.Channel(16) {
			x, y, _ := noc.EthernetTile(d.arch, ch)
			if galaxy {
				boards[d.id(c, x, y, 64)] = true
			} else {
				boards[uint64(board.Mangle(f.board))] = true
			}
			if unconnected && d.isTrained(c, x, y) {
				id, unconnected = d.id(c, x, y, 64), false
			}
		}
		d.add(id, &f)
	}
	for i := 0; i < len(d.order) && d.fail == nil; i++ {
		d.tiles(d.order[i], boards, galaxy)
	}
}

func (d *discovery) add(id uint64, f *found) {
	if d.chips[id] != nil {
		d.failed("two chips have the id %#x", id)
	}
	d.chips[id] = f
	d.order = append(d.order, id)
}

// tiles discovers what the ethernet tiles of a chip know.
func (d *discovery) tiles(id uint64, boards map[uint64]bool, galaxy bool) {
	f := d.chips[id]
	c := f.at
	located := false
	for ch := range wire.Channel(16) {
		x, y, _ := noc.EthernetTile(d.arch, ch)
		if d.word(c, x, y, 0x1008)>>ch&1 != 0 || d.word(c, x, y, 0xFFB121B0)>>11&1 != 0 {
			d.failed("channel %d of %#x is disabled", ch, id)
		}
		beat, ok := d.word(c, x, y, 0x1C), false
		for range 100 {
			next := d.word(c, x, y, 0x1C)
			if ok = next != beat && next>>16 == 0xABCD; ok {
				break
			}
		}
		if v := d.word(c, x, y, 0x210); !ok || beat == 0 || v>>16 < 6 {
			d.failed("channel %d of %#x: heartbeat %#x, version %#x", ch, id, beat, v)
		}
		if v := d.word(c, x, y, 0x1108); !located {
			f.coord, located = board.Coord{X: uint8(v >> 16), Y: uint8(v >> 24), Rack: uint8(v), Shelf: uint8(v >> 8)}, true
		}
		if !d.isTrained(c, x, y) {
			continue
		}
		if (d.word(c, x, y, 0x104C) == 1) != galaxy {
			d.failed("channel %d of %#x: routing firmware", ch, id)
		}
		far := d.id(c, x, y, 72)
		on := far
		if !galaxy {
			on = uint64(d.word(c, x, y, 0x1EC0+4*72))
		}
		other := end{far, d.word(c, x, y, 0x1EC0+4*76)}
		if !boards[on] {
			d.away[end{id, uint32(ch)}] = far
			continue
		}
		if d.chips[far] == nil {
			d.remote(c, x, y, far)
		}
		d.link(end{id, uint32(ch)}, other)
	}
}

// remote initialises a chip that the host reaches over the ethernet tiles. The base firmware finds
// the chip by its position; in this test, the fabric's chip with this position answers instead of
// the firmware.
func (d *discovery) remote(c *Chip, x, y uint8, far uint64) {
	xy, rack := d.word(c, x, y, 0x1124), d.word(c, x, y, 0x1128)
	at := board.Coord{X: uint8(xy >> 16 & 0x3F), Y: uint8(xy >> 22 & 0x3F), Rack: uint8(rack), Shelf: uint8(rack >> 8)}
	for n, p := range board.Coords(d.w.m) {
		if p == at {
			f, _ := d.initWormhole(d.w.at[n])
			d.add(far, &f)
			return
		}
	}
	d.failed("no chip is at %v", at)
}

func (d *discovery) link(a, b end) {
	if b.chip < a.chip || b.chip == a.chip && b.ch < a.ch {
		a, b = b, a
	}
	d.links[[2]end{a, b}] = true
}

// blackhole discovers a fabric of Blackhole chips, all of which the host reaches.
func (d *discovery) blackhole(mmio []*Chip) {
	const arcX, arcY, apb = 8, 0, 0x80000000
	type tile struct {
		a, b end
		mask uint32
	}
	var tiles []tile
	masks := map[uint64]uint32{}
	for _, c := range mmio {
		if d.word(c, 2, 0, 0xFFF000044) == 0xFFFFFFFF || d.word(c, arcX, arcY, apb+0x30408)&7 != 5 {
			d.failed("chip %s is not ready", c.Node())
		}
		t := d.telemetry(c, arcX, arcY, uint64(d.word(c, arcX, arcY, apb+0x30434)), uint64(d.word(c, arcX, arcY, apb+0x30430)))
		d.translation(c, d.word(c, arcX, arcY, apb+0x50100), t[40])
		f := &found{at: c, board: uint64(t[1])<<32 | uint64(t[2]), location: t[52], mmio: true}
		for bit, col := range []int{1, 16, 2, 15, 3, 14, 4, 13, 5, 12, 6, 11, 7, 10} {
			f.harvest |= uint16(^t[34]>>bit&1) << slices.Index([]int{1, 2, 3, 4, 5, 6, 7, 10, 11, 12, 13, 14, 15, 16}, col)
		}
		off := ^t[35] & 0x3FFF
		if n := bits.OnesCount32(off); n != 2 && n != 14 {
			d.failed("%d ethernet tiles are harvested, and tt-umd wants 2", n)
		}
		id := uint64(t[61])<<32 | uint64(t[62])
		masks[id] = off
		logical := uint32(0)
		for ch := range wire.Channel(14) {
			if off>>ch&1 != 0 {
				continue
			}
			x, y, _ := noc.EthernetTile(d.arch, ch)
			if d.word(c, x, y, 0x7CC04) == 1 {
				far := (uint64(d.word(c, x, y, 0x7CFE4))<<32|uint64(d.word(c, x, y, 0x7CFE8)))<<5 | uint64(d.read(c, x, y, 0x7CFE1, 1)[0]&0x1F)
				local := (uint64(d.word(c, x, y, 0x7CFC4))<<32|uint64(d.word(c, x, y, 0x7CFC8)))<<5 | uint64(d.read(c, x, y, 0x7CFC1, 1)[0]&0x1F)
				if local != id {
					d.failed("a tile says %#x, and the telemetry %#x", local, id)
				}
				tiles = append(tiles, tile{end{id, logical}, end{far, uint32(d.read(c, x, y, 0x7CFE2, 1)[0])}, 0})
				if v := d.read(c, x, y, 0x7CFBE, 1)[0]; v < 1 || d.word(c, x, y, 0x7CC70)>>16 != 0xABCD {
					d.failed("version %d", v)
				}
			}
			logical++
		}
		d.add(id, f)
	}
	for _, t := range tiles { // tt-umd's patch_eth_connections: the far end's number without harvested tiles
		t.b.ch -= uint32(bits.OnesCount32(masks[t.b.chip] & (1<<t.b.ch - 1)))
		d.link(t.a, t.b)
	}
}

// discover discovers a fabric.
func discover(w *fabric) *discovery {
	d := &discovery{w: w, arch: w.m.Arch, chips: map[uint64]*found{}, links: map[[2]end]bool{}, away: map[end]uint64{}}
	var mmio []*Chip
	all := !slices.ContainsFunc(w.m.Chips, func(c topo.Chip) bool { return c.MMIO })
	for i, c := range w.m.Chips {
		if c.MMIO || all {
			mmio = append(mmio, w.chips[i])
		}
	}
	if d.arch == wire.Blackhole {
		d.blackhole(mmio)
	} else {
		d.wormhole(mmio)
	}
	return d
}
