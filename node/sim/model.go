package sim

import (
	"ttfabric/node/losses"
	"ttfabric/node/noc"
	"ttfabric/router/topo"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Layout of the memory to which the load writes. Each flow of unicasts has a region of its own in a
// Tensix tile and in a DRAM bank of its destination. All multicasts of a source on a plane share a
// region. A region consists of cells. One cell of a region holds 32-bit words.
const (
	cells      = 4
	wordCell   = cells // index of the cell that holds words
	words      = 16    // number of words in the cell that the load uses
	cellSize   = 6 << 10
	regionSize = 32 << 10
)

// place is a cell in the memory of a destination. The cell belongs to one flow of unicasts from the
// chip src, or to all multicasts of this chip on a plane.
type place struct {
	src   int
	plane wire.Plane
	other bool // whether the flow takes the other direction round rings
	group bool // the cell belongs to multicasts; false: to a flow of unicasts
	dram  bool
	cell  int
}

// flowID identifies a flow in the model. All incarnations of the source have the same flowID. In
// the flow's order, requests of an earlier incarnation come before requests of a later incarnation.
type flowID struct {
	src, dst int
	plane    wire.Plane
	other    bool // whether the flow takes the other direction round rings
	group    int  // number of the multicast group; 0: unicast
}

// entry is a write that a chip performed on a cell.
type entry struct {
	index int // index of the op in its flow
	t     *touch
}

// life is one incarnation of a chip, with the memory that the incarnation should have.
type life struct {
	chip  int
	begin mono.Time
	end   mono.Time // when the incarnation ended; mono.Never: the incarnation still lives
	mem   map[place]*[cellSize]byte
	log   map[place][]entry
	last  map[flowID]int // index of the last op of each flow that the incarnation performed, plus one
	open  map[uint64]*op // open ops of the incarnation, by id

	posted  map[flowID][]*op    // posted ops of the incarnation
	flushes map[flowID][]*flush // ended flushes

	view    view        // what the incarnation has heard of the lives of other chips
	account losses.Chip // the incarnation's packet counts at its end
}

// model is a simple model of the fabric. The model holds all requests of the load, and the content
// that the chips' memories must have.
type model struct {
	ids   uint64
	ops   []*op // all ops; the op with the id k has the index k-1
	next  map[flowID]int
	lives [][]*life // incarnations, by chip

	informed map[uint64]bool // by the id of an op: whether the source knew the lives of the op's destinations when the source accepted the op

	groups map[groupID]int // numbers of the multicast groups, from 1
}

func newModel(t *topo.Topology) *model {
	return &model{next: map[flowID]int{}, groups: map[groupID]int{}, lives: make([][]*life, len(t.Chips)), informed: map[uint64]bool{}}
}

func (m *model) begin(c int, now mono.Time) *life {
	l := &life{chip: c, begin: now, end: mono.Never, mem: map[place]*[cellSize]byte{}, log: map[place][]entry{},
		last: map[flowID]int{}, open: map[uint64]*op{},
		posted: map[flowID][]*op{}, flushes: map[flowID][]*flush{}}
	m.lives[c] = append(m.lives[c], l)
	return l
}

// The Tensix tiles and DRAM banks of a Wormhole in which the model places regions, for unicasts and
// for multicasts.
var (
	regionTiles = [][2]uint8{{1, 1}, {2, 1}, {3, 2}, {4, 3}, {6, 4}, {7, 5}, {8, 7}, {9, 8}, {1, 9}, {2, 10}, {3, 11}, {9, 11}}
	regionBanks = [][2]uint8{{0, 0}, {0, 5}, {5, 0}, {5, 2}}

	groupTiles = [][2]uint8{{1, 2}, {2, 2}, {3, 1}, {4, 4}, {6, 5}, {7, 7}, {8, 8}, {9, 9}, {1, 10}, {2, 11}, {3, 9}, {9, 1}}
	groupBanks = [][2]uint8{{5, 3}, {5, 5}}
)

// maxPlanes is the largest number of planes for which the model has room for regions. If the load
// uses both directions round rings, the largest number is maxTied.
const (
	maxPlanes = 4
	maxTied   = maxPlanes / 2
)

func addrOf(p place) wire.NocAddr {
	list := regionTiles
	switch {
	case p.group && p.dram:
		list = groupBanks
	case p.group:
		list = groupTiles
	case p.dram:
		list = regionBanks
	}
	xy := list[p.src%len(list)]
	flow := int(p.plane)
	if p.other {
		flow += maxTied
	}
	off := (p.src/len(list)*maxPlanes+flow)*regionSize + p.cell*cellSize
	return wire.NewNocAddr(xy[0], xy[1], uint64(off))
}

func (m *model) accept(o *op, l *life, now mono.Time) {
	f := o.flow(everyone)
	o.index, o.life, o.sent, o.accepted = m.next[f], l, now, true
	m.next[f]++
	l.open[o.id] = o
}

func (m *model) undo(o *op) {
	m.next[o.flow(everyone)]--
	delete(o.life.open, o.id)
	o.accepted = false
}

// orphan marks the open requests of a dead chip. orphan returns the number of these requests.
func (m *model) orphan(k *machine) int {
	for _, o := range k.life.open {
		o.orphan = true
	}
	return len(k.life.open)
}

// apply performs an op on the memory that the model has for the incarnation.
func (l *life) apply(o *op) {
	for i := range o.touches {
		t := &o.touches[i]
		c := l.mem[t.at]
		if c == nil {
			c = new([cellSize]byte)
			l.mem[t.at] = c
		}
		t.applyTo(c)
		if !t.word {
			l.log[t.at] = append(l.log[t.at], entry{o.index, t})
		}
	}
}

func (t *touch) applyTo(c *[cellSize]byte) {
	if !t.add {
		copy(c[t.off:], t.data)
		return
	}
	w, carry := c[t.off:t.off+4], 0
	for i := range w {
		v := int(w[i]) + int(t.data[i]) + carry
		w[i], carry = byte(v), v>>8
	}
}

// expected returns the bytes that a read must return if this incarnation performed the read. The
// argument "index" is the read's index in its flow.
func (l *life) expected(t *touch, index int) []byte {
	var c [cellSize]byte
	for _, e := range l.log[t.at] {
		if e.index < index {
			e.t.applyTo(&c)
		}
	}
	return c[t.off : t.off+len(t.data)]
}

// compare looks in the memory m for a byte that differs from the model, in all cells that the model
// has written. If a byte differs, differ is true, and at is the address of the byte.
func (l *life) compare(m *noc.Memory) (at wire.NocAddr, got, want byte, differ bool) {
	var b [cellSize]byte
	for p, c := range l.mem {
		a := addrOf(p)
		m.Read(a, b[:])
		for i := range b {
			if b[i] != c[i] {
				return a.Add(i), b[i], c[i], true
			}
		}
	}
	return 0, 0, 0, false
}
