package collective

import (
	"ttfabric/node/session"
	"ttfabric/wire"
)

// A rank with long moves performs all of them in one goroutine, in rounds. In a round, the rank first takes the messages
// that have come, and then sends all messages that it can send. The order of the FIFOs is that of the schedule. So
// the memory of the chip at the beginning of a round decides what the rank does in the round, and what its messages
// acknowledge. No order of goroutines has a part in this decision: equal runs of the simulator stay equal.

// loop is the moves of a rank in rounds.
type loop struct {
	*run
	b     *batch
	ins   []intake
	outs  []outflow
	words []session.Word // what the rank waits for
	now   []uint32       // values of the words
}

// place is the next message of a FIFO.
type place struct {
	moves    []int // moves of the FIFO that have not ended
	from, to int   // elements of the first of these moves that the message carries
	word     int   // index of the word that the message waits for; -1: none
}

// intake is a FIFO from which the rank takes messages.
type intake struct {
	place
	x    *inlet
	size int // bytes of the next message
}

// outflow is a FIFO to which the rank sends messages.
type outflow struct {
	place
	x     *outlet
	index int // in the list of the queues of the plan
}

// rounds performs all moves of the rank.
func (r *run) rounds() error {
	l := &loop{run: r, b: &r.c.batch}
	l.b.rs, l.b.of = l.b.rs[:0], nil
	for i := range r.in {
		in := intake{place: place{moves: r.in[i].moves}, x: r.c.inlet(r.in[i].Pair)}
		l.begin(&in.place)
		l.expect(&in)
		l.ins = append(l.ins, in)
	}
	for i := range r.out {
		out := outflow{place: place{moves: r.out[i].moves}, x: r.c.outlet(r.out[i].Pair), index: i}
		l.begin(&out.place)
		l.outs = append(l.outs, out)
	}
	for {
		if err := l.sendAll(); err != nil {
			return err
		}
		if !l.gather() {
			return nil
		}
		if err := r.c.s.WaitAny(r.c.ctx, l.words, l.now); err != nil {
			return r.c.own(err)
		}
		if err := l.takeAll(); err != nil {
			return err
		}
	}
}

// begin sets the end of the next message.
func (l *loop) begin(p *place) {
	m := &l.s.Moves[p.moves[0]]
	p.to = min(m.Len, p.from+l.chunk(m))
}

// next goes on to the next message of a FIFO. After the last message, next returns false.
func (l *loop) next(p *place) bool {
	if p.from = p.to; p.from >= l.s.Moves[p.moves[0]].Len {
		p.from, p.moves = 0, p.moves[1:]
	}
	if len(p.moves) == 0 {
		return false
	}
	l.begin(p)
	return true
}

// expect notes the header of the next message of a FIFO.
func (l *loop) expect(in *intake) {
	in.size = (in.to - in.from) * l.s.Type.Size()
	in.x.await.set(header(in.x.taken+1, l.tag, in.moves[0], in.size), packets(in.size) > 1)
}

// gather lists the words that the rank waits for: of each FIFO to the rank the header of the next message, and of each
// full FIFO from the rank the acknowledgement. After the last move, gather returns false.
func (l *loop) gather() (more bool) {
	l.words = l.words[:0]
	for i := range l.ins {
		in := &l.ins[i]
		if in.word = -1; len(in.moves) == 0 {
			continue
		}
		more = true
		if after := l.s.Moves[in.moves[0]].TakeAfter; after < 0 || l.ended[after] {
			in.word = len(l.words)
			n := in.x.taken + 1
			l.words = append(l.words, session.Word{At: l.c.inFIFO(in.x.From, in.x.Lane).Add(int(n%Slots)*SlotSize + (packets(in.size)-1)*wire.MaxPayload), Value: n})
		}
	}
	for i := range l.outs {
		out := &l.outs[i]
		if out.word = -1; len(out.moves) == 0 {
			continue
		}
		more = true
		if n := out.x.sent + 1; n > out.x.acked.Load()+Slots && l.brought(out) {
			out.word = len(l.words)
			l.words = append(l.words, session.Word{At: l.c.ackWord(out.x.To, out.x.Lane), Value: n - Slots})
		}
	}
	for len(l.now) < len(l.words) {
		l.now = append(l.now, 0)
	}
	return more
}

// takeAll takes the messages that have come, and notes the acknowledgements.
func (l *loop) takeAll() error {
	for i := range l.outs {
		if out := &l.outs[i]; out.word >= 0 {
			out.x.ack(l.now[out.word])
		}
	}
	for i := range l.ins {
		in := &l.ins[i]
		if in.word < 0 || l.now[in.word] < l.words[in.word].Value {
			continue
		}
		k := in.moves[0]
		m := &l.s.Moves[k]
		if err := l.collect(in.x, k, in.from, in.to); err != nil {
			return err
		}
		l.mu.Lock()
		l.taken[k], l.ended[k] = in.to, in.to >= m.Len
		l.mu.Unlock()
		if l.next(&in.place) {
			l.expect(in)
		} else {
			in.x.await.set([headerSize]byte{}, false)
		}
	}
	return nil
}

// brought reports whether the rank has the data of the next message of a FIFO.
func (l *loop) brought(out *outflow) bool {
	m := &l.s.Moves[out.moves[0]]
	after := m.SendAfter
	if after < 0 || l.ended[after] {
		return true
	}
	p := &l.s.Moves[after]
	whole := m.Len == 0 || m.SrcOff < p.DstOff || m.SrcOff+m.Len > p.DstOff+p.Len
	return !whole && p.DstOff+l.taken[after] >= m.SrcOff+out.to
}

// sendAll sends all messages that can be sent, and the acknowledgements that no message carries.
func (l *loop) sendAll() error {
	for i := range l.outs {
		out := &l.outs[i]
		for len(out.moves) > 0 && l.brought(out) && out.x.sent+1 <= out.x.acked.Load()+Slots {
			k := out.moves[0]
			if err := l.b.add(out.x, l.tag, k, l.s.Source(&l.s.Moves[k], l.run.b, out.from, out.to), false, l.tells); err != nil {
				return err
			}
			if err := l.b.post(); err != nil {
				return err
			}
			if !l.next(&out.place) {
				l.mu.Lock()
				l.sent[out.index] = true
				l.mu.Unlock()
			}
		}
	}
	for i := range l.ins {
		l.c.acknowledge(l.ins[i].x, l.b)
	}
	return l.b.post()
}
