package edm

import (
	"encoding/binary"
	"time"

	"ttfabric/node/kernel"
	"ttfabric/wire"
)

// words returns 32-bit words as bytes, little endian.
func words(ws ...uint32) (b []byte) {
	for _, w := range ws {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return b
}

// moverKernel returns the EDM's kernel. The function "observe", if not nil, gets the EDM's events.
func moverKernel(observe func(Event), broken sabotage) kernel.Func {
	return func(k *kernel.Context) {
		ch, ok := k.Channel()
		if !ok {
			k.Fail("an EDM on tile %s: want an ethernet tile", k.Tile())
		}
		m := &mover{k: k, observe: observe, broken: broken, port: wire.PortID{Node: k.Self(), Channel: ch}}
		if m.peer, ok = kernel.ConnectedEthernetCore(k.Sender().Topology(), k.Self(), ch); !ok {
			k.Fail("an EDM at %s: no cable leads to another chip", m.port.Short())
		}
		m.arguments()
		m.run()
	}
}

// arguments reads the kernel's arguments, see [Builder.RuntimeArgs].
func (m *mover) arguments() {
	k := m.k
	m.sharing, m.termination = Sharing(k.Constant(4)), Termination(k.Constant(5))
	senders, receivers := k.Constant(2), k.Constant(3)
	if n := uint64(senders) + uint64(receivers); n < 1 || n > MaxChannels || k.Constant(4) > uint32(RoundRobin) || k.Constant(5) > uint32(WorkerInitiated) {
		k.Fail("an EDM with %d channels, sharing mode %d and termination mode %d: want 1 to %d channels, and modes of 0 or 1", n, k.Constant(4), k.Constant(5), MaxChannels)
	}
	at := 1 // argument 0 is the address of the handshake
	next := func() uint32 { at++; return k.Uint32(at - 1) }
	list := func(sender bool, n uint32) (cs []*channel) {
		first := next()
		for i := range n {
			c := &channel{channelSpec: channelSpec{sender: sender}}
			c.Channel, c.Buffer, c.messages, c.Size = int(first+i), next(), next(), next()
			c.Semaphore, c.workerSemaphore = next(), next()
			workers := next()
			if workers < 1 || workers > MaxWorkers || c.Channel < 0 || c.Channel >= MaxChannels {
				k.Fail("an EDM with %d workers for channel %d: want 1 to %d workers, and channel 0 to %d", workers, c.Channel, MaxWorkers, MaxChannels-1)
			}
			if c.Size < word || c.Size%word != 0 || c.Semaphore%word != 0 || c.Semaphore > kernel.EthEnd || uint64(c.Buffer)+uint64(c.Size) > kernel.EthEnd || c.Buffer%word != 0 {
				k.Fail("an EDM with messages of %d bytes in the buffer 0x%x, and a semaphore at 0x%x: want multiples of %d below 0x%x", c.Size, c.Buffer, c.Semaphore, word, kernel.EthEnd)
			}
			for range workers {
				w := next()
				c.workers = append(c.workers, kernel.Tile{X: uint8(w), Y: uint8(w >> 16)})
			}
			cs = append(cs, c)
		}
		return cs
	}
	m.senders = list(true, senders)
	m.receivers = list(false, receivers)
	if m.ends = next(); m.ends%word != 0 || m.ends > kernel.EthEnd {
		k.Fail("an EDM with the ends of its channels at 0x%x: want a multiple of %d below 0x%x", m.ends, word, kernel.EthEnd)
	}
	m.patience = time.Duration(next()) * time.Millisecond
	m.key = next()
}

// The packet of the handshake has four words, our own choice: the tag combined with the key, the channels
// of the packet's sender, the layout and the termination mode, and the port of the packet's sender. Before
// the first message, an EDM can therefore find out that the other end was built differently.
const handshakeTag = 0x204D4445 // "EDM "

// hello returns the packet of this end, or, if other is true, the packet that this end expects from the
// other end.
func (m *mover) hello(other bool) [4]uint32 {
	s, r, from := m.senders, m.receivers, m.port
	if other {
		s, r, from = m.receivers, m.senders, m.peer
	}
	first := func(cs []*channel) uint32 {
		if len(cs) == 0 {
			return 0
		}
		return uint32(cs[0].Channel)
	}
	return [4]uint32{handshakeTag ^ m.key, first(s)<<24 | uint32(len(s))<<16 | first(r)<<8 | uint32(len(r)),
		m.ends<<8 | uint32(m.termination), uint32(from.Node.Mesh)<<24 ^ uint32(from.Node.Chip)<<8 ^ uint32(from.Channel)}
}

// master reports whether this end is the sender of the handshake.
func (m *mover) master() bool {
	h := m.hello(false)
	return handshakeSender(int(h[1]>>24), len(m.senders), int(h[1]>>8&0xff), len(m.receivers))
}

// heard reads the packet of the handshake from the tile.
func (m *mover) heard() (h [4]uint32) {
	var b [word]byte
	m.k.Load(Handshake, b[:])
	for i := range h {
		h[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
	return h
}

// shakeHands makes sure that the other end's EDM runs, and that it was built for this end. The
// sender of the handshake sends the packet, and the receiver answers.
func (m *mover) shakeHands() {
	k, own := m.k, m.hello(false)
	if !m.master() {
		m.await("the sender", func() bool { return k.EthBytesAreAvailableOnChannel(0) })
		m.welcome()
		k.EthReceiverChannelDone(0)
		return
	}
	k.Store(Handshake, words(own[:]...))
	k.EthSendBytes(Handshake, Handshake, word)
	k.EthSendPacket(queue, kernel.EriscChannels/word, kernel.EriscChannels/word, 1)
	m.await("the receiver", func() bool {
		if m.heard() != own {
			k.Fail("link %s to %s: both ends are the sender of the handshake", m.port.Short(), m.peer.Short())
		}
		return k.EthIsReceiverChannelSendDone(0)
	})
}

// welcome checks the packet of the other end.
func (m *mover) welcome() {
	want, got := m.hello(true), m.heard()
	if got == want {
		return
	}
	channels := func(h [4]uint32) [4]uint32 {
		return [4]uint32{h[1] >> 16 & 0xff, h[1] >> 24, h[1] & 0xff, h[1] >> 8 & 0xff}
	}
	c, d := channels(got), channels(want)
	switch {
	case got[3] != want[3]:
		m.k.Fail("link %s to %s: the handshake is not from an EDM", m.port.Short(), m.peer.Short())
	case got[0] != want[0]:
		m.k.Fail("link %s to %s: the other end performs another operation: key 0x%x there, 0x%x here", m.port.Short(), m.peer.Short(), got[0]^handshakeTag, m.key)
	case c != d:
		m.k.Fail("link %s to %s: the other end sends on %d channels from %d and receives on %d from %d; expected %d from %d and %d from %d", m.port.Short(), m.peer.Short(), c[0], c[1], c[2], c[3], d[0], d[1], d[2], d[3])
	}
	m.k.Fail("link %s to %s: the ends have different layouts or termination modes: 0x%x there, 0x%x here", m.port.Short(), m.peer.Short(), got[2], want[2])
}

// await waits inside RunRouting until the handshake's condition holds. After the EDM's patience, await ends
// the job.
func (m *mover) await(other string, ok func() bool) {
	until := m.k.Now().Add(m.patience)
	for !ok() {
		left := until.Sub(m.k.Now())
		if left <= 0 {
			m.k.Fail("link %s to %s: no handshake from %s within %s; has the other end an EDM?", m.port.Short(), m.peer.Short(), other, m.patience)
		}
		m.k.RunRoutingFor(min(left, idlePause))
	}
}
