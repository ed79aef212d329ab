// Command bench measures one link, a session write and an idle fabric, and compares them with their
// peers in one interleaved run. The far end of a transport is another process, which also runs this
// program.
package main

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"time"

	"ttfabric/ttlink/transport"
)

// bench is one run.
type bench struct {
	rounds   int
	span     time.Duration // time of each goodput measurement
	only     string        // name of one measurement; empty: all measurements that need no setup
	kinds    []string      // transports that the flag -kinds names; empty: all
	sizes    []int
	mtu      int    // MTU of the wire between two namespaces, in bytes
	wire     string // two namespaces and the device of the wire, from the flag -wire
	pair     string // names of two containers on one bridge
	ttfabric string // path of the fabric's program
	pingpong string // path of the ping-pong in C
	credits  string // path of the sender with few credits in C; empty: not built
	cables   string // path of the all-to-all traffic in C; empty: not built
	words    string // path of the attached program in C; empty: not built
	mpi      string // path of the all-to-all program for Open MPI; empty: this machine has no Open MPI
	sums     string // path of the all-reduce on chips, node/rank/allreduce; empty: not built
	mpiSums  string // path of the all-reduce for Open MPI; empty: this machine has no Open MPI
	cuts     int    // number of cuts of each fabric, before the share of its cutSet; each cuts one cable
	seed     uint64 // seed of the cuts
	machines string // machines whose cables are cut; empty: all
	report   report
	broken   []error // figures that break a limit; reported after the results are saved
}

func (b *bench) add(rs ...result)        { b.report.add(rs...) }
func (b *bench) named(kind string) bool  { return slices.Contains(b.kinds, kind) }
func (b *bench) chosen(kind string) bool { return len(b.kinds) == 0 || b.named(kind) }

// measurement is one measurement that the flag -only can name.
type measurement struct {
	name  string
	setup string // script that prepares the measurement; empty: none
	run   func(b *bench, round int, r *rand.Rand) error
}

var measurements = []measurement{
	{"goodput", "", (*bench).goodputs},
	{"latency", "", (*bench).latencies},
	{"chain", "", func(b *bench, round int, r *rand.Rand) error {
		rs, err := chains(round, r)
		b.add(rs...)
		return err
	}},
	{"session", "", func(b *bench, round int, r *rand.Rand) error {
		rs, err := sessions(round, r, b.credits)
		b.add(rs...)
		return err
	}},
	{"alltoall", "", (*bench).alltoalls},
	{"collective", "scripts/bench/run -only collective", (*bench).collectives},
	{"socket", "scripts/bench/run -only socket", (*bench).sockets},
	{"attach", "scripts/bench/run -only attach", (*bench).attached},
	{"hostblocks", "scripts/bench/run -only hostblocks", (*bench).hostBlocks},
	{"wan", "scripts/bench/wan", (*bench).wan},
	{"loss", "scripts/bench/loss", (*bench).losses},
	{"container", "scripts/bench/container", (*bench).containers},
	{"growth", "scripts/bench/run -only growth", (*bench).growth},
	{"many", "scripts/bench/run -only many", (*bench).many},
	{"cuts", "scripts/bench/cuts", (*bench).cutCables},
	{"idle", "", func(b *bench, round int, _ *rand.Rand) error {
		if b.ttfabric == "" {
			return nil
		}
		rs, err := idle(b.ttfabric, round)
		b.add(rs...)
		return err
	}},
}

