package router

import "ttfabric/wire"

// Counters are the counters of a port since the start. At any time, the sums over all ports of a
// router satisfy: Received + Injected + Copied = Delivered + Sent + Dropped + the packets in its
// channels.
type Counters struct {
	Received   uint64                      // packets that arrived
	Delivered  uint64                      // received packets that were for this chip
	Forwarded  uint64                      // received packets that were passed on
	Sent       uint64                      // packets handed to the link
	Injected   uint64                      // the chip's own packets that are to leave by this port
	Redirected uint64                      // packets that waited to leave by this port and were moved to another port, because tables took this port out of service
	Copied     uint64                      // copies made of multicasts that arrived, not counting the packet itself
	Dropped    [wire.NumDropReasons]uint64 // dropped packets, by reason; each is counted at the port by which it should have left or by which it came in
}

// add adds the counters in o to c.
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

// of returns the counters of a virtual channel's class.
func (p *port) of(v wire.VC) *Counters { return &p.counters[v.Class()] }

// PortStatus is a port's state, for people to read.
type PortStatus struct {
	PortConfig
	Up       bool
	State    State
	Receiver [wire.NumVCs]int          // packets in the receiver channel of each virtual channel
	Sender   [wire.NumVCs]int          // packets in the sender channels of each virtual channel
	Counters Counters                  // sums over all classes
	Classes  [wire.NumClasses]Counters // counters of each class
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
