package edm

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"ttfabric/node/kernel"
	"ttfabric/wire"
)

// Interface is what a worker needs to know about its channel (the guide's ChannelBufferInterface).
type Interface struct {
	Channel   int    // number of the channel, the same at both ends of the link
	Buffer    uint32 // address of the channel's buffer in the L1 of the EDM's tile (eth_buffer_l1_address)
	Semaphore uint32 // address of the channel's semaphore in the L1 of the EDM's tile (eth_semaphore_l1_address)
	Size      uint32 // bytes of a message
}

// channelSpec is one channel of a builder, and the part of the kernel's arguments that describes it.
type channelSpec struct {
	Interface
	sender          bool
	messages        uint32
	workerSemaphore uint32
	workers         []kernel.Tile
}

// Builder collects the channels of one EDM: one end of one link (CCL guide, "ERISC Data Mover (EDM)
// Builder"). A program makes one builder for each link of its chip, adds the channels, and gives the builder
// to [Links.Generate] once.
type Builder struct {
	cfg      Config
	channels []channelSpec
	port     wire.PortID // end of a link for which the kernel was generated
	built    bool
}

// NewBuilder returns a builder without channels (the guide's create_erisc_datamover_builder).
// NewBuilder chooses the addresses of the semaphores and buffers. The caller must already know the
// number of channels.
func NewBuilder(c Config) (*Builder, error) {
	c.Patience = cmp.Or(c.Patience, DefaultPatience)
	if err := c.check(); err != nil {
		return nil, err
	}
	return &Builder{cfg: c}, nil
}

// BufferSize returns the size of each channel's buffer in bytes, which is the size of the largest message.
func (b *Builder) BufferSize() int { return int(b.cfg.bufferSize()) }

// AddSenderChannel adds a channel whose workers push messages into the channel's buffer (the guide's
// add_sender_channel). The EDM adds 1 to the word at address workerSemaphore of each worker's tile when the
// worker may write. The word must be 0 when the program starts. A message has size bytes, a multiple of 16,
// at most [Builder.BufferSize]. With [WorkerInitiated], the number of messages must be 0.
//
// Channels get their numbers in the order of the calls. Channel i of one end belongs to channel i
// of the other end, which must be a receiver. Therefore the two ends must add their channels in the
// same order.
func (b *Builder) AddSenderChannel(workerSemaphore uint32, messages int, workers []kernel.Tile, size int) (Interface, error) {
	return b.add(true, workerSemaphore, messages, workers, size)
}

// AddReceiverChannel adds a channel whose workers pull messages out of the channel's buffer (the guide's
// add_receiver_channel). The EDM adds 1 to the word at address workerSemaphore of each worker's tile when
// the worker may read. For the other arguments, see AddSenderChannel.
func (b *Builder) AddReceiverChannel(workerSemaphore uint32, messages int, workers []kernel.Tile, size int) (Interface, error) {
	return b.add(false, workerSemaphore, messages, workers, size)
}

func (b *Builder) add(sender bool, semaphore uint32, messages int, workers []kernel.Tile, size int) (Interface, error) {
	n := len(b.channels)
	fail := func(format string, args ...any) (Interface, error) {
		return Interface{}, fmt.Errorf("channel %d of an EDM: %s", n, fmt.Sprintf(format, args...))
	}
	switch counted := b.cfg.Termination == MessageCountReached; {
	case b.built:
		return fail("the kernel at %s was generated already", b.port.Short())
	case n == b.cfg.Channels:
		return fail("the builder was made for %d channels", n)
	case size < word || size%word != 0 || size > b.BufferSize():
		return fail("messages of %d bytes: want a multiple of %d, at most %d", size, word, b.BufferSize())
	case counted && (messages < 0 || messages > MaxMessages):
		return fail("%d messages: want 0 to %d", messages, MaxMessages)
	case !counted && messages != 0:
		return fail("%d messages: want 0, because the workers end the channel (%s)", messages, b.cfg.Termination)
	case len(workers) < 1 || len(workers) > MaxWorkers:
		return fail("%d workers: want 1 to %d", len(workers), MaxWorkers)
	case !counted && b.cfg.Sharing == NotShared && len(workers) > 1:
		return fail("%d workers with %s and %s: want one, because signals of several workers add up", len(workers), b.cfg.Sharing, b.cfg.Termination)
	case semaphore%4 != 0:
		return fail("the workers' semaphore at 0x%x: want a multiple of 4", semaphore)
	}
	if first := slices.IndexFunc(b.channels, func(c channelSpec) bool { return c.sender == sender }); first >= 0 && b.channels[n-1].sender != sender {
		return fail("the sender channels need numbers in a row, and the receiver channels too")
	}
	c := channelSpec{sender: sender, messages: uint32(messages), workerSemaphore: semaphore, workers: slices.Clone(workers), Interface: Interface{
		Channel: n, Buffer: b.cfg.buffers() + uint32(n)*b.cfg.bufferSize(), Semaphore: Semaphores + uint32(n)*SemaphoreSize, Size: uint32(size)}}
	b.channels = append(b.channels, c)
	return c.Interface, nil
}

