package main

import (
	"encoding/json"
	"strings"
	"testing"

	"ttfabric/node/firmware"
	"ttfabric/node/firmware/host"
)

// TestHostCommands moves bytes through the firmware's queues, and looks at the queues.
func TestHostCommands(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.must("up", "n300", "-d", unhurried)
	t.Cleanup(func() { c.run("down") })
	c.must("host", "write", "M0D1", "1-1:0x20000", "--hex", "6869206d", "--through", "M0D0/10")
	if got := c.must("mem", "read", "M0D1", "1-1:0x20000", "4"); !strings.Contains(got, "|hi m|") {
		t.Errorf("mem read printed %s, want the bytes that host write wrote", got)
	}
	if got := c.must("host", "read", "M0D1", "1-1:0x20000", "4", "--through", "M0D0/10"); !strings.Contains(got, "|hi m|") {
		t.Errorf("a host reads %s", got)
	}
	var states []host.State
	if err := json.Unmarshal([]byte(c.must("host", "queues", "M0D0", "-o", "json")), &states); err != nil || len(states) != 16 {
		t.Fatalf("%v, %d tiles", err, len(states))
	}
	if s := states[10]; s.Tile != "8-6" || s.Writes != (host.Count{Accepted: 1, Ended: 1}) || s.Reads != (host.Count{Accepted: 1, Ended: 1}) || s.Errors != 0 || s.Requests.WrIdx != 2 || s.Completions.RdIdx != 1 {
		t.Errorf("tile E10: %+v", s)
	}
	if s := states[10].Types; len(s) != int(firmware.NumRequestTypes) || s[firmware.WordRead] != (firmware.TypeCounters{Type: "word-read", Accepted: 1, Done: 1}) || s[firmware.WordWrite].Done != 1 || s[firmware.HostRead].Accepted != 0 {
		t.Errorf("tile E10: %+v", s)
	}
	if table := c.must("host", "queues", "M0D0"); !strings.Contains(table, "│ E10  │ 8-6 │ 2, 2     │ 1, 1        │ 1, 1 ended │ 1, 1 ended │      0 │            │") {
		t.Errorf("%s", table)
	}
	for _, v := range []struct {
		want string
		code int
		args []string
	}{
		{"want CHIP/CHANNEL", exitUsage, []string{"host", "read", "M0D0", "1-1:0", "4", "--through", "M0D0"}},
		{"no ethernet tile E16 on chip M0D0", exitUsage, []string{"host", "read", "M0D0", "1-1:0", "4", "--through", "M0D0/16"}},
		{"3 bytes at 1-1:0x0: want an address and a length that are multiples of 4 bytes", exitUsage, []string{"host", "write", "M0D0", "1-1:0", "abc"}},
		{`length "2097152"`, exitUsage, []string{"host", "read", "M0D0", "1-1:0", "2097152"}},
		{"0 sources of bytes", exitUsage, []string{"host", "write", "M0D0", "1-1:0"}},
		{"are multiples of 4 bytes", exitUsage, []string{"host", "read", "M0D0", "1-1:2", "4"}},
		{"a request names one tile", exitUsage, []string{"host", "read", "M0D0", "1-1..2-2:0", "4"}},
		{"0-13:0x0: bad address", exitFailed, []string{"host", "read", "M0D1", "0-13:0", "4"}},
		{"8-0:0xffb20110: bad address", exitFailed, []string{"host", "write", "M0D1", "8-0:0xffb20110", "abcd", "--through", "M0D0:E10"}},
		{"--mesh 1: topology", exitUsage, []string{"host", "shim", "--mesh", "1"}},
	} {
		if _, errs, code := c.run(v.args...); code != v.code || !strings.Contains(errs, v.want) {
			t.Errorf("%q: exit code %d, want %d: %s", v.args, code, v.code, errs)
		}
	}
	if _, errs, code := c.run("events", "--follow=false", "--type", "host request"); code != 0 {
		t.Errorf("events of hosts: exit code %d, %s", code, errs)
	}
}
