package sim

import (
	"bytes"
	"fmt"
	"time"

	"ttfabric/node/chip"
	"ttfabric/node/flow"
	"ttfabric/node/kernel"
	"ttfabric/node/scenario"
	"ttfabric/router"
	"ttfabric/router/route"
	"ttfabric/ttlink"
	"ttfabric/ttlink/fault"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Driven is a simulated fabric whose requests a program outside the simulator makes. The program decides how far
// virtual time runs. The chips have the options of a fabric that 'ttfabric up' starts. A run depends on the
// Config and on the calls of the program alone.
type Driven struct {
	s    *Sim
	outs []*outside
	step func(chip int) // see OnStep
}

// hooks are functions that the user of a run sets. Each may be nil.
type hooks struct {
	onEvent func(*machine, chip.Event) // gets each event of a chip
	onStep  func(*machine)             // is called after each step of a chip

	onReceive func(*machine, wire.Channel, []byte)          // gets each datagram before the chip does
	onSend    func(*machine, wire.Channel, ttlink.Transmit) // sends the chip's datagrams; nil: the datagrams go into the cable
	onFeed    func(*machine) (more bool)                    // hands requests to the chip; true: the chip must run again

	onResult func(*machine, flow.Result)       // gets the results of requests that came with a snapshot
	lives    map[wire.FabricNodeID]incarnation // identities of chips from a snapshot; nil: the simulator draws them
}

// outside is the client inside a chip. It hands the requests of the program outside to the chip.
type outside struct {
	queue []asked // requests that the chip has not taken
	last  asked   // the request that the chip has taken last
	open  map[uint64]asked
	token uint64

	performed func(src wire.FabricNodeID, cmd *wire.Command) // see OnPerformed; nil: nobody listens
}

// asked is a request of the program outside.
type asked struct {
	r    flow.Request
	done func(flow.Result)
}

// NewDriven starts a fabric, and returns when all links are up.
func NewDriven(cfg Config) (*Driven, error) {
	return newDriven(cfg, func(s *Sim) error { return s.around.of(scenario.Fabric{}) }, func(s *Sim) func() bool { return (&stage{s: s}).intact })
}

// newDriven starts a fabric with the surroundings that the function "settle" sets. newDriven returns when
// the function that the argument "until" returns reports true.
func newDriven(cfg Config, settle func(*Sim) error, until func(*Sim) func() bool) (*Driven, error) {
	cfg.bare = true
	s, err := newSim(cfg)
	if err != nil {
		return nil, err
	}
	if err := settle(s); err != nil {
		return nil, err
	}
	if s.routes, err = route.New(cfg.Topology, s.around.route); err != nil {
		return nil, err
	}
	s.scripted, s.around.kernels = true, cfg.Kernels
	d := &Driven{s: s, step: func(int) {}}
	ready := until(s)
	s.begin()
	if !s.runUntil(s.now.Add(SettleTime), ready) {
		if s.failure != nil {
			return nil, s.failure
		}
		return nil, fmt.Errorf("%s does not come up in %v", cfg.Topology, SettleTime)
	}
	for _, m := range s.machines {
		o := &outside{open: map[uint64]asked{}}
		d.outs = append(d.outs, o)
		m.chip.SetClient(o)
	}
	s.onStep = func(m *machine) { d.step(m.index) }
	return d, nil
}

// OnStep sets a function that the simulator calls after each step of a chip. The function gets the chip's
// place in the topology.
func (d *Driven) OnStep(f func(chip int)) { d.step = f }

// OnKernel sets a function that gets each event of the kernels of a chip, with the chip's place in the topology.
func (d *Driven) OnKernel(f func(chip int, e kernel.Event)) {
	d.s.onEvent = func(m *machine, e chip.Event) {
		if e.Kernel != nil {
			f(m.index, *e.Kernel)
		}
	}
}

// StartJob starts the part of a job of a living chip.
func (d *Driven) StartJob(chip int, j kernel.Job) error {
	m := d.s.machines[chip]
	err := m.chip.StartJob(d.s.clock(m), j)
	d.s.run(m)
	return err
}

// EndJob stops a job of a living chip on all chips of the job, and reports whether the job ran on this chip.
func (d *Driven) EndJob(chip int, id kernel.JobID, text string) bool {
	m := d.s.machines[chip]
	ok := m.chip.EndJob(d.s.clock(m), id, kernel.End{Why: kernel.EndStopped, By: m.node, Text: text})
	d.s.run(m)
	return ok
}

// Now returns the virtual time.
func (d *Driven) Now() mono.Time { return d.s.now }

// Next returns the time of the next event.
func (d *Driven) Next() mono.Time {
	if len(d.s.queue.heap) == 0 {
		return mono.Never
	}
	return d.s.queue.heap[0].at
}

// Run carries out the events up to a time. If a chip is wrong, the error is a [*Failure].
func (d *Driven) Run(until mono.Time) error {
	s := d.s
	for s.failure == nil && d.Next() <= until {
		s.now = max(s.now, d.Next())
		w := s.queue.take()
		s.report.Events += w.count()
		s.happens(w)
	}
	s.now = max(s.now, until)
	if s.failure != nil {
		return s.failure
	}
	return nil
}

// Events returns the number of events so far.
func (d *Driven) Events() int { return d.s.report.Events }

// Submit hands a request to a living chip. The chip starts its requests in order, as it has room. The simulator
// calls "done" once, in Run or Submit, unless the chip dies first.
func (d *Driven) Submit(chip int, r flow.Request, done func(flow.Result)) {
	d.outs[chip].queue = append(d.outs[chip].queue, asked{r, done})
	d.s.wakeAt(d.s.machines[chip], d.s.now)
}

// Read copies len(b) bytes of the memory of a living chip into b.
func (d *Driven) Read(chip int, a wire.NocAddr, b []byte) wire.Outcome {
	return d.s.machines[chip].chip.Memory().Read(a, b)
}

// Alive reports whether a chip lives.
func (d *Driven) Alive(chip int) bool { return d.s.machines[chip].chip != nil }

// Kill ends a chip, as kill -9 ends a process. The requests of the chip never end.
func (d *Driven) Kill(chip int) {
	d.s.stop(d.s.machines[chip], false)
	d.outs[chip].queue = nil
	clear(d.outs[chip].open)
}

// Dark sets what the host of a dead chip does with datagrams: in the dark, the host answers nothing, as if the
// host were off. Otherwise the host refuses them.
func (d *Driven) Dark(on bool) { d.s.around.dark = on }

// Silence returns the longest time after which a chip notices that a neighbour is silent, and the grace period
// after which the chip gives up requests to a silent chip.
func (d *Driven) Silence() (silence, grace time.Duration) {
	p := &d.s.around.profile
	return p.DeadIdle, chip.GraceDeadTimes * p.DeadTraffic
}

// Cables returns the number of cables.
func (d *Driven) Cables() int { return len(d.s.cables) }

// Joins returns the places of the two chips that a cable joins.
func (d *Driven) Joins(cable int) (a, b int) {
	c := d.s.cables[cable]
	return c.chips[0].index, c.chips[1].index
}

// Lose makes all cables lose a share of the datagrams.
func (d *Driven) Lose(share float64) {
	for _, c := range d.s.cables {
		for side := range c.way {
			d.s.set(c, side, fault.Options{Delay: cleanDelay, Loss: share})
		}
	}
}

// Cut cuts both directions of a cable, or repairs them.
func (d *Driven) Cut(cable int, on bool) {
	for side := range 2 {
		d.s.cutWay(d.s.cables[cable], side, on, false)
	}
}

// Retrain makes the link of a cable train anew.
func (d *Driven) Retrain(cable int) {
	c := d.s.cables[cable]
	d.s.order(c.chips[0], c, 0, false, router.CommandRetrain)
}

// Avoid takes a cable out of service at one end, or puts it back. The frames of the link take a parallel
// cable if there is one, and new tables lead round the cable otherwise.
func (d *Driven) Avoid(cable int, on bool) {
	c := d.s.cables[cable]
	if m := c.chips[0]; m.chip != nil {
		m.chip.Avoid(d.s.clock(m), c.ports[0].Channel, on)
		d.s.run(m)
	}
}

// Counters returns how many tables the chips have installed, how many links went down, and how many frames the
// links of the living chips have sent again.
func (d *Driven) Counters() (tables, downs int, resent uint64) {
	for _, m := range d.s.machines {
		if m.chip != nil {
			for _, p := range m.chip.Status().Ports {
				resent += p.Frames.Retransmitted
			}
		}
	}
	return d.s.report.Tables, d.s.report.Downs, resent
}

// Next implements [chip.Client].
func (o *outside) Next(mono.Time) (flow.Request, bool) {
	if len(o.queue) == 0 {
		return flow.Request{}, false
	}
	o.last, o.queue = o.queue[0], o.queue[1:]
	o.token++
	o.open[o.token] = o.last
	r := o.last.r
	r.Token = o.token
	return r, true
}

// Undo implements [chip.Client].
func (o *outside) Undo() {
	delete(o.open, o.token)
	o.token--
	o.queue = append([]asked{o.last}, o.queue...)
}

// Done implements [chip.Client].
func (o *outside) Done(_ mono.Time, r flow.Result) {
	q := o.open[r.Token]
	delete(o.open, r.Token)
	r.Token, r.Data = q.r.Token, bytes.Clone(r.Data)
	q.done(r)
}

// Deadline implements [chip.Waker]: a program outside has no plans.
func (o *outside) Deadline() (mono.Time, bool) { return 0, false }

// settleTime is the virtual time that Settle runs at most.
const settleTime = time.Minute

// Settle runs until all links are up by their own cables, and reports whether they are.
func (d *Driven) Settle() bool {
	g := &stage{s: d.s}
	return d.s.runUntil(d.s.now.Add(settleTime), g.intact)
}
