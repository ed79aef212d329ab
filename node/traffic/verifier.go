package traffic

import "ttfabric/wire"

// Verifier runs at the destination. A Verifier checks, byte for byte, the data that other chips
// have written into the destination's traffic region. A Verifier has no clock, lock or goroutine,
// and is not safe for concurrent use.
type Verifier struct {
	spec        Spec
	self        wire.FabricNodeID
	flows       map[wire.FabricNodeID]*receiving
	order       []*receiving
	region      tiles
	used        int    // number of slots of the region that this run uses
	buf         []byte // working space of MaxSize bytes, for building the expected packet
	stray       uint64
	misdirected uint64
}

// receiving is the state of one pair at its destination.
type receiving struct {
	PairReport
	target  uint64 // number of packets that the pair has in total
	streams []numbers
}

// NewVerifier returns the verifier of the packets that a run sends to chip "self". If the spec does
// not pass [Spec.Validate], NewVerifier panics. The pairs must pass [CheckPairs].
func NewVerifier(spec Spec, self wire.FabricNodeID, pairs []Pair) *Verifier {
	spec.must()
	v := &Verifier{spec: spec, self: self, region: allTiles(), flows: map[wire.FabricNodeID]*receiving{}, buf: make([]byte, MaxSize)}
	shares := spec.shares(pairs)
	for i, p := range pairs {
		if p.Dst == self && v.flows[p.Src] == nil {
			r := &receiving{PairReport: PairReport{Pair: p}, target: shares[i], streams: make([]numbers, spec.streams(&p))}
			v.flows[p.Src] = r
			v.order = append(v.order, r)
		}
	}
	if n := len(v.order); n > 0 {
		last := slotsOf(n-1, n)
		v.used = last.first + last.count
	}
	return v
}

// Place tells the verifier which Tensix tiles of its chip work. Before Place, the verifier takes
// all tiles of the region as working. The caller must call Place before the first packet arrives.
func (v *Verifier) Place(f Tiles) { v.region = f.of(v.self, len(v.order)) }

// Owns reports whether an address lies in a slot of the traffic region that this run uses. The
// verifier need not check data at any other address. A packet of the run that was written to
// another address counts as missing.
func (v *Verifier) Owns(a wire.NocAddr) bool {
	n, ok := v.region.slotAt(a)
	return ok && n < v.used
}

// Arrived checks the data that src has written, as read back from memory. The fabric reports the
// arguments "src", "plane" and "other": the packet's source, the packet's plane, and whether the
// packet took the other direction round rings. Arrived checks that the packet's header agrees. Each
// call counts the data as one of:
//
//   - delivered, and also reordered if later packets of the pair's plane and direction came
//     first;
//   - duplicated: delivered before;
//   - corrupted: bytes that are not exactly a packet as [Generator.Fill] makes it, from a chip that
//     sends packets to this chip;
//   - misdirected: a whole packet of this run that names another destination, source, plane or
//     direction, or that has a number or length that the run does not have;
//   - stray: a whole packet of another run; or bytes that are no whole packet, from a chip that
//     sends nothing to this chip.
func (v *Verifier) Arrived(src wire.FabricNodeID, plane wire.Plane, other bool, data []byte) {
	f, k := v.flows[src], -1
	if f != nil {
		k = v.spec.stream(&f.Pair, plane, other)
	}
	p, run, intact := parse(data, v.buf)
	switch {
	case intact && run != v.spec.Run, !intact && f == nil:
		v.stray++
	case !intact:
		f.Corrupted++
	case f == nil || p.Src != src || p.Dst != v.self || p.Plane != plane || p.Other != other || k < 0 ||
		p.Number >= ofStream(f.target, len(f.streams), k) || len(data) != v.spec.Size:
		v.misdirected++
	default:
		switch f.streams[k].add(p.Number) {
		case duplicate:
			f.Duplicated++
			return
		case late:
			f.Reordered++
		}
		f.Delivered++
	}
}

// report returns the report of the pair as the destination sees it.
func (r *receiving) report() PairReport {
	p := r.PairReport
	p.Missing = r.target - r.Delivered
	for _, s := range r.streams {
		p.Forgotten += s.forgotten
	}
	return p
}
