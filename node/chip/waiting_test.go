package chip

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"ttfabric/node/firmware"
	"ttfabric/node/flow"
	"ttfabric/node/kernel"
	"ttfabric/node/noc"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// hostAt returns the address of byte "off" of host memory, in the window of the PCIe tile.
func hostAt(off uint64) wire.NocAddr { return wire.NewNocAddr(0, 3, noc.HostBase+off) }

// ask makes chip i send a request to chip 0, and returns the request's number.
func (w *fabric) ask(i int, r flow.Request) uint64 {
	w.t.Helper()
	w.asked++
	r.Token, r.Dst = w.asked, w.chips[0].Node()
	if a := w.chips[i].HandleRequest(w.now, r); a != flow.Accepted {
		w.t.Fatalf("chip %d: %s", i, a)
	}
	return r.Token
}

// ended runs the fabric for time d, and returns the results of chip i by the numbers of the requests.
func (w *fabric) ended(i int, d time.Duration) map[uint64]flow.Result {
	w.t.Helper()
	w.run(d)
	all := map[uint64]flow.Result{}
	for r, ok := w.chips[i].PollResult(); ok; r, ok = w.chips[i].PollResult() {
		all[r.Token] = r
	}
	for _, c := range w.chips {
		if err := c.CheckInvariants(); err != nil {
			w.t.Fatal(err)
		}
	}
	return all
}

func hostStore(off uint64, b ...byte) flow.Request {
	return flow.Request{Command: wire.Command{Type: wire.NocUnicastWrite, Addr: hostAt(off)}, Payload: b}
}

func hostLoad(off uint64, n int) flow.Request {
	return flow.Request{Command: wire.Command{Type: wire.NocRead, Addr: hostAt(off), Size: uint16(n)}}
}

// TestHostCommands sends commands for host memory from the other chip, and from the chip itself.
func TestHostCommands(t *testing.T) {
	w := n300(t, func(*Config) {})
	l := w.lend(w.chips[0], 1<<16)
	copy(l.b[100:], "on the host")
	const sem = 0x3000
	commands := map[string]struct {
		cmd     wire.Command
		payload string
		outcome wire.Outcome
		at      int    // address in host memory
		want    string // bytes there, or bytes that the read returns
	}{
		"write":                  {wire.Command{Addr: hostAt(200)}, "hello", 0, 200, "hello"},
		"write of nothing":       {wire.Command{Addr: hostAt(200)}, "", 0, 200, ""},
		"write by NoC 1":         {wire.Command{Addr: wire.NewNocAddr(9, 8, noc.HostBase+300) | wire.NocOne}, "one", 0, 300, "one"},
		"write at the end":       {wire.Command{Addr: hostAt(1<<16 - 3)}, "end", 0, 1<<16 - 3, "end"},
		"write behind the end":   {wire.Command{Addr: hostAt(1<<16 - 5)}, "behind", wire.OutcomeBadAddress, 1<<16 - 5, "\x00\x00"},
		"write far behind":       {wire.Command{Addr: hostAt(1<<32 - 1)}, "ab", wire.OutcomeBadAddress, 0, ""},
		"write below the window": {wire.Command{Addr: wire.NewNocAddr(0, 3, noc.HostBase-4)}, "abcd", wire.OutcomeBadAddress, 0, ""},
		"write to another tile":  {wire.Command{Addr: wire.NewNocAddr(0, 2, noc.HostBase)}, "abcd", wire.OutcomeBadAddress, 0, "\x00\x00\x00\x00"},
		"read":                   {wire.Command{Type: wire.NocRead, Addr: hostAt(100), Size: 11}, "", 0, 100, "on the host"},
		"read of nothing":        {wire.Command{Type: wire.NocRead, Addr: hostAt(100)}, "", 0, 100, ""},
		"read behind the end":    {wire.Command{Type: wire.NocRead, Addr: hostAt(1 << 16), Size: 1}, "", wire.OutcomeBadAddress, 0, ""},
		"write and increment":    {wire.Command{Type: wire.NocFusedInc, Addr: hostAt(400), Sem: wire.NewNocAddr(1, 1, sem), Value: 3}, "fused", 0, 400, "fused"},
		"increment in DRAM":      {wire.Command{Type: wire.NocFusedInc, Addr: hostAt(420), Sem: wire.NewNocAddr(0, 0, sem), Value: 3}, "fused", wire.OutcomeBadCommand, 420, "\x00\x00"},
		"increment on the host":  {wire.Command{Type: wire.NocFusedInc, Addr: hostAt(420), Sem: hostAt(440), Value: 3}, "fused", wire.OutcomeBadCommand, 420, "\x00\x00"},
		"only the increment":     {wire.Command{Type: wire.NocFusedInc, Addr: wire.NewNocAddr(1, 1, 0), Sem: hostAt(440), Value: 3}, "fused", wire.OutcomeBadCommand, 440, "\x00\x00"},
		"atomic":                 {wire.Command{Type: wire.NocAtomicInc, Addr: hostAt(500), Value: 1}, "", wire.OutcomeBadCommand, 500, "\x00\x00"},
		"inline write":           {wire.Command{Type: wire.NocInlineWrite, Addr: hostAt(500), Value: 1}, "", wire.OutcomeBadCommand, 500, "\x00\x00"},
		"scatter": {wire.Command{Type: wire.NocScatterWrite, Chunks: 3, Scatter: [4]wire.NocAddr{hostAt(602), hostAt(600), hostAt(604)}, Sizes: [4]uint16{2, 2}},
			"cdabef", 0, 600, "abcdef"},
		"scatter also to L1": {wire.Command{Type: wire.NocScatterWrite, Chunks: 2, Scatter: [4]wire.NocAddr{hostAt(700), wire.NewNocAddr(1, 1, 0)}, Sizes: [4]uint16{1}},
			"ab", wire.OutcomeBadCommand, 700, "\x00"},
	}
	for i := range w.chips {
		for name, c := range commands {
			size := uint32(len(c.want))
			clear(l.b[c.at:][:0])
			if c.outcome == 0 && c.cmd.Type != wire.NocRead {
				clear(l.b[c.at:][:size])
			}
			token := w.ask(i, flow.Request{Command: c.cmd, Payload: []byte(c.payload)})
			r, ok := w.ended(i, 20*time.Millisecond)[token]
			wantFate := flow.FateDone
			if c.outcome != 0 {
				wantFate = flow.FateRefused
			}
			got := string(l.b[c.at:][:size])
			if c.cmd.Type == wire.NocRead {
				got = string(r.Data)
			}
			if !ok || r.Fate != wantFate || r.Outcome != c.outcome || got != c.want {
				t.Errorf("chip %d, %s: ended %v, %s, %s; host memory has %q", i, name, ok, r.Fate, r.Outcome, got)
			}
		}
	}
	var b [4]byte
	if w.chips[0].memory.Read(wire.NewNocAddr(1, 1, sem), b[:]); binary.LittleEndian.Uint32(b[:]) != 3*2 {
		t.Errorf("the semaphore is % x", b)
	}
}

