package topo

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"ttfabric/wire"
)

// Limits of a cluster descriptor.
const (
	maxUMD        = math.MaxInt32 // largest chip id: tt-umd keeps ids as C++ ints
	maxCoordinate = 255           // largest coordinate: the chip's firmware keeps each coordinate in one byte (tt-umd, ethernet coordinates)
)

// descriptor is the state of a reader of one cluster descriptor.
type descriptor struct {
	file
	root   *yaml.Node
	keys   map[string]pair // top-level keys of the file
	arch   wire.Arch
	chips  map[int]*umdChip
	ids    []int                 // ids of the chips, sorted
	cables []umdCable            // cables between chips of the descriptor, each once
	peer   map[umdPort]umdTarget // far end of each cable, by each of its two ports
	layout string                // a sentence that says how the chips got their rows and columns
	origin [2]int                // x and y of the north-west corner, in the file's coordinates
	away   int                   // number of cables to other hosts
	again  int                   // number of entries that list a cable again
	far    []FarCable            // cables to other hosts
	double bool                  // a port may have several cables in the file; twice then counts the cables after the first
	twice  int
}

// umdChip is a chip as the cluster descriptor describes it.
type umdChip struct {
	id       int
	coord    [4]int // x, y, rack, shelf; after place: column and row
	mesh     wire.MeshID
	told     [4]int     // x, y, rack, shelf, as in the file
	at       *yaml.Node // YAML node of the coordinates; nil: the file has no coordinates of this chip
	board    string
	boardID  uint64
	onBoard  bool
	unique   uint64
	mmio     bool
	channels int // number of ethernet channels that are not harvested
	fused    int // number of harvested ethernet channels

	harvested    uint16 // mask of the Tensix tiles that are switched off
	untranslated bool   // the chip has no translated NoC coordinates

	bus      int // number of the chip's PCI bus, or noPlace
	location int // number of the chip on its board, or noPlace
}

// readAll reads and checks all keys of the file.
func (d *descriptor) readAll() error {
	for _, read := range []func() error{
		d.readArch, d.readHarvesting, d.readCoords, d.readUniqueIDs, d.readMMIO, d.readBoardTypes, d.readBoards,
		d.readConnections, d.readRemote, d.readRest,
	} {
		if err := read(); err != nil {
			return err
		}
	}
	return nil
}

// load reads and checks all keys of the file, and builds the topology.
func (d *descriptor) load(name string) (*Topology, error) {
	if err := d.readAll(); err != nil {
		return nil, err
	}
	meshes, err := d.place()
	if err != nil {
		return nil, err
	}
	t := &Topology{Name: strings.ToValidUTF8(name, "\uFFFD"), Source: strings.ToValidUTF8(d.path, "\uFFFD"), Arch: d.arch, Layout: layoutOf(meshes)}
	leave(&t.LeftOut, d.away, "cables to other hosts", "a topology has only the chips of its file")
	leave(&t.LeftOut, d.again, "entries that list a cable again", "the topology has each cable once")
	third, astray := 0, 0
	for _, p := range meshes {
		third, astray = third+len(p.inThird), astray+p.astray
	}
	leave(&t.LeftOut, third, "cables in direction Z within a mesh", "a mesh has two dimensions")
	leave(&t.LeftOut, astray, "cables between chips that are not neighbours in the grid", "a mesh has two dimensions")
	for _, p := range meshes {
		t.Meshes = append(t.Meshes, p.mesh)
		for _, c := range p.cables {
			t.Cables = append(t.Cables, Cable{A: d.port(meshes, c.ends[0]), B: d.port(meshes, c.ends[1])})
		}
		for _, l := range p.lacks {
			t.Missing = append(t.Missing, Edge{node(p.mesh, d.chips[l[0]]), node(p.mesh, d.chips[l[1]])})
		}
	}
	for _, id := range d.ids {
		c := d.chips[id]
		t.Chips = append(t.Chips, Chip{Node: node(meshes[c.mesh].mesh, c), Row: c.coord[1], Col: c.coord[0], UMD: id, Board: c.board, BoardID: c.boardID, UniqueID: c.unique, MMIO: c.mmio, Harvested: c.harvested, Untranslated: c.untranslated})
	}
	d.position(t)
	exits, without := NewExits(t), 0
	for _, c := range d.cross(meshes) {
		without += bit(!exits.Add(c))
	}
	leave(&t.LeftOut, without, "cables between shelves", "the chip at one end has no free direction")
	if err := t.finish(); err != nil {
		return nil, d.fail(d.root, "%v", err)
	}
	return t, nil
}

