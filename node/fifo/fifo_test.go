package fifo

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// stream returns byte n of the stream of the tests.
func stream(n uint64) byte { return byte(n*0x9E3779B97F4A7C15>>56) ^ byte(n) }

// flying is a write under way: its packets that are not performed yet.
type flying struct {
	Write
	left []uint64 // first bytes of the packets that are left
	lose bool     // the network loses a packet
}

// world is a simple model of a socket: the FIFO's bytes, the two counters, and the commands under
// way. The network performs the packets of different commands in any order.
type world struct {
	t      *testing.T
	r      *rand.Rand
	cfg    Config
	base   uint64 // number of the first byte
	fifo   []byte
	sent   uint64 // bytes that bytes_sent counts
	acked  uint64
	read   uint64 // bytes that the program has read
	writes []*flying
	ends   []func() // completions of commands on their way to the ends
	ack    uint32   // acknowledgement under way; 0: none
	loss   float64
	now    mono.Time
	s      *Sender
	rcv    *Receiver
}

func newWorld(t *testing.T, seed uint64, cfg Config, loss float64) *world {
	t.Helper()
	w := &world{t: t, r: rand.New(rand.NewPCG(seed, 1)), cfg: cfg, fifo: make([]byte, cfg.Size), loss: loss}
	var err error
	if w.s, err = NewSender(cfg); err != nil {
		t.Fatal(err)
	}
	w.rcv, _ = NewReceiver(cfg)
	if seed%2 == 0 { // the counters wrap soon
		w.base = (1<<32 - uint64(cfg.Size)) / uint64(cfg.Size) * uint64(cfg.Size)
		w.s.acked, w.s.sent, w.s.written, w.s.cut, w.s.put = w.base, w.base, w.base, w.base, w.base
		w.s.inc.to = w.base
		w.rcv.acked, w.rcv.taken, w.rcv.sent = w.base, w.base, w.base
	}
	w.sent, w.acked, w.read = w.base, w.base, w.base
	return w
}

// check reports a broken rule.
func (w *world) check(ok bool, format string, args ...any) {
	w.t.Helper()
	if !ok {
		w.t.Fatalf(format, args...)
	}
}

// poll starts the commands of both ends.
func (w *world) poll() {
	for x, ok := w.s.Poll(w.now); ok; x, ok = w.s.Poll(w.now) {
		f := &flying{Write: x, lose: w.r.Float64() < w.loss}
		for at := x.From; at < x.To; at += wire.MaxPayload {
			f.left = append(f.left, at)
		}
		w.check(x.Inc == 0 || len(f.left) <= 1, "an increment of %d packets", len(f.left))
		w.check(uint64(x.Offset)+x.To-x.From <= uint64(w.cfg.Size), "a write beyond the FIFO's end: %+v", x)
		w.writes = append(w.writes, f)
	}
	if n, ok := w.rcv.Poll(w.now); ok {
		w.check(w.ack == 0 && n > 0, "a second acknowledgement")
		w.ack = n
	}
	w.check(w.s.CheckInvariants() == nil && w.rcv.CheckInvariants() == nil, "%v, %v", w.s.CheckInvariants(), w.rcv.CheckInvariants())
	w.check(w.s.Err() == nil && w.rcv.Err() == nil, "%v, %v", w.s.Err(), w.rcv.Err())
}

// perform performs, or loses, one packet of a write.
func (w *world) perform() {
	if len(w.writes) == 0 {
		return
	}
	k := w.r.IntN(len(w.writes))
	f := w.writes[k]
	lost := f.lose && len(f.left) == 1
	if i := w.r.IntN(max(len(f.left), 1)); len(f.left) > 0 && !lost {
		from := f.left[i]
		f.left = slices.Delete(f.left, i, i+1)
		to := min(from+wire.MaxPayload, f.To)
		w.check(from >= w.sent && to-w.acked <= uint64(w.cfg.Size), "a write of %d to %d; sent %d, acked %d", from, to, w.sent, w.acked)
		for n := from; n < to; n++ {
			w.fifo[n%uint64(w.cfg.Size)] = stream(n)
		}
	}
	if len(f.left) > 0 && !lost {
		return
	}
	if !lost && f.Inc > 0 {
		w.sent += uint64(f.Inc)
		w.check(w.sent == f.To && w.sent-w.acked <= uint64(w.cfg.Size), "sent %d, want %d; acked %d", w.sent, f.To, w.acked)
	}
	w.writes = slices.Delete(w.writes, k, k+1)
	fate := Done
	if lost {
		fate = Repeat
	}
	w.ends = append(w.ends, func() { w.s.HandleEnd(w.now, f.ID, fate) })
}

