package kernel

import (
	"fmt"
	"slices"

	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// nocCommand is a NoC command of a kernel that is under way.
type nocCommand struct {
	what  string // tt-metal's name of the call
	cmd   wire.Command
	read  bool
	local uint32 // address in the kernel's tile
	n     int    // bytes at local
	at    mono.Time
	host  hostMove // transfer of a command that reads or writes host memory
}

// perform performs the process's NoC commands that are due, in order. If the memory refuses a command,
// perform ends the job. perform returns true if anything happened.
func (p *process) perform() (moved bool) {
	for len(p.noc) > 0 && !p.ended && !p.m.now.Before(p.noc[0].due()) {
		if !p.moves(&p.noc[0]) {
			break
		}
		c := p.noc[0]
		p.noc = slices.Delete(p.noc, 0, 1)
		moved = true
		if o := p.do(&c); o != wire.OutcomeDone {
			p.m.end(p.job, End{Why: EndPanic, By: p.m.cfg.Self, Kernel: p.String(), Text: fmt.Sprintf("%s, %s: %s", c.what, c.cmd.Addr, o)})
			break
		}
		p.reset()
	}
	return moved
}

// do performs a NoC command. The method "command" has checked the addresses. Registers and a full
// memory may still refuse the command.
func (p *process) do(c *nocCommand) wire.Outcome {
	from, cmd := p.addr(c.local), c.cmd
	if c.read {
		from, cmd.Addr = c.cmd.Addr, from
	}
	if c.host.state != hostNone {
		if c.host.outcome != wire.OutcomeDone || !c.read {
			return c.host.outcome
		}
		return p.m.cfg.Memory.Execute(&cmd, c.host.data)
	}
	if p.buf == nil {
		p.buf = make([]byte, wire.MaxPayload)
	}
	if o := p.m.cfg.Memory.Read(from, p.buf[:c.n]); o != wire.OutcomeDone {
		return o
	}
	return p.m.cfg.Memory.Execute(&cmd, p.buf[:c.n])
}

// command starts a NoC command.
func (k *Context) command(c nocCommand) {
	p := k.p
	p.call()
	if len(p.noc) >= MaxNocQueue {
		p.pause(wait{kind: forNoc, value: MaxNocQueue - 1})
	}
	c.at = p.m.now.Add(p.m.delay(MaxNocDelay))
	if n := len(p.noc); n > 0 {
		c.at = max(c.at, p.noc[n-1].at)
	}
	p.noc = append(p.noc, c)
}

// NocAddr returns the NoC address of an offset in the tile (x, y) of the same chip (tt-metal:
// get_noc_addr).
func (k *Context) NocAddr(x, y uint8, offset uint32) wire.NocAddr {
	return wire.NewNocAddr(x, y, uint64(offset))
}

// NocAsyncWrite copies n bytes from address src of the tile to address dst of a tile of the same chip, or
// of host memory (tt-metal: noc_async_write). The command takes effect later, in the order of the kernel's NoC
// commands. Until then, src must not change.
func (k *Context) NocAsyncWrite(src uint32, dst wire.NocAddr, n int) {
	k.transfer("noc_async_write", src, dst, n, false)
}

// NocAsyncRead copies n bytes to address dst of the kernel's tile (tt-metal: noc_async_read). The
// address src is in a tile of the same chip, or in host memory. NocAsyncReadBarrier waits for the
// bytes.
func (k *Context) NocAsyncRead(src wire.NocAddr, dst uint32, n int) {
	k.transfer("noc_async_read", dst, src, n, true)
}

func (k *Context) transfer(what string, local uint32, remote wire.NocAddr, n int, read bool) {
	m := k.p.m.cfg.Memory
	if o := m.Check(k.p.addr(local), n); o != wire.OutcomeDone || n < 0 {
		k.fault("%s of %d bytes: 0x%x of tile %s: %s", what, n, local, k.Tile(), o)
	}
	host, o := checkHost(m, remote, n)
	if o != wire.OutcomeDone {
		k.fault("%s of %d bytes: %s: %s", what, n, remote, o)
	}
	for n > 0 {
		part := min(n, wire.MaxPayload)
		k.command(nocCommand{what: what, cmd: wire.Command{Type: wire.NocUnicastWrite, Addr: remote}, read: read, local: local, n: part, host: host})
		local, remote, n = local+uint32(part), remote+wire.NocAddr(part), n-part
	}
}

// NocSemaphoreInc adds v to the word at a of a tile of the same chip (tt-metal: noc_semaphore_inc). The
// increment comes after the kernel's earlier NoC commands.
func (k *Context) NocSemaphoreInc(a wire.NocAddr, v uint32) {
	k.word("noc_semaphore_inc", wire.Command{Type: wire.NocAtomicInc, Addr: a, Value: v})
}

// NocInlineWrite stores v into the word at a of a tile of the same chip (tt-metal:
// noc_inline_dw_write).
func (k *Context) NocInlineWrite(a wire.NocAddr, v uint32) {
	k.word("noc_inline_dw_write", wire.Command{Type: wire.NocInlineWrite, Addr: a, Value: v})
}

func (k *Context) word(what string, c wire.Command) {
	if o := k.p.m.cfg.Memory.Check(c.Addr, wordSize); o != wire.OutcomeDone || c.Addr.Offset()%wordSize != 0 {
		k.fault("%s at %s: want an aligned word of L1", what, c.Addr)
	}
	k.command(nocCommand{what: what, cmd: c})
}

// NocAsyncWritesFlushed waits until the kernel's writes have read their sources (tt-metal:
// noc_async_writes_flushed).
func (k *Context) NocAsyncWritesFlushed() { k.NocAsyncWriteBarrier() }

// NocAsyncWriteBarrier waits until all NoC commands of the kernel have taken effect (tt-metal:
// noc_async_write_barrier).
func (k *Context) NocAsyncWriteBarrier() { k.barrier(false) }

// barrier waits until all NoC commands of the kernel have taken effect. If routing is true, the
// kernel waits inside RunRouting.
func (k *Context) barrier(routing bool) {
	k.p.call()
	if len(k.p.noc) > 0 {
		k.p.pause(wait{kind: forNoc, routing: routing})
	}
}

// NocAsyncReadBarrier waits until all NoC commands of the kernel have taken effect (tt-metal:
// noc_async_read_barrier).
func (k *Context) NocAsyncReadBarrier() { k.NocAsyncWriteBarrier() }

// checkStore reports a store into the source of a command that is under way.
func (p *process) checkStore(a uint32, n int) {
	for _, q := range p.job.running {
		if q.at != p.at {
			continue
		}
		for i := range q.noc {
			if c := &q.noc[i]; !c.read && c.n > 0 && uint64(a) < uint64(c.local)+uint64(c.n) && uint64(c.local) < uint64(a)+uint64(n) {
				p.m.violated(p.job, p.String(), Violation{Rule: NocSource, Tile: p.start.Tile, Addr: a, Size: uint32(n), Command: c.what})
				return
			}
		}
	}
	if ch, ok := (&Context{p}).Channel(); ok && p.m.cfg.Host.Sending(ch, a, n) {
		p.m.violated(p.job, p.String(), Violation{Rule: EthSource, Tile: p.start.Tile, Addr: a, Size: uint32(n), Command: "eth_send_packet"})
	}
}