// of returns the channels of one kind, and the number of the first.
func (b *Builder) of(sender bool) (cs []channelSpec, first int) {
	for _, c := range b.channels {
		if c.sender == sender {
			cs = append(cs, c)
		}
	}
	if len(cs) > 0 {
		first = cs[0].Channel
	}
	return cs, first
}

// master reports whether the EDM is the sender of the handshake.
func (b *Builder) master() bool {
	s, senders := b.of(true)
	r, receivers := b.of(false)
	return handshakeSender(senders, len(s), receivers, len(r))
}

// handshakeSender is the rule that chooses the sender of the handshake. An EDM with sender channels
// only is the sender. An EDM with receiver channels only is the receiver. If both ends have sender
// channels, the end whose first sender channel has the lower number is the sender (CCL guide,
// "Initialization and Source - Destination Readiness Signaling").
func handshakeSender(senders, numSenders, receivers, numReceivers int) bool {
	return numSenders > 0 && (numReceivers == 0 || senders < receivers)
}

// CompileArgs returns the compile-time arguments of the kernel: whether the EDM has sender channels, whether
// it has receiver channels, the two numbers of channels, the sharing mode, and the termination mode.
func (b *Builder) CompileArgs() []uint32 {
	s, _ := b.of(true)
	r, _ := b.of(false)
	return []uint32{min(uint32(len(s)), 1), min(uint32(len(r)), 1), uint32(len(s)), uint32(len(r)), uint32(b.cfg.Sharing), uint32(b.cfg.Termination)}
}

// RuntimeArgs returns the runtime arguments of the kernel, in tt-metal's order. The address of the
// handshake comes first. The sender channels follow, and then the receiver channels. Each of these
// two parts begins with the number of its first channel. For each channel follow:
//
//   - the address of the buffer
//   - the number of messages
//   - the bytes of a message
//   - the address of the channel's semaphore
//   - the address of the workers' semaphore
//   - the number of workers
//   - the tile of each worker, as y<<16 | x
//
// Three arguments of our own come last: the address of the words with the channels' ends, the
// patience in milliseconds, and the key.
func (b *Builder) RuntimeArgs() []uint32 {
	args := []uint32{Handshake}
	for _, sender := range []bool{true, false} {
		cs, first := b.of(sender)
		args = append(args, uint32(first))
		for _, c := range cs {
			args = append(args, c.Buffer, c.messages, c.Size, c.Semaphore, c.workerSemaphore, uint32(len(c.workers)))
			for _, w := range c.workers {
				args = append(args, uint32(w.Y)<<16|uint32(w.X))
			}
		}
	}
	return append(args, b.cfg.ends(), uint32((b.cfg.Patience+time.Millisecond-1)/time.Millisecond), b.cfg.Key)
}

// Dump returns the layout and all arguments of the EDM as text, a line each, for people who look for a
// mistake.
func (b *Builder) Dump() string {
	var s strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&s, format+"\n", args...) }
	name := "no link yet"
	if b.built {
		name = b.port.Short()
	}
	role := "receiver"
	if b.master() {
		role = "sender"
	}
	line("EDM at %s: %s, %s, pages of %d bytes, patience %s, key %#x", name, b.cfg.Sharing, b.cfg.Termination, b.cfg.PageSize, b.cfg.Patience, b.cfg.Key)
	line("  handshake       0x%x, as %s", Handshake, role)
	line("  acknowledgement 0x%x", AckSource)
	line("  semaphores      0x%x, %d bytes each", Semaphores, SemaphoreSize)
	line("  ends            0x%x, %d bytes each", b.cfg.ends(), word)
	line("  buffers         0x%x, %d bytes each", b.cfg.buffers(), b.cfg.bufferSize())
	for _, c := range b.channels {
		kind := "receiver"
		if c.sender {
			kind = "sender"
		}
		messages := "messages until the worker terminates"
		if b.cfg.Termination == MessageCountReached {
			messages = fmt.Sprintf("%d messages", c.messages)
		}
		line("  channel %d: %s, %s of %d bytes, buffer 0x%x, semaphore 0x%x, workers' semaphore 0x%x, workers %v", c.Channel, kind, messages, c.Size, c.Buffer, c.Semaphore, c.workerSemaphore, c.workers)
	}
	line("  compile-time arguments %d", b.CompileArgs())
	line("  runtime arguments      %#x", b.RuntimeArgs())
	return s.String()
}
