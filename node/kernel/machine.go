package kernel

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"ttfabric/node/flow"
	"ttfabric/node/noc"
	"ttfabric/router/topo"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Limits, our own choices.
const (
	Budget       = 1000                   // calls of a Context in one turn; a kernel that makes more calls yields; each further 4096 bytes of a load or store count as one more call
	StepBudget   = 10 * Budget            // calls of all kernels in one step of the chip; then the links have their turn
	PollPause    = 100 * time.Microsecond // a kernel that used its budget up continues after this time, or after a store into its tile
	MaxKernels   = 256                    // kernels of one chip that can run at once: of each job, the largest program counts
	MaxJobs      = 64                     // jobs of one chip that run at once
	MaxNocQueue  = 64                     // NoC commands of one kernel under way; a further command waits
	MaxArguments = 256 << 10              // bytes of the arguments of all kernels of one job
	MaxPrograms  = 64                     // programs of one job on one chip
	MaxRanges    = 2048                   // buffers and semaphores of one job on one chip
	MaxChips     = 4096                   // chips of one job
	MaxOwner     = 64                     // length of the name of a job's owner, in bytes
	MaxEvents    = 1024                   // events that wait for PollEvent; the machine drops and counts further events, but never the start or the end of a job
	MaxViews     = 32                     // violations that one job reports; the machine counts further violations
)

// Func is a kernel: a function that runs on one tile. The kernel ends when the function returns.
type Func func(k *Context)

// Table holds the kernels that a chip can run, by name.
type Table map[string]Func

// Host is what a machine needs from its chip.
type Host interface {
	// Start starts a request of a kernel. When an accepted request ends, the host calls
	// [Machine.Done] with the request's token.
	Start(now mono.Time, r *flow.Request) flow.Admission
	// Busy reports whether a transaction command queue of an ethernet channel takes no command now. Busy
	// returns true for a channel without a cable.
	Busy(ch wire.Channel, q int) bool
	// Send gives a command of a job to a transaction command queue. The link copies words of 16
	// bytes over the cable, from address src of the tile's L1 to address dst of the other end's L1.
	// The link reads the source later, and once more for each retransmission. If Send cannot give
	// the command now, ok is false, and the caller tries again when queue "busy" takes a command.
	Send(now mono.Time, job JobID, ch wire.Channel, q int, src, dst uint32, words int) (busy int, ok bool)
	// Sending reports whether a command under way still reads any of the n bytes from address a of
	// the tile's L1.
	Sending(ch wire.Channel, a uint32, n int) bool
	// MoveHost starts a write of b to address "at" of host memory, or a read of n bytes if b is
	// nil. At the end of the transfer, the chip calls [Machine.TransferDone] with the number id. If
	// there is no room now, MoveHost returns false.
	MoveHost(id, at uint64, b []byte, n int) bool
	// Released reports whether the chip at the other end of a channel has released the job with the
	// given tag, see [ReleaseOffset].
	Released(ch wire.Channel, tag uint32) bool
}

// Config describes a machine.
type Config struct {
	Self     wire.FabricNodeID
	Topology *topo.Topology
	Memory   *noc.Memory
	Host     Host
	Table    Table

	// Seed seeds the machine's random delays. The start of a job is delayed by up to [MaxSkew], and
	// each NoC command by up to [MaxNocDelay]. If Seed is 0, nothing is delayed.
	Seed uint64
	// Running, if not nil, is called with a kernel before the machine resumes the kernel, and with nil
	// after the kernel yields. A watchdog finds a kernel that never yields.
	Running func(kernel fmt.Stringer)
}

// The largest random delays, our own choices.
const (
	MaxSkew     = 200 * time.Microsecond // largest delay of the start of a job on one chip: programs on different chips start in no order
	MaxNocDelay = 5 * time.Microsecond   // largest delay of a NoC command
)

