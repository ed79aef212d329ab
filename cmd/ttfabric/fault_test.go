package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"ttfabric/node/admin/api"
	"ttfabric/node/fabric"
)

// read runs a command with -o json, and decodes the output.
func read[T any](c *cli, args ...string) (v T) {
	c.t.Helper()
	if err := json.Unmarshal([]byte(c.must(append(args, "-o", "json")...)), &v); err != nil {
		c.t.Fatalf("%v: %v", args, err)
	}
	return v
}

// p50 returns the median time of nine pings, in milliseconds.
func (c *cli) p50(src, dst string) float64 {
	c.t.Helper()
	return read[[]pingRow](c, "ping", src, dst, "-c", "9")[0].P50 / 1e3
}

func (c *cli) fails(code int, args ...string) {
	c.t.Helper()
	if _, errs, got := c.run(args...); got != code {
		c.t.Errorf("%v: exit code %d, want %d: %s", args, got, code, errs)
	}
}

// faults returns the number of fault events of all chips, by action.
func (c *cli) faults() map[string]int {
	c.t.Helper()
	n := map[string]int{}
	for line := range strings.Lines(c.must("events", "--follow=false", "-o", "json")) {
		var e api.EventView
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			c.t.Fatal(err)
		}
		if e.Type == "fault" {
			n[e.Action]++
		}
	}
	return n
}

// intact waits until every link sends its frames by its own cable. If one of two parallel
// cables comes up first, this cable carries the frames of both links for up to a second.
func (c *cli) intact() {
	c.t.Helper()
	text := ""
	for end := time.Now().Add(soon); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if text = c.must("inspect", "--diff"); strings.HasPrefix(text, "all ") {
			return
		}
	}
	c.t.Fatalf("not all cables are up:\n%s", text)
}

// patient is the profile of link timers in these tests. With shorter timers, links would
// go down on a busy machine.
const patient = "--profile=crowded"

// unhurried is the profile of link timers in tests that also run under the race detector,
// which makes the chips ten times slower.
const unhurried = "--profile=paced"

// stalls begins to measure how late this machine runs a goroutine whose timer has
// expired. The function "stop" ends the measurement, and returns the sum of the delays.
func stalls() (stop func() time.Duration) {
	const pulse = 2 * time.Millisecond
	over, sum := make(chan struct{}), make(chan time.Duration)
	go func() {
		late := time.Duration(0)
		for {
			last := time.Now()
			select {
			case <-over:
				sum <- late
				return
			case <-time.After(pulse):
				late += time.Since(last) - pulse
			}
		}
	}()
	return func() time.Duration {
		close(over)
		return <-sum
	}
}

func TestABadCable(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.must("up", "n300", "-d", patient)
	c.intact()
	before := c.p50("M0D0", "M0D1")

	rows := read[[]api.ImpairmentView](c, "netem", "set", "M0D0-M0D1/p0", "--loss", "5%", "--seed", "1")
	if len(rows) != 2 || rows[0].PacketLoss != 5 || rows[0].Options != "loss=5%" || rows[1].Seed != 1 {
		t.Errorf("'netem set' prints %+v", rows)
	}
	c.must("traffic", "all-to-all", "--packets", "3000", "--size", "1000", "--planes", "1") // on plane 0; exit code 5 if a packet is lost or doubled
	lost := uint64(0)
	for _, r := range read[[]api.ImpairmentView](c, "netem", "show") {
		lost += r.Counters["lost"]
	}
	resent := uint64(0)
	for _, v := range read[struct{ Chips []api.ChipView }](c, "inspect").Chips {
		for _, l := range v.Links {
			if l.Plane == 0 {
				resent += l.Counters["retransmitted"]
			}
		}
	}
	if lost == 0 || resent == 0 {
		t.Errorf("%d datagrams were lost and %d frames sent again", lost, resent)
	}

	const delay = 15.0 // ms
	c.must("netem", "set", "all", "--loss", "0", "--delay", "15ms")
	for tries := 1; ; tries++ {
		stood := stalls()
		after := c.p50("M0D0", "M0D1")
		still := stood()
		if after < 2*delay {
			t.Errorf("without a delay, a ping takes %.1f ms; with a delay of %v ms, a ping takes %.1f ms", before, delay, after)
		}
		if after <= before+4*delay {
			break
		}
		// The median of nine pings exceeds the expected time, so at least five pings were late. The
		// machine may be the cause, and stalls says how slow the machine was.
		if excess := time.Duration(5 * (after - before - 2*delay) * float64(time.Millisecond)); still < excess/10 || tries == 20 {
			t.Fatalf("without a delay, a ping takes %.1f ms; with a delay of %v ms, a ping takes %.1f ms, after %d tries; the machine delayed timers by %v", before, delay, after, tries, still)
		}
	}
	c.must("netem", "reset")
	if rows := read[[]api.ImpairmentView](c, "netem", "show"); len(rows) != 0 {
		t.Errorf("reset leaves %+v", rows)
	}

	c.must("link", "down", "M0D0-M0D1")
	c.fails(exitAssert, "ping", "M0D0", "M0D1", "-c", "1")
	d := read[fabric.LinkDiff](c, "inspect", "--diff")
	for end := time.Now().Add(soon); d.Up > 0 && time.Now().Before(end); d = read[fabric.LinkDiff](c, "inspect", "--diff") {
		time.Sleep(100 * time.Millisecond)
	}
	if d.Declared != 2 || d.Up != 0 || len(d.Downed) != 4 || d.Downed[0].Reason != "silence" || d.Downed[0].SinceS == nil || d.Downed[0].By != nil {
		t.Errorf("with both cables cut: %+v", d)
	}
	c.must("link", "up", "M0D0-M0D1")
	c.must("up", "-d")
	c.intact()
	c.must("ping", "M0D0", "M0D1")
	if n := c.faults(); n["set"] < 6 || n["reset"] != 4 || n["cut"] != 4 || n["restored"] != 4 {
		t.Errorf("events tell of %v", n)
	}
}

