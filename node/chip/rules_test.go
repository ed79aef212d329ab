package chip

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"ttfabric/node/kernel"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// Each of the kernels below breaks a rule of the CCL guide in one way. The kernels run on the two
// ends of a cable of an n300. The buffer lies at the same address at both ends.
const (
	ruleBuffer = 0x20000
	ruleSize   = 64 << 10
	ruleAck    = 0x1F000
	ruleSeen   = 0x1F100 // word in which the receiver or sender notes what it saw
)

func fill(k *kernel.Context, v uint32) {
	b := make([]byte, ruleSize)
	for i := 0; i < len(b); i += 4 {
		b[i] = byte(v)
	}
	k.Store(ruleBuffer, b)
}

// count notes how many of the words at the start, in the middle and at the end of the buffer have the value.
func count(k *kernel.Context, v uint32) {
	n := uint32(0)
	for _, a := range []uint32{0, ruleSize / 2, ruleSize - 4} {
		if k.Load32(ruleBuffer+a) == v {
			n++
		}
	}
	k.Store32(ruleSeen, n)
}

// packetWord returns the address of the word of a packet: in front of the payload if argument 0 is 1, and
// otherwise behind the payload.
func packetWord(k *kernel.Context) uint32 {
	if k.Uint32(0) == 1 {
		return ruleBuffer
	}
	return ruleBuffer + ruleSize - 16
}

var ruleKernels = kernel.Table{
	"send": func(k *kernel.Context) {
		k.EthSetupHandshake(true)
		fill(k, 1)
		k.EthSendBytesOverChannel(ruleBuffer, ruleBuffer, ruleSize, 1)
		k.EthTeardown(1)
	},
	"receive": func(k *kernel.Context) {
		k.EthSetupHandshake(false)
		k.EthWaitForBytesAvailableOnChannel(1)
		count(k, 1)
		k.EthReceiverChannelAck(1, ruleAck)
		k.EthReceiverChannelDone(1)
	},
	// early overwrites the source before the acknowledgement.
	"early": func(k *kernel.Context) {
		k.EthSetupHandshake(true)
		fill(k, 1)
		k.EthSendBytesOverChannel(ruleBuffer, ruleBuffer, ruleSize, 1)
		fill(k, 2)
		k.EthTeardown(1)
	},
	// sync sends the channel's word before the payload.
	"sync": func(k *kernel.Context) {
		k.EthSetupHandshake(true)
		fill(k, 1)
		k.EthSendPayloadCompleteSignalOverChannel(1, ruleSize)
		k.EthSendBytesOverChannelPayloadOnly(ruleBuffer, ruleBuffer, ruleSize, 1)
		k.EthTeardown(1)
	},
	// packet sends the payload and its word as one packet. The word is the first or the last of the packet.
	"packet": func(k *kernel.Context) {
		k.EthSetupHandshake(true)
		fill(k, 1)
		k.Store32(packetWord(k), 77)
		k.EthSendPacket(0, ruleBuffer/16, ruleBuffer/16, ruleSize/16)
	},
	// unpack reads the payload as soon as the packet's word has come.
	"unpack": func(k *kernel.Context) {
		k.EthSetupHandshake(false)
		k.WaitWord(packetWord(k), kernel.Equal, 77)
		n := uint32(0)
		for _, a := range []uint32{16, ruleSize / 2, ruleSize - 32} {
			n += k.Load32(ruleBuffer + a)
		}
		k.Store32(ruleSeen, n)
	},
	// single acknowledges and completes from one word.
	"single": func(k *kernel.Context) {
		k.EthSetupHandshake(false)
		k.EthWaitForBytesAvailableOnChannel(1)
		k.EthReceiverChannelAck(1, kernel.EriscChannels+kernel.ChannelSize)
		k.EthReceiverChannelDone(1)
	},
	// acked counts the acknowledgements that the sender sees before the completion.
	"acked": func(k *kernel.Context) {
		k.EthSetupHandshake(true)
		fill(k, 1)
		k.EthSendBytesOverChannel(ruleBuffer, ruleBuffer, ruleSize, 1)
		if k.WaitWordFor(kernel.EriscChannels+kernel.ChannelSize+4, kernel.Differs, 0, 100*time.Millisecond) {
			k.Store32(ruleSeen, 1)
		}
		k.EthTeardown(1)
	},
	// flood sends its buffer on queue 1 until the job ends.
	"flood": func(k *kernel.Context) {
		k.EthSetupHandshake(true)
		for fill(k, 3); ; {
			k.EthSendPacket(1, ruleBuffer/16, ruleBuffer/16, ruleSize/16)
		}
	},
	// sink waits until the job ends.
	"sink": func(k *kernel.Context) {
		k.EthSetupHandshake(false)
		k.NocSemaphoreWait(ruleSeen, 7)
	},
	// idle waits until the job ends.
	"idle": func(k *kernel.Context) { k.NocSemaphoreWait(ruleSeen, 7) },
	// rude1 sends on queue 1 without a handshake.
	"rude1": func(k *kernel.Context) {
		fill(k, 3)
		k.EthSendPacket(1, ruleBuffer/16, ruleBuffer/16, ruleSize/16)
	},
	// queues sends words of its own buffer on both queues, in an order that the arguments choose.
	"queues": func(k *kernel.Context) {
		at, choice := k.Uint32(0)/16, k.Uint32(1)
		for i := range 64 {
			k.EthSendPacket(int(choice>>(i%32)&1), at, at, 512*(1+i%3))
			if choice>>(i%29)&3 == 0 {
				k.Sleep(20 * time.Microsecond)
			}
		}
	},
	// hasty sends two packets, and does not wait in between.
	"hasty": func(k *kernel.Context) {
		fill(k, 3)
		for range 2 {
			k.EthSendPacketUnsafe(0, ruleBuffer/16, ruleBuffer/16, ruleSize/16)
		}
	},
	// rude sends without a handshake.
	"rude": func(k *kernel.Context) {
		fill(k, 3)
		k.EthSendBytesOverChannel(ruleBuffer, ruleBuffer, ruleSize, 1)
	},
	// slow reads its buffer twice, and needs time in between.
	"slow": func(k *kernel.Context) {
		fill(k, 1)
		k.Sleep(50 * time.Millisecond)
		count(k, 1)
	},
	// leaves ends without waiting for the completion.
	"leaves": func(k *kernel.Context) {
		k.EthSetupHandshake(true)
		fill(k, 1)
		k.EthSendBytesOverChannel(ruleBuffer, ruleBuffer, ruleSize, 1)
	},
	// late completes long after the bytes came.
	"late": func(k *kernel.Context) {
		k.EthSetupHandshake(false)
		k.EthWaitForBytesAvailableOnChannel(1)
		k.Sleep(20 * time.Millisecond)
		k.EthReceiverChannelDone(1)
	},
	// next waits for the completion of bytes that it has not sent yet.
	"next": func(k *kernel.Context) {
		k.Store32(kernel.EriscChannels+kernel.ChannelSize, 77)
		if k.WaitWordFor(kernel.EriscChannels+kernel.ChannelSize, kernel.Equal, 0, 100*time.Millisecond) {
			k.Store32(ruleSeen, 1)
		}
		k.Store32(kernel.EriscChannels+kernel.ChannelSize, 0)
	},
}

