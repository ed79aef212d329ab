package kernel

import (
	"encoding/binary"
	"fmt"
	"time"

	"ttfabric/node/noc"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// wordSize is the size of a word in bytes.
const wordSize = 4

// Context is a kernel's view of its tile and its chip. Only the kernel may use its Context, and only
// until the kernel returns.
//
// A call with a wrong address or argument fails: the kernel's job ends, and its report names the kernel
// and the call. The job also ends if memory or registers refuse a NoC command, for example because the
// chip's memory is full.
type Context struct{ p *process }

// fault is the panic value of a wrong call.
type fault string

func (k *Context) fault(format string, args ...any) { panic(fault(fmt.Sprintf(format, args...))) }

// Self returns the chip.
func (k *Context) Self() wire.FabricNodeID { return k.p.m.cfg.Self }

// Tile returns the kernel's tile.
func (k *Context) Tile() Tile { return k.p.start.Tile }

// Channel returns the ethernet channel of the kernel's tile, and false for a Tensix tile.
func (k *Context) Channel() (wire.Channel, bool) {
	return k.p.tile.channel, k.p.tile.tile.Kind == noc.Ethernet
}

// Args returns the kernel's arguments. The kernel must not change the arguments.
func (k *Context) Args() []byte { return k.p.start.Args }

// Uint32 returns argument i, where each argument has 32 bits, little endian (tt-metal: get_arg_val).
func (k *Context) Uint32(i int) uint32 {
	b := k.p.start.Args
	if i < 0 || (i+1)*wordSize > len(b) {
		k.fault("argument %d of kernel %s: the kernel has %d arguments of 4 bytes", i, k.p, len(b)/wordSize)
	}
	return binary.LittleEndian.Uint32(b[i*wordSize:])
}

// Constant returns compile-time argument i (tt-metal: get_compile_time_arg_val).
func (k *Context) Constant(i int) uint32 {
	if i < 0 || i >= len(k.p.start.Constants) {
		k.fault("compile-time argument %d of kernel %s: the kernel has %d", i, k.p, len(k.p.start.Constants))
	}
	return k.p.start.Constants[i]
}

// Now returns the time of the chip's present step. All calls of one turn see the same time.
func (k *Context) Now() mono.Time { return k.p.m.now }

// Sleep waits for the duration d.
func (k *Context) Sleep(d time.Duration) {
	k.p.call()
	k.p.pause(wait{kind: forTime, until: k.until(d)})
}

// maxWait is the longest time that a kernel can wait for; a longer time counts as this time.
const maxWait = 365 * 24 * time.Hour

// until returns the time after the duration d.
func (k *Context) until(d time.Duration) mono.Time {
	return k.p.m.now.Add(min(max(d, 1), maxWait))
}

// Print reports a line as an event of the chip.
func (k *Context) Print(format string, args ...any) {
	k.p.call()
	k.p.m.tell(Event{Kind: KernelPrints, Job: k.p.job.spec.ID, Name: k.p.job.spec.Name, Kernel: k.p.String(), Text: fmt.Sprintf(format, args...)})
}

// Fail ends the kernel and its job. The reports of all chips of the job name the kernel and the text.
func (k *Context) Fail(format string, args ...any) { k.fault(format, args...) }

// Load copies len(b) bytes from address a of the tile into b.
func (k *Context) Load(a uint32, b []byte) {
	for {
		k.p.call()
		n := min(len(b), wire.MaxPayload)
		if o := k.p.m.cfg.Memory.Read(k.p.addr(a), b[:n]); o != wire.OutcomeDone {
			k.fault("load of %d bytes at 0x%x of tile %s: %s", n, a, k.Tile(), o)
		}
		if a, b = a+uint32(n), b[n:]; len(b) == 0 {
			return
		}
	}
}

// Store copies b to address a of the tile.
func (k *Context) Store(a uint32, b []byte) {
	k.p.checkStore(a, len(b))
	for len(b) > 0 { // a command takes at most wire.MaxPayload bytes
		k.p.call()
		n := min(len(b), wire.MaxPayload)
		if o := k.p.m.cfg.Memory.Execute(&wire.Command{Type: wire.NocUnicastWrite, Addr: k.p.addr(a)}, b[:n]); o != wire.OutcomeDone {
			k.fault("store of %d bytes at 0x%x of tile %s: %s", n, a, k.Tile(), o)
		}
		k.p.reset()
		a, b = a+uint32(n), b[n:]
	}
}

// Load32 returns the word at address a of the tile, a multiple of 4.
func (k *Context) Load32(a uint32) uint32 {
	var b [wordSize]byte
	k.aligned("load", a, wordSize)
	k.Load(a, b[:])
	return binary.LittleEndian.Uint32(b[:])
}

// Store32 stores v at address a of the tile, a multiple of 4.
func (k *Context) Store32(a, v uint32) {
	k.p.call()
	k.aligned("store", a, wordSize)
	k.p.checkStore(a, wordSize)
	if o := k.p.m.cfg.Memory.Execute(&wire.Command{Type: wire.NocInlineWrite, Addr: k.p.addr(a), Value: v}, nil); o != wire.OutcomeDone {
		k.fault("store of a word at 0x%x of tile %s: %s", a, k.Tile(), o)
	}
	k.p.reset()
}

// Copy copies n bytes within the tile.
func (k *Context) Copy(dst, src uint32, n int) {
	b := make([]byte, n)
	k.Load(src, b)
	k.Store(dst, b)
}

func (k *Context) aligned(what string, a uint32, to uint32) {
	if a%to != 0 {
		k.fault("%s at 0x%x of tile %s: want a multiple of %d", what, a, k.Tile(), to)
	}
}

// Compare says how a wait compares a word with a value.
type Compare uint8

// The comparisons.
const (
	Equal   Compare = iota // the word is the value
	Differs                // the word is not the value
	AtLeast                // the word, without sign, is the value or more
)

func (c Compare) holds(word, value uint32) bool {
	switch c {
	case Differs:
		return word != value
	case AtLeast:
		return word >= value
	}
	return word == value
}

// WaitWord waits until comparison c holds between the word at address a of the tile and v. WaitWord
// also returns if the word has changed again before the kernel continues.
func (k *Context) WaitWord(a uint32, c Compare, v uint32) {
	k.aligned("wait", a, wordSize)
	if c.holds(k.Load32(a), v) {
		return
	}
	k.p.pause(wait{kind: forWord, compare: c, addr: a, value: v})
}

// WaitWordFor is like WaitWord, but waits at most for the time d. WaitWordFor returns false if the
// time d passed first.
func (k *Context) WaitWordFor(a uint32, c Compare, v uint32, d time.Duration) bool {
	k.aligned("wait", a, wordSize)
	if c.holds(k.Load32(a), v) {
		return true
	}
	until := k.until(d)
	k.p.pause(wait{kind: forWord, compare: c, addr: a, value: v, until: until})
	return k.p.m.now.Before(until) || c.holds(k.Load32(a), v)
}

// NocSemaphoreWait waits until the semaphore at address a of the tile is v (tt-metal:
// noc_semaphore_wait).
func (k *Context) NocSemaphoreWait(a, v uint32) { k.WaitWord(a, Equal, v) }

// NocSemaphoreWaitMin waits until the semaphore at address a of the tile is at least v (tt-metal:
// noc_semaphore_wait_min).
func (k *Context) NocSemaphoreWaitMin(a, v uint32) { k.WaitWord(a, AtLeast, v) }

// NocSemaphoreSet stores v into the semaphore at address a of the tile (tt-metal: noc_semaphore_set).
func (k *Context) NocSemaphoreSet(a, v uint32) { k.Store32(a, v) }
