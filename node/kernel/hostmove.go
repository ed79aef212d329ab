package kernel

import (
	"time"

	"ttfabric/node/noc"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// The NoC commands of a kernel may read and write host memory by addresses in the window of the
// PCIe tile, see [noc.Memory.HostOffset]. The host performs such a command later. The kernel's
// later NoC commands wait. A command that the host does not perform within [noc.HostWait] ends the
// job.

// hostPause is the pause before a kernel tries again to start a transfer that found no room in the
// chip. The value is our own choice.
const hostPause = 100 * time.Microsecond

// The states of a command that reads or writes host memory.
const (
	hostNone  = iota // the command reaches no host memory
	hostReady        // the chip has not started the transfer
	hostMoves        // the transfer is under way
	hostEnded
)

// hostMove is the transfer of a command that reads or writes host memory.
type hostMove struct {
	state   uint8
	id      uint64    // number of the transfer; 0: not started
	until   mono.Time // the command ends at this time at the latest; 0: the command has not had its turn
	next    mono.Time // the machine must not look at the command again before this time
	outcome wire.Outcome
	data    []byte // bytes that the host has read
}

// hostTransfers are the transfers of all kernels of a machine.
type hostTransfers struct {
	open map[uint64]*process // transfers under way, by number
	last uint64              // number of the last transfer
}

// checkHost checks the address of a command of n bytes. If the address is in host memory, the state of the
// result is hostReady.
func checkHost(m *noc.Memory, a wire.NocAddr, n int) (hostMove, wire.Outcome) {
	if _, ok := m.HostOffset(a); ok && n >= 0 {
		return hostMove{state: hostReady}, wire.OutcomeDone
	}
	return hostMove{}, m.Check(a, n)
}

// due returns the time at which the machine must look at a command that has its turn.
func (c *nocCommand) due() mono.Time { return max(c.at, c.host.next) }

// moves starts the transfer of a command that reads or writes host memory. moves returns true if the command
// needs no transfer, or if its transfer has ended.
func (p *process) moves(c *nocCommand) bool {
	h, m := &c.host, p.m
	if h.state == hostNone || h.state == hostEnded {
		return true
	}
	if h.until == 0 {
		h.until = m.now.Add(noc.HostWait)
	}
	if !m.now.Before(h.until) {
		delete(m.moving.open, h.id)
		h.state, h.outcome = hostEnded, wire.OutcomeHostGone
		return true
	}
	if h.state == hostMoves {
		return false
	}
	at, _ := m.cfg.Memory.HostOffset(c.cmd.Addr)
	var b []byte
	if !c.read {
		b = make([]byte, c.n)
		if h.outcome = m.cfg.Memory.Read(p.addr(c.local), b); h.outcome != wire.OutcomeDone {
			h.state = hostEnded
			return true
		}
	}
	if !m.cfg.Host.MoveHost(m.moving.last+1, at, b, c.n) {
		h.next = mono.Min(m.now.Add(hostPause), h.until)
		return false
	}
	m.moving.last++
	h.state, h.id, h.next = hostMoves, m.moving.last, h.until
	if m.moving.open == nil {
		m.moving.open = map[uint64]*process{}
	}
	m.moving.open[h.id] = p
	return false
}

// TransferDone tells the machine how a transfer ended that the machine gave to [Host.MoveHost].
// After a read, the machine keeps the data, so the caller must not change the data.
func (m *Machine) TransferDone(now mono.Time, id uint64, o wire.Outcome, data []byte) {
	p := m.moving.open[id]
	if p == nil {
		return
	}
	delete(m.moving.open, id)
	if p.ended || len(p.noc) == 0 || p.noc[0].host.id != id {
		return
	}
	c := &p.noc[0]
	c.host.state, c.host.outcome, c.host.data, c.host.next = hostEnded, o, data, now
	if c.read && o == wire.OutcomeDone && len(data) != c.n {
		c.host.outcome = wire.OutcomeBadAddress // the host has not read all bytes
	}
	m.due = mono.Min(m.due, now)
}