// pairFabric returns an n300 whose chips run ruleKernels, and the channels of its first cable.
func pairFabric(t *testing.T) (w *fabric, tiles [2]kernel.Tile) {
	m, err := topo.Named("n300")
	if err != nil {
		t.Fatal(err)
	}
	w = fabricOf(t, m, func(c *Config) { c.Kernels = ruleKernels })
	t.Cleanup(func() {
		for _, c := range w.chips {
			c.Close(w.now)
		}
	})
	for i, p := range []wire.PortID{m.Cables[0].A, m.Cables[0].B} {
		tiles[i], _ = kernel.EthernetTile(m.Arch, p.Channel)
	}
	return w, tiles
}

// runRule starts a kernel on the ethernet tile of chip i, as a job of its own or as a part of one.
func (w *fabric) runRule(i int, id kernel.JobID, name string, tile kernel.Tile) {
	w.t.Helper()
	j := kernel.Job{ID: id, Queue1: true, Programs: []kernel.Program{{Kernels: []kernel.Start{{Kernel: name, Tile: tile}},
		Buffers: []kernel.Buffer{{Tile: tile, Addr: ruleBuffer, Size: ruleSize}}}}}
	if err := w.chips[i].StartJob(w.now, j); err != nil {
		w.t.Fatal(err)
	}
}

// loseOnce lets the cable lose each L1 write to addresses from "first" on once.
func (w *fabric) loseOnce(first uint32) {
	lost := map[wire.Seq]bool{}
	w.lose = func(_ wire.PortID, b []byte) bool {
		f, err := wire.DecodeFrame(b)
		if err != nil || f.Kind != wire.KindWrite || f.Dest < first || lost[f.TxSeq] {
			return false
		}
		lost[f.TxSeq] = true
		return true
	}
}

