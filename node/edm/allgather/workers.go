package allgather

import (
	"ttfabric/node/edm"
	"ttfabric/node/kernel"
)

// Names of the kernels.
const (
	senderName   = "all-gather-sender"
	receiverName = "all-gather-receiver"
)

// Kernels are the two workers of an all-gather by name. A chip also needs the kernels of package edm.
var Kernels = kernel.Table{senderName: sender, receiverName: receiver}

// Arguments of the two workers, behind those of [edm.NewWorker]. The input tensor and the output tensor follow.
const (
	argChips  = edm.NumWorkerArgs + iota // chips of the path
	argSelf                              // place of this chip in the path
	argBack                              // 1: the worker sends slices to the previous chip; 0: to the next chip
	argFirst                             // the worker's first page of each slice
	argCount                             // the worker's pages of each slice
	argPer                               // largest number of pages of a packet
	argSlices                            // sender: number of slices to send; receiver: number of slices to receive
	argInner                             // number of a slice's pages that lie side by side in the output
	argSem                               // the sender's semaphore: chunks that the receiver has committed
	argX                                 // receiver: tile of the sender
	argY                                 //
	argCopy                              // sender: 1: the sender also stores the chip's own slice into the output
	argTell                              // receiver: 1: there is a sender to tell
	argStage                             // address of space for one packet
	numArgs
)

// worker holds what the two workers have in common.
type worker struct {
	k       *kernel.Context
	channel *edm.Worker
	in, out *edm.Tensor
	chips   int
	self    int
	step    int // 1: slices come from the previous chip; -1: slices come from the next chip
	stage   uint32
}

func newWorker(k *kernel.Context) *worker {
	w := &worker{k: k, channel: edm.NewWorker(k, 0), chips: int(k.Uint32(argChips)), self: int(k.Uint32(argSelf)), step: 1 - 2*int(k.Uint32(argBack)&1), stage: k.Uint32(argStage)}
	next := numArgs
	w.in, next = edm.TensorAt(k, next)
	w.out, _ = edm.TensorAt(k, next)
	inner, last := int(k.Uint32(argInner)), int(k.Uint32(argFirst))+int(k.Uint32(argCount))
	switch {
	case w.chips < 2 || w.self >= w.chips || k.Uint32(argPer) < 1 || inner < 1:
		k.Fail("an all-gather worker as chip %d of %d, with %d pages in a packet, and %d pages together", w.self, w.chips, k.Uint32(argPer), inner)
	case w.in.Pages%inner != 0 || w.out.Pages != w.in.Pages*w.chips || w.out.PageSize != w.in.PageSize || last > w.in.Pages:
		k.Fail("an all-gather worker with the pages up to %d of %d, %d together, and an output of %d pages for %d chips", last, w.in.Pages, inner, w.out.Pages, w.chips)
	}
	return w
}

// rank returns the chip whose slice is number i. The worker's chip numbers the slices in the order
// of their arrival; its own slice is number 0.
func (w *worker) rank(i int) int { return ((w.self-i*w.step)%w.chips + w.chips) % w.chips }

// place returns the page of the output for a page of a chip's slice.
func place(rank, chips, page, inner int) int {
	return (page/inner*chips+rank)*inner + page%inner
}

// chunks calls f for each packet of a slice, with the first page and the number of pages.
func (w *worker) chunks(f func(first, n int)) {
	first, count, per := int(w.k.Uint32(argFirst)), int(w.k.Uint32(argCount)), int(w.k.Uint32(argPer))
	for at := 0; at < count; at += per {
		f(first+at, min(per, count-at))
	}
}

// store writes n pages of a chip's slice from the stage into the output.
func (w *worker) store(rank, first, n int) {
	for i := range n {
		w.k.NocAsyncWrite(w.stage+uint32(i*w.out.PageSize), w.out.Page(place(rank, w.chips, first+i, int(w.k.Uint32(argInner)))), w.out.PageSize)
	}
}

// sender sends the chip's own slice, and forwards slices that the receiver has stored into the output (CCL
// guide, "(Ring/Line) All Gather").
func sender(k *kernel.Context) {
	w := newWorker(k)
	committed := uint32(0)
	for i := range int(k.Uint32(argSlices)) {
		w.chunks(func(first, n int) {
			if i > 0 {
				committed++
				k.NocSemaphoreWaitMin(k.Uint32(argSem), committed)
			}
			for j := range n {
				from := w.in.Page(first + j)
				if i > 0 {
					from = w.out.Page(place(w.rank(i), w.chips, first+j, int(k.Uint32(argInner))))
				}
				k.NocAsyncRead(from, w.stage+uint32(j*w.out.PageSize), w.out.PageSize)
			}
			k.NocAsyncReadBarrier()
			if i == 0 && k.Uint32(argCopy) == 1 {
				w.store(w.self, first, n)
			}
			w.channel.SendChunk(w.stage, n*w.out.PageSize, edm.Next)
			k.NocAsyncWritesFlushed()
		})
	}
}

// receiver stores the slices that arrive into the output tensor, and tells the sender about each
// stored packet.
func receiver(k *kernel.Context) {
	w := newWorker(k)
	tile := kernel.Tile{X: uint8(k.Uint32(argX)), Y: uint8(k.Uint32(argY))}
	for i := range int(k.Uint32(argSlices)) {
		w.chunks(func(first, n int) {
			w.channel.ReceiveChunk(w.stage, n*w.out.PageSize, edm.Next)
			w.store(w.rank(i+1), first, n)
			k.NocAsyncWriteBarrier()
			if k.Uint32(argTell) == 1 {
				k.NocSemaphoreInc(tile.Addr(uint64(k.Uint32(argSem))), 1)
			}
		})
	}
}
