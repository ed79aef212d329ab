package firmware

import (
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
	"slices"
	"time"

	"ttfabric/node/firmware/board"
	"ttfabric/node/noc"
	"ttfabric/router/topo"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Limits, our own choices.
const (
	AnswerTimeout = 10 * time.Second       // a request ends with [DestUnreachable] if none of its parts makes progress for this time; a message is dropped if its waiting times at all tiles together reach this time
	ResendAfter   = time.Second            // a tile sends a message again after this time if the other end of the cable has not acknowledged the message; the link itself repairs losses sooner
	TransferPause = 100 * time.Microsecond // pause after the host memory had no room for a transfer, and after MaxAccepts requests
	LoopPause     = 10 * time.Millisecond  // pause of a message that has gone round in a circle; until the tables of all chips agree, the message may go round again
	MaxAccepts    = 64                     // largest number of requests that one tile accepts at one instant while its host stores nothing; without this limit, a request that stores into its own queue could repeat forever
	MaxOpen       = 16                     // requests of one tile's host under way; a further request waits in the queue
	MaxParts      = 32                     // parts of one request under way
	PullAhead     = MaxParts * BlockSize   // largest number of bytes of a write that one transfer reads from host memory
	MaxEvents     = 64                     // events that wait for PollEvent; the machine counts further events
	MaxReports    = 32                     // events of one tile since the chip's start; the machine counts further events
)

// Transfer is a read or a write of host memory.
type Transfer struct {
	ID    uint64
	Write bool
	Addr  uint64 // address in the 4 GiB of host memory (BDMS: NoC to host from 0x8_0000_0000 on, PCIe tile)
	Data  []byte // of a write
	Len   int    // bytes wanted of a read
}

// Host is what a machine needs from its chip.
type Host interface {
	// Load and Store read and write the memory or registers of any tile of the chip.
	Load(now mono.Time, a wire.NocAddr, b []byte) wire.Outcome
	Store(now mono.Time, a wire.NocAddr, b []byte) wire.Outcome
	// Up reports whether the link of a channel is up, over any cable.
	Up(ch wire.Channel) bool
	// Send gives an L1 write to transaction command queue 0 of a channel, as Host of package kernel does. If the
	// queue is busy, Send returns false.
	Send(ch wire.Channel, src, dst uint32, words int) bool
	// Out reports whether the cable of a port is out of use. If hope is true, silent cables count
	// as in use.
	Out(p wire.PortID, hope bool) bool
	// Works reports whether the firmware of a tile may work now: a kernel of a strict job may block
	// the firmware.
	Works(ch wire.Channel) bool
	// StartTransfer starts a transfer of host memory. At the end of the transfer, the chip calls
	// [Machine.TransferDone]. If there is no room now, StartTransfer returns false.
	StartTransfer(now mono.Time, t Transfer) bool
}

// Config describes a machine.
type Config struct {
	Self     wire.FabricNodeID
	Life     wire.Life // life of the chip's process; answers to requests of an earlier process have no effect
	Topology *topo.Topology
	Memory   *noc.Memory
	Host     Host
	// Seed seeds the choice among parallel cables. If Seed is 0, requests of a tile to one chip keep their order. A
	// message that may take parallel cables then takes the cable with the fewest messages. Of several such cables, the
	// message takes the first.
	Seed uint64
}

// Machine is the base firmware of all ethernet tiles of one chip. A Machine is not safe for concurrent
// use.
type Machine struct {
	cfg   Config
	rng   *rand.Rand
	at    []noc.Tile // ethernet tiles, by channel
	tiles [wire.MaxChannels]*tile
	rung  uint16 // tiles into whose queues a host has stored, by channel
	runs  bool   // Run is at work, so all stores are the firmware's own stores
	busy  uint16 // tiles with work, by channel
	first int    // tile that has the first turn
	due   mono.Time
	now   mono.Time

	known     *known // nil: no request came yet
	table     uint32 // number of the present routes
	transfers map[uint64]transfer
	moving    map[transfer]bool // transfers to host memory under way
	transfer  uint64            // ID of the last transfer
	pointers  []byte
	events    []Event
	dropped   uint64 // events that found no room
}

// known is what the machine computes when the first request comes.
type known struct {
	kinds  *tileKinds
	chips  map[board.Coord]wire.FabricNodeID
	routes [2]*routes // first the routes over the cables in use, then the routes over these cables and the silent cables; nil: not computed
}

// transfer is a transfer of host memory under way.
type transfer struct {
	ch       wire.Channel
	id, part uint32
	pull     bool
	window   uint32 // number of a read or write in the window to host memory; 0: the transfer is another one
}

// transferEnd is the end of a transfer.
type transferEnd struct {
	transfer
	why  Reason
	data []byte
}

// New returns the firmware of a chip. Only chips of the architecture Wormhole have this firmware: on
// other chips, the machine does nothing.
func New(cfg Config) (*Machine, error) {
	m := &Machine{cfg: cfg, due: mono.Never}
	if cfg.Topology.Arch != wire.Wormhole {
		return m, nil
	}
	if cfg.Seed != 0 {
		m.rng = rand.New(rand.NewPCG(cfg.Seed, 0x62646d73)) // "bdms"
	}
	for _, t := range cfg.Memory.Tiles() {
		if t.Kind == noc.Ethernet {
			m.at = append(m.at, t)
		}
	}
	m.pointers = make([]byte, len(m.at)*wire.RegisterLen)
	for i, t := range m.at {
		b := m.pointers[i*wire.RegisterLen:][:wire.RegisterLen:wire.RegisterLen]
		binary.LittleEndian.PutUint32(b, QueueBase)
		if err := cfg.Memory.Map(wire.NewNocAddr(t.X, t.Y, QueuePointer), b); err != nil {
			return nil, err
		}
		cfg.Memory.Watch(noc.Firmware, t.X, t.Y, func(off uint64, n int) {
			for _, w := range [...]uint64{SQ + WrIdx, SQ + RdIdx, CQ + RdIdx} {
				if off < w+wire.RegisterLen && w < off+uint64(n) {
					m.ring(i)
				}
			}
		})
	}
	return m, nil
}

// Ring tells the machine that the host may have stored words of a tile's queues in a way that the chip's
// memory does not see.
func (m *Machine) Ring(ch wire.Channel) {
	if int(ch) < len(m.at) {
		m.ring(int(ch))
	}
}

// ring notes that somebody has stored words of the queues of tile i.
func (m *Machine) ring(i int) {
	m.rung |= 1 << i
	if t := m.tiles[i]; t != nil && !m.runs {
		t.pace.accepts = 0
	}
}

// learn computes what the machine needs for requests.
func (m *Machine) learn() *known {
	if m.known == nil {
		m.known = &known{kinds: newTileKinds(m.cfg.Memory), chips: make(map[board.Coord]wire.FabricNodeID, len(m.cfg.Topology.Chips))}
		for n, at := range board.Coords(m.cfg.Topology) {
			m.known.chips[at] = n
		}
	}
	return m.known
}

// exits lists the cables by which a message can leave the chip. If there is no such cable, the list
// has the cables by which the message could leave if the silent cables worked.
func (m *Machine) exits(to wire.FabricNodeID, down bool) (list []exit) {
	k := m.learn()
	for i := range k.routes {
		if k.routes[i] == nil {
			k.routes[i] = newRoutes(m.cfg.Topology, m.cfg.Self, func(p wire.PortID) bool { return m.cfg.Host.Out(p, i == 1) })
		}
		if list = k.routes[i].exits(to, down, list); len(list) > 0 {
			break
		}
	}
	return list
}

// Rerouted tells the machine that other cables are in use.
func (m *Machine) Rerouted(now mono.Time) {
	if m.known == nil {
		return
	}
	m.known.routes = [2]*routes{}
	m.table++
	m.now = now
	for _, t := range m.tiles {
		if t != nil {
			t.rerouted = true
		}
	}
	m.wake()
}

// wake makes the next Run look at all tiles.
func (m *Machine) wake() {
	for ch, t := range m.tiles {
		if t != nil {
			m.busy |= 1 << ch
		}
	}
}

// tile returns the state of a tile.
func (m *Machine) tile(ch wire.Channel) *tile {
	if m.tiles[ch] == nil {
		m.tiles[ch] = &tile{m: m, ch: ch, at: m.at[ch], id: uint32(m.cfg.Life)}
	}
	return m.tiles[ch]
}

// Rung reports whether a host has stored into a queue since the last Run.
func (m *Machine) Rung() bool { return m.rung != 0 }

// Idle reports whether the firmware of no tile has work.
func (m *Machine) Idle() bool { return m.rung|m.busy == 0 && m.due == mono.Never }

// Run lets the firmware of the tiles work. Run returns true if anything moved.
func (m *Machine) Run(now mono.Time) (moved bool) {
	if m.rung|m.busy == 0 && now.Before(m.due) {
		return false
	}
	m.now, m.runs = now, true
	defer func() { m.runs = false }()
	if !now.Before(m.due) {
		m.expire()
	}
	work := m.rung | m.busy
	m.rung, m.busy = 0, 0
	m.first++
	for i := range m.tiles {
		ch := wire.Channel((m.first + i) % len(m.tiles))
		if work>>ch&1 == 0 {
			continue
		}
		t := m.tile(ch)
		if !m.cfg.Host.Works(ch) {
			m.busy |= 1 << ch
			continue
		}
		moved = t.step() || moved
		if t.works() {
			m.busy |= 1 << ch
		}
	}
	if moved {
		m.wake() // a tile may wait for room that another tile has made
	}
	m.schedule()
	return moved
}

// expire handles the deadlines that have passed.
func (m *Machine) expire() {
	for _, t := range m.tiles {
		if t != nil && m.cfg.Host.Works(t.ch) {
			t.expire()
		}
	}
	m.wake()
}

// schedule computes the next deadline. A tile whose firmware must not work has no deadline until Run finds
// that the firmware may work again.
func (m *Machine) schedule() {
	m.due = mono.Never
	for _, t := range m.tiles {
		if t != nil && m.cfg.Host.Works(t.ch) {
			m.due = mono.Min(m.due, t.deadline())
		}
	}
}

// Deadline returns the time at which the caller must next call Run.
func (m *Machine) Deadline() (mono.Time, bool) { return m.due, m.due != mono.Never }

// startTransfer starts a transfer for a request.
func (m *Machine) startTransfer(x transfer, t Transfer) bool {
	t.ID = m.transfer + 1
	if !m.cfg.Host.StartTransfer(m.now, t) {
		return false
	}
	m.transfer++
	if m.transfers == nil {
		m.transfers = map[uint64]transfer{}
	}
	m.transfers[t.ID] = x
	if !x.pull && x.window == 0 {
		if m.moving == nil {
			m.moving = map[transfer]bool{}
		}
		m.moving[x] = true
	}
	return true
}

// moves reports whether a transfer to host memory is under way for a part of a tile's request.
func (m *Machine) moves(ch wire.Channel, id, part uint32) bool {
	return m.moving[transfer{ch: ch, id: id, part: part}]
}

// TransferDone tells the machine how a transfer ended. The machine keeps the data of a read, so the
// caller must not change the data.
func (m *Machine) TransferDone(now mono.Time, id uint64, outcome wire.Outcome, data []byte) {
	x, ok := m.transfers[id]
	if !ok {
		return
	}
	delete(m.transfers, id)
	delete(m.moving, x)
	e := transferEnd{transfer: x, data: data}
	if outcome != wire.OutcomeDone {
		e.why = HostRefused
	}
	t := m.tile(x.ch)
	t.ended = append(t.ended, e)
	m.busy |= 1 << x.ch
	m.due = mono.Min(m.due, now)
}

// Tile is what a chip's firmware knows about one tile, for display.
type Tile struct {
	Channel  wire.Channel `json:"channel"`
	X        uint8        `json:"x"`
	Y        uint8        `json:"y"`
	SQ       Queue        `json:"sq"`
	CQ       Queue        `json:"cq"`
	Open     int          `json:"open"` // requests of the tile's host under way
	In       [2]int       `json:"in"`   // requests and responses that came over the cable and wait
	Out      [2]int       `json:"out"`  // requests and responses that wait for the cable, or for the other end to note them
	Counters Counters     `json:"counters"`

	LastError string `json:"last_error"` // why the last of the host's requests with an error failed, such as "bad address"; empty: no request has failed

	Types []TypeCounters `json:"types"` // counters by the type of request; a type without requests counts 0
}

// Queue is the state of a queue, from the words in L1.
type Queue struct {
	WrReq  uint32 `json:"wr_req"`
	WrResp uint32 `json:"wr_resp"`
	RdReq  uint32 `json:"rd_req"`
	RdResp uint32 `json:"rd_resp"`
	Errors uint32 `json:"errors"`
	WrIdx  uint32 `json:"wr_idx"`
	RdIdx  uint32 `json:"rd_idx"`
}

// Counters counts what the firmware of one tile has done since the chip's start.
type Counters struct {
	Accepted    uint64 `json:"accepted"`    // requests of the tile's host
	Refused     uint64 `json:"refused"`     // of these: refused requests
	Unreachable uint64 `json:"unreachable"` // of these: requests that ended with DestUnreachable
	Served      uint64 `json:"served"`      // parts of requests that the tile performed, of its own host and of others
	Passed      uint64 `json:"passed"`      // messages that the tile passed on to another tile of the chip
	Sent        uint64 `json:"sent"`        // messages over the cable
	Received    uint64 `json:"received"`    // messages over the cable
	Resent      uint64 `json:"resent"`      // messages sent again, because the other end did not acknowledge them or the cable's session ended
	Late        uint64 `json:"late"`        // answers to parts of requests that had ended
	Lost        uint64 `json:"lost"`        // messages that the tile dropped: they came too late, no cable led to their goal, or they were writes on a cable whose session ended
	Bad         uint64 `json:"bad"`         // messages with a wrong header, number or checksum; the other end sends them again
}

// Tiles lists the tiles of the chip, by channel.
func (m *Machine) Tiles() []Tile {
	list := []Tile{}
	for i, at := range m.at {
		v := Tile{Channel: wire.Channel(i), X: at.X, Y: at.Y, SQ: m.queue(at, SQ), CQ: m.queue(at, CQ)}
		var types typeCounters
		if t := m.tiles[i]; t != nil {
			v.Open, v.Counters, types = len(t.open), t.counters.Counters, t.counters.types
			if t.counters.last != 0 {
				v.LastError = t.counters.last.String()
			}
			for c := range numClasses {
				v.In[c], v.Out[c] = len(t.in[c].list), len(t.out[c].list)
			}
		}
		v.Types = types.list()
		list = append(list, v)
	}
	return list
}

func (m *Machine) queue(t noc.Tile, base uint64) (q Queue) {
	var b [QueueSize]byte
	m.cfg.Memory.Read(wire.NewNocAddr(t.X, t.Y, base), b[:])
	for i, w := range []*uint32{&q.WrReq, &q.WrResp, &q.RdReq, &q.RdResp, &q.Errors} {
		*w = binary.LittleEndian.Uint32(b[i*wire.RegisterLen:])
	}
	q.WrIdx, q.RdIdx = binary.LittleEndian.Uint32(b[WrIdx:]), binary.LittleEndian.Uint32(b[RdIdx:])
	return q
}

// CheckInvariants returns an error if the machine's own state is inconsistent.
func (m *Machine) CheckInvariants() error {
	for _, t := range m.tiles {
		if t == nil {
			continue
		}
		if err := t.check(); err != nil {
			return err
		}
	}
	return nil
}

// parallel chooses one of n things: at random, or the first without a seed.
func (m *Machine) parallel(n int) int {
	if m.rng == nil || n < 2 {
		return 0
	}
	return m.rng.IntN(n)
}

// lowest returns the exits whose out queue holds the fewest messages of a class. If the link of at
// least one exit is up, lowest leaves out exits whose links are down.
func (m *Machine) lowest(list []exit, c class) []exit {
	load := func(e exit) int {
		n := len(m.tile(e.ch).out[c].list)
		if !m.cfg.Host.Up(e.ch) {
			n += slots + 1
		}
		return n
	}
	least := slots * bits.UintSize
	for _, e := range list {
		least = min(least, load(e))
	}
	return slices.DeleteFunc(slices.Clone(list), func(e exit) bool { return load(e) > least })
}
