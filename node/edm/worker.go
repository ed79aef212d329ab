package edm

import (
	"fmt"

	"ttfabric/node/kernel"
	"ttfabric/wire"
)

// Names of the workers of this package.
const (
	SendWorkerName    = "edm-send-worker"
	ReceiveWorkerName = "edm-receive-worker"
)

// PagesPerPacket returns how many pages a worker puts into one packet. The packet takes the pages
// that fit into 16 KiB and into the channel's buffer, but at least one page. Both arguments are in
// bytes. A page is often a tile of 2 KiB or less, and a link needs packets of 4 KiB to 16 KiB (CCL
// guide, "ERISC Data Mover (EDM) Engine").
func PagesPerPacket(pageSize, bufferSize int) (int, error) {
	switch {
	case pageSize < word || pageSize%word != 0:
		return 0, fmt.Errorf("pages of %d bytes: want a multiple of %d", pageSize, word)
	case pageSize > bufferSize:
		return 0, fmt.Errorf("pages of %d bytes: the buffer of a channel has %d bytes", pageSize, bufferSize)
	}
	return max(min(MaxPacket, bufferSize)/pageSize, 1), nil
}

// Worker is a worker's view of its EDM channel. A kernel on a Tensix tile uses a Worker of its own.
type Worker struct {
	k         *kernel.Context
	edm       kernel.Tile
	buffer    uint32
	semaphore uint32 // address of the channel's semaphore in the EDM's tile
	local     uint32 // address of the worker's semaphore in the worker's tile
}

// WorkerArgs returns the arguments from which [NewWorker] makes a Worker: five words. The argument
// "offset" is the offset of the worker's part in the channel's buffer, in bytes. The argument
// "local" is the address of the worker's semaphore in the worker's tile.
func WorkerArgs(edm kernel.Tile, i Interface, offset, local uint32) []uint32 {
	return []uint32{uint32(edm.X), uint32(edm.Y), i.Buffer + offset, i.Semaphore, local}
}

// NumWorkerArgs is the number of arguments that [NewWorker] reads.
const NumWorkerArgs = 5

// NewWorker makes a Worker from the kernel's arguments, from argument "first" on.
func NewWorker(k *kernel.Context, first int) *Worker {
	return &Worker{k: k, edm: kernel.Tile{X: uint8(k.Uint32(first)), Y: uint8(k.Uint32(first + 1))},
		buffer: k.Uint32(first + 2), semaphore: k.Uint32(first + 3), local: k.Uint32(first + 4)}
}

// Wait waits until the EDM has given the buffer to the worker: a sender's worker may then write, and a
// receiver's worker may read. Wait also clears the worker's semaphore, as the guide asks.
func (w *Worker) Wait() {
	w.k.NocSemaphoreWait(w.local, 1)
	w.k.NocSemaphoreSet(w.local, 0)
}

// Signal gives the buffer back to the EDM. The signal comes after the worker's earlier NoC commands.
func (w *Worker) Signal(s Signal) { w.k.NocSemaphoreInc(w.edm.Addr(uint64(w.semaphore)), uint32(s)) }

// SendChunk waits for the buffer, writes n bytes from address src of the worker's tile into the
// buffer, and signals the EDM (tt-metal: send_chunk). The bytes at src must not change until
// NocAsyncWritesFlushed has returned.
func (w *Worker) SendChunk(src uint32, n int, s Signal) {
	w.Wait()
	w.k.NocAsyncWrite(src, w.edm.Addr(uint64(w.buffer)), n)
	w.Signal(s)
}

// ReceiveChunk waits for a message, reads n bytes of the message to address dst of the worker's
// tile, and then signals the EDM (tt-metal: fetch_chunk).
func (w *Worker) ReceiveChunk(dst uint32, n int, s Signal) {
	w.Wait()
	w.k.NocAsyncRead(w.edm.Addr(uint64(w.buffer)), dst, n)
	w.k.NocAsyncReadBarrier()
	w.Signal(s)
}

// Pages are pages of equal size that lie one after the other in memory of the chip.
type Pages struct {
	At   wire.NocAddr // first page
	Size int          // bytes of a page
}

// Fetch reads n pages, from page i on, to address dst of the kernel's tile. Fetch uses a NoC
// command for each page, and waits for all pages.
func (p Pages) Fetch(k *kernel.Context, i, n int, dst uint32) {
	for j := range n {
		k.NocAsyncRead(p.At.Add((i+j)*p.Size), dst+uint32(j*p.Size), p.Size)
	}
	k.NocAsyncReadBarrier()
}

// Store writes n pages from address src of the kernel's tile to page i and the pages behind it. The bytes at
// src must not change until NocAsyncWritesFlushed has returned.
func (p Pages) Store(k *kernel.Context, i, n int, src uint32) {
	for j := range n {
		k.NocAsyncWrite(src+uint32(j*p.Size), p.At.Add((i+j)*p.Size), p.Size)
	}
}

// Arguments of the two workers, behind those of [NewWorker].
const (
	argX        = NumWorkerArgs + iota // tile with the worker's pages
	argY                               //
	argPages                           // address of the worker's first page in that tile
	argCount                           // number of the worker's pages
	argSize                            // bytes of a page
	argPerChunk                        // largest number of the worker's pages in one message
	argMessages                        // messages of the worker
	argStage                           // address of the stage: space for two chunks in the worker's tile
	argEnds                            // 1: the worker ends the channel, after its last message
	numArgs
)

// chunks calls f for each message of a worker. The arguments of f are the first page, the number of
// pages, the address of the message in the stage, and the signal.
func chunks(k *kernel.Context, f func(i, n int, stage uint32, s Signal)) {
	count, per, messages := int(k.Uint32(argCount)), int(k.Uint32(argPerChunk)), int(k.Uint32(argMessages))
	for m := range messages {
		first := min(m*per, count)
		s := Next
		if m == messages-1 && k.Uint32(argEnds) == 1 {
			s = Last
		}
		f(first, min(per, count-first), k.Uint32(argStage)+uint32(m%2*per)*k.Uint32(argSize), s)
	}
}

// pagesOf returns the worker's pages.
func pagesOf(k *kernel.Context) Pages {
	t := kernel.Tile{X: uint8(k.Uint32(argX)), Y: uint8(k.Uint32(argY))}
	return Pages{t.Addr(uint64(k.Uint32(argPages))), int(k.Uint32(argSize))}
}

// sendWorker puts pages into packets, and gives the packets to a sender channel.
func sendWorker(k *kernel.Context) {
	w, p := NewWorker(k, 0), pagesOf(k)
	chunks(k, func(i, n int, stage uint32, s Signal) {
		p.Fetch(k, i, n, stage)
		w.SendChunk(stage, n*p.Size, s)
	})
	if k.Uint32(argMessages) == 0 && k.Uint32(argEnds) == 1 {
		w.Wait()
		w.Signal(Terminate)
	}
}

// receiveWorker takes packets from a receiver channel, and stores their pages.
func receiveWorker(k *kernel.Context) {
	w, p := NewWorker(k, 0), pagesOf(k)
	chunks(k, func(i, n int, stage uint32, s Signal) {
		w.ReceiveChunk(stage, n*p.Size, s)
		p.Store(k, i, n, stage)
		k.NocAsyncWritesFlushed()
	})
	if k.Uint32(argMessages) == 0 && k.Uint32(argEnds) == 1 {
		w.Signal(Terminate)
	}
}
