package linear

import (
	"ttfabric/node/session/device"
	"ttfabric/wire"
)

// SparseMulticastWrite writes data to address "to" at each chip in the hop mask of each link
// (tt-metal: fabric_sparse_multicast_noc_unicast_write).
func SparseMulticastWrite(ls device.Links, data []byte, to wire.NocAddr, at ...Hops) error {
	return ls.SendSet(SparseMulticastWriteSetState(ls, to, at...), data)
}

// SparseMulticastWriteSetState prepares the headers of [SparseMulticastWrite].
func SparseMulticastWriteSetState(ls device.Links, to wire.NocAddr, at ...Hops) error {
	return sparse(ls, device.Write(to), at)
}

// SparseMulticastWriteWithState updates the prepared headers in the fields that u names, and then
// sends the packets of [SparseMulticastWrite].
func SparseMulticastWriteWithState(ls device.Links, u device.Update, data []byte, to wire.NocAddr) error {
	return ls.With(u, device.Write(to), true, data)
}

// SparseMulticastInlineWrite writes one 32-bit word at each chip in the hop mask of each link
// (tt-metal has only fabric_sparse_multicast_noc_unicast_write).
func SparseMulticastInlineWrite(ls device.Links, to wire.NocAddr, value uint32, at ...Hops) error {
	return ls.SendSet(SparseMulticastInlineWriteSetState(ls, to, value, at...), nil)
}

// SparseMulticastInlineWriteSetState prepares the headers of [SparseMulticastInlineWrite].
func SparseMulticastInlineWriteSetState(ls device.Links, to wire.NocAddr, value uint32, at ...Hops) error {
	return sparse(ls, device.InlineWrite(to, value), at)
}

// SparseMulticastInlineWriteWithState updates the prepared headers in the fields that u names, and
// then sends the packets of [SparseMulticastInlineWrite].
func SparseMulticastInlineWriteWithState(ls device.Links, u device.Update, to wire.NocAddr, value uint32) error {
	return ls.With(u, device.InlineWrite(to, value), true, nil)
}

// SparseMulticastAtomicInc adds to a 32-bit counter at each chip in the hop mask of each link
// (tt-metal has only fabric_sparse_multicast_noc_unicast_write).
func SparseMulticastAtomicInc(ls device.Links, counter wire.NocAddr, add uint32, flush bool, at ...Hops) error {
	return ls.SendSet(SparseMulticastAtomicIncSetState(ls, counter, add, flush, at...), nil)
}

// SparseMulticastAtomicIncSetState prepares the headers of [SparseMulticastAtomicInc].
func SparseMulticastAtomicIncSetState(ls device.Links, counter wire.NocAddr, add uint32, flush bool, at ...Hops) error {
	return sparse(ls, device.AtomicInc(counter, add, flush), at)
}

// SparseMulticastAtomicIncWithState updates the prepared headers in the fields that u names, and
// then sends the packets of [SparseMulticastAtomicInc].
func SparseMulticastAtomicIncWithState(ls device.Links, u device.Update, counter wire.NocAddr, add uint32, flush bool) error {
	return ls.With(u, device.AtomicInc(counter, add, flush), true, nil)
}

// SparseMulticastFusedAtomicInc writes data, and then adds to a 32-bit counter, at each chip in the
// hop mask of each link (tt-metal has only fabric_sparse_multicast_noc_unicast_write).
func SparseMulticastFusedAtomicInc(ls device.Links, data []byte, to, counter wire.NocAddr, add uint32, flush bool, at ...Hops) error {
	return ls.SendSet(SparseMulticastFusedAtomicIncSetState(ls, to, counter, add, flush, at...), data)
}

// SparseMulticastFusedAtomicIncSetState prepares the headers of [SparseMulticastFusedAtomicInc].
func SparseMulticastFusedAtomicIncSetState(ls device.Links, to, counter wire.NocAddr, add uint32, flush bool, at ...Hops) error {
	return sparse(ls, device.FusedAtomicInc(to, counter, add, flush), at)
}

// SparseMulticastFusedAtomicIncWithState updates the prepared headers in the fields that u names,
// and then sends the packets of [SparseMulticastFusedAtomicInc].
func SparseMulticastFusedAtomicIncWithState(ls device.Links, u device.Update, data []byte, to, counter wire.NocAddr, add uint32, flush bool) error {
	return ls.With(u, device.FusedAtomicInc(to, counter, add, flush), true, data)
}

// SparseMulticastScatterWrite writes two to four chunks, at most 4096 bytes together, at each chip
// in the hop mask of each link (tt-metal has only fabric_sparse_multicast_noc_unicast_write).
func SparseMulticastScatterWrite(ls device.Links, chunks []device.Chunk, at ...Hops) error {
	c, data, err := device.Scatter(chunks)
	if err != nil {
		return err
	}
	return ls.SendSet(sparse(ls, c, at), data)
}

// SparseMulticastScatterWriteSetState prepares the headers of [SparseMulticastScatterWrite]:
// addresses and lengths of the chunks.
func SparseMulticastScatterWriteSetState(ls device.Links, chunks []device.Chunk, at ...Hops) error {
	c, _, err := device.Scatter(chunks)
	if err != nil {
		return err
	}
	return sparse(ls, c, at)
}

// SparseMulticastScatterWriteWithState updates the prepared headers in the fields that u names, and
// then sends the packets of [SparseMulticastScatterWrite].
func SparseMulticastScatterWriteWithState(ls device.Links, u device.Update, chunks []device.Chunk) error {
	c, data, err := device.Scatter(chunks)
	if err != nil {
		return err
	}
	return ls.With(u, c, true, data)
}
