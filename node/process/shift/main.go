// Command shift is the example of the page about kernels.
package main

import (
	"context"
	"slices"

	"ttfabric/node/kernel"
	"ttfabric/node/process"
	"ttfabric/node/session"
	"ttfabric/node/session/mesh"
	"ttfabric/wire"
)

func main() { process.Main(program, kernel.Table{"shift": shift}) }

// program runs in the process of each chip. The program starts a kernel, and waits until the kernel has ended.
func program(ctx context.Context, s *session.Session) error {
	all, b := s.Topology().Nodes(), kernel.NewBuilder(s.Topology())
	i, n, tile := slices.Index(all, s.Self()), len(all), b.Tensix(0)
	b.CreateKernel("shift", tile, b.CreateBuffer(tile, 4), b.CreateGlobalSemaphore(tile), uint32(all[(i+1)%n].Chip), uint32(all[(i+n-1)%n].Chip))
	job, err := b.Job(1, s.Topology())
	if err == nil {
		err = s.Run(ctx, job)
	}
	return err
}

// shift runs on a tile of each chip. The kernel sends the chip's number to the right, and checks the number from the left.
func shift(k *kernel.Context) {
	data, count, right, left := k.Uint32(0), k.Uint32(1), wire.FabricNodeID{Chip: wire.ChipID(k.Uint32(2))}, k.Uint32(3)
	links, _ := mesh.Connect(k.Sender(), 0)
	err := mesh.UnicastFusedAtomicInc(links, []byte{byte(k.Self().Chip), 0, 0, 0}, k.Tile().Addr(uint64(data)), k.Tile().Addr(uint64(count)), 1, true, right)
	k.NocSemaphoreWaitMin(count, 1)
	if got := k.Load32(data); err != nil || got != left {
		k.Fail("got %d from chip %d: %v", got, left, err)
	}
	k.Print("got the number of chip %d", left)
}
