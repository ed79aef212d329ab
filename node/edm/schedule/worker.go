package schedule

import (
	"ttfabric/node/collective"
	"ttfabric/node/edm"
	"ttfabric/node/kernel"
	"ttfabric/wire"
)

// Names of the kernels.
const (
	senderName   = "schedule-sender"
	receiverName = "schedule-receiver"
)

// Kernels are the two workers by name. A chip also needs the kernels of package edm.
var Kernels = kernel.Table{senderName: sender, receiverName: receiver}

// The first arguments of both workers. The arguments of [edm.NewWorker] for each channel follow. Then follow, for a
// receiver, the semaphores that the receiver increments. The moves come last.
const (
	argDepth = iota // channels
	argSize         // largest length of a message, in bytes
	argStage        // address of space for one message; for a receiver: for two
	argMoves        // number of moves
	senderArgs
	argType  = iota - 1 // type of the elements
	argOp               // reduction
	argTells            // number of semaphores that the receiver increments after each message
	receiverArgs
)

// Numbers of arguments of a semaphore of a receiver, and of a move.
const (
	tellArgs = 3 // tile, address
	moveArgs = 8
)

// maxMoves is the largest number of moves of a worker: as many as fit into the arguments of a job.
const maxMoves = kernel.MaxArguments / 4 / moveArgs

// worker holds what the two workers have in common.
type worker struct {
	k        *kernel.Context
	channels []*edm.Worker
	size     int
	stage    uint32
	next     int // argument behind those of the channels
	count    int // messages so far
}

func newWorker(k *kernel.Context, fixed int) *worker {
	w := &worker{k: k, size: int(k.Uint32(argSize)), stage: k.Uint32(argStage), next: fixed}
	depth := int(k.Uint32(argDepth))
	if depth < 1 || depth > edm.MaxChannels || w.size < word || w.size > edm.MaxPacket || k.Uint32(argMoves) > maxMoves {
		k.Fail("a worker of a schedule with %d channels, messages of %d bytes and %d moves: want 1 to %d channels, %d to %d bytes, and at most %d moves", depth, w.size, k.Uint32(argMoves), edm.MaxChannels, word, edm.MaxPacket, maxMoves)
	}
	for range depth {
		w.channels = append(w.channels, edm.NewWorker(k, w.next))
		w.next += edm.NumWorkerArgs
	}
	return w
}

// address reads an address from two arguments.
func (w *worker) address(i int) wire.NocAddr {
	return wire.NocAddr(uint64(w.k.Uint32(i)) | uint64(w.k.Uint32(i+1))<<32)
}

// channel returns the channel of the next message.
func (w *worker) channel() *edm.Worker {
	w.count++
	return w.channels[(w.count-1)%len(w.channels)]
}

// moves calls f for each message: with the first argument of the message's move, the offset of the message in the move,
// and the length of the message.
func (w *worker) moves(f func(move, off, n int)) {
	for i := range int(w.k.Uint32(argMoves)) {
		at := w.next + i*moveArgs
		n := int(w.k.Uint32(at + 2))
		for off := 0; off < n; off += w.size {
			f(at, off, min(w.size, n-off))
		}
	}
}

// sender sends the moves of a queue. A move has these arguments: the address of the elements, the length in bytes,
// and the five arguments of [part.after].
func sender(k *kernel.Context) {
	w := newWorker(k, senderArgs)
	w.moves(func(move, off, n int) {
		if sem := k.Uint32(move + 3); sem != 0 {
			before, ahead, whole, size := k.Uint32(move+4), int(k.Uint32(move+5)), int(k.Uint32(move+6)), int(k.Uint32(move+7))
			if size < word {
				k.Fail("a sender of a schedule that waits for messages of %d bytes: want at least %d", size, word)
			}
			k.NocSemaphoreWaitMin(sem, before+uint32((min(ahead+off+n, whole)+size-1)/size))
		}
		k.NocAsyncRead(w.address(move).Add(off), w.stage, n)
		k.NocAsyncReadBarrier()
		w.channel().SendChunk(w.stage, n, edm.Next)
		k.NocAsyncWritesFlushed()
	})
}

// receiver takes the moves of a queue. A move has these arguments: the address for the elements, the length in bytes,
// the take, the address of the chip's own elements, a semaphore or 0, and a number. The semaphore counts the messages of
// another queue to this chip. The receiver waits until so many of these messages have come as the number says.
func receiver(k *kernel.Context) {
	w := newWorker(k, receiverArgs)
	t, o := collective.Type(min(k.Uint32(argType), 255)), collective.Op(min(k.Uint32(argOp), 255))
	if !t.Valid() || !o.Valid() || k.Uint32(argTells) > maxMoves {
		k.Fail("a receiver of a schedule with %s of %s and %d semaphores: the reduction or the type is unknown, or there are more than %d semaphores", o, t, k.Uint32(argTells), maxMoves)
	}
	tells := w.next
	w.next += tellArgs * int(k.Uint32(argTells))
	own, got := make([]byte, w.size), make([]byte, w.size)
	w.moves(func(move, off, n int) {
		w.channel().ReceiveChunk(w.stage, n, edm.Next)
		if sem := k.Uint32(move + 6); sem != 0 {
			k.NocSemaphoreWaitMin(sem, k.Uint32(move+7))
		}
		if take := collective.Take(min(k.Uint32(move+3), 255)); take != collective.Store {
			mine := w.stage + uint32(w.size)
			k.NocAsyncRead(w.address(move+4).Add(off), mine, n)
			k.NocAsyncReadBarrier()
			k.Load(w.stage, got[:n])
			k.Load(mine, own[:n])
			if n%t.Size() != 0 {
				k.Fail("a receiver of a schedule that combines %d bytes of %s", n, t)
			}
			if take == collective.Combine {
				collective.Accumulate(t, o, got[:n], got[:n], own[:n])
			} else {
				collective.Accumulate(t, o, got[:n], own[:n], got[:n])
			}
			k.Store(w.stage, got[:n])
		}
		k.NocAsyncWrite(w.stage, w.address(move).Add(off), n)
		k.NocAsyncWriteBarrier()
		for i := range int(k.Uint32(argTells)) {
			at := tells + tellArgs*i
			k.NocSemaphoreInc(kernel.Tile{X: uint8(k.Uint32(at)), Y: uint8(k.Uint32(at + 1))}.Addr(uint64(k.Uint32(at+2))), 1)
		}
	})
}