// acknowledge performs or loses the acknowledgement under way.
func (w *world) acknowledge() {
	if w.ack == 0 {
		return
	}
	fate := Repeat
	if w.r.Float64() >= w.loss {
		w.acked += uint64(w.ack)
		w.check(w.acked <= w.read, "acked %d of %d bytes read", w.acked, w.read)
		fate = Done
	}
	w.ack = 0
	w.ends = append(w.ends, func() { w.rcv.HandleEnd(w.now, fate) })
}

// readSome lets the program read bytes.
func (w *world) readSome() {
	at, n := w.rcv.Next(w.r.IntN(2 * int(w.cfg.Size)))
	for i := range n {
		w.check(w.fifo[int(at)+i] == stream(w.read+uint64(i)), "byte %d is wrong", w.read+uint64(i))
	}
	w.rcv.Take(n)
	w.read += uint64(n)
}

// step performs one random operation.
func (w *world) step() {
	switch w.r.IntN(8) {
	case 0, 1, 2:
		w.perform()
	case 3:
		if len(w.ends) > 0 {
			i := w.r.IntN(len(w.ends))
			f := w.ends[i]
			w.ends = slices.Delete(w.ends, i, i+1)
			f()
		}
	case 4:
		w.acknowledge()
	case 5:
		w.s.HandleAcked(uint32(w.acked))
		w.rcv.HandleSent(uint32(w.sent))
	case 6:
		w.readSome()
	case 7:
		w.now = w.now.Add(RepeatMost / 3)
	}
	w.poll()
}

// TestAgainstAModel lets a sender and a receiver exchange a random number of bytes, with FIFOs and
// pages of all sizes. The network loses some packets, and performs the others in any order. No
// write overwrites a byte that the receiver has not read. Every byte arrives once and in order. The
// stream ends.
func TestAgainstAModel(t *testing.T) {
	for seed := range uint64(45) {
		r := rand.New(rand.NewPCG(seed, 2))
		page := uint32([]int{1, 3, 64, 4096, 5000, 70000}[r.IntN(6)])
		cfg := Config{Size: page * uint32(1+r.IntN(max(1, 150000/int(page)))), Page: page}
		w := newWorld(t, seed, cfg, []float64{0, 0.1, 0.5}[seed%3])
		total := w.base
		for range 120 {
			if w.s.Taken()-w.s.Sent() < uint64(cfg.Size) && r.IntN(3) == 0 {
				n := int(page) * r.IntN(2*int(cfg.Size/page)+1)
				if err := w.s.Put(n); err != nil {
					t.Fatal(err)
				}
				total += uint64(n)
			}
			w.step()
		}
		for i := 0; w.s.Sent() < total; i++ {
			w.check(i < 3e6, "seed %d: the sender stands still at %d of %d", seed, w.s.Sent(), total)
			w.step()
		}
		w.rcv.HandleClosed(uint32(w.sent))
		for i := 0; !w.rcv.Drained() || w.s.Acked() < total; i++ {
			w.check(i < 3e6, "seed %d: the receiver stands still at %d of %d", seed, w.rcv.Taken(), total)
			w.step()
		}
		if w.read != total || w.s.Flying() || w.rcv.Flying() {
			t.Fatalf("seed %d: read %d of %d", seed, w.read, total)
		}
	}
}

