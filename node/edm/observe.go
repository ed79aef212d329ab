package edm

import (
	"fmt"
	"hash/maphash"

	"ttfabric/node/kernel"
	"ttfabric/wire"
)

// Kind is the kind of an [Event].
type Kind uint8

// The kinds.
const (
	Begun       Kind = iota + 1 // both ends have shaken hands
	Sent                        // a sender channel is about to send a message
	Acked                       // the receiver has acknowledged the message, so the workers may have the buffer again
	Arrived                     // a message has come to a receiver channel
	Released                    // the workers have read the message
	ChannelDone                 // a channel has had its last message
	Ended                       // the kernel is about to end
)

// Event is something that an EDM did, for a [Checker].
type Event struct {
	At      wire.PortID // end of the link whose EDM reports
	Kind    Kind
	Channel int    // number of the channel, for the kinds from Sent to ChannelDone
	Sender  bool   // the channel is a sender channel
	Count   uint32 // messages that the channel has had before; for ChannelDone: all its messages
	Sum     uint64 // checksum of the channel's buffer: for the kinds from Sent to Released
}

// Kernels are the kernels of this package by name: the EDM, and workers that send and receive pages.
var Kernels = kernels(nil, sabotage{})

// Observed returns the kernels of this package. The EDMs give their events to the function "observe", and
// read each message again to compute checksums. All chips whose kernels report to one function must run in
// one goroutine, as in the simulator.
func Observed(observe func(Event)) kernel.Table { return kernels(observe, sabotage{}) }

func kernels(observe func(Event), broken sabotage) kernel.Table {
	return kernel.Table{KernelName: moverKernel(observe, broken), SendWorkerName: sendWorker, ReceiveWorkerName: receiveWorker}
}

// tell reports an event.
func (m *mover) tell(e Event) {
	if m.observe != nil {
		e.At = m.port
		m.observe(e)
	}
}

// see reports an event with the checksum of the channel's buffer.
func (m *mover) see(kind Kind, c *channel) {
	if m.observe == nil {
		return
	}
	b := make([]byte, c.Size)
	m.k.Load(c.Buffer, b)
	m.tell(Event{Kind: kind, Channel: c.Channel, Sender: c.sender, Count: c.count, Sum: maphash.Bytes(sumSeed, b)})
}

// sumSeed is the seed of the checksums. Checksums of two runs of a program differ.
var sumSeed = maphash.MakeSeed()

// Checker checks the rules of EDMs by their events:
//
//   - No byte is overwritten before the byte is read. The buffer of a sender channel keeps its
//     bytes until the receiver has acknowledged the bytes. The buffer of a receiver channel keeps
//     its bytes until the workers have read the bytes.
//   - Each message comes once and in order on each channel.
//   - A kernel ends if and only if all its channels are done.
//
// Two messages with the same bytes count as equal, so a test needs messages that differ. EDMs of several jobs may
// follow each other at one end of a link. An EDM whose job ended early breaks no rule by its end.
type Checker struct {
	peer   func(wire.PortID) (wire.PortID, bool)
	links  map[wire.PortID]*seenEnd
	order  []wire.PortID
	broken []string
}

// seenEnd holds what a checker has seen of one EDM.
type seenEnd struct {
	channels map[int]*seenChannel
	ended    bool
}

// seenChannel holds what a checker has seen of one channel of an EDM.
type seenChannel struct {
	sender    bool
	way       []uint64 // sender: checksums of the messages that have not arrived
	last      uint64   // checksum of the last message
	sent, got uint32
	done      bool
}

// maxBroken limits the reports that a checker keeps.
const maxBroken = 100

// NewChecker returns a checker. The function "peer" returns the other end of a link, such as
// [kernel.ConnectedEthernetCore] for a topology.
func NewChecker(peer func(wire.PortID) (wire.PortID, bool)) *Checker {
	return &Checker{peer: peer, links: map[wire.PortID]*seenEnd{}}
}

// end returns what the checker has seen of the EDM at a port.
func (c *Checker) end(p wire.PortID) *seenEnd {
	e := c.links[p]
	if e == nil {
		e = &seenEnd{channels: map[int]*seenChannel{}}
		c.links[p], c.order = e, append(c.order, p)
	}
	return e
}

