package firmware

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"testing"

	"ttfabric/node/noc"
	"ttfabric/wire"
)

// A row of the table of request types (BDMS, "Request types"), at one side of one limit.
type row struct {
	section string // of the document
	flags   Flags
	tile    tilePos // target
	off     uint64  // offset in the target
	length  uint32  // data_block_length
	host    uint32  // data_block_dram_addr
	want    Reason  // 0: the request is performed
}

// Tiles of the rows.
var (
	tensix = tilePos{1, 1}
	ether  = tilePos{7, 6}
	dram   = tilePos{0, 0}
	nobody = tilePos{12, 5} // no tile
)

// rows lists the rows. Each row is tried with all combinations of the flags Ordered and NocID.
func rows(sizes map[noc.Kind]uint64) (all []row) {
	add := func(section string, flags Flags, tile tilePos, off uint64, length, host uint32, want Reason) {
		all = append(all, row{section, flags, tile, off, length, host, want})
	}
	const types = "Request types"
	l1, eth, bank := sizes[noc.Tensix], sizes[noc.Ethernet], sizes[noc.DRAM]
	for _, op := range []Flags{RdReq, WrReq} {
		for _, t := range []tilePos{tensix, ether, dram} { // one word: 4-byte aligned, exactly 4 bytes
			for off := range uint64(8) {
				want := Misaligned
				if off%4 == 0 {
					want = 0
				}
				add(types, op, t, 0x19000+off, 12345, 0, want)
			}
		}
		add(types, op, tensix, l1-4, 0, 0, 0)
		add(types, op, tensix, l1, 0, 0, BadTarget)
		add(types, op, ether, eth, 0, 0, BadTarget)
		add(types, op, dram, bank-4, 0, 0, 0)
		add(types, op, dram, bank, 0, 0, BadTarget)
		add("Addressing", op, nobody, 0, 0, 0, BadTarget)
		for _, memory := range []Flags{0, DataBlockDRAM} {
			block := op | DataBlock | memory
			for off := range uint64(33) { // 16-byte aligned in Tensix and ethernet tiles, 32-byte aligned elsewhere
				want := [2]Reason{Misaligned, Misaligned}
				if off%16 == 0 {
					want[0] = 0
				}
				if off%32 == 0 {
					want[1] = 0
				}
				add(types+", †", block, tensix, 0x19000+off, 64, 0x40, want[0])
				add(types+", †", block, ether, 0x19000+off, 64, 0x40, want[0])
				add(types+", †", block, dram, 0x19000+off, 64, 0x40, want[1])
			}
			for _, n := range []uint32{0, 4, 1020, 1024} { // at most 1024 bytes, and a multiple of 4
				add(types, block, tensix, 0x19000, n, 0x40, 0)
			}
			for _, n := range []uint32{1, 2, 3, 5, 1022, 1023, 1025, 1026} {
				add(types, block, tensix, 0x19000, n, 0x40, BadLength)
			}
			add(types, block, tensix, l1-1024, 1024, 0x40, 0)
			add(types, block, tensix, l1-1008, 1024, 0x40, BadTarget)
		}
		add(types, op|DataBlock, tensix, 0x19000, 1028, 0, BadLength)
		add(types, op|DataBlock, tensix, 0x19000, 1<<32-4, 0, BadLength)
		far := op | DataBlock | DataBlockDRAM
		for _, n := range []uint32{1028, 2048, 40<<10 + 4} { // less than 4 GiB
			add(types, far, tensix, 0x19000, n, 0x40, 0)
		}
		add(types, far, dram, 0, 1<<32-4, 0, BadTarget) // the bank is smaller
		add(types, far, tensix, 0x19000, 1030, 0x40, BadLength)
		for host := range uint32(33) { // host: 32-byte aligned
			want := BadHost
			if host%32 == 0 {
				want = 0
			}
			add(types, far, tensix, 0x19000, 64, 0x1000+host, want)
		}
		add("Addressing", far, tensix, 0x19000, 32, 1<<32-32, 0) // the 4 GiB of NoC to host
		add("Addressing", far, tensix, 0x19000, 36, 1<<32-32, BadHost)
		add("Queues", op|DataBlockDRAM, tensix, 0x19000, 64, 0x40, BadFlags)
		add("Queues", op|Mod, tensix, 0x19000, 64, 0x40, BadFlags)
		for bit := range 32 {
			if f := Flags(1) << bit; f&requestFlags == 0 {
				add("Queues", op|f, tensix, 0x19000, 0, 0, BadFlags)
			}
		}
	}
	add("Queues", 0, tensix, 0x19000, 0, 0, BadFlags)
	add("Queues", RdReq|WrReq, tensix, 0x19000, 0, 0, BadFlags)
	add("Queues", RdReq|DataBlock|Mod, tensix, 0x19000, 64, 0, BadFlags)
	add("Queues", RdReq|DataBlock|DataBlockDRAM|Mod, tensix, 0x19000, 64, 0x40, BadFlags)
	for _, memory := range []Flags{0, DataBlockDRAM} { // scatter pages: the low 48 bits of target_addr are ignored
		page := WrReq | DataBlock | Mod | memory
		for _, n := range []uint32{0, 64, 1020, 1024} {
			add("Scatter pages", page, tensix, 0x19003, n, 0x40, 0)
		}
		add("Scatter pages", page, nobody, 1, 64, 0x40, 0)
		add("Scatter pages", page, tensix, 0, 62, 0x40, BadLength)
	}
	add("Scatter pages", WrReq|DataBlock|Mod, tensix, 0, 1028, 0, BadLength)
	add("Scatter pages", WrReq|DataBlock|DataBlockDRAM|Mod, tensix, 0, 3<<10+64, 0x40, 0)
	add("Scatter pages", WrReq|DataBlock|DataBlockDRAM|Mod, tensix, 0, 64, 0x44, BadHost)
	return all
}