// Machine runs the kernels of one chip. A Machine is not safe for concurrent use.
//
// Invariants: a process in "ready" is not in "waiting"; each process of "waiting" has a wait.
type Machine struct {
	cfg     Config
	rng     *rand.Rand // nil: no random delays
	jobs    []*job     // jobs that have not ended, in the order of their start
	ready   []*process // processes that can continue, oldest first
	waiting []*process // processes that wait, in the order in which they began to wait
	lingers []linger   // L1 of jobs that have ended
	early   earlyEnds  // ends of jobs that have not started here
	polling int        // number of waiting processes that the machine must check in each Run
	scan    []*process // memory for wake
	due     mono.Time  // earliest time at which something must happen; mono.Never: nothing
	now     mono.Time
	left    int // calls that kernels may still make before the next call of Step

	requests map[uint64]*Pending // fabric requests under way, by token
	token    uint64
	moving   hostTransfers
	places   map[place]*tileState
	events   []Event
	dropped  uint64
	current  *process // process that runs now
}

// place is the coordinate of a tile.
type place struct{ x, y uint8 }

// tileState is what a machine knows about one tile with kernels.
type tileState struct {
	tile    noc.Tile
	channel wire.Channel // channel of an ethernet tile
	users   int          // kernels on the tile that have not ended
}

// New returns a machine without kernels.
func New(cfg Config) *Machine {
	m := &Machine{cfg: cfg, due: mono.Never, requests: map[uint64]*Pending{}, places: map[place]*tileState{}}
	if cfg.Seed != 0 {
		m.rng = rand.New(rand.NewPCG(cfg.Seed, 0x6b65726e656c)) // "kernel"
	}
	return m
}

// delay returns a random time below d. Without a seed, delay returns 0.
func (m *Machine) delay(d time.Duration) time.Duration {
	if m.rng == nil {
		return 0
	}
	return time.Duration(m.rng.Int64N(int64(d)))
}

// Idle reports whether the machine has no job.
func (m *Machine) Idle() bool { return len(m.jobs) == 0 }

// Has reports whether the machine's table has a kernel of the given name.
func (m *Machine) Has(name string) bool { return m.cfg.Table[name] != nil }

// Step begins a step of the chip: kernels may make [StepBudget] new calls. The chip calls Step once before
// the calls of Run in each step.
func (m *Machine) Step() { m.left = StepBudget }

// Run resumes the kernels that can continue. Run returns true if a kernel ran, a job advanced, or a
// NoC command took effect.
func (m *Machine) Run(now mono.Time) bool {
	if len(m.ready) == 0 && m.polling == 0 && now.Before(m.due) {
		return false
	}
	m.now = now
	moved := m.wake()
	for len(m.ready) > 0 && m.left > 0 {
		p := m.ready[0]
		m.ready = slices.Delete(m.ready, 0, 1)
		m.resume(p)
		moved = true
	}
	m.schedule()
	return moved
}

// Deadline returns the time at which the caller must next call Step and Run.
func (m *Machine) Deadline() (mono.Time, bool) { return m.due, m.due != mono.Never }

// wake makes the processes ready whose wait has ended, starts programs that are due, and performs
// the NoC commands that are due. wake returns true if a job advanced or a command took effect.
func (m *Machine) wake() (moved bool) {
	for i := 0; i < len(m.jobs); {
		j := m.jobs[i]
		moved = j.advance() || moved
		if i < len(m.jobs) && m.jobs[i] == j { // otherwise the job has ended, and is no longer in the list
			i++
		}
	}
	m.scan = append(m.scan[:0], m.waiting...)
	for _, p := range m.scan {
		if p.ended { // another kernel of the list has put the processor of this kernel into reset
			continue
		}
		moved = p.perform() || moved
		if p.wait.kind != 0 && p.wait.over(p) {
			m.makeReady(p)
		}
	}
	return moved
}

// makeReady moves a process from "waiting" to "ready".
func (m *Machine) makeReady(p *process) {
	if i := slices.Index(m.waiting, p); i >= 0 {
		m.waiting = slices.Delete(m.waiting, i, i+1)
		m.ready = append(m.ready, p)
		m.endWait(p)
	}
}

// beginWait puts a process among those that wait.
func (m *Machine) beginWait(p *process) {
	m.waiting = append(m.waiting, p)
	if p.wait.polls() {
		m.polling++
	}
}

// endWait forgets what a process waited for.
func (m *Machine) endWait(p *process) {
	if p.wait.polls() {
		m.polling--
	}
	p.wait = wait{}
}