func (w *fabric) seen(i int, tile kernel.Tile) uint32 {
	b := w.get(w.chips[i].Node(), tile.Addr(ruleSeen), 4)
	return uint32(b[0])
}

// TestRules runs kernels that break one rule each. The effect must be the effect that the CCL guide
// describes, and the machine must name the kernel. The first case breaks no rule.
func TestRules(t *testing.T) {
	t.Run("no rule is broken", func(t *testing.T) {
		w, at := pairFabric(t)
		w.runRule(0, 1, "send", at[0])
		w.runRule(1, 1, "receive", at[1])
		w.run(100 * time.Millisecond)
		w.want(0, "job 1 started\njob 1 ended: done\n", "")
		w.want(1, "job 1 started\njob 1 ended: done\n", "")
		if n := w.seen(1, at[1]); n != 3 {
			t.Errorf("the receiver saw %d of 3 words", n)
		}
	})
	t.Run("source overwritten before the acknowledgement", func(t *testing.T) { // "Ethernet Transaction Command Queues"
		w, at := pairFabric(t)
		w.runRule(0, 1, "early", at[0])
		w.runRule(1, 1, "receive", at[1])
		w.run(100 * time.Millisecond)
		w.want(0, "", "kernel early@"+at[0].String()+": the source of an ethernet command was overwritten")
		if n := w.seen(1, at[1]); n == 3 {
			t.Errorf("the payload arrived whole")
		}
	})
	t.Run("word before the payload", func(t *testing.T) { // "End-to-End Flow Control"
		w, at := pairFabric(t)
		w.loseOnce(ruleBuffer)
		w.runRule(0, 1, "sync", at[0])
		w.runRule(1, 1, "receive", at[1])
		w.run(100 * time.Millisecond)
		w.want(0, "", "kernel sync@"+at[0].String()+": the payload was sent while the channel's word already says")
		if n := w.seen(1, at[1]); n == 3 {
			t.Errorf("the receiver saw the whole payload")
		}
	})
	t.Run("word in front of the payload in one packet", func(t *testing.T) { // "End-to-End Flow Control": "must be appended to the end"
		for _, front := range []uint32{0, 1} {
			w, at := pairFabric(t)
			w.loseOnce(ruleBuffer + 16) // all frames but the first
			for i, name := range []string{"packet", "unpack"} {
				j := kernel.Job{ID: 1, Programs: []kernel.Program{{Kernels: []kernel.Start{{Kernel: name, Tile: at[i], Args: words(front)}},
					Buffers: []kernel.Buffer{{Tile: at[i], Addr: ruleBuffer, Size: ruleSize}}}}}
				if err := w.chips[i].StartJob(w.now, j); err != nil {
					t.Fatal(err)
				}
			}
			w.run(100 * time.Millisecond)
			w.want(1, "job 1 started\njob 1 ended: done\n", "")
			if n := w.seen(1, at[1]); (n == 3) != (front == 0) {
				t.Errorf("word in front: %d; the receiver saw %d of 3 words of the payload", front, n)
			}
		}
	})
	t.Run("one source word for ack and done", func(t *testing.T) { // "End-to-End Flow Control"
		for _, receiver := range []string{"receive", "single"} {
			w, at := pairFabric(t)
			w.runRule(0, 1, "acked", at[0])
			w.runRule(1, 1, receiver, at[1])
			w.run(300 * time.Millisecond)
			if seen := w.seen(0, at[0]); (seen == 1) != (receiver == "receive") { // the guide: "double completion messages"
				t.Errorf("%s: the sender saw %d acknowledgements", receiver, seen)
			}
			if receiver == "single" {
				w.want(1, "", "kernel single@"+at[1].String()+": the source of an ethernet command was overwritten")
			} else {
				w.want(1, "job 1 started\njob 1 ended: done\n", "")
			}
		}
	})
	t.Run("no handshake", func(t *testing.T) { // "Asynchronous Program Start"
		w, at := pairFabric(t)
		w.runRule(1, 1, "slow", at[1])
		w.run(10 * time.Millisecond)
		w.runRule(0, 2, "rude", at[0])
		w.run(100 * time.Millisecond)
		w.want(1, "", "job 1: L1 of the job was written from outside of the job")
		if n := w.seen(1, at[1]); n == 3 {
			t.Errorf("the slow kernel's buffer is whole")
		}
	})
	t.Run("no teardown", func(t *testing.T) { // "Asynchronous Program Completion Problem"
		w, at := pairFabric(t)
		w.runRule(0, 1, "leaves", at[0])
		w.runRule(1, 1, "late", at[1])
		w.run(10 * time.Millisecond)
		w.want(0, "", "kernel leaves@"+at[0].String()+": the kernel ended while the receiver still has to complete")
		w.runRule(0, 2, "next", at[0])
		w.run(300 * time.Millisecond)
		w.want(0, "", "job 2: L1 of the job was written from outside of the job")
		if w.seen(0, at[0]) != 1 {
			t.Errorf("the next kernel did not take the late completion for its own")
		}
	})
}

