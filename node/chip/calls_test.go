package chip

import (
	"bytes"
	"testing"
	"time"

	"ttfabric/node/kernel"
	"ttfabric/wire"
)

// Addresses of callKernels. The two kernels run on the two ends of a cable of an n300.
const (
	callFrom = 0x20000 // 64 bytes that the sender sends
	callTo   = 0x21000
	callAck  = 0x1F000
	callSem  = 0x1F200
	callSeen = 0x1F300 // words in which the kernels note what they saw
)

// callKernels make each call of the data movement API that TestRules and the guide's ring do not make.
var callKernels = kernel.Table{
	"sender": func(k *kernel.Context) {
		note := func(i uint32, v bool) {
			if v {
				k.Store32(callSeen+4*i, 1)
			}
		}
		k.EthSetupHandshake(true)
		if k.Constant(0) != 77 || len(k.Args()) != 8 || k.Uint32(1) != 9 || k.Self() != (wire.FabricNodeID{Chip: 0}) {
			k.Fail("constant %d, arguments % x, chip %s", k.Constant(0), k.Args(), k.Self())
		}
		note(0, !k.EthTxqIsBusy(0) && !k.EthTxqIsBusy(1))
		for i := uint32(0); i < 64; i += 4 {
			k.Store32(callFrom+i, 0x1000+i)
		}
		// The bytes go to a Tensix tile, come back by a read, and then leave over the cable.
		tensix := k.NocAddr(1, 1, 0x3000)
		k.NocAsyncWrite(callFrom, tensix, 64)
		k.NocAsyncWritesFlushed()
		k.NocAsyncRead(tensix, callFrom+0x100, 64)
		k.NocAsyncReadBarrier()
		k.Copy(callFrom+0x200, callFrom+0x100, 64)
		k.NocSemaphoreInc(k.Tile().Addr(callSem), 2)
		k.EthNocAsyncBarrier()
		k.EthNocSemaphoreWait(callSem, 2)
		k.NocSemaphoreWaitMin(callSem, 1)
		k.NocSemaphoreSet(callSem, 0)
		k.NocSemaphoreWait(callSem, 0)

		k.EthSendBytesOverChannelPayloadOnly(callFrom+0x200, callTo, 64, 2)
		k.EthSendPayloadCompleteSignalOverChannel(2, 64)
		note(1, !k.EthIsReceiverChannelSendDone(2))
		note(2, !k.EthIsReceiverChannelSendAcked(2))
		k.EthWaitForReceiverChannelAck(2)
		note(3, k.EthIsReceiverChannelSendAcked(2))
		note(4, !k.EthIsReceiverChannelSendDone(2)) // the receiver waits before it is done
		k.EthClearSenderChannelAck(2)
		note(5, !k.EthIsReceiverChannelSendAcked(2))
		k.EthWaitForReceiverChannelDone(2)
		note(6, k.EthIsReceiverChannelSendDone(2))
		if err := k.FabricRead(wire.FabricNodeID{Chip: 1}, 0, k.NocAddr(1, 1, 0x3000), callTo, 64); err != nil {
			k.Fail("%v", err)
		}
		k.EthTeardown(2)
	},
	"receiver": func(k *kernel.Context) {
		k.EthSetupHandshake(false)
		for !k.EthBytesAreAvailableOnChannel(2) {
			k.RunRouting()
		}
		k.EthWaitForBytesOnChannel(64, 2)
		k.NocAsyncWrite(callTo, k.NocAddr(1, 1, 0x3000), 64)
		k.NocAsyncWriteBarrier()
		k.EthReceiverChannelAck(2, callAck)
		k.Sleep(20 * time.Millisecond)
		k.EthReceiverChannelDone(2)
	},
}

// TestEachCall makes the calls of the device's data movement API on the two ends of a cable. The
// test checks what each call does (CCL guide, "Ethernet Dataflow API"; tt-metal, dataflow_api.h).
func TestEachCall(t *testing.T) {
	m := named(t, "n300")
	w := fabricOf(t, m, func(c *Config) { c.Kernels = callKernels })
	t.Cleanup(func() {
		for _, c := range w.chips {
			c.Close(w.now)
		}
	})
	for i, p := range []wire.PortID{m.Cables[0].A, m.Cables[0].B} {
		tile, _ := kernel.EthernetTile(m.Arch, p.Channel)
		s := kernel.Start{Kernel: []string{"sender", "receiver"}[i], Tile: tile, Args: words(8, 9), Constants: []uint32{77}}
		if err := w.at[p.Node].StartJob(w.now, kernel.Job{ID: 1, Chips: m.Nodes(), Programs: []kernel.Program{{Kernels: []kernel.Start{s}}}}); err != nil {
			t.Fatal(err)
		}
	}
	w.run(time.Second)
	for i := range w.chips {
		if got := w.kernelEvents(i); got != "job 1 started\njob 1 ended: done\n" {
			t.Errorf("chip %d: events\n%s", i, got)
		}
	}
	at, _ := kernel.EthernetTile(m.Arch, m.Cables[0].A.Channel)
	if got := w.get(m.Cables[0].A.Node, at.Addr(callSeen), 28); !bytes.Equal(got, words(1, 1, 1, 1, 1, 1, 1)) {
		t.Errorf("the sender saw % x, want a 1 in each word", got)
	}
	want := words()
	for i := uint32(0); i < 64; i += 4 {
		want = append(want, words(0x1000+i)...)
	}
	if got := w.get(m.Cables[0].A.Node, at.Addr(callTo), 64); !bytes.Equal(got, want) {
		t.Errorf("% x came back from the other chip", got)
	}
}
