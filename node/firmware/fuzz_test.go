package firmware

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"ttfabric/node/noc"
	"ttfabric/wire"
	"ttfabric/wire/castagnoli"
)

// guard watches all stores into the tiles of a chip, and reports stores outside of what requests address.
type guard struct {
	u       *unit
	quiet   bool                       // the test itself stores
	allowed map[tilePos]map[uint64]int // by tile and offset: length of a store that a request asked for
}

// guarded returns guards of all chips of a rig.
func guarded(w *rig) (gs []*guard) {
	for _, u := range w.chips {
		g := &guard{u: u, allowed: map[tilePos]map[uint64]int{}}
		for _, t := range u.memory.Tiles() {
			u.memory.Watch(noc.Kernels, t.X, t.Y, func(off uint64, n int) {
				if g.quiet || t.Kind == noc.Ethernet && off >= QueueBase && off+uint64(n) <= End {
					return
				}
				if g.allowed[place(t)][off] < n {
					w.t.Fatalf("chip %s: a store of %d bytes at %#x of tile %d-%d, and no request asked for it", u.self, n, off, t.X, t.Y)
				}
			})
		}
		gs = append(gs, g)
	}
	return gs
}

// place returns a tile's coordinate. All tiles of DRAM count as one, because some share a bank.
func place(t noc.Tile) tilePos {
	if t.Kind == noc.DRAM {
		return dram
	}
	return tilePos{t.X, t.Y}
}

// allow allows the writes of a part of a request with n bytes of the data block.
func (g *guard) allow(flags Flags, a wire.NocAddr, block []byte) {
	list := []scatterWrite{{a, block}}
	switch {
	case flags&Mod != 0:
		list, _ = model(block, flags&NocID != 0)
	case flags&DataBlock == 0:
		list[0].data = block[:wire.RegisterLen]
	}
	for _, x := range list {
		at, ok := g.u.memory.OnNoC0(x.at)
		t, found := g.u.memory.TileAt(at.X(), at.Y())
		if !ok || !found {
			continue
		}
		tile := g.allowed[place(t)]
		if tile == nil {
			tile = map[uint64]int{}
			g.allowed[place(t)] = tile
		}
		tile[at.Offset()] = max(tile[at.Offset()], len(x.data))
	}
}

// bytesOf takes n bytes from data, and zeros behind its end.
func bytesOf(data *[]byte, n int) []byte {
	b := make([]byte, n)
	*data = (*data)[copy(b, *data):]
	return b
}