// want checks the events of jobs of chip i: all of them, or one that contains a text.
func (w *fabric) want(i int, all, part string) {
	w.t.Helper()
	got := w.kernelEvents(i)
	if all != "" && got != all || !strings.Contains(got, part) {
		w.t.Errorf("chip %d: want %q in the events:\n%s", i, all+part, got)
	}
}

// TestOwnersOfQueue1 writes into L1 of another job on queue 1. The machine must report the write, as it does
// on queue 0.
func TestOwnersOfQueue1(t *testing.T) {
	w, at := pairFabric(t)
	w.runRule(1, 1, "slow", at[1])
	w.run(10 * time.Millisecond)
	w.runRule(0, 2, "rude1", at[0])
	w.run(100 * time.Millisecond)
	w.want(1, "", "job 1: L1 of the job was written from outside of the job")
	w.want(0, "job 2 started\njob 2 ended: done\n", "")
}

// TestOwnersOfBothQueues lets two jobs use both queues of one cable, each for L1 of its own. The
// chip at the other end must not take a write of one job for a write of the other job, although the
// cable loses frames.
func TestOwnersOfBothQueues(t *testing.T) {
	for seed := range uint32(8) {
		w, at := pairFabric(t)
		n := seed
		w.lose = func(wire.PortID, []byte) bool {
			n = n*1664525 + 1013904223
			return n>>16%10 == 0
		}
		for id := range uint32(2) {
			buffer := kernel.Buffer{Tile: at[0], Addr: ruleBuffer + id*ruleSize/2, Size: ruleSize / 2}
			start := kernel.Start{Kernel: "queues", Tile: at[0], Args: words(buffer.Addr, (seed+1)*0x9E3779B1>>id)}
			send := kernel.Job{ID: kernel.JobID(id + 1), Queue1: true, Programs: []kernel.Program{{Kernels: []kernel.Start{start}, Buffers: []kernel.Buffer{buffer}}}}
			buffer.Tile = at[1]
			take := kernel.Job{ID: kernel.JobID(id + 1), Programs: []kernel.Program{{Kernels: []kernel.Start{{Kernel: "idle", Tile: shiftTile}}, Buffers: []kernel.Buffer{buffer}}}}
			for i, j := range []kernel.Job{send, take} {
				if err := w.chips[i].StartJob(w.now, j); err != nil {
					t.Fatal(err)
				}
			}
		}
		w.run(2 * time.Second)
		if got := w.kernelEvents(0); strings.Count(got, " ended: done") != 2 || strings.Count(got, "\n") != 4 {
			t.Errorf("seed %d: events of the sender:\n%s", seed, got)
		}
		if got := w.kernelEvents(1); got != "job 1 started\njob 2 started\n" {
			t.Errorf("seed %d: events of the other end:\n%s", seed, got)
		}
	}
}

// TestL1Lingers stops a job while the other end of the cable still has to send writes of the job.
// The next job on the same L1 must not begin before these writes and the release of the first job
// have come.
func TestL1Lingers(t *testing.T) {
	t.Run("queue 0", func(t *testing.T) { testL1Lingers(t, "send", "receive") })
	t.Run("queue 1", func(t *testing.T) { testL1Lingers(t, "flood", "sink") })
}

