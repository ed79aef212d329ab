package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ttfabric/node/admin/api"
	"ttfabric/node/output"
	"ttfabric/wire"
)

// events returns the events that 'events' prints.
func (c *cli) events(args ...string) (es []api.EventView) {
	c.t.Helper()
	for line := range strings.Lines(c.must(append([]string{"events", "-o", "json"}, args...)...)) {
		var e api.EventView
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			c.t.Fatalf("%v: %q", err, line)
		}
		es = append(es, e)
	}
	return es
}

// TestEventsOfDeadChips kills a chip, and later takes the fabric down. In both cases
// 'events' must show each event of the chip exactly once.
func TestEventsOfDeadChips(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	kept := filepath.Join(t.TempDir(), "kept")
	c.must("up", "n300", "-d", patient, "--archive", kept, "--archive-limit", "1")
	follow := c.command("events", "-o", "json")
	out, err := os.Create(filepath.Join(t.TempDir(), "followed"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if follow.Stdout = out; follow.Start() != nil {
		t.Fatal("'events' does not start")
	}
	c.must("netem", "set", "M0D1:0", "--delay", "1ms")
	set := func(e api.EventView) bool { return e.Type == "fault" && e.Action == "set" }
	c.within(soon, "the event is archived", func() bool { return slices.ContainsFunc(c.events("--chip", "M0D1", "--since", "1h"), set) })
	c.must("chip", "kill", "M0D1")
	if dead := c.events("--chip", "M0D1", "--since", "1h"); !slices.ContainsFunc(dead, set) {
		t.Errorf("the last event of the dead chip is missing: %+v", dead)
	}
	if es := c.events("M0D1", "--last", "1", "--type", "link"); len(es) != 1 || es[0].Type != "link" {
		t.Errorf("the last event of its links: %+v", es)
	}
	if es := c.events("--type", "fault", "--follow=false"); len(es) != 3 || es[2].Action != "killed" || es[2].Chip != (wire.FabricNodeID{}) {
		t.Errorf("faults: %+v", es)
	}
	c.must("chip", "start", "M0D1")
	c.intact()
	c.fails(exitUsage, "events", "--since", "yesterday")
	c.fails(exitUsage, "events", "--chip", "M0D9")
	if _, errs, code := c.run("events", "--type", "link,job,links"); code != exitUsage || !strings.Contains(errs, `--type "links": want archive, chip, fault, host request, job, link, member,`) {
		t.Errorf("a type that does not exist: exit code %d, %s", code, errs)
	}
	c.fails(exitUsage, "up", "--archive", kept)
	c.fails(exitUsage, "up", "--name", "other", "--archive", "/dev/null")
	c.must("down")
	ended := make(chan error, 1)
	go func() { ended <- follow.Wait() }()
	select {
	case <-ended:
	case <-time.After(soon):
		follow.Process.Kill()
		t.Error("'events' goes on although the fabric is down")
	}

	all := c.events("--archive", filepath.Join(kept, "default"))
	checkOnce(t, all, true)
	b, _ := os.ReadFile(out.Name())
	var followed []api.EventView
	for line := range strings.Lines(string(b)) {
		var e api.EventView
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		followed = append(followed, e)
	}
	checkOnce(t, followed, false)
	if len(followed) != len(all) {
		t.Errorf("%d events were followed, %d are archived", len(followed), len(all))
	}
	if _, errs, code := c.run("events", "--archive", kept); code != exitFailed || !strings.Contains(errs, "default") {
		t.Errorf("the folder above: %d, %s", code, errs)
	}
}

// checkOnce checks that es holds the events of three incarnations. No event of an
// incarnation may be missing, doubled or out of order. If byTime is true, all events of
// es must be in the order of time.
func checkOnce(t *testing.T, es []api.EventView, byTime bool) {
	t.Helper()
	next := map[string]uint64{}
	for i, e := range es {
		if byTime && i > 0 && e.Time.Before(es[i-1].Time) {
			t.Errorf("event %d is older than the event before", i)
		}
		life := e.Chip.String() + e.Life
		if next[life]++; e.Seq != next[life] {
			t.Errorf("event %d of %s is followed by %d", next[life]-1, life, e.Seq)
			next[life] = e.Seq
		}
	}
	if len(next) != 3 {
		t.Errorf("events of %d incarnations, want 3", len(next))
	}
}

func TestMailboxCommand(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.must("up", "n300", "-d", patient)
	c.intact()
	c.must("traffic", "all-to-all", "--packets", "200", "--size", "100")
	views := read[[]output.Mailbox](c, "mailbox", "M0D1", "--via", "M0D0", "--last", "64")
	if len(views) != 2 {
		t.Fatalf("%d mailboxes, want one per cable", len(views))
	}
	for _, v := range views {
		if v.Chip != (wire.FabricNodeID{Chip: 1}) || v.State != "running" || v.Counters["packets_received"] < 50 || uint32(len(v.Entries)) != v.Posted || v.Posted < 2 {
			t.Errorf("%+v", v)
		}
	}
	if text := c.must("mem", "read", "M0D1", views[0].Tile, "4"); !strings.Contains(text, "TTMB") {
		t.Errorf("the tile begins with %s", text)
	}
	if text := c.must("mailbox", fmt.Sprintf("M0D1:%d", views[1].Channel)); !strings.Contains(text, "link up") {
		t.Errorf("the table is\n%s", text)
	}
	c.fails(exitUsage, "mailbox", "M0D1:15")
	c.fails(exitUsage, "mailbox", "M0D1:x")
	c.fails(exitUsage, "mailbox", "M0D7")
	c.fails(exitUsage, "mailbox")
}
