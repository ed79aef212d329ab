package record_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"ttfabric/node/chip"
	"ttfabric/node/chip/record"
	"ttfabric/node/flow"
	"ttfabric/node/sim"
	"ttfabric/router/topo"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// life is the recording of one incarnation of a chip in a simulation.
type life struct {
	file bytes.Buffer
	w    *record.Writer
	r    *record.Recorder
}

// simulate runs the simulation of a seed, and records every incarnation of every chip.
func simulate(t testing.TB, name string, seed uint64) (lives []*life) {
	t.Helper()
	return simulateHosts(t, name, seed, 0)
}

// simulateHosts does what simulate does, with hosts at each chip. The hosts use the queues of the base
// firmware.
func simulateHosts(t testing.TB, name string, seed uint64, hosts int) (lives []*life) {
	t.Helper()
	m, err := topo.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	_, err = sim.Run(sim.Config{Topology: m, Seed: seed, Quick: true, Hosts: hosts, Record: func(now mono.Time, cfg chip.Config) func(chip.Inputs) chip.Inputs {
		l := &life{}
		var err error
		if l.w, err = record.NewWriter(&l.file, record.Header{Started: now, Config: cfg}, 1<<30); err != nil {
			t.Fatal(err)
		}
		l.r = record.NewRecorder(now, func(b []byte) ([]byte, error) { return b[:0], l.w.Block(b) })
		lives = append(lives, l)
		return l.r.Wrap
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lives {
		if l.r.End(); l.r.Err() != record.ErrEnded {
			t.Fatal(l.r.Err())
		}
		if err := l.w.End(record.EndClosed, ""); err != nil {
			t.Fatal(err)
		}
	}
	return lives
}

func replay(b []byte) (record.Summary, error) {
	r, err := record.NewReader(bytes.NewReader(b))
	if err != nil {
		return record.Summary{}, err
	}
	return record.Replay(r, record.Options{})
}

func TestSimulatedLivesReplayIdentically(t *testing.T) {
	for _, c := range []struct {
		name  string
		seed  uint64
		hosts int
	}{{"t3000", 2, 0}, {"torus:3x3", 3, 0}, {"2xt3000", 4, 0}, {"mesh:2x2", 5, 0}, {"ring:4", 6, 0}, {"ring:4", 7, 2}, {"n300", 8, 3}} {
		t.Run(fmt.Sprintf("%s-%d-%d", c.name, c.seed, c.hosts), func(t *testing.T) {
			calls, outputs, size := uint64(0), uint64(0), 0
			lives := simulateHosts(t, c.name, c.seed, c.hosts)
			for i, l := range lives {
				s, err := replay(l.file.Bytes())
				if err != nil {
					t.Fatalf("life %d: %v", i, err)
				}
				if s.End != record.EndClosed || s.Cut != nil {
					t.Errorf("life %d: its end is %v, its cut is %v; want closed and no cut", i, s.End, s.Cut)
				}
				calls, outputs, size = calls+s.Calls, outputs+s.Outputs, size+l.file.Len()
			}
			t.Logf("%d lives, %d calls, %d outputs, %d bytes", len(lives), calls, outputs, size)
			if calls < 1000 {
				t.Errorf("only %d calls were recorded", calls)
			}
		})
	}
}

// text renders a configuration, so that a test can compare two configurations.
func text(v any) string { return fmt.Sprintf("%+v", v) }

// ends is a stub of chip.Inputs whose PollResult returns the results of a list.
type ends struct {
	chip.Inputs
	list []flow.Result
}

// PollResult returns the next result of the list.
func (e *ends) PollResult() (flow.Result, bool) {
	r := e.list[0]
	e.list = e.list[1:]
	return r, true
}

// TestEveryEndComesBack records a result for each outcome and each doubt (reason why a fate is
// unknown). The test then reads the results back.
func TestEveryEndComesBack(t *testing.T) {
	m, err := topo.Named("mesh:2x2")
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	w, err := record.NewWriter(&file, record.Header{Config: chip.Config{Node: m.Chips[0].Node, Topology: m}}, record.MinLimit)
	if err != nil {
		t.Fatal(err)
	}
	r := record.NewRecorder(0, func(b []byte) ([]byte, error) { return b[:0], w.Block(b) })
	var want []flow.Result
	for o := range wire.NumOutcomes {
		want = append(want, flow.Result{Token: uint64(len(want)), Fate: flow.FateRefused, Outcome: o})
	}
	for d := range flow.NumDoubts {
		want = append(want, flow.Result{Token: uint64(len(want)), Fate: flow.FateUnknown, Doubt: d})
	}
	in := r.Wrap(&ends{list: want})
	for range want {
		in.PollResult()
	}
	r.End()
	if err := w.End(record.EndClosed, ""); err != nil {
		t.Fatal(err)
	}
	back, err := record.NewReader(&file)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range want {
		rec, err := back.Next()
		if err != nil {
			t.Fatalf("%+v: %v", x, err)
		}
		if got := rec.Result; got.Token != x.Token || got.Fate != x.Fate || got.Outcome != x.Outcome || got.Doubt != x.Doubt {
			t.Errorf("%+v comes back as %+v", x, got)
		}
	}
}

// A reader accepts versions 1 to 7 of the format, and refuses all other versions. The package comment
// describes how the records of the versions differ. TestHeads tests one difference: a recording keeps
// 152 bytes of a long frame in versions 1 and 2, and 176 bytes in later versions.
func TestOlderVersionsAreRead(t *testing.T) {
	m, err := topo.Named("mesh:2x2")
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	w, err := record.NewWriter(&file, record.Header{Config: chip.Config{Node: m.Chips[0].Node, Incarnation: 1, Topology: m, MaxPayload: 1024}}, record.MinLimit)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.End(record.EndStopped, ""); err != nil {
		t.Fatal(err)
	}
	const at = 8 // offset of the version, after the magic
	for v, taken := range map[byte]bool{0: false, 1: true, 2: true, 3: true, 4: true, 5: true, 6: true, 7: true, 8: false} {
		b := bytes.Clone(file.Bytes())
		b[at] = v
		s, err := replay(b)
		if taken && (err != nil || s.End != record.EndStopped) || !taken && (err == nil || !strings.Contains(err.Error(), fmt.Sprintf("version %d of the format", v))) {
			t.Errorf("version %d: %+v, %v", v, s, err)
		}
	}
}

// A recording keeps the field Other of requests and of performed commands.
func TestOtherWayComesBack(t *testing.T) {
	asked, came := 0, 0
	for _, l := range simulate(t, "ring:4", 6) {
		r, err := record.NewReader(bytes.NewReader(l.file.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		for {
			rec, err := r.Next()
			if err != nil {
				break
			}
			if rec.Request.Other {
				asked++
			}
			if rec.Kind == record.KindPerformed && rec.Other {
				came++
			}
		}
	}
	if asked == 0 || came == 0 {
		t.Errorf("the recordings have %d requests and %d performed commands with Other; want at least one of each", asked, came)
	}
}
