package firmware

import (
	"ttfabric/node/noc"
	"ttfabric/wire"
)

// serve performs a part of a request on this chip (BDMS, "Stage 3"): completely, or not at all. Each NoC
// request ends before the next begins.
func (t *tile) serve(x *message) (Reason, []byte) {
	t.counters.Served++
	h, now := t.m.cfg.Host, t.m.now
	switch {
	case !x.write():
		b := make([]byte, x.want)
		if len(b) == 0 {
			return 0, b
		}
		return reasonOf(h.Load(now, x.addr, b)), b
	case x.flags&Mod == 0:
		if len(x.data) == 0 {
			return 0, nil
		}
		return reasonOf(h.Store(now, x.addr, x.data)), nil
	}
	writes, ok := parsePage(x.data, x.addr&wire.NocOne != 0)
	if !ok {
		return BadPage, nil
	}
	list := make([]noc.Write, len(writes))
	for i, w := range writes {
		list[i] = noc.Write{Addr: w.at, Len: len(w.data)}
	}
	switch o := t.m.cfg.Memory.CheckWrites(list); o {
	case wire.OutcomeDone:
	case wire.OutcomeBadCommand:
		return BadPage, nil
	default:
		return reasonOf(o), nil
	}
	for _, w := range writes {
		if why := reasonOf(h.Store(now, w.at, w.data)); why != 0 {
			return why, nil // possible only if the page has one write, to registers that refuse the write
		}
	}
	return 0, nil
}

// reasonOf translates what memory and registers answer.
func reasonOf(o wire.Outcome) Reason {
	switch o {
	case wire.OutcomeDone:
		return 0
	case wire.OutcomeMisaligned:
		return Misaligned
	case wire.OutcomeNoMemory:
		return NoMemory
	}
	return BadTarget
}
