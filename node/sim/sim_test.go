package sim

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"ttfabric/router/route"
	"ttfabric/router/topo"
)

var (
	flagSeed     = flag.Uint64("sim.seed", 0, "run only this seed; with -v, print a trace")
	flagOnly     = flag.String("sim.only", "", "with -sim.seed: numbers of the faults to inject, such as 1,4,7; empty: all")
	flagFirst    = flag.Uint64("sim.first", 1, "first seed")
	flagEach     = flag.Uint64("sim.each", 1, "number of seeds of each topology of TestTopologies, besides the committed seeds; scripts/check takes more")
	flagSeeds    = flag.Int("sim.seeds", 0, "number of seeds; 0: the default for a test run")
	flagMore     = flag.Bool("sim.more", false, "run some tests with more seeds, or with all their cases; scripts/check does so")
	flagTopology = flag.String("sim.topology", "t3000", "machine")
)

// testSeeds is the number of seeds of a test run, without and with -short. scripts/check runs the
// seeds that follow.
const (
	testSeeds  = 60
	shortSeeds = 24
)

// The function "many" returns the number of seeds, or of cases, for a test run without and with
// -sim.more.
func many(few, all int) int {
	if *flagMore {
		return all
	}
	return few
}

// TestMain makes the garbage collector run rarely, because the tests make thousands of small
// fabrics.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	m.Run()
}