// TestRequestTable tries every row of the table on the chip itself and on a chip at the other end of a cable.
// The test checks the outcome, the response, the counters, the event, and that nothing else changed.
func TestRequestTable(t *testing.T) {
	t.Parallel()
	m := named(t, "n300")
	sizes := newRig(t, m, 0).chips[0].kinds()
	for x := range uint8(2) {
		for _, more := range []Flags{0, Ordered, NocID, Ordered | NocID} {
			w := newRig(t, m, 0)
			for _, r := range rows(sizes) {
				try(t, w, x, r, more)
			}
			w.quiet()
		}
	}
}

// kinds returns the sizes of the tiles, by kind.
func (u *unit) kinds() map[noc.Kind]uint64 { return newTileKinds(u.memory).sizes }

// try tries a row on the chip at column x.
func try(t *testing.T, w *rig, x uint8, r row, more Flags) {
	t.Helper()
	r.flags |= more
	h, to := w.user(0, 10), w.chips[x]
	to.stores = nil
	a := r.tile.Addr(r.off)
	if r.flags&NocID != 0 && r.tile != nobody {
		a = wire.NewNocAddr(9-r.tile.x, 11-r.tile.y, r.off) // the same tile, in coordinates of NoC 1
	}
	e := Entry{Target: NewTarget(x, 0, a), Data: r.length, Flags: r.flags, HostAddr: r.host}
	name := fmt.Sprintf("%s: flags %#x, chip %d, offset %#x of %d-%d, length %d, host %#x", r.section, uint32(r.flags), x, r.off, r.tile.x, r.tile.y, r.length, r.host)
	n := int(min(r.length, BlockSize*41))
	data := fill(n)
	var wantStores []noc.Write
	switch {
	case r.flags&Mod != 0 && r.want == 0:
		data, wantStores = pages(r.flags, n)
	case r.flags&WrReq == 0 || r.want != 0:
	case r.flags&DataBlock == 0:
		wantStores = []noc.Write{{Addr: e.addr(), Len: 4}}
	default:
		for at := 0; at < n; at += BlockSize {
			wantStores = append(wantStores, noc.Write{Addr: e.addr().Add(at), Len: min(n-at, BlockSize)})
		}
	}
	to.memory.Execute(&wire.Command{Type: wire.NocUnicastWrite, Addr: r.tile.Addr(r.off)}, fill(n)) // what a read finds, if there is memory
	clear(h.u.host)
	if r.flags&WrReq != 0 && r.flags&DataBlockDRAM != 0 {
		for i, v := range data {
			h.u.host[uint64(r.host)+uint64(i)] = v
		}
	}
	before := h.queue()
	h.push(e, data[:min(len(data), BlockSize)])
	if r.flags&RdReq != 0 && x == 1 && r.want == 0 && (n > 0 || r.flags&DataBlockDRAM == 0) { // without bytes of host memory, the request ends at once
		checkAccepted(t, name, h, e)
	}
	w.settle()
	if r.flags&Ordered == 0 && x == 1 { // the parts may take different cables
		slices.SortFunc(to.stores, func(a, b noc.Write) int { return cmp.Compare(a.Addr, b.Addr) })
	}
	checkCounters(t, name, before, h.queue(), r)
	if fmt.Sprint(to.stores) != fmt.Sprint(wantStores) {
		t.Errorf("%s: stores %v, want %v", name, to.stores, wantStores)
	}
	checkResponse(t, name, h, e, r, n)
	if ev, ok := h.u.m.PollEvent(); before.Counters.Refused+before.Counters.Unreachable < MaxReports && (ok != (r.want != 0) || ok && ev.Reason != r.want) {
		t.Errorf("%s: event %+v, want %q", name, ev, r.want)
	}
	if r.want == 0 && r.flags&WrReq != 0 && r.flags&Mod == 0 {
		got, want := make([]byte, 4), words(r.length)
		if r.flags&DataBlock != 0 {
			got, want = make([]byte, n), data
		}
		if to.memory.Read(r.tile.Addr(r.off), got); !bytes.Equal(got, want) {
			t.Errorf("%s: wrong bytes in the tile", name)
		}
	}
}

