package chip

import (
	"encoding/binary"
	"fmt"
	"slices"

	"ttfabric/node/firmware"
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
func (h *kernelHost) Busy(ch wire.Channel, q int) bool { return (*machine)(h).queueBusy(ch, q) }

// Send gives a command to a transaction command queue. If the last command on the queue was of
// another job, Send first sends the job's tag to the peer; see [kernel.OwnerOffset].
func (h *kernelHost) Send(_ mono.Time, job kernel.JobID, ch wire.Channel, q int, src, dst uint32, words int) (queue int, ok bool) {
	c := (*machine)(h)
	if i := c.ports.index(ch); i >= 0 {
		p := &c.ports.list[i]
		if p.owner.told[q] != job.Tag() {
			switch {
			case p.link.Busy(q): // a command of another job has frames without sequence numbers
				return q, false
			case c.startRegister(ch, 0, kernel.OwnerRegister(q), job.Tag()) != wire.OutcomeDone:
				return 0, false
			}
			p.owner.told[q], p.owner.telling = job.Tag(), lastCommand(p, 0)
			p.link.PlaceWrites()
		}
		if q != 0 && !p.owner.telling.numbered(p) {
			return 0, false
		}
	}
	return q, c.startWrite(ch, q, src, dst, words) == wire.OutcomeDone // the kernel has checked queue and addresses
}

// MoveHost starts a read or a write of host memory.
func (h *kernelHost) MoveHost(id, at uint64, b []byte, n int) bool {
	t := firmware.Transfer{ID: id, Addr: at, Write: b != nil, Data: b}
	if b == nil {
		t.Len = n
	}
	return h.lent.start(ofKernels, t)
}

// Released reports whether the chip at the other end of a channel has released a job.
func (h *kernelHost) Released(ch wire.Channel, tag uint32) bool {
	i := h.ports.index(ch)
	return i < 0 || h.ports.list[i].owner.released == tag || h.ports.list[i].link.Status().Session == 0
}

// owner holds what the two ends of a cable know about the jobs that use the cable, see
// [kernel.OwnerOffset]. The owner's registers are three words: the two words of OwnerRegister, and
// between them the word of ReleaseOffset.
type owner struct {
	told     [wire.NumQueues]uint32 // tag that this chip has last sent to its peer, for each queue; 0: none
	telling  lastOf                 // the command on queue 0 that sent the last tag
	heard    [wire.NumQueues]uint32 // tag that the peer has last sent, for each queue; 0: none
	released uint32                 // tag of the job that the peer has last released; 0: none
	release  []release              // jobs that this chip has to release
	sent     uint32                 // tag of the job that this chip has last released
	news     bool                   // the field released is new, and the machine of the kernels does not know the tag yet

	machine *kernel.Machine
	channel wire.Channel
}

// maxReleases is the largest number of jobs that wait for their release at one port. If more jobs
// wait, the chip forgets the oldest job. The chip at the other end then keeps the L1 of the
// forgotten job for [kernel.LingerMost].
const maxReleases = 2 * kernel.MaxJobs

// release is a job that a chip has to release.
type release struct {
	tag  uint32
	last lastOf // the last command on queue 1 before the end of the job
}

// lastOf is the last command that a queue of a port had begun at some moment.
type lastOf struct {
	queue int
	n     uint64 // commands that the queue had begun
}

// lastCommand returns the last command of a queue.
func lastCommand(p *port, q int) lastOf { return lastOf{q, p.link.WriteCount(q).Started} }

// numbered reports whether all frames of the command, and of the earlier commands on the same
// queue, have their sequence numbers. The other end performs frames in the order of their numbers,
// whatever their queue is. Therefore the other end performs these frames before the frames of each
// command that begins later, on any queue.
func (l lastOf) numbered(p *port) bool {
	return !p.link.Busy(l.queue) || p.link.WriteCount(l.queue).Started != l.n
}

// ownerWords is the number of the owner's registers.
const ownerWords = 3

// Load returns the tags that the peer has sent.
func (o *owner) Load(off uint64, b []byte) wire.Outcome {
	var all [ownerWords * wire.RegisterLen]byte
	for i, v := range [ownerWords]uint32{o.heard[0], o.released, o.heard[1]} {
		binary.LittleEndian.PutUint32(all[i*wire.RegisterLen:], v)
	}
	copy(b, all[off:])
	return wire.OutcomeDone
}

// Store takes the tag of the job that uses a queue of the cable from now on, or of a released job.
func (o *owner) Store(off uint64, b []byte) wire.Outcome {
	for ; len(b) > 0; off, b = off+wire.RegisterLen, b[wire.RegisterLen:] {
		switch v := binary.LittleEndian.Uint32(b); off / wire.RegisterLen {
		case 0:
			o.heard[0] = v
		case 1:
			o.released, o.news = v, true
		case 2:
			o.heard[1] = v
		}
	}
	return wire.OutcomeDone
}

// reset forgets all tags, because the session of the link has begun or ended.
func (o *owner) reset() {
	*o = owner{machine: o.machine, channel: o.channel}
	o.machine.Release(o.channel, 0)
}

// peerReleased handles a release that came over the cable of a port. If this chip does not know the
// job, this chip answers with a release, because the other end waits for one.
func (c *machine) peerReleased(p *port) {
	o := p.owner
	o.news = false
	known := c.kernels.Release(o.channel, max(o.released, 1))
	owed := slices.ContainsFunc(o.release, func(r release) bool { return r.tag == o.released })
	if !known && o.sent != o.released && !owed && len(o.release) < maxReleases {
		o.release = append(o.release, release{o.released, lastCommand(p, 1)})
		c.kernels.releasing = true
	}
}

// releaseJobs tells the other ends of cables which jobs have ended here. releaseJobs returns true
// if a release still waits.
func (c *machine) releaseJobs() (left bool) {
	for i := range c.ports.list {
		p := &c.ports.list[i]
		for len(p.owner.release) > 0 {
			r := &p.owner.release[0]
			if !r.last.numbered(p) || c.startRegister(p.Local.Channel, 0, kernel.ReleaseOffset, r.tag) != wire.OutcomeDone {
				break
			}
			p.owner.sent = r.tag
			p.owner.release = slices.Delete(p.owner.release, 0, 1)
			p.owner.told = [wire.NumQueues]uint32{} // a job that still runs sends its tag again
			p.link.PlaceWrites()
		}
		left = left || len(p.owner.release) > 0
	}
	return left
}

// addOwners maps the owner's registers into each ethernet tile with a cable.
func (c *machine) addOwners() error {
	for i := range c.ports.list {
		p := &c.ports.list[i]
		p.owner = &owner{machine: c.kernels.Machine, channel: p.Local.Channel}
		if err := c.memory.MapRegisters(p.tileAddr(kernel.OwnerOffset), ownerWords*wire.RegisterLen, p.owner); err != nil {
			return err
		}
	}
	return nil
}

// Sending reports whether a command still reads a range of an ethernet tile.
func (h *kernelHost) Sending(ch wire.Channel, a uint32, n int) bool {
	_, inUse := (*machine)(h).sourceInUse(ch, a, n)
	return inUse
}

// programs holds the kernels of a chip, and the ends of jobs that chips report to each other.
type programs struct {
	*kernel.Machine
	notices   []notice        // ends of jobs that this chip has to report to other chips
	verdicts  []verdict       // ends of jobs whose reason this chip does not know yet
	doubt     *verdict        // the verdict about the jobs that the chip ends now; nil: the chip knows the reason
	heard     []kernel.Notice // ends of jobs that other chips have reported, and that this chip has not handled yet
	releasing bool            // a port has jobs to release
	sent      uint64          // number of notices and reads of life registers that this chip has sent; part of their tokens
	lost      uint64          // number of notices that found no room, or that several attempts did not deliver
}

// notice is the end of a job that this chip has to report to another chip.
type notice struct {
	to    wire.FabricNodeID
	bytes [kernel.NoticeSize]byte
	token uint64 // token of the request under way; 0: none
	tries int
}

// Limits of notices, our own choices.
const (
	maxNotices  = 4 * kernel.MaxChips // notices that wait or are under way
	noticeTries = 8                   // attempts to deliver a notice
	noticeBit   = 1 << 63             // bit in the tokens of notices, and not in the tokens of kernels
)

// Load answers a read of the job register: zeros.
func (p *programs) Load(_ uint64, b []byte) wire.Outcome {
	clear(b)
	return wire.OutcomeDone
}

// Store takes a notice. The chip handles the notice after the command.
func (p *programs) Store(off uint64, b []byte) wire.Outcome {
	n, ok := kernel.ParseNotice(b)
	switch {
	case off != 0 || !ok:
		return wire.OutcomeBadCommand
	case len(p.heard) >= maxNotices:
		return wire.OutcomeAgain
	}
	p.heard = append(p.heard, n)
	return wire.OutcomeDone
}

// addKernels makes the machine of the chip's kernels.
func (c *machine) addKernels() error {
	c.kernels.Machine = kernel.New(kernel.Config{Self: c.cfg.Node, Topology: c.cfg.Topology, Memory: c.memory, Host: (*kernelHost)(c),
		Table: c.cfg.Kernels, Seed: c.cfg.KernelSeed, Running: c.cfg.Running})
	return c.memory.MapRegisters(kernel.NoticeAddr(c.cfg.Topology.Arch), kernel.NoticeSize, &c.kernels)
}

// StartJob starts this chip's part of a job. If a chip of the job has died, or if another chip has
// reported the end of the job, the part ends at once.
func (c *machine) StartJob(now mono.Time, j kernel.Job) error {
	for _, ch := range j.Channels {
		switch i := c.ports.index(ch); {
		case i < 0:
			return fmt.Errorf("job %d on chip %s: channel %d has no cable", j.ID, c.cfg.Node, ch)
		case c.ports.list[i].raw.on:
			return fmt.Errorf("job %d on chip %s: channel %d is in compliance mode; 'ttfabric router ttlink %s:%d' ends it", j.ID, c.cfg.Node, ch, c.cfg.Node, ch)
		}
	}
	err := c.kernels.Start(now, j)
	if err == nil {
		c.takeKernelEvents(now, false) // the other chips already know why a job ends at its start
		c.endLostJobs(now)
	}
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

// resetBy ends the jobs of the processors that a store of chip "by" has put into reset.
func (c *machine) resetBy(now mono.Time, by wire.FabricNodeID) {
	if c.memory.HasResets() {
		c.resets(now, "chip "+by.String())
	}
}

// resets ends the jobs of the processors that stores have put into reset. The text "by" names the
// chip or program that stored; an empty text names nobody.
func (c *machine) resets(now mono.Time, by string) {
	if c.memory.HasResets() {
		c.kernels.Reset(now, by)
		c.kernelEvents(now)
	}
}

// runKernels runs the kernels that can continue. runKernels returns true if a kernel ran.
func (c *machine) runKernels(now mono.Time) bool {
	if c.kernels.Idle() && len(c.kernels.heard)+len(c.kernels.notices)+len(c.kernels.verdicts) == 0 && !c.kernels.releasing {
		return false
	}
	c.resets(now, "")
	moved := c.kernels.Run(now)
	c.kernelEvents(now)           // the chip reports these ends to other chips; the chip does not report the ends below, which other chips have reported
	for i := range c.ports.list { // a kernel may wait until the queue is free
		moved = c.ports.list[i].link.PlaceWrites() || moved
	}
	if len(c.kernels.heard) > 0 {
		for _, n := range c.kernels.heard {
			moved = c.kernels.Hear(now, n.Job, n.End) || moved
			moved = c.told(now, &n) || moved
			c.takeKernelEvents(now, false)
		}
		c.kernels.heard = c.kernels.heard[:0]
	}
	if len(c.kernels.verdicts) > 0 {
		moved = c.ask(now) || moved
	}
	if len(c.kernels.notices) > 0 {
		c.sendNotices(now)
	}
	if c.kernels.releasing {
		c.kernels.releasing = c.releaseJobs()
	}
	return moved
}

// sendNotices sends the notices that wait, as many as the chip has room for.
func (c *machine) sendNotices(now mono.Time) {
	k := &c.kernels
	k.notices = slices.DeleteFunc(k.notices, func(n notice) bool { return n.tries > noticeTries })
	for i := range k.notices {
		n := &k.notices[i]
		if n.token != 0 {
			continue
		}
		k.sent++
		n.token = noticeBit | k.sent
		r := flow.Request{Token: n.token, Dst: n.to, Payload: n.bytes[:], Command: wire.Command{Type: wire.NocUnicastWrite, Addr: kernel.NoticeAddr(c.cfg.Topology.Arch)}}
		switch c.start(now, &r, flow.Kernel) {
		case flow.Accepted:
			n.tries++
		case flow.Busy:
			n.token = 0
		default: // the notice cannot reach the other chip, so the chip gives the notice up
			n.tries = noticeTries + 1
		}
	}
}

// noticed takes the result of a notice.
func (p *programs) noticed(r *flow.Result) {
	for i := range p.notices {
		n := &p.notices[i]
		switch {
		case n.token != r.Token:
		case r.Fate == flow.FateDone || r.Fate == flow.FateRefused && r.Outcome != wire.OutcomeAgain:
			n.tries = noticeTries + 1
		default:
			n.token = 0
			if n.tries >= noticeTries {
				n.tries++
				p.lost++
			}
		}
	}
}

// kernelEvents calls takeKernelEvents, and reports the jobs that have ended early to their other
// chips.
func (c *machine) kernelEvents(now mono.Time) { c.takeKernelEvents(now, true) }

// takeKernelEvents passes the events of the kernels to the chip's events. If "tell" is true, and a
// job has ended early, the chip also reports the end to the job's other chips.
func (c *machine) takeKernelEvents(now mono.Time, tell bool) {
	for e, ok := c.kernels.PollEvent(); ok; e, ok = c.kernels.PollEvent() {
		if e.Kind != kernel.JobEnded {
			c.events.add(Event{At: now, Kernel: &e})
			continue
		}
		c.toRelease(&e)
		if d := c.kernels.doubt; d != nil && e.End.Why == kernel.EndLink && len(c.kernels.verdicts) < maxVerdicts {
			v := *d
			v.event = e
			c.kernels.verdicts = append(c.kernels.verdicts, v)
			continue
		}
		c.ended(now, &e, tell)
	}
}

// ended reports the end of a job. If "tell" is true, and the job has ended early, the chip also
// reports the end to the job's other chips.
func (c *machine) ended(now mono.Time, e *kernel.Event, tell bool) {
	told := *e
	c.events.add(Event{At: now, Kernel: &told})
	if tell && e.End.Why != kernel.EndDone && e.End.Why != kernel.EndClosed {
		c.tellEnd(e)
	}
}

// toRelease notes that this chip must tell the other ends of a job's cables that the job has ended
// here.
func (c *machine) toRelease(e *kernel.Event) {
	for _, ch := range e.Channels {
		if i := c.ports.index(ch); i >= 0 {
			p := &c.ports.list[i]
			o := p.owner
			if len(o.release) == maxReleases {
				o.release = slices.Delete(o.release, 0, 1)
			}
			o.release = append(o.release, release{e.Job.Tag(), lastCommand(p, 1)})
			c.kernels.releasing = true
		}
	}
}

// tellEnd makes notices for the other chips of a job that has ended early.
func (c *machine) tellEnd(e *kernel.Event) {
	k := &c.kernels
	b := kernel.Notice{Job: e.Job, End: e.End}.Bytes()
	for _, to := range e.Chips {
		switch {
		case to == c.cfg.Node:
		case len(k.notices) >= maxNotices:
			k.lost++
		default:
			k.notices = append(k.notices, notice{to: to, bytes: b})
		}
	}
}

// closeJobs ends all jobs, because the chip is closed.
func (c *machine) closeJobs(now mono.Time) {
	c.kernels.Close(now)
	c.kernelEvents(now)
	c.judge(now, func(*verdict) bool { return true })
}

// HasKernel reports whether the chip can run a kernel of a name.
func (c *machine) HasKernel(name string) bool { return c.kernels.Has(name) }

var _ kernel.Host = (*kernelHost)(nil)
