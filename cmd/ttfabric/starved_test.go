package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"ttfabric/node/output"
	"ttfabric/node/traffic"
	"ttfabric/wire"
)

// TestALateChip stops a chip for a while. The other chip lists the stopped chip as silent, and requests
// to it wait. Afterwards, the chip says that it was starved, and so does the result of traffic that ran
// meanwhile.
func TestALateChip(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.must("up", "n300", "-d", patient)
	c.intact()
	c.must("chip", "pause", "M0D1")
	said := func(want string, args ...string) {
		t.Helper()
		text := ""
		for end := time.Now().Add(soon); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			out, errs, code := c.run(args...)
			if text = out + errs; code == exitOK && strings.Contains(text, want) {
				return
			}
		}
		t.Errorf("%v does not say %q:\n%s", args, want, text)
	}
	said("M0D1 is silent: requests to it wait", "inspect", "M0D0")
	said(", silent", "inspect", "M0D0", "--links")
	v := read[output.Chips](c, "inspect", "M0D0").Chips[0]
	if late := (wire.FabricNodeID{Chip: 1}); !slices.Contains(v.Silent, late) && !slices.Contains(v.Unreachable, late) { // after 20 s, the chip counts as unreachable instead of silent
		t.Errorf("silent: %v, unreachable: %v", v.Silent, v.Unreachable)
	}
	c.must("chip", "resume", "M0D1")
	said("M0D1 was starved for ", "inspect")
	v = read[output.Chips](c, "inspect", "M0D1").Chips[0]
	if s := v.Starved; s.Times == 0 || s.TotalS < .1 || s.LongestS < .1 || s.LastEnd == nil {
		t.Errorf("M0D1: %+v", s)
	}
	said("chip starved M0D1 (for=", "events", "--follow=false")
	c.must("up", "-d")

	for range 3 { // the machine may be so busy that the traffic ends before the chip stops
		late, running := c.stoppedDuringTraffic()
		if !running {
			continue
		}
		if !slices.ContainsFunc(late, func(s traffic.Starved) bool { return s.Chip.Chip == 1 && s.TotalS >= .1 && s.LongestS >= .1 }) {
			t.Errorf("starved during the traffic: %v", late)
		}
		break
	}
	c.must("down")
}

// stoppedDuringTraffic stops chip M0D1 for a second while traffic runs. The result lists the starved
// chips by the result of the traffic, and says whether the chip was stopped during the traffic.
func (c *cli) stoppedDuringTraffic() (late []traffic.Starved, running bool) {
	c.t.Helper()
	requests := func() uint64 {
		return read[output.Chips](c, "inspect", "M0D0").Chips[0].Counters["requests"]
	}
	cmd := c.command("traffic", "all-to-all", "--packets", "2000", "--size", "64", "--load", "300", "-o", "json")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	before, ended := requests(), make(chan error, 1)
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	go func() { ended <- cmd.Wait() }()
	for end := time.Now().Add(soon); requests() < before+5; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			c.t.Fatal("the traffic does not begin")
		}
	}
	c.must("chip", "pause", "M0D1")
	running = len(ended) == 0
	time.Sleep(time.Second)
	c.must("chip", "resume", "M0D1")
	err := <-ended
	var res traffic.Result
	if json.Unmarshal(out.Bytes(), &res) != nil || running && err != nil {
		c.t.Fatalf("%v: %s", err, errs.String())
	}
	if running && len(res.Starved) > 0 && !strings.Contains(errs.String(), "M0D1 was starved for ") {
		c.t.Errorf("no message names the starved chip: %s", errs.String())
	}
	return res.Starved, running
}