// TestNoHost checks the outcomes of requests before a host lends memory, and after the host has
// gone. The test also checks the outcomes of requests that wait when the host goes.
func TestNoHost(t *testing.T) {
	w := n300(t, func(*Config) {})
	is := func(when string, i int, token uint64, all map[uint64]flow.Result, fate flow.Fate, o wire.Outcome, d flow.Doubt) {
		t.Helper()
		if r, ok := all[token]; !ok || r.Fate != fate || r.Outcome != o || r.Doubt != d || r.Data != nil {
			t.Errorf("%s, chip %d: ended %v: %+v", when, i, ok, r)
		}
	}
	for i := range w.chips {
		token := w.ask(i, hostStore(0, 1))
		is("before", i, token, w.ended(i, 20*time.Millisecond), flow.FateRefused, wire.OutcomeNoHost, 0)
		token = w.ask(i, hostLoad(0, 4))
		is("before", i, token, w.ended(i, 20*time.Millisecond), flow.FateRefused, wire.OutcomeNoHost, 0)

		l := w.lend(w.chips[0], 1<<16)
		l.hold = true
		first, second := w.ask(i, hostStore(0, 1)), w.ask(i, hostLoad(0, 1))
		w.run(time.Second)
		w.chips[0].Lend(w.now, 0)
		all := w.ended(i, time.Second)
		is("gone", i, first, all, flow.FateUnknown, 0, flow.DoubtHost)
		is("gone", i, second, all, flow.FateRefused, wire.OutcomeNoHost, 0)
		l.release(w.now, w.chips[0]) // the host's late answer has no effect

		l = w.lend(w.chips[0], 1<<16)
		l.hold = true
		token = w.ask(i, hostStore(0, 1))
		if all := w.ended(i, noc.HostWait-time.Second); len(all) > 0 {
			t.Errorf("chip %d: a request ended too early: %+v", i, all)
		}
		is("late", i, token, w.ended(i, 2*time.Second), flow.FateUnknown, 0, flow.DoubtHost)
		l.release(w.now, w.chips[0])
		l.hold = false
		token = w.ask(i, hostStore(7, 9))
		is("again", i, token, w.ended(i, time.Second), flow.FateDone, 0, 0)
		if l.b[7] != 9 {
			t.Errorf("chip %d: the host has no new byte", i)
		}
		w.chips[0].Lend(w.now, 0)
		w.lent = nil
	}
}