func topology(t testing.TB, name string) *topo.Topology {
	t.Helper()
	m, err := topo.Named(name)
	if strings.HasPrefix(name, "testdata/") {
		data, fail := os.ReadFile(name)
		if fail != nil {
			t.Fatal(fail)
		}
		m, err = topo.Load(name, data)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// replay returns the command that runs a failed seed again.
func replay(seed uint64, name string) string {
	return fmt.Sprintf("go test ./node/sim -run TestSeeds -sim.seed=%d -sim.topology=%s -v", seed, name)
}

// TestSeeds runs many seeds on all cores. For a failed seed, the test prints the command that runs
// the seed again.
func TestSeeds(t *testing.T) {
	m := topology(t, *flagTopology)
	if *flagSeed != 0 {
		runOne(t, m)
		return
	}
	n := *flagSeeds
	if n == 0 {
		n = testSeeds
		if testing.Short() {
			n = shortSeeds
		}
	}
	var next atomic.Uint64
	next.Store(*flagFirst)
	var mu sync.Mutex
	var sum Report
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for !t.Failed() {
				seed := next.Add(1) - 1
				if seed >= *flagFirst+uint64(n) {
					return
				}
				r, err := Run(Config{Topology: m, Seed: seed, Quick: true})
				if err != nil {
					t.Errorf("%v\n%s\nreplay: %s", err, shrink(m, seed, err), replay(seed, *flagTopology))
				}
				mu.Lock()
				add(&sum, r)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	t.Logf("%d seeds: %+v", n, sum)
	if !t.Failed() && n >= shortSeeds {
		mustHaveSeen(t, &sum, len(m.Chips))
	}
}

func add(sum *Report, r Report) {
	sum.Faults += r.Faults
	sum.Events += r.Events
	sum.Time += r.Time
	sum.Orphans += r.Orphans
	sum.Many += r.Many
	sum.Partly += r.Partly
	sum.Starts += r.Starts
	sum.Downs += r.Downs
	sum.Tables += r.Tables
	sum.Refused += r.Refused
	sum.Resent += r.Resent
	sum.Dropped += r.Dropped
	sum.Gone += r.Gone
	sum.Anew += r.Anew
	for i := range r.Fates {
		sum.Fates[i] += r.Fates[i]
	}
	for i := range r.Doubts {
		sum.Doubts[i] += r.Doubts[i]
	}
}

// mustHaveSeen checks that the seeds together caused all fates of requests and all kinds of
// trouble.
func mustHaveSeen(t *testing.T, r *Report, chips int) {
	t.Helper()
	for i, n := range r.Fates {
		if n == 0 {
			t.Errorf("no request of any seed had fate %d", i)
		}
	}
	if r.Starts == 0 || r.Downs == 0 || r.Resent == 0 || (r.Partly == 0 && chips > 2) || r.Dropped == 0 || r.Orphans == 0 || r.Gone == 0 {
		t.Errorf("the seeds caused too few faults: %+v", *r)
	}
}

func runOne(t *testing.T, m *topo.Topology) {
	cfg := Config{Topology: m, Seed: *flagSeed}
	if *flagOnly != "" {
		for _, f := range strings.Split(*flagOnly, ",") {
			n, err := strconv.Atoi(f)
			if err != nil {
				t.Fatalf("-sim.only %q: want numbers, such as 1,4,7", *flagOnly)
			}
			cfg.Only = append(cfg.Only, n)
		}
	}
	if testing.Verbose() {
		w := bufio.NewWriter(os.Stdout)
		defer w.Flush()
		cfg.Trace = w
	}
	r, err := Run(cfg)
	if err != nil {
		t.Error(err)
	}
	t.Logf("%+v", r)
}

// shrink leaves out faults of a failed run, one after another, as long as the same rule is
// violated. shrink returns the remaining faults.
func shrink(m *topo.Topology, seed uint64, err error) string {
	var f *Failure
	if !errors.As(err, &f) {
		return ""
	}
	keep := []int{}
	for i := range f.Plan {
		keep = append(keep, i)
	}
	for i := len(f.Plan) - 1; i >= 0; i-- {
		without := []int{}
		for _, k := range keep {
			if k != i {
				without = append(without, k)
			}
		}
		var g *Failure
		if _, err := Run(Config{Topology: m, Seed: seed, Only: without, Quick: true}); errors.As(err, &g) && g.Rule == f.Rule {
			keep = without
		}
	}
	out := "faults that suffice:"
	only := []string{}
	for _, k := range keep {
		out += "\n" + f.Plan[k]
		only = append(only, strconv.Itoa(k))
	}
	return out + "\nwith only these faults: -sim.only=" + strings.Join(only, ",")
}

// TestCommittedSeeds runs the seeds that once failed, and checks the invariants after every step.
func TestCommittedSeeds(t *testing.T) {
	f, err := os.Open("testdata/seeds.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		line, _, _ := strings.Cut(sc.Text(), "#")
		if strings.TrimSpace(line) == "" {
			continue
		}
		var name string
		var seed uint64
		if _, err := fmt.Sscan(line, &name, &seed); err != nil {
			t.Fatalf("testdata/seeds.txt: %q: %v", line, err)
		}
		if _, err := Run(Config{Topology: topology(t, name), Seed: seed}); err != nil {
			t.Errorf("%v\nreplay: %s", err, replay(seed, name))
		}
	}
}

// TestSameSeedSameRun checks that runs with equal seeds are equal, and runs with different seeds
// differ.
func TestSameSeedSameRun(t *testing.T) {
	m := topology(t, "t3000")
	for seed := range uint64(5) {
		a, errA := Run(Config{Topology: m, Seed: seed + 1000})
		b, errB := Run(Config{Topology: m, Seed: seed + 1000})
		if a != b || (errA == nil) != (errB == nil) {
			t.Errorf("seed %d: two runs differ:\n%+v\n%+v", seed, a, b)
		}
		c, _ := Run(Config{Topology: m, Seed: seed + 2000})
		if a.Hash == c.Hash {
			t.Errorf("seeds %d and %d have the same hash", seed+1000, seed+2000)
		}
	}
}

// TestCheckersFind makes errors on purpose, and checks that the right rule is violated.
func TestCheckersFind(t *testing.T) {
	m := topology(t, "t3000")
	for _, c := range []struct {
		how  sabotage
		rule string
	}{
		{sabotageMemory, "memory"},
		{sabotageTwice, "memory"},
		{sabotageSwallow, "reach"},
		{sabotageDoubleEnd, "one end"},
		{sabotageLie, "exactly once"},
		{sabotageRead, "reads"},
		{sabotageBlame, "cause"},
		{sabotageMember, "exactly once"},
		{sabotageDoubt, "certain"},
		{sabotageCount, "one end"},
	} {
		var f *Failure
		_, err := Run(Config{Topology: m, Seed: 7, Only: []int{}, sabotage: c.how})
		if !errors.As(err, &f) {
			t.Errorf("sabotage %d: no rule was violated: %v", c.how, err)
			continue
		}
		if f.Rule != c.rule {
			t.Errorf("sabotage %d violated the rule %q; want %q: %v", c.how, f.Rule, c.rule, f)
		}
	}
}

// found are seeds that once failed, by topology.
var found = map[string][]uint64{
	"spec-l1": {38, 910033, 911013}, // a route back to the mesh that a packet came from, which route bytes cannot express
}

// seq returns the numbers 1 to n.
func seq(n uint64) (s []uint64) {
	for k := range n {
		s = append(s, k+1)
	}
	return s
}

// TestTopologies runs some seeds on lines, rings, tori and machines of several meshes. scripts/soak
// runs more seeds.
func TestTopologies(t *testing.T) {
	for _, name := range []string{"line:5", "ring:5", "ring:6", "torus:3x3", "torus:4x4", "torus-x:2x4", "2xt3000", "spec-l1", "testdata/tori-in-z.textproto"} {
		t.Run(name, func(t *testing.T) {
			m, n := topology(t, name), *flagEach
			if testing.Short() {
				n = 2
			}
			for _, seed := range append(found[name], seq(n)...) {
				r, err := Run(Config{Topology: m, Seed: seed, Quick: true})
				if err != nil {
					t.Fatalf("%v\n%s\nreplay: %s", err, shrink(m, seed, err), replay(seed, name))
				}
				if p, err := route.New(m, route.Config{}); err != nil || (r.Other > 0) != (p.Other() != p) {
					t.Errorf("seed %d: %d requests took the other direction round a ring", seed, r.Other)
				}
			}
		})
	}
}
