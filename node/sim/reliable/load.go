package reliable

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Load is an experiment: packets of one length arrive at each endpoint at random times (a Poisson
// process), whether or not the network is fast enough.
type Load struct {
	Config
	Pattern string  // name of a pattern of node/traffic
	Words   int     // data flits of a packet; a packet also has a head, a tail and, with tokens, a token
	Offered float64 // head, data and tail flits that arrive per sending node and flit time; more than 0, at most 1
	Failed  Failure // a link or node that is dead from the start

	Warm, Measure, Drain int // flit times before, in and after the time in which the measured packets arrive
}

// Point is the result of a [Load].
type Point struct {
	Offered  float64
	Accepted float64 // head, data and tail flits that were delivered per sending node and flit time
	Mean     float64 // latency from the packet's arrival at the source to its delivery, in flit times
	P99      float64
	Hops     float64 // mean hops of the measured packets' heads, from all routers' counters
	Unstable bool    // some measured packets were not delivered in time
	Fault    float64 // share of all hops that used a fault-handling channel
	Packets  int     // packets measured
}

// maxLoadTime is the largest number of flit times of an experiment.
const maxLoadTime = 10_000_000

func (l *Load) check() error {
	switch {
	case !(l.Offered > 0 && l.Offered <= 1):
		return fmt.Errorf("an offered load of %v flits per node and flit time; the load is above 0 and at most 1", l.Offered)
	case l.Words < 0 || l.Words > MaxWords:
		return fmt.Errorf("packets of %d words; the limit is %d", l.Words, MaxWords)
	case l.Warm < 0 || l.Measure < 1 || l.Drain < 0 || l.Warm > maxLoadTime || l.Measure > maxLoadTime || l.Drain > maxLoadTime:
		return fmt.Errorf("an experiment of %d, %d and %d flit times; each is at most %d", l.Warm, l.Measure, l.Drain, maxLoadTime)
	}
	return nil
}

// loadRun is an experiment that runs.
type loadRun struct {
	*Load
	n        *Network
	pairs    *PairTable
	rng      *rand.Rand
	next     []Time // next arrival at each node
	pause    float64
	seq      []uint64
	words    []uint64
	from, to Time
	born     map[uint64]Time
	took     []float64
	accepted int
}

// Run runs the experiment.
func (l Load) Run() (Point, error) {
	r, err := l.start()
	if err != nil {
		return Point{}, err
	}
	if err := r.run(r.to + Time(l.Drain)*FlitTime); err != nil {
		return Point{}, err
	}
	return r.point(), nil
}

// start returns the experiment before its first packet.
func (l Load) start() (*loadRun, error) {
	if err := l.check(); err != nil {
		return nil, err
	}
	pairs, err := Pairs(l.Mesh, l.Pattern)
	if err != nil {
		return nil, err
	}
	n, err := New(l.Config)
	if err != nil {
		return nil, err
	}
	switch f := l.Failed; {
	case f.Node:
		err = n.Kill(f.At)
	case f.Link:
		err = n.Cut(f.At, f.Dir)
	}
	if err != nil {
		return nil, err
	}
	n.RunUntil(2 * warmUp * FlitTime)
	r := &loadRun{Load: &l, n: n, pairs: pairs, rng: rand.New(rand.NewPCG(l.Seed, 99)), words: make([]uint64, l.Words), born: map[uint64]Time{}}
	r.pause = float64(l.Words+2) / l.Offered * float64(FlitTime)
	r.from = n.Now() + Time(l.Warm)*FlitTime
	r.to = r.from + Time(l.Measure)*FlitTime
	r.next, r.seq = make([]Time, l.Mesh.Nodes()), make([]uint64, l.Mesh.Nodes())
	for i := range r.next {
		r.next[i] = n.Now() + r.wait()
	}
	return r, nil
}

func (r *loadRun) wait() Time { return Time(r.rng.ExpFloat64() * r.pause) }

// run runs the network up to a time, one flit time after the other.
func (r *loadRun) run(end Time) error {
	for r.n.Now() < end {
		now := r.n.Now() + FlitTime
		for i := range r.next {
			for r.next[i] <= now {
				if err := r.arrive(i, r.next[i]); err != nil {
					return err
				}
				r.next[i] += r.wait()
			}
		}
		r.n.RunUntil(now)
		for d, ok := r.n.PollDelivery(); ok; d, ok = r.n.PollDelivery() {
			if r.from < d.At && d.At <= r.to {
				r.accepted += len(d.Words) + 2
			}
			if at, ok := r.born[d.ID()]; ok {
				r.took = append(r.took, float64(d.At-at)/float64(FlitTime))
				delete(r.born, d.ID())
			}
		}
	}
	return r.n.Check()
}

// arrive puts a packet into the queue of node i. Nothing arrives at a dead node, or for it. A full
// queue discards the packet, which the result counts as not delivered.
func (r *loadRun) arrive(i int, at Time) error {
	src, dst := r.pairs.Draw(r.rng, i)
	if src == dst || r.Failed.Node && (src == r.Failed.At || dst == r.Failed.At) {
		return nil
	}
	p := &Packet{Src: src, Dst: dst, Seq: r.seq[i], Words: r.words}
	r.seq[i]++
	if r.from < at && at <= r.to {
		r.born[p.ID()] = at
	}
	if r.n.nodes[i].host.waiting() >= MaxQueued {
		return nil
	}
	return r.n.Send(p)
}

func (r *loadRun) point() Point {
	c := r.n.Total()
	hops := c.OnClass[ClassAdaptive] + c.OnClass[ClassOrdered] + c.OnClass[ClassFault]
	p := Point{Offered: r.Offered, Packets: len(r.took), Unstable: len(r.born) > 0,
		Accepted: float64(r.accepted) / float64(r.Measure) / float64(r.pairs.senders()),
		Fault:    float64(c.OnClass[ClassFault]) / float64(max(hops, 1)),
		Hops:     float64(hops) / float64(max(c.Heads-hops, 1))} // each packet's last head crosses to its endpoint
	slices.Sort(r.took)
	for _, x := range r.took {
		p.Mean += x / float64(len(r.took))
	}
	if len(r.took) > 0 {
		p.P99 = r.took[len(r.took)*99/100]
	} else {
		p.Mean, p.P99 = math.NaN(), math.NaN()
	}
	return p
}