// TestHostHolds checks which requests wait behind a request to host memory. Later requests of the
// same flow wait. Requests of other flows, and of the chip to its own L1, do not wait. The source
// must not give up the requests because of the flow's probes.
func TestHostHolds(t *testing.T) {
	w := newFabric(t, named(t, "t3000"))
	l := w.lend(w.chips[0], 1<<16)
	l.hold = true
	l1 := func(v byte) flow.Request {
		return flow.Request{Command: wire.Command{Type: wire.NocUnicastWrite, Addr: wire.NewNocAddr(1, 1, 0)}, Payload: []byte{v}}
	}
	other := l1(5)
	other.Command.Addr = wire.NewNocAddr(1, 1, 1)
	slow, behind := w.ask(1, hostStore(0, 1)), w.ask(1, l1(3))
	own, ownL1, foreign := w.ask(0, hostStore(1, 2)), w.ask(0, l1(4)), w.ask(2, other)
	all := w.ended(1, 5*time.Second)
	if len(all) != 0 {
		t.Errorf("requests of the flow that waits ended: %+v", all)
	}
	mine := w.ended(0, time.Millisecond)
	if r, ok := mine[ownL1]; !ok || r.Fate != flow.FateDone || len(mine) != 1 {
		t.Errorf("the chip's own requests: %+v, want only the end of %d", mine, ownL1)
	}
	if r, ok := w.ended(2, time.Millisecond)[foreign]; !ok || r.Fate != flow.FateDone {
		t.Errorf("a request of another flow: %+v", r)
	}
	var b [1]byte
	if w.chips[0].memory.Read(wire.NewNocAddr(1, 1, 0), b[:]); b[0] != 4 {
		t.Errorf("L1 has %d", b[0])
	}
	l.release(w.now, w.chips[0])
	l.hold = false
	all = w.ended(1, time.Second)
	if all[slow].Fate != flow.FateDone || all[behind].Fate != flow.FateDone || len(all) != 2 {
		t.Errorf("after the host's answer: %+v", all)
	}
	if r, ok := w.ended(0, time.Millisecond)[own]; !ok || r.Fate != flow.FateDone || l.b[0] != 1 || l.b[1] != 2 {
		t.Errorf("%+v, host memory % x", r, l.b[:2])
	}
	if w.chips[0].memory.Read(wire.NewNocAddr(1, 1, 0), b[:]); b[0] != 3 {
		t.Errorf("L1 has %d after the flow's write", b[0])
	}
}

// TestHostFull checks that packets beyond the limit of payload end as refused, and that all other
// packets end as done.
func TestHostFull(t *testing.T) {
	w := newFabric(t, named(t, "mesh:4x8"))
	l := w.lend(w.chips[0], 1<<16)
	l.hold = true
	open := 0
	for range 300 {
		for i := 1; i < len(w.chips); i++ {
			r := hostStore(0, make([]byte, wire.MaxPayload)...)
			w.asked++
			r.Token, r.Dst = w.asked, w.chips[0].Node()
			if w.chips[i].HandleRequest(w.now, r) == flow.Accepted {
				open++
			}
		}
		w.run(time.Millisecond)
	}
	if got := w.chips[0].waiting.bytes; got != MaxWaitingBytes {
		t.Fatalf("%d bytes wait after %d packets, want %d", got, open, MaxWaitingBytes)
	}
	for range 200 { // an own request finds no room either
		r := hostStore(0, 1)
		r.Dst = w.chips[0].Node()
		if a := w.chips[0].HandleRequest(w.now, r); a != flow.Busy {
			t.Fatalf("an own request: %s", a)
		}
	}
	l.hold = false
	l.release(w.now, w.chips[0])
	ends := map[wire.Outcome]int{}
	for range 100 {
		for i := range w.chips {
			for _, r := range w.ended(i, time.Millisecond) {
				if r.Fate != flow.FateDone && r.Fate != flow.FateRefused {
					t.Fatalf("%+v", r)
				}
				ends[r.Outcome]++
			}
		}
	}
	if ends[wire.OutcomeDone] < MaxWaitingBytes/wire.MaxPayload || ends[wire.OutcomeAgain] == 0 || ends[wire.OutcomeDone]+ends[wire.OutcomeAgain] != open {
		t.Errorf("%d packets ended as %v", open, ends)
	}
}

