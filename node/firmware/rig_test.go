package firmware

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"ttfabric/node/noc"
	"ttfabric/router/topo"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// rig joins the firmware of all chips of a machine by cables. A cable carries L1 writes in order, and reads
// their source when it delivers them, as late as a link may.
type rig struct {
	t     testing.TB
	now   mono.Time
	m     *topo.Topology
	chips []*unit
	at    map[wire.FabricNodeID]*unit
	rng   *rand.Rand // nil: each cable delivers at once
	out   map[wire.PortID]bool
	down  map[wire.PortID]bool
	full  [numClasses]int // times that a tile had no internal buffer left for messages of a class that leave
}

// unit is a chip of a rig. It implements [Host].
type unit struct {
	w         *rig
	self      wire.FabricNodeID
	memory    *noc.Memory
	m         *Machine
	cables    map[wire.Channel]*cable
	stores    []noc.Write // what the firmware stored into tiles for hosts
	host      map[uint64]byte
	transfers []Transfer
	deaf      bool // the host performs no transfers
	refuses   bool // the host refuses transfers
}

// cable is one direction of a cable.
type cable struct {
	to     *unit
	ch     wire.Channel // at the other end
	port   wire.PortID  // at this end
	writes []l1Write
}

// l1Write is an L1 write on its way.
type l1Write struct {
	src, dst uint32
	n        int
}

// maxCable is the number of L1 writes that a cable takes before it is busy.
const maxCable = 4

func newRig(t testing.TB, m *topo.Topology, seed uint64) *rig {
	t.Helper()
	w := &rig{t: t, now: 1, m: m, at: map[wire.FabricNodeID]*unit{}, out: map[wire.PortID]bool{}, down: map[wire.PortID]bool{}}
	if seed != 0 {
		w.rng = rand.New(rand.NewPCG(seed, 0))
	}
	for i, c := range m.Chips {
		memory, err := noc.New(m.Arch, 0)
		if err != nil {
			t.Fatal(err)
		}
		u := &unit{w: w, self: c.Node, memory: memory, cables: map[wire.Channel]*cable{}, host: map[uint64]byte{}}
		cfg := Config{Self: c.Node, Topology: m, Memory: memory, Host: u}
		if seed != 0 {
			cfg.Seed = seed + uint64(i)
		}
		if u.m, err = New(cfg); err != nil {
			t.Fatal(err)
		}
		w.chips, w.at[c.Node] = append(w.chips, u), u
	}
	for _, u := range w.chips {
		for _, p := range m.Ports(u.self) {
			u.cables[p.Local.Channel] = &cable{to: w.at[p.Peer.Node], ch: p.Peer.Channel, port: p.Local}
		}
	}
	return w
}

