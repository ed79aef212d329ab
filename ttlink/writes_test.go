package ttlink

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"ttfabric/ttlink/fault"
	"ttfabric/wire"
)

// l1Size is the size of the L1 in these tests, in bytes.
const l1Size = 256 << 10

// registerWrite is an MMIO write that came.
type registerWrite struct{ queue, addr, value uint32 }

// tile is the L1 of one end, and the writes that came there.
type tile struct {
	l1        [l1Size]byte
	came      []string // "queue address length" of each frame of a write, in order
	registers []registerWrite
}

// writeWorld returns two ends that are up, and the tiles of the two ends.
func writeWorld(t testing.TB, seed uint64, o fault.Options, change func(i int, c *Config)) (*world, *[2]tile) {
	tiles := new([2]tile)
	w := newWorld(t, seed, o, func(i int, c *Config) {
		c.Source = func(from uint32, b []byte) { copy(b, tiles[i].l1[from:]) }
		if change != nil {
			change(i, c)
		}
	})
	w.onWrite = func(i int, d *Delivery) {
		x := &tiles[i]
		if d.Kind == wire.KindMMIO {
			x.registers = append(x.registers, registerWrite{uint32(d.VC), d.Addr, binary.LittleEndian.Uint32(d.Data)})
			return
		}
		x.came = append(x.came, fmt.Sprintf("%d %#x %d", d.VC, d.Addr, len(d.Data)))
		copy(x.l1[d.Addr:], d.Data)
	}
	w.start()
	if !w.until(30*time.Second, w.bothUp) {
		w.fail("not up")
	}
	return w, tiles
}

func fill(b []byte, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 9))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
}

// write starts an L1 write at end i, and runs the simulation until the queue takes it.
func (w *world) write(i, q int, from, to uint32, words int) {
	w.t.Helper()
	if !w.until(time.Minute, func() bool { return !w.ends[i].link.Busy(q) }) {
		w.fail("queue %d stays busy", q)
	}
	if !w.ends[i].link.StartWrite(q, from, to, words) {
		w.fail("queue %d takes no command", q)
	}
	w.service(i)
}

// acked reports whether the peer has acknowledged all commands of end i.
func (w *world) acked(i int) bool { return w.ends[i].link.writes.open == [wire.NumQueues]int{} }

// TestWriteIsCut checks the lengths of the frames of an L1 write. The default is 1472 bytes,
// because MAX_PKT_SIZE of 1500 bytes counts the header of 16 bytes. A frame is shorter if the path
// or MAX_PKT_SIZE has less room.
func TestWriteIsCut(t *testing.T) {
	for _, c := range []struct {
		path, most, n, payload int
		want                   []string
	}{
		{8160, DefaultMaxPacket, 3200, 1472, []string{"0 0x100 1472", "0 0x6c0 1472", "0 0xc80 256"}},
		{1408, DefaultMaxPacket, 2832, 1408, []string{"0 0x100 1408", "0 0x680 1408", "0 0xc00 16"}},
		{1408, 64, 112, 48, []string{"0 0x100 48", "0 0x130 48", "0 0x160 16"}},
		{96, DefaultMaxPacket, 16, 96, []string{"0 0x100 16"}},
		{8160, MaxMaxPacket, 8176, 8160, []string{"0 0x100 8160", "0 0x20e0 16"}},
		{8160, 0, 32, 16, []string{"0 0x100 16", "0 0x110 16"}},
		{8160, 1 << 30, 8160, 8160, []string{"0 0x100 8160"}},
	} {
		w, tiles := writeWorld(t, 1, fault.Options{Delay: lan}, func(_ int, cfg *Config) { cfg.MaxPayload = c.path })
		fill(tiles[0].l1[:], 3)
		w.ends[0].link.SetMaxPacket(0, c.most)
		w.write(0, 0, 0x2000, 0x100, c.n/wire.WriteUnit)
		w.run(time.Second)
		if fmt.Sprint(tiles[1].came) != fmt.Sprint(c.want) || !w.acked(0) {
			t.Errorf("path %d, MAX_PKT_SIZE %d: frames %v, want %v", c.path, c.most, tiles[1].came, c.want)
		}
		if !bytes.Equal(tiles[0].l1[0x2000:][:c.n], tiles[1].l1[0x100:][:c.n]) {
			t.Errorf("path %d, MAX_PKT_SIZE %d: other bytes arrived", c.path, c.most)
		}
		if n := w.ends[0].link.WritePayload(0); n != c.payload {
			t.Errorf("path %d, MAX_PKT_SIZE %d: WritePayload %d, want %d", c.path, c.most, n, c.payload)
		}
	}
}

