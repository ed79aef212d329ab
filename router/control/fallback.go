package control

// Fallback ports (Spec §7.4.1.1: "The Control Plane assigns fallback channels and fallback
// routers"). A port's own cable may be unable to carry the frames of the port's link, or an
// operator may forbid this. Then the cable of a parallel port carries the frames. The parallel port
// is the fallback of the port.

// Offers reports whether the own cable of port i may carry the frames of parallel links. The cable
// may carry such frames if the cable carries the frames of its own link, and no operator took the
// port out of service.
func (c *Control) Offers(i int) bool {
	p := &c.ports[i]
	return p.up && p.by == i && !p.avoided
}

// Parallel reports whether ports i and k are two ports that lead to the same chip in the same
// direction.
func (c *Control) Parallel(i, k int) bool {
	p, q := &c.ports[i], &c.ports[k]
	return i != k && p.Peer.Node == q.Peer.Node && p.Dir == q.Dir
}

// SetReliable tells Control whether the own cable of port i is reliable.
func (c *Control) SetReliable(i int, on bool) { c.ports[i].poor = !on }

// Reliable reports whether the own cable of port i is reliable.
func (c *Control) Reliable(i int) bool { return !c.ports[i].poor }

// Assign makes port k the fallback of port i while [Control.Offers] returns true for port k. If k
// equals i, Control chooses the fallback itself again. Assign returns false if k differs from i and
// port k is not parallel to port i.
func (c *Control) Assign(i, k int) bool {
	switch {
	case i == k:
		c.ports[i].chosen = -1
	case c.Parallel(i, k):
		c.ports[i].chosen = k
	default:
		return false
	}
	return true
}

// Assigned returns the fallback of port i that an operator assigned. If there is none, Assigned
// returns false.
func (c *Control) Assigned(i int) (k int, ok bool) { return c.ports[i].chosen, c.ports[i].chosen >= 0 }

// Fallback returns the fallback of port i. The first choice is the assigned port, if
// [Control.Offers] returns true for this port. The second choice is the parallel port whose cable
// carries the frames of port i's link now. The third choice is a parallel port with a reliable
// cable. The last choice is a parallel port with an unreliable cable. For the third and the last
// choice, Offers must return true. Of several such ports, Fallback takes the port of the next
// higher plane. After the highest plane comes the lowest. Both ends of a link make the same choice
// if they know the same facts. If no port meets these conditions, Fallback returns false.
func (c *Control) Fallback(i int) (k int, ok bool) {
	p := &c.ports[i]
	if p.chosen >= 0 && c.Offers(p.chosen) {
		return p.chosen, true
	}
	if p.up && p.by != i {
		return p.by, true
	}
	best := 1 << 30
	for j := range c.ports {
		if !c.Parallel(i, j) || !c.Offers(j) {
			continue
		}
		q := &c.ports[j]
		rank := int(q.Plane) - int(p.Plane)
		if rank < 0 {
			rank += 1 << 8
		}
		if q.poor {
			rank += 1 << 16
		}
		if rank < best {
			best, k, ok = rank, j, true
		}
	}
	return k, ok
}

// carried reports whether a parallel port's cable carries the link of port i.
func (c *Control) carried(i int) bool { return c.ports[i].up && c.ports[i].by != i }
