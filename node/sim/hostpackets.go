package sim

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"ttfabric/node/firmware"
	"ttfabric/node/flow"
	"ttfabric/node/noc"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// The hosts' chips also send packets to host memory: over the fabric to the host memory of other chips, and to
// their own host memory. Each host has cells in the host memory of each chip. Only this host writes to these
// cells. The packets to a cell form one flow. The rule "hosts" says of these packets:
//
//   - Each packet ends exactly once, within maxHost.
//   - A chip makes the transfers of a write at most once, in the order of the flow, and exactly once if the
//     write ended as done. If the write ended as refused or lost, no chip has made any of its transfers.
//   - A read returns what the earlier writes of the flow have left in the cell.
//   - A packet ends as lost or with an unknown fate only if a cable or a chip had a fault.
//   - A packet ends as "host gone" only if the host was slow. Some transfers take longer than [noc.HostWait].
//   - After the end of all faults, every host reaches a cell of every chip.

const (
	packetToken  = 1 << 61 // bit in the tokens of the hosts' packets
	packetCells  = 8       // cells of a host in the host memory of each chip
	packetCell   = 256     // bytes of a cell
	maxPackets   = 8       // packets of one host under way
	slowTransfer = 300     // one transfer of so many takes longer than noc.HostWait
)

// hostPackets are the packets of all hosts of a run.
type hostPackets struct {
	all   *hosts
	rng   *rand.Rand
	list  []*hostPacket                // the packet with the id k has the index k-1
	cells map[*life]map[int][]cellText // by incarnation and number of the cell: contents of the cell, oldest first
	last  map[cellFlow]uint32          // id of the last write that a chip has performed
	slow  map[int]mono.Time            // by chip: when the last slow transfer began
	lent  map[*life]mono.Time          // when a host has lent memory to the incarnation
}

// cellText is the content of a cell, after the write with an id.
type cellText struct {
	id   uint32
	data [packetCell]byte
}

// cellFlow is a flow of writes to an incarnation of a chip.
type cellFlow struct {
	to   *life
	cell int // number of the cell among those of all hosts
}

// hostPacket is a packet to a cell.
type hostPacket struct {
	id    uint32
	host  *host
	life  *life // incarnation of the sending chip
	dst   int
	cell  int // number of the cell among those of all hosts
	read  bool
	parts []noc.HostPart // parts of a write in the cell: Addr is the offset in the cell
	data  []byte
	off   int // of a read: offset in the cell
	n     int // of a read: bytes
	sent  mono.Time
	done  int // parts that the chip has performed
	ended bool
	fate  flow.Fate
}

func newHostPackets(all *hosts) *hostPackets {
	return &hostPackets{all: all, rng: rand.New(rand.NewPCG(all.s.cfg.Seed, 0x7063_6965)), cells: map[*life]map[int][]cellText{},
		last: map[cellFlow]uint32{}, slow: map[int]mono.Time{}, lent: map[*life]mono.Time{}}
}

// base returns the address of the first cell in host memory. The buffers of the firmware's requests come first.
func (p *hostPackets) base() uint64 {
	return uint64(len(p.all.list) * firmware.QueueLen * hostBytes)
}

// size returns the bytes of host memory that a chip may use.
func (p *hostPackets) size() int { return int(p.base()) + len(p.all.list)*packetCells*packetCell }

// send makes the host's chip send packets.
func (h *host) send() {
	p := h.all.packets
	for range 1 + p.rng.IntN(3) {
		if h.packets >= maxPackets || h.all.proof && len(h.cells) == 0 || !h.all.proof && p.rng.IntN(3) == 0 {
			return
		}
		o := &hostPacket{id: uint32(len(p.list) + 1), host: h, life: h.life, dst: p.rng.IntN(len(h.all.s.machines)), read: p.rng.IntN(2) == 0}
		if h.all.proof {
			o.dst = h.cells[0]
		}
		cell := p.rng.IntN(packetCells)
		o.cell = h.number*packetCells + cell
		r := flow.Request{Token: packetToken | uint64(o.id), Dst: h.all.s.machines[o.dst].node, Plane: wire.Plane(cell % h.all.s.cfg.Topology.Planes())}
		p.fill(o, &r)
		o.sent = h.all.s.now
		if a := h.m.chip.HandleRequest(h.all.s.clock(h.m), r); a != flow.Accepted {
			if h.all.proof && a != flow.Busy {
				h.all.s.fail("hosts", "host %d cannot send a packet to %s without any fault in force: %s", h.number, r.Dst, a)
			}
			if a == flow.Unreachable { // the chip counts the request as lost
				o.ended, o.fate = true, flow.FateLost
				p.list = append(p.list, o)
			}
			return
		}
		if h.all.proof {
			h.cells = h.cells[1:]
		}
		p.list = append(p.list, o)
		h.packets++
	}
}

