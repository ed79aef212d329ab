package sim

import (
	"time"

	"ttfabric/node/flow"
	"ttfabric/node/noc"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// op is one request of the load, with the state of the request in the model.
type op struct {
	id       uint64
	src, dst int
	plane    wire.Plane
	req      flow.Request
	want     wire.Outcome // outcome of the op without any fault
	touches  []touch      // memory that the op writes or reads
	group    int          // number of the multicast group; 0: unicast
	members  []member     // destinations of a multicast

	index       int // index of the op in its flow, in the order in which the chip accepted the ops
	life        *life
	sent        mono.Time
	accepted    bool
	ended       bool
	orphan      bool // whether the op was open when its source died
	unreachable bool // whether the chip refused to start the op, because it had no route
	proof       bool // whether the op was sent in the last part of the run, without any fault in force
	anew        bool // whether the destination refused the op because it has restarted and does not know the flow
	fate        flow.Fate
	performed   int
}

// touch is a part of a cell that an op reads or writes, or a word.
type touch struct {
	at   place
	off  int
	data []byte // data to write; for a read: zeros, as many as the bytes to read
	word bool
	add  bool // whether the op adds to the word; false: the op overwrites
}

// job describes a stream of requests from one chip.
type job struct {
	m      *machine
	dst    []int // chips from which each unicast draws its destination
	plane  wire.Plane
	left   int
	burst  int
	pause  time.Duration
	greedy bool // whether the client inside the chip offers the requests; false: the simulator hands the requests over with HandleRequest
	big    bool
	bad    int         // of 20 requests, the average number that the destination must refuse
	trees  []flow.Tree // trees from which each multicast draws its destinations
	many   int         // of 20 requests, the average number of multicasts; used only if there are trees
}

// drawLoad draws one to three jobs for each chip at random, and plans their starts.
func (s *Sim) drawLoad(end mono.Time) {
	hot := s.rng.IntN(len(s.machines))
	for _, m := range s.machines {
		for range 1 + s.rng.IntN(3) {
			j := &job{m: m, plane: s.anyPlane(), left: 10 + s.rng.IntN(80), burst: 1 + s.rng.IntN(20), bad: 1,
				pause: time.Duration(s.rng.Int64N(int64(end) / 10)), greedy: s.rng.IntN(3) == 0, big: s.rng.IntN(4) == 0}
			if s.rng.IntN(6) == 0 {
				j.left, j.burst = 300, 300
			}
			if s.rng.IntN(8) == 0 {
				j.bad = 10
			}
			switch s.rng.IntN(3) {
			case 0:
				j.dst = []int{hot}
			case 1:
				j.dst = []int{s.rng.IntN(len(s.machines))}
			default:
				for i := range s.machines {
					j.dst = append(j.dst, i)
				}
			}
			j.many = []int{0, 4, 20}[s.rng.IntN(3)]
			for range 1 + s.rng.IntN(2) {
				if t, ok := s.anyTree(m, j.plane); ok && j.many > 0 {
					j.trees = append(j.trees, t)
				}
			}
			s.at(mono.Time(s.rng.Int64N(int64(end))), func() { s.step(j) })
		}
	}
}

func (s *Sim) anyPlane() wire.Plane { return wire.Plane(s.rng.IntN(s.cfg.Topology.Planes())) }

// step draws the next burst of a job's requests, queues the requests at the job's chip, and plans
// the following burst. While the chip is dead, step draws nothing. After the end of all faults, the
// job ends.
func (s *Sim) step(j *job) {
	if s.healed {
		return
	}
	if j.m.chip != nil {
		for range min(j.burst, j.left) {
			j.left--
			o := s.draw(j)
			if j.greedy {
				j.m.greedy = append(j.m.greedy, o)
			} else {
				j.m.backlog = append(j.m.backlog, o)
			}
		}
		s.run(j.m)
	}
	if j.left > 0 {
		s.after(j.pause, func() { s.step(j) })
	}
}

// newOp returns an op without a command.
func (s *Sim) newOp(src, dst int, plane wire.Plane) *op {
	s.model.ids++
	o := &op{id: s.model.ids, src: src, dst: dst, plane: plane}
	o.req = flow.Request{Token: o.id, Dst: s.machines[dst].node, Plane: plane}
	s.model.ops = append(s.model.ops, o)
	return o
}

// draw draws a job's next request at random.
func (s *Sim) draw(j *job) *op {
	if len(j.trees) > 0 && s.rng.IntN(20) < j.many {
		return s.drawMulticast(j)
	}
	o := s.newOp(j.m.index, j.dst[s.rng.IntN(len(j.dst))], j.plane)
	o.req.Other = s.tied && s.rng.IntN(2) == 0
	if s.rng.IntN(20) < j.bad {
		s.wrong(o)
		return o
	}
	switch k := s.rng.IntN(19); {
	case k < 6:
		s.write(o, s.size(j), s.rng.IntN(4) == 0)
	case k < 10:
		s.read(o, s.size(j))
	case k < 12:
		o.word(wire.NocInlineWrite, s.rng.IntN(words))
	case k < 14:
		o.word(wire.NocAtomicInc, s.rng.IntN(words))
		o.req.Command.Flush = s.rng.IntN(2) == 0
	case k < 16:
		s.fused(o, s.size(j))
	case k < 18:
		s.scatter(o, s.size(j))
	default:
		o.req.Probe, o.req.Flush = true, s.rng.IntN(2) == 0
	}
	o.req.Posted = !o.req.Probe && o.req.Command.Type != wire.NocRead && s.rng.IntN(8) == 0
	return o
}

func (s *Sim) size(j *job) int {
	if j.big || s.rng.IntN(8) == 0 {
		return wire.MaxPayload
	}
	return minWrite + s.rng.IntN(400)
}

// minWrite is the smallest write, in bytes. The data of a write must have room for the op's id.
const minWrite = 8

// write makes o a write of n bytes to a random place in a cell of o's flow.
func (s *Sim) write(o *op, n int, dram bool) {
	t := touch{at: o.place(dram, s.rng.IntN(cells)), off: s.rng.IntN(cellSize - n + 1), data: pattern(o.id, n)}
	o.touches = []touch{t}
	o.req.Payload = t.data
	o.req.Command = wire.Command{Type: wire.NocUnicastWrite, Addr: addrOf(t.at).Add(t.off)}
}

func (s *Sim) read(o *op, n int) {
	t := touch{at: o.place(s.rng.IntN(4) == 0, s.rng.IntN(cells)), off: s.rng.IntN(cellSize - n + 1), data: make([]byte, n)}
	o.touches = []touch{t}
	o.req.Command = wire.Command{Type: wire.NocRead, Addr: addrOf(t.at).Add(t.off), Size: uint16(n)}
}

// fused makes o a write of n bytes that also increments a word.
func (s *Sim) fused(o *op, n int) {
	s.write(o, n, false)
	w, k := o.place(false, wordCell), s.rng.IntN(words)
	o.req.Command.Type, o.req.Command.Value = wire.NocFusedInc, uint32(o.id)
	o.req.Command.Sem = addrOf(w).Add(4 * k)
	o.touches = append(o.touches, touch{at: w, off: 4 * k, word: true, add: true, data: word(uint32(o.id))})
}

// place returns a cell of the op's flow.
func (o *op) place(dram bool, cell int) place {
	return place{o.src, o.plane, o.req.Other, o.group != 0, dram, cell}
}

// word makes o a command on one word of its flow's cell of words. The command's value is o's id.
func (o *op) word(t wire.NocSendType, n int) {
	w := o.place(false, wordCell)
	o.touches = []touch{{at: w, off: 4 * n, word: true, add: t == wire.NocAtomicInc, data: word(uint32(o.id))}}
	o.req.Command = wire.Command{Type: t, Addr: addrOf(w).Add(4 * n), Value: uint32(o.id)}
}

// scatter makes o a scatter write of n bytes in two to four chunks. Each chunk goes to a cell of
// its own.
func (s *Sim) scatter(o *op, n int) {
	chunks := 2 + s.rng.IntN(wire.MaxScatter-1)
	data := pattern(o.id, n)
	o.req.Payload = data
	c := wire.Command{Type: wire.NocScatterWrite, Chunks: uint8(chunks)}
	for i := range chunks {
		size := len(data)
		if i == 0 {
			size = min(minWrite, size)
		} else if i < chunks-1 {
			size = s.rng.IntN(len(data) + 1)
		}
		t := touch{at: o.place(false, i), off: s.rng.IntN(cellSize - size + 1), data: data[:size]}
		c.Scatter[i], c.Sizes[i] = addrOf(t.at).Add(t.off), uint16(size)
		o.touches = append(o.touches, t)
		data = data[size:]
	}
	o.req.Command = c
}

// wrong makes o a command that its destination must refuse.
func (s *Sim) wrong(o *op) {
	w := addrOf(o.place(false, wordCell))
	k := s.rng.IntN(4)
	if k == 1 && o.group != 0 {
		k = 0 // a read cannot be multicast
	}
	switch k {
	case 0: // no tile has the address
		o.want = wire.OutcomeBadAddress
		o.req.Command, o.req.Payload = wire.Command{Type: wire.NocUnicastWrite, Addr: wire.NewNocAddr(63, 63, 0)}, pattern(o.id, 64)
	case 1: // the address is beyond the memory of the tile
		o.want = wire.OutcomeBadAddress
		o.req.Command = wire.Command{Type: wire.NocRead, Addr: wire.NewNocAddr(w.X(), w.Y(), wire.MaxNocOffset-100), Size: 64}
	case 2:
		o.want = wire.OutcomeMisaligned
		o.req.Command = wire.Command{Type: wire.NocAtomicInc, Addr: w.Add(2), Value: 1}
	default:
		o.want = wire.OutcomeBadCommand
		o.req.Command = wire.Command{Type: wire.NocInlineWrite, Addr: addrOf(o.place(true, 0)), Value: 1}
	}
}

// pattern returns n bytes of data for the op with the given id. The data begins with the id.
func pattern(id uint64, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		if i < 8 {
			b[i] = byte(id >> (8 * i))
		} else {
			x := id*0x9E3779B97F4A7C15 + uint64(i)*0xD1B54A32D192ED03
			b[i] = byte(x >> 56)
		}
	}
	return b
}