func (d *descriptor) port(meshes []*placed, p umdPort) wire.PortID {
	c := d.chips[p.chip]
	return wire.PortID{Node: node(meshes[c.mesh].mesh, c), Channel: p.channel}
}

// layoutOf returns the field Layout of a topology of the given meshes.
func layoutOf(meshes []*placed) string {
	var parts []string
	for _, p := range meshes {
		switch {
		case len(meshes) == 1:
			return p.layout
		case p.layout != "" && p.layout != PlacedByCoordinates && len(parts) < maxNotes:
			parts = append(parts, fmt.Sprintf("mesh %d: %s", p.mesh.ID, p.layout))
		}
	}
	if len(parts) == 0 && slices.ContainsFunc(meshes, func(p *placed) bool { return p.layout != "" }) {
		return PlacedByCoordinates
	}
	return strings.Join(parts, "; ")
}

// cross returns the cables between chips of two meshes. The cables of a third dimension have the direction Z,
// and the other cables have anyDir.
func (d *descriptor) cross(meshes []*placed) (exits []Cable) {
	for _, c := range d.cables {
		p, q, dir := d.port(meshes, c.ends[0]), d.port(meshes, c.ends[1]), anyDir
		if d.inZ(c) {
			dir = wire.Z
		}
		if p.Node.Mesh != q.Node.Mesh {
			exits = append(exits, Cable{A: p, B: q, Dir: dir})
		}
	}
	return exits
}

// position sets the chips' positions, if all chips have positions, and the position of some chip
// does not follow from its row and column.
func (d *descriptor) position(t *Topology) {
	differ := false
	for _, id := range d.ids {
		c := d.chips[id]
		if c.at == nil {
			return
		}
		differ = differ || c.told != [4]int{c.coord[0], c.coord[1]}
	}
	for i, id := range d.ids {
		if p := d.chips[id].told; differ {
			t.Chips[i].Position = Position{Known: true, X: uint8(p[0]), Y: uint8(p[1]), Rack: uint8(p[2]), Shelf: uint8(p[3])}
		}
	}
}

// node returns the fabric address of a chip whose row and column are known.
func node(m Mesh, c *umdChip) wire.FabricNodeID {
	return wire.FabricNodeID{Mesh: m.ID, Chip: wire.ChipID(c.coord[1]*m.Cols + c.coord[0])}
}

// readArch reads the key arch. tt-umd takes the list of chips from this key too.
func (d *descriptor) readArch() error {
	ps, err := d.pairs(d.keys["arch"].val, "arch", "a map of chip ids to architectures")
	if err != nil {
		return err
	}
	if len(ps) == 0 {
		return d.fail(d.root, "no chips: want a key arch that maps chip ids to architectures")
	}
	if len(ps) > wire.MaxChipsPerMesh {
		return d.fail(d.keys["arch"].key, "%d chips; a mesh has at most %d", len(ps), wire.MaxChipsPerMesh)
	}
	d.chips = make(map[int]*umdChip, len(ps))
	for _, p := range ps {
		n, err := d.number(p.key, "chip id", maxUMD)
		if err != nil {
			return err
		}
		id := int(n)
		if d.chips[id] != nil {
			return d.fail(p.key, "chip %d is listed twice", id)
		}
		s, err := d.scalar(p.val, fmt.Sprintf("chip %d", id))
		if err != nil {
			return err
		}
		a, err := wire.ParseArch(s)
		if err != nil {
			return d.fail(p.val, "chip %d: architecture %s: want %s or %s", id, show(p.val), wire.Wormhole, wire.Blackhole)
		}
		if d.arch != wire.ArchUnknown && a != d.arch {
			return d.fail(p.val, "chip %d has the architecture %s and other chips have %s: a fabric has only one architecture (Spec §1.2)", id, a, d.arch)
		}
		d.arch = a
		d.chips[id] = &umdChip{id: id, unique: uint64(id) << 32, channels: Channels(a), bus: noPlace, location: noPlace}
		d.ids = append(d.ids, id)
	}
	slices.Sort(d.ids)
	return nil
}

