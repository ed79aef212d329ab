// Package curves measures what the Reliable Router does under load, beside the paper's figures and
// beside BookSim. The command 'ttfabric model TOPOLOGY --router reliable' prints the results. The
// folder has the curves that README.md of node/sim/reliable shows.
package curves

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"

	"ttfabric/node/sim/reliable"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// Words is the number of data flits of a packet. With head and tail, a packet has 10 flits.
const Words = 8

// Loads are the offered loads of a curve, in flits per node and flit time.
var Loads = []float64{0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4}

// Times of the experiment for each point, in flit times.
const (
	warm    = 500
	measure = 2000
	drain   = 2000
)

// Curve is a curve of latency over load.
type Curve struct {
	Mesh    reliable.Mesh
	Pattern string
	Policy  reliable.Policy
	Tokens  bool // whether the routers run the Unique Token Protocol
	Failed  reliable.Failure
	Seed    uint64
	booksim string // file in the folder booksim with the corresponding curve, or ""
}

// Name names the curve by what distinguishes the curve from others of the same mesh.
func (c *Curve) Name() string {
	name := c.Pattern + ", " + c.Policy.String()
	if c.Tokens {
		name += ", tokens"
	}
	if c.Failed.Link {
		name += ", one link failed"
	}
	return name
}

// Load returns the experiment that measures the curve's point at an offered load.
func (c *Curve) Load(offered float64) reliable.Load {
	return reliable.Load{Config: reliable.Config{Mesh: c.Mesh, Policy: c.Policy, NoTokens: !c.Tokens, Phase: reliable.OnePhase, Seed: c.Seed}, Pattern: c.Pattern,
		Words: Words, Offered: offered, Failed: c.Failed, Warm: warm, Measure: measure, Drain: drain}
}

// Options say what [Run] and [Paper] measure. The zero value of a field has a meaning of its own.
type Options struct {
	Patterns []string  // patterns of node/traffic; none: uniform, and transpose on a square
	Loads    []float64 // offered loads in rising order, above 0 and at most 1; none: [Loads]
	Seed     uint64    // seed of the packets' times and of the routers' choices
}

// policies are the policies of the curves, and whether a failed link is a curve, too.
var policies = []struct {
	policy  reliable.Policy
	failed  bool
	booksim string // routing function and number of channels in BookSim
}{
	{reliable.Adaptive, true, "min_adapt_vc3"}, {reliable.Ordered, true, "dor_vc1"}, {reliable.OrderedIn, false, "dor_vc3"},
}

// Of returns the curves of a mesh: for each pattern adaptive and dimension-ordered routes, without and
// with tokens, without and with one failed link. The failed link is the eastward one in the middle.
// Only the first pattern has a failed link. A mesh of 8×8 has BookSim's curves of the same patterns.
func Of(m reliable.Mesh, o Options) (out []Curve) {
	patterns := o.Patterns
	if len(patterns) == 0 {
		patterns = []string{"uniform"}
		if m.W == m.H {
			patterns = append(patterns, "transpose")
		}
	}
	middle := reliable.Failure{Link: true, At: reliable.Place{X: (m.W - 1) / 2, Y: (m.H - 1) / 2}, Dir: wire.East}
	for i, pattern := range patterns {
		for _, p := range policies {
			if i > 0 && !p.failed {
				continue
			}
			for _, f := range []reliable.Failure{{}, middle} {
				if f.Link && (i > 0 || !p.failed) {
					continue
				}
				for _, tokens := range []bool{false, true} {
					c := Curve{Mesh: m, Pattern: pattern, Policy: p.policy, Tokens: tokens, Failed: f, Seed: o.Seed}
					if file := fmt.Sprintf("mesh%dx%d_%s_buf16_%s_hop4_len10.csv", m.H, m.W, p.booksim, pattern); !f.Link && !tokens && has(file) {
						c.booksim = file
					}
					out = append(out, c)
				}
			}
		}
	}
	return out
}

// Mesh returns the size of a topology that the Reliable Router can have: one mesh of at least two rows
// and two columns without wraps, and at most 32 of either (RR Table 1). Another topology is an error.
func Mesh(t *topo.Topology) (reliable.Mesh, error) {
	if len(t.Meshes) == 1 {
		m := t.Meshes[0]
		if !m.WrapX && !m.WrapY && len(t.Missing) == 0 && m.Rows >= 2 && m.Cols >= 2 && m.Rows <= reliable.MaxSide && m.Cols <= reliable.MaxSide {
			return reliable.Mesh{W: m.Cols, H: m.Rows}, nil
		}
	}
	return reliable.Mesh{}, fmt.Errorf("%s: the Reliable Router needs one full mesh without wraps, of 2 to %d rows and columns, such as mesh:8x8", t.Name, reliable.MaxSide)
}

