package reliable

import (
	"fmt"
	"slices"
)

// Limits of an endpoint.
const (
	MaxWords      = 1 << 16 // data flits of a packet
	MaxQueued     = 1 << 16 // packets that wait at an endpoint
	replicaMemory = 4096    // packets that an endpoint remembers because of a replica token
)

// Packet is what an endpoint sends: a head flit, a data flit for each word, a tail flit with the length,
// and the token.
type Packet struct {
	Src, Dst   Place
	Seq        uint64 // number of the packet at its source, 0 to 2^42-1; with Src the unique identifier
	Priority   uint8  // 0 or 1
	Diagnostic bool   // the packet goes to the diagnostic port
	Words      []uint64
}

// seqBits is the part of the user information that numbers the packets of a source. The source's
// coordinates take the other 10 bits.
const seqBits = UserBits - 10

// ID returns the packet's unique identifier, the user information of its head flit.
func (p *Packet) ID() uint64 {
	return uint64(p.Src.X) | uint64(p.Src.Y)<<5 | p.Seq&(1<<seqBits-1)<<10
}

// Delivery is a packet that an endpoint has received whole, for the first time.
type Delivery struct {
	Packet
	Token Kind // the token that completed the packet
	At    Time
}

// injection is a packet on its way from the endpoint into a bank.
type injection struct {
	p    *Packet
	head uint64
	next int // 0: the head; 1 to n: words; n+1: the tail; n+2: the token
}

// piece is a packet, or a part, that arrives through one bank.
type piece struct {
	head  Flit // of kind Padding, if no piece is arriving
	words []uint64
	tail  bool
	whole int // data and tail flits of the whole packet, from the tail
	bad   bool
}

// parts is what an endpoint has of a packet with a replica token.
type parts struct {
	front []uint64 // words from the first
	rear  []uint64 // words up to the last
	whole int      // data and tail flits of the packet, 0 if no tail has come
}

// queue holds the packets of one port and priority that wait for a bank.
type queue struct {
	packets []*Packet
	first   int // index of the oldest packet
}

func (q *queue) len() int { return len(q.packets) - q.first }

func (q *queue) push(p *Packet) {
	if q.first > len(q.packets)/2 {
		q.packets, q.first = q.packets[:copy(q.packets, q.packets[q.first:])], 0
	}
	q.packets = append(q.packets, p)
}

func (q *queue) pop() *Packet {
	p := q.packets[q.first]
	q.packets[q.first] = nil
	q.first++
	return p
}

// host is the endpoint at a router: the processor and the diagnostic port, with one queue.
type host struct {
	at      Place
	queues  [2][2]queue // by port, processor and diagnostic, and by priority
	inject  [2][NumVCs]injection
	turn    int
	pieces  [2][NumVCs]piece  // what arrives by the two ports
	known   map[uint64]*parts // incomplete packets with a replica token
	done    map[uint64]bool   // packets delivered with a replica token
	order   []uint64          // keys of known and done, oldest first
	inbox   []Delivery
	now     Time
	plain   bool // without the Unique Token Protocol
	injects int  // packets whose head flit the router has accepted

	Damaged    int // flits with a wrong byte parity, and unique packets that are not whole
	Duplicates int // pieces of packets that were delivered before
	Forgotten  int // packets with a replica token that were forgotten for newer ones
}

func newHost(at Place) *host {
	return &host{at: at, known: map[uint64]*parts{}, done: map[uint64]bool{}}
}

// push queues a packet.
func (h *host) push(p *Packet) error {
	switch {
	case len(p.Words) > MaxWords:
		return fmt.Errorf("a packet of %d words; the limit is %d", len(p.Words), MaxWords)
	case h.waiting() >= MaxQueued:
		return fmt.Errorf("%d packets wait at %v; the limit is %d", h.waiting(), h.at, MaxQueued)
	}
	if _, err := p.headData(); err != nil {
		return err
	}
	port := 0
	if p.Diagnostic {
		port = 1
	}
	h.queues[port][p.Priority].push(p)
	return nil
}

func (p *Packet) headData() (uint64, error) {
	if p.Dst.X < 0 || p.Dst.Y < 0 || p.Dst.X >= MaxSide || p.Dst.Y >= MaxSide || p.Seq >= 1<<seqBits {
		return 0, fmt.Errorf("packet %d to %v: coordinates are 0 to %d, and the number has %d bits", p.Seq, p.Dst, MaxSide-1, seqBits)
	}
	return Head{uint8(p.Dst.X), uint8(p.Dst.Y), p.Diagnostic, p.Priority, p.ID()}.Encode()
}

func (h *host) waiting() (n int) {
	for i := range h.queues {
		n += h.queues[i][0].len() + h.queues[i][1].len()
	}
	return n
}

// feed gives the processor's and the diagnostic input controller one flit each. Packets of priority 0
// and 1 have banks of their own, so that neither waits for the other.
func (h *host) feed(r *Router) {
	for i := range h.inject {
		port := uint8(PortProcessor + i)
		h.start(r, port)
		for k := range NumVCs {
			v := (h.turn + k) % NumVCs
			if h.give(r, port, v) {
				break
			}
		}
	}
	h.turn = (h.turn + 1) % NumVCs
}

