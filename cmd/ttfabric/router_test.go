package main

import (
	"strings"
	"testing"
	"time"

	"ttfabric/node/admin/api"
	"ttfabric/node/fabric"
	"ttfabric/node/fabric/spec"
)

// states returns the states of the routers of all ports, without duplicates.
func (c *cli) states() (out []string) {
	seen := map[string]bool{}
	for _, v := range read[struct{ Chips []api.ChipView }](c, "inspect").Chips {
		for _, l := range v.Links {
			if !seen[l.Router] {
				seen[l.Router] = true
				out = append(out, l.Router)
			}
		}
	}
	return out
}

func TestRouterCommands(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.fails(exitUsage, "router", "pause")
	c.must("up", "n300", "-d", patient)
	c.intact()
	c.fails(exitUsage, "router", "pause", "all", "--chip", "M0D0")
	c.fails(exitUsage, "router", "drain", "M0D0:3")
	c.fails(exitUsage, "router", "resume", "--chip", "M0D7")

	rows := read[[]api.RouterView](c, "router", "pause", "M0D0-M0D1/p0")
	if len(rows) != 2 || rows[0].State != "paused" || rows[0].Code != 2 || rows[1].Chip.String() != "M0D1" {
		t.Errorf("pause says %+v", rows)
	}
	c.fails(exitAssert, "ping", "M0D0", "M0D1", "-c", "1", "--timeout", "1s")
	if s := c.states(); len(s) != 2 {
		t.Errorf("the ports are %v, want some paused and some running", s)
	}
	c.must("router", "resume", "all")
	c.must("ping", "--all", "-c", "1")
	if s := c.states(); len(s) != 1 || s[0] != "running" {
		t.Errorf("the ports are %v, want running", s)
	}

	c.must("router", "drain", "--chip", "M0D0")
	if _, errs, code := c.run("mem", "write", "M0D1", "1-1:0", "x", "--via", "M0D0"); code != exitFailed || !strings.Contains(errs, "drained") {
		t.Errorf("a write through a draining port: exit code %d, %s", code, errs)
	}
	c.must("mem", "write", "M0D0", "1-1:0", "x", "--via", "M0D1") // the draining port handles the incoming request, and the completion passes
	c.must("ping", "M0D0", "M0D1", "-c", "1")                     // a ping is a probe
	if out := c.must("inspect", "M0D0"); !strings.Contains(out, "dropped: drained") {
		t.Errorf("no drops are counted:\n%s", out)
	}
	c.must("router", "resume", "--chip", "M0D*")

	before := retrains(c)
	c.must("router", "retrain", "all")
	for end := time.Now().Add(soon); retrains(c) < before+4 && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
	}
	if n := retrains(c); n != before+4 {
		t.Errorf("%d retrains of four ends, want one each", n-before)
	}
	c.must("router", "flush", "all")
	seen := c.must("events", "--follow=false")
	for _, want := range []string{"router paused", "router resumed", "router draining", "router retraining", "router flushed", "reason=drained"} {
		if !strings.Contains(seen, want) {
			t.Errorf("no event tells of %q", want)
		}
	}
}

func retrains(c *cli) (n int) {
	for _, v := range read[struct{ Chips []api.ChipView }](c, "inspect").Chips {
		for _, l := range v.Links {
			n += l.Retrains
		}
	}
	return n
}

func TestChipPorts(t *testing.T) {
	m := machine(t, "t3000")
	chips, err := spec.Chips(m, []string{"M0D0,M0D[6-7]"})
	where := fabric.PortsOf(m, chips)
	if err != nil || len(where) != 3 || len(where[m.Chips[0].Node]) != 4 || len(where[m.Chips[6].Node]) != 6 {
		t.Errorf("%v, %v", where, err)
	}
	if _, err := spec.Chips(m, []string{"M0D0,M9D*"}); err == nil || !strings.Contains(err.Error(), "M9D*") {
		t.Errorf("%v", err)
	}
}
