package mesh

import (
	"ttfabric/node/session/device"
	"ttfabric/wire"
)

// UnicastWrite writes data to address "to" at the destination of each link (tt-metal:
// fabric_unicast_noc_unicast_write).
func UnicastWrite(ls device.Links, data []byte, to wire.NocAddr, dst ...wire.FabricNodeID) error {
	return ls.SendSet(UnicastWriteSetState(ls, to, dst...), data)
}

// UnicastWriteSetState prepares the headers of [UnicastWrite]. tt-metal:
// fabric_unicast_noc_unicast_write_set_state.
func UnicastWriteSetState(ls device.Links, to wire.NocAddr, dst ...wire.FabricNodeID) error {
	return unicast(ls, device.Write(to), dst)
}

// UnicastWriteWithState updates the prepared headers in the fields that u names, and then sends the
// packets of [UnicastWrite]. tt-metal: fabric_unicast_noc_unicast_write_with_state.
func UnicastWriteWithState(ls device.Links, u device.Update, data []byte, to wire.NocAddr) error {
	return ls.With(u, device.Write(to), false, data)
}

// UnicastInlineWrite writes one 32-bit word at the destination of each link (tt-metal:
// fabric_unicast_noc_unicast_inline_write).
func UnicastInlineWrite(ls device.Links, to wire.NocAddr, value uint32, dst ...wire.FabricNodeID) error {
	return ls.SendSet(UnicastInlineWriteSetState(ls, to, value, dst...), nil)
}

// UnicastInlineWriteSetState prepares the headers of [UnicastInlineWrite]. tt-metal:
// fabric_unicast_noc_unicast_inline_write_set_state.
func UnicastInlineWriteSetState(ls device.Links, to wire.NocAddr, value uint32, dst ...wire.FabricNodeID) error {
	return unicast(ls, device.InlineWrite(to, value), dst)
}

// UnicastInlineWriteWithState updates the prepared headers in the fields that u names, and then
// sends the packets of [UnicastInlineWrite]. tt-metal:
// fabric_unicast_noc_unicast_inline_write_with_state.
func UnicastInlineWriteWithState(ls device.Links, u device.Update, to wire.NocAddr, value uint32) error {
	return ls.With(u, device.InlineWrite(to, value), false, nil)
}

// UnicastAtomicInc adds to a 32-bit counter at the destination of each link (tt-metal:
// fabric_unicast_noc_unicast_atomic_inc).
func UnicastAtomicInc(ls device.Links, counter wire.NocAddr, add uint32, flush bool, dst ...wire.FabricNodeID) error {
	return ls.SendSet(UnicastAtomicIncSetState(ls, counter, add, flush, dst...), nil)
}

// UnicastAtomicIncSetState prepares the headers of [UnicastAtomicInc]. tt-metal:
// fabric_unicast_noc_unicast_atomic_inc_set_state.
func UnicastAtomicIncSetState(ls device.Links, counter wire.NocAddr, add uint32, flush bool, dst ...wire.FabricNodeID) error {
	return unicast(ls, device.AtomicInc(counter, add, flush), dst)
}

// UnicastAtomicIncWithState updates the prepared headers in the fields that u names, and then sends
// the packets of [UnicastAtomicInc]. tt-metal: fabric_unicast_noc_unicast_atomic_inc_with_state.
func UnicastAtomicIncWithState(ls device.Links, u device.Update, counter wire.NocAddr, add uint32, flush bool) error {
	return ls.With(u, device.AtomicInc(counter, add, flush), false, nil)
}

// UnicastFusedAtomicInc writes data, and then adds to a 32-bit counter, at the destination of each
// link (tt-metal: fabric_unicast_noc_fused_unicast_with_atomic_inc).
func UnicastFusedAtomicInc(ls device.Links, data []byte, to, counter wire.NocAddr, add uint32, flush bool, dst ...wire.FabricNodeID) error {
	return ls.SendSet(UnicastFusedAtomicIncSetState(ls, to, counter, add, flush, dst...), data)
}

// UnicastFusedAtomicIncSetState prepares the headers of [UnicastFusedAtomicInc]. tt-metal:
// fabric_unicast_noc_fused_unicast_with_atomic_inc_set_state.
func UnicastFusedAtomicIncSetState(ls device.Links, to, counter wire.NocAddr, add uint32, flush bool, dst ...wire.FabricNodeID) error {
	return unicast(ls, device.FusedAtomicInc(to, counter, add, flush), dst)
}

// UnicastFusedAtomicIncWithState updates the prepared headers in the fields that u names, and then
// sends the packets of [UnicastFusedAtomicInc]. tt-metal:
// fabric_unicast_noc_fused_unicast_with_atomic_inc_with_state.
func UnicastFusedAtomicIncWithState(ls device.Links, u device.Update, data []byte, to, counter wire.NocAddr, add uint32, flush bool) error {
	return ls.With(u, device.FusedAtomicInc(to, counter, add, flush), false, data)
}

// UnicastScatterWrite writes two to four chunks, at most 4096 bytes together, at the destination of
// each link (tt-metal: fabric_unicast_noc_scatter_write).
func UnicastScatterWrite(ls device.Links, chunks []device.Chunk, dst ...wire.FabricNodeID) error {
	c, data, err := device.Scatter(chunks)
	if err != nil {
		return err
	}
	return ls.SendSet(unicast(ls, c, dst), data)
}

// UnicastScatterWriteSetState prepares the headers of [UnicastScatterWrite]: addresses and lengths
// of the chunks. tt-metal: fabric_unicast_noc_scatter_write_set_state.
func UnicastScatterWriteSetState(ls device.Links, chunks []device.Chunk, dst ...wire.FabricNodeID) error {
	c, _, err := device.Scatter(chunks)
	if err != nil {
		return err
	}
	return unicast(ls, c, dst)
}

// UnicastScatterWriteWithState updates the prepared headers in the fields that u names, and then
// sends the packets of [UnicastScatterWrite]. tt-metal:
// fabric_unicast_noc_scatter_write_with_state.
func UnicastScatterWriteWithState(ls device.Links, u device.Update, chunks []device.Chunk) error {
	c, data, err := device.Scatter(chunks)
	if err != nil {
		return err
	}
	return ls.With(u, c, false, data)
}
