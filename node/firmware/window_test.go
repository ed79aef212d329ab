package firmware

import (
	"bytes"
	"testing"

	"ttfabric/wire"
)

// hostWindow is the first address of the window of the PCIe tile to host memory.
const hostWindow = 0x8_0000_0000

var pcie = tilePos{0, 3}

// TestWindow writes and reads the host memory of both chips of an n300 through the window of the PCIe tile,
// with every request type that can name an address in the window.
func TestWindow(t *testing.T) {
	for seed := range uint64(20) {
		w := newRig(t, named(t, "n300"), seed)
		h := w.user(0, 10)
		for chip := range uint8(2) {
			for _, noc := range []Flags{0, NocID} {
				at := pcie.Addr(hostWindow + 0x40000)
				if noc != 0 {
					at = tilePos{9, 8}.Addr(hostWindow + 0x40000) // the PCIe tile in coordinates of NoC 1
				}
				b := fill(3000 + int(seed))
				target := func(off int) uint64 { return NewTarget(chip, 0, at.Add(off)) }
				for i := range 64 {
					h.u.host[uint64(i)] = b[i]
				}
				h.push(Entry{Target: target(0), Data: 0x04030201, Flags: WrReq | noc}, nil)
				h.push(Entry{Target: target(32), Data: 1000, Flags: WrReq | DataBlock | noc}, b[:1000])
				h.push(Entry{Target: target(0x2000), Data: 64, Flags: WrReq | DataBlock | DataBlockDRAM | noc}, nil)
				w.settle()
				got := func(off, n int) (m []byte) {
					for i := range n {
						m = append(m, w.chips[chip].host[uint64(0x40000+off+i)])
					}
					return m
				}
				if !bytes.Equal(got(0, 4), []byte{1, 2, 3, 4}) || !bytes.Equal(got(32, 1000), b[:1000]) || !bytes.Equal(got(0x2000, 64), b[:64]) {
					t.Fatalf("seed %d, chip %d: the host has %x", seed, chip, got(0, 64))
				}
				h.push(Entry{Target: target(0), Flags: RdReq | noc}, nil)
				h.push(Entry{Target: target(32), Data: 1000, Flags: RdReq | DataBlock | noc}, nil)
				h.push(Entry{Target: target(0), Data: 3200, Flags: RdReq | DataBlock | DataBlockDRAM | noc, HostAddr: 0x100000}, nil)
				w.settle()
				if e, _, ok := h.pop(); !ok || e.Flags != RdData || e.Data != 0x04030201 {
					t.Fatalf("chip %d, a word: %+v, %v", chip, e, ok)
				}
				if e, block, ok := h.pop(); !ok || e.Flags != RdData|DataBlock || !bytes.Equal(block[:1000], b[:1000]) {
					t.Fatalf("chip %d, a block: %+v, %v", chip, e, ok)
				}
				e, _, ok := h.pop()
				for i, v := range got(0, 3200) {
					ok = ok && h.u.host[uint64(0x100000+i)] == v
				}
				if !ok || e.Flags != RdData|DataBlock|DataBlockDRAM {
					t.Fatalf("chip %d, from host memory to host memory: %+v, %v", chip, e, ok)
				}
				clear(w.chips[chip].host)
			}
		}
		w.quiet()
	}
}

// A host may refuse the request, or not perform it. The requests behind then go on, and the counters balance.
func TestWindowWithoutHost(t *testing.T) {
	for chip := range 2 {
		w := newRig(t, named(t, "n300"), 0)
		h, u := w.user(0, 8), w.chips[chip]
		read := func(a wire.NocAddr) Entry { return Entry{Target: NewTarget(uint8(chip), 0, a), Flags: RdReq} }
		u.refuses = true
		h.push(read(pcie.Addr(hostWindow)), nil)
		h.push(read(tensix.Addr(0)), nil)
		w.settle()
		for _, want := range []Flags{RdData | DataBlockUnavailable, RdData} {
			if e, _, ok := h.pop(); !ok || e.Flags != want {
				t.Fatalf("chip %d, a host that refuses: %+v, %v, want %v", chip, e, ok, want)
			}
		}
		u.refuses, u.deaf = false, true
		h.push(read(pcie.Addr(hostWindow)), nil)
		h.push(read(tensix.Addr(0)), nil)
		w.run(AnswerTimeout / 2)
		if _, _, ok := h.pop(); ok {
			t.Fatalf("chip %d: a request ended early", chip)
		}
		h.push(Entry{Target: NewTarget(uint8(chip), 0, pcie.Addr(hostWindow+HostSize-1024)), Data: 2048, Flags: RdReq | DataBlock | DataBlockDRAM}, nil) // beyond the window
		w.run(3 * AnswerTimeout)
		u.deaf = false
		w.run(AnswerTimeout)
		var got []Flags
		for e, _, ok := h.pop(); ok; e, _, ok = h.pop() {
			got = append(got, e.Flags)
		}
		if len(got) != 3 || got[0] != RdData|DestUnreachable || got[2] != RdData|DataBlock|DataBlockDRAM|DataBlockUnavailable {
			t.Fatalf("chip %d, a host that does nothing: %v", chip, got)
		}
		h.push(read(pcie.Addr(hostWindow)), nil)
		w.settle()
		if e, _, ok := h.pop(); !ok || e.Flags != RdData {
			t.Errorf("chip %d, after the host works again: %+v, %v", chip, e, ok)
		}
		w.quiet()
	}
}
