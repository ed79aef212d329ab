package edm

import (
	"fmt"
	"time"

	"ttfabric/node/kernel"
)

// Limits.
const (
	MaxChannels = kernel.NumChannels - 1 // channels of one EDM; the guide keeps channel 0 of the ethernet dataflow API for the handshake
	MaxWorkers  = 16                     // workers of one channel, our own choice
	MaxSpace    = 163000                 // bytes of all buffers of one EDM (tt-metal: the builder refuses more)
	MinPacket   = 4 << 10                // bytes; smaller packets leave a part of the link's rate unused (CCL guide, "ERISC Data Mover (EDM) Engine")
	MaxPacket   = 16 << 10               // bytes; larger packets do not use the link better
	MaxMessages = 1<<31 - 1              // messages of one channel
	MaxPatience = 24 * time.Hour         // longest patience of an EDM
)

// DefaultPatience is the patience of an EDM whose [Config] has none, our own choice. See Config.Patience.
const DefaultPatience = 30 * time.Second

// word is the unit of the ethernet dataflow API, in bytes.
const word = 16

// The layout of the L1 of an ethernet tile with an EDM. The sizes of the handshake, the
// acknowledgement and the semaphores are tt-metal's. The words that say how a channel ended are our
// own choice.
const (
	Handshake     = kernel.HandshakeAddr // 16 bytes: the packet of the handshake
	AckSource     = Handshake + word     // 16 bytes: the link reads acknowledgements from here
	Semaphores    = AckSource + word     // first semaphore; each channel has SemaphoreSize bytes
	SemaphoreSize = 32                   // the first 4 bytes are the channel's semaphore; into the last 16 bytes, the other end writes how its channel ended
	endOffset     = 16                   // offset, from a channel's semaphore, of the words in which the other end says how its channel ended
)

// Sharing says how the workers of a channel share its buffer (tt-metal: EriscDataMoverBufferSharingMode).
type Sharing uint8

// The modes of sharing. An EDM supports only the first two modes, as in tt-metal.
const (
	NotShared           Sharing = iota // each worker has a part of the buffer; a message is complete when all workers have signalled
	RoundRobin                         // the workers take turns: each worker has the whole buffer for one message
	Shared                             // named by tt-metal, not supported
	RoundRobinAndShared                // named by tt-metal, not supported
)

// String returns tt-metal's name of the mode.
func (s Sharing) String() string {
	names := [...]string{"NOT_SHARED", "ROUND_ROBIN", "SHARED", "ROUND_ROBIN_AND_SHARED"}
	if int(s) >= len(names) {
		return fmt.Sprintf("sharing mode %d", s)
	}
	return names[s]
}

// Termination says when the channels of an EDM end (tt-metal: EriscDataMoverTerminationMode).
type Termination uint8

// The termination modes (CCL guide, "Termination Mode").
const (
	MessageCountReached Termination = iota // a channel ends after a fixed number of messages
	WorkerInitiated                        // a channel ends when its worker signals the end; the workers of both ends must signal the end
)

// String returns the guide's name of the mode.
func (t Termination) String() string {
	names := [...]string{"MESSAGE_COUNT_REACHED", "WORKER_INITIATED"}
	if int(t) >= len(names) {
		return fmt.Sprintf("termination mode %d", t)
	}
	return names[t]
}

// Signal is what a worker adds to the semaphore of its channel.
type Signal uint32

// The signals (tt-metal: EriscDataMoverWorkerSignal). With [MessageCountReached], each signal is Next.
const (
	Next      Signal = 1 // to a sender: a message is in the buffer; to a receiver: the worker has read the message
	Last      Signal = 2 // as Next, and the message is the channel's last message
	Terminate Signal = 3 // the channel ends without a further message
)

// State is the state of a channel (tt-metal: the states of ChannelBuffer).
type State uint8

// The states.
const (
	Done                State = iota // the channel has sent or received all its messages
	SignalingWorker                  // the EDM is about to tell the workers that the buffer is free, or that a message came
	WaitingForWorker                 // the workers have the buffer
	ReadyForEthTransfer              // sender: a message is in the buffer
	WaitingForEth                    // sender: the message is under way; receiver: the buffer is free
)

// String returns tt-metal's name of the state.
func (s State) String() string {
	names := [...]string{"DONE", "SIGNALING_WORKER", "WAITING_FOR_WORKER", "READY_FOR_ETH_TRANSFER", "WAITING_FOR_ETH"}
	if int(s) >= len(names) {
		return fmt.Sprintf("state %d", s)
	}
	return names[s]
}

// Config describes an EDM. The two ends of a link need the same Config.
type Config struct {
	Channels    int // sender and receiver channels together, 1 to [MaxChannels]
	PageSize    int // bytes, a multiple of 16; the size of a channel's buffer is a multiple of the page
	Sharing     Sharing
	Termination Termination
	// Key is a number that stands for the operation. The two ends compare their keys in the
	// handshake. If the keys differ, the chips perform different operations, and the receiver of
	// the handshake ends the job.
	Key uint32
	// Patience is how long the EDM waits for the handshake of the other end of the link. With
	// [WorkerInitiated], a receiver channel also waits at most this long for its worker's
	// termination after the sender channel has ended. After this time, the EDM fails, and the EDM's
	// job ends. 0 stands for [DefaultPatience].
	Patience time.Duration
}

// check refuses a wrong Config.
func (c *Config) check() error {
	switch {
	case c.Channels < 1 || c.Channels > MaxChannels:
		return fmt.Errorf("an EDM with %d channels: want 1 to %d", c.Channels, MaxChannels)
	case c.PageSize < word || c.PageSize%word != 0:
		return fmt.Errorf("pages of %d bytes: want a multiple of %d", c.PageSize, word)
	case c.Sharing != NotShared && c.Sharing != RoundRobin:
		return fmt.Errorf("%s: an EDM supports %s and %s", c.Sharing, NotShared, RoundRobin)
	case c.Termination > WorkerInitiated:
		return fmt.Errorf("%s: an EDM supports %s and %s", c.Termination, MessageCountReached, WorkerInitiated)
	case c.Patience < 0 || c.Patience > MaxPatience:
		return fmt.Errorf("a patience of %s: want 0 to %s", c.Patience, MaxPatience)
	case c.bufferSize() == 0:
		return fmt.Errorf("pages of %d bytes: a buffer of one of %d channels has at most %d bytes", c.PageSize, c.Channels, (kernel.EthEnd-c.buffers())/uint32(c.Channels))
	}
	return nil
}

// ends returns the address of the words from which the link reads how this EDM's channels ended: 16 bytes
// for each channel.
func (c *Config) ends() uint32 { return Semaphores + SemaphoreSize*uint32(c.Channels) }

// buffers returns the address of the first channel's buffer.
func (c *Config) buffers() uint32 { return c.ends() + word*uint32(c.Channels) }

// bufferSize returns the size of each channel's buffer in bytes: the space for one channel, rounded down to
// whole pages.
func (c *Config) bufferSize() uint32 {
	space := min(kernel.EthEnd-c.buffers(), MaxSpace) / uint32(c.Channels)
	return space / uint32(c.PageSize) * uint32(c.PageSize)
}
