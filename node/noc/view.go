package noc

import "ttfabric/wire"

// View calls f with the n bytes of memory from address a on, in consecutive pieces, without a copy. A piece
// never crosses an address that is a multiple of 32 KiB. If f returns false, View stops. The function f must
// not change or keep the bytes. If the bytes are registers, or were never written, or may show words that
// nobody has stored, View calls nothing and returns false; a caller then uses [Memory.Read].
func (m *Memory) View(a wire.NocAddr, n int, f func(piece []byte) bool) bool {
	s, o := m.find(a, n)
	if o != wire.OutcomeDone || s.regs != 0 || m.windows[s.bank] != nil || m.tileOf(a).Kind == Ethernet {
		return false
	}
	for p := s.off >> pageBits; p<<pageBits < s.off+uint64(n); p++ {
		if m.page(pageKey{s.bank, uint32(p)}) == nil {
			return false
		}
	}
	for left := n; left > 0; {
		in := int(s.off & (pageSize - 1))
		k := min(left, pageSize-in)
		if !f(m.page(pageKey{s.bank, uint32(s.off >> pageBits)})[in : in+k : in+k]) {
			break
		}
		left, s.off = left-k, s.off+uint64(k)
	}
	return true
}
