package kernel

import (
	"fmt"
	"slices"

	"ttfabric/node/noc"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// JobID is the number of a job. The program that starts a job chooses the number. The number must
// differ from the numbers of the jobs that run, and of the jobs that ended within the last
// [EarlyMost].
type JobID uint64

// Job is one chip's part of a job. A job is a set of programs on one or more chips. Each chip starts its
// programs at its own time. If the job ends early on one chip, the job ends on all its chips.
type Job struct {
	ID       JobID               `json:"id"`
	Name     string              `json:"name,omitempty"`
	Owner    string              `json:"owner,omitempty"`    // who started this chip's part, such as "rank 3"; at most [MaxOwner] bytes
	Chips    []wire.FabricNodeID `json:"chips,omitempty"`    // all chips of the job
	Channels []wire.Channel      `json:"channels,omitempty"` // links of this chip that the job uses: if the session of one ends, the job ends
	Strict   bool                `json:"strict,omitempty"`   // the base firmware of an ethernet tile works only inside RunRouting while a kernel of the job runs on the tile, see [Context.RunRouting]
	Queue1   bool                `json:"queue1,omitempty"`   // kernels of the job may send on transaction command queue 1, which the CCL guide reserves
	Programs []Program           `json:"programs"`           // programs of this chip, which run one after another
}

// String returns the job's number, name and owner, such as "job 7, "ring", of rank 3".
func (j *Job) String() string {
	s := fmt.Sprintf("job %d", j.ID)
	if j.Name != "" {
		s += fmt.Sprintf(", %q", j.Name)
	}
	if j.Owner != "" {
		s += ", of " + j.Owner
	}
	return s
}

// Tile is the NoC 0 coordinate of a tile.
type Tile struct {
	X uint8 `json:"x"`
	Y uint8 `json:"y"`
}

// String returns the coordinate as "x-y".
func (t Tile) String() string { return fmt.Sprintf("%d-%d", t.X, t.Y) }

// Addr returns the NoC address of an offset in the tile.
func (t Tile) Addr(offset uint64) wire.NocAddr { return wire.NewNocAddr(t.X, t.Y, offset) }

// Program is a set of kernels of one chip that start together. The program ends when all its kernels
// have ended.
type Program struct {
	Kernels    []Start     `json:"kernels"`
	Semaphores []Semaphore `json:"semaphores,omitempty"`
	Buffers    []Buffer    `json:"buffers,omitempty"`
}

// Start says which kernel runs on which tile.
type Start struct {
	Kernel    string   `json:"kernel"` // name in the chip's [Table]
	Tile      Tile     `json:"tile"`
	Args      []byte   `json:"args,omitempty"`      // runtime arguments, see [MaxArguments]
	Constants []uint32 `json:"constants,omitempty"` // compile-time arguments
}

// String returns the kernel's name and tile, as "name@x-y".
func (s *Start) String() string { return s.Kernel + "@" + s.Tile.String() }

// Semaphore is a word in the L1 of a tile. The program's start writes the value into the word.
type Semaphore struct {
	Tile  Tile   `json:"tile"`
	Addr  uint32 `json:"addr"` // offset in the tile, a multiple of 16
	Value uint32 `json:"value"`
}

// Buffer is a range of L1 that belongs to the job, while the job runs.
type Buffer struct {
	Tile Tile   `json:"tile"`
	Addr uint32 `json:"addr"` // offset in the tile
	Size uint32 `json:"size"` // length in bytes
}

func (b *Buffer) overlaps(c *Buffer) bool {
	return b.Tile == c.Tile && uint64(b.Addr) < uint64(c.Addr)+uint64(c.Size) && uint64(c.Addr) < uint64(b.Addr)+uint64(b.Size)
}

// buffers returns all ranges that belong to the job, with the semaphores.
func (j *Job) buffers() []Buffer {
	var bs []Buffer
	for i := range j.Programs {
		bs = append(bs, j.Programs[i].Buffers...)
		for _, s := range j.Programs[i].Semaphores {
			bs = append(bs, Buffer{s.Tile, s.Addr, semaphoreSize})
		}
	}
	return bs
}

// Why says why a job ended.
type Why uint8

// The reasons.
const (
	EndDone    Why = iota + 1 // all kernels of this chip returned
	EndStopped                // somebody stopped the job
	EndPanic                  // a kernel failed
	EndChip                   // a chip of the job died, or no route leads there any more
	EndLink                   // the session of a link of the job ended
	EndRank                   // a rank of the job died
	EndClosed                 // the chip was closed
	EndAnew                   // a chip of the job started anew
	EndReset                  // a store put the processor of a kernel's tile into reset
	endWhys                   // the first number beyond the reasons
)

// String returns the reason in words.
func (w Why) String() string {
	names := [...]string{"unknown reason", "done", "stopped", "kernel failed", "chip died", "link session ended", "rank died", "chip closed", "chip started anew", "processor reset"}
	if int(w) >= len(names) {
		return names[0]
	}
	return names[w]
}

// Names returns all reasons in words.
func (Why) Names() (all []string) {
	for w := EndDone; w < endWhys; w++ {
		all = append(all, w.String())
	}
	return all
}

// MarshalText returns the reason in words.
func (w Why) MarshalText() ([]byte, error) { return []byte(w.String()), nil }

// UnmarshalText reads a reason in words.
func (w *Why) UnmarshalText(b []byte) error {
	for *w = EndDone; *w < endWhys; *w++ {
		if w.String() == string(b) {
			return nil
		}
	}
	return fmt.Errorf("reason %q for the end of a job: want done, stopped, kernel failed, chip died, link session ended, rank died, chip closed, chip started anew or processor reset", b)
}

// End says how a job ended on a chip.
type End struct {
	Why    Why               `json:"why"`
	By     wire.FabricNodeID `json:"by"`               // chip that ended the job first
	Kernel string            `json:"kernel,omitempty"` // for EndPanic and EndReset: name and tile of the kernel
	Text   string            `json:"text,omitempty"`   // for EndPanic: the kernel's panic value and its place, or the wrong call, or the refused NoC command; for EndReset: who stored; for other reasons: a remark
	Stack  string            `json:"stack,omitempty"`  // for EndPanic, on the kernel's chip: the stack of the panic
}

// job is a job that runs.
type job struct {
	m       *Machine
	spec    Job
	program int        // index of the program that runs
	startAt mono.Time  // time at which the first program starts
	started bool       // the first program has started
	running []*process // kernels of the program that have not ended
	seen    int        // violations so far
	buffers []Buffer
	ending  bool
}

// Start starts this chip's part of a job. If the chip cannot run the job, Start changes nothing, and
// the error says why.
func (m *Machine) Start(now mono.Time, spec Job) error {
	m.now = now
	if err := m.admit(&spec); err != nil {
		return fmt.Errorf("job %d on chip %s: %w", spec.ID, m.cfg.Self, err)
	}
	j := &job{m: m, spec: spec, startAt: now.Add(m.delay(MaxSkew)), buffers: spec.buffers()}
	m.jobs = append(m.jobs, j)
	m.due = mono.Min(m.due, j.startAt)
	m.tell(Event{Kind: JobStarted, Job: spec.ID, Name: spec.Name})
	if e, ok := m.early.started(now, spec.ID); ok {
		m.end(j, e)
	}
	return nil
}

// limits checks the lengths of a job's lists.
func (j *Job) limits() error {
	args := 0
	for i := range j.Programs {
		for _, k := range j.Programs[i].Kernels {
			args += len(k.Args) + wordSize*len(k.Constants) + len(k.Kernel)
		}
	}
	switch n := len(j.buffers()); {
	case len(j.Owner) > MaxOwner:
		return fmt.Errorf("owner of %d bytes: want at most %d", len(j.Owner), MaxOwner)
	case args > MaxArguments:
		return fmt.Errorf("arguments of %d bytes: want at most %d", args, MaxArguments)
	case len(j.Programs) > MaxPrograms:
		return fmt.Errorf("%d programs: want at most %d", len(j.Programs), MaxPrograms)
	case n > MaxRanges:
		return fmt.Errorf("%d buffers and semaphores: want at most %d", n, MaxRanges)
	case len(j.Chips) > MaxChips:
		return fmt.Errorf("%d chips: want at most %d", len(j.Chips), MaxChips)
	}
	return nil
}

// largest returns the number of kernels of the largest program.
func (j *Job) largest() (n int) {
	for i := range j.Programs {
		n = max(n, len(j.Programs[i].Kernels))
	}
	return n
}

func (m *Machine) admit(spec *Job) error {
	if err := spec.limits(); err != nil {
		return err
	}
	n := 0
	for _, j := range m.jobs {
		n += j.spec.largest()
		if j.spec.ID == spec.ID {
			return ErrRuns
		}
	}
	if n+spec.largest() > MaxKernels {
		return ErrTooMany
	}
	for i := range spec.Programs {
		if err := m.check(&spec.Programs[i]); err != nil {
			return err
		}
	}
	if len(m.jobs) >= MaxJobs {
		return ErrTooMany
	}
	for _, j := range m.jobs {
		for _, b := range spec.buffers() {
			for _, c := range j.buffers {
				if b.overlaps(&c) {
					return fmt.Errorf("the range 0x%x of %d bytes on tile %s belongs to %s; wait until that job has ended, or stop it", b.Addr, b.Size, b.Tile, &j.spec)
				}
			}
		}
	}
	return nil
}

// check checks one program of a job.
func (m *Machine) check(p *Program) error {
	l1 := func(t Tile) (noc.Tile, error) {
		n, ok := m.cfg.Memory.TileAt(t.X, t.Y)
		switch {
		case !ok || n.Kind != noc.Tensix && n.Kind != noc.Ethernet:
			return n, fmt.Errorf("the chip has no Tensix or ethernet tile %s", t)
		case n.Harvested:
			return n, fmt.Errorf("tile %s is harvested; 'ttfabric mem tiles' lists the tiles that work", t)
		}
		return n, nil
	}
	for _, k := range p.Kernels {
		if !m.Has(k.Kernel) {
			return fmt.Errorf("kernel %q: %w", k.Kernel, ErrNoKernel)
		}
		if _, err := l1(k.Tile); err != nil {
			return fmt.Errorf("kernel %q: %w", k.Kernel, err)
		}
		if m.cfg.Memory.Held(k.Tile.X, k.Tile.Y) {
			return fmt.Errorf("kernel %q: the processor of tile %s is held in reset; a store of the word 0 at %s takes it out of reset", k.Kernel, k.Tile, k.Tile.Addr(noc.SoftReset))
		}
	}
	bs := slices.Clone(p.Buffers)
	for _, s := range p.Semaphores {
		if s.Addr%semaphoreSize != 0 {
			return fmt.Errorf("semaphore at 0x%x of tile %s: want a multiple of %d", s.Addr, s.Tile, semaphoreSize)
		}
		bs = append(bs, Buffer{s.Tile, s.Addr, semaphoreSize})
	}
	for _, b := range bs {
		t, err := l1(b.Tile)
		if err != nil {
			return err
		}
		if uint64(b.Addr)+uint64(b.Size) > t.Size {
			return fmt.Errorf("range 0x%x of %d bytes: tile %s has %d bytes of L1", b.Addr, b.Size, b.Tile, t.Size)
		}
	}
	return nil
}

// advance starts the job's next program when the program is due, and ends the job after the last
// program. advance returns true if a program started or the job ended.
func (j *job) advance() bool {
	switch {
	case !j.started && !j.m.now.Before(j.startAt):
		if _, lingers := j.lingers(); lingers {
			return false
		}
		j.started = true
		j.launch()
		return true
	case j.started && len(j.running) == 0 && !j.ending:
		if j.program++; j.program < len(j.spec.Programs) {
			j.launch()
			return true
		}
		j.m.end(j, End{Why: EndDone, By: j.m.cfg.Self})
		return true
	}
	return false
}

// launch starts the kernels of the present program.
func (j *job) launch() {
	if j.program >= len(j.spec.Programs) {
		return
	}
	p := &j.spec.Programs[j.program]
	for i := range p.Kernels {
		if t := p.Kernels[i].Tile; !j.m.cfg.Memory.Unreset(t.X, t.Y) {
			j.m.end(j, End{Why: EndReset, By: j.m.cfg.Self, Kernel: p.Kernels[i].String(), Text: fmt.Sprintf("the processor of tile %s was in reset at the start of the program", t)})
			return
		}
	}
	for _, s := range p.Semaphores {
		j.m.cfg.Memory.Execute(&wire.Command{Type: wire.NocInlineWrite, Addr: s.Tile.Addr(uint64(s.Addr)), Value: s.Value}, nil)
	}
	for i := range p.Kernels {
		if err := j.m.enter(place{p.Kernels[i].Tile.X, p.Kernels[i].Tile.Y}); err != nil {
			panic(fmt.Sprintf("kernel: a job that was admitted cannot start: %v", err))
		}
		q := newProcess(j, &p.Kernels[i])
		j.running = append(j.running, q)
		j.m.ready = append(j.m.ready, q)
	}
}

// End ends a job on this chip. The job's kernels stop, and the job's L1 is free, except the L1 that
// lingers. End returns false if no such job runs.
func (m *Machine) End(now mono.Time, id JobID, e End) bool {
	m.now = now
	for _, j := range m.jobs {
		if j.spec.ID == id {
			m.end(j, e)
			return true
		}
	}
	return false
}

func (m *Machine) end(j *job, e End) {
	if j.ending {
		return
	}
	j.ending = true
	for len(j.running) > 0 {
		j.running[0].kill()
	}
	m.lingers = slices.DeleteFunc(m.lingers, func(l linger) bool { return !l.until.After(m.now) })
	m.linger(j, e.Why != EndDone)
	m.jobs = slices.DeleteFunc(m.jobs, func(k *job) bool { return k == j })
	m.early.ended(j.spec.ID)
	m.tell(Event{Kind: JobEnded, Job: j.spec.ID, Name: j.spec.Name, End: e, Chips: j.spec.Chips, Channels: j.spec.Channels})
	m.schedule()
}

// Running is a job that runs, for people.
type Running struct {
	Job     JobID               `json:"job"`
	Name    string              `json:"name,omitempty"`
	Owner   string              `json:"owner,omitempty"` // who started this chip's part
	Chips   []wire.FabricNodeID `json:"chips,omitempty"`
	Strict  bool                `json:"strict,omitempty"` // the firmware of a kernel's ethernet tile works only inside RunRouting
	Kernels []string            `json:"kernels"`          // kernels that run, as "name@x-y"
}

// Jobs lists the jobs that run, by number.
func (m *Machine) Jobs() []Running {
	out := make([]Running, 0, len(m.jobs))
	for _, j := range slices.SortedFunc(slices.Values(m.jobs), compareID) {
		r := Running{Job: j.spec.ID, Name: j.spec.Name, Owner: j.spec.Owner, Chips: j.spec.Chips, Strict: j.spec.Strict, Kernels: []string{}}
		for _, p := range j.running {
			r.Kernels = append(r.Kernels, p.String())
		}
		out = append(out, r)
	}
	return out
}

// Holds reports whether the base firmware of an ethernet channel's tile must wait. The firmware
// waits while a kernel of a strict job runs on the tile and is not inside RunRouting.
func (m *Machine) Holds(ch wire.Channel) bool {
	for _, j := range m.jobs {
		if j.spec.Strict && slices.ContainsFunc(j.running, func(p *process) bool {
			return p.tile.tile.Kind == noc.Ethernet && p.tile.channel == ch && !p.wait.routing
		}) {
			return true
		}
	}
	return false
}

// Uses lists the jobs that use a channel of this chip, or run on a chip.
func (m *Machine) Uses(channel func(wire.Channel) bool, chip func(wire.FabricNodeID) bool) (ids []JobID) {
	for _, j := range m.jobs {
		if slices.ContainsFunc(j.spec.Channels, channel) || slices.ContainsFunc(j.spec.Chips, chip) {
			ids = append(ids, j.spec.ID)
		}
	}
	return ids
}
