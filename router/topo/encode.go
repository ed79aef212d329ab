package topo

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"ttfabric/wire"
)

// ttfabric's topology file format is ttfabric's own format for a topology. This package calls it
// the rendered form. A file in this format lists every chip and cable. The file does not give the
// row and column of each chip, because these follow from the ids of the chips. The file also does
// not give the plane of each cable, and the direction of each cable within a mesh. The planes and
// directions follow from the cables and the ids of the chips.
//
//	ttfabric: 1               # version of the file format
//	name: t3000
//	source: built-in
//	layout: …               # see Topology.Layout; if left out: empty
//	transport: udp          # transport of the links: udp or quic; if left out: the file does not give the transport
//	auth: psk               # how chips authenticate each other: none, psk or mtls; if left out: the file does not give the auth
//	left_out:               # see Topology.LeftOut; if left out: nothing
//	    - {count: 2, what: pinnings, why: …}
//	arch: wormhole_b0
//	meshes:
//	    - id: 0
//	      rows: 2
//	      cols: 4
//	      wrap_x: true        # true: cables join the west end and the east end of each row; if left out: false
//	      wrap_y: true        # true: cables join the north end and the south end of each column; if left out: false
//	      open_x: true        # true: the rows have cables that wrap, but the fabric does not use these cables; if left out: false
//	      open_y: true        # the same for the columns; if left out: false
//	      axes: x             # axis whose cables the fabric uses, x or y; if left out: both axes
//	chips:
//	    - chip: M0D0
//	      umd: 4              # tt-umd's id of the chip; if left out: tt-umd has no id for the chip
//	      board: n300
//	      board_id: 72058994491928619 # id of the board; chips with equal ids are on one board; if left out: unknown
//	      unique_id: 17179869184
//	      mmio: true
//	      harvest_mask: 513   # mask of the Tensix rows (Wormhole) or columns (Blackhole) that are switched off; if left out: 0
//	      position: [2, 1, 0, 0] # x, y, rack and shelf of the chip; if left out: x is the column, y the row, rack and shelf are 0
//	      untranslated: true  # the chip has no translated NoC coordinates; if left out: false
//	cables:
//	    - a: M0D0/0           # chip and channel
//	      b: M0D1/8
//	    - a: M0D5/3
//	      b: M1D3/4
//	      dir: E              # only if the cable joins two meshes: direction in which the cable leaves chip a
//	      back: W             # only if the cable joins two meshes: direction in which the cable leaves chip b
//	      labels: [wan]       # names of this cable for the commands 'netem' and 'link'
//	      netem: delay=1ms    # impairment of the cable from the start; with direction=a-to-b, only from a to b
//	planes: 2                 # largest number of routing planes that the fabric uses; if left out: no limit
//	missing:                  # neighbours without a cable, the western or northern chip first; if left out: none
//	    - [M0D0, M0D1]
//	netem:                    # impairments of several cables, as in the flag 'up --netem'
//	    - label:wan,loss=1%
const (
	renderedKey     = "ttfabric"
	renderedVersion = 1
)

// The type "rendered" is the content of a file that Encode writes. Load does not use this type.
// Load reads YAML nodes instead, because only YAML nodes have the line numbers that error messages
// give.
type rendered struct {
	TTFabric int             `yaml:"ttfabric"`
	Name     string          `yaml:"name"`
	Source   string          `yaml:"source"`
	Layout   string          `yaml:"layout,omitempty"`
	LeftOut  []LeftOut       `yaml:"left_out,omitempty"`
	Carrier  string          `yaml:"transport,omitempty"`
	Auth     string          `yaml:"auth,omitempty"`
	Arch     string          `yaml:"arch"`
	Meshes   []renderedMesh  `yaml:"meshes"`
	Chips    []renderedChip  `yaml:"chips"`
	Cables   []renderedCable `yaml:"cables"`
	Planes   int             `yaml:"planes,omitempty"`
	Missing  [][]string      `yaml:"missing,omitempty,flow"`
	Netem    []string        `yaml:"netem,omitempty"`
}

