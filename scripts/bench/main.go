// Command bench measures one link, a session write and an idle fabric against
// their peers, in one interleaved run on loopback. The far end of every
// measurement is another process: this program, started again.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"time"

	"ttfabric/ttlink/transport"
	"ttfabric/wire"
)

// conv is one transport that can carry a stream of messages to another process and back.
type conv interface {
	// sink is the far end: it receives until told to stop and says how many bytes arrived.
	// source sends messages of size bytes until the time has come.
	addr() string
	dial(peer string) error
	pump(size int, d time.Duration) error // near end: send
	drain() (bytes func() uint64)         // far end: count, in the background
	echo()                                // far end: send back what comes, in the background
	pingpong(size, n int) ([]time.Duration, error)
	close()
}

// kinds are the transports, ours and the peers.
var kinds = []struct {
	name string
	open func(far bool) (conv, error)
}{
	{"ttlink-fast", func(far bool) (conv, error) { return newLink(far, "fast", transport.Auto) }},
	{"ttlink-spec", func(far bool) (conv, error) { return newLink(far, "spec", transport.Auto) }},
	{"ttlink-nogso", func(far bool) (conv, error) { return newLink(far, "fast", transport.Off) }},
	{"udp-gso", func(bool) (conv, error) { return newRaw(transport.Auto) }},
	{"udp-mmsg", func(bool) (conv, error) { return newRaw(transport.Off) }},
	{"udp", newUDP},
	{"tcp", newTCP},
	{"quic", newQUIC},
	{"kcp", newKCP},
}

func open(name string, far bool) (conv, error) {
	for _, k := range kinds {
		if k.name == name {
			return k.open(far)
		}
	}
	return nil, fmt.Errorf("transport %q is not known", name)
}

// result is one figure of one round.
type result struct {
	Bench string  `json:"bench"`
	Kind  string  `json:"kind"`
	Unit  string  `json:"unit"`
	Round int     `json:"round"`
	Value float64 `json:"value"`
}

func main() {
	far := flag.String("far", "", "be the far end of this transport (used by the program itself)")
	task := flag.String("task", "", "of the far end: drain or echo")
	rounds := flag.Int("rounds", 5, "interleaved rounds")
	seconds := flag.Float64("seconds", 1, "of each goodput measurement")
	only := flag.String("only", "", "goodput, latency, session, chain or idle")
	sizes := flag.String("sizes", "64,4096", "message sizes of the goodput measurement, in bytes; a packet carries up to 4096")
	names := flag.String("kinds", "", "transports to measure, with commas; empty: all")
	out := flag.String("o", "", "write the results as JSON to this file (default results/TIME.json)")
	ttfabric := flag.String("ttfabric", "", "the fabric's program, for the idle cost")
	profiles := flag.String("profile", "", "write CPU profiles of both ends into this folder")
	flag.Parse()
	if *profiles != "" {
		os.Setenv(profileEnv, *profiles)
	}
	fail(profile(*far))
	defer pprof.StopCPUProfile()
	if *far != "" {
		fail(farEnd(*far, *task))
		return
	}
	var rs []result
	chosen := func(kind string) bool { return *names == "" || slices.Contains(strings.Split(*names, ","), kind) }
	do := func(name string) bool { return *only == "" || *only == name }
	d := time.Duration(*seconds * float64(time.Second))
	r := rand.New(rand.NewPCG(1, 1))
	for round := range max(*rounds, 1) {
		fmt.Fprintf(os.Stderr, "round %d of %d\n", round+1, *rounds)
		if do("goodput") {
			for _, text := range strings.Split(*sizes, ",") {
				size, err := strconv.Atoi(text)
				if err != nil || size < 1 || size > wire.MaxPayload {
					fail(fmt.Errorf("-sizes %q: want numbers from 1 to %d", text, wire.MaxPayload))
				}
				for _, i := range r.Perm(len(kinds)) {
					if !chosen(kinds[i].name) {
						continue
					}
					g, err := goodput(kinds[i].name, size, d)
					fail(err)
					rs = append(rs, result{fmt.Sprintf("goodput %d B", size), kinds[i].name, "Gb/s", round, g})
				}
			}
		}
		if do("latency") {
			for _, i := range r.Perm(len(kinds)) {
				if strings.HasPrefix(kinds[i].name, "udp-") || !chosen(kinds[i].name) {
					continue
				}
				p50, p99, err := latency(kinds[i].name)
				fail(err)
				rs = append(rs, result{"round trip 64 B p50", kinds[i].name, "µs", round, p50}, result{"round trip 64 B p99", kinds[i].name, "µs", round, p99})
			}
		}
		if do("chain") {
			more, err := chains(round, r)
			fail(err)
			rs = append(rs, more...)
		}
		if do("session") {
			more, err := sessions(round, r)
			fail(err)
			rs = append(rs, more...)
		}
	}
	if do("idle") && *ttfabric != "" {
		more, err := idle(*ttfabric)
		fail(err)
		rs = append(rs, more...)
	}
	print(rs)
	if *out == "" {
		*out = "results/" + time.Now().UTC().Format("20060102-150405") + ".json"
	}
	b, err := json.MarshalIndent(rs, "", " ")
	fail(err)
	fail(os.WriteFile(*out, b, 0o644))
	fmt.Fprintln(os.Stderr, "results in", *out)
}

// profileEnv tells the far end where profiles go.
const profileEnv = "TTFABRIC_BENCH_PROFILE"