// TestWritesUnderFaults sends writes and packets over a bad cable. The harness checks the packets.
// The writes of one queue must come in order and once, and L1 must be equal in the end.
func TestWritesUnderFaults(t *testing.T) {
	for seed := range uint64(40) {
		w, tiles := writeWorld(t, seed, fault.Options{Delay: lan, Loss: .05, Reorder: .05, Duplicate: .05, Corrupt: .02}, nil)
		fill(tiles[0].l1[:], seed)
		w.load(40)
		r := rand.New(rand.NewPCG(seed, 4))
		next := [2]uint32{0, l1Size / 2}
		for next[0] < l1Size/2 && next[1] < l1Size {
			q := r.IntN(2)
			words := min(1+r.IntN(1000), (l1Size/2*(q+1)-int(next[q]))/wire.WriteUnit)
			w.write(0, q, next[q], next[q], words)
			next[q] += uint32(words * wire.WriteUnit)
			if r.IntN(20) == 0 {
				w.ends[r.IntN(2)].link.Retrain(w.now)
			}
			if r.IntN(4) == 0 {
				w.write(0, q, 0, 0, 1) // its own place
			}
		}
		w.mustQuiet(5 * time.Minute)
		if !w.acked(0) {
			w.fail("commands are still open: %v", w.ends[0].link.writes.open)
		}
		for q := range 2 {
			from := uint32(l1Size / 2 * q)
			if !bytes.Equal(tiles[0].l1[from:next[q]], tiles[1].l1[from:next[q]]) {
				w.fail("L1 differs in the half of queue %d", q)
			}
		}
	}
}

// TestSourceIsReadAgain loses the frame of a write, and overwrites the source before the
// retransmission. The peer then gets the new bytes. After the acknowledgement, another store changes
// nothing.
func TestSourceIsReadAgain(t *testing.T) {
	w, tiles := writeWorld(t, 1, fault.Options{Delay: lan}, nil)
	a := w.ends[0].link
	lose := true
	w.onSend = func(from int, _ []byte) bool { return from == 0 && lose }
	copy(tiles[0].l1[64:], "the first value!")
	w.write(0, 1, 64, 128, 1)
	if q, in := a.SourceInUse(79, 1); q != 1 || !in {
		t.Error("the source is not in use")
	}
	for _, r := range [][2]int{{63, 1}, {80, 100}, {0, 64}} {
		if _, in := a.SourceInUse(uint32(r[0]), r[1]); in {
			t.Errorf("%d bytes at %d are in use", r[1], r[0])
		}
	}
	lose = false
	copy(tiles[0].l1[64:], "the second value")
	w.run(time.Second)
	if got := string(tiles[1].l1[128:144]); got != "the second value" {
		t.Errorf("%q arrived", got)
	}
	if _, in := a.SourceInUse(0, l1Size); in || !w.acked(0) {
		t.Error("the source is still in use")
	}
	copy(tiles[0].l1[64:], "the third value!")
	w.run(time.Second)
	if got := string(tiles[1].l1[128:144]); got != "the second value" {
		t.Errorf("%q after the acknowledgement", got)
	}
}

