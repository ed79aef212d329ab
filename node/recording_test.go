package node_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"ttfabric/node"
	"ttfabric/node/chip"
	"ttfabric/node/chip/record"
	"ttfabric/node/session"
	"ttfabric/router/topo"
	"ttfabric/ttlink/fault"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// replayFile replays a recording. The test fails if the replayed outputs differ from the recording.
func replayFile(t *testing.T, b []byte) record.Summary {
	t.Helper()
	r, err := record.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	s, err := record.Replay(r, record.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// exchange makes all chips write to and read from all chips, at the same time.
func exchange(ctx context.Context, t *testing.T, ns []*node.Node) {
	var wg sync.WaitGroup
	for i, n := range ns {
		wg.Go(func() {
			s, at := session.New(n), wire.NewNocAddr(1, 1, uint64(i)*0x10000)
			data := bytes.Repeat([]byte{byte(i), 1, 2, 3, 5, 8, 13}, 3000)
			for to := range ns {
				got := make([]byte, len(data))
				if err := s.Write(ctx, chipID(to), at, data); err != nil {
					t.Error(err)
				} else if err := s.Read(ctx, chipID(to), at, got); err != nil || !bytes.Equal(got, data) {
					t.Errorf("chip %d to %d: read back: %v", i, to, err)
				}
			}
		})
	}
	wg.Wait()
}

func TestLiveChipsReplayIdentically(t *testing.T) {
	dir := t.TempDir()
	m, p, ns := fabricWith(t, "mesh:2x2", func(c *node.Config) { c.Record = &node.Recording{Dir: dir, Program: "test"} })
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	exchange(ctx, t, ns)
	lossy, seed := fault.Change{"loss": "5%", "reorder": "5%", "delay": "1ms"}, uint64(7)
	for _, n := range ns[:2] {
		for _, port := range m.Ports(n.Self()) {
			if err := n.SetImpairment(port.Local.Channel, lossy, &seed, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	exchange(ctx, t, ns)
	if err := ns[3].Close(); err != nil { // chip 3 starts again below
		t.Fatal(err)
	}
	cfg := config(m, p, chipID(3), 5000)
	cfg.Record = &node.Recording{Dir: dir}
	var err error
	if ns[3], err = node.Start(ctx, cfg); err != nil {
		t.Fatal(err)
	}
	if err := session.New(ns[0]).Ready(ctx); err != nil {
		t.Fatal(err)
	}
	exchange(ctx, t, ns)
	file, err := ns[1].EndRecording()
	if err != nil || file != filepath.Join(dir, node.RecordFile(chipID(1), 1001)) {
		t.Errorf("EndRecording: %q, %v", file, err)
	}
	if _, err := ns[1].EndRecording(); err != node.ErrNotRecorded {
		t.Errorf("EndRecording again: %v", err)
	}
	exchange(ctx, t, ns)
	for _, n := range ns {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	if len(files) != 5 {
		t.Fatalf("recordings: %v, want 5", files)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		s := replayFile(t, b)
		want := record.EndClosed
		if f == file {
			want = record.EndStopped
		}
		if s.Cut != nil || s.End != want || s.Frames < 20 {
			t.Errorf("%s: %+v", f, s)
		}
		t.Logf("%s: %d bytes, %d calls, %d outputs, %d frames", filepath.Base(f), len(b), s.Calls, s.Outputs, s.Frames)
	}
}

func TestRecordingStopsAtItsLimit(t *testing.T) {
	dir := t.TempDir()
	_, _, ns := fabricWith(t, "n300", func(c *node.Config) { c.Record = &node.Recording{Dir: dir, Limit: record.MinLimit} })
	events, stop := ns[0].Events()
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	seen := make(chan node.RecordEvent, 8)
	go func() {
		for e := range events {
			if e.Record != nil && e.Record.Ended {
				seen <- *e.Record
			}
		}
	}()
	data := make([]byte, 1<<20)
	for i := range data {
		data[i] = byte(i * i >> 7)
	}
	for {
		if err := session.New(ns[0]).Write(ctx, chipID(1), wire.NewNocAddr(1, 1, 0), data[:1<<19]); err != nil {
			t.Fatal(err)
		}
		select {
		case e := <-seen:
			fi, err := os.Stat(e.File)
			if err != nil || fi.Size() > record.MinLimit || fi.Size() != e.Bytes || e.Why != record.EndLimit.String() {
				t.Errorf("%+v; %v, %v", e, fi, err)
			}
			b, _ := os.ReadFile(e.File)
			if s := replayFile(t, b); s.End != record.EndLimit || s.Cut != nil {
				t.Errorf("replayed: %+v", s)
			}
			return
		default:
		}
	}
}

func TestRecordingOfAChipThatPanicsIsWhole(t *testing.T) {
	dir := t.TempDir()
	_, _, ns := fabricWith(t, "n300", func(c *node.Config) { c.Record = &node.Recording{Dir: dir} })
	writeTo(t, ns[0], chipID(1), 1<<20)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		ns[0].WithChip(func(now mono.Time, c *chip.Chip) {
			c.Tick(now)
			panic("on purpose")
		})
	}()
	b, err := os.ReadFile(filepath.Join(dir, node.RecordFile(chipID(0), 1000)))
	if err != nil {
		t.Fatal(err)
	}
	if s := replayFile(t, b); s.End != record.EndPanic || s.Cut != nil || s.Calls < 50 {
		t.Errorf("%+v", s)
	}
}

// TestRecordingThatCannotBeMade checks that a chip does not start if its recording cannot begin.
func TestRecordingThatCannotBeMade(t *testing.T) {
	m, err := topo.Named("n300")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, r := range []node.Recording{{Dir: filepath.Join(file, "below")}, {Dir: t.TempDir(), Limit: 1}} {
		cfg := config(m, newPool(), chipID(0), 1)
		cfg.Record = &r
		if n, err := node.Start(context.Background(), cfg); err == nil {
			n.Close()
			t.Errorf("%+v: no error", r)
		} else {
			t.Log(err)
		}
	}
}
