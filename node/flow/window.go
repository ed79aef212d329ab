package flow

import (
	"math/bits"

	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// memberSet is a set of members of a flow, by their index.
type memberSet [wire.MaxChipsPerMesh / 64]uint64

func (s *memberSet) has(i int) bool { return s[i/64]>>(i%64)&1 != 0 }
func (s *memberSet) remove(i int)   { s[i/64] &^= 1 << (i % 64) }

// first is the set of the first n members.
func first(n int) (s memberSet) {
	for i := range s {
		s[i] = 1<<min(max(n-64*i, 0), 64) - 1
	}
	return s
}

func (s *memberSet) count() (n int) {
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

// op is one request of a flow. Invariant: left is the number of members in open.
type op struct {
	token  uint64
	id     uint64 // of a read whose data has not come; 0 for other requests
	sent   mono.Time
	open   memberSet // members that have not settled the request
	left   uint16    // number of these members
	known  bool      // the request was sent when its epoch was known, see epoch
	probe  bool      // a probe of the flow itself
	inside bool      // the program inside the chip asked for the request
}

// settled reports whether all members have settled the request.
func (o *op) settled() bool { return o.left == 0 }

// window holds the open requests of a flow, in the order of their numbers. A
// settled request stays in the window while an earlier request is open.
//
// Invariants: ops[head+i] is request base+i; base+len(ops)-head is next; after
// advance, the window is empty or request base is open.
type window struct {
	ops  []op
	head int    // of ops
	base uint32 // lowest request whose fate is open
	next uint32 // number of the next request
}

func (w *window) empty() bool { return w.head == len(w.ops) }
func (w *window) len() int    { return len(w.ops) - w.head }

// held returns the requests in the window.
func (w *window) held() []op { return w.ops[w.head:] }

// at returns request seq; nil if the window does not hold that request.
func (w *window) at(seq uint32) *op {
	if i := seq - w.base; i < uint32(len(w.ops)-w.head) {
		return &w.ops[w.head+int(i)]
	}
	return nil
}

// add puts a request at the end of the window.
func (w *window) add(o *op) {
	w.ops = append(w.ops, *o)
	w.next++
}

// advance moves base past settled requests.
func (w *window) advance() {
	for w.head < len(w.ops) && w.ops[w.head].settled() {
		w.head++
		w.base++
	}
	if w.head == len(w.ops) {
		w.ops, w.head = w.ops[:0], 0
	} else if w.head > 64 && w.head > len(w.ops)/2 {
		n := copy(w.ops, w.ops[w.head:])
		w.ops, w.head = w.ops[:n], 0
	}
}