// TestFlappingCables sends traffic over cables that flap. No packet may be lost or doubled.
func TestFlappingCables(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.must("up", "n300", "-d", patient)
	c.intact()
	// The first run cuts all cables, but only for 100 ms. Even a busy machine then puts the cables
	// back before the chips believe that their neighbours are unreachable. The second run cuts one of
	// two cables for longer than a link stays up without its peer. TestAllCablesSilent of node/sim
	// cuts all cables for longer, in virtual time.
	for _, x := range [][2]string{{"all", "100ms"}, {"M0D0:8", "350ms"}} {
		flap := c.command("link", "flap", x[0], "--every", "700ms", "--down", x[1], "--for", "1100ms", "-o", "json")
		var out bytes.Buffer
		flap.Stdout = &out
		if err := flap.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- flap.Wait() }()
		for running := true; running; {
			c.must("traffic", "all-to-all", "--packets", "2000", "--size", "4096")
			select {
			case err := <-ended:
				if err != nil || !strings.Contains(out.String(), "cut 2 times") {
					t.Errorf("flap: %v: %s", err, out.String())
				}
				running = false
			default:
			}
		}
	}
	if n := c.faults(); n["cut"] != 8+4 || n["restored"] != 8+4 {
		t.Errorf("events tell of %v", n)
	}
}

func TestPartitionPauseRestart(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.must("up", "t3000", "-d", unhurried, "--netem", "M0D0-M0D1,delay=3ms,seed=5")
	if p50 := c.p50("M0D0", "M0D1"); p50 < 6 {
		t.Errorf("with the declared delay of 3 ms, a ping takes only %.1f ms", p50)
	}
	c.fails(exitUsage, "up", "-d", "--netem", "all,loss=1%")
	cut := read[struct{ Links []string }](c, "partition", "M0D0,M0D4") // the chips of the first column
	if len(cut.Links) != 4 {
		t.Errorf("cut %q", cut.Links)
	}
	c.must("ping", "M0D0", "M0D4", "-c", "1")
	c.fails(exitAssert, "ping", "M0D0", "M0D1", "-c", "1")
	c.must("heal")

	c.must("chip", "restart", "M0D0")
	c.must("chip", "pause", "M0D7")
	c.fails(exitAssert, "ping", "M0D6", "M0D7", "-c", "1", "--timeout", "1s")
	c.must("chip", "resume", "M0D7")
	c.must("up", "-d")
	c.must("ping", "M0D6", "M0D7", "-c", "1")
	if p50 := c.p50("M0D0", "M0D1"); p50 < 6 {
		t.Errorf("after the chip's restart, a ping takes only %.1f ms, without the declared delay", p50)
	}
	n := c.faults()
	for _, k := range []string{"set", "cut", "restored", "restarted", "paused", "resumed"} {
		if n[k] == 0 {
			t.Errorf("no event has the action %s: %v", k, n)
		}
	}
}

