package firmware

import "slices"

// inOrder reports whether a message must stay behind earlier requests of the same tile to the same chip. BDMS demands
// this order only with [Ordered] ("Stage 2"). luwen needs the order without this flag too: luwen stores the code of a
// message to the ARC processor, and then raises the interrupt, and does not wait in between. The parts of a request with
// [DataBlockDRAM] may take parallel cables, because other requests wait for these parts, see mustFollow. Only a machine
// with a seed uses all the freedom that BDMS gives.
func (m *Machine) inOrder(x *message) bool {
	return x.class == requests && (x.flags&Ordered != 0 || m.rng == nil && x.flags&DataBlockDRAM == 0)
}

// mustFollow reports whether a request must wait until an earlier request to the same chip has ended. The parts of
// requests with [DataBlockDRAM] take parallel cables, on which the parts may overtake other requests. So a request waits
// if only one of the two requests has this flag, or if both have the flag and overlap. The time limit of the request
// begins when the wait ends.
func (t *tile) mustFollow(r *request) bool {
	const spread = DataBlockDRAM
	if r.next > 0 || t.m.rng != nil || r.target == t.m.cfg.Self || r.entry.Flags&Ordered != 0 {
		return false
	}
	for _, o := range t.open {
		if both := o.entry.Flags & r.entry.Flags & spread; o == r || o.target != r.target || (o.entry.Flags|r.entry.Flags)&spread == 0 {
			continue
		} else if both == 0 || o.entry.overlaps(&r.entry) {
			r.until = t.m.now.Add(AnswerTimeout)
			return true
		}
	}
	return false
}

// overlaps reports whether two requests with [DataBlockDRAM] may touch the same byte, and at least one of them
// writes. Several tiles show the same DRAM. So overlaps compares only the offsets in the tiles. A scatter page may
// write anywhere.
func (e *Entry) overlaps(o *Entry) bool {
	from, of := e.addr().Offset(), o.addr().Offset()
	return (e.Flags|o.Flags)&WrReq != 0 && ((e.Flags|o.Flags)&Mod != 0 || from < of+uint64(o.Data) && of < from+uint64(e.Data))
}

// choose returns the exit that a message takes.
func (t *tile) choose(x *message, list []exit) exit {
	m, e := t.m, list[0]
	switch {
	case m.inOrder(x) && x.flags&Ordered == 0:
		e = list[int(x.originCh)%len(list)]
		if i := slices.IndexFunc(list, func(e exit) bool { return e.ch == x.originCh }); i >= 0 && x.origin == m.cfg.Self {
			e = list[i]
		}
	case !m.inOrder(x):
		list = m.lowest(list, x.class)
		e = list[m.parallel(len(list))]
		if i := slices.IndexFunc(list, func(e exit) bool { return e.ch == t.ch }); i >= 0 && m.rng == nil {
			e = list[i]
		}
	}
	return e
}
