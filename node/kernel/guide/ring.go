// Package guide has the example programs of the CCL guide as kernels ("Example Multi-Chip Program
// Implementation Walkthrough"). One or more payloads travel round a ring of chips. The payloads cross
// ethernet between chips, and the NoC within each chip. The kernels and calls have the guide's names.
package guide

import (
	"encoding/binary"
	"fmt"
	"time"

	"ttfabric/node/kernel"
)

// Kernels are the kernels of this package by name.
var Kernels = kernel.Table{
	"ring-receiver": receiver,
	"ring-sender":   sender,
	"ring-setup":    setup,
}

// Arguments of the kernels: the index of each 32-bit word.
const (
	argBuffer = iota // the buffers of the payloads, one after the other, at the same address in receivers and senders
	argAck           // address of the acknowledgements that the receiver sends, 16 bytes for each payload
	argSamples
	argPayloads // number of payloads in flight at once (max_concurrent_samples)
	argSize     // bytes of each payload of measured trips
	argX        // receiver: the sender's tile; sender: the receiver's tile
	argY        //
	argStart    // the receiver's semaphore: 1 if the receiver may start
	argSetupX   // tile of the setup worker
	argSetupY   //
	argReady    // the setup worker's semaphore: number of receivers that are ready
	argMaster   // receiver: 1 if the ring begins here
	argResults  // master receiver: where the times of the trips go, 4 bytes in nanoseconds for each trip
	numArgs     // index of the sender's first semaphore; each payload has one, which is 1 while the payload is in the sender's buffer
)

// flit is the size of a flit in bytes. The payload of the first trip, which is not measured, has this
// size: "No need to send anything larger than a single flit".
const flit = 16

// channel returns the channel of payload i. The guide recommends channel 0 for the handshake only.
func channel(i int) int { return 1 + i }

// bufferOf returns the address of the buffer of payload i.
func bufferOf(k *kernel.Context, i int) uint32 {
	return k.Uint32(argBuffer) + uint32(i)*k.Uint32(argSize)
}

func payloads(k *kernel.Context) int { return int(k.Uint32(argPayloads)) }

func tileOf(k *kernel.Context, x, y int) kernel.Tile {
	return kernel.Tile{X: uint8(k.Uint32(x)), Y: uint8(k.Uint32(y))}
}

// setup waits until the receivers of a chip are ready, and then starts the receivers ("Worker setup
// kernel"). The first argument of setup is the number of receivers. Tile x, tile y and semaphore of
// each receiver follow. The setup worker's own semaphore comes last.
func setup(k *kernel.Context) {
	n := int(k.Uint32(0))
	k.NocSemaphoreWaitMin(k.Uint32(1+3*n), uint32(n))
	for i := range n {
		t := tileOf(k, 1+3*i, 2+3*i)
		k.NocSemaphoreInc(t.Addr(uint64(k.Uint32(3+3*i))), 1)
	}
	k.NocAsyncWriteBarrier()
}

// receiver takes the payloads from the cable and hands them to the sender on the same chip ("Receiver
// Kernel"). The master receiver begins each trip, and measures the time until all payloads are back.
func receiver(k *kernel.Context) {
	k.NocSemaphoreInc(tileOf(k, argSetupX, argSetupY).Addr(uint64(k.Uint32(argReady))), 1)
	k.NocSemaphoreWait(k.Uint32(argStart), 1)
	k.EthSetupHandshake(false)
	trip := follow
	if k.Uint32(argMaster) == 1 {
		trip = lead
	}
	trip(k, flit) // "Clear the ring"
	for i := range int(k.Uint32(argSamples)) {
		took := trip(k, int(k.Uint32(argSize)))
		if k.Uint32(argMaster) == 1 {
			k.Store32(k.Uint32(argResults)+uint32(4*i), uint32(min(took, 1<<32-1)))
		}
	}
}

// pass gives payload i to the sender on the same chip.
func pass(k *kernel.Context, i, size int) {
	to, buffer := tileOf(k, argX, argY), bufferOf(k, i)
	k.NocAsyncWrite(buffer, to.Addr(uint64(buffer)), size)
	k.NocSemaphoreInc(to.Addr(uint64(k.Uint32(numArgs+i))), 1)
}

// complete tells the sender at the other end of the cable that payload i has arrived, and that the
// buffer is free.
func complete(k *kernel.Context, i int) {
	k.EthReceiverChannelAck(channel(i), k.Uint32(argAck)+uint32(flit*i))
	k.NocAsyncWriteBarrier()
	k.EthReceiverChannelDone(channel(i))
}

// lead is the master receiver's roundtrip_ping. lead returns the time until the last payload is
// back.
func lead(k *kernel.Context, size int) (took time.Duration) {
	begun := k.Now()
	for i := range payloads(k) {
		pass(k, i, size)
	}
	k.NocAsyncWriteBarrier()
	for i := range payloads(k) {
		k.EthWaitForBytesAvailableOnChannel(channel(i))
		took = k.Now().Sub(begun)
		complete(k, i)
	}
	return took
}

// follow is the other receivers' roundtrip_ping.
func follow(k *kernel.Context, size int) time.Duration {
	for i := range payloads(k) {
		k.EthWaitForBytesAvailableOnChannel(channel(i))
		pass(k, i, size)
		complete(k, i)
	}
	return 0
}

// sender takes the payloads from the receiver on the same chip, and sends them over the cable ("Sender
// Kernel").
func sender(k *kernel.Context) {
	k.EthSetupHandshake(true)
	forward(k, flit)
	for range int(k.Uint32(argSamples)) {
		forward(k, int(k.Uint32(argSize)))
	}
	for i := range payloads(k) {
		k.EthTeardown(channel(i))
	}
}

// forward is the sender's forward_ping. forward sends each payload as soon as the payload is in its
// buffer. Then forward waits until the receiver is done with all payloads.
func forward(k *kernel.Context, size int) {
	for i := range payloads(k) {
		sem, buffer := k.Uint32(numArgs+i), bufferOf(k, i)
		k.NocSemaphoreWait(sem, 1)
		k.NocSemaphoreSet(sem, 0)
		k.EthSendBytesOverChannel(buffer, buffer, size, channel(i))
	}
	for i := range payloads(k) {
		k.EthWaitForReceiverChannelDone(channel(i))
	}
}

// Trips reads the times of the trips from the bytes at [Ring.Results].
func Trips(b []byte) []time.Duration {
	var all []time.Duration
	for ; len(b) >= 4; b = b[4:] {
		all = append(all, time.Duration(binary.LittleEndian.Uint32(b)))
	}
	return all
}

// check refuses settings that do not fit, and sets defaults.
func (s *Settings) check() error {
	s.Payloads = max(s.Payloads, 1)
	switch {
	case s.Payloads > MaxPayloads:
		return fmt.Errorf("%d payloads in flight at once: want 1 to %d, because each payload needs a channel of its own", s.Payloads, MaxPayloads)
	case s.Samples < 1 || s.Samples > MaxSamples:
		return fmt.Errorf("%d samples: want 1 to %d", s.Samples, MaxSamples)
	case s.Size < flit || s.Size > MaxSize || s.Size%flit != 0:
		return fmt.Errorf("payload of %d bytes: want a multiple of %d from %d to %d", s.Size, flit, flit, MaxSize)
	}
	return nil
}
