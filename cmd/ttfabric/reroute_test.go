package main

import (
	"strings"
	"testing"
	"time"

	"ttfabric/node/admin/api"
	"ttfabric/node/output"
)

// TestReroute takes one of two cables between two chips out of service during traffic. The frames
// must move to the other cable, and the route must stay. A command that would cut chips off must
// name them and change nothing.
func TestReroute(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.must("up", "t3000", "-d", patient)
	fallback := func() map[string]any {
		return read[[]map[string]any](c, "link", "fallback", "M0D1-M0D2/p0")[0]
	}
	until := func(what string, done func() bool) {
		t.Helper()
		for end := time.Now().Add(soon); !done(); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: %v", what, fallback())
			}
		}
	}
	until("the fallback is shown before its use", func() bool { return fallback()["fallback"] == "M0D1/7-M0D2/7" && fallback()["carried_by"] == "own" })
	ended := make(chan int, 1)
	go func() {
		_, errs, code := c.run("traffic", "all-to-all", "--packets", "20000")
		if code != exitOK {
			t.Errorf("traffic: %s", errs)
		}
		ended <- code
	}()
	type done struct{ Links []string }
	if got := read[done](c, "reroute", "M0D1-M0D2/p0"); len(got.Links) != 1 {
		t.Errorf("%v", got)
	}
	until("the link moves", func() bool { return fallback()["carried_by"] == "M0D1/7-M0D2/7" })
	<-ended
	if out := c.must("trace", "M0D0", "M0D3"); strings.Count(out, "as planned") != 3 || strings.Contains(out, "detour") {
		t.Errorf("the route changed:\n%s", out)
	}
	if got := read[done](c, "reroute", "M0D1-M0D2/p0"); len(got.Links) != 0 {
		t.Errorf("a cable out of service counts as changed: %v", got)
	}
	c.must("link", "down", "M0D5-M0D6")
	until("the cut is noticed", func() bool {
		views := read[struct{ Chips []api.ChipView }](c, "inspect").Chips
		return len(views) == 8 && len(views[0].OutOfService) == 2
	})
	for _, args := range [][]string{{"reroute", "M0D1-M0D2"}, {"remove", "column", "1"}} {
		_, errs, code := c.run(args...)
		if want := map[string]string{"reroute": "M0D2, M0D3, M0D6, M0D7", "remove": "M0D0, M0D4"}[args[0]]; code != exitFailed || !strings.Contains(errs, want) || !strings.Contains(errs, "--force") {
			t.Errorf("%v: exit code %d: %s", args, code, errs)
		}
	}
	if got := read[done](c, "reroute", "M0D1-M0D2", "--force"); len(got.Links) != 1 {
		t.Errorf("with --force: %v", got)
	}
	got := read[output.Healed](c, "heal")
	if len(got.Links) != 2 || len(got.Service) != 2 {
		t.Errorf("healed %+v", got)
	}
	if got := read[done](c, "reroute", "--back", "all"); len(got.Links) != 0 {
		t.Errorf("put back %v, although all cables are in service", got)
	}
	for _, x := range []struct{ args, want string }{
		{"link fallback M0D1-M0D2/p0 --by M0D0-M0D1/p0", "not parallel"}, {"link fallback M0D1-M0D2/p0 --by M0D1-M0D2", "want one cable"},
		{"remove row 9", "want 0 to 1"},
	} {
		if _, errs, code := c.run(strings.Fields(x.args)...); code != exitUsage || !strings.Contains(errs, x.want) {
			t.Errorf("%s: exit code %d: %s", x.args, code, errs)
		}
	}
}

// TestChannelsAndRates pauses a port during traffic. The packets that wait must be listed with their
// channels.
func TestChannelsAndRates(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.must("up", "n300", "-d", patient)
	c.must("router", "pause", "M0D0-M0D1/p0")
	_, _, _ = c.run("ping", "M0D0", "M0D1", "-c", "3", "--timeout", "1s")
	got := read[struct{ Channels []api.ChannelView }](c, "inspect", "--channels")
	found := false
	for _, v := range got.Channels {
		p := v.Packets[0]
		found = found || v.Router == "paused" && v.Side == "sender" && v.Waiting >= 1 && p.Type == "probe" && p.Src != p.Dst && p.AgeS > 0
	}
	if !found {
		t.Errorf("%+v", got.Channels)
	}
	if out := c.must("inspect", "--channels"); !strings.Contains(out, "paused") || !strings.Contains(out, "sender 0") {
		t.Errorf("%s", out)
	}
	if out := c.must("inspect", "--rates"); !strings.Contains(strings.ToLower(out), "packets/s") || strings.Count(out, "M0D0") < 4 {
		t.Errorf("%s", out)
	}
}