// TestCommandIsMetadata checks that a queued command holds no payload: while the link is down, a store
// into the source still changes what arrives.
func TestCommandIsMetadata(t *testing.T) {
	w, tiles := writeWorld(t, 1, fault.Options{Delay: lan}, nil)
	a := w.ends[0].link
	w.other = false
	a.SetPath(w.now, false)
	w.service(0)
	if !a.StartWrite(0, 0, 0, 1) || !a.Busy(0) || a.Busy(1) || a.StartWrite(0, 0, 0, 1) || a.StartRegister(0, 0, 0) {
		t.Fatal("a queue takes one command, and is then busy")
	}
	if _, in := a.SourceInUse(0, 1); !in {
		t.Error("the source of a queued command is not in use")
	}
	copy(tiles[0].l1[:], "changed later...")
	a.SetPath(w.now, true)
	w.service(0)
	w.run(time.Second)
	if got := string(tiles[1].l1[:16]); got != "changed later..." || a.Busy(0) {
		t.Errorf("%q arrived, busy %v", got, a.Busy(0))
	}
}

// TestNoOrderBetweenQueues starts a command on each queue at once, under many seeds. The command of
// queue 1 must come first sometimes, and sometimes last.
func TestNoOrderBetweenQueues(t *testing.T) {
	first := [2]int{}
	for seed := range uint64(40) {
		w, tiles := writeWorld(t, seed, fault.Options{Delay: lan}, nil)
		a := w.ends[0].link
		for q := range 2 {
			if !a.StartWrite(q, 0, uint32(16*q), 1) {
				t.Fatal("a queue is busy")
			}
		}
		w.service(0)
		w.run(time.Second)
		if len(tiles[1].came) != 2 {
			t.Fatalf("%v came", tiles[1].came)
		}
		first[int(tiles[1].came[0][0]-'0')]++
	}
	if first[0] < 8 || first[1] < 8 {
		t.Errorf("queue 0 was first %d times, queue 1 %d times", first[0], first[1])
	}
}

// TestRegisterWrites checks that MMIO writes come in order with their values, also under loss.
func TestRegisterWrites(t *testing.T) {
	w, tiles := writeWorld(t, 5, fault.Options{Delay: lan, Loss: .1}, nil)
	var want []registerWrite
	for k := range uint32(50) {
		w.until(time.Minute, func() bool { return !w.ends[1].link.Busy(0) })
		if !w.ends[1].link.StartRegister(0, 0xFFB90000+4*k, k*0x01010101) {
			t.Fatal("the queue is busy")
		}
		w.service(1)
		want = append(want, registerWrite{0, 0xFFB90000 + 4*k, k * 0x01010101})
	}
	w.run(10 * time.Second)
	if fmt.Sprint(tiles[0].registers) != fmt.Sprint(want) {
		t.Errorf("came %v", tiles[0].registers)
	}
}

// TestWritesNeedNoCredit checks that a write arrives while the receiver channels are full, and that
// packets that wait for credits do not wait for room.
func TestWritesNeedNoCredit(t *testing.T) {
	w, tiles := writeWorld(t, 1, fault.Options{Delay: lan}, nil)
	w.ends[1].hold = true
	w.load(40)
	w.run(time.Second)
	if w.ends[0].link.CanSend(wire.VCData, 1) {
		t.Fatal("the receiver channel is not full")
	}
	copy(tiles[0].l1[:], "no credit needed")
	w.write(0, 0, 0, 32, 1)
	w.run(time.Second)
	if got := string(tiles[1].l1[32:48]); got != "no credit needed" {
		t.Errorf("%q arrived", got)
	}
	w.releaseHeld(1)
	w.mustQuiet(time.Minute)
}

