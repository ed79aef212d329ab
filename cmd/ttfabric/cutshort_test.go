package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ttfabric/node/fabric"
	"ttfabric/node/fabric/bench"
	"ttfabric/node/fabric/folder"
	"ttfabric/node/output"
	"ttfabric/node/traffic"
	"ttfabric/wire"
)

// packetsSent returns the number of packets that all links of the fabric have sent.
func (c *cli) packetsSent() (n uint64) {
	for _, v := range read[output.Chips](c, "inspect").Chips {
		for _, l := range v.Links {
			n += l.Counters["packets_sent"]
		}
	}
	return n
}

// interrupt starts a command, waits until the links have sent many packets for the command, presses Ctrl-C, and
// returns the output. The exit code must be 130.
func (c *cli) interrupt(args ...string) (stdout, stderr string) {
	c.t.Helper()
	cmd := c.command(args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	before := c.packetsSent()
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.within(soon, "packets are under way", func() bool { return c.packetsSent() > before+200 })
	cmd.Process.Signal(os.Interrupt)
	stuck := time.AfterFunc(3*time.Minute, func() { cmd.Process.Kill() })
	defer stuck.Stop()
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exitSignal {
		c.t.Errorf("%v: exit code %d, want %d: %s", args, code, exitSignal, errs.String())
	}
	return out.String(), errs.String()
}

// TestInterruptedCommands presses Ctrl-C while commands run. The commands must print the results so far.
func TestInterruptedCommands(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.must("up", "n300", "-d", patient)

	out, errs := c.interrupt("traffic", "all-to-all", "--packets", "100000000", "--size", "64", "-o", "json")
	var res traffic.Result
	if err := json.Unmarshal([]byte(out), &res); err != nil || res.Total.Delivered == 0 || res.Total.Delivered > res.Total.Sent {
		t.Errorf("traffic: %v, sent %d, delivered %d", err, res.Total.Sent, res.Total.Delivered)
	}
	if !strings.Contains(errs, "The run was not complete") || strings.Contains(errs, "not every packet") {
		t.Errorf("traffic says %q", errs)
	}

	out, _ = c.interrupt("ping", "M0D0", "M0D1", "--count", "100000", "-o", "json")
	var rows []pingRow
	if err := json.Unmarshal([]byte(out), &rows); err != nil || len(rows) != 1 || rows[0].Sent < 2 || rows[0].Sent == 100000 || rows[0].Lost > 0 {
		t.Errorf("ping: %v, %+v", err, rows)
	}

	f, err := fabric.OpenDir(t.Context(), folder.Dir(filepath.Join(c.dir, "ttfabric", "default")))
	if err != nil {
		t.Fatal(err)
	}
	b, err := bench.On(f)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	run := bench.LinkRun{X: wire.FabricNodeID{}, Y: wire.FabricNodeID{Chip: 1}, Sizes: []int{64, 128, 256}, Channels: []int{8}, Each: time.Millisecond}
	link, _, err := b.Link(ctx, run, func(done int) {
		if done == 2 {
			cancel()
		}
	})
	if err == nil || len(link) != 2 || link[0].Gbps <= 0 || max(link[0].Use, link[1].Use) != 1 {
		t.Errorf("bench link: error %v, rows %+v", err, link)
	}
}
