package admin

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"ttfabric/node"
	"ttfabric/node/admin/api"
	"ttfabric/node/archive"
	"ttfabric/node/chip"
	"ttfabric/node/fabric"
	"ttfabric/wire"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// collect returns a collector that archives the events of a chip in a folder.
func collect(t *testing.T, dir string, self wire.ChipID) *collector {
	t.Helper()
	n := wire.FabricNodeID{Chip: self}
	w, err := archive.Open(archive.Config{Dir: dir, Name: n.String()}, noon)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close(noon) })
	return &collector{self: n, w: w, log: slog.New(slog.DiscardHandler), tokens: collectBurst, at: noon}
}

// feed hands n events to the collector. The first event has the sequence number "first".
func (c *collector) feed(at time.Time, first, n uint64) {
	ch := make(chan node.Event, n)
	for i := range n {
		ch <- node.Event{Time: at, Seq: first + i, Life: 7, Chip: &chip.Event{Drop: wire.DropTTL, Count: first + i}}
	}
	for len(ch) > 0 {
		c.write(at, <-ch, ch)
	}
}

func past(t *testing.T, dir string, want func(wire.FabricNodeID) bool) (es []api.EventView) {
	t.Helper()
	s, err := fabric.History(dir, want, func(e api.EventView) { es = append(es, e) })
	if err != nil || s != (archive.Skipped{}) {
		t.Fatal(err, s)
	}
	return es
}

func everyone(wire.FabricNodeID) bool { return true }

// TestCollectIsBounded checks that the collector archives only a part of a flood of events. The
// next archived event must count the events that were left out.
func TestCollectIsBounded(t *testing.T) {
	dir := t.TempDir()
	c := collect(t, dir, 3)
	c.feed(noon, 1, 10000)
	c.feed(noon.Add(time.Second), 10001, 500)
	es := past(t, dir, everyone)
	if len(es) != collectBurst+500 {
		t.Fatalf("%d events of the flood are archived, want %d", len(es), collectBurst+500)
	}
	lost := uint64(0)
	for i, e := range es {
		lost += e.Lost
		if e.Seq != uint64(i+1)+lost || e.Chip != c.self || e.Life != "0000000000000007" {
			t.Fatalf("event %d is %+v", i, e)
		}
	}
	if lost != 10000-collectBurst {
		t.Errorf("%d events are counted as lost, want %d", lost, 10000-collectBurst)
	}
}

// TestHistory checks that History sorts the events of all chips by time, but keeps the order of the
// events of each chip.
func TestHistory(t *testing.T) {
	dir := t.TempDir()
	a, b := collect(t, dir, 0), collect(t, dir, 1)
	for i := range uint64(50) {
		at := noon.Add(time.Duration(i) * time.Second)
		a.feed(at, i+1, 1)
		b.feed(at.Add(500*time.Millisecond), i+1, 1)
	}
	b.feed(noon.Add(-time.Hour), 51, 1) // the chip's clock has been set back
	os.WriteFile(filepath.Join(dir, "other-000001-20260102T120000.jsonl"), []byte("{}\n"), 0o600)
	es := past(t, dir, everyone)
	if len(es) != 101 || es[100].Seq != 51 {
		t.Fatalf("%d events", len(es))
	}
	for i, e := range es[:100] {
		if e.Chip.Chip != wire.ChipID(i%2) || e.Seq != uint64(i/2+1) {
			t.Fatalf("event %d is %d of %s", i, e.Seq, e.Chip)
		}
	}
	if es := past(t, dir, func(n wire.FabricNodeID) bool { return n == b.self }); len(es) != 51 {
		t.Errorf("%d events of one chip, want 51", len(es))
	}
	if _, err := fabric.History(filepath.Join(dir, "none"), everyone, func(api.EventView) {}); !os.IsNotExist(err) {
		t.Errorf("history of a folder that does not exist: %v", err)
	}
}