// fill draws the command of a packet.
func (p *hostPackets) fill(o *hostPacket, r *flow.Request) {
	at := func(off int) wire.NocAddr {
		return wire.NewNocAddr(0, 3, noc.HostBase+p.base()+uint64(o.cell*packetCell+off))
	}
	part := func() noc.HostPart {
		n := 4 + p.rng.IntN(packetCell-3)
		return noc.HostPart{Addr: uint64(p.rng.IntN(packetCell - n + 1)), From: len(o.data), Len: n}
	}
	if o.read {
		x := part()
		o.off, o.n = int(x.Addr), x.Len
		r.Command = wire.Command{Type: wire.NocRead, Addr: at(o.off), Size: uint16(o.n)}
		return
	}
	r.Command = wire.Command{Type: wire.NocUnicastWrite}
	if p.rng.IntN(3) == 0 {
		r.Command = wire.Command{Type: wire.NocScatterWrite, Chunks: 2}
	}
	for k := range max(int(r.Command.Chunks), 1) {
		x := part()
		b := pattern(uint64(o.id)+uint64(k)<<32, x.Len)
		binary.LittleEndian.PutUint32(b, o.id) // each part says to which packet it belongs
		o.parts, o.data = append(o.parts, x), append(o.data, b...)
		r.Command.Scatter[k], r.Command.Sizes[k] = at(int(x.Addr)), uint16(x.Len)
	}
	if r.Payload = o.data; r.Command.Type == wire.NocUnicastWrite {
		r.Command = wire.Command{Type: wire.NocUnicastWrite, Addr: at(int(o.parts[0].Addr))}
	} else {
		r.Command.Sizes[1] = 0 // the last chunk is the rest of the payload
	}
}

// transfer checks a transfer that a chip has started, and returns the time that it takes. transfer ignores
// transfers of the firmware.
func (p *hostPackets) transfer(m *machine, t *firmware.Transfer) (long time.Duration) {
	if t.Addr < p.base() {
		return 0
	}
	if !p.all.s.healed && p.rng.IntN(slowTransfer) == 0 {
		p.slow[m.index], long = p.all.s.now, noc.HostWait+time.Duration(p.rng.Int64N(int64(noc.HostWait)))
	}
	if t.Write {
		p.wrote(m, t)
	}
	return long
}

// wrote checks a write of host memory.
func (p *hostPackets) wrote(m *machine, t *firmware.Transfer) {
	s := p.all.s
	id := binary.LittleEndian.Uint32(t.Data)
	if id == 0 || int(id) > len(p.list) {
		s.fail("hosts", "%s writes %d bytes to %#x of host memory, and no host asked for it", m.node, len(t.Data), t.Addr)
		return
	}
	o := p.list[id-1]
	k := cellFlow{m.life, o.cell}
	off := t.Addr - p.base() - uint64(o.cell*packetCell)
	if o.read || o.dst != m.index || o.done >= len(o.parts) || o.parts[o.done].Addr != off || !bytes.Equal(o.data[o.parts[o.done].From:][:o.parts[o.done].Len], t.Data) ||
		o.ended && o.fate != flow.FateUnknown || p.last[k] > id {
		s.fail("hosts", "%s writes %d bytes to %#x of host memory for packet %d of host %d to %s, after %d of %d parts and after packet %d; ended: %v",
			m.node, len(t.Data), t.Addr, id, o.host.number, s.machines[o.dst].node, o.done, len(o.parts), p.last[k], o.ended)
		return
	}
	o.done++
	p.last[k] = id
	if p.cells[m.life] == nil {
		p.cells[m.life] = map[int][]cellText{}
	}
	list := p.cells[m.life][o.cell]
	v := cellText{id: id}
	if len(list) > 0 {
		v.data = list[len(list)-1].data
	}
	copy(v.data[off:], t.Data)
	p.cells[m.life][o.cell] = append(list, v)
}