// hostOps stores entries, blocks and indices into the queues of tiles, as data says.
func hostOps(t *testing.T, data []byte) {
	w := newRig(t, named(t, "n300"), 0)
	gs := guarded(w)
	pages := len(data) > 0 && data[0]&1 == 0 // with scatter pages, no read of a block may change the buffers
	for len(data) > 0 {
		op := bytesOf(&data, 2)
		h := w.user(int(op[0]&1), []wire.Channel{8, 9, 0, 1, 10, 2, 14, 15}[op[0]>>1&7])
		raw := bytesOf(&data, EntrySize)
		e := ParseEntry(raw)
		e.HostAddr &= 1<<20 - 1
		e.Data = e.Data & 0xFFFF
		if op[1]&1 == 0 { // more like a request
			e.Flags &= requestFlags
			e.Target = NewTarget(raw[5]&1, 0, wire.NewNocAddr(raw[6]%10, raw[7]%12, uint64(binary.LittleEndian.Uint16(raw))*8))
			e.RackXY = 0
		}
		if pages {
			e.Flags &^= RdReq
		} else {
			e.Flags &^= Mod
		}
		block := make([]byte, BlockSize)
		r := rand.New(rand.NewPCG(uint64(op[1]), uint64(len(data))))
		copy(block, bytesOf(&data, int(op[1]>>2)))
		for i := range block[len(block)/2:] {
			block[len(block)/2+i] = byte(r.Uint32())
		}
		for _, g := range gs {
			for b := range h.u.host { // what a write from host memory brings
				delete(h.u.host, b)
			}
			n := min(len(block), max(int(e.Data), wire.RegisterLen))
			for at := 0; at == 0 || at < int(e.Data) && e.Flags&DataBlockDRAM != 0; at += BlockSize {
				g.allow(e.Flags, e.addr().Add(at), make([]byte, BlockSize))
			}
			g.allow(e.Flags, e.addr(), block)
			g.allow(e.Flags, e.addr(), block[:n&^3])
			g.quiet = true
		}
		slot := uint64(raw[31] & 3)
		h.write(SQ+Entries+slot*EntrySize, e.Append(nil))
		h.write(Buffers+slot*BlockSize, block)
		h.write(SQ+WrIdx, words(uint32(raw[30])%12))
		if op[1]&2 != 0 {
			h.write(CQ+RdIdx, words(h.word(CQ+WrIdx)+uint32(raw[29]%3)))
		}
		for _, g := range gs {
			g.quiet = false
		}
		w.settle()
	}
	w.run(3 * AnswerTimeout)
	for i, u := range w.chips {
		if err := u.m.CheckInvariants(); err != nil {
			t.Errorf("chip %d: %v", i, err)
		}
		for _, q := range u.m.Tiles() {
			if s := q.SQ; s.WrReq != s.WrResp || s.RdReq != s.RdResp || q.Open != 0 || q.In != [2]int{} || q.Out != [2]int{} {
				t.Errorf("chip %d: %+v", i, q)
			}
		}
	}
	for chip := range w.chips { // a tile that nobody has disturbed still reaches both chips
		h := w.user(chip, 12)
		for x := range uint8(2) {
			h.push(Entry{Target: NewTarget(x, 0, wire.NewNocAddr(8, 0, 0xFFB20110)), Flags: RdReq}, nil)
			w.settle()
			if c, _, ok := h.pop(); !ok || c.Flags != RdData {
				t.Errorf("chip %d cannot read chip %d: %v, %#x", chip, x, ok, uint32(c.Flags))
			}
		}
	}
}

// FuzzHost stores any entries, blocks and indices into the queues of tiles. The firmware must not panic or
// hang, it must change nothing but what requests address, and the other tiles must go on.
func FuzzHost(f *testing.F) {
	r := rand.New(rand.NewPCG(3, 3))
	for range 60 {
		b := make([]byte, 40+r.IntN(1200))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) { hostOps(t, data[:min(len(data), 4096)]) })
}

// FuzzMessage decodes any header. All fields of a header that the firmware accepts must be within
// their limits, and must have the same values after another encoding and decoding.
func FuzzMessage(f *testing.F) {
	m := message{class: responses, down: true, hops: 3, origin: wire.FabricNodeID{Mesh: 1, Chip: 2}, target: wire.FabricNodeID{Chip: 7}, originCh: 9, reason: NoWay,
		id: 5, part: 6, addr: tensix.Addr(64), flags: WrReq | Ordered, want: 0, data: fill(100)}
	var b [headerSize]byte
	m.encode(b[:], 77)
	f.Add(b[:], true)
	f.Add(make([]byte, headerSize), false)
	f.Fuzz(func(t *testing.T, raw []byte, fix bool) {
		b := append(raw, make([]byte, headerSize)...)[:headerSize]
		if fix {
			seal(b)
		}
		m, number, n, _, ok := decode(b)
		if !ok {
			return
		}
		if n > BlockSize || m.want > BlockSize || int(m.originCh) >= wire.MaxChannels || m.class >= numClasses || m.reason >= numReasons {
			t.Fatalf("accepted %+v", m)
		}
		m.data = make([]byte, n)
		var again [headerSize]byte
		m.encode(again[:], number)
		o, number2, n2, _, ok := decode(again[:])
		if o.data = m.data; !ok || number2 != number || n2 != n || o.addr != m.addr || o.id != m.id || o.origin != m.origin || o.flags != m.flags {
			t.Fatalf("%+v becomes %+v", m, o)
		}
	})
}

