package firmware

// A request to the window of the PCIe tile (tile 0-3, from 0x8_0000_0000 on) reads or writes the memory of the
// host of the target chip. The firmware performs each part of a request by NoC requests, and each NoC request ends
// before the next begins (BDMS, "Stage 3"). So the later requests of the same queue wait until the host has
// performed the part. If the host does not perform the part within [AnswerTimeout], the request ends with
// [DestUnreachable]. A scatter page cannot name addresses in the window.

// window is a part of a request that the host performs.
type window struct {
	number uint32  // number of the transfer; each window of a tile has another number
	own    bool    // the part is of a request of the tile's own host; otherwise the part came over the cable
	part   message // the part, without its data
	ended  bool
	why    Reason
	data   []byte // of a read
}

// windows holds the window of a tile.
type windows struct {
	window *window // nil: none
	number uint32  // number of the last window
}

// performs reports whether w is for a part.
func (w *window) performs(x *message, own bool) bool {
	p := &w.part
	return w.own == own && p.origin == x.origin && p.originCh == x.originCh && p.id == x.id && p.part == x.part
}

// perform performs a part of a request on this chip. If the part must wait, "ended" is false.
func (t *tile) perform(x *message, own bool) (why Reason, data []byte, ended bool) {
	off, hosted := t.m.cfg.Memory.HostOffset(x.addr)
	if !hosted || x.flags&Mod != 0 || len(x.data) == 0 && x.want == 0 {
		why, data = t.serve(x)
		return why, data, true
	}
	w := t.window
	switch {
	case w == nil:
		t.begin(x, own, off)
		return 0, nil, false
	case !w.ended || !w.performs(x, own):
		return 0, nil, false
	}
	t.window = nil
	t.counters.Served++
	return w.why, w.data, true
}

// begin lets the host perform a part. If there is no room for the transfer, begin does nothing, and the tile tries
// again soon.
func (t *tile) begin(x *message, own bool, off uint64) {
	t.number = max(t.number+1, 1)
	p := Transfer{Write: x.write(), Addr: off, Data: x.data, Len: int(x.want)}
	if !t.m.startTransfer(transfer{ch: t.ch, window: t.number}, p) {
		t.pause(TransferPause)
		return
	}
	t.window = &window{number: t.number, own: own, part: *x}
	t.window.part.data = nil
}

// moved handles the end of a transfer of a window.
func (t *tile) moved(e *transferEnd) {
	w := t.window
	if w == nil || w.number != e.window {
		return // the request has already ended
	}
	if w.ended, w.why, w.data = true, e.why, e.data; w.why == 0 && len(w.data) != int(w.part.want) {
		w.why, w.data = HostRefused, nil
	}
}

// forgetOwn forgets the window of a request of the tile's own host, if the request has ended.
func (t *tile) forgetOwn() {
	if w, r := t.window, t.head; w != nil && w.own && (r == nil || r.id != w.part.id || r.next != w.part.part || r.next >= r.parts) {
		t.window = nil
	}
}

// forgetQueued forgets the window of a part that came over the cable, if the part no longer waits.
func (t *tile) forgetQueued() {
	if w, q := t.window, &t.in[requests]; w != nil && !w.own && (len(q.list) == 0 || !w.performs(&q.list[0], false)) {
		t.window = nil
	}
}