// TestFates ends commands with each fate. An end repeats only a lost command, at most MaxRepeats
// times.
func TestFates(t *testing.T) {
	for _, f := range []struct {
		fate Fate
		want error
		n    int // commands until the end
	}{{Refused, ErrRefused, 1}, {Unknown, ErrUnknown, 1}, {Repeat, ErrRepeats, MaxRepeats + 1}} {
		s, _ := NewSender(Config{Size: 64, Page: 4})
		r, _ := NewReceiver(Config{Size: 64, Page: 4})
		if err := s.Put(8); err != nil {
			t.Fatal(err)
		}
		r.HandleSent(8)
		r.Take(8)
		now, writes, acks := mono.Time(0), 0, 0
		for range 2 * MaxRepeats {
			if x, ok := s.Poll(now); ok {
				writes++
				s.HandleEnd(now, x.ID, f.fate)
			}
			if _, ok := r.Poll(now); ok {
				acks++
				r.HandleEnd(now, f.fate)
			}
			for _, d := range []func() (mono.Time, bool){s.Deadline, r.Deadline} {
				if at, ok := d(); ok {
					now = max(now, at)
				}
			}
		}
		if s.Err() != f.want || r.Err() != f.want || writes != f.n || acks != f.n {
			t.Errorf("fate %d: %v after %d writes, %v after %d acknowledgements; want %v after %d", f.fate, s.Err(), writes, r.Err(), acks, f.want, f.n)
		}
	}
}

// TestWrongCounters gives the ends counters that the other end cannot have written.
func TestWrongCounters(t *testing.T) {
	s, _ := NewSender(Config{Size: 64, Page: 4})
	if s.HandleAcked(1<<32 - 4); s.Err() != nil || s.Acked() != 0 {
		t.Errorf("an older value: %v", s.Err())
	}
	if s.HandleAcked(4); s.Err() != ErrCount {
		t.Errorf("4 bytes acknowledged of 0: %v", s.Err())
	}
	for _, word := range []uint32{68, 3, 1<<31 - 1} {
		r, _ := NewReceiver(Config{Size: 64, Page: 4})
		if r.HandleSent(word); r.Err() != ErrCount {
			t.Errorf("%d bytes sent: %v", word, r.Err())
		}
	}
	if err := s.Put(3); err == nil {
		t.Error("3 bytes with pages of 4 bytes: no error")
	}
	for _, cfg := range []Config{{0, 1, 0}, {64, 0, 0}, {64, 65, 0}, {64, 3, 0}, {2 * MaxSize, 1, 0}} {
		if _, err := NewSender(cfg); err == nil {
			t.Errorf("%+v: no error", cfg)
		}
		if _, err := NewReceiver(cfg); err == nil {
			t.Errorf("%+v: no error", cfg)
		}
	}
}

// two returns the meetings of a sender at M0D1 and a receiver at M0D2.
func two() (s, r *Meeting) {
	one, other := wire.FabricNodeID{Chip: 1}, wire.FabricNodeID{Chip: 2}
	cfg := Config{Size: 4096, Page: 64, Plane: 1}
	return &Meeting{Self: one, Chip: other, Own: Block{Role: SenderRole, Nonce: 11, Life: 21, Config: cfg, Peer: other, Beat: 1}},
		&Meeting{Self: other, Chip: one, Own: Block{Role: ReceiverRole, Nonce: 12, Life: 22, Config: cfg, Peer: one, Beat: 1}}
}

// TestMeeting lets two ends meet, in any order of their looks.
func TestMeeting(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 3))
		a, b := two()
		shown := map[*Meeting][]byte{a: make([]byte, BlockSize), b: make([]byte, BlockSize)}
		met := map[*Meeting]bool{}
		for i := 0; len(met) < 2; i++ {
			m, other := a, b
			if r.IntN(2) == 0 {
				m, other = b, a
			}
			if i > 4 && shown[m][0] == 0 {
				copy(shown[m], m.Own.Append(nil))
			}
			publish, ok, err := m.Look(Open, shown[other])
			if err != nil || i > 1000 {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if publish {
				copy(shown[m], m.Own.Append(nil))
			}
			if ok {
				met[m] = true
			}
		}
		if a.Own.Met != b.Own.Nonce || b.Own.Met != a.Own.Nonce || a.Peer.Life != 22 {
			t.Errorf("seed %d: %+v and %+v", seed, a, b)
		}
	}
}