type renderedMesh struct {
	ID    uint16 `yaml:"id"`
	Rows  int    `yaml:"rows"`
	Cols  int    `yaml:"cols"`
	WrapX bool   `yaml:"wrap_x,omitempty"`
	WrapY bool   `yaml:"wrap_y,omitempty"`
	OpenX bool   `yaml:"open_x,omitempty"`
	OpenY bool   `yaml:"open_y,omitempty"`
	Axes  string `yaml:"axes,omitempty"`
}

type renderedChip struct {
	Chip     string `yaml:"chip"`
	UMD      *int   `yaml:"umd,omitempty"`
	Board    string `yaml:"board,omitempty"`
	BoardID  uint64 `yaml:"board_id,omitempty"`
	UniqueID uint64 `yaml:"unique_id,omitempty"`
	MMIO     bool   `yaml:"mmio,omitempty"`
	Harvest  uint16 `yaml:"harvest_mask,omitempty"`

	Position     []int `yaml:"position,omitempty,flow"`
	Untranslated bool  `yaml:"untranslated,omitempty"`
}

type renderedCable struct {
	A    string `yaml:"a"`
	B    string `yaml:"b"`
	Dir  string `yaml:"dir,omitempty"`
	Back string `yaml:"back,omitempty"`

	Labels []string `yaml:"labels,omitempty,flow"`
	Netem  string   `yaml:"netem,omitempty"`
}