// cableOps lets the other end of a cable write any messages and numbers into the internal buffers of a tile.
func cableOps(t *testing.T, data []byte) {
	w := newRig(t, named(t, "n300"), 0)
	g := guarded(w)[0]
	u, ch := w.chips[0], wire.Channel(8)
	h, tile := w.user(0, 10), w.user(0, ch)
	w.down[u.cables[9].port] = true
	at := w.chips[1].self
	for len(data) > 0 {
		op := bytesOf(&data, 4)
		if op[0]&3 == 0 && !h.full() {
			g.quiet = true
			h.push(Entry{Target: NewTarget(1, 0, tensix.Addr(64)), Data: uint32(op[1]) * 4, Flags: []Flags{RdReq, WrReq, RdReq | DataBlock, WrReq | DataBlock}[op[2]&3]}, nil)
			g.quiet = false
			g.allow(0, tensix.Addr(64), fill(4))
		}
		raw := bytesOf(&data, headerSize)
		block := make([]byte, BlockSize)
		copy(block, bytesOf(&data, int(op[3])))
		c := class(op[1] & 1)
		in := &u.m.tile(ch).in[c]
		m := message{class: c, down: raw[0]&1 != 0, hops: uint16(raw[1]), origin: at, originCh: wire.Channel(raw[2] & 15), target: u.self, id: uint32(raw[3]) % 8, part: uint32(raw[4]) % 3,
			addr: wire.NewNocAddr(raw[5]%12, raw[6]%14, uint64(binary.LittleEndian.Uint16(raw[7:]))*4), flags: Flags(binary.LittleEndian.Uint16(raw[9:])), want: uint16(raw[11]) * 8, reason: Reason(raw[12] % 16), data: block[:raw[13]]}
		if c == responses || raw[14]&1 != 0 {
			m.origin, m.originCh = u.self, 10
		}
		if raw[14]&6 == 6 {
			m.target = wire.FabricNodeID{Mesh: wire.MeshID(raw[15] & 1), Chip: wire.ChipID(raw[16] & 3)}
		}
		m.flags &= requestFlags
		number := in.came + uint32(int8(op[2])/32)
		var b [headerSize]byte
		if m.encode(b[:], number); op[0]&12 == 12 {
			copy(b[:], raw)
			seal(b[:])
		}
		if x, _, n, _, ok := decode(b[:]); ok && x.class == requests && x.target == u.self && x.write() {
			g.allow(x.flags|DataBlock, x.addr, block[:n])
		}
		slot := in.slot
		if op[0]&16 != 0 {
			slot = int(raw[17]) % slots
		}
		g.quiet = true
		tile.write(bufferAt(arrive[c]+slot), block)
		tile.write(headerAt(arrive[c]+slot), b[:])
		tile.write(heardWord, raw[:16])
		g.quiet = false
		u.m.Arrived(w.now, ch, uint32(headerAt(arrive[c]+slot)), headerSize)
		if op[0]&32 != 0 {
			u.m.Arrived(w.now, ch, heardWord, wire.WriteUnit)
		}
		if op[0]&64 != 0 {
			u.m.Arrived(w.now, ch, binary.LittleEndian.Uint32(raw[20:])%(2*End), int(raw[24]))
		}
		u.m.Run(w.now)
		u.cables[ch].writes = nil
		if err := u.m.CheckInvariants(); err != nil {
			t.Fatal(err)
		}
	}
	for range 4 * 10 { // the peer says nothing any more
		w.now = w.now.Add(AnswerTimeout / 10)
		u.m.Run(w.now)
		u.cables[ch].writes = nil
	}
	if q := h.queue(); q.Open != 0 || q.SQ.RdReq != q.SQ.RdResp || q.SQ.WrReq != q.SQ.WrResp {
		t.Errorf("requests are left: %+v", q)
	}
}

// FuzzCable lets the other end of a cable write anything into the internal buffers of a tile.
func FuzzCable(f *testing.F) {
	r := rand.New(rand.NewPCG(4, 4))
	for range 60 {
		b := make([]byte, 80+r.IntN(2000))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) { cableOps(t, data[:min(len(data), 4096)]) })
}

// seal makes the checksum of a header right.
func seal(b []byte) { binary.LittleEndian.PutUint32(b, castagnoli.Checksum(b[4:headerSize])) }
