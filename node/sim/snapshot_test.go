package sim

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"ttfabric/node/flow"
	"ttfabric/node/scenario"
	"ttfabric/node/snapshot"
	"ttfabric/ttlink/fault"
	"ttfabric/wire"
)

// saturated starts a fabric with slow cables, lets each chip send requests to all other chips on all
// planes, and stops while channels are full. Frames take at most "frame" bytes of padded payload.
func saturated(t *testing.T, machine string, each, frame int, request func(src, dst, k int) flow.Request) *Driven {
	t.Helper()
	d, err := newDriven(Config{Topology: topology(t, machine), Seed: 7}, func(s *Sim) error {
		err := s.around.of(scenario.Fabric{})
		s.around.maxPayload = frame
		return err
	}, func(s *Sim) func() bool { return (&stage{s: s}).intact })
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range d.s.cables {
		for side := range c.way {
			d.s.set(c, side, fault.Options{Delay: cleanDelay, Rate: 1e9})
		}
	}
	chips, planes := d.s.machines, d.s.cfg.Topology.Planes()
	for k := range each {
		for src := range chips {
			for step := range len(chips) - 1 {
				dst := (src + step + 1) % len(chips)
				for pl := range planes {
					r := request(src, dst, (src*planes+pl)*each+k)
					r.Dst, r.Plane = chips[dst].node, wire.Plane(pl)
					if r.Many() {
						r.Dst = wire.FabricNodeID{}
					}
					d.Submit(src, r, func(flow.Result) {})
				}
			}
		}
	}
	for mid := d.s.report.Events; ; { // until channels are full
		if err := d.Run(d.Next()); err != nil {
			t.Fatal(err)
		}
		if f := d.s.report.Events - mid; f > 40*len(chips)*planes {
			return d
		}
	}
}

// writeAt returns a write of size bytes to a place of its own at the destination.
func writeAt(size int) func(src, dst, k int) flow.Request {
	return func(src, dst, k int) flow.Request {
		return flow.Request{Command: wire.Command{Type: wire.NocUnicastWrite, Addr: wire.NewNocAddr(1, 2, 0).Add(k * size)}, Payload: bytes.Repeat([]byte{byte(src*31 + k)}, size)}
	}
}

// requests returns the requests that a snapshot's sources hold open and the packets of requests in the
// snapshot, by destination and address.
func requests(t *testing.T, f *snapshot.File) (open map[snapshot.Hex64]bool, packets map[string][]snapshot.Hex64) {
	t.Helper()
	open, packets = map[snapshot.Hex64]bool{}, map[string][]snapshot.Hex64{}
	for _, k := range f.Chips {
		for _, w := range k.Flows {
			for _, r := range w.Requests {
				if !r.Settled {
					open[r.ID] = true
				}
			}
		}
	}
	f.Packets(func(_ *snapshot.Chip, p *snapshot.Packet) {
		if p.Type == "request" {
			b, err := p.Raw()
			if err != nil {
				t.Fatal(err)
			}
			q, err := wire.DecodePacket(b)
			if err != nil {
				t.Fatal(err)
			}
			at := fmt.Sprint(q.Dst, q.Command.Addr)
			packets[at] = append(packets[at], p.ID)
		}
	})
	return open, packets
}

