package sim

import (
	"encoding/binary"
	"regexp"
	"testing"

	"ttfabric/node/fifo"
	"ttfabric/node/kernel"
	"ttfabric/wire"
)

// socketKernels send and check a stream of bytes. The arguments are the FIFO's size, the page, the
// plane, the number of pages, and the chip of the other end. Three addresses follow: of this end's
// block, of the other end's block, and of a buffer of a page.
var socketKernels = kernel.Table{
	"socket-send": func(k *kernel.Context) {
		x, err := k.OpenSender(socketOf(k))
		must(k, err)
		page, pages, buffer := k.Uint32(1), k.Uint32(3), k.Uint32(7)
		b := make([]byte, page)
		for i := range pages {
			fillPage(b, k.Self().Chip, i)
			k.Store(buffer, b)
			if i%3 == 0 {
				must(k, x.Start(buffer, int(page)))
			} else {
				must(k, x.Send(buffer, int(page)))
			}
		}
		must(k, x.Close())
	},
	"socket-recv": func(k *kernel.Context) {
		x, err := k.OpenReceiver(socketOf(k))
		must(k, err)
		page, pages, buffer, from := int(k.Uint32(1)), k.Uint32(3), k.Uint32(7), wire.ChipID(k.Uint32(4))
		got, want := make([]byte, page), make([]byte, page)
		for i := uint32(0); ; i++ {
			at, n := buffer, 0
			if i%2 == 0 { // in place
				at, n, err = x.Wait(page)
			} else {
				n, err = x.Recv(buffer, page)
			}
			must(k, err)
			if n == 0 {
				if i != pages {
					k.Fail("%d of %d pages came", i, pages)
				}
				break
			}
			fillPage(want, from, i)
			if k.Load(at, got); string(got) != string(want) {
				k.Fail("page %d from chip %d differs", i, from)
			}
			if i%2 == 0 {
				must(k, x.Pop(n))
			}
		}
		must(k, x.Close())
		k.Store32(buffer, pages)
	},
}

// must ends the job with an error.
func must(k *kernel.Context, err error) {
	if err != nil {
		k.Fail("%v", err)
	}
}

// fillPage fills page i of the stream of a chip.
func fillPage(b []byte, from wire.ChipID, i uint32) {
	for j := range b {
		b[j] = byte(i) ^ byte(j*7) ^ byte(from)<<5
	}
	binary.LittleEndian.PutUint32(b, i)
}

func socketOf(k *kernel.Context) kernel.Socket {
	return kernel.Socket{Config: fifo.Config{Size: k.Uint32(0), Page: k.Uint32(1), Plane: wire.Plane(k.Uint32(2))},
		Peer: wire.FabricNodeID{Chip: wire.ChipID(k.Uint32(4))}, At: k.Uint32(5), PeerAt: k.Tile().Addr(uint64(k.Uint32(6)))}
}

// chipSockets are two sockets from each chip of a T3000 to two other chips, one on each plane.
func chipSockets(t *testing.T, seed uint64) *workload {
	t.Helper()
	const pages = 300
	var buffers [2]uint32
	top := topology(t, "t3000")
	w := &workload{kernels: socketKernels, parts: map[wire.FabricNodeID]kernel.Job{}, found: regexp.MustCompile("restarted|unreachable")}
	all := top.Nodes()
	page := []uint32{64, 4096, 6000}[seed%3]
	size := page * []uint32{1, 5, 16}[seed/3%3]
	for i, n := range all {
		b := kernel.NewBuilder(top)
		for plane := range uint32(2) {
			hop, tile := 1+2*int(plane), b.Tensix(int(plane))
			sender := b.CreateBuffer(tile, kernel.SenderBytes)
			receiver := b.CreateBuffer(tile, kernel.ReceiverBytes(fifo.Config{Size: size}))
			out, in := b.CreateBuffer(tile, page), b.CreateBuffer(tile, page)
			buffers[plane] = in
			to, from := uint32(all[(i+hop)%len(all)].Chip), uint32(all[(i+len(all)-hop)%len(all)].Chip)
			b.CreateKernel("socket-send", tile, size, page, plane, pages, to, sender, receiver, out)
			b.CreateKernel("socket-recv", tile, size, page, plane, pages, from, receiver, sender, in)
		}
		job, err := b.Job(1, top)
		if err != nil {
			t.Fatal(err)
		}
		w.parts[n] = job
	}
	w.result = func(m *machine) string {
		var words [8]byte
		for plane, at := range buffers {
			m.chip.Memory().Read(kernel.NewBuilder(top).Tensix(plane).Addr(uint64(at)), words[4*plane:][:4])
		}
		return string(words[:])
	}
	return w
}

// TestSocketsInTheSimulator runs sockets between kernels under seeded faults. The receiving kernels check each byte. A job
// ends as done, or for a true reason: a chip died or started anew. Loss, retrained links, fallbacks and new routes end no
// job.
func TestSocketsInTheSimulator(t *testing.T) { judgeJobs(t, 12, chipSockets) }