// chip returns the chip whose id is the value of a YAML node.
func (d *descriptor) chip(n *yaml.Node) (*umdChip, error) {
	id, err := d.number(n, "chip id", maxUMD)
	if err != nil {
		return nil, err
	}
	c := d.chips[int(id)]
	if c == nil {
		return nil, d.fail(n, "chip %d is not listed under arch", id)
	}
	return c, nil
}

// perChip calls read for every entry of a map whose keys are chip ids.
func (d *descriptor) perChip(key, want string, read func(c *umdChip, v *yaml.Node) error) error {
	ps, err := d.pairs(d.keys[key].val, key, "a map of chip ids to "+want)
	if err != nil {
		return err
	}
	seen := make(map[int]bool, len(ps))
	for _, p := range ps {
		c, err := d.chip(p.key)
		if err != nil {
			return err
		}
		if seen[c.id] {
			return d.fail(p.key, "%s: chip %d is listed twice", key, c.id)
		}
		seen[c.id] = true
		if err := read(c, p.val); err != nil {
			return err
		}
	}
	return nil
}

// readHarvesting reads which Tensix tiles and how many ethernet channels of each chip are
// harvested. Harvested means switched off. readHarvesting also reads whether the chip translates
// NoC coordinates. The descriptor numbers the remaining channels from 0.
func (d *descriptor) readHarvesting() error {
	const want = "harvesting masks"
	return d.perChip("harvesting", want, func(c *umdChip, v *yaml.Node) error {
		ps, err := d.pairs(v, fmt.Sprintf("harvesting of chip %d", c.id), "a map of masks")
		if err != nil {
			return err
		}
		for _, p := range ps {
			what := fmt.Sprintf("chip %d: %s", c.id, p.key.Value)
			switch p.key.Value {
			case "noc_translation":
				on, err := d.boolean(p.val, what)
				if err != nil {
					return err
				}
				c.untranslated = !on
			case "eth_harvesting_mask":
				mask, err := d.number(p.val, what, 1<<Channels(d.arch)-1)
				if err != nil {
					return err
				}
				c.fused = bits.OnesCount64(mask)
				c.channels -= c.fused
			case "harvest_mask":
				mask, err := d.number(p.val, what, uint64(MaxHarvested(d.arch)))
				if err != nil {
					return err
				}
				c.harvested = uint16(mask)
			case "dram_harvesting_mask", "pcie_harvesting_mask", "l2cpu_harvesting_mask":
				if _, err := d.number(p.val, what, math.MaxUint64); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// readCoords reads chips: {id: [x, y, rack, shelf]}. The parser of tt-umd uses this order of
// coordinates, although a comment in tt-umd's schema gives another order.
func (d *descriptor) readCoords() error {
	return d.perChip("chips", "[x, y, rack, shelf]", func(c *umdChip, v *yaml.Node) error {
		want := fmt.Sprintf("chip %d", c.id)
		vs, err := d.items(v, want, "the four coordinates [x, y, rack, shelf]")
		if err != nil {
			return err
		}
		if len(vs) != len(c.coord) {
			return d.fail(v, "chip %d: want the four coordinates [x, y, rack, shelf]", c.id)
		}
		for k, n := range vs {
			x, err := d.number(n, fmt.Sprintf("chip %d: coordinate", c.id), maxCoordinate)
			if err != nil {
				return err
			}
			c.coord[k] = int(x)
		}
		c.at, c.told = v, c.coord
		return nil
	})
}

func (d *descriptor) readUniqueIDs() error {
	return d.perChip("chip_unique_ids", "64-bit numbers", func(c *umdChip, v *yaml.Node) (err error) {
		c.unique, err = d.number(v, fmt.Sprintf("chip %d: unique id", c.id), math.MaxUint64)
		return err
	})
}

// readMMIO reads chips_with_mmio: a list of {id: PCI index}. In older files, the entries are ids.
func (d *descriptor) readMMIO() error {
	const key = "chips_with_mmio"
	list, err := d.items(d.keys[key].val, key, "a list of {chip id: PCI index}")
	if err != nil {
		return err
	}
	for _, n := range list {
		ids := []*yaml.Node{n}
		if n.Kind == yaml.MappingNode {
			ps, err := d.pairs(n, key, "")
			if err != nil {
				return err
			}
			ids = ids[:0]
			for _, p := range ps {
				if _, err := d.number(p.val, "PCI index", math.MaxInt32); err != nil {
					return err
				}
				ids = append(ids, p.key)
			}
		}
		for _, id := range ids {
			c, err := d.chip(id)
			if err != nil {
				return err
			}
			c.mmio = true
		}
	}
	return nil
}

// readBoardTypes reads boardtype: {id: type}. The tool create-ethernet-map of luwen writes this
// key, and tt-umd writes the key boards.
func (d *descriptor) readBoardTypes() error {
	return d.perChip("boardtype", "board types", func(c *umdChip, v *yaml.Node) (err error) {
		c.board, err = d.scalar(v, fmt.Sprintf("board type of chip %d", c.id))
		return err
	})
}

// readBoards reads boards: [[{board_id}, {board_type}, {chips: […]}]].
func (d *descriptor) readBoards() error {
	boards, err := d.items(d.keys["boards"].val, "boards", "a list of boards")
	if err != nil {
		return err
	}
	for _, b := range boards {
		facts, err := d.items(b, "board", "a list of {board_id}, {board_type} and {chips}")
		if err != nil {
			return err
		}
		var kind string
		var id uint64
		var members []*yaml.Node
		for _, fact := range facts {
			ps, err := d.pairs(fact, "board", "a list of {board_id}, {board_type} and {chips}")
			if err != nil {
				return err
			}
			for _, p := range ps {
				switch p.key.Value {
				case "board_id":
					id, err = d.number(p.val, "board id", math.MaxUint64)
				case "board_type":
					kind, err = d.scalar(p.val, "board type")
				case "chips":
					members, err = d.items(p.val, "chips of a board", "a list of chip ids")
				}
				if err != nil {
					return err
				}
			}
		}
		for _, n := range members {
			c, err := d.chip(n)
			if err != nil {
				return err
			}
			if c.onBoard {
				return d.fail(n, "chip %d is on two boards", c.id)
			}
			c.board, c.boardID, c.onBoard = kind, id, true
		}
	}
	return nil
}

// readRest checks the keys that do not describe chips or cables.
func (d *descriptor) readRest() error {
	for _, key := range []string{"chip_to_bus_id", "chip_pci_bdfs", "asic_locations"} {
		err := d.perChip(key, "plain values", func(c *umdChip, v *yaml.Node) error {
			text, err := d.scalar(v, fmt.Sprintf("%s of chip %d", key, c.id))
			if n, bad := strconv.ParseUint(text, 0, 16); bad == nil && key == "chip_to_bus_id" {
				c.bus = int(n)
			} else if bad == nil && key == "asic_locations" {
				c.location = int(n)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	if v := d.keys["io_device_type"].val; v != nil {
		if _, err := d.scalar(v, "io_device_type"); err != nil {
			return err
		}
	}
	return nil
}
