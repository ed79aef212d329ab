package topo

import (
	"slices"
	"strings"

	"ttfabric/wire"
)

// Cluster is the content of a cluster descriptor: the chips of one host and their cables, without rows
// and columns.
type Cluster struct {
	Arch   wire.Arch
	Chips  []ClusterChip    // sorted by ID
	Cables [][2]ClusterPort // cables between chips of the host, each once
	Far    []FarCable       // cables to chips of other hosts
	Twice  int              // number of cables at a port to which the file has given another cable before
}

// ClusterChip is a chip of a cluster descriptor. Node, Row and Col have no meaning.
type ClusterChip struct {
	Chip
	Tray     int // number of the tray; 0: the file names no tray, see trayOf
	Location int // number of the chip on the tray; only with a tray
}

// ClusterPort is an ethernet port, by tt-umd's id of the chip.
type ClusterPort struct {
	Chip    int
	Channel wire.Channel
}

// FarCable is a cable to a chip of another host.
type FarCable struct {
	Port    ClusterPort
	Unique  uint64 // unique id of the chip at the other end
	Channel wire.Channel
}

// noPlace says that a file does not give a chip's bus or location.
const noPlace = -1

// LoadCluster reads a cluster descriptor of tt-umd, as [Load] does, but finds no rows and columns, and leaves
// out no cables. A port that has two cables in the file is no error, because tt-umd reads such files. The
// errors are those of Load.
func LoadCluster(path string, data []byte) (*Cluster, error) {
	f := file{path}
	if len(data) > MaxFile {
		return nil, f.fail(nil, "%d bytes; a topology has at most %d", len(data), MaxFile)
	}
	if isProtoGraph(path, data) {
		return nil, f.fail(nil, "this is a mesh graph descriptor; want a cluster descriptor of tt-umd")
	}
	root, top, keys, err := f.open(data)
	if err != nil {
		return nil, err
	}
	d, err := newDescriptor(f, root, top, keys)
	if err != nil {
		return nil, err
	}
	d.double = true
	if err := d.readAll(); err != nil {
		return nil, err
	}
	c := &Cluster{Arch: d.arch, Far: d.far, Twice: d.twice}
	for _, x := range d.cables {
		c.Cables = append(c.Cables, [2]ClusterPort{x.ends[0].public(), x.ends[1].public()})
	}
	boards := d.boards()
	for _, id := range d.ids {
		u := d.chips[id]
		n := ClusterChip{Chip: Chip{UMD: id, Board: u.board, BoardID: u.boardID, UniqueID: u.unique, MMIO: u.mmio, Harvested: u.harvested, Untranslated: u.untranslated}}
		n.Tray, n.Location = d.trayOf(u, boards)
		c.Chips = append(c.Chips, n)
	}
	return c, nil
}

// boards returns the ids of all boards, sorted.
func (d *descriptor) boards() (ids []uint64) {
	for _, c := range d.chips {
		if c.onBoard && !slices.Contains(ids, c.boardID) {
			ids = append(ids, c.boardID)
		}
	}
	slices.Sort(ids)
	return ids
}

// galaxyBus has the upper halves of the PCI bus numbers of the trays of a Galaxy, in the order of the trays
// (tt-metal, ubb_bus_ids). The lower half is the chip's location on the tray.
var galaxyBus = map[wire.Arch][]int{wire.Wormhole: {0xC0, 0x80, 0x00, 0x40}, wire.Blackhole: {0x00, 0x40, 0xC0, 0x80}}

// trayOf returns the tray of a chip, and its location on the tray. In a Galaxy, both follow from the number of
// the PCI bus. In other machines, each board is a tray, in the order of the boards' ids, from 1. On a
// Wormhole board, the chip that the host reaches directly is at location 0, and the other chip at 1. On
// Blackhole, the file gives the location (tt-metal, physical_system_discovery.cpp).
func (d *descriptor) trayOf(c *umdChip, boards []uint64) (tray, location int) {
	if strings.HasPrefix(strings.ToLower(c.board), "ubb") {
		return 1 + slices.Index(galaxyBus[d.arch], c.bus&^0xF), c.bus & 0xF
	}
	if !c.onBoard {
		return 0, 0
	}
	switch tray = 1 + slices.Index(boards, c.boardID); {
	case d.arch == wire.Wormhole:
		location = 1 - bit(c.mmio)
	case c.location == noPlace:
		return 0, 0
	default:
		location = c.location
	}
	return tray, location
}