func word(v uint32) []byte { return []byte{byte(v), byte(v >> 8), byte(v >> 16), byte(v >> 24)} }

// accept notes in the model that chip m accepts an op.
func (s *Sim) accept(m *machine, o *op, now mono.Time) {
	s.model.accept(o, m.life, now)
	s.model.informed[o.id] = s.informed(m, o)
}

// submit hands the ops in the backlog to the chip, in order, until the chip has no more room.
func (s *Sim) submit(m *machine) {
	for len(m.backlog) > 0 {
		o := m.backlog[0]
		// The model must accept the op first, because HandleRequest performs and ends a request to
		// the chip itself at once.
		s.accept(m, o, s.now)
		switch a := m.chip.HandleRequest(s.now, o.req); a {
		case flow.Accepted:
			m.backlog = m.backlog[1:]
		case flow.Busy:
			s.model.undo(o)
			return
		case flow.Unreachable:
			s.model.undo(o)
			m.backlog, o.unreachable = m.backlog[1:], true
			s.report.Refused++
			if !s.troubled(o) {
				s.fail("admission", "op %d from %s to %s: unreachable, but its route has had no fault", o.id, m.node, o.req.Dst)
			}
		default:
			s.fail("admission", "op %d from %s to %s: %v", o.id, m.node, o.req.Dst, a)
			return
		}
	}
}

// program is the client inside a chip. A program offers the ops in the field "greedy", and checks
// the commands that the chip performs.
type program struct {
	s    *Sim
	m    *machine
	last *op
}

// Next returns the request of the next op. If no op is left, Next returns false.
func (p *program) Next(now mono.Time) (flow.Request, bool) {
	if p.m.taken == len(p.m.greedy) {
		p.m.greedy, p.m.taken = p.m.greedy[:0], 0
		return flow.Request{}, false
	}
	p.last = p.m.greedy[p.m.taken]
	p.m.taken++
	p.s.accept(p.m, p.last, now)
	return p.last.req, true
}

// Undo takes back the op that Next returned last.
func (p *program) Undo() {
	p.m.taken--
	p.s.model.undo(p.last)
}

// Done checks the result of an op.
func (p *program) Done(_ mono.Time, r flow.Result) { p.s.ended(p.m, r) }

// Performed checks a command that the chip has performed, and performs the command on the model.
func (p *program) Performed(_ mono.Time, src wire.FabricNodeID, plane wire.Plane, other bool, cmd *wire.Command, mem *noc.Memory) {
	p.s.performed(p.m, src, plane, other, cmd, mem)
}
