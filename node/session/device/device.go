// Package device holds what the packages linear and mesh share: connections, prepared headers, and the
// interface to the chip. The two packages are the device API of Spec §4, which tt-metal has in
// tt_metal/fabric/hw/inc/linear/api.h and mesh/api.h. The documentation of each call names tt-metal's
// call.
//
// A program gets a [Sender] from its chip: on a host from session.Session.Sender. The packages use
// only the Sender, no clock and no goroutine. So programs inside a chip can offer a Sender, too.
//
//	ls, err := linear.Connect(s.Sender(ctx), linear.To{Dir: wire.East})
//	err = linear.UnicastWrite(ls, data, addr, 2) // to the chip two hops east
//
// # Prepared headers
//
// Each [Link] has a header: the route and the NoC command of the next packet. A call whose name ends
// in SetState builds the header and sends nothing. A call whose name ends in WithState sends a packet
// with this header, after it has changed the fields that an [Update] names. A call with another
// name builds the header and sends the packet.
//
// # Completion
//
// A call returns when each of its packets has ended, or when its Sender does not wait. If the field
// Posted of a link's header is true, the call returns when the chip has sent the packets. Package
// flow says what a program may then rely on. On the device, all calls are posted.
package device

import (
	"errors"
	"fmt"

	"ttfabric/node/flow"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// Sender starts commands on a chip. The type corresponds to tt-metal's WorkerToFabricEdmSender.
type Sender interface {
	Self() wire.FabricNodeID
	Topology() *topo.Topology
	// Start starts a command with the header h, whose Payload is not used. Start may wait for room.
	// Commands leave the chip in the order of the calls. The caller must not change the payload
	// before the command has ended, and may change h at once. A Sender repeats a lost or refused
	// command only if no later command of the same flow was started. Otherwise the repetition would
	// arrive after the later command.
	//
	// A payload longer than one packet is allowed for writes, and for writes with increment that
	// are not posted. The last packet then carries the increment. The Sender sends the last packet
	// when the destination has performed all other packets.
	Start(h *flow.Request, payload []byte) (Pending, error)
}

// Pending is a started command.
type Pending interface {
	// Wait waits until the command has ended, and returns its error.
	Wait() error
	// Poll reports whether the command has ended, and its error.
	Poll() (ended bool, err error)
}

// MaxLinks is the largest number of links of one connection manager: the number of ports that a chip
// can have. In tt-metal, the largest number is 2 in one dimension and 4 in two
// (TT_FABRIC_MAX_ROUTING_PLANE_CONNECTIONS).
const MaxLinks = wire.MaxChannels

// Link is one connection of a program to the fabric, with the header of its packets.
type Link struct {
	Sender Sender
	Dir    wire.Direction // direction in which package linear counts hops; package mesh does not use the direction
	Header flow.Request   // route and command of the next packet
	ready  bool           // a call has prepared the header
}

// Links are the connections that a call uses, one packet on each. The type corresponds to
// tt-metal's RoutingPlaneConnectionManager. A copy that [Links.Clone] makes has its own headers.
type Links []Link

// NewLinks returns links with empty headers that use the given planes. NewLinks returns an error if
// the fabric lacks a plane, or if the number of planes is not 1 to MaxLinks.
func NewLinks(s Sender, planes ...wire.Plane) (Links, error) {
	if len(planes) == 0 || len(planes) > MaxLinks {
		return nil, fmt.Errorf("%d links: want 1 to %d", len(planes), MaxLinks)
	}
	ls := make(Links, len(planes))
	for i, p := range planes {
		if n := max(s.Topology().Planes(), 1); int(p) >= n {
			return nil, fmt.Errorf("link %d: plane %d: the fabric has planes 0 to %d", i, p, n-1)
		}
		ls[i] = Link{Sender: s, Header: flow.Request{Plane: p}}
	}
	return ls, nil
}

// Clone returns links with copies of the headers.
func (ls Links) Clone() Links { return append(Links(nil), ls...) }

// Post makes the next packets of all links posted, or no longer posted.
func (ls Links) Post(on bool) {
	for i := range ls {
		ls[i].Header.Posted = on
	}
}

// Set builds the headers of all links: the command c, and a route that the function "route" writes
// into the header of link i. After an error, no header has changed.
func (ls Links) Set(c wire.Command, route func(i int, l *Link, h *flow.Request) error) error {
	if len(ls) > MaxLinks {
		return fmt.Errorf("%d links: want at most %d", len(ls), MaxLinks)
	}
	hs := make([]flow.Request, len(ls))
	for i := range ls {
		l := &ls[i]
		hs[i].Plane, hs[i].Posted, hs[i].Command = l.Header.Plane, l.Header.Posted, c
		if err := route(i, l, &hs[i]); err != nil {
			return fmt.Errorf("link %d: %w", i, err)
		}
	}
	for i := range ls {
		ls[i].Header, ls[i].ready = hs[i], true
	}
	return nil
}

// Send sends a packet with the present header and the payload on each link, and returns the errors of
// all links.
func (ls Links) Send(payload []byte) error {
	if len(ls) == 1 {
		p, err := ls[0].Sender.Start(&ls[0].Header, payload)
		if err != nil {
			return err
		}
		return p.Wait()
	}
	var ps [MaxLinks]Pending
	var errs []error
	for i := range ls[:min(len(ls), MaxLinks)] {
		var err error
		if ps[i], err = ls[i].Sender.Start(&ls[i].Header, payload); err != nil {
			errs = append(errs, fmt.Errorf("link %d: %w", i, err))
		}
	}
	for i, p := range ps {
		if p != nil {
			if err := p.Wait(); err != nil {
				errs = append(errs, fmt.Errorf("link %d: %w", i, err))
			}
		}
	}
	return errors.Join(errs...)
}

// SendSet is Send for links whose headers a call of Set has just built. If err, the error of that call,
// is not nil, SendSet returns err and sends nothing.
func (ls Links) SendSet(err error, payload []byte) error {
	if err != nil {
		return err
	}
	return ls.Send(payload)
}

// Pick returns the value for link i of n links. vs holds one value for each link, or one value for
// all links.
func Pick[T any](vs []T, i, n int) (v T, err error) {
	switch len(vs) {
	case n:
		return vs[i], nil
	case 1:
		return vs[0], nil
	}
	return v, fmt.Errorf("%d values for %d links: want one for each link, or one for all", len(vs), n)
}

// Flush waits until no posted packet to the destinations of the prepared headers is under way. The
// error says how many posted packets, since the last Flush, were not performed, or perhaps not
// performed.
func (ls Links) Flush() error {
	probes := ls.Clone()
	for i := range probes {
		if !probes[i].ready {
			return ErrNoState
		}
		h := &probes[i].Header
		h.Probe, h.Flush, h.Posted, h.Command = true, true, false, wire.Command{}
	}
	return probes.Send(nil)
}

// ErrNoState is the error of a call that needs a prepared header of another command.
var ErrNoState = errors.New("the header was not prepared for this command: call the SetState of the command first")

// With copies the fields that u names from c into the prepared headers, and sends the payload on
// each link. The argument "many" says whether the call is a multicast. With returns [ErrNoState], and
// changes no header, if a header was prepared for another kind of command. A header of a unicast does
// not fit a multicast, and a header of a multicast does not fit a unicast.
func (ls Links) With(u Update, c wire.Command, many bool, payload []byte) error {
	for i := range ls {
		if h := &ls[i].Header; !ls[i].ready || h.Command.Type != c.Type || h.Many() != many {
			return ErrNoState
		}
	}
	for i := range ls {
		u.apply(&ls[i].Header.Command, &c)
	}
	return ls.Send(payload)
}

// Update says which fields of a prepared header a call changes. The type corresponds to tt-metal's
// UpdateMask types. There is no bit for the size, because the length of the payload gives the size.
type Update uint8

// The fields.
const (
	DstAddr       Update = 1 << iota // address of the write or of the counter; all addresses of a scatter write
	Value                            // word of an inline write, or increment (tt-metal: Value, Val)
	Flush                            // flush of an increment
	SemaphoreAddr                    // address of the counter of a write with increment
	ChunkSizes                       // lengths of the chunks of a scatter write

	None Update = 0 // no field
)

func (u Update) apply(h, c *wire.Command) {
	if u&DstAddr != 0 {
		h.Addr, h.Scatter = c.Addr, c.Scatter
	}
	if u&Value != 0 {
		h.Value = c.Value
	}
	if u&Flush != 0 {
		h.Flush = c.Flush
	}
	if u&SemaphoreAddr != 0 {
		h.Sem = c.Sem
	}
	if u&ChunkSizes != 0 {
		h.Chunks, h.Sizes = c.Chunks, c.Sizes
	}
}

// Away returns the chip at a distance of "hops" hops from chip "from" in direction d.
func Away(t *topo.Topology, from wire.FabricNodeID, d wire.Direction, hops int) (wire.FabricNodeID, error) {
	at := from
	if d >= wire.NumDirections || hops < 0 || hops > wire.MaxHops {
		return at, fmt.Errorf("%d hops %s: want 0 to %d hops east, west, north or south", hops, d, wire.MaxHops)
	}
	for k := range hops {
		next, ok := t.Neighbour(at, d, 0)
		if !ok || next.Mesh != at.Mesh {
			return at, fmt.Errorf("%d hops %s from chip %s: the mesh has only %d hops in this direction", hops, d, from, k)
		}
		at = next
	}
	return at, nil
}

// Line returns ranges that cover n consecutive chips in one direction. The first of the n chips is
// "start" hops away. On an axis that wraps, the chips may lie across the wrap. Line returns empty
// ranges if start or n is below 1, or if the last chip is more than 255 hops away.
func Line(d wire.Direction, start, n int) (r wire.Ranges) {
	if d < wire.NumDirections && start >= 1 && n >= 1 && start+n-1 <= 255 {
		r.Hops[d], r.Skip[d] = uint8(start+n-1), uint8(start-1)
	}
	return r
}