// start begins to send the oldest packet of each priority, if a bank for the priority is free. With
// [Ordered], a packet has one channel on each link, and so has one bank here.
func (h *host) start(r *Router, port uint8) {
	i := port - PortProcessor
	for priority := range h.queues[i] {
		q := &h.queues[i][priority]
		if q.len() == 0 {
			continue
		}
		banks := hostVCs[priority]
		if r.cfg.Policy == Ordered {
			banks = banks[:1]
		}
		for _, v := range banks {
			if in := &h.inject[i][v]; in.p == nil && r.ins[port].banks[v].State == Idle {
				p := q.pop()
				in.p, in.next = p, 0
				in.head, _ = p.headData() // push has checked the fields
				break
			}
		}
	}
}

// give stores the next flit of the packet for bank v. Without a packet or room, give returns false.
func (h *host) give(r *Router, port uint8, v int) bool {
	in := &h.inject[port-PortProcessor][v]
	if in.p == nil {
		return false
	}
	n := len(in.p.Words)
	var f Flit
	switch {
	case in.next == 0:
		f = NewFlit(HeadOriginal, in.head)
		h.injects++
	case in.next <= n+1 && r.ins[port].banks[v].Room() == 0:
		return false
	case in.next <= n:
		f = NewFlit(Data, in.p.Words[in.next-1])
	case in.next == n+1:
		f = NewFlit(Tail, uint64(n+1))
	default:
		f = NewFlit(TokenUnique, 0)
	}
	r.store(port, uint8(v), f, false)
	if in.next++; in.next > n+2 || h.plain && in.next > n+1 {
		in.p = nil
	}
	return true
}

// eject takes a flit of a virtual channel of the processor's or the diagnostic port.
func (h *host) eject(port, vc uint8, f Flit) {
	p := &h.pieces[port-PortProcessor][vc]
	if f.Kind.Head() {
		*p = piece{head: f}
		return
	}
	p.bad = p.bad || !f.Intact()
	switch f.Kind {
	case Data:
		p.words = append(p.words, f.Data)
	case Tail:
		p.tail, p.whole = true, int(min(f.Data, MaxWords+1))
		if h.plain {
			h.finish(p, TokenUnique)
		}
	default:
		h.finish(p, f.Kind)
	}
}

// finish handles the token of a piece. With a unique token the piece is the packet, and the endpoint
// looks for no duplicate (RR §5.1).
func (h *host) finish(p *piece, token Kind) {
	if p.bad || !p.head.Intact() {
		h.Damaged++
		return
	}
	if token == TokenUnique {
		if p.head.Kind != HeadOriginal || !p.tail || p.whole != len(p.words)+1 {
			h.Damaged++
			return
		}
		h.deliver(p.head, p.words, token)
		return
	}
	id := DecodeHead(p.head.Data).User
	if h.done[id] {
		h.Duplicates++
		return
	}
	q := h.known[id]
	if q == nil {
		q = &parts{}
		h.known[id] = q
		h.remember(id)
	}
	if p.head.Kind == HeadOriginal && len(p.words) >= len(q.front) {
		q.front = p.words
	}
	if p.tail {
		if q.whole = p.whole; len(p.words) >= len(q.rear) {
			q.rear = p.words
		}
	}
	if words, ok := q.join(); ok {
		delete(h.known, id)
		h.done[id] = true
		h.deliver(p.head, words, token)
	}
}

// join returns the words of the packet, if the pieces have them all. The front piece begins with the
// first word. The rear piece ends with the tail, which has the length, so the number of its words gives
// the place of its first word (RR §5.2).
func (q *parts) join() ([]uint64, bool) {
	n := q.whole - 1
	if q.whole == 0 || len(q.rear) > n || len(q.front) > n || len(q.front)+len(q.rear) < n {
		return nil, false
	}
	return append(slices.Clip(q.front[:n-len(q.rear)]), q.rear...), true
}

// remember notes a packet with a replica token, and forgets the oldest beyond the limit.
func (h *host) remember(id uint64) {
	if h.order = append(h.order, id); len(h.order) <= replicaMemory {
		return
	}
	old := h.order[0]
	h.order = h.order[1:]
	delete(h.done, old)
	delete(h.known, old)
	h.Forgotten++
}

func (h *host) deliver(head Flit, words []uint64, token Kind) {
	d := DecodeHead(head.Data)
	h.inbox = append(h.inbox, Delivery{Packet{
		Src: Place{X: int(d.User & 31), Y: int(d.User >> 5 & 31)}, Dst: Place{X: int(d.X), Y: int(d.Y)},
		Seq: d.User >> 10, Priority: d.Priority, Diagnostic: d.Diagnostic, Words: words,
	}, token, h.now})
}

// busy reports whether packets wait or are on their way into the router.
func (h *host) busy() bool {
	for i := range h.inject {
		for v := range h.inject[i] {
			if h.inject[i][v].p != nil {
				return true
			}
		}
	}
	return h.waiting() > 0
}
