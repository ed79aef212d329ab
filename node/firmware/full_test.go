package firmware

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"ttfabric/node/firmware/board"
	"ttfabric/wire"
)

// crowd is a host at each ethernet tile of each chip of a rig. Each host has its own kilobytes of each chip's
// tile, and knows what it stored there last.
type crowd struct {
	w      *rig
	r      *rand.Rand
	hosts  []*user
	at     map[wire.FabricNodeID]board.Coord
	wrote  []map[wire.FabricNodeID][]byte // by host
	asked  [][]want                       // by host: reads whose completions the host has not popped
	pushed int
	reads  int // of 8 requests, how many are reads, at least
}

// want is what a completion must bring.
type want struct {
	flags Flags
	bytes []byte
}

func crowdOf(w *rig, seed uint64) *crowd {
	c := &crowd{w: w, r: rand.New(rand.NewPCG(seed, 1)), at: board.Coords(w.m), reads: 4}
	for i := range w.chips {
		for ch := range wire.Channel(wire.MaxChannels) {
			c.hosts = append(c.hosts, w.user(i, ch))
		}
	}
	c.wrote, c.asked = make([]map[wire.FabricNodeID][]byte, len(c.hosts)), make([][]want, len(c.hosts))
	return c
}

// push makes host i push a request, unless its queue is full. As BDMS wants it, no host pushes a write of a
// block while it has reads of blocks; here, no host does so while it has any reads.
func (c *crowd) push(i int) bool {
	h := c.hosts[i]
	if h.full() {
		return false
	}
	to := c.w.m.Chips[c.r.IntN(len(c.w.m.Chips))].Node
	pos := c.at[to]
	base := uint64(i%16)*2048 + uint64(c.w.m.Index(h.u.self))<<15&0x7FFFF
	e := Entry{Target: NewTarget(pos.X, pos.Y, wire.NewNocAddr(1+uint8(i&1)*6, 1, base)), RackXY: uint16(pos.Rack) | uint16(pos.Shelf)<<8, Flags: Ordered}
	n, data := wire.RegisterLen, []byte(nil)
	if c.r.IntN(2) == 0 {
		n = 4 * (1 + c.r.IntN(BlockSize/4))
		e.Flags |= DataBlock
		e.Data = uint32(n)
	}
	if c.wrote[i] == nil {
		c.wrote[i] = map[wire.FabricNodeID][]byte{}
	}
	mem := c.wrote[i][to]
	if mem == nil {
		mem = make([]byte, BlockSize)
		c.wrote[i][to] = mem
	}
	if e.Flags |= RdReq; c.r.IntN(8) >= c.reads && len(c.asked[i]) == 0 {
		e.Flags ^= RdReq | WrReq
		for len(data) < n {
			data = binary.LittleEndian.AppendUint32(data, c.r.Uint32())
		}
		copy(mem, data)
		if e.Flags&DataBlock == 0 {
			e.Data = binary.LittleEndian.Uint32(data)
		}
	} else {
		c.asked[i] = append(c.asked[i], want{RdData | e.Flags&DataBlock, bytes.Clone(mem[:n])})
	}
	h.push(e, data)
	c.pushed++
	return true
}

// pop makes host i pop the completions that have ended, at most n.
func (c *crowd) pop(i, n int) (popped bool) {
	for range n {
		e, block, ok := c.hosts[i].pop()
		if !ok {
			return popped
		}
		x := c.asked[i][0]
		c.asked[i] = c.asked[i][1:]
		got := block
		if e.Flags&DataBlock == 0 {
			got = words(e.Data)
		}
		if e.Flags != x.flags || !bytes.Equal(got[:len(x.bytes)], x.bytes) {
			c.w.t.Fatalf("host E%d of %s: flags %#x, want %#x, or wrong bytes", c.hosts[i].ch, c.hosts[i].u.self, uint32(e.Flags), uint32(x.flags))
		}
		popped = true
	}
	return popped
}

// TestFullQueues has a host at each tile of each chip of a ring of hops. First no host pops a completion:
// everything that the firmware has accepted must end, and its internal buffers must be empty. Then the hosts
// pop. Time stands still, so no timeout can resolve a deadlock.
func TestFullQueues(t *testing.T) {
	t.Parallel()
	var full [numClasses]int
	for seed, name := range []string{"ring:7", "torus:4x4", "ring:3", "t3000", "torus:3x3"} {
		w := newRig(t, named(t, name), uint64(seed+1))
		c := crowdOf(w, uint64(seed))
		for more := true; more; { // until all queues are full
			more = false
			for i := range c.hosts {
				for c.push(i) {
					more = true
				}
			}
			if more {
				w.settle()
			}
		}
		for _, h := range c.hosts {
			if q := h.queue(); q.Open != 0 || q.In != [2]int{} || q.Out != [2]int{} || q.CQ.WrIdx-q.CQ.RdIdx&7 != QueueLen && !h.full() {
				t.Fatalf("%s: %+v", name, q)
			}
		}
		for k, n := range w.full {
			full[k] += n
		}
		for turn := 0; turn < 24; turn++ {
			for i := range c.hosts {
				c.pop(i, 1+c.r.IntN(4))
				if turn < 18 {
					c.push(i)
				}
			}
			if turn%3 > 0 {
				w.settle()
			}
		}
		for i := range c.hosts {
			w.settle()
			if c.pop(i, 2*QueueLen); len(c.asked[i]) > 0 {
				c.drain(i)
			}
		}
		w.quiet()
		if t.Failed() {
			t.Fatal(name)
		}
		t.Logf("%s: %d requests; all buffers of a tile were full %d times", name, c.pushed, w.full)
	}
	if full[requests] == 0 || full[responses] == 0 {
		t.Errorf("the buffers were never full: %v", full)
	}
}

// drain pops all completions of host i.
func (c *crowd) drain(i int) {
	for range 4 * QueueLen {
		if len(c.asked[i]) == 0 {
			return
		}
		c.w.settle()
		c.pop(i, QueueLen)
	}
	c.w.t.Fatalf("host E%d of %s waits for %d completions", c.hosts[i].ch, c.hosts[i].u.self, len(c.asked[i]))
}