// TestPausedChipIsLate pauses a chip under traffic between all chips, for longer than links wait.
// Each chip gets 500 packets per second to send, so the traffic lasts at least 10 s on any machine.
// Other chips cannot distinguish a paused chip from a chip whose process waits for a processor.
// Every packet must arrive, also the packets to the chip and the packets that the chip forwards.
func TestPausedChipIsLate(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.must("up", "t3000", "-d", patient)
	type answer struct {
		out, errs string
		code      int
	}
	done := make(chan answer, 1)
	go func() {
		var a answer
		a.out, a.errs, a.code = c.run("traffic", "uniform", "--packets", "40000", "--size", "1024", "--load", "500")
		done <- a
	}()
	paused := 0
	for end := false; !end; {
		select {
		case a := <-done:
			if a.code != exitOK {
				t.Errorf("exit code %d: %s%s", a.code, a.out, a.errs)
			}
			end = true
		case <-time.After(300 * time.Millisecond):
			if paused++; paused > 2 {
				continue
			}
			c.must("chip", "pause", "M0D5")
			time.Sleep(3 * time.Second)
			c.must("chip", "resume", "M0D5")
		}
	}
	if paused == 0 {
		t.Error("the traffic was over before the first pause")
	}
}

func TestFaultMessages(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.fails(exitFailed, "netem", "show")
	c.must("up", "n300", "-d", patient)
	for _, x := range []struct {
		args, want string
		code       int
	}{
		{"netem set M0D0-M0D1", "--delay 10ms", exitUsage},
		{"netem set", "requires at least 1", exitUsage},
		{"netem set all --loss 200%", "--loss", exitUsage},
		{"netem set all --delay 10", "unit", exitUsage},
		{"netem set all --loss 1% --direction up", "a-to-b", exitUsage},
		{"netem set all --loss 1% --duration 48h", "24h", exitUsage},
		{"netem set M0D5 --loss 1%", "not in n300", exitUsage},
		{"link flap all --every 1s --down 1s", "--every", exitUsage},
		{"link down", "requires at least 1", exitUsage},
		{"link down all --for -1s", "--for", exitUsage},
		{"partition M0D0 M0D0", "both sets", exitUsage},
		{"partition M0D0,M0D1", "no cable", exitUsage},
		{"chip pause M0D9", "not in topology n300", exitUsage},
		{"up -d -n other --netem M0D9,loss=1%", "M0D9", exitUsage},
	} {
		_, errs, code := c.run(strings.Fields(x.args)...)
		if code != x.code || !strings.Contains(errs, x.want) {
			t.Errorf("%s: exit code %d, want %d; stderr %q, want the text %q", x.args, code, x.code, errs, x.want)
		}
	}
	c.must("chip", "kill", "M0D1")
	if _, errs, code := c.run("netem", "set", "all", "--delay", "1ms"); code != exitOK || !strings.Contains(errs, "M0D1 is not running") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	c.fails(exitFailed, "chip", "pause", "M0D1")
	if out := c.must("__complete", "netem", "set", ""); !strings.Contains(out, "M0D0-M0D1\n") || !strings.Contains(out, "plane:1\n") {
		t.Errorf("the shell completes %s", out)
	}
}

// TestDurationOutlivesTheCommand sets faults for a limited time. The chips must end the
// faults after this time, although the commands have ended before.
func TestDurationOutlivesTheCommand(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.must("up", "n300", "-d", patient)
	c.must("netem", "set", "M0D0:8", "--delay", "1ms", "--direction", "a-to-b")
	c.must("netem", "set", "M0D0:8", "--loss", "50%", "--duration", "200ms")
	c.must("link", "down", "M0D0:9", "--for", "200ms")
	for end := time.Now().Add(soon); ; time.Sleep(20 * time.Millisecond) {
		rows := read[[]api.ImpairmentView](c, "netem", "show")
		if len(rows) == 1 && rows[0].Options == "delay=1ms" && rows[0].Chip.Chip == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%+v", rows)
		}
	}
	if n := c.faults(); n["restored"] != 2 {
		t.Errorf("events tell of %v", n)
	}
}