// TestWritesAndPacketsTakeTurns keeps both a queue and the packets busy on a slow cable. Each must get
// at least a quarter of the bytes.
func TestWritesAndPacketsTakeTurns(t *testing.T) {
	for _, window := range []int{MinWindow, DefaultWindow} {
		w, _ := writeWorld(t, 1, fault.Options{Delay: lan, Rate: 400 << 20}, func(_ int, c *Config) {
			c.Slots, c.Window = [wire.NumVCs]int{1000, 5, 3}, window
		})
		w.sparse = true
		a := w.ends[0].link
		w.ends[0].lag, w.ends[1].lag = 0, 0
		stop := w.now.Add(200 * time.Millisecond)
		for w.now.Before(stop) {
			w.ends[0].toSend[0] += max(0, 200-w.ends[0].toSend[0])
			for q := range 2 {
				if !a.Busy(q) {
					a.StartWrite(q, 0, 0, l1Size/wire.WriteUnit)
				}
			}
			w.service(0)
			w.run(100 * time.Microsecond)
		}
		b := w.ends[1].link.Counters()
		packets, writes := b.PayloadReceived, b.Writes[0].BytesTaken+b.Writes[1].BytesTaken
		if all := packets + writes; all == 0 || packets < all/4 || writes < all/4 {
			t.Errorf("window %d: %d bytes of packets, %d bytes of writes", window, packets, writes)
		}
	}
}

// TestEndedSessionCountsWrites restarts the peer while commands are under way. The event of the ended
// session counts them by queue, none of them comes later, and the queues take new commands.
func TestEndedSessionCountsWrites(t *testing.T) {
	w, tiles := writeWorld(t, 1, fault.Options{Delay: lan}, nil)
	a := w.ends[0]
	w.write(0, 0, 0, 0, 1)
	w.run(time.Second)
	w.cable[0].Cut(true)
	tiles[1].came = nil
	w.write(0, 0, 0, 0, 1)
	w.write(0, 0, 0, 0, 1)
	w.write(0, 1, 0, 0, l1Size/wire.WriteUnit) // more than the slab holds
	if !a.link.Busy(1) {
		t.Fatal("the long command is not busy")
	}
	w.restart(1)
	w.cable[0].Cut(false)
	w.run(10 * time.Second)
	ended := 0
	for _, e := range a.events {
		if e.Kind == EventSessionEnded {
			ended++
			if e.UnknownWrites != [3]int{2, 1} {
				t.Errorf("unknown fate of %v", e.UnknownWrites)
			}
		}
	}
	if c := a.link.Counters().Writes; ended != 1 || c[0].Unknown != 2 || c[1].Unknown != 1 || c[0].Acked != 1 || a.link.Busy(1) {
		t.Errorf("%d sessions ended; %+v", ended, c)
	}
	if len(tiles[1].came) > 0 {
		t.Errorf("the new incarnation took writes of the old session: %v", tiles[1].came)
	}
	w.write(0, 1, 0, 0, 1)
	if w.run(time.Second); len(tiles[1].came) != 1 {
		t.Errorf("after the restart came %v", tiles[1].came)
	}
}

// TestWritesByFallback cuts the own cable. The writes must arrive by the fallback cable.
func TestWritesByFallback(t *testing.T) {
	w, tiles := writeWorld(t, 1, fault.Options{Delay: lan}, nil)
	w.other = true
	for i, e := range w.ends {
		e.link.SetAlternate(w.now, ByChannel(0), 0, true)
		w.service(i)
	}
	w.run(time.Second)
	w.cable[0].Cut(true)
	w.cable[1].Cut(true)
	fill(tiles[0].l1[:], 1)
	w.write(0, 0, 0, 0, l1Size/wire.WriteUnit)
	if !w.until(time.Minute, func() bool { return w.acked(0) }) {
		w.fail("the write did not arrive")
	}
	if w.ends[0].link.Status().Path == Own || tiles[1].l1 != tiles[0].l1 {
		t.Error("the write came by another path, or L1 differs")
	}
}