// schedule computes the next deadline.
func (m *Machine) schedule() {
	m.due = mono.Never
	if len(m.ready) > 0 {
		m.due = m.now
	}
	for _, p := range m.waiting {
		if p.wait.until != 0 {
			m.due = mono.Min(m.due, p.wait.until)
		}
		if len(p.noc) > 0 {
			m.due = mono.Min(m.due, p.noc[0].due())
		}
	}
	for _, j := range m.jobs {
		switch until, lingers := j.lingers(); {
		case j.started && len(j.running) > 0:
		case lingers:
			m.due = mono.Min(m.due, until)
		default:
			m.due = mono.Min(m.due, j.startAt)
		}
	}
}

// stored tells the machine that somebody has stored n bytes at offset off of a tile with kernels.
func (m *Machine) stored(at place, off uint64, n int) {
	for i := 0; i < len(m.waiting); {
		p := m.waiting[i]
		if p.at == at && p.wait.touched(p, off, n) {
			m.makeReady(p)
			continue
		}
		i++
	}
	if m.due > m.now && len(m.ready) > 0 {
		m.due = m.now
	}
}

// Done tells the machine how a request ended that the machine gave to [Host.Start].
func (m *Machine) Done(r *flow.Result) {
	q := m.requests[r.Token]
	if q == nil {
		return // the kernel was stopped
	}
	delete(m.requests, r.Token)
	q.end(r)
	if len(m.waiting) > 0 {
		m.due = mono.Min(m.due, r.Done)
	}
}

// enter notes that a kernel uses a tile.
func (m *Machine) enter(at place) error {
	t := m.places[at]
	if t == nil {
		tile, ok := m.cfg.Memory.TileAt(at.x, at.y)
		if !ok || tile.Harvested || tile.Kind != noc.Tensix && tile.Kind != noc.Ethernet {
			return fmt.Errorf("tile %d-%d: chip %s has no Tensix or ethernet tile there", at.x, at.y, m.cfg.Self)
		}
		t = &tileState{tile: tile}
		if tile.Kind == noc.Ethernet {
			t.channel = channelOf(m.cfg.Memory, tile)
		}
		m.places[at] = t
		m.cfg.Memory.Watch(noc.Kernels, at.x, at.y, func(off uint64, n int) { m.stored(at, off, n) })
		m.launched(at, t, 1)
	}
	t.users++
	return nil
}

// launched stores the word launch_user_kernel of an ethernet tile: 1 while a kernel uses the tile,
// else 0.
func (m *Machine) launched(at place, t *tileState, v uint32) {
	if t.tile.Kind == noc.Ethernet {
		m.cfg.Memory.Execute(&wire.Command{Type: wire.NocInlineWrite, Addr: wire.NewNocAddr(at.x, at.y, EriscInfo), Value: v}, nil)
	}
}

// leave notes that a kernel no longer uses its tile.
func (m *Machine) leave(at place) {
	t := m.places[at]
	if t.users > 1 {
		t.users--
		return
	}
	m.cfg.Memory.Watch(noc.Kernels, at.x, at.y, nil)
	m.launched(at, t, 0)
	delete(m.places, at)
}

// channelOf returns the channel of an ethernet tile.
func channelOf(m *noc.Memory, t noc.Tile) wire.Channel {
	ch := wire.Channel(0)
	for _, u := range m.Tiles() {
		if u.Kind != noc.Ethernet {
			continue
		}
		if u.X == t.X && u.Y == t.Y {
			break
		}
		ch++
	}
	return ch
}

// Close stops all kernels.
func (m *Machine) Close(now mono.Time) {
	for len(m.jobs) > 0 {
		m.End(now, m.jobs[0].spec.ID, End{Why: EndClosed, By: m.cfg.Self})
	}
}

// The errors of [Machine.Start], beside errors about the program.
var (
	ErrRuns     = errors.New("a job of this id runs already")
	ErrTooMany  = fmt.Errorf("a chip runs at most %d jobs and %d kernels at once", MaxJobs, MaxKernels)
	ErrNoKernel = errors.New("the chip's program has no kernel of this name")
)

// compareID orders jobs.
func compareID(a, b *job) int { return cmp.Compare(a.spec.ID, b.spec.ID) }
