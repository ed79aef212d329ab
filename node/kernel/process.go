package kernel

import (
	"encoding/binary"
	"fmt"
	"iter"
	"runtime/debug"
	"slices"
	"strings"

	"ttfabric/node/noc"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// process is a kernel that runs: a coroutine, and the wait of the coroutine.
type process struct {
	m     *Machine
	job   *job
	start *Start
	at    place
	tile  *tileState

	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool // gives control back to the machine; false: the kernel must end

	wait     wait
	budget   int // calls that the kernel may still make in this turn
	noc      []nocCommand
	buf      []byte // memory for the data of one NoC command
	stopping bool
	ended    bool
	failed   *End // the kernel's panic
	graceful bool // the kernel ended by a panic with a value of the type stopped
}

// String returns the kernel's name and tile, as "name@x-y".
func (p *process) String() string { return p.start.String() }

// stopped is the panic value that ends a kernel whose job has ended.
type stopped struct{}

func newProcess(j *job, s *Start) *process {
	p := &process{m: j.m, job: j, start: s, at: place{s.Tile.X, s.Tile.Y}}
	p.tile = j.m.places[p.at]
	f := j.m.cfg.Table[s.Kernel]
	p.next, p.stop = iter.Pull(func(yield func(struct{}) bool) {
		p.yield = yield
		defer p.caught()
		f(&Context{p})
		if p.stopping {
			p.graceful = false
			return
		}
		p.finish()
	})
	return p
}

// finish waits until the NoC commands that the kernel left under way have taken effect.
func (p *process) finish() {
	for len(p.noc) > 0 {
		(&Context{p}).NocAsyncWriteBarrier()
	}
}

// caught records the panic of a kernel.
func (p *process) caught() {
	switch x := recover().(type) {
	case nil:
	case stopped:
		p.graceful = true
	default:
		p.failed = &End{Why: EndPanic, By: p.m.cfg.Self, Kernel: p.String(), Text: fmt.Sprint(x)}
		if _, ok := x.(fault); !ok {
			p.failed.Stack = string(debug.Stack())
			p.failed.Text += at(p.failed.Stack)
		}
	}
}

// at returns the place of a panic in the kernel's own code, from the stack, as " at FILE:LINE". If the
// stack has no such place, at returns "".
func at(stack string) string {
	_, below, _ := strings.Cut(stack, "\npanic(") // the stack frames below this line belong to the code that panicked
	lines := strings.Split(below, "\n")
	for i := 2; i+1 < len(lines); i += 2 {
		if f := lines[i]; strings.HasPrefix(f, "runtime.") || strings.HasPrefix(f, "ttfabric/node/kernel.") && !strings.Contains(lines[i+1], "_test.go") {
			continue
		}
		place, _, _ := strings.Cut(strings.TrimSpace(lines[i+1]), " ")
		return " at " + place[strings.LastIndexByte(place, '/')+1:]
	}
	return ""
}

// resume gives a process a turn.
func (m *Machine) resume(p *process) {
	given := min(Budget, m.left)
	p.budget = given
	_, more := m.watched(p, p.next)
	m.left -= max(given-max(p.budget, 0), 1)
	if more {
		m.beginWait(p)
		if p.perform(); p.wait.kind != 0 && p.wait.over(p) {
			m.makeReady(p)
		}
		return
	}
	p.exit()
	if p.failed != nil {
		m.end(p.job, *p.failed)
	}
}

// watched runs a part of a kernel's coroutine, and tells the watchdog which kernel runs.
func (m *Machine) watched(p *process, run func() (struct{}, bool)) (struct{}, bool) {
	before := m.current
	m.current = p
	if m.cfg.Running != nil {
		m.cfg.Running(p)
	}
	v, more := run()
	if m.current = before; m.cfg.Running != nil {
		if before != nil {
			m.cfg.Running(before)
		} else {
			m.cfg.Running(nil)
		}
	}
	return v, more
}

// exit forgets a process whose coroutine has ended.
func (p *process) exit() {
	if p.ended {
		return
	}
	p.ended = true
	p.m.ready = slices.DeleteFunc(p.m.ready, func(q *process) bool { return q == p })
	p.m.waiting = slices.DeleteFunc(p.m.waiting, func(q *process) bool { return q == p })
	p.m.endWait(p)
	p.job.running = slices.DeleteFunc(p.job.running, func(q *process) bool { return q == p })
	for token, q := range p.m.requests {
		if q.p == p {
			delete(p.m.requests, token)
		}
	}
	if p.tile.tile.Kind == noc.Ethernet && !p.stopping && p.failed == nil {
		p.checkTeardown()
	}
	p.m.leave(p.at)
}

// kill stops a process. The kernel's next call of its Context, or the call in which the kernel waits,
// panics with a private value. A process that is running now stops itself.
func (p *process) kill() {
	p.stopping = true
	if p.m.current != p {
		p.m.watched(p, func() (v struct{}, more bool) { p.stop(); return v, more })
		if p.yield != nil && !p.graceful && p.failed == nil {
			p.m.tell(Event{Kind: StopIgnored, Job: p.job.spec.ID, Name: p.job.spec.Name, Kernel: p.String()})
		}
	}
	p.exit()
}

// pause gives control back to the machine until the wait w is over.
func (p *process) pause(w wait) {
	p.wait = w
	if p.stopping || !p.yield(struct{}{}) {
		p.stopping = true
		panic(stopped{})
	}
}

// call counts a call of the Context against the budget.
func (p *process) call() {
	if p.stopping {
		panic(stopped{})
	}
	if p.budget <= 0 {
		p.pause(wait{kind: forTurn, until: p.m.now.Add(PollPause)})
	}
	p.budget--
}

// The kinds of waits.
const (
	forTurn  = iota + 1 // a store into the tile, or the time
	forWord             // a word of the tile
	forTime             // the time only
	forQueue            // a transaction command queue that takes commands
	forNoc              // the kernel's NoC commands, until at most value of them are under way
	forEnd              // the end of a request
	forRoom             // room in the fabric for a request
)

// wait says what a process waits for.
type wait struct {
	kind    uint8
	compare Compare
	queue   uint8     // for forQueue, and for forTurn with free
	routing bool      // the kernel waits inside RunRouting
	free    bool      // for forTurn: the wait also ends when the queue takes commands
	addr    uint32    // word in the tile
	value   uint32    // value to compare with; for forNoc: number of commands
	until   mono.Time // latest end of the wait; 0: none
	pending *Pending
}

// polls reports whether the machine must check in each Run whether the wait is over.
func (w *wait) polls() bool { return w.kind == forQueue || w.kind == forRoom || w.free }

// over reports whether the wait of process p is over. over does not compare an awaited word: the
// kernel compared the word before pause, and the machine sees each store.
func (w *wait) over(p *process) bool {
	if w.until != 0 && !p.m.now.Before(w.until) {
		return true
	}
	switch w.kind {
	case forTurn:
		return w.free && !p.m.cfg.Host.Busy(p.tile.channel, int(w.queue))
	case forQueue:
		return !p.m.cfg.Host.Busy(p.tile.channel, int(w.queue))
	case forNoc:
		return len(p.noc) <= int(w.value)
	case forEnd:
		return w.pending.ended
	case forRoom:
		return w.pending.push(p.m)
	}
	return false
}

// touched reports whether a store of n bytes at offset off ends the wait.
func (w *wait) touched(p *process, off uint64, n int) bool {
	switch w.kind {
	case forTurn:
		return true
	case forWord:
		return uint64(w.addr) < off+uint64(n) && off < uint64(w.addr)+wordSize && w.compare.holds(p.load32(w.addr), w.value)
	}
	return false
}

// load32 returns a word of the process's tile.
func (p *process) load32(a uint32) uint32 {
	var b [wordSize]byte
	p.m.cfg.Memory.Read(p.addr(a), b[:])
	return binary.LittleEndian.Uint32(b[:])
}

func (p *process) addr(a uint32) wire.NocAddr { return wire.NewNocAddr(p.at.x, p.at.y, uint64(a)) }