// profile begins the CPU profile of this end, if there is to be one.
func profile(far string) error {
	dir := os.Getenv(profileEnv)
	if dir == "" {
		return nil
	}
	name := "near.pprof"
	if far != "" {
		name = fmt.Sprintf("far-%s-%d.pprof", far, os.Getpid())
	}
	f, err := os.Create(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	return pprof.StartCPUProfile(f)
}

// endTime is how long the far end gets to end by itself.
const endTime = 2 * time.Second

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// farEnd runs in the other process: says its address, hears the peer's, works until stdin ends, and says what it counted.
func farEnd(kind, task string) error {
	switch kind {
	case "chip":
		return farChip(task)
	case "udp-forward":
		return udpForward(task)
	case "tcp-answer":
		return tcpAnswer(task)
	}
	c, err := open(kind, true)
	if err != nil {
		return err
	}
	defer c.close()
	fmt.Println(c.addr())
	in := bufio.NewScanner(os.Stdin)
	if !in.Scan() {
		return in.Err()
	}
	if err := c.dial(in.Text()); err != nil {
		return err
	}
	var count func() uint64
	if task == "drain" {
		count = c.drain()
	} else {
		c.echo()
	}
	fmt.Println("ready")
	for in.Scan() {
		if count != nil {
			fmt.Println(count())
		}
	}
	return nil
}

// other is the far end as the near one sees it.
type other struct {
	cmd *exec.Cmd
	in  interface{ Write([]byte) (int, error) }
	out *bufio.Scanner
	end func()
}

func spawn(kind, task string) (*other, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(exe, "-far", kind, "-task", task)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &other{cmd, in, bufio.NewScanner(out), func() {
		in.Close()
		late := time.AfterFunc(endTime, func() { cmd.Process.Kill() })
		cmd.Wait()
		late.Stop()
	}}, nil
}

func (o *other) ask(line string) (string, error) {
	if line != "" {
		if _, err := fmt.Fprintln(o.in, line); err != nil {
			return "", err
		}
	}
	if !o.out.Scan() {
		return "", fmt.Errorf("the far end has died: %v", o.out.Err())
	}
	return o.out.Text(), nil
}

// meet opens both ends of a transport.
func meet(kind, task string) (conv, *other, error) {
	o, err := spawn(kind, task)
	if err != nil {
		return nil, nil, err
	}
	addr, err := o.ask("")
	if err != nil {
		o.end()
		return nil, nil, err
	}
	c, err := open(kind, false)
	if err == nil {
		if _, err = fmt.Fprintln(o.in, c.addr()); err == nil {
			err = c.dial(addr)
		}
	}
	if err == nil {
		_, err = o.ask("")
	}
	if err != nil {
		o.end()
		return nil, nil, fmt.Errorf("%s: %w", kind, err)
	}
	return c, o, nil
}

// goodput is what the far end counts per second, in Gb/s, after a short warm-up.
func goodput(kind string, size int, d time.Duration) (float64, error) {
	c, o, err := meet(kind, "drain")
	if err != nil {
		return 0, err
	}
	defer o.end()
	defer c.close()
	done := make(chan error, 1)
	go func() { done <- c.pump(size, d+d/4) }()
	time.Sleep(d / 4)
	read := func() (n uint64, at time.Time, err error) {
		s, err := o.ask("count")
		if err == nil {
			_, err = fmt.Sscan(s, &n)
		}
		return n, time.Now(), err
	}
	a, begin, err := read()
	if err != nil {
		return 0, err
	}
	time.Sleep(d * 3 / 4)
	b, end, err := read()
	if err != nil {
		return 0, err
	}
	if err := <-done; err != nil {
		return 0, fmt.Errorf("%s: %w", kind, err)
	}
	return float64(b-a) * 8 / end.Sub(begin).Seconds() / 1e9, nil
}

// pings is the number of round trips of one latency measurement.
const pings = 5000

func latency(kind string) (p50, p99 float64, err error) {
	c, o, err := meet(kind, "echo")
	if err != nil {
		return 0, 0, err
	}
	defer o.end()
	defer c.close()
	ds, err := c.pingpong(64, pings)
	if err != nil {
		return 0, 0, fmt.Errorf("%s: %w", kind, err)
	}
	slices.Sort(ds)
	return us(ds[len(ds)/2]), us(ds[len(ds)*99/100]), nil
}

// print prints medians, spread, and each peer's share of ours, as a Markdown table.
func print(rs []result) {
	type key struct{ bench, kind string }
	vals := map[key][]float64{}
	var order []key
	unit := map[string]string{}
	for _, r := range rs {
		k := key{r.Bench, r.Kind}
		if vals[k] == nil {
			order = append(order, k)
		}
		vals[k] = append(vals[k], r.Value)
		unit[r.Bench] = r.Unit
	}
	slices.SortStableFunc(order, func(a, b key) int { return strings.Compare(a.bench, b.bench) })
	median := func(v []float64) float64 { v = slices.Clone(v); slices.Sort(v); return v[len(v)/2] }
	ours := func(bench string) []float64 {
		for _, kind := range []string{"ttlink-fast", "session", "session, 1 hop", "fabric ping"} {
			if v := vals[key{bench, kind}]; v != nil {
				return v
			}
		}
		return nil
	}
	fmt.Println("| measurement | of | median | min–max | unit | ours / this |")
	fmt.Println("|---|---|---|---|---|---|")
	for _, k := range order {
		v := vals[k]
		ratio := "–"
		if ours := ours(k.bench); ours != nil && len(ours) == len(v) {
			each := make([]float64, len(v))
			for i := range v {
				each[i] = ours[i] / v[i]
			}
			ratio = fmt.Sprintf("%.2f", median(each))
		}
		fmt.Printf("| %s | %s | %.3g | %.3g–%.3g | %s | %s |\n", k.bench, k.kind, median(v), slices.Min(v), slices.Max(v), unit[k.bench], ratio)
	}
}
