package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ttfabric/node/admin/api"
	"ttfabric/node/fabric"
	"ttfabric/wire"
)

// TestWhatGotLost kills a chip under load, and starts the chip again. The chips' counts must
// explain the fate of every packet. The chip's neighbours must give the numbers of packets that the
// chip had received and sent. 'checkpoint' must print the lost requests.
func TestWhatGotLost(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.must("up", "mesh:2x2", "-d", unhurried)
	first, second := filepath.Join(c.dir, "first.json"), filepath.Join(c.dir, "second.json")
	c.must("traffic", "all-to-all", "--packets", "1000")
	r := read[fabric.Balance](c, "inspect", "--losses", "--assert", "--wait", "60s")
	n := map[string]uint64{} // sums of the chips' counters
	for _, v := range read[struct{ Chips []api.ChipView }](c, "inspect").Chips {
		for k, x := range v.Counters {
			n[k] += x
		}
	}
	// A flow sends a probe if it waits long for a completion. The probe also counts as a request.
	if requests := r.Classes[wire.ClassRequest]; !r.AtRest || r.Total.Injected == 0 || r.Total.Injected != r.Total.Delivered || len(r.Gone) != 0 || len(r.Links) != 16 ||
		requests.Injected != 1000+n["probes"] || requests.Delivered != 1000+n["probes"] || n["performed"] != 1000 || n["duplicates"] != 0 {
		t.Errorf("after 1000 packets: at rest %v, %+v, of them requests %+v, %d links; the chips count %v", r.AtRest, r.Total, requests, len(r.Links), n)
	}
	c.must("checkpoint", "-f", first)
	c.must("traffic", "all-to-all", "--packets", "1000")
	if out := c.must("checkpoint", "--since", first, "-f", second); !strings.Contains(out, "nothing was lost") {
		t.Errorf("checkpoint says %q", out)
	}

	load := c.command("traffic", "all-to-all", "--packets", "60000", "--load", "1500", "--timeout", "2m") // ten seconds of load; the test kills the chip after one or two seconds
	if err := load.Start(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(soon); read[fabric.Balance](c, "inspect", "--losses", "--wait", "0s").Total.Delivered < 10000 && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
	}
	c.must("chip", "kill", "M0D3")
	if err := load.Wait(); err == nil {
		t.Error("traffic to a dead chip ended with exit code 0")
	}
	r = read[fabric.Balance](c, "inspect", "--losses", "--assert", "--wait", "60s")
	if len(r.Missing) != 1 || len(r.Gone) != 1 || r.Gone[0].ToldBy != 4 || r.Gone[0].Received.Total() != r.Total.ToGone || r.Gone[0].Sent.Total() != r.Total.FromGone || r.Total.ToGone == 0 {
		t.Errorf("with M0D3 dead: %+v, %+v", r.Total, r.Gone)
	}
	if out := c.must("inspect", "--losses"); !strings.Contains(out, "inferred from 4 links") || !strings.Contains(out, "unreachable") && !strings.Contains(out, "next hop dead") {
		t.Errorf("the table:\n%s", out)
	}
	out, _, code := c.run("checkpoint", "--since", second)
	if code != exitAssert || !strings.Contains(out, "do not answer: [M0D3]") || !strings.Contains(out, "M0D0") {
		t.Errorf("checkpoint ends with %d and says\n%s", code, out)
	}

	c.must("chip", "start", "M0D3")
	c.must("up", "-d")
	c.must("traffic", "all-to-all", "--packets", "1000")
	again := read[fabric.Balance](c, "inspect", "--losses", "--assert", "--wait", "60s")
	if len(again.Gone) != 1 || again.Gone[0] != r.Gone[0] || again.Total.Unknown != r.Total.Unknown || len(again.Missing) != 0 {
		t.Errorf("with M0D3 back: %+v, %+v", again.Total, again.Gone)
	}
	c.fails(exitAssert, "checkpoint", "--since", second, "-f", first)
	c.must("checkpoint", "--since", first)

	c.fails(exitUsage, "checkpoint")
	c.fails(exitUsage, "checkpoint", "--since", filepath.Join(c.dir, "none.json"))
	c.fails(exitUsage, "inspect", "--losses", "M0D0")
	c.fails(exitUsage, "inspect", "--assert")
	c.fails(exitUsage, "inspect", "--losses", "--wait", "-1s")
}