// named returns a machine that the repository can build.
func named(t testing.TB, name string) *topo.Topology {
	t.Helper()
	m, err := topo.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func (u *unit) Load(_ mono.Time, a wire.NocAddr, b []byte) wire.Outcome { return u.memory.Read(a, b) }

func (u *unit) Store(_ mono.Time, a wire.NocAddr, b []byte) wire.Outcome {
	o := u.memory.Execute(&wire.Command{Type: wire.NocUnicastWrite, Addr: a}, b)
	if o == wire.OutcomeDone {
		u.stores = append(u.stores, noc.Write{Addr: a, Len: len(b)})
	}
	return o
}

func (u *unit) Up(ch wire.Channel) bool {
	c := u.cables[ch]
	return c != nil && !u.w.down[c.port]
}

func (u *unit) Send(ch wire.Channel, src, dst uint32, words int) bool {
	c := u.cables[ch]
	if !u.Up(ch) || len(c.writes) >= maxCable || u.w.rng != nil && u.w.rng.IntN(4) == 0 {
		return false
	}
	c.writes = append(c.writes, l1Write{src, dst, words * wire.WriteUnit})
	return true
}

func (u *unit) Out(p wire.PortID, hope bool) bool { return u.w.out[p] }

func (u *unit) Works(wire.Channel) bool { return true }

// StartTransfer takes at most two transfers.
func (u *unit) StartTransfer(_ mono.Time, t Transfer) bool {
	if len(u.transfers) >= 2 {
		return false
	}
	u.transfers = append(u.transfers, t)
	return true
}

// transferred performs the transfers that the chip has started.
func (u *unit) transferred() (moved bool) {
	if u.deaf {
		return false
	}
	for _, t := range u.transfers {
		if u.refuses {
			u.m.TransferDone(u.w.now, t.ID, wire.OutcomeBadAddress, nil)
			moved = true
			continue
		}
		var b []byte
		if t.Write {
			for i, v := range t.Data {
				u.host[t.Addr+uint64(i)] = v
			}
		} else {
			b = make([]byte, t.Len)
			for i := range b {
				b[i] = u.host[t.Addr+uint64(i)]
			}
		}
		u.m.TransferDone(u.w.now, t.ID, wire.OutcomeDone, b)
		moved = true
	}
	u.transfers = nil
	return moved
}

// deliver delivers L1 writes that are on cables, some or all of them.
func (u *unit) deliver() (moved bool) {
	for ch := range wire.Channel(wire.MaxChannels) {
		c := u.cables[ch]
		for c != nil && len(c.writes) > 0 && !u.w.down[c.port] && (u.w.rng == nil || u.w.rng.IntN(3) > 0) {
			x := c.writes[0]
			c.writes = c.writes[1:]
			b := make([]byte, x.n)
			u.memory.Read(u.tile(ch).Addr(uint64(x.src)), b)
			c.to.memory.Execute(&wire.Command{Type: wire.NocUnicastWrite, Addr: c.to.tile(c.ch).Addr(uint64(x.dst))}, b)
			c.to.m.Arrived(u.w.now, c.ch, x.dst, x.n)
			moved = true
		}
	}
	return moved
}

// tilePos is the coordinate of a tile.
type tilePos struct{ x, y uint8 }

// Addr returns the address of an offset in the tile.
func (p tilePos) Addr(off uint64) wire.NocAddr { return wire.NewNocAddr(p.x, p.y, off) }

func (u *unit) tile(ch wire.Channel) tilePos {
	x, y, _ := noc.EthernetTile(u.w.m.Arch, ch)
	return tilePos{x, y}
}

// settle lets all chips work until nothing moves.
func (w *rig) settle() {
	w.t.Helper()
	for turn := 0; ; turn++ {
		moved := false
		for _, u := range w.chips {
			moved = u.m.Run(w.now) || moved
			moved = u.transferred() || moved
			moved = u.deliver() || moved
			for _, t := range u.m.tiles {
				for c := range w.full {
					if t != nil && len(t.out[c].list) == slots {
						w.full[c]++
					}
				}
			}
			moved = moved || slices.ContainsFunc(u.m.tiles[:], func(t *tile) bool { // a busy link takes it later
				return t != nil && u.Up(t.ch) && (t.owes || t.out[requests].unplaced() || t.out[responses].unplaced())
			})
		}
		left := false
		for _, u := range w.chips {
			for _, c := range u.cables {
				left = left || len(c.writes) > 0 && !w.down[c.port]
			}
		}
		if !moved && !left {
			return
		}
		if turn > 100_000 {
			w.t.Fatal("the firmware does not come to rest")
		}
	}
}

// run lets time pass: in steps from deadline to deadline, of at most 100 ms.
func (w *rig) run(d time.Duration) {
	w.t.Helper()
	for end := w.now.Add(d); ; {
		w.settle()
		if !w.now.Before(end) {
			return
		}
		next := mono.Min(end, w.now.Add(100*time.Millisecond))
		for _, u := range w.chips {
			if at, ok := u.m.Deadline(); ok {
				next = mono.Min(next, at)
			}
		}
		w.now = max(next, w.now.Add(time.Microsecond))
	}
}

// session ends the session of the cable of a port, and begins a new one.
func (w *rig) session(p wire.PortID) {
	u := w.at[p.Node]
	c := u.cables[p.Channel]
	back := c.to.cables[c.ch]
	c.writes, back.writes = nil, nil
	u.m.SessionEnded(w.now, p.Channel)
	c.to.m.SessionEnded(w.now, c.ch)
}

// user is a host at a tile.
type user struct {
	u *unit
	tilePos
	ch wire.Channel
}

func (w *rig) user(chip int, ch wire.Channel) *user {
	return &user{w.chips[chip], w.chips[chip].tile(ch), ch}
}

func (h *user) read(off uint64, n int) []byte {
	b := make([]byte, n)
	h.u.memory.Read(h.Addr(off), b)
	return b
}

func (h *user) write(off uint64, b []byte) {
	if o := h.u.memory.Execute(&wire.Command{Type: wire.NocUnicastWrite, Addr: h.Addr(off)}, b); o != wire.OutcomeDone {
		h.u.w.t.Fatalf("write of %d bytes at %#x: %s", len(b), off, o)
	}
}

func (h *user) word(off uint64) uint32 { return binary.LittleEndian.Uint32(h.read(off, 4)) }

func (h *user) full() bool { return (h.word(SQ+WrIdx)-h.word(SQ+RdIdx))&indexMask >= QueueLen }

// push pushes a request, which must find room.
func (h *user) push(e Entry, block []byte) {
	h.u.w.t.Helper()
	if h.full() {
		h.u.w.t.Fatal("the submission queue is full")
	}
	wr := h.word(SQ + WrIdx)
	if len(block) > 0 {
		h.write(Buffers+uint64(wr%QueueLen)*BlockSize, block)
	}
	h.write(SQ+Entries+uint64(wr%QueueLen)*EntrySize, e.Append(nil))
	h.write(SQ+WrIdx, words((wr+1)&indexMask))
}

// pop pops a completion that has ended. pop returns false if there is none.
func (h *user) pop() (e Entry, block []byte, ok bool) {
	rd := h.word(CQ + RdIdx)
	at := uint64(CQ + Entries + rd%QueueLen*EntrySize)
	if rd == h.word(CQ+WrIdx) || h.word(at+12) == 0 {
		return e, nil, false
	}
	e, block = ParseEntry(h.read(at, EntrySize)), h.read(Buffers+uint64(rd%QueueLen)*BlockSize, BlockSize)
	h.write(CQ+RdIdx, words((rd+1)&indexMask))
	return e, block, true
}

func (h *user) queue() Tile { return h.u.m.Tiles()[h.ch] }

func words(v ...uint32) (b []byte) {
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, x)
	}
	return b
}

// quiet checks that all counters balance, and that nothing is under way.
func (w *rig) quiet() {
	w.t.Helper()
	for i, u := range w.chips {
		if err := u.m.CheckInvariants(); err != nil {
			w.t.Errorf("chip %d: %v", i, err)
		}
		for _, q := range u.m.Tiles() {
			if s := q.SQ; s.WrReq != s.WrResp || s.RdReq != s.RdResp || q.Open != 0 || q.In != [2]int{} || q.Out != [2]int{} {
				w.t.Errorf("chip %d: %+v", i, q)
			}
		}
	}
}
