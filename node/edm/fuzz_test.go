package edm

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"ttfabric/node/flow"
	"ttfabric/node/kernel"
	"ttfabric/node/noc"
	"ttfabric/router/topo"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// alone is the host of a chip whose cables carry nothing: every request is refused, and every queue takes
// commands that never arrive.
type alone struct{}

func (alone) Start(mono.Time, *flow.Request) flow.Admission { return flow.NoSuchChip }
func (alone) Busy(wire.Channel, int) bool                   { return false }
func (alone) MoveHost(uint64, uint64, []byte, int) bool     { return false }
func (alone) Send(mono.Time, kernel.JobID, wire.Channel, int, uint32, uint32, int) (int, bool) {
	return 0, true
}
func (alone) Released(wire.Channel, uint32) bool     { return true }
func (alone) Sending(wire.Channel, uint32, int) bool { return false }

// FuzzArguments starts the EDM and the workers with arbitrary arguments. The test answers the
// handshake at once. A kernel may end its job with a fault that names the argument, or wait. A
// kernel must not panic in any other way.
func FuzzArguments(f *testing.F) {
	m, err := topo.Named("n300")
	if err != nil {
		f.Fatal(err)
	}
	raw := func(ws []uint32) []byte { return words(ws...) }
	for _, c := range []Config{{Channels: 2, PageSize: 1024}, {Channels: 2, PageSize: 64, Sharing: RoundRobin, Termination: WorkerInitiated}} {
		b, err := NewBuilder(c)
		if err != nil {
			f.Fatal(err)
		}
		if _, err := b.AddSenderChannel(0x10000, 0, worker11, 64); err != nil {
			f.Fatal(err)
		}
		if _, err := b.AddReceiverChannel(0x10000, 0, worker11, 64); err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(0), raw(b.CompileArgs()), raw(b.RuntimeArgs()))
		f.Add(uint8(0), raw(b.CompileArgs()), raw(b.RuntimeArgs())[:40])
	}
	worker := append(WorkerArgs(kernel.Tile{X: 9, Y: 6}, Interface{Buffer: 0x18400, Semaphore: Semaphores}, 0, 0x10000), 1, 1, 0x20000, 7, 64, 2, 4, 0x30000, 1)
	f.Add(uint8(1), []byte{}, raw(worker))
	f.Add(uint8(2), []byte{}, raw(worker))
	f.Fuzz(func(t *testing.T, which uint8, constants, args []byte) {
		memory, err := noc.New(wire.Wormhole, 64<<20)
		if err != nil {
			t.Fatal(err)
		}
		self := m.Chips[0].Node
		k := kernel.New(kernel.Config{Self: self, Topology: m, Memory: memory, Host: alone{}, Table: Observed(func(Event) {})})
		s := kernel.Start{Kernel: []string{KernelName, SendWorkerName, ReceiveWorkerName}[which%3], Tile: kernel.Tile{X: 1, Y: 1}, Args: args}
		if which%3 == 0 {
			s.Tile, _ = kernel.EthernetTile(m.Arch, 8)
		}
		for c := range slices.Chunk(constants[:len(constants)/4*4], 4) {
			s.Constants = append(s.Constants, binary.LittleEndian.Uint32(c))
		}
		if len(args) > 4096 || k.Start(0, kernel.Job{ID: 1, Programs: []kernel.Program{{Kernels: []kernel.Start{s}}}}) != nil {
			return
		}
		now := mono.Time(0)
		for step := range 50 {
			k.Step()
			for i := 0; i < 100 && k.Run(now); i++ {
			}
			now = now.Add(time.Millisecond)
			if step == 5 { // answers the handshake
				memory.Execute(&wire.Command{Type: wire.NocUnicastWrite, Addr: s.Tile.Addr(kernel.EriscChannels)}, make([]byte, 4))
			}
			memory.Execute(&wire.Command{Type: wire.NocInlineWrite, Addr: kernel.Tile{X: 1, Y: 1}.Addr(0x10000), Value: 1}, nil)
		}
		k.Close(now)
		for e, ok := k.PollEvent(); ok; e, ok = k.PollEvent() {
			if e.End.Stack != "" || e.Kind == kernel.StopIgnored {
				t.Fatalf("%s\n%s", e.String(), e.End.Stack)
			}
		}
	})
}