// TestHostOrder sends random reads and writes of host memory and L1 from all chips, over cables that lose
// frames. The host answers after random times. Each flow has a region of its own in host memory and in L1,
// and must read what its writes have left there.
func TestHostOrder(t *testing.T) {
	m, err := topo.Named("t3000")
	if err != nil {
		t.Fatal(err)
	}
	w := newFabric(t, m)
	r := rand.New(rand.NewPCG(5, 17))
	w.lose = func(wire.PortID, []byte) bool { return r.IntN(50) == 0 }
	l := w.lend(w.chips[0], 1<<16)
	l.hold = true
	const region = 256
	type wanted struct {
		flow int
		data []byte // nil: a write
	}
	open := map[uint64]wanted{}
	model := make([][2][region]byte, len(w.chips))
	done := 0
	for step := 0; step < 3000 || len(open) > 0; step++ {
		if step > 20000 {
			t.Fatalf("%d requests do not end", len(open))
		}
		if step < 3000 {
			i, k := r.IntN(len(w.chips)), r.IntN(2)
			off := r.IntN(region)
			n := 1 + r.IntN(region-off)
			at := hostAt(uint64(i*region + off))
			if k == 1 {
				at = wire.NewNocAddr(1, 1, uint64(i*region+off))
			}
			q := flow.Request{Token: uint64(step + 1), Dst: w.chips[0].Node(), Command: wire.Command{Type: wire.NocRead, Addr: at, Size: uint16(n)}}
			x := wanted{flow: i}
			if r.IntN(2) == 0 {
				q.Command, q.Payload = wire.Command{Addr: at}, randomBytes(r, n)
			} else {
				x.data = bytes.Clone(model[i][k][off:][:n])
			}
			if w.chips[i].HandleRequest(w.now, q) == flow.Accepted {
				copy(model[i][k][off:], q.Payload)
				open[q.Token] = x
			}
		}
		if r.IntN(3) == 0 {
			l.release(w.now, w.chips[0])
		}
		w.run(time.Millisecond)
		for i, c := range w.chips {
			if err := c.CheckInvariants(); err != nil {
				t.Fatal(err)
			}
			for x, ok := c.PollResult(); ok; x, ok = c.PollResult() {
				want := open[x.Token]
				if delete(open, x.Token); x.Fate != flow.FateDone || want.flow != i || want.data != nil && !bytes.Equal(x.Data, want.data) {
					t.Fatalf("request %d of chip %d: %s, %s, %s; data % x, want % x", x.Token, i, x.Fate, x.Outcome, x.Doubt, x.Data, want.data)
				}
				done++
			}
		}
	}
	if done < 2000 {
		t.Errorf("only %d requests ended", done)
	}
	for i := range model {
		if !bytes.Equal(l.b[i*region:][:region], model[i][0][:]) {
			t.Errorf("host memory of chip %d is wrong", i)
		}
	}
}

// TestKernelHostMemory runs a kernel that writes to host memory, reads host memory, and stores a flag after
// both. The flag must come last. Without a host, and if the host does not answer, the job ends.
func TestKernelHostMemory(t *testing.T) {
	const n = 10000
	kernels := kernel.Table{"host": func(k *kernel.Context) {
		k.NocAsyncRead(hostAt(64), 0x20000, n)
		k.NocAsyncReadBarrier()
		k.NocAsyncWrite(0x20000, hostAt(1<<15), n)
		k.NocInlineWrite(wire.NewNocAddr(2, 1, 0x1000), 1)
		k.NocAsyncWriteBarrier()
	}}
	m, err := topo.Named("n300")
	if err != nil {
		t.Fatal(err)
	}
	for _, seed := range []uint64{0, 1} {
		w := fabricOf(t, m, func(c *Config) { c.Kernels, c.KernelSeed = kernels, seed })
		run := func(id kernel.JobID, d time.Duration) string {
			if err := w.chips[0].StartJob(w.now, w.part(id, "host")); err != nil {
				t.Fatal(err)
			}
			w.run(d)
			return w.kernelEvents(0)
		}
		if got := run(1, time.Second); !strings.Contains(got, "noc_async_read, 0-3:0x800000040: no host memory") {
			t.Errorf("without a host: %s", got)
		}
		l := w.lend(w.chips[0], 1<<16)
		want := randomBytes(rand.New(rand.NewPCG(seed, 1)), n)
		copy(l.b[64:], want)
		if got := run(2, time.Second); !strings.Contains(got, "ended: done") || !bytes.Equal(l.b[1<<15:][:n], want) {
			t.Errorf("with a host: %s", got)
		}
		clear(l.b[1<<15:])
		flag := func() (b [4]byte) { w.chips[0].memory.Read(wire.NewNocAddr(2, 1, 0x1000), b[:]); return b }
		w.chips[0].memory.Execute(&wire.Command{Type: wire.NocInlineWrite, Addr: wire.NewNocAddr(2, 1, 0x1000)}, nil)
		l.hold = true
		if err := w.chips[0].StartJob(w.now, w.part(3, "host")); err != nil {
			t.Fatal(err)
		}
		for range 6 { // three transfers of up to 4096 bytes in each direction
			w.run(time.Second)
			if flag()[0] != 0 {
				t.Fatal("the flag came before the data")
			}
			l.release(w.now, w.chips[0])
		}
		w.run(time.Second)
		if got := w.kernelEvents(0); flag()[0] != 1 || !strings.Contains(got, "ended: done") || !bytes.Equal(l.b[1<<15:][:n], want) {
			t.Errorf("with a slow host: %s", got)
		}
		if got := run(4, noc.HostWait+time.Second); !strings.Contains(got, "noc_async_read, 0-3:0x800000040: host gone") {
			t.Errorf("with a host that does not answer: %s", got)
		}
		for _, c := range w.chips {
			c.Close(w.now)
		}
	}
}

