// Package guide has the example programs of the CCL guide as kernels: a ring of chips round which a
// payload travels, over ethernet between chips and over the NoC within each chip ("Example Multi-Chip
// Program Implementation Walkthrough"). The guide's names of kernels and calls are kept.
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
	argBuffer = iota // the payload's buffer, at the same address in receivers and senders
	argAck           // word of 16 bytes from which the receiver sends acknowledgements
	argSamples
	argSize    // bytes of the payload of measured trips
	argX       // receiver: the sender's tile; sender: the receiver's tile
	argY       //
	argSem     // the sender's semaphore: 1 if the payload is in the buffer
	argStart   // the receiver's semaphore: 1 if the receiver may start
	argSetupX  // tile of the setup worker
	argSetupY  //
	argReady   // the setup worker's semaphore: number of kernels that are ready
	argMaster  // receiver: 1 if the ring begins here
	argResults // master receiver: where the times of the trips go, 4 bytes in nanoseconds for each trip
	numArgs
)

// flit is the payload of the first trip, which is not measured: "No need to send anything larger than a
// single flit".
const flit = 16

// channel is the channel of the payload. The guide recommends channel 0 for the handshake only.
const channel = 1

func tileOf(k *kernel.Context, x, y int) kernel.Tile {
	return kernel.Tile{X: uint8(k.Uint32(x)), Y: uint8(k.Uint32(y))}
}

// setup initialises the receivers of a chip: it waits until they are ready, and then starts them ("Worker
// setup kernel"). Its arguments: the number of receivers, then tile x, tile y and semaphore of each. Its
// own semaphore comes last.
func setup(k *kernel.Context) {
	n := int(k.Uint32(0))
	k.NocSemaphoreWaitMin(k.Uint32(1+3*n), uint32(n))
	for i := range n {
		t := tileOf(k, 1+3*i, 2+3*i)
		k.NocSemaphoreInc(t.Addr(uint64(k.Uint32(3+3*i))), 1)
	}
	k.NocAsyncWriteBarrier()
}

// receiver takes the payload from the cable and hands it to the sender on the same chip ("Receiver
// Kernel"). The master receiver begins each trip, and measures the time until the payload is back.
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

// pass gives the payload to the sender on the same chip.
func pass(k *kernel.Context, size int) {
	to, buffer := tileOf(k, argX, argY), k.Uint32(argBuffer)
	k.NocAsyncWrite(buffer, to.Addr(uint64(buffer)), size)
	k.NocSemaphoreInc(to.Addr(uint64(k.Uint32(argSem))), 1)
}

// complete tells the sender at the other end of the cable that the payload came, and that the buffer is
// free.
func complete(k *kernel.Context) {
	k.EthReceiverChannelAck(channel, k.Uint32(argAck))
	k.NocAsyncWriteBarrier()
	k.EthReceiverChannelDone(channel)
}

// lead is the master receiver's roundtrip_ping. It returns the time of the trip.
func lead(k *kernel.Context, size int) time.Duration {
	begun := k.Now()
	pass(k, size)
	k.NocAsyncWriteBarrier()
	k.EthWaitForBytesAvailableOnChannel(channel)
	took := k.Now().Sub(begun)
	complete(k)
	return took
}

// follow is the other receivers' roundtrip_ping.
func follow(k *kernel.Context, size int) time.Duration {
	k.EthWaitForBytesAvailableOnChannel(channel)
	pass(k, size)
	complete(k)
	return 0
}

// sender takes the payload from the receiver on the same chip, and sends it over the cable ("Sender
// Kernel").
func sender(k *kernel.Context) {
	k.EthSetupHandshake(true)
	forward(k, flit)
	for range int(k.Uint32(argSamples)) {
		forward(k, int(k.Uint32(argSize)))
	}
	k.EthTeardown(channel)
}

// forward is the sender's forward_ping.
func forward(k *kernel.Context, size int) {
	sem, buffer := k.Uint32(argSem), k.Uint32(argBuffer)
	k.NocSemaphoreWait(sem, 1)
	k.NocSemaphoreSet(sem, 0)
	k.EthSendBytesOverChannel(buffer, buffer, size, channel)
	k.EthWaitForReceiverChannelDone(channel)
}

// Trips reads the times of the trips from the bytes at [Ring.Results].
func Trips(b []byte) []time.Duration {
	var all []time.Duration
	for ; len(b) >= 4; b = b[4:] {
		all = append(all, time.Duration(binary.LittleEndian.Uint32(b)))
	}
	return all
}

// check refuses settings that do not fit.
func (s *Settings) check() error {
	switch {
	case s.Samples < 1 || s.Samples > MaxSamples:
		return fmt.Errorf("%d samples: want 1 to %d", s.Samples, MaxSamples)
	case s.Size < flit || s.Size > MaxSize || s.Size%flit != 0:
		return fmt.Errorf("payload of %d bytes: want a multiple of %d from %d to %d", s.Size, flit, flit, MaxSize)
	}
	return nil
}
