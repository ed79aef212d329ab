package sim

import (
	"bytes"
	"fmt"

	"ttfabric/node/firmware"
	"ttfabric/node/noc"
	"ttfabric/wire"
)

// performed takes a command that a chip has performed on its memory. performed returns false for a
// command that does not come from a host.
func (all *hosts) performed(m *machine, src wire.FabricNodeID, cmd *wire.Command, mem *noc.Memory) bool {
	if all == nil || src != m.node {
		return false
	}
	a, ok := mem.OnNoC0(cmd.Addr)
	if t, found := mem.TileAt(a.X(), a.Y()); ok && found && t.Kind == noc.Ethernet {
		return true // a host stores into its queues
	}
	for _, t := range hostTiles {
		if ok && t[0] == a.X() && t[1] == a.Y() {
			b := make([]byte, cmd.Size)
			mem.Read(a, b)
			all.wrote(m, a, b)
			return true
		}
	}
	return false
}

// wrote checks a write that a chip has performed for a host, and records the new content of the
// host's region.
func (all *hosts) wrote(m *machine, a wire.NocAddr, b []byte) {
	s := all.s
	id := wordAt(b, 0)
	if id == 0 || int(id) > len(all.ops) {
		s.fail("hosts", "%s performed a write of %d bytes to %s, and no host asked for it", m.node, len(b), a)
		return
	}
	o := all.ops[id-1]
	if o.performed++; s.cfg.sabotage == sabotageHostTwice && s.healed {
		o.performed++
	}
	at := int(a.Offset()) - int(o.host.region(o.off).Offset())
	if !o.write || o.wrong || o.dst != m.index || o.performed > o.parts() || at < 0 || at >= o.n || at%firmware.BlockSize != 0 || o.host.region(o.off+at) != a ||
		!bytes.Equal(o.data[at:min(at+firmware.BlockSize, o.n)], b) || o.done>>(at/firmware.BlockSize)&1 != 0 || o.ended && !o.failed {
		s.fail("hosts", "%s performed %d parts of request %d of host %d, to %s, also by a write of %d bytes to %s; ended: %v", m.node, o.performed, id, o.host.number, s.machines[o.dst].node, len(b), a, o.ended)
		return
	}
	o.done |= 1 << (at / firmware.BlockSize)
	if all.held[m.life] == nil {
		all.held[m.life] = map[int][]version{}
	}
	v := version{at: s.now, data: new([hostBytes]byte)}
	list := all.held[m.life][o.host.number]
	if len(list) > 0 {
		*v.data = *list[len(list)-1].data
	}
	copy(v.data[o.off+at:], b)
	all.held[m.life][o.host.number] = append(list, v)
}

// judge compares the bytes of a read with what the region held while the read was open.
func (h *host) judge(o *hostOp, got []byte) {
	s := h.all.s
	if s.cfg.sabotage == sabotageHostRead {
		got[0] ^= 0x80
	}
	for at := 0; at < o.n; at += firmware.BlockSize {
		if end := min(at+firmware.BlockSize, o.n); !h.held(o, o.off+at, got[at:end]) {
			s.fail("hosts", "request %d of host %d at E%d of %s read %d bytes at offset %d of its region on %s, and the region never held them", o.id, h.number, h.ch, h.m.node, end-at, o.off+at, s.machines[o.dst].node)
		}
	}
}

// held reports whether the host's region held bytes at an offset while a read was open.
func (h *host) held(o *hostOp, off int, got []byte) bool {
	for _, l := range h.all.s.model.lives[o.dst] {
		if l.end < o.sent || l.begin > h.all.s.now {
			continue
		}
		list := append([]version{{data: new([hostBytes]byte)}}, h.all.held[l][h.number]...)
		for i, v := range list {
			if i+1 < len(list) && list[i+1].at < o.sent {
				continue // a later version had replaced this one when the read began
			}
			if bytes.Equal(v.data[off:off+len(got)], got) {
				return true
			}
		}
	}
	return false
}

// unrest describes the first host or firmware queue that is not at rest. If all are at rest, unrest
// returns "".
func (all *hosts) unrest() string {
	if all == nil {
		return ""
	}
	for _, h := range all.list {
		if h.life != h.m.life || len(h.open) > 0 || len(h.todo) > 0 {
			return fmt.Sprintf("host %d at E%d of %s waits for %d requests", h.number, h.ch, h.m.node, len(h.open)+len(h.todo))
		}
		if h.packets+len(h.cells) > 0 {
			return fmt.Sprintf("host %d at E%d of %s waits for %d packets", h.number, h.ch, h.m.node, h.packets+len(h.cells))
		}
	}
	for _, m := range all.s.machines {
		for _, q := range m.chip.HostQueues() {
			if q.Open != 0 || q.In != [2]int{} || q.Out != [2]int{} {
				return fmt.Sprintf("the firmware of E%d of %s has work: %+v", q.Channel, m.node, q)
			}
		}
	}
	return ""
}

// final checks the counters of all queues, at rest.
func (all *hosts) final() {
	if all == nil {
		return
	}
	s := all.s
	for _, h := range all.list {
		q := h.m.chip.HostQueues()[h.ch].SQ
		if q.WrReq != q.WrResp || q.RdReq != q.RdResp || q.WrReq+q.RdReq != h.made || q.Errors != h.errors {
			s.fail("hosts", "the counters of host %d at E%d of %s do not balance: %+v; the host has made %d requests, and %d ended with errors", h.number, h.ch, h.m.node, q, h.made, h.errors)
		}
	}
	for _, o := range all.ops {
		if !o.ended && !o.orphan {
			s.fail("hosts", "request %d of host %d has not ended", o.id, o.host.number)
		}
	}
}