// TestMeetingOfAShortLife lets an end meet the other end, end, and free its block before the other
// end looks again.
func TestMeetingOfAShortLife(t *testing.T) {
	a, b := two()
	if publish, met, err := a.Look(Closed, make([]byte, OwnerSize)); publish || met || err != nil {
		t.Errorf("a farewell of an earlier socket: %v, %v, %v", publish, met, err)
	}
	if publish, met, err := a.Look(Open, b.Own.Append(nil)); !publish || met || err != nil {
		t.Errorf("the other end has not looked yet: %v, %v, %v", publish, met, err)
	}
	if _, met, err := a.Look(Closed, make([]byte, OwnerSize)); !met || err != nil || a.Own.Met != b.Own.Nonce {
		t.Errorf("the other end has ended: %v, %v", met, err)
	}
}

// TestMismatches lets an end look at ends of other configurations.
func TestMismatches(t *testing.T) {
	for _, c := range []struct {
		change func(k *Block)
		want   string
	}{
		{func(k *Block) { k.Size = 8192 }, "the receiver at chip M0D2 has another configuration: FIFO of 8192 bytes there, 4096 bytes here"},
		{func(k *Block) { k.Page = 32 }, "the receiver at chip M0D2 has another configuration: page of 32 bytes there, 64 bytes here"},
		{func(k *Block) { k.Plane = 0 }, "the receiver at chip M0D2 has another configuration: plane 0 there, 1 here"},
		{func(k *Block) { k.Role = SenderRole }, "the receiver at chip M0D2 has another configuration: role sender there, receiver here"},
		{func(k *Block) { k.Peer.Chip = 7 }, "the receiver at chip M0D2 has another configuration: other end chip M0D7 there, chip M0D1 here"},
	} {
		a, b := two()
		c.change(&b.Own)
		var bad *MismatchError
		if _, met, err := a.Look(Open, b.Own.Append(nil)); met || !errors.As(err, &bad) || err.Error() != c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
		b.Own.Met = 99 // while the other end serves another end, this end waits
		if publish, met, err := a.Look(Open, b.Own.Append(nil)); publish || met || err != nil {
			t.Errorf("an end that serves another end: %v", err)
		}
	}
}

// TestWatch looks at an end that lives, then restarts, then gives way to another end, and at an end
// that falls silent.
func TestWatch(t *testing.T) {
	a, b := two()
	if _, _, err := a.Look(Open, b.Own.Append(nil)); err != nil {
		t.Fatal(err)
	}
	look := func(w *Watch, at time.Duration, beat uint32, nonce uint64, life wire.Incarnation) error {
		k := b.Own
		k.Beat, k.Nonce = beat, nonce
		return w.Look(mono.Time(at), k.Append(nil), life)
	}
	w := NewWatch(a)
	for i := range 100 {
		if err := look(w, time.Duration(i)*Silence, uint32(i+1), 12, 22); err != nil {
			t.Fatal(err)
		}
	}
	still := NewWatch(a)
	for _, c := range []struct {
		at    time.Duration
		beat  uint32
		nonce uint64
		life  wire.Incarnation
		want  PeerWhy
	}{
		{0, 5, 12, 22, 0}, {Silence, 5, 12, 22, 0}, {Silence + 1, 5, 12, 22, PeerSilent}, {Silence + 2, 6, 12, 22, 0},
		{10 * Silence, 0, 12, 22, 0}, {20 * Silence, 0, 12, 22, 0},
		{0, 5, 13, 22, PeerReplaced}, {0, 5, 0, 22, PeerReplaced}, {0, 5, 12, 23, PeerRestarted}, {0, 0, 0, 23, PeerRestarted},
	} {
		err := look(still, c.at, c.beat, c.nonce, c.life)
		if (err != nil) != (c.want != 0) || err != nil && !errors.Is(err, &PeerError{Why: c.want}) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// FuzzBlock reads any memory as a block.
func FuzzBlock(f *testing.F) {
	a, _ := two()
	f.Add(a.Own.Append(nil))
	f.Add(make([]byte, OwnerSize))
	f.Add([]byte("TTSK"))
	f.Fuzz(func(t *testing.T, b []byte) {
		k, err := ParseBlock(b)
		if err != nil {
			return
		}
		again, err := ParseBlock(k.Append(nil))
		if err != nil || again != k {
			t.Errorf("%+v became %+v, %v", k, again, err)
		}
		m, _ := two()
		_, _, _ = m.Look(Open, b)
	})
}
