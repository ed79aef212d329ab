package router

import "ttfabric/wire"

// Counters of a port, since the start. At any time, over all ports of a router,
// Received + Injected + Copied = Delivered + Sent + Dropped + what is in its channels.
type Counters struct {
	Received   uint64                      // packets that arrived
	Delivered  uint64                      // of those: for this chip
	Forwarded  uint64                      // of those: passed on
	Sent       uint64                      // packets handed to the link
	Injected   uint64                      // of those: the chip's own, counted at injection
	Redirected uint64                      // of those that waited to leave by it: sent another way, as tables took it out of service
	Copied     uint64                      // copies made of multicasts that arrived, beside the packet itself
	Dropped    [wire.NumDropReasons]uint64 // by reason; counted at the port that they should have left by, or came in by
}

// add adds o.
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

// of are the counters of a virtual channel's class.
func (p *port) of(v wire.VC) *Counters { return &p.counters[v.Class()] }

// PortStatus is a port's state for people.
type PortStatus struct {
	PortConfig
	Up       bool
	State    State
	Receiver [wire.NumVCs]int          // packets in the receiver channel
	Sender   [wire.NumVCs]int          // packets in the sender channels
	Counters Counters                  // of all classes
	Classes  [wire.NumClasses]Counters // of each
}

// Status returns the state of port i.
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