// Encode returns a valid topology in ttfabric's topology file format. [Load] makes the same
// topology from the result, with the following exceptions. In names and other texts, Encode
// replaces bytes that are not UTF-8. Load refuses a file of more than [MaxFile] bytes. Load also
// refuses an impairment that is empty, that has a control character, or in which Encode has
// replaced bytes.
func (t *Topology) Encode() []byte {
	text := func(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
	r := rendered{TTFabric: renderedVersion, Name: text(t.Name), Source: text(t.Source), Layout: text(t.Layout), LeftOut: t.LeftOut, Carrier: t.Transport, Auth: t.Auth, Arch: t.Arch.String(), Planes: t.MaxPlanes}
	for _, m := range t.Meshes {
		r.Meshes = append(r.Meshes, renderedMesh{uint16(m.ID), m.Rows, m.Cols, m.WrapX, m.WrapY, m.OpenX, m.OpenY, m.Axes.String()})
	}
	for _, c := range t.Chips {
		rc := renderedChip{Chip: c.Node.String(), Board: text(c.Board), BoardID: c.BoardID, UniqueID: c.UniqueID, MMIO: c.MMIO, Harvest: c.Harvested, Untranslated: c.Untranslated}
		if c.UMD != NoUMD {
			umd := c.UMD
			rc.UMD = &umd
		}
		if p := c.Position; p.Known {
			rc.Position = []int{int(p.X), int(p.Y), int(p.Rack), int(p.Shelf)}
		}
		r.Chips = append(r.Chips, rc)
	}
	for _, c := range t.Cables {
		rc := renderedCable{A: c.A.Short(), B: c.B.Short()}
		if c.External() {
			rc.Dir, rc.Back = c.Dir.String(), c.Back.String()
		}
		n := t.Notes[c.A]
		rc.Labels, rc.Netem = n.Labels, text(n.Netem)
		r.Cables = append(r.Cables, rc)
	}
	for _, e := range t.Missing {
		r.Missing = append(r.Missing, []string{e.A.String(), e.B.String()})
	}
	for _, d := range t.Netem {
		r.Netem = append(r.Netem, text(d))
	}
	b, err := yaml.Marshal(r)
	if err != nil {
		panic("topo: " + err.Error()) // cannot happen, because plain structs always marshal
	}
	return append([]byte("# A ttfabric topology, rendered. 'ttfabric up FILE' reads it.\n"), b...)
}

// renderedFile is the state of a reader of a file in ttfabric's topology file format.
type renderedFile struct {
	file
	t       *Topology
	meshAt  map[wire.MeshID]*yaml.Node       // YAML node of each mesh
	chipAt  map[wire.FabricNodeID]*yaml.Node // YAML node of each chip
	cableAt map[wire.PortID]*yaml.Node       // YAML node of each cable, by each of the cable's two ports
}

// loadRendered reads a file in ttfabric's topology file format. The parameter "top" has the keys
// and values at the top level of the file. An unknown key is an error, because ttfabric itself
// defines all keys of this format.
func loadRendered(f file, top []pair) (*Topology, error) {
	r := &renderedFile{file: f, t: &Topology{}, meshAt: map[wire.MeshID]*yaml.Node{}, chipAt: map[wire.FabricNodeID]*yaml.Node{}, cableAt: map[wire.PortID]*yaml.Node{}}
	for _, p := range top {
		if p.key.Value != renderedKey {
			continue
		}
		v, err := r.number(p.val, "version of ttfabric's topology file format", math.MaxInt32)
		if err != nil {
			return nil, err
		}
		if v != renderedVersion {
			return nil, r.fail(p.val, "version %d of ttfabric's topology file format; this program reads version %d", v, renderedVersion)
		}
	}
	for _, p := range top {
		if err := r.readKey(p); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(r.t.Meshes, func(a, b Mesh) int { return cmp.Compare(a.ID, b.ID) })
	r.placeByID()
	r.t.arrange()
	if ft := r.t.check(); ft != nil {
		var at *yaml.Node
		if ft.mesh >= 0 {
			at = r.meshAt[r.t.Meshes[ft.mesh].ID]
		} else if ft.chip >= 0 {
			at = r.chipAt[r.t.Chips[ft.chip].Node]
		} else if ft.cable >= 0 {
			at = r.cableAt[r.t.Cables[ft.cable].A]
		}
		return nil, r.fail(at, "%s", ft.reason)
	}
	r.t.ix = r.t.makeIndex()
	return r.t, nil
}

// readKey reads one key at the top level of the file, with its value.
func (r *renderedFile) readKey(p pair) (err error) {
	switch p.key.Value {
	case renderedKey:
	case "name":
		r.t.Name, err = r.scalar(p.val, "name")
	case "source":
		r.t.Source, err = r.scalar(p.val, "source")
	case "layout":
		r.t.Layout, err = r.scalar(p.val, "layout")
	case "left_out":
		return r.each(p, "left_out", maxLeftOut, r.readLeftOut)
	case "arch":
		var s string
		if s, err = r.scalar(p.val, "arch"); err != nil {
			return err
		}
		if r.t.Arch, err = wire.ParseArch(s); err != nil {
			return r.fail(p.val, "architecture %s: want %s or %s", show(p.val), wire.Wormhole, wire.Blackhole)
		}
	case "meshes":
		return r.each(p, "mesh", wire.MaxMeshes, r.readMesh)
	case "chips":
		return r.each(p, "chip", wire.MaxMeshes*wire.MaxChipsPerMesh, r.readChip)
	case "cables":
		return r.each(p, "cable", MaxCables, r.readCable)
	case "planes":
		var v uint64
		v, err = r.number(p.val, "planes", wire.MaxChannels)
		r.t.MaxPlanes = int(v)
	case "missing":
		return r.readMissing(p)
	case "netem":
		return r.readNetem(p)
	case transportKey:
		r.t.Transport, err = r.readWord(p, Transports)
	case authKey:
		r.t.Auth, err = r.readWord(p, Auths)
	default:
		return r.unknown(p)
	}
	return err
}

// The method "unknown" returns the error about the unknown key of p.
func (r *renderedFile) unknown(p pair) error {
	return r.fail(p.key, "unknown key %s in version %d of ttfabric's topology file format", show(p.key), renderedVersion)
}

// The method "each" calls the function "read" for every entry of the list in p. Every entry must be
// a map. If the list has more entries than the parameter "most" says, the method returns an error.
// The parameter "what" names one entry in error messages.
func (r *renderedFile) each(p pair, what string, most int, read func(n *yaml.Node, ps []pair) error) error {
	list, err := r.items(p.val, p.key.Value, "a list")
	if err != nil {
		return err
	}
	if len(list) > most {
		return r.fail(p.key, "%s: %d entries; want at most %d", p.key.Value, len(list), most)
	}
	for _, n := range list {
		ps, err := r.pairs(n, what, "a map")
		if err != nil {
			return err
		}
		if err := read(n, ps); err != nil {
			return err
		}
	}
	return nil
}

func (r *renderedFile) readMesh(n *yaml.Node, ps []pair) error {
	var m Mesh
	for _, p := range ps {
		var err error
		var v uint64
		switch p.key.Value {
		case "id":
			v, err = r.number(p.val, "mesh id", wire.MaxMeshes-1)
			m.ID = wire.MeshID(v)
		case "rows":
			v, err = r.number(p.val, "mesh rows", wire.MaxChipsPerMesh)
			m.Rows = int(v)
		case "cols":
			v, err = r.number(p.val, "mesh cols", wire.MaxChipsPerMesh)
			m.Cols = int(v)
		case "wrap_x":
			m.WrapX, err = r.boolean(p.val, "wrap_x")
		case "wrap_y":
			m.WrapY, err = r.boolean(p.val, "wrap_y")
		case "open_x":
			m.OpenX, err = r.boolean(p.val, "open_x")
		case "open_y":
			m.OpenY, err = r.boolean(p.val, "open_y")
		case "axes":
			if m.Axes = Axes(slices.Index(axesNames[:], p.val.Value)); m.Axes != OnlyX && m.Axes != OnlyY {
				err = r.fail(p.val, "axes: %s; want x or y, or leave out the key", show(p.val))
			}
		default:
			return r.unknown(p)
		}
		if err != nil {
			return err
		}
	}
	if was := r.meshAt[m.ID]; was != nil {
		return r.fail(n, "mesh %d is already listed on line %d", m.ID, was.Line)
	}
	r.meshAt[m.ID] = n
	r.t.Meshes = append(r.t.Meshes, m)
	return nil
}

// position reads a chip's x, y, rack and shelf.
func (r *renderedFile) position(n *yaml.Node) (p Position, err error) {
	vs, err := r.items(n, "position", "x, y, rack and shelf")
	if err == nil && len(vs) != 4 {
		err = r.fail(n, "position: want x, y, rack and shelf")
	}
	for i, f := range []*uint8{&p.X, &p.Y, &p.Rack, &p.Shelf} {
		if err != nil {
			return p, err
		}
		var v uint64
		v, err = r.number(vs[i], "position", maxCoordinate)
		*f = uint8(v)
	}
	p.Known = true
	return p, err
}

func (r *renderedFile) readChip(n *yaml.Node, ps []pair) error {
	c := Chip{UMD: NoUMD}
	named := false
	for _, p := range ps {
		var err error
		var v uint64
		switch p.key.Value {
		case "chip":
			if c.Node, err = wire.ParseFabricNodeID(p.val.Value); err != nil {
				return r.fail(p.val, "chip %s: want an id such as M0D3", show(p.val))
			}
			named = true
		case "umd":
			v, err = r.number(p.val, "umd", maxUMD)
			c.UMD = int(v)
		case "board":
			c.Board, err = r.scalar(p.val, "board")
		case "board_id":
			c.BoardID, err = r.number(p.val, "board_id", math.MaxUint64)
		case "unique_id":
			c.UniqueID, err = r.number(p.val, "unique_id", math.MaxUint64)
		case "mmio":
			c.MMIO, err = r.boolean(p.val, "mmio")
		case "harvest_mask":
			v, err = r.number(p.val, "harvest_mask", math.MaxUint16)
			c.Harvested = uint16(v)
		case "position":
			c.Position, err = r.position(p.val)
		case "untranslated":
			c.Untranslated, err = r.boolean(p.val, "untranslated")
		default:
			return r.unknown(p)
		}
		if err != nil {
			return err
		}
	}
	if !named {
		return r.fail(n, "the chip has no id: want the key \"chip\" with an id such as M0D3")
	}
	if was := r.chipAt[c.Node]; was != nil {
		return r.fail(n, "chip %s is already listed on line %d", c.Node, was.Line)
	}
	r.chipAt[c.Node] = n
	r.t.Chips = append(r.t.Chips, c)
	return nil
}

func (r *renderedFile) readCable(n *yaml.Node, ps []pair) error {
	var c Cable
	var note Note
	ends, dirs := 0, 0
	for _, p := range ps {
		end, dir := &c.A, &c.Dir
		switch p.key.Value {
		case "labels":
			if err := r.readLabels(p.val, &note); err != nil {
				return err
			}
			continue
		case "netem":
			var err error
			if note.Netem, err = r.readDeclared(p.val); err != nil {
				return err
			}
			continue
		case "a", "dir":
		case "b", "back":
			end, dir = &c.B, &c.Back
		default:
			return r.unknown(p)
		}
		var err error
		if len(p.key.Value) > 1 {
			if *dir, err = r.direction(p.val); err != nil {
				return err
			}
			dirs++
			continue
		}
		if *end, err = r.port(p.val); err != nil {
			return err
		}
		if was := r.cableAt[*end]; was != nil {
			return r.fail(p.val, "%s carries two cables: this one, and the cable of line %d", *end, was.Line)
		}
		ends++
	}
	switch {
	case ends != 2:
		return r.fail(n, "a cable has two ends: want the keys \"a\" and \"b\", each with a chip and a channel such as M0D0/8")
	case c.A == c.B:
		return r.fail(n, "both ends of the cable are %s", c.A)
	case c.External() && dirs != 2:
		return r.fail(n, "the cable joins meshes %d and %d: want the keys \"dir\" and \"back\", the directions in which the cable leaves a and b", c.A.Node.Mesh, c.B.Node.Mesh)
	case !c.External() && dirs != 0:
		return r.fail(n, "the cable is within mesh %d, and its directions follow from the ids of its chips; remove the keys \"dir\" and \"back\"", c.A.Node.Mesh)
	}
	r.note(c, note)
	r.cableAt[c.A], r.cableAt[c.B] = n, n
	r.t.Cables = append(r.t.Cables, c)
	return nil
}

// The method "direction" reads a direction: E, W, N, S or Z.
func (f file) direction(n *yaml.Node) (wire.Direction, error) {
	for d := range wire.Direction(wire.NumSides) {
		if n.Kind == yaml.ScalarNode && n.Value == d.String() {
			return d, nil
		}
	}
	return 0, f.fail(n, "direction %s: want E, W, N, S or Z", show(n))
}

// The method "port" reads a port such as M0D0/8: the chip M0D0 and the channel 8.
func (r *renderedFile) port(n *yaml.Node) (p wire.PortID, err error) {
	chip, channel, ok := strings.Cut(n.Value, "/")
	if p.Node, err = wire.ParseFabricNodeID(chip); err != nil || !ok || n.Kind != yaml.ScalarNode {
		return p, r.fail(n, "end of a cable %s: want a chip and a channel such as M0D0/8", show(n))
	}
	v, err := r.number(&yaml.Node{Kind: yaml.ScalarNode, Value: channel, Line: n.Line}, "channel", wire.MaxChannels-1)
	p.Channel = wire.Channel(v)
	return p, err
}

// placeByID computes the row and column of every chip from the chip's id.
func (r *renderedFile) placeByID() {
	for i := range r.t.Chips {
		c := &r.t.Chips[i]
		m, _ := r.t.Mesh(c.Node.Mesh)
		cols := max(m.Cols, 1)
		c.Row, c.Col = int(c.Node.Chip)/cols, int(c.Node.Chip)%cols
	}
}