func testL1Lingers(t *testing.T, sender, receiver string) {
	w, at := pairFabric(t)
	job := func(i int, id kernel.JobID, name string) kernel.Job {
		ports := [2]wire.Channel{w.m.Cables[0].A.Channel, w.m.Cables[0].B.Channel}
		return kernel.Job{ID: id, Queue1: true, Channels: ports[i : i+1], Programs: []kernel.Program{{Kernels: []kernel.Start{{Kernel: name, Tile: at[i]}},
			Buffers: []kernel.Buffer{{Tile: at[i], Addr: ruleBuffer, Size: ruleSize}}}}}
	}
	start := func(i int, j kernel.Job) {
		t.Helper()
		if err := w.chips[i].StartJob(w.now, j); err != nil {
			t.Fatal(err)
		}
	}
	lost := 0
	w.lose = func(_ wire.PortID, b []byte) bool { // the cable loses the payload
		f, err := wire.DecodeFrame(b)
		if err != nil || f.Kind != wire.KindWrite || f.Dest < ruleBuffer {
			return false
		}
		lost++
		return true
	}
	start(0, job(0, 1, sender))
	start(1, job(1, 1, receiver))
	w.run(20 * time.Millisecond)
	for _, c := range w.chips {
		if !c.EndJob(w.now, 1, kernel.End{Why: kernel.EndStopped, By: c.Node()}) {
			t.Fatal("job 1 ended before it was stopped")
		}
	}
	start(1, job(1, 2, "slow"))
	w.run(30 * time.Millisecond)
	if b := w.get(w.chips[1].Node(), at[1].Addr(ruleBuffer), 1); lost == 0 || b[0] != 0 {
		t.Errorf("%d frames were lost; the buffer of job 2 begins with %d although the writes of job 1 are still to come", lost, b[0])
	}
	release, seen := wire.Seq(0), false
	w.lose = func(to wire.PortID, b []byte) bool { // the cable loses the writes that come after the release
		f, err := wire.DecodeFrame(b)
		if err == nil && f.Kind == wire.KindMMIO && f.Dest == kernel.ReleaseOffset && to == w.m.Cables[0].B {
			release, seen = f.TxSeq, true
		}
		return err == nil && f.Kind == wire.KindWrite && seen && release.Before(f.TxSeq)
	}
	w.run(30 * time.Millisecond)
	w.lose = nil
	w.run(300 * time.Millisecond)
	w.want(1, "", "job 2 ended: done")
	if n := w.seen(1, at[1]); n != 3 {
		t.Errorf("job 2 saw %d of its 3 words", n)
	}
	if b := w.get(w.chips[1].Node(), at[1].Addr(ruleBuffer+ruleSize-4), 1); b[0] != 1 {
		t.Errorf("the buffer of job 2 ends with %d: a write of job 1 came after the release", b[0])
	}
	start(0, job(0, 3, "send"))
	start(1, job(1, 3, "receive"))
	w.run(100 * time.Millisecond)
	w.want(0, "", "job 3 ended: done")
	w.want(1, "job 3 started\njob 3 ended: done\n", "")
}

// TestReservedQueue sends on queue 1, which the CCL guide reserves. Only a job with Queue1 may do so.
func TestReservedQueue(t *testing.T) {
	for _, may := range []bool{false, true} {
		w, at := pairFabric(t)
		j := kernel.Job{ID: 1, Queue1: may, Programs: []kernel.Program{{Kernels: []kernel.Start{{Kernel: "rude1", Tile: at[0]}}}}}
		if err := w.chips[0].StartJob(w.now, j); err != nil {
			t.Fatal(err)
		}
		w.run(100 * time.Millisecond)
		want := "kernel rude1@" + at[0].String() + ": eth_send_packet on queue 1: the queue is reserved"
		if may {
			want = "job 1 ended: done"
		}
		w.want(0, "", want)
		if b := w.get(w.chips[1].Node(), at[1].Addr(ruleBuffer), 1); (b[0] == 3) != may {
			t.Errorf("queue 1 allowed: %v; the other end has the byte %d", may, b[0])
		}
	}
}

// TestSendToABusyQueue sends two long packets. The call that waits for no queue ends the job.
func TestSendToABusyQueue(t *testing.T) {
	w, at := pairFabric(t)
	w.runRule(0, 1, "hasty", at[0])
	w.run(100 * time.Millisecond)
	w.want(0, "", "eth_send_packet_unsafe on queue 0 of tile "+at[0].String()+": the queue is busy")
	if b := w.get(w.chips[1].Node(), at[1].Addr(ruleBuffer), 1); b[0] != 3 {
		t.Errorf("the first packet did not come; the other end has the byte %d", b[0])
	}
}

// TestCloseStopsKernels closes chips while kernels wait. No goroutine of a kernel may be left.
func TestCloseStopsKernels(t *testing.T) {
	before := runtime.NumGoroutine()
	w, at := pairFabric(t)
	for i, c := range w.chips {
		w.runRule(i, 1, "idle", at[i])
		w.run(10 * time.Millisecond)
		if len(c.Jobs()) != 1 {
			t.Fatal("the job ended before its chip was closed")
		}
		c.Close(w.now)
	}
	if after := runtime.NumGoroutine(); after > before {
		t.Errorf("%d goroutines before the jobs, %d after the chips have closed", before, after)
	}
}
