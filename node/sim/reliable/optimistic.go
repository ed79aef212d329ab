package reliable

import "ttfabric/wire"

// optimistic is the Optimistic Router of one virtual channel module (RR §2.3.1): a possible next hop of
// a head flit, given the output channels that are free now. The crossbar allocator may still refuse.
// The three computations of RR §4 run in the chip at once; the first with a result wins.
func (r *Router) optimistic(p, v uint8, f Flit) (bid, bool) {
	h := DecodeHead(f.Data)
	dst := Place{X: int(h.X), Y: int(h.Y)}
	b := bid{flit: f}
	if dst == r.at {
		return r.arrive(b, h)
	}
	if !r.cfg.Mesh.Has(dst) {
		b.port = portDrop
		return b, true
	}
	pr := r.problem(p, v, dst)
	if out, hop, ok := r.adaptive(&pr); ok {
		b.hop, b.port, b.out = hop, uint8(hop.Dir), out
		return b, true
	}
	hops, n := r.cfg.Rule.Escape(r.cfg.Mesh, &pr)
	if n == 0 {
		b.port = portDrop
		return b, true
	}
	for _, hop := range hops[:n] {
		out := Fault
		if hop.Class == ClassOrdered {
			out = Ordered0 + h.Priority
		}
		if r.free(hop.Dir, out) {
			b.hop, b.port, b.out = hop, uint8(hop.Dir), out
			return b, true
		}
	}
	return bid{}, false
}

// hostVCs are the virtual channels of the processor's and of the diagnostic port for each priority. A
// packet of one priority never waits for the other.
var hostVCs = [2][]uint8{{0, 1, 2}, {3, 4}}

// arrive bids for an output channel to the processor or to the diagnostic port.
func (r *Router) arrive(b bid, h Head) (bid, bool) {
	b.port = PortProcessor
	if h.Diagnostic {
		b.port = PortDiagnostic
	}
	for _, v := range hostVCs[h.Priority] {
		if r.outs[b.port][v].owner == nil {
			b.out = v
			return b, true
		}
	}
	return bid{}, false
}

// problem returns the routing problem of the packet in bank v of port p.
func (r *Router) problem(p, v uint8, dst Place) Problem {
	pr := Problem{At: r.at, Dst: dst, Up: r.up, Stays: r.ins[p].banks[v].stays}
	if p < wire.NumDirections {
		pr.Came, pr.From = true, wire.Direction(p)
		pr.Ban = v == Fault && !pr.Stays
	}
	return pr
}

// free reports whether a packet may take an output channel.
func (r *Router) free(d wire.Direction, vc uint8) bool {
	o := &r.outs[d][vc]
	return r.up.Has(d) && o.owner == nil && o.count == 0
}

// adaptive picks a free channel of the adaptive computation at random. The paper does not say which
// of several free channels a packet takes.
func (r *Router) adaptive(pr *Problem) (out uint8, hop Hop, ok bool) {
	if r.cfg.Policy == Ordered {
		return 0, Hop{}, false
	}
	dirs := pr.Productive()
	if r.cfg.Policy == OrderedIn {
		if x, inX, _, _ := pr.Toward(); inX {
			dirs &= 1 << x
		}
	}
	n := 0
	for d := range dirs.All() {
		for v := Adaptive0; v <= Adaptive1; v++ {
			if !r.free(d, v) {
				continue
			}
			if n++; n == 1 || r.rng.IntN(n) == 0 {
				out, hop = v, Hop{Dir: d, Class: ClassAdaptive}
			}
		}
	}
	return out, hop, n > 0
}
