package linear

import (
	"ttfabric/node/session/device"
	"ttfabric/wire"
)

// MulticastWrite writes data to address "to" at each chip in the range of each link (tt-metal:
// fabric_multicast_noc_unicast_write).
func MulticastWrite(ls device.Links, data []byte, to wire.NocAddr, over ...Range) error {
	return ls.SendSet(MulticastWriteSetState(ls, to, over...), data)
}

// MulticastWriteSetState prepares the headers of [MulticastWrite]. tt-metal:
// fabric_multicast_noc_unicast_write_set_state.
func MulticastWriteSetState(ls device.Links, to wire.NocAddr, over ...Range) error {
	return multicast(ls, device.Write(to), over)
}

// MulticastWriteWithState updates the prepared headers in the fields that u names, and then sends
// the packets of [MulticastWrite]. tt-metal: fabric_multicast_noc_unicast_write_with_state.
func MulticastWriteWithState(ls device.Links, u device.Update, data []byte, to wire.NocAddr) error {
	return ls.With(u, device.Write(to), true, data)
}

// MulticastInlineWrite writes one 32-bit word at each chip in the range of each link (tt-metal:
// fabric_multicast_noc_unicast_inline_write).
func MulticastInlineWrite(ls device.Links, to wire.NocAddr, value uint32, over ...Range) error {
	return ls.SendSet(MulticastInlineWriteSetState(ls, to, value, over...), nil)
}

// MulticastInlineWriteSetState prepares the headers of [MulticastInlineWrite]. tt-metal:
// fabric_multicast_noc_unicast_inline_write_set_state.
func MulticastInlineWriteSetState(ls device.Links, to wire.NocAddr, value uint32, over ...Range) error {
	return multicast(ls, device.InlineWrite(to, value), over)
}

// MulticastInlineWriteWithState updates the prepared headers in the fields that u names, and then
// sends the packets of [MulticastInlineWrite]. tt-metal:
// fabric_multicast_noc_unicast_inline_write_with_state.
func MulticastInlineWriteWithState(ls device.Links, u device.Update, to wire.NocAddr, value uint32) error {
	return ls.With(u, device.InlineWrite(to, value), true, nil)
}

// MulticastAtomicInc adds to a 32-bit counter at each chip in the range of each link (tt-metal:
// fabric_multicast_noc_unicast_atomic_inc).
func MulticastAtomicInc(ls device.Links, counter wire.NocAddr, add uint32, flush bool, over ...Range) error {
	return ls.SendSet(MulticastAtomicIncSetState(ls, counter, add, flush, over...), nil)
}

// MulticastAtomicIncSetState prepares the headers of [MulticastAtomicInc]. tt-metal:
// fabric_multicast_noc_unicast_atomic_inc_set_state.
func MulticastAtomicIncSetState(ls device.Links, counter wire.NocAddr, add uint32, flush bool, over ...Range) error {
	return multicast(ls, device.AtomicInc(counter, add, flush), over)
}

// MulticastAtomicIncWithState updates the prepared headers in the fields that u names, and then
// sends the packets of [MulticastAtomicInc]. tt-metal:
// fabric_multicast_noc_unicast_atomic_inc_with_state.
func MulticastAtomicIncWithState(ls device.Links, u device.Update, counter wire.NocAddr, add uint32, flush bool) error {
	return ls.With(u, device.AtomicInc(counter, add, flush), true, nil)
}

// MulticastFusedAtomicInc writes data, and then adds to a 32-bit counter, at each chip in the range
// of each link (tt-metal: fabric_multicast_noc_fused_unicast_with_atomic_inc).
func MulticastFusedAtomicInc(ls device.Links, data []byte, to, counter wire.NocAddr, add uint32, flush bool, over ...Range) error {
	return ls.SendSet(MulticastFusedAtomicIncSetState(ls, to, counter, add, flush, over...), data)
}

// MulticastFusedAtomicIncSetState prepares the headers of [MulticastFusedAtomicInc]. tt-metal:
// fabric_multicast_noc_fused_unicast_with_atomic_inc_set_state.
func MulticastFusedAtomicIncSetState(ls device.Links, to, counter wire.NocAddr, add uint32, flush bool, over ...Range) error {
	return multicast(ls, device.FusedAtomicInc(to, counter, add, flush), over)
}

// MulticastFusedAtomicIncWithState updates the prepared headers in the fields that u names, and
// then sends the packets of [MulticastFusedAtomicInc]. tt-metal:
// fabric_multicast_noc_fused_unicast_with_atomic_inc_with_state.
func MulticastFusedAtomicIncWithState(ls device.Links, u device.Update, data []byte, to, counter wire.NocAddr, add uint32, flush bool) error {
	return ls.With(u, device.FusedAtomicInc(to, counter, add, flush), true, data)
}

// MulticastScatterWrite writes two to four chunks, at most 4096 bytes together, at each chip in the
// range of each link (tt-metal: fabric_multicast_noc_scatter_write).
func MulticastScatterWrite(ls device.Links, chunks []device.Chunk, over ...Range) error {
	c, data, err := device.Scatter(chunks)
	if err != nil {
		return err
	}
	return ls.SendSet(multicast(ls, c, over), data)
}

// MulticastScatterWriteSetState prepares the headers of [MulticastScatterWrite]: addresses and
// lengths of the chunks. tt-metal: fabric_multicast_noc_scatter_write_set_state.
func MulticastScatterWriteSetState(ls device.Links, chunks []device.Chunk, over ...Range) error {
	c, _, err := device.Scatter(chunks)
	if err != nil {
		return err
	}
	return multicast(ls, c, over)
}

// MulticastScatterWriteWithState updates the prepared headers in the fields that u names, and then
// sends the packets of [MulticastScatterWrite]. tt-metal:
// fabric_multicast_noc_scatter_write_with_state.
func MulticastScatterWriteWithState(ls device.Links, u device.Update, chunks []device.Chunk) error {
	c, data, err := device.Scatter(chunks)
	if err != nil {
		return err
	}
	return ls.With(u, c, true, data)
}