// checkAccepted checks the completion entry of a read that the firmware has accepted, and not ended (BDMS,
// "Request semantics").
func checkAccepted(t *testing.T, name string, h *user, e Entry) {
	t.Helper()
	slot, before := h.word(CQ+WrIdx)%QueueLen, h.queue().SQ
	h.u.m.Run(h.u.w.now)
	want := Entry{Target: e.Target}
	if e.Flags&DataBlockDRAM != 0 {
		want.HostAddr = e.HostAddr
	}
	if c := ParseEntry(h.read(CQ+Entries+uint64(slot)*EntrySize, EntrySize)); c != want {
		t.Errorf("%s: accepted with the entry %+v, want %+v", name, c, want)
	}
	if q := h.queue().SQ; q.RdReq != before.RdReq+1 || q.RdResp != before.RdResp {
		t.Errorf("%s: accepted: %+v", name, q)
	}
}

func checkCounters(t *testing.T, name string, was, is Tile, r row) {
	t.Helper()
	want := was.SQ
	want.RdIdx, want.WrIdx = (want.RdIdx+1)&indexMask, (want.WrIdx+1)&indexMask
	switch {
	case r.flags&RdReq != 0:
		want.RdReq, want.RdResp = want.RdReq+1, want.RdResp+1
	case r.flags&WrReq != 0:
		want.WrReq, want.WrResp = want.WrReq+1, want.WrResp+1
	}
	if r.want != 0 {
		want.Errors++
		if is.LastError != r.want.String() {
			t.Errorf("%s: last error %q, want %q", name, is.LastError, r.want)
		}
	}
	if is.SQ != want {
		t.Errorf("%s: submission queue %+v, want %+v", name, is.SQ, want)
	}
}

// checkResponse checks the completion of a read, and that a write has none.
func checkResponse(t *testing.T, name string, h *user, e Entry, r row, n int) {
	t.Helper()
	c, block, ok := h.pop()
	if ok != (r.flags&RdReq != 0) {
		t.Fatalf("%s: completion: %v", name, ok)
	}
	if !ok {
		return
	}
	want := Entry{Target: e.Target, Flags: RdData | r.flags&(DataBlock|DataBlockDRAM)}
	if r.flags&DataBlockDRAM != 0 {
		want.HostAddr = r.host
	}
	if r.flags&DataBlock != 0 {
		want.Data = r.length
	}
	if r.want != 0 {
		want.Flags |= DataBlockUnavailable
	}
	got, wantBytes := block[:min(n, BlockSize)], fill(n)
	switch {
	case r.want != 0:
		wantBytes = got
	case r.flags&DataBlock == 0:
		got, wantBytes = words(c.Data), fill(4)
		want.Data = c.Data
		if r.length < 4 { // nothing was stored before the read
			wantBytes = got
		}
	case r.flags&DataBlockDRAM != 0:
		got = nil
		for i := range n {
			got = append(got, h.u.host[uint64(r.host)+uint64(i)])
		}
		if len(h.u.host) != n {
			t.Errorf("%s: %d bytes of host memory changed, want %d", name, len(h.u.host), n)
		}
	}
	if c != want {
		t.Errorf("%s: completion %+v, want %+v", name, c, want)
	}
	if !bytes.Equal(got, wantBytes) {
		t.Errorf("%s: wrong bytes", name)
	}
}

// fill returns n bytes.
func fill(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8 + 1)
	}
	return b
}

// pages returns n bytes of scatter pages, each of one write and of padding, and the writes.
func pages(flags Flags, n int) (b []byte, writes []noc.Write) {
	for at := 0; at < n; at += BlockSize {
		a := tensix.Addr(0x1A004 + uint64(at))
		size := min(n-at, BlockSize)/wordAlign - sectionHeader/wordAlign - 1
		page := words(sectionWrite|1<<8|uint32(uint64(a)>>32)<<16, uint32(min(size, 255))|3<<8, uint32(a))
		if flags&NocID != 0 {
			one := wire.NewNocAddr(9-tensix.x, 11-tensix.y, a.Offset())
			page = words(sectionWrite|1<<8|uint32(uint64(one)>>32)<<16, uint32(min(size, 255))|3<<8, uint32(one))
			a = one | wire.NocOne
		}
		page = append(page, fill(4*min(size, 255))...)
		page = append(page, sectionPad)
		page = append(page, make([]byte, BlockSize-len(page))...)
		b = append(b, page...)
		writes = append(writes, noc.Write{Addr: a, Len: 4 * min(size, 255)})
	}
	return b, writes
}