// Row is one point of a curve. A line of null values stands for what was not measured.
type Row struct {
	Curve    string   `json:"curve"`                // pattern, routes, and what else distinguishes the curve
	Offered  float64  `json:"offered"`              // head, data and tail flits that arrive per sending node and flit time
	Accepted float64  `json:"accepted"`             // flits that were delivered per sending node and flit time
	Mean     *float64 `json:"latency_mean"`         // mean latency in flit times of 20 ns; null if no packet arrived, or if BookSim gave up
	P99      *float64 `json:"latency_p99"`          // 99th percentile of the latency in flit times; null also for BookSim
	Hops     float64  `json:"hops,omitempty"`       // mean hops of a packet; absent for BookSim
	Fault    float64  `json:"fault_hops,omitempty"` // share of the hops that used a fault-handling channel
	Unstable bool     `json:"unstable"`             // some measured packets were not delivered in time
	BookSim  bool     `json:"booksim"`              // BookSim has measured the point
}

func number(v float64) *float64 {
	if math.IsNaN(v) {
		return nil
	}
	return &v
}

// Run measures the curves of a mesh, each up to its first unstable point. Run calls progress with the
// number of points that are done or left out, and the number of all points, from several goroutines
// but one at a time. The rows are in the order of [Of]; BookSim's points follow the curve that they
// correspond to. If ctx ends, Run returns the points so far, and the error of ctx.
func Run(ctx context.Context, m reliable.Mesh, o Options, progress func(done, total int)) ([]Row, error) {
	loads := o.Loads
	if len(loads) == 0 {
		loads = Loads
	}
	if !slices.IsSorted(loads) || loads[0] <= 0 || loads[len(loads)-1] > 1 {
		return nil, fmt.Errorf("loads %v: want rising loads above 0 and at most 1", loads)
	}
	cs := Of(m, o)
	points, errs := make([][]reliable.Point, len(cs)), make([]error, len(cs))
	limit := make(chan struct{}, runtime.GOMAXPROCS(0))
	var mu sync.Mutex
	done := 0
	count := func(n int) {
		mu.Lock()
		defer mu.Unlock()
		done += n
		progress(done, len(cs)*len(loads))
	}
	var wg sync.WaitGroup
	for i := range cs {
		wg.Go(func() {
			limit <- struct{}{}
			defer func() { <-limit }()
			for k, offered := range loads {
				p, err := cs[i].Load(offered).Run()
				if err = cmp.Or(err, ctx.Err()); err != nil {
					errs[i] = err
					return
				}
				points[i] = append(points[i], p)
				if p.Unstable {
					count(len(loads) - k)
					return
				}
				count(1)
			}
		})
	}
	wg.Wait()
	var out []Row
	for i := range cs {
		if errs[i] != nil && !errors.Is(errs[i], ctx.Err()) {
			return nil, errs[i]
		}
		for k := range points[i] {
			out = append(out, rowOf(&cs[i], &points[i][k]))
		}
		bs, err := cs[i].bookSim()
		if err != nil {
			return nil, err
		}
		out = append(out, bs...)
	}
	return out, ctx.Err()
}

// rowOf returns the row of a point that the model has measured.
func rowOf(c *Curve, p *reliable.Point) Row {
	return Row{Curve: c.Name(), Offered: p.Offered, Accepted: p.Accepted, Mean: number(p.Mean), P99: number(p.P99), Hops: p.Hops, Fault: p.Fault, Unstable: p.Unstable}
}

// bookSim returns the rows of the corresponding curve of BookSim, or none.
func (c *Curve) bookSim() (out []Row, err error) {
	if c.booksim == "" {
		return nil, nil
	}
	ps, err := file(c.booksim)
	for _, p := range ps {
		r := Row{Curve: c.Pattern + ", " + bookSimName(c.booksim), Offered: p.Offered, Accepted: p.Accepted, Mean: number(p.Mean), Unstable: p.Unstable, BookSim: true}
		if p.Unstable {
			r.Mean = nil
		}
		out = append(out, r)
	}
	return out, err
}

// bookSimName names a run of BookSim by its file: the routing function and the number of channels.
func bookSimName(file string) string {
	_, name, _ := strings.Cut(file, "_")
	name, _, _ = strings.Cut(name, "_buf")
	routing, channels, _ := strings.Cut(name, "_vc")
	if channels == "1" {
		return fmt.Sprintf("BookSim %s, 1 channel", routing)
	}
	return fmt.Sprintf("BookSim %s, %s channels", routing, channels)
}