func (e *seenEnd) channel(n int, sender bool) *seenChannel {
	x := e.channels[n]
	if x == nil {
		x = &seenChannel{sender: sender}
		e.channels[n] = x
	}
	return x
}

func (c *Checker) report(at wire.PortID, format string, args ...any) {
	if len(c.broken) < maxBroken {
		c.broken = append(c.broken, fmt.Sprintf("EDM at %s: %s", at.Short(), fmt.Sprintf(format, args...)))
	}
}

// Observe takes an event, see [Observed].
func (c *Checker) Observe(e Event) {
	if e.Kind == Begun {
		c.begin(e.At)
		return
	}
	end := c.end(e.At)
	if end.ended {
		c.report(e.At, "the kernel goes on after its end")
	}
	switch e.Kind {
	case Ended:
		end.ended = true
		for n := range MaxChannels {
			if x := end.channels[n]; x != nil && !x.done {
				c.report(e.At, "the kernel ends before channel %d is done", n)
			}
		}
	case ChannelDone:
		x := end.channel(e.Channel, e.Sender)
		if x.done {
			c.report(e.At, "channel %d ends twice", e.Channel)
		}
		x.done = true
	default:
		c.message(e, end.channel(e.Channel, e.Sender))
	}
}

// begin notes that a new EDM begins at an end of a link. If the EDM before has ended, all its messages must have arrived.
func (c *Checker) begin(at wire.PortID) {
	end := c.end(at)
	for n := range MaxChannels {
		if x := end.channels[n]; x != nil && end.ended && len(x.way) > 0 {
			c.report(at, "channel %d: %d of %d messages of the EDM before did not arrive", n, len(x.way), x.sent)
		}
	}
	*end = seenEnd{channels: map[int]*seenChannel{}}
}

// message takes an event about a message.
func (c *Checker) message(e Event, x *seenChannel) {
	if x.done && e.Kind != Acked {
		c.report(e.At, "channel %d has a message after its end", e.Channel)
	}
	switch e.Kind {
	case Sent:
		x.way, x.last, x.sent = append(x.way, e.Sum), e.Sum, x.sent+1
	case Acked:
		if x.last != e.Sum {
			c.report(e.At, "channel %d: message %d was overwritten before the receiver acknowledged it", e.Channel, x.sent)
		}
	case Arrived:
		c.arrived(e, x)
	case Released:
		if x.last != e.Sum {
			c.report(e.At, "channel %d: message %d was overwritten before the workers had read it", e.Channel, x.got)
		}
	}
}

// arrived compares a message with the oldest message that was sent and has not arrived.
func (c *Checker) arrived(e Event, x *seenChannel) {
	x.last, x.got = e.Sum, x.got+1
	p, _ := c.peer(e.At)
	from := c.end(p).channel(e.Channel, true)
	if len(from.way) == 0 {
		c.report(e.At, "channel %d: message %d came, and only %d were sent", e.Channel, x.got, from.sent)
		return
	}
	if from.way[0] != e.Sum {
		c.report(e.At, "channel %d: message %d has other bytes than the message that was sent, or came out of order", e.Channel, x.got)
	}
	from.way = from.way[1:]
}

// Broken returns the reports so far. The reports are valid even if a job ended early.
func (c *Checker) Broken() []string { return c.broken }

// Finish checks the state after all jobs have ended, and no job has ended early. No message must be
// under way, each channel must be done, and each kernel must have ended. Finish returns all
// reports, and forgets these reports.
func (c *Checker) Finish() []string {
	for _, p := range c.order {
		end := c.links[p]
		all := true
		for n := range MaxChannels {
			x := end.channels[n]
			if x == nil {
				continue
			}
			if all = all && x.done; len(x.way) > 0 {
				c.report(p, "channel %d: %d of %d messages did not arrive", n, len(x.way), x.sent)
			}
			if !x.done {
				c.report(p, "channel %d is not done", n)
			}
		}
		if all && !end.ended {
			c.report(p, "the kernel has not ended, and all its channels are done")
		}
	}
	broken := c.broken
	c.broken, c.order = nil, nil
	clear(c.links)
	return broken
}
