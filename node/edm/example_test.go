package edm_test

import (
	"fmt"
	"log"

	"ttfabric/node/edm"
	"ttfabric/node/kernel"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// A host builds the two ends of the link between the chips of an n300. A worker on chip 0 sends four messages of
// 4096 bytes to a worker on chip 1.
func ExampleLinks() {
	machine, err := topo.Named("n300")
	if err != nil {
		log.Fatal(err)
	}
	chips := machine.Nodes()
	line, err := edm.NewLine(machine, chips, 1)
	if err != nil {
		log.Fatal(err)
	}
	links := edm.NewLinks(machine)
	for i, chip := range chips {
		program := kernel.NewBuilder(machine)
		worker := program.Tensix(0)
		ready := program.CreateSemaphore(worker, 0)
		mover, err := edm.NewBuilder(edm.Config{Channels: 1, PageSize: 2048})
		if err != nil {
			log.Fatal(err)
		}
		add, port := mover.AddSenderChannel, line.Hops[0][0].From
		if i == 1 {
			add, port = mover.AddReceiverChannel, line.Hops[0][0].To
		}
		channel, err := add(ready, 4, []kernel.Tile{worker}, 4096)
		if err != nil {
			log.Fatal(err)
		}
		tile, _ := kernel.EthernetTile(machine.Arch, port.Channel)
		program.CreateKernel("my-worker", worker, edm.WorkerArgs(tile, channel, 0, ready)...)
		if err := links.Generate(program, mover, port); err != nil {
			log.Fatal(err)
		}
		fmt.Printf("chip %s: channel %d has its buffer at 0x%x and its semaphore at 0x%x\n", chip, channel.Channel, channel.Buffer, channel.Semaphore)
	}
	fmt.Println("mistakes:", links.Check())
	// Output:
	// chip M0D0: channel 0 has its buffer at 0x18350 and its semaphore at 0x18320
	// chip M0D1: channel 0 has its buffer at 0x18350 and its semaphore at 0x18320
	// mistakes: <nil>
}

// A worker sends pages as packets. The worker fetches as many pages as fit into a packet, and hands
// the packet to its channel.
func ExampleWorker() {
	const pages, pageSize, perPacket = 64, 2048, 2 // the host chose perPacket with PagesPerPacket
	_ = kernel.Table{"my-worker": func(k *kernel.Context) {
		w := edm.NewWorker(k, 0)
		source := edm.Pages{At: wire.NewNocAddr(0, 0, 0), Size: pageSize} // the chip's first DRAM tile
		for i := 0; i < pages; i += perPacket {
			source.Fetch(k, i, perPacket, kernel.TensixBase)
			w.SendChunk(kernel.TensixBase, perPacket*pageSize, edm.Next)
			k.NocAsyncWritesFlushed() // the next packet uses the same bytes
		}
	}}
}

// A stream sends pages along a path of chips, over EDMs with several channels.
func ExampleNewStream() {
	machine, err := topo.Named("t3000")
	if err != nil {
		log.Fatal(err)
	}
	line, err := edm.NewLine(machine, machine.Nodes()[:4], 1)
	if err != nil {
		log.Fatal(err)
	}
	s, err := edm.NewStream(machine, 1, line, edm.Settings{Channels: 2, Bidirectional: true, Workers: 1, Pages: 32, PageSize: 2048})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d chips, %d EDMs, %d flows of %d bytes\n", len(s.Parts), len(s.Links.Ports()), len(s.Flows), s.Flows[0].Size)
	// Output: 4 chips, 6 EDMs, 12 flows of 65536 bytes
}
