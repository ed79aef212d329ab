package flow

import (
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// memberSet is a set of members of a flow, by their index.
type memberSet [wire.MaxChipsPerMesh / 64]uint64

func (s *memberSet) has(i int) bool { return s[i/64]>>(i%64)&1 != 0 }
func (s *memberSet) remove(i int)   { s[i/64] &^= 1 << (i % 64) }

// The function "first" returns the set of the first n members.
func first(n int) (s memberSet) {
	for i := range s {
		s[i] = 1<<min(max(n-64*i, 0), 64) - 1
	}
	return s
}

// op is one request in a flow's window.
type op struct {
	token  uint64
	seq    uint32 // number of the request in its flow
	id     uint64 // ID of the packet; a later request of the flow has a later ID
	sent   mono.Time
	left   uint16 // number of members that have not settled the request
	known  bool   // when the source sent the request, every member had already answered in this epoch
	probe  bool   // the flow sent this probe on its own; false for a probe that a program asked for
	by     Owner  // who made the request
	flush  bool   // a program asked for this probe, and for the number of missed posted requests
	posted bool   // the request has had its result, FatePosted

	read      bool         // the request is a read: the request is settled when its data comes
	size      uint16       // for a read: number of bytes wanted
	addr      wire.NocAddr // for a read: address of the bytes
	performed mono.Time    // for a read whose data has not come: time at which the source learned that the destination performed the read; 0: not yet
}

// settled reports whether all members have settled the request.
func (o *op) settled() bool { return o.left == 0 }

// overdue reports whether, at the time t, the source had known for ProbeAfter that the
// destination performed the read, but the data had not come.
func (o *op) overdue(t mono.Time) bool {
	return o.performed != 0 && t.Sub(o.performed) >= ProbeAfter
}

// window holds the open requests of a flow, in the order of their numbers. A settled request stays
// in the window while an earlier request is open. A performed read counts as settled in the window,
// see [lateReads].
//
// Invariants: ops[head+i] is request base+i, and next is base+len(ops)-head. After a call
// of advance, the window is empty or request base is open. If the flow has one member,
// open is nil. Otherwise (*open)[k] is the set of members that have not settled ops[k],
// and ops[k].left is the size of the set.
type window struct {
	base uint32 // number of the first request in the window; next if the window is empty
	next uint32 // number of the next new request
	ops  []op
	head int // index of request base in ops and open
	open *[]memberSet
}

func (w *window) empty() bool { return w.head == len(w.ops) }
func (w *window) len() int    { return len(w.ops) - w.head }

// The method "at" returns the place of request seq in ops, or -1 if the window does not hold this
// request.
func (w *window) at(seq uint32) int {
	if i := seq - w.base; i < uint32(len(w.ops)-w.head) {
		return w.head + int(i)
	}
	return -1
}

// find returns the place of the request with an ID in ops, or -1 if the window does not hold
// this request.
func (w *window) find(id uint64) int {
	if k := findID(w.ops[w.head:], id); k >= 0 {
		return w.head + k
	}
	return -1
}

// seq returns the number of the request at place k.
func (w *window) seq(k int) uint32 { return w.base + uint32(k-w.head) }

// waits reports whether member i has not settled the request at place k.
func (w *window) waits(k, i int) bool {
	if w.open == nil {
		return w.ops[k].left > 0
	}
	return (*w.open)[k].has(i)
}

// settle notes that member i has settled the request at place k. The caller has checked, with the
// method "waits", that member i had not settled the request before.
func (w *window) settle(k, i int) {
	w.ops[k].left--
	if w.open != nil {
		(*w.open)[k].remove(i)
	}
}

// add puts a request at the end of the window. The request waits for n members.
func (w *window) add(o *op, n int) {
	o.seq, o.left = w.next, uint16(n)
	w.ops = append(w.ops, *o)
	if n > 1 {
		if w.open == nil {
			w.open = &[]memberSet{}
		}
		*w.open = append(*w.open, first(n))
	}
	w.next++
}

// advance moves base past settled requests.
func (w *window) advance() {
	for w.head < len(w.ops) && w.ops[w.head].settled() {
		w.head++
		w.base++
	}
	if w.head == len(w.ops) || w.head > 64 && w.head > len(w.ops)/2 {
		w.shift()
	}
}

// shift moves the requests of the window to the beginning of ops and open.
func (w *window) shift() {
	w.ops = w.ops[:copy(w.ops, w.ops[w.head:])]
	if w.open != nil {
		*w.open = (*w.open)[:copy(*w.open, (*w.open)[w.head:])]
	}
	w.head = 0
}
