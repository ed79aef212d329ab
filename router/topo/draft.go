package topo

import (
	"fmt"
	"math/bits"

	"ttfabric/wire"
)

// Numbers of ethernet channels that a draft reserves for each direction. On Wormhole the number is
// four (Spec §2.2.2). On Blackhole the number is as high as the chip's 14 channels allow.
const (
	wormholePerDirection  = 4
	blackholePerDirection = 3
)

// draft is a topology under construction whose description does not give channels, so the draft
// chooses them. A cable in direction d gets the first free channel from d*4 to d*4+3 (on Blackhole,
// from d*3 to d*3+2, and in direction Z channel 12 or 13). If none of these channels is free, the
// cable gets the lowest free channel of the chip. Equal descriptions therefore give equal channels.
type draft struct {
	t     *Topology
	first map[wire.MeshID]int // for each mesh: index of its first chip in t.Chips
	used  []uint16            // for each chip: set of channels in use, one bit for each channel
	dirs  []uint8             // for each chip: set of directions in which a cable leaves the chip, one bit for each direction
	per   int                 // number of channels that are reserved for each direction
}

func newDraft(name, source string, arch wire.Arch) *draft {
	d := &draft{t: &Topology{Name: name, Source: source, Arch: arch}, first: map[wire.MeshID]int{}, per: wormholePerDirection}
	if arch == wire.Blackhole {
		d.per = blackholePerDirection
	}
	return d
}

// addMesh adds a mesh with its chips and cables. Two neighbours in a row get "across" cables. Two
// neighbours in a column get "down" cables.
func (d *draft) addMesh(m Mesh, across, down int) error {
	first := len(d.t.Chips)
	d.first[m.ID] = first
	d.t.Meshes = append(d.t.Meshes, m)
	for i := range m.Rows * m.Cols {
		d.t.Chips = append(d.t.Chips, Chip{Node: wire.FabricNodeID{Mesh: m.ID, Chip: wire.ChipID(i)}, Row: i / m.Cols, Col: i % m.Cols, UMD: NoUMD})
		d.used, d.dirs = append(d.used, 0), append(d.dirs, 0)
	}
	for i := range m.Rows * m.Cols {
		for _, dir := range []wire.Direction{wire.East, wire.South} {
			row, col, ok := m.step(i/m.Cols, i%m.Cols, dir)
			if !ok {
				continue
			}
			n := across
			if dir == wire.South {
				n = down
			}
			if err := d.cable(first+i, first+row*m.Cols+col, dir, dir.Opposite(), n); err != nil {
				return err
			}
		}
	}
	return nil
}

// cable adds n cables between chips a and b, on free channels. The cables leave chip a in direction
// dir and chip b in direction back.
func (d *draft) cable(a, b int, dir, back wire.Direction, n int) error {
	for range n {
		ca, err := d.channel(a, dir)
		if err != nil {
			return err
		}
		cb, err := d.channel(b, back)
		if err != nil {
			return err
		}
		d.join(a, b, ca, cb, dir, back)
	}
	return nil
}

// join adds a cable between channel ca of chip a and channel cb of chip b. Both channels must be
// free.
func (d *draft) join(a, b int, ca, cb wire.Channel, dir, back wire.Direction) {
	d.used[a] |= 1 << ca
	d.used[b] |= 1 << cb
	d.dirs[a] |= 1 << dir
	d.dirs[b] |= 1 << back
	d.t.Cables = append(d.t.Cables, Cable{
		A: wire.PortID{Node: d.t.Chips[a].Node, Channel: ca}, B: wire.PortID{Node: d.t.Chips[b].Node, Channel: cb}, Dir: dir, Back: back,
	})
}

// channel chooses a free channel of the chip for a cable in direction dir. If the chip has no free
// channel, channel returns an error.
func (d *draft) channel(chip int, dir wire.Direction) (wire.Channel, error) {
	for k := range d.per {
		if ch := int(dir)*d.per + k; ch < Channels(d.t.Arch) && d.used[chip]>>ch&1 == 0 {
			return wire.Channel(ch), nil
		}
	}
	ch := bits.TrailingZeros16(^d.used[chip])
	if ch >= Channels(d.t.Arch) {
		return 0, fmt.Errorf("chip %s needs more than the %d ethernet channels of a %s chip; ask for fewer cables", d.t.Chips[chip].Node, Channels(d.t.Arch), d.t.Arch)
	}
	return wire.Channel(ch), nil
}

// free reports whether no cable leaves the chip in direction dir.
func (d *draft) free(chip int, dir wire.Direction) bool { return d.dirs[chip]>>dir&1 == 0 }

// finish completes and validates the topology, and returns it.
func (d *draft) finish() (*Topology, error) {
	if err := d.t.finish(); err != nil {
		return nil, err
	}
	return d.t, nil
}
