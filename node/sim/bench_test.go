package sim

import (
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"ttfabric/node/flow"
	"ttfabric/node/noc"
	"ttfabric/router"
	"ttfabric/ttlink"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// flood is a client that writes 64 bytes to random chips, again and again.
type flood struct {
	rng  *rand.Rand
	s    *Sim
	self int
	left int
	last flow.Request
	held bool
}

// Next returns the next request.
func (f *flood) Next(mono.Time) (flow.Request, bool) {
	if f.held {
		f.held = false
		return f.last, true
	}
	if f.left == 0 {
		return flow.Request{}, false
	}
	f.left--
	dst := f.rng.IntN(len(f.s.machines) - 1)
	if dst >= f.self {
		dst++
	}
	f.last = flow.Request{Dst: f.s.machines[dst].node, Payload: floodData[:],
		Command: wire.Command{Type: wire.NocUnicastWrite, Addr: wire.NewNocAddr(1, 1, uint64(f.self)*64)}}
	return f.last, true
}

var floodData [64]byte

// Undo keeps the request for the next call of Next.
func (f *flood) Undo() { f.held = true }

// Done does nothing, because the benchmark needs no results.
func (f *flood) Done(mono.Time, flow.Result) {}

// Performed does nothing, because the benchmark does not check data.
func (f *flood) Performed(mono.Time, wire.FabricNodeID, wire.Plane, bool, *wire.Command, *noc.Memory) {
}

// BenchmarkPacketHops measures how many packet hops the simulator simulates per second, on one core
// and without checkers. A packet hop is one packet over one cable.
func BenchmarkPacketHops(b *testing.B) {
	m := topology(b, "mesh:4x8")
	hops, spent, worked := uint64(0), time.Duration(0), time.Duration(0)
	for b.Loop() {
		s, err := newSim(Config{Topology: m, Seed: 1, bare: true})
		if err != nil {
			b.Fatal(err)
		}
		s.around = surroundings{profile: ttlink.ProfileLAN, slots: router.SlotFast, maxPayload: wire.PadTo(wire.MaxPacket), window: ttlink.DefaultWindow, lag: 20 * time.Microsecond}
		s.begin()
		s.runUntil(mono.Time(time.Second), func() bool { return false })
		begin, busy := time.Now(), processTime(b)
		for i, k := range s.machines {
			k.chip.SetClient(&flood{rng: rand.New(rand.NewPCG(1, uint64(i))), s: s, self: i, left: 2000})
			s.run(k)
		}
		if !s.runUntil(s.now.Add(SettleTime), s.atRest) {
			b.Fatal(s.unrest())
		}
		spent += time.Since(begin)
		worked += processTime(b) - busy
		for _, k := range s.machines {
			for _, p := range k.chip.Status().Ports {
				hops += p.Frames.PacketsReceived
			}
		}
	}
	b.ReportMetric(float64(hops)/spent.Seconds(), "hops/s")
	b.ReportMetric(float64(hops)/worked.Seconds(), "hops/cpu-s")
}

// processTime returns the processor time of this process so far, with garbage collection and the
// kernel's work. Other processes on the machine do not change the processor time, but they change
// the wall-clock time.
func processTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
