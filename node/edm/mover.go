package edm

import (
	"fmt"
	"time"

	"ttfabric/node/kernel"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// KernelName is the name of the EDM's kernel (tt-metal: erisc_datamover.cpp).
const KernelName = "erisc-datamover"

// queue is the transaction command queue of the ethernet dataflow API.
const queue = 0

// idlePause is the longest time for which an EDM sleeps if nobody stores into its tile, our own choice. A
// store ends the sleep at once.
const idlePause = time.Second

// channel is a channel of an EDM that runs.
//
// Invariants: the buffer belongs to the workers in the state WaitingForWorker only; count never
// exceeds messages with MessageCountReached; a channel in the state Done stays in this state.
type channel struct {
	channelSpec
	state  State
	count  uint32    // sender: messages that were sent; receiver: messages that the workers have read
	last   bool      // the message in the buffer is the channel's last message
	acked  bool      // sender: the receiver has acknowledged the last message that was sent
	closed bool      // the other end has ended its channel with the same count
	ended  mono.Time // receiver: time at which the EDM saw that the sender channel had ended; 0: not yet
}

// eth returns the number of the channel in the ethernet dataflow API, whose channel 0 is for the handshake.
func (c *channel) eth() int { return c.Channel + 1 }

// mover is an EDM that runs.
type mover struct {
	k                  *kernel.Context
	port, peer         wire.PortID
	observe            func(Event)
	senders, receivers []*channel
	sharing            Sharing
	termination        Termination
	ends               uint32
	patience           time.Duration
	key                uint32
	broken             sabotage
}

// sabotage makes an EDM break a rule, so that tests can show that a checker finds the breach.
type sabotage struct {
	noWait    bool // the sender channels do not wait until the receiver's buffer is free
	earlyDone bool // the receiver channels free the buffer before the workers have read it
	noAck     bool // the sender channels do not wait until the receiver has acknowledged
	twice     bool // the receiver channels hand each message to the workers twice
	endEarly  bool // the EDM ends when its first channel is done
	endNever  bool // the EDM does not end when all channels are done
}

// run is the EDM's kernel. run shakes hands with the other end. Then run looks at one sender
// channel and one receiver channel in each turn, until all channels are done.
func (m *mover) run() {
	m.clear()
	m.shakeHands()
	m.tell(Event{Kind: Begun})
	m.begin()
	for turn, idle := 0, 0; !m.over(); turn++ {
		moved := m.look(m.senders, turn)
		if moved = m.look(m.receivers, turn) || moved; moved {
			idle = 0
			continue
		}
		if idle++; idle >= max(len(m.senders), len(m.receivers)) {
			m.rest()
			idle = 0
		}
	}
	m.tell(Event{Kind: Ended})
}

// clear clears the words that the other end will write, and writes the words that the link sends as
// acknowledgements. The other end writes these words only after the handshake. The start of the
// program has cleared the channels' semaphores, because a worker may end its channel before the EDM
// runs.
func (m *mover) clear() {
	for _, cs := range [][]*channel{m.senders, m.receivers} {
		for _, c := range cs {
			m.k.Store(c.Semaphore+endOffset, make([]byte, word))
		}
	}
	if want := []uint32{1, 1, 0, 0}; m.k.Load32(AckSource) != 1 || m.k.Load32(AckSource+4) != 1 {
		m.k.Store(AckSource, words(want...))
	}
}

// begin puts each channel into its first state. A channel without messages is done.
func (m *mover) begin() {
	for _, c := range append(append([]*channel{}, m.senders...), m.receivers...) {
		c.acked, c.state = true, WaitingForEth
		if c.sender {
			c.state = SignalingWorker
		}
		if m.termination == MessageCountReached && c.messages == 0 {
			m.finish(c)
		}
	}
}

// over reports whether all channels of both ends are done.
func (m *mover) over() bool {
	all, some := true, false
	for _, cs := range [][]*channel{m.senders, m.receivers} {
		for _, c := range cs {
			all, some = all && c.state == Done && c.closed, some || c.state == Done
		}
	}
	return all && !m.broken.endNever || some && m.broken.endEarly
}

// look gives one of the channels a turn. look returns true if the channel could do something.
func (m *mover) look(cs []*channel, turn int) bool {
	if len(cs) == 0 {
		return false
	}
	c := cs[turn%len(cs)]
	moved := m.compare(c)
	switch {
	case c.state == Done:
		return moved
	case c.sender:
		return m.send(c) || moved
	}
	return m.receive(c) || moved
}

// rest lets the EDM sleep until somebody stores into the tile. If a channel waits for the queue, the EDM also wakes up
// when the queue takes commands. If the other end of a receiver channel has ended, the EDM wakes up after its patience.
func (m *mover) rest() {
	d, queued := idlePause, false
	for _, c := range m.senders {
		queued = queued || c.state == ReadyForEthTransfer && m.k.EthIsReceiverChannelSendDone(c.eth())
	}
	for _, c := range m.receivers {
		queued = queued || c.state == WaitingForEth && m.k.EthBytesAreAvailableOnChannel(c.eth())
		if c.ended != 0 {
			d = min(d, max(m.k.Now().Sub(c.ended.Add(m.patience))*-1, kernel.PollPause))
		}
	}
	if queued {
		m.k.RunRoutingUntilFree(queue, d)
		return
	}
	m.k.RunRoutingFor(d)
}

// send gives a sender channel a turn.
func (m *mover) send(c *channel) bool {
	switch c.state {
	case SignalingWorker:
		m.signal(c)
		c.state = WaitingForWorker
		return true
	case WaitingForWorker:
		switch s := m.taken(c); {
		case s == 0:
			return false
		case s == Terminate:
			c.last, c.state = true, WaitingForEth
		default:
			c.last, c.state = s == Last, ReadyForEthTransfer
		}
		return true
	case ReadyForEthTransfer:
		free := m.k.EthIsReceiverChannelSendDone(c.eth()) || m.broken.noWait
		if !free || m.k.EthTxqIsBusy(queue) {
			return false
		}
		m.see(Sent, c)
		if m.broken.noWait {
			m.k.Store32(kernel.EriscChannels+uint32(c.eth())*kernel.ChannelSize, 0)
		}
		m.k.EthSendBytesOverChannel(c.Buffer, c.Buffer, int(c.Size), c.eth())
		c.count++
		c.acked, c.state = false, WaitingForEth
		return true
	}
	done := m.k.EthIsReceiverChannelSendDone(c.eth())
	acked := done || m.k.EthIsReceiverChannelSendAcked(c.eth()) || m.broken.noAck
	if acked && !c.acked {
		m.see(Acked, c)
		c.acked = true
	}
	switch {
	case c.last && done:
		m.finish(c)
	case !c.last && acked:
		c.state = SignalingWorker
	default:
		return false
	}
	return true
}

// receive gives a receiver channel a turn.
func (m *mover) receive(c *channel) bool {
	switch c.state {
	case WaitingForEth:
		if m.termination == WorkerInitiated {
			switch s := Signal(m.k.Load32(c.Semaphore)); s {
			case 0:
			case Terminate:
				m.k.Store32(c.Semaphore, 0)
				m.finish(c)
				return true
			default:
				m.fail(c, "the worker signals %d while it has no message", s)
			}
		}
		if !m.k.EthBytesAreAvailableOnChannel(c.eth()) || m.k.EthTxqIsBusy(queue) {
			return false
		}
		if n := m.k.Load32(kernel.EriscChannels + uint32(c.eth())*kernel.ChannelSize); n != c.Size {
			m.fail(c, "a message of %d bytes came; the channel expects %d", n, c.Size)
		}
		m.k.EthSendPacket(queue, AckSource/word, (kernel.EriscChannels+uint32(c.eth())*kernel.ChannelSize)/word, 1)
		m.see(Arrived, c)
		c.state = SignalingWorker
		return true
	case SignalingWorker:
		m.signal(c)
		c.state = WaitingForWorker
		if m.broken.earlyDone {
			m.k.EthReceiverChannelDone(c.eth())
		}
		return true
	}
	s := m.taken(c)
	switch s {
	case 0:
		return false
	case Terminate:
		m.fail(c, "the worker terminates, and has not read message %d", c.count+1)
	}
	m.see(Released, c)
	if m.broken.twice && c.count%2 == 0 {
		m.see(Arrived, c)
		m.see(Released, c)
	}
	if !m.broken.earlyDone {
		m.k.EthReceiverChannelDone(c.eth())
	}
	c.count++
	c.state = WaitingForEth
	if s == Last || m.termination == MessageCountReached && c.count == c.messages {
		m.finish(c)
	}
	return true
}

// signal tells the workers that have the next message's buffer that the buffer is theirs.
func (m *mover) signal(c *channel) {
	ws := c.workers
	if m.sharing == RoundRobin {
		i := int(c.count) % len(ws)
		ws = ws[i : i+1]
	}
	for _, w := range ws {
		m.k.NocSemaphoreInc(w.Addr(uint64(c.workerSemaphore)), 1)
	}
}

// taken returns and clears the signal of the workers that have the buffer. If the workers are not
// ready, taken returns 0.
func (m *mover) taken(c *channel) Signal {
	v, full := m.k.Load32(c.Semaphore), uint32(1)
	if m.sharing == NotShared {
		full = uint32(len(c.workers))
	}
	most := full
	if m.termination == WorkerInitiated {
		most = uint32(Terminate)
	}
	switch {
	case v < full:
		return 0
	case v > most:
		m.fail(c, "the workers' signals add up to %d; the channel expects at most %d", v, most)
	}
	m.k.Store32(c.Semaphore, 0)
	switch {
	case m.termination == WorkerInitiated:
		return Signal(v)
	case c.sender && c.count+1 == c.messages:
		return Last
	}
	return Next
}

// finish ends a channel, and tells the other end how many messages the channel had.
func (m *mover) finish(c *channel) {
	c.state = Done
	m.tell(Event{Kind: ChannelDone, Channel: c.Channel, Sender: c.sender, Count: c.count})
	from := m.ends + word*uint32(c.Channel)
	m.k.Store(from, words(1, c.count, 0, 0))
	m.k.EthSendPacket(queue, from/word, (c.Semaphore+endOffset)/word, 1)
}

// compare compares the ends of a channel at the other end of the link and at this end. A mismatch
// of message counts is a mistake of the program that started the two ends (CCL guide,
// "Initialization and Source -Destination Readiness Signaling"). compare names the mismatch, and
// ends the job.
func (m *mover) compare(c *channel) bool {
	if c.closed || m.k.Load32(c.Semaphore+endOffset) == 0 {
		return false
	}
	seen := m.k.Load32(c.Semaphore + endOffset + 4)
	counted := m.termination == MessageCountReached
	switch {
	case counted && c.sender && seen != c.messages:
		m.fail(c, "expected %d messages at the receiver, seen %d", c.messages, seen)
	case counted && seen != c.messages:
		m.fail(c, "expected %d messages from the sender, seen %d", c.messages, seen)
	case c.sender && c.count > seen:
		m.fail(c, "message %d was sent; the receiver has ended after %d", c.count, seen)
	case c.state == Done && c.count != seen:
		m.fail(c, "expected %d messages at the other end, seen %d", c.count, seen)
	case c.state == Done:
		c.closed = true
		return true
	case !c.sender && c.state == WaitingForEth && c.count == seen && !counted:
		if c.ended == 0 {
			c.ended = m.k.Now()
		}
		if m.k.Now().Sub(c.ended) >= m.patience {
			m.fail(c, "the sender has ended after %d messages, and the worker has not ended the channel for %s", seen, m.patience)
		}
	}
	return false
}

// fail ends the kernel and its job. The job's end names the link and the channel.
func (m *mover) fail(c *channel, format string, args ...any) {
	m.k.Fail("link %s to %s, channel %d: %s", m.port.Short(), m.peer.Short(), c.Channel, fmt.Sprintf(format, args...))
}
