package ttlink

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"ttfabric/ttlink/fault"
	"ttfabric/wire"
)

// FuzzOperations runs random operations on two ends. Each operation is a byte and an argument byte.
// The harness compares each delivered packet with the sent packet, and checks the invariants after
// each step. In the end the cable is repaired, and all packets must arrive.
func FuzzOperations(f *testing.F) {
	f.Add(uint64(1), []byte{0, 0, 3, 40, 1, 20, 2, 9, 4, 200, 0, 30})
	f.Add(uint64(2), []byte{5, 0, 1, 90, 2, 3, 6, 1, 2, 60, 7, 0, 2, 80, 1, 44})
	f.Add(uint64(3), []byte{8, 77, 1, 200, 2, 200, 9, 0, 2, 20, 10, 1, 2, 255, 3, 7})
	f.Add(uint64(4), []byte{11, 0, 1, 30, 2, 90, 12, 0, 2, 90, 13, 200, 1, 9, 2, 200})
	f.Add(uint64(5), []byte{16, 0, 16, 1, 17, 0, 1, 90, 5, 0, 3, 20, 6, 0, 3, 20, 5, 1, 3, 20, 6, 1, 3, 20, 5, 0, 3, 20, 17, 2, 6, 0, 15, 0})
	f.Add(uint64(6), []byte{21, 40, 1, 30, 21, 71, 2, 3, 5, 0, 21, 90, 3, 20, 6, 0, 21, 9, 15, 0, 21, 140, 8, 1, 21, 141})
	f.Fuzz(func(t *testing.T, seed uint64, ops []byte) { operations(t, seed, ops) })
}

// TestOperations runs sequences of random operations on two ends, as FuzzOperations does.
func TestOperations(t *testing.T) {
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 2))
		ops := make([]byte, 2*(1+r.IntN(60)))
		for i := range ops {
			ops[i] = byte(r.Uint32())
		}
		operations(t, seed, ops)
	}
}

// operations performs each pair of bytes in ops as an operation and its argument. Then operations
// repairs the cable, and checks that all packets arrive.
func operations(t *testing.T, seed uint64, ops []byte) {
	const most = 200    // largest number of operations in ops; if ops has more, none is performed
	var l1 [l1Size]byte // of both ends; nobody stores into it, so each frame has the bytes of its address
	fill(l1[:], seed)
	w := newWorld(t, seed, fault.Options{Delay: lan}, func(_ int, c *Config) {
		c.Source = func(from uint32, b []byte) { copy(b, l1[from:]) }
	})
	var next [2][wire.NumQueues]uint32 // by end and queue: where the next frame of a command must go; 0: anywhere
	w.onWrite = func(i int, d *Delivery) {
		n := &next[i][d.VC]
		if d.Kind == wire.KindMMIO || *n == 0 && d.Addr%1024 != 0 || *n != 0 && d.Addr != *n || !bytes.Equal(d.Data, l1[d.Addr:][:len(d.Data)]) {
			w.fail("end %d: write of %d bytes to %#x on queue %d, want %#x", i, len(d.Data), d.Addr, d.VC, *n)
		}
		if *n = d.Addr + uint32(len(d.Data)); d.End {
			*n = 0
		}
	}
	w.onSession = func(i int) { next[i] = [wire.NumQueues]uint32{} }
	w.start()
	for len(ops) >= 2 && len(ops)/2 <= most {
		operate(w, ops[0], ops[1])
		ops = ops[2:]
	}
	w.onSend = nil
	w.heal()
	for i, e := range w.ends {
		if e.gone {
			w.restart(i)
		}
		e.link.SetPath(w.now, true)
		w.releaseHeld(i)
	}
	w.mustQuiet(5 * time.Minute)
	for i := range w.ends {
		if !w.acked(i) || w.ends[i].link.writes.wait {
			w.fail("end %d: commands are still open", i)
		}
	}
}

// operate performs one operation on one end. The lowest bit of arg is the number of the end.
func operate(w *world, op, arg byte) {
	i := int(arg & 1)
	e := w.ends[i]
	n := int(arg >> 1)
	switch op % 22 {
	case 0: // send a few packets
		e.toSend[n%wire.BasicVCs] += 1 + n%8
		w.service(i)
	case 1: // send many packets
		for v := range wire.BasicVCs {
			e.toSend[v] += n
		}
		w.service(i)
	case 2:
		w.run(time.Duration(n) * 100 * time.Microsecond)
	case 3:
		w.run(time.Duration(n) * 50 * time.Millisecond)
	case 4: // lose the next frames of the end
		left := n % 16
		w.onSend = func(from int, _ []byte) bool {
			if from == i && left > 0 {
				left--
				return true
			}
			return false
		}
	case 5:
		w.cable[i].Cut(true)
	case 6:
		w.cable[i].Cut(false)
	case 7: // change the faults of the cable
		o := fault.Options{Delay: time.Duration(n) * 10 * time.Microsecond, Loss: float64(n%4) * 0.1, Duplicate: float64(n%3) * 0.2, Reorder: float64(n%5) * 0.1, Corrupt: float64(n%2) * 0.1}
		if err := w.cable[i].Set(o); err != nil {
			w.fail("%v", err)
		}
	case 8:
		w.restart(i)
	case 9: // stop the end
		e.gone = true
	case 10:
		e.hold = true
	case 11:
		if !e.gone {
			w.releaseHeld(i)
		}
	case 12:
		e.link.SetPath(w.now, false)
		w.service(i)
	case 13:
		e.link.SetPath(w.now, true)
		w.service(i)
	case 14:
		if err := e.link.SetMaxPayload(w.now, MinPayload+n/2*wire.PadUnit); err != nil {
			w.fail("%v", err)
		}
	case 15:
		if !e.gone {
			e.link.Retrain(w.now)
			w.service(i)
		}
	case 16: // add or remove a fallback path
		e.link.SetAlternate(w.now, ByChannel(0), 0, n%2 == 0)
		w.service(i)
	case 17: // repair or cut the cable of the fallback path
		w.other = n%2 == 0
	case 18:
		e.link.Reroute(w.now, n%2 == 0)
		w.service(i)
	case 19:
		e.link.Assign(w.now, Path(n%3))
		w.service(i)
	case 20:
		e.link.Trust(w.now, ByChannel(0), n%2 == 0)
		w.service(i)
	case 21: // an L1 write
		if q := n % wire.NumQueues; !e.gone && !e.link.Busy(q) {
			e.link.SetMaxPacket(q, 16*n)
			e.link.StartWrite(q, uint32(1024*n), uint32(1024*n), 1+n*n/4)
			w.service(i)
		}
	}
}
