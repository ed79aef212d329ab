package chip

import (
	"ttfabric/node/flow"
	"ttfabric/node/kernel"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// kernelHost implements [kernel.Host] for the chip's kernels.
type kernelHost machine

// Start starts a request of a kernel.
func (h *kernelHost) Start(now mono.Time, r *flow.Request) flow.Admission {
	return (*machine)(h).start(now, r, flow.Kernel)
}

// Busy reports whether a transaction command queue takes no command now.
func (h *kernelHost) Busy(wire.Channel, int) bool { return true }

// Send gives a command to a transaction command queue.
func (h *kernelHost) Send(mono.Time, wire.Channel, int, uint32, uint32, int) {}

// Sending reports whether a command still reads a range of an ethernet tile.
func (h *kernelHost) Sending(wire.Channel, uint32, int) bool { return false }

// addKernels makes the machine of the chip's kernels.
func (c *machine) addKernels() {
	c.kernels = kernel.New(kernel.Config{Self: c.cfg.Node, Topology: c.cfg.Topology, Memory: c.memory, Host: (*kernelHost)(c),
		Table: c.cfg.Kernels, Seed: c.cfg.KernelSeed, Running: c.cfg.Running})
}

// StartJob starts this chip's part of a job.
func (c *machine) StartJob(now mono.Time, j kernel.Job) error {
	err := c.kernels.Start(now, j)
	c.kernelEvents(now)
	return err
}

// EndJob ends a job on this chip. EndJob returns false if no such job runs.
func (c *machine) EndJob(now mono.Time, id kernel.JobID, e kernel.End) bool {
	ok := c.kernels.End(now, id, e)
	c.kernelEvents(now)
	return ok
}

// Jobs lists the jobs that run on the chip.
func (c *machine) Jobs() []kernel.Running { return c.kernels.Jobs() }

// runKernels gives the kernels that can continue their turn. runKernels returns true if a kernel ran.
func (c *machine) runKernels(now mono.Time) bool {
	if !c.kernels.Run(now) {
		return false
	}
	c.kernelEvents(now)
	return true
}

// kernelEvents passes the events of the kernels to the chip's events.
func (c *machine) kernelEvents(now mono.Time) {
	for e, ok := c.kernels.PollEvent(); ok; e, ok = c.kernels.PollEvent() {
		c.events.add(Event{At: now, Kernel: &e})
	}
}

// endJobsOf ends the jobs that use a link whose session has ended.
func (c *machine) endJobsOf(now mono.Time, i int) {
	if c.kernels.Idle() {
		return
	}
	p := &c.ports.list[i]
	for _, id := range c.kernels.Uses(func(ch wire.Channel) bool { return ch == p.Local.Channel }, func(wire.FabricNodeID) bool { return false }) {
		c.EndJob(now, id, kernel.End{Why: kernel.EndLink, By: p.Peer.Node, Text: "link " + p.Local.String()})
	}
}

// endLostJobs ends the jobs with a chip that no route leads to.
func (c *machine) endLostJobs(now mono.Time) {
	if c.kernels.Idle() {
		return
	}
	for _, lost := range c.tables.unreachable {
		for _, id := range c.kernels.Uses(func(wire.Channel) bool { return false }, func(n wire.FabricNodeID) bool { return n == lost }) {
			c.EndJob(now, id, kernel.End{Why: kernel.EndChip, By: lost})
		}
	}
}

// closeJobs ends all jobs, because the chip is closed.
func (c *machine) closeJobs(now mono.Time) {
	c.kernels.Close(now)
	c.kernelEvents(now)
}

// HasKernel reports whether the chip can run a kernel of a name.
func (c *machine) HasKernel(name string) bool { return c.kernels.Has(name) }

var _ kernel.Host = (*kernelHost)(nil)