// reread encodes and decodes a snapshot.
func reread(t *testing.T, f *snapshot.File) *snapshot.File {
	t.Helper()
	b, err := f.Encode()
	if err != nil {
		t.Fatal(err)
	}
	g, err := snapshot.Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestSnapshotDrains takes a snapshot of a saturated T3000, loads the snapshot, and lets the loaded
// fabric come to rest. Each packet of the snapshot must be performed once. Each request that a source
// held open must have a packet in the snapshot, or be performed already. The memory of the loaded
// chips must have the payloads.
func TestSnapshotDrains(t *testing.T) {
	const size = 1024
	for _, frame := range []int{4480, 480} {
		d := saturated(t, "t3000", 30, frame, writeAt(size))
		f := reread(t, d.Snapshot(true, false))
		open, packets := requests(t, f)
		full, flying := 0, 0
		for _, k := range f.Chips {
			for _, p := range k.Ports {
				for _, v := range p.VCs {
					flying += len(v.InFlight)
					for _, s := range v.Senders {
						if v.SenderSlots > 0 && len(s) == v.SenderSlots {
							full++
						}
					}
				}
			}
		}
		a := f.Account()
		if full == 0 || flying == 0 || len(a.Missing)+len(a.Strays)+len(a.Doubles) > 0 || a.UnderWay == 0 || a.Open != len(open) || a.Open != a.UnderWay+a.Settled {
			t.Fatalf("frames of %d bytes: %d full sender channels, %d packets in flight, %+v", frame, full, flying, a)
		}
		n := 0
		for at, ids := range packets {
			if n += len(ids); len(ids) != 1 || !open[ids[0]] {
				t.Errorf("the packets to %s are %v, and open: %v", at, ids, open[ids[0]])
			}
		}
		if n != a.UnderWay {
			t.Errorf("%d packets of requests, %+v", n, a)
		}
		l, loaded, err := Load(f, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(loaded.Anew) > 0 {
			t.Errorf("chips started anew: %v", loaded.Anew)
		}
		again := l.Snapshot(true, false)
		if ds := snapshot.Diff(f, reread(t, again)); len(ds) != 0 {
			t.Errorf("the snapshot of the loaded fabric differs: %+v", ds[:min(len(ds), 5)])
		}
		drain(t, l, f, packets, size)
	}
}

// drain lets a loaded fabric come to rest, and checks that each packet of a write is performed once,
// and that each open request ends as done.
func drain(t *testing.T, d *Driven, f *snapshot.File, packets map[string][]snapshot.Hex64, size int) {
	t.Helper()
	performed := map[string]int{}
	d.OnPerformed(func(c int, _ wire.FabricNodeID, cmd *wire.Command) {
		performed[fmt.Sprint(d.s.machines[c].node, cmd.Addr)]++
	})
	ended, fates := 0, map[flow.Fate]int{}
	d.OnResult(func(_ int, r flow.Result) {
		ended++
		fates[r.Fate]++
	})
	if ok, err := d.Drain(10 * time.Second); !ok || err != nil {
		t.Fatalf("the loaded fabric does not come to rest: %v", err)
	}
	for at := range packets {
		if performed[at] != 1 {
			t.Errorf("the write to %s was performed %d times", at, performed[at])
		}
	}
	if len(performed) != len(packets) {
		t.Errorf("%d addresses were written, but the snapshot has packets to %d", len(performed), len(packets))
	}
	a := f.Account()
	if want := a.Open - a.Probes; ended != want || fates[flow.FateDone] != want {
		t.Errorf("of %d open requests, %d ended: %v", want, ended, fates)
	}
	r := d.s.account()
	if n := r.Unexplained(); n != 0 {
		t.Errorf("%d packets are unexplained: %+v", n, unexplained(&r))
	}
	for _, m := range d.s.machines {
		if err := m.chip.CheckInvariants(); err != nil {
			t.Error(err)
		}
	}
	if !f.Payloads {
		return
	}
	f.Packets(func(_ *snapshot.Chip, p *snapshot.Packet) {
		if p.Type != "request" {
			return
		}
		b, _ := p.Raw()
		q, _ := wire.DecodePacket(b)
		got := make([]byte, len(q.Payload))
		if q.Command.Type == wire.NocUnicastWrite && q.Trunk == wire.TrunkNone {
			m := (&stage{s: d.s}).machine(q.Dst)
			m.chip.Memory().Read(q.Command.Addr, got)
			src := slices.IndexFunc(d.s.machines, func(m *machine) bool { return m.node == q.Src })
			k := int(q.Command.Addr.Offset()) / size
			if want := bytes.Repeat([]byte{byte(src*31 + k)}, len(got)); !bytes.Equal(got, want) {
				t.Errorf("%s at %s has %x, want %x", q.Dst, q.Command.Addr, got[:8], want[:8])
			}
		}
	})
}

// TestSnapshotOfAllKinds does what TestSnapshotDrains does, with all kinds of requests. The simulator must
// also restore the packets of multicasts, reads and their replies, probes and posted requests. Each request
// that is not posted must end as done.
func TestSnapshotOfAllKinds(t *testing.T) {
	parts := 0
	for _, machine := range []string{"t3000", "torus:3x3", "2xt3000", "mesh:3x3"} {
		kind := func(src, dst, k int) flow.Request {
			r := writeAt(256)(src, dst, k)
			switch k % 7 {
			case 0:
				r.Command, r.Payload = wire.Command{Type: wire.NocRead, Addr: r.Command.Addr, Size: 256}, nil
			case 1:
				r.Command, r.Payload = wire.Command{Type: wire.NocAtomicInc, Addr: wire.NewNocAddr(2, 2, 0), Value: 1}, nil
			case 2:
				r.Posted = true
			case 3:
				r = flow.Request{Probe: true, Flush: true}
			case 4:
				if machine != "2xt3000" {
					r.Members = wire.MembersOf(0, 1, 2, 3, 4, 5)
				}
			}
			return r
		}
		d := saturated(t, machine, 14, 480, kind)
		f := reread(t, d.Snapshot(true, false))
		a := f.Account()
		if a.UnderWay == 0 || len(a.Missing)+len(a.Strays)+len(a.Doubles) > 0 {
			t.Fatalf("%s: %+v", machine, a)
		}
		types := map[string]int{}
		f.Packets(func(_ *snapshot.Chip, p *snapshot.Packet) { types[p.Type]++ })
		if types["request"] == 0 || types["probe"] == 0 || types["reply"] == 0 || types["completion"] == 0 {
			t.Errorf("%s: the snapshot has the packets %v", machine, types)
		}
		l, _, err := Load(f, nil)
		if err != nil {
			t.Fatal(machine, err)
		}
		if ds := snapshot.Diff(f, reread(t, l.Snapshot(true, false))); len(ds) != 0 {
			t.Errorf("%s: the snapshot of the loaded fabric differs: %+v", machine, ds[:min(len(ds), 5)])
		}
		fates := map[flow.Fate]int{}
		l.OnResult(func(_ int, r flow.Result) { fates[r.Fate]++ })
		if ok, err := l.Drain(10 * time.Second); !ok || err != nil {
			t.Fatalf("%s: the loaded fabric does not come to rest: %v", machine, err)
		}
		posted := 0
		for _, k := range f.Chips {
			for _, w := range k.Flows {
				for _, r := range w.Requests {
					if r.Settled {
						continue
					} else if r.Posted {
						posted++
					}
				}
			}
		}
		if want := a.Open - posted - a.Probes; fates[flow.FateDone] != want || len(fates) != 1 {
			t.Errorf("%s: %d requests of programs were open, and ended as %v", machine, want, fates)
		}
		for _, m := range l.s.machines {
			if n := m.chip.Status().Counters.Duplicates; n != 0 {
				t.Errorf("%s: %d requests came to %s twice", machine, n, m.node)
			}
		}
		f.Packets(func(_ *snapshot.Chip, p *snapshot.Packet) {
			if p.Parts != 0 {
				parts++
			}
		})
		r := l.s.account()
		if n := r.Unexplained(); n != 0 {
			t.Errorf("%s: %d packets are unexplained: %+v", machine, n, unexplained(&r))
		}
	}
	if parts == 0 {
		t.Error("no snapshot has a multicast of which some copies have left")
	}
}

// TestSnapshotOfFaults cuts the cables between two chips, and later kills a chip. The test takes snapshots
// while the chips find out. Each snapshot must load, and each request must end.
func TestSnapshotOfFaults(t *testing.T) {
	d := saturated(t, "t3000", 14, 4480, writeAt(256))
	burst := func() {
		for src := range 8 {
			for dst := range 8 {
				if src != dst && d.Alive(src) {
					r := writeAt(256)(src, dst, 900+src)
					r.Dst = d.s.machines[dst].node
					for range 20 {
						d.Submit(src, r, func(flow.Result) {})
					}
				}
			}
		}
	}
	run := func(span time.Duration) {
		if err := d.Run(d.Now().Add(span)); err != nil {
			t.Fatal(err)
		}
	}
	states := map[string]bool{}
	for k, span := range []time.Duration{0, 30 * time.Millisecond, 200 * time.Millisecond, time.Second, 0, 30 * time.Millisecond, time.Second} {
		switch k {
		case 1:
			for i := range d.Cables() {
				if a, b := d.Joins(i); a+b == 11 && a*b == 30 {
					d.Cut(i, true)
				}
			}
		case 4:
			d.Kill(3)
		}
		run(span)
		burst()
		run(50 * time.Microsecond)
		f := reread(t, d.Snapshot(true, false))
		for _, c := range f.Cables {
			states[c.State] = true
		}
		a := f.Account()
		if len(a.Doubles)+len(a.Strays) > 0 || a.Open == 0 || k < 4 && len(a.Missing) > 0 {
			t.Fatalf("snapshot %d: %+v", k, a)
		}
		l, loaded, err := Load(f, nil)
		if err != nil {
			t.Fatalf("snapshot %d: %v", k, err)
		}
		if len(loaded.Anew) != len(f.NoAnswer) || len(f.NoAnswer) != k/4 {
			t.Errorf("snapshot %d: %v started anew, and %v have no state", k, loaded.Anew, f.NoAnswer)
		}
		ended := 0
		l.OnResult(func(int, flow.Result) { ended++ })
		if ok, err := l.Drain(5 * time.Minute); !ok || err != nil {
			t.Fatalf("snapshot %d: the loaded fabric does not come to rest: %v", k, err)
		}
		if want := a.Open - a.Probes; ended != want {
			t.Errorf("snapshot %d: %d of %d open requests ended", k, ended, want)
		}
	}
	for _, s := range []string{"up", "down", "one end"} {
		if !states[s] {
			t.Errorf("no snapshot has a cable that is %s", s)
		}
	}
}