func main() {
	b := &bench{report: report{Machine: facts()}}
	far := flag.String("far", "", "be the far end of this transport (used by the program itself)")
	task := flag.String("task", "", "task of the far end, such as drain or echo (used by the program itself)")
	flag.IntVar(&b.rounds, "rounds", 5, "interleaved rounds")
	seconds := flag.Float64("seconds", 1, "time of each goodput measurement, in seconds")
	flag.StringVar(&b.only, "only", "", "name of one measurement: goodput, latency, session, chain, alltoall, idle, growth, many, attach, hostblocks, socket or collective; the scripts wan, loss, cuts and container call the measurements of these names")
	sizes := flag.String("sizes", "64,256,1024,4096,16384", "message sizes of the goodput measurement, in bytes; a packet carries up to 4096 bytes, and a longer message takes several packets")
	names := flag.String("kinds", "", "transports to measure, with commas; empty: all")
	out := flag.String("o", "", "write the results as JSON to this file, and plots beside it (default results/TIME.json)")
	plot := flag.String("plot", "", "measure nothing; print this results file, and plot the results again")
	flag.StringVar(&b.ttfabric, "ttfabric", "", "path of the program ttfabric; most measurements need it")
	flag.StringVar(&b.pingpong, "pingpong", "", "path of the built ping-pong in C")
	flag.StringVar(&b.credits, "credits", "", "path of the built sender with few credits in C")
	flag.StringVar(&b.cables, "cables", "", "path of the built all-to-all traffic over cables in C")
	flag.StringVar(&b.words, "words", "", "path of the built attached program in C")
	flag.StringVar(&b.mpi, "mpi", "", "path of the built all-to-all program for Open MPI")
	flag.StringVar(&b.sums, "sums", "", "path of the built all-reduce on chips")
	flag.StringVar(&b.mpiSums, "mpi-sums", "", "path of the built all-reduce for Open MPI")
	flag.StringVar(&b.wire, "wire", "", "the wire to cross: NEAR-NAMESPACE FAR-NAMESPACE DEVICE")
	flag.StringVar(&b.pair, "containers", "", "two containers on one bridge, as NEAR FAR; -listen and -far-listen give their addresses")
	flag.IntVar(&b.mtu, "mtu", 1500, "MTU of the wire of -wire, in bytes")
	flag.IntVar(&b.cuts, "cuts", 200, "cables to cut, one after the other, of each machine of -only cuts")
	flag.Uint64Var(&b.seed, "seed", 0, "seed of the cables and moments of -only cuts; 0: taken from the clock and printed")
	flag.StringVar(&b.machines, "machines", "", "machines of -only cuts: t3000, mesh:4x8; empty: both")
	core := flag.Int("core", -1, "core of the far end, -1 for any (used by the program itself)")
	listen := flag.String("listen", loopback.String(), "address of this end")
	peer := flag.String("far-listen", "", "address of the far end (default: the address of this end)")
	flag.StringVar(&where.netns, "netns", "", "network namespace of the far end")
	profiles := flag.String("profile", "", "write CPU profiles of both ends into this folder")
	flag.Parse()
	fail(places(*listen, *peer))
	if *profiles != "" {
		os.Setenv(profileEnv, *profiles)
	}
	fail(profile(*far))
	defer pprof.StopCPUProfile()
	switch {
	case *far != "":
		if *core >= 0 {
			fail(pin(cpuSet(*core)))
		}
		fail(farEnd(*far, *task))
	case *plot != "":
		p, err := load(*plot)
		fail(err)
		fail(p.print())
		fail(p.plot(strings.TrimSuffix(*plot, ".json")))
	default:
		fail(b.choose(*sizes, *names, *seconds))
		fail(b.measure())
		fail(b.report.print())
		if *out == "" {
			*out = "results/" + time.Now().UTC().Format("20060102-150405") + ".json"
		}
		fail(b.report.save(*out))
		fail(errors.Join(b.broken...))
	}
}

// places sets the addresses of the two ends in "where". If "far" is empty, both ends have the
// address "near".
func places(near, far string) (err error) {
	if far == "" {
		far = near
	}
	if where.near, err = netip.ParseAddr(near); err != nil {
		return fmt.Errorf("-listen: %w", err)
	}
	if where.far, err = netip.ParseAddr(far); err != nil {
		return fmt.Errorf("-far-listen: %w", err)
	}
	return nil
}

// choose parses the flags that hold lists or names. The error names the bad value.
func (b *bench) choose(sizes, names string, seconds float64) error {
	if b.rounds < 1 || seconds <= 0 || b.cuts < 1 {
		return fmt.Errorf("-rounds %d -seconds %v -cuts %d: want at least 1, and more than 0", b.rounds, seconds, b.cuts)
	}
	b.span = time.Duration(seconds * float64(time.Second))
	for _, text := range strings.Split(sizes, ",") {
		size, err := strconv.Atoi(text)
		if err != nil || size < 1 || size > transport.MaxDatagram {
			return fmt.Errorf("-sizes %q: want numbers from 1 to %d, with commas", text, transport.MaxDatagram)
		}
		b.sizes = append(b.sizes, size)
	}
	known := []string{udpC}
	for _, k := range kinds {
		known = append(known, k.name)
	}
	for _, name := range strings.FieldsFunc(names, func(r rune) bool { return r == ',' }) {
		if !slices.Contains(known, name) {
			return fmt.Errorf("-kinds %q is not known: want some of %s", name, strings.Join(known, ","))
		}
		b.kinds = append(b.kinds, name)
	}
	var all []string
	for _, m := range measurements {
		all = append(all, m.name)
	}
	switch {
	case b.only != "" && !slices.Contains(all, b.only):
		return fmt.Errorf("-only %q: want one of %s", b.only, strings.Join(all, ", "))
	case where.netns != "" && !slices.Contains([]string{"goodput", "latency", "wan"}, b.only):
		return fmt.Errorf("-netns %q -only %q: only the measurements goodput, latency and wan can have their far end in a namespace", where.netns, b.only)
	}
	return nil
}

func (b *bench) measure() error {
	r := rand.New(rand.NewPCG(1, 1))
	for round := range b.rounds {
		fmt.Fprintf(os.Stderr, "round %d of %d\n", round+1, b.rounds)
		for _, m := range measurements {
			if b.only != m.name && (b.only != "" || m.setup != "") {
				continue
			}
			if err := m.run(b, round, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// profileEnv names an environment variable that tells the far end the folder for profiles.
const profileEnv = "TTFABRIC_BENCH_PROFILE"

// profile begins the CPU profile of this end, if the run writes profiles.
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

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}
