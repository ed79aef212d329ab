package reducescatter

import (
	"ttfabric/node/collective"
	"ttfabric/node/edm"
	"ttfabric/node/kernel"
)

// workerName is the name of the worker.
const workerName = "reduce-scatter-worker"

// Kernels is the worker of a reduce-scatter by name. A chip also needs the kernels of package edm.
var Kernels = kernel.Table{workerName: run}

// Arguments of the worker, behind those of [edm.NewWorker] for the two channels. The input tensor and the output tensor
// follow.
const (
	argChips = 2*edm.NumWorkerArgs + iota // chips of the ring
	argSelf                               // place of this chip in the ring
	argFirst                              // the worker's first page of each fracture
	argCount                              // the worker's pages of each fracture
	argPer                                // largest number of pages of a packet
	argSlice                              // packets of a slice
	argInner                              // pages of a fracture that lie together in the input
	argType                               // type of the elements
	argOp                                 // reduction
	argStage                              // address of space for two packets
	numArgs
)

// Limits of a worker's arguments.
const (
	pageUnit  = 16        // unit of a page's size in bytes: the word of the ethernet dataflow API
	maxPacket = 256 << 10 // bytes: the L1 of an ethernet tile
	maxSlice  = 1 << 16   // packets
)

// place returns the page of the input for a page of a fracture.
func place(fracture, chips, page, inner int) int {
	return (page/inner*chips+fracture)*inner + page%inner
}

// worker is a worker that runs.
type worker struct {
	k               *kernel.Context
	send, receive   *edm.Worker
	in, out         *edm.Tensor
	chips, self     int
	stage, incoming uint32 // space for one packet each
}

// run is the kernel of the worker. For each slice, run takes all fractures in turn, before run begins the next slice.
func run(k *kernel.Context) {
	w := &worker{k: k, send: edm.NewWorker(k, 0), receive: edm.NewWorker(k, edm.NumWorkerArgs), chips: int(k.Uint32(argChips)), self: int(k.Uint32(argSelf))}
	next := numArgs
	w.in, next = edm.TensorAt(k, next)
	w.out, _ = edm.TensorAt(k, next)
	first, count, per, slice, inner := int(k.Uint32(argFirst)), int(k.Uint32(argCount)), int(k.Uint32(argPer)), int(k.Uint32(argSlice)), int(k.Uint32(argInner))
	t, o := collective.Type(min(k.Uint32(argType), 255)), collective.Op(min(k.Uint32(argOp), 255))
	switch {
	case w.chips < 2 || w.self >= w.chips || per < 1 || slice < 1 || inner < 1:
		k.Fail("a reduce-scatter worker as chip %d of %d, with %d pages in a packet, %d packets in a slice and %d pages together", w.self, w.chips, per, slice, inner)
	case w.out.Pages%inner != 0 || w.in.Pages != w.out.Pages*w.chips || w.in.PageSize != w.out.PageSize || first+count > w.out.Pages:
		k.Fail("a reduce-scatter worker with the pages up to %d of %d, and an input of %d pages for %d chips", first+count, w.out.Pages, w.in.Pages, w.chips)
	case w.in.PageSize%pageUnit != 0 || per > maxPacket/w.in.PageSize || slice > maxSlice:
		k.Fail("a reduce-scatter worker with packets of %d pages of %d bytes, and slices of %d packets: want a multiple of %d bytes, packets of at most %d bytes, and at most %d packets", per, w.in.PageSize, slice, pageUnit, maxPacket, maxSlice)
	case !t.Valid() || !o.Valid():
		k.Fail("a reduce-scatter worker with %s of %s: one of the two is unknown", o, t)
	}
	w.stage = k.Uint32(argStage)
	w.incoming = w.stage + uint32(per*w.in.PageSize)
	for at := 0; at < count; at += slice * per {
		end := min(at+slice*per, count)
		for step := range w.chips {
			for p := at; p < end; p += per {
				w.packet(step, first+p, min(per, end-p), t, o)
			}
		}
	}
}

// packet brings one packet of a slice through one step.
func (w *worker) packet(step, first, n int, t collective.Type, o collective.Op) {
	k, size := w.k, w.in.PageSize
	fracture := (w.self + 1 + step) % w.chips
	for i := range n {
		k.NocAsyncRead(w.in.Page(place(fracture, w.chips, first+i, int(k.Uint32(argInner)))), w.stage+uint32(i*size), size)
	}
	k.NocAsyncReadBarrier()
	if step > 0 {
		w.receive.ReceiveChunk(w.incoming, n*size, edm.Next)
		own, got := make([]byte, n*size), make([]byte, n*size)
		k.Load(w.stage, own)
		k.Load(w.incoming, got)
		collective.Accumulate(t, o, own, got, own)
		k.Store(w.stage, own)
	}
	if step < w.chips-1 {
		w.send.SendChunk(w.stage, n*size, edm.Next)
	} else {
		for i := range n {
			k.NocAsyncWrite(w.stage+uint32(i*size), w.out.Page(first+i), size)
		}
	}
	k.NocAsyncWritesFlushed()
}
