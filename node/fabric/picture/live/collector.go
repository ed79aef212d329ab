package live

import (
	"context"
	"slices"
	"sync"
	"time"

	"ttfabric/node/admin/api"
	"ttfabric/node/fabric"
	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/picture"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/fabric/watch"
	"ttfabric/router"
	"ttfabric/router/route"
	"ttfabric/wire"
)

// Times of the collector.
const (
	askEvery    = time.Second            // time between two rounds of questions
	askTime     = 800 * time.Millisecond // longest time for a chip to answer in a round
	soonest     = 400 * time.Millisecond // shortest time from one round to an early round after an event
	netemEvery  = 30 * time.Second       // longest time between two questions about impairments
	detailEvery = 900 * time.Millisecond // time for which answers about a chip's details and the balance of packets are used again
)

// Collector keeps the picture of one running fabric. Several goroutines may use a Collector at once.
type Collector struct {
	*Feed
	m     *picture.Machine
	open  func() (*fabric.Fabric, error)
	plan  *route.Plan
	sizes router.SlotProfile
	early chan bool // an event asks for an early round; true: the impairments may have changed

	mu      sync.Mutex // guards the fields below
	fab     *fabric.Fabric
	pic     *picture.Picture
	log     picture.Log
	around  *route.Plan // the plan around the cables in out
	out     []wire.PortID
	details map[wire.FabricNodeID]*answer[picture.ChipDetail]
	balance answer[fabric.Balance]

	clients map[folder.Chip]*api.Client // only the goroutine of Run uses the clients
}

// New returns a collector of the fabric that the function "open" opens. The collector calls "open" again
// and again, to find newly started chips. If the first call fails, New returns the error.
func New(open func() (*fabric.Fabric, error)) (*Collector, error) {
	open = cached(open)
	fab, err := open()
	if err != nil {
		return nil, err
	}
	plan, err := fab.Plan()
	if err != nil {
		return nil, err
	}
	sizes, err := fab.Spec.SlotProfile()
	if err != nil {
		return nil, err
	}
	m := picture.NewMachine(fab.Name(), fab.Topology)
	return &Collector{Feed: NewFeed(), m: m, open: open, fab: fab, plan: plan, around: plan, sizes: sizes.Only(plan.VCs()), pic: picture.New(m),
		early: make(chan bool, 64), details: map[wire.FabricNodeID]*answer[picture.ChipDetail]{}, clients: map[folder.Chip]*api.Client{}}, nil
}

// cached returns a function that opens a fabric as the function "open" does, but reads the topology only if the
// fabric is another one than at the last call. The collector opens the fabric several times a second, and a
// large topology takes tens of milliseconds.
func cached(open func() (*fabric.Fabric, error)) func() (*fabric.Fabric, error) {
	var mu sync.Mutex
	var last *fabric.Fabric
	return func() (*fabric.Fabric, error) {
		mu.Lock()
		defer mu.Unlock()
		if last != nil && last.Spec.Runtime != spec.Docker { // a fabric of containers may have no folder
			if s, err := last.Dir.Spec(); err == nil && s.ID == last.Spec.ID && s.Created.Equal(last.Spec.Created) {
				return last, nil
			}
		}
		f, err := open()
		if err == nil {
			last = f
		}
		return f, err
	}
}

// Machine returns the description of the machine.
func (c *Collector) Machine() *picture.Machine { return c.m }

// State returns the latest state.
func (c *Collector) State() *picture.State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pic.State()
}

// Events returns the latest events, oldest first.
func (c *Collector) Events() []picture.Event {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.log.Events()
}

// History returns the rates of a cable over time; see [picture.Picture.History].
func (c *Collector) History(cable int) picture.History {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pic.History(cable)
}

// Run keeps the picture until ctx ends or the fabric is taken down. Run asks the chips only while somebody
// watches. The function "warn" gets messages for the user.
func (c *Collector) Run(ctx context.Context, warn func(format string, a ...any)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- watch.Running(ctx, c.open, watch.Options{Follow: true, Last: picture.KeptEvents, Warn: warn, Show: c.event})
	}()
	defer func() {
		for _, cl := range c.clients {
			cl.Close()
		}
	}()
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	var asked, netem time.Time
	for {
		early, faults := false, false
		select {
		case <-ctx.Done():
			return nil
		case err := <-ended:
			return err
		case <-tick.C:
		case <-c.Wake():
			netem = time.Time{}
		case faults = <-c.early:
			early = true
		}
		for done := false; early && !done; {
			select {
			case f := <-c.early: // one round answers all events that have come so far
				faults = faults || f
			case <-time.After(time.Until(asked.Add(soonest))):
				done = true
			case <-ctx.Done():
				return nil
			}
		}
		if faults {
			netem = time.Time{}
		}
		if !c.Watched() {
			continue
		}
		asked = time.Now()
		whole := time.Since(netem) > netemEvery
		if whole {
			netem = asked
		}
		c.round(ctx, asked, whole)
	}
}

// event adds an event to the log, and asks for an early round if links, chips or faults changed.
func (c *Collector) event(v api.EventView) {
	e := c.m.Event(&v)
	c.mu.Lock()
	c.log.Add(e)
	c.mu.Unlock()
	c.Publish(&Update{Event: &e})
	switch v.Type {
	case "fault", "link", "tables", "member", "router":
		select {
		case c.early <- v.Type == "fault":
		default: // enough events ask already
		}
	}
}

// round asks all chips once, and publishes the new state. If "whole" is true, round also asks for
// the impairments.
func (c *Collector) round(ctx context.Context, now time.Time, whole bool) {
	fab, err := c.open()
	if err != nil {
		return // the fabric is being taken down; the events tell Run
	}
	cs, absent := c.connect(fab)
	r := picture.Round{Absent: absent}
	r.Views, r.Silent = fabric.Values(fabric.Each(ctx, cs, askTime, func(ctx context.Context, cl *api.Client) (api.ChipBrief, error) { return cl.Brief(ctx) }))
	var ports []api.ImpairmentView
	if whole {
		lists, _ := fabric.Values(fabric.Each(ctx, cs, askTime, func(ctx context.Context, cl *api.Client) ([]api.ImpairmentView, error) { return cl.Netem(ctx) }))
		ports = slices.Concat(lists...)
	}
	if ctx.Err() != nil {
		return
	}
	c.mu.Lock()
	c.fab = fab
	old := c.pic.State()
	if whole {
		c.pic.Impair(ports)
	}
	s := c.pic.Take(now, r)
	c.mu.Unlock()
	c.Publish(&Update{State: s, Changes: s.Since(old)})
}

// connect returns clients of the running chips. The chips that run since the last call keep their
// clients and connections.
func (c *Collector) connect(fab *fabric.Fabric) (cs []*api.Client, absent []wire.FabricNodeID) {
	running := map[wire.FabricNodeID]folder.Chip{}
	for _, f := range fab.Running() {
		running[f.Chip] = f
	}
	for f, cl := range c.clients {
		if running[f.Chip] != f {
			cl.Close()
			delete(c.clients, f)
		}
	}
	for _, n := range fab.Topology.Nodes() {
		f, ok := running[n]
		if !ok {
			absent = append(absent, n)
			continue
		}
		if c.clients[f] == nil {
			c.clients[f] = fab.ClientAt(f)
		}
		cs = append(cs, c.clients[f])
	}
	return cs, absent
}
