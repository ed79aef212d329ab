package router

import "ttfabric/wire"

// Counters counts the packets of a port since the router's start. The chip can pass on a packet, or
// send its own packet, past the sender channels of a port, see [Router.Through] and
// [Router.Bypass]. Such a packet counts as if it had been in one of these channels. A packet that
// the router drops counts at the port of its sender channel. A packet that the router drops before
// any sender channel counts at the port by which the packet came in. A copy of the chip's own
// multicast that the router drops before any sender channel counts at port 0. The sums over all
// ports of a router always satisfy: Received + Injected + Copied = Delivered + Sent + Dropped +
// packets in channels.
type Counters struct {
	Received   uint64                      // packets that arrived
	Delivered  uint64                      // received packets that were for this chip
	Forwarded  uint64                      // received packets, and copies of received multicasts, that moved to a sender channel
	Sent       uint64                      // packets that the link took
	Injected   uint64                      // the chip's own packets, and copies of its own multicasts, that entered a sender channel of this port; at port 0 also the copies that the router dropped before any sender channel
	Redirected uint64                      // packets that waited to leave by this port and moved to another port, because tables took this port out of service
	Copied     uint64                      // copies that the router made of received multicasts; the received packet itself does not count
	Dropped    [wire.NumDropReasons]uint64 // dropped packets, by reason
}

// add adds the counts in o to the counts in c.
func (c *Counters) add(o *Counters) {
	c.Received += o.Received
	c.Delivered += o.Delivered
	c.Forwarded += o.Forwarded
	c.Sent += o.Sent
	c.Injected += o.Injected
	c.Redirected += o.Redirected
	c.Copied += o.Copied
	for i, n := range o.Dropped {
		c.Dropped[i] += n
	}
}

// The method "of" returns the port's counters for the class of virtual channel v.
func (p *port) of(v wire.VC) *Counters { return &p.counters[v.Class()] }

// PortStatus is the state of a port and its channels, to be shown to people.
type PortStatus struct {
	PortConfig
	Up       bool
	State    State
	Receiver [wire.NumVCs]int          // packets in the receiver channel of each virtual channel
	Sender   [wire.NumVCs]int          // packets in the four sender channels of each virtual channel
	Counters Counters                  // sums over all classes
	Classes  [wire.NumClasses]Counters // counters of each class
}

// Status returns the state and the counters of port i.
func (r *Router) Status(i int) PortStatus {
	p := &r.ports[i]
	s := PortStatus{PortConfig: p.PortConfig, Up: p.up, State: r.State(i), Classes: p.counters}
	for c := range p.counters {
		s.Counters.add(&p.counters[c])
	}
	for v := range wire.NumVCs {
		s.Receiver[v] = p.recv[v].n
		for c := range SenderChannels {
			s.Sender[v] += p.send[v][c].n
		}
	}
	return s
}