// ended checks the end of a packet. ended returns false if the request is no packet of a host.
func (p *hostPackets) ended(m *machine, r *flow.Result) bool {
	if r.Token&packetToken == 0 {
		return false
	}
	s, id := p.all.s, int(r.Token&^packetToken)
	if id == 0 || id > len(p.list) || p.list[id-1].ended || p.list[id-1].life != m.life {
		s.fail("hosts", "%s ends packet %d, which is not open", m.node, id)
		return true
	}
	o := p.list[id-1]
	s.note(r.Token, uint64(r.Fate), uint64(r.Outcome))
	o.ended, o.fate = true, r.Fate
	o.host.packets--
	s.report.Hosts.Packets++
	bad := func(what string) {
		s.fail("hosts", "packet %d of host %d from %s to %s, sent at %v, ended as %s (%s %s), with %d of %d parts performed: %s",
			o.id, o.host.number, m.node, r.Dst, o.sent, r.Fate, r.Outcome, r.Doubt, o.done, len(o.parts), what)
	}
	switch again := r.Outcome == wire.OutcomeAgain || r.Outcome == wire.OutcomeOverflow || s.unknownFlow(r.Outcome, o.dst); {
	case s.now.Sub(o.sent) > maxHost:
		bad("too late")
	case r.Fate == flow.FateDone && o.read:
		p.judge(o, r.Data, bad)
	case r.Fate == flow.FateDone && o.done != len(o.parts):
		bad("want all parts")
	case r.Fate == flow.FateDone:
	case r.Fate != flow.FateUnknown && o.done > 0:
		bad("want no part")
	case r.Fate == flow.FateRefused && !again && !(r.Outcome == wire.OutcomeNoHost && p.unlent(o)):
		bad("a wrong outcome")
	case r.Fate == flow.FateRefused:
		if p.all.proof && r.Outcome != wire.OutcomeNoHost {
			o.host.cells = append(o.host.cells, o.dst)
		}
	case r.Doubt == flow.DoubtHost && (p.slow[o.dst] == 0 || p.slow[o.dst].Add(2*noc.HostWait).Before(o.sent)):
		bad("the host was not slow")
	case r.Doubt != flow.DoubtHost && !s.troubledSince(o.sent):
		bad("nothing had a fault")
	}
	if r.Doubt == flow.DoubtHost {
		s.report.Hosts.Gone++
	}
	return true
}

// unlent reports whether an incarnation of a packet's destination had no host memory at some time since the
// packet was sent.
func (p *hostPackets) unlent(o *hostPacket) bool {
	for _, l := range p.all.s.model.lives[o.dst] {
		if at, ok := p.lent[l]; l.end >= o.sent && (!ok || at >= o.sent) {
			return true
		}
	}
	return false
}

// judge compares the bytes of a read with what the earlier writes of the flow have left in the cell.
func (p *hostPackets) judge(o *hostPacket, got []byte, bad func(string)) {
	s := p.all.s
	if s.cfg.sabotage == sabotageHostPacket && len(got) > 0 {
		got[0] ^= 0x80
	}
	for _, l := range s.model.lives[o.dst] {
		if l.end < o.sent || l.begin > s.now {
			continue
		}
		var want [packetCell]byte
		for _, v := range p.cells[l][o.cell] {
			if v.id < o.id {
				want = v.data
			}
		}
		if bytes.Equal(got, want[o.off:][:o.n]) {
			return
		}
	}
	bad(fmt.Sprintf("the cell never held the %d bytes", len(got)))
}

// fates calls f with each packet over the fabric that has ended in the present incarnation of its chip.
func (p *hostPackets) fates(f func(src, dst int, fate flow.Fate)) {
	for _, o := range p.list {
		if o.ended && o.life == o.host.m.life && o.dst != o.host.m.index {
			f(o.host.m.index, o.dst, o.fate)
		}
	}
}