// FuzzHostCommands lets another chip and the chip itself make any commands for host memory, while
// the host answers or goes. When the host has gone at last, each request must end soon. The chip's
// state must stay consistent.
func FuzzHostCommands(f *testing.F) {
	f.Add([]byte{0, 0, 1, 4, 9, 1, 2, 7, 0, 4, 3, 1, 3, 9, 200, 4, 2, 90, 0, 9}, uint32(1<<16))
	f.Add(bytes.Repeat([]byte{1, 4, 8, 3, 0}, 40), uint32(64))
	f.Fuzz(func(t *testing.T, script []byte, size uint32) {
		w := n300(t, func(*Config) {})
		l := w.lend(w.chips[0], int(size%(1<<20)))
		l.hold = true
		types := []wire.NocSendType{wire.NocUnicastWrite, wire.NocInlineWrite, wire.NocAtomicInc, wire.NocFusedInc, wire.NocScatterWrite, wire.NocRead}
		open := [2]map[uint64]bool{{}, {}}
		for ; len(script) >= 5; script = script[5:] {
			a, off := script[0], uint64(script[2])<<8|uint64(script[3])
			cmd := wire.Command{Type: types[int(a)%len(types)], Addr: hostAt(off << (a & 15)), Sem: wire.NewNocAddr(1, 1, off), Value: 1, Chunks: 2 + a%3}
			for k := range cmd.Scatter {
				cmd.Scatter[k], cmd.Sizes[k] = hostAt(off+uint64(k)*8), uint16(script[4]%16)
			}
			if script[1]&1 != 0 {
				cmd.Sem, cmd.Scatter[1] = cmd.Addr, wire.NewNocAddr(1, 1, off)
			}
			r := flow.Request{Command: cmd, Dst: w.chips[0].Node()}
			switch {
			case cmd.Type == wire.NocRead:
				r.Command.Size = uint16(off) % wire.MaxPayload
			case cmd.Type != wire.NocInlineWrite && cmd.Type != wire.NocAtomicInc:
				r.Payload = make([]byte, int(script[4])*16)
			}
			i := int(script[1] >> 1 & 1)
			w.asked++
			if r.Token = w.asked; w.chips[i].HandleRequest(w.now, r) == flow.Accepted {
				open[i][r.Token] = true
			}
			switch script[1] >> 2 % 8 {
			case 0:
				w.chips[0].Lend(w.now, uint64(size%(1<<20)))
				l.kept = nil
			case 1:
				l.kept = append(l.kept, firmware.Transfer{ID: uint64(script[4])})
				fallthrough
			case 2, 3:
				l.release(w.now, w.chips[0])
			}
			w.run(time.Millisecond)
		}
		w.chips[0].Lend(w.now, 0)
		end := w.now.Add(5 * time.Second)
		for i := 0; len(open[0])+len(open[1]) > 0; i = 1 - i {
			for k := range w.ended(i, 10*time.Millisecond) {
				delete(open[i], k)
			}
			if w.now.After(end) {
				t.Fatalf("%d and %d requests have not ended", len(open[0]), len(open[1]))
			}
		}
	})
}