// TestBadWrites checks that a link refuses frames of writes with bad fields, counts them, and still
// expects their number.
func TestBadWrites(t *testing.T) {
	for _, f := range []wire.Frame{
		{Kind: wire.KindWrite, VC: wire.NumQueues, Payload: make([]byte, 16)},
		{Kind: wire.KindWrite, Payload: make([]byte, 15)},
		{Kind: wire.KindWrite},
		{Kind: wire.KindWrite, Dest: 8, Payload: make([]byte, 16)},
		{Kind: wire.KindWrite, Flags: wire.FlagNACK, Payload: make([]byte, 16)},
		{Kind: wire.KindMMIO, Flags: wire.FlagEnd, Payload: make([]byte, 16)},
		{Kind: wire.KindMMIO, Payload: make([]byte, 4)},
		{Kind: wire.KindMMIO, Flags: wire.FlagEnd, Dest: 2, Payload: make([]byte, 4)},
		{Kind: wire.KindMMIO, Flags: wire.FlagEnd, VC: 9, Payload: make([]byte, 4)},
	} {
		w, _ := writeWorld(t, 1, fault.Options{Delay: lan}, nil)
		b := w.ends[1].link
		f.Channel, f.Session, f.TxSeq, f.RxSeq = b.cfg.Local.Channel, b.sess.id, b.rx.expected, b.tx.base
		want := b.rx.expected
		if _, ok := b.HandleDatagram(w.now, f.Append(nil)); ok || b.Counters().BadPieces != 1 || b.rx.expected != want {
			t.Errorf("%+v: taken, or not counted", f)
		}
	}
}

// TestWritesDoNotAllocate checks that L1 writes allocate no memory after the first ones.
func TestWritesDoNotAllocate(t *testing.T) {
	p := newPair(t, 128, 1408)
	p.a.cfg.Source = func(_ uint32, b []byte) { clear(b) }
	round := func() {
		for q := range 2 {
			p.a.StartWrite(q, 0, 0, 1024)
			p.a.StartRegister(q, 0, 7)
		}
		p.round(make([]byte, 0), 0)
	}
	round()
	if n := testing.AllocsPerRun(100, round); n != 0 {
		t.Errorf("%v allocations per round", n)
	}
	if c := p.a.Counters().Writes[0]; c.Acked < 50 {
		t.Errorf("%+v", c)
	}
}

// TestEarlyStores overwrites the sources of writes at random times, on a bad cable. Each word of 4 bytes
// holds the number of its last store. What arrives must be a number that the source had between the
// start of the command and its acknowledgement. A command whose source stays unchanged that long must
// arrive with exactly the numbers at its start.
func TestEarlyStores(t *testing.T) {
	corrupt, exact := 0, 0
	for seed := range uint64(30) {
		w, tiles := writeWorld(t, seed, fault.Options{Delay: lan, Loss: .1, Reorder: .05, Duplicate: .05}, nil)
		r := rand.New(rand.NewPCG(seed, 5))
		const words = 300 // more than one frame
		src := tiles[0].l1[0x1000:][:words*wire.WriteUnit]
		stores := uint32(0)
		store := func(n int) {
			for range n {
				stores++
				binary.LittleEndian.PutUint32(src[4*r.IntN(len(src)/4):], stores)
			}
		}
		for k := range 20 {
			store(500)
			before, first := bytes.Clone(src), stores
			to := uint32(0x10000)
			w.write(0, k%2, 0x1000, to, words)
			early := r.IntN(2) == 0
			for steps := 0; !w.acked(0); steps++ {
				if w.run(time.Duration(r.IntN(200)) * time.Microsecond); early {
					store(3)
				}
				if steps > 1_000_000 {
					w.fail("no acknowledgement")
				}
			}
			changed := false
			for i := 0; i < len(src); i += 4 {
				old, now := binary.LittleEndian.Uint32(before[i:]), binary.LittleEndian.Uint32(src[i:])
				got := binary.LittleEndian.Uint32(tiles[1].l1[to:][i:])
				if got != old && (got <= first || got > stores) || now == old && got != old {
					w.fail("word %d is %d; it was %d at the start of the command, and is %d now", i/4, got, old, now)
				}
				changed = changed || got != old
			}
			switch {
			case changed && !early:
				w.fail("a command with an unchanged source arrived changed")
			case changed:
				corrupt++
			default:
				exact++
			}
		}
	}
	if corrupt == 0 || exact == 0 {
		t.Errorf("%d commands arrived changed, %d unchanged: want both", corrupt, exact)
	}
}
