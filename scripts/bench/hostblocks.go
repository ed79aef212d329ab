package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"ttfabric/node/admin/attach"
	"ttfabric/node/fabric"
	"ttfabric/node/firmware"
	"ttfabric/node/noc"
	"ttfabric/node/session"
	"ttfabric/wire"
)

// Constants of the measurement "hostblocks".
const (
	hostBlock = 1 << 20                // bytes of one request
	hostSpan  = time.Second            // time of each figure
	hostTile  = wire.Channel(10)       // tile whose queues the host uses; the tile has no cable on an n300
	hostWait  = firmware.AnswerTimeout // a request that takes longer fails the run
)

// hostBlocks measures blocks of 1 MiB between host memory and the DRAM of a chip, through the
// queues of the base firmware. The chip is first the chip on PCIe, and then the chip behind one
// cable.
func (b *bench) hostBlocks(round int, r *rand.Rand) error {
	if b.ttfabric == "" {
		return errors.New("-only hostblocks needs the program ttfabric; scripts/bench/run builds the program")
	}
	return fabricOf(b.ttfabric, "n300", func(f *fabric.Fabric, _ time.Duration) error {
		at, ok := f.Where(f.Topology.Nodes()[0])
		if !ok || at.Socket == "" {
			return errors.New("the first chip has no socket")
		}
		h, err := attach.DialHost(context.Background(), at.Socket)
		if err != nil {
			return err
		}
		defer h.Close()
		mem, err := h.Memory()
		if err != nil {
			return err
		}
		c, err := attach.Dial(context.Background(), at.Socket, f.Topology)
		if err != nil {
			return err
		}
		defer c.Close()
		x, y, _ := noc.EthernetTile(f.Topology.Arch, hostTile)
		q := &hostQueue{s: session.New(c), self: f.Topology.Nodes()[0], x: x, y: y}
		for i := range hostBlock {
			mem[i] = byte(r.Uint32())
		}
		for _, chip := range r.Perm(2) {
			for _, read := range []bool{false, true} {
				if err := b.hostBlocksOf(q, chip, read, round); err != nil {
					return err
				}
			}
			if string(mem[:hostBlock]) != string(mem[hostBlock:2*hostBlock]) {
				return fmt.Errorf("chip %d: the bytes that came back differ", chip)
			}
		}
		return nil
	})
}

// hostBlocksOf measures the blocks of one chip in one direction.
func (b *bench) hostBlocksOf(q *hostQueue, chip int, read bool, round int) error {
	e := firmware.Entry{Target: firmware.NewTarget(uint8(chip), 0, wire.NewNocAddr(0, 0, 0)), Data: hostBlock, Flags: firmware.WrReq | firmware.DataBlock | firmware.DataBlockDRAM}
	what := "write"
	if read {
		e.Flags, e.HostAddr, what = e.Flags&^firmware.WrReq|firmware.RdReq, hostBlock, "read"
	}
	n, begin := 0, time.Now()
	for n == 0 || time.Since(begin) < hostSpan {
		if err := q.perform(e); err != nil {
			return err
		}
		n++
	}
	b.add(figure("base firmware: blocks of 1 MiB in host memory, "+what, []string{"own DRAM", "DRAM behind one cable"}[chip], "MB/s", round, float64(n)*hostBlock/1e6/time.Since(begin).Seconds()))
	return nil
}

// hostQueue is a host that uses the queues of a tile (BDMS, "Queues").
type hostQueue struct {
	s    *session.Session
	self wire.FabricNodeID
	x, y uint8
}

func (q *hostQueue) addr(off uint64) wire.NocAddr { return wire.NewNocAddr(q.x, q.y, off) }

// perform pushes a request into the empty queue, and waits for its end.
func (q *hostQueue) perform(e firmware.Entry) error {
	ctx, cancel := context.WithTimeout(context.Background(), hostWait)
	defer cancel()
	before, err := q.queue(ctx, firmware.SQ)
	if err != nil {
		return err
	}
	slot := uint64(before[firmware.WrIdx/4] % firmware.QueueLen)
	if err := q.s.Write(ctx, q.self, q.addr(firmware.SQ+firmware.Entries+slot*firmware.EntrySize), e.Append(nil)); err != nil {
		return err
	}
	if err := q.s.InlineWrite(ctx, q.self, q.addr(firmware.SQ+firmware.WrIdx), (before[firmware.WrIdx/4]+1)&7); err != nil {
		return err
	}
	counter := uint64(firmware.WrRespCounter)
	if e.Flags&firmware.RdReq != 0 {
		counter = firmware.RdRespCounter
	}
	if err := q.s.WaitWord(ctx, q.addr(firmware.SQ+counter), before[counter/4]+1); err != nil {
		return fmt.Errorf("a block of %d bytes does not end: %w", e.Data, err)
	}
	after, err := q.queue(ctx, firmware.SQ)
	if err != nil {
		return err
	}
	if after[firmware.ErrorCounter/4] != before[firmware.ErrorCounter/4] {
		return fmt.Errorf("the firmware counted an error for a block of %d bytes", e.Data)
	}
	if e.Flags&firmware.RdReq == 0 {
		return nil
	}
	cq, err := q.queue(ctx, firmware.CQ)
	if err != nil {
		return err
	}
	return q.s.InlineWrite(ctx, q.self, q.addr(firmware.CQ+firmware.RdIdx), cq[firmware.WrIdx/4])
}

// queue reads the counters and indices of a queue.
func (q *hostQueue) queue(ctx context.Context, at uint64) (w [firmware.Entries / 4]uint32, err error) {
	var b [firmware.Entries]byte
	err = q.s.Read(ctx, q.self, q.addr(at), b[:])
	for i := range w {
		w[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
	return w, err
}
