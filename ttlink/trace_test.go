package ttlink

import (
	"encoding/binary"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"ttfabric/ttlink/fault"
	"ttfabric/wire"
	"ttfabric/wire/tracetest"
)

var rewriteTraces = flag.Bool("rewrite", false, "write the traces in testdata/traces again; check the changes before you commit them")

// TestTraces runs the scripts in testdata/traces. The test compares the frames and events of the
// two ends A and B with the trace in the script's file, below the line "----" (see package
// tracetest). A script has one command per line:
//
//	start            switches the paths of both ends on
//	run 10ms         runs the simulation for this time
//	send A data 100  makes A send a packet of 100 bytes on VCData
//	drop A 2         loses the next 2 frames that A sends
//	cut A on         loses all frames that A sends, until "cut A off"
//	hold B on        makes B free no slots, until "hold B off"
//	restart B        starts a new incarnation of B
//	close A          closes the link at A
//	fill A 0x40 cat  stores a text into A's L1 at an address
//	write A 1 0x40 0x80 3  starts an L1 write of 3 words on queue 1 of A, from 0x40 to 0x80
//	mmio A 0 0xffb9000c 64  starts an MMIO write of the value 64 on queue 0 of A
//	show B 0x80 16   writes 16 bytes of B's L1 to the trace
//	note text        writes the text to the trace
//
// The cable has a delay of 1 ms in each direction. In a trace, the first sequence number of a
// session is 0. Sessions and incarnations have the numbers 1, 2 and so on, in the order of their
// appearance.
func TestTraces(t *testing.T) {
	tracetest.Run(t, *rewriteTraces, func(t *testing.T, trace *tracetest.Trace) tracetest.Machine {
		tiles := new([2]tile)
		w := newWorld(t, 11, fault.Options{Delay: time.Millisecond}, func(i int, c *Config) {
			c.Slots = [wire.NumVCs]int{4, 2, 2}
			c.Source = func(from uint32, b []byte) { copy(b, tiles[i].l1[from:]) }
		})
		for _, e := range w.ends {
			e.lag = 0
		}
		x := &tracer{Trace: trace, w: w, tiles: tiles, sessions: map[wire.SessionID]int{0: 0}, lives: map[wire.Incarnation]int{0: 0}, first: map[logKey]wire.Seq{}}
		w.onSend = x.sent
		w.onWrite = func(i int, d *Delivery) {
			if d.Kind == wire.KindMMIO {
				x.Say("   %c: register %#x gets %d", 'A'+i, d.Addr, binary.LittleEndian.Uint32(d.Data))
				return
			}
			copy(tiles[i].l1[d.Addr:], d.Data)
		}
		return x
	})
}

// tracer runs a script, and writes the frames, events and deliveries of two ends to a trace.
type tracer struct {
	*tracetest.Trace
	w        *world
	tiles    *[2]tile
	drop     [2]int
	events   [2]int // number of events of each end that are already in the trace
	got      [2]uint64
	sessions map[wire.SessionID]int
	lives    map[wire.Incarnation]int
	first    map[logKey]wire.Seq // first sequence number of each direction of each session
}

// Now returns the time since the script began.
func (x *tracer) Now() time.Duration { return time.Duration(x.w.now - 1) }

// Do performs one command of a script. The fields of the command are in f.
func (x *tracer) Do(f []string) error {
	w := x.w
	end := func() int { return int(f[1][0] - 'A') }
	if len(f) > 1 && f[0] != "run" && f[1] != "A" && f[1] != "B" {
		return fmt.Errorf("end %q: want A or B", f[1])
	}
	on := len(f) > 2 && f[2] == "on"
	switch f[0] {
	case "start":
		w.start()
	case "run":
		d, err := time.ParseDuration(f[1])
		if err != nil {
			return err
		}
		for stop := w.now.Add(d); w.now < stop; { // short steps, so that Tell writes each event soon after it happens
			w.run(min(100*time.Microsecond, stop.Sub(w.now)))
			x.Tell()
		}
	case "send":
		size, err := strconv.Atoi(f[3])
		if err != nil {
			return err
		}
		vc := map[string]wire.VC{"data": wire.VCData, "reply": wire.VCReply, "control": wire.VCControl}[f[2]]
		e := w.ends[end()]
		p := make([]byte, size)
		if !e.link.Send(w.now, vc, p) {
			x.Say("%s cannot send: no credit or no link", f[1])
			return nil
		}
		log := w.log(end(), e.link.sess.id)
		log.sent = append(log.sent, sentPacket{vc, p})
		log.perVC[vc]++
		w.service(end())
	case "fill", "write", "mmio", "show":
		return x.l1(end(), f)
	case "drop":
		n, err := strconv.Atoi(f[2])
		if err != nil {
			return err
		}
		x.drop[end()] = n
	case "cut":
		w.cable[end()].Cut(on)
	case "hold":
		if on {
			w.ends[end()].hold = true
		} else {
			w.releaseHeld(end())
		}
	case "restart":
		w.restart(end())
	case "close":
		w.ends[end()].link.Close(w.now)
		w.service(end())
	default:
		return fmt.Errorf("no such command")
	}
	return nil
}

// l1 performs a command of a script that concerns the L1 of end i, or its transaction command queues.
func (x *tracer) l1(i int, f []string) error {
	var n [4]uint32
	for k, text := range f[2:] {
		v, err := strconv.ParseUint(text, 0, 32)
		if err != nil && (f[0] != "fill" || k == 0) {
			return err
		}
		n[k] = uint32(v)
	}
	link, l1 := x.w.ends[i].link, &x.tiles[i].l1
	switch f[0] {
	case "fill":
		copy(l1[n[0]:], f[3])
	case "show":
		x.Say("   %s: %q at %#x", f[1], l1[n[0]:][:n[1]], n[0])
	case "write":
		if !link.StartWrite(int(n[0]), n[1], n[2], int(n[3])) {
			x.Say("   %s: queue %d is busy", f[1], n[0])
		}
	case "mmio":
		if !link.StartRegister(int(n[0]), n[1], n[2]) {
			x.Say("   %s: queue %d is busy", f[1], n[0])
		}
	}
	x.w.service(i)
	return nil
}

// Tell adds to the trace the events and deliveries since its last call.
func (x *tracer) Tell() {
	for i, e := range x.w.ends {
		for ; x.events[i] < len(e.events); x.events[i]++ {
			ev := e.events[x.events[i]]
			line := fmt.Sprintf("   %c: %s", 'A'+i, ev.Kind)
			switch ev.Kind {
			case EventDown:
				line += ", " + ev.Reason.String()
			case EventSessionEnded:
				line += fmt.Sprintf(", fate unknown of %v packets", ev.Unknown[:wire.BasicVCs])
				if ev.UnknownWrites != [wire.NumQueues]int{} {
					line += fmt.Sprintf(", %v writes", ev.UnknownWrites)
				}
			}
			x.Say("%s", line)
		}
		if n := e.link.Counters().PacketsReceived; n < x.got[i] {
			x.got[i] = n
		} else if n > x.got[i] {
			x.Say("   %c: has received %d packets", 'A'+i, n)
			x.got[i] = n
		}
	}
}

// sent adds to the trace a frame that an end sends. If a drop command applies to the frame, sent
// returns true.
func (x *tracer) sent(from int, b []byte) bool {
	f, err := wire.DecodeFrame(b)
	if err != nil {
		panic(err)
	}
	fate := ""
	if x.drop[from] > 0 {
		x.drop[from]--
		fate = "   LOST"
	} else if x.w.cable[from].IsCut() {
		fate = "   CUT"
	}
	x.Say("%c %s%s", 'A'+from, x.frame(from, &f), fate)
	return strings.HasSuffix(fate, "LOST")
}

func (x *tracer) frame(from int, f *wire.Frame) string {
	s := number(x.sessions, f.Session)
	seq := func(side int, q wire.Seq) int {
		k := logKey{side, f.Session}
		if _, ok := x.first[k]; !ok {
			x.first[k] = wire.InitialSeq(x.w.ends[side].cfg.Incarnation)
		}
		return q.Sub(x.first[k])
	}
	ack := func() int { return seq(1-from, f.RxSeq) }
	switch f.Kind {
	case wire.KindData:
		end := ""
		if f.Flags&wire.FlagEnd != 0 {
			end = " end"
		}
		return fmt.Sprintf("data s%d #%d %s %d bytes%s, ack %d", s, seq(from, f.TxSeq), f.VC, len(f.Payload), end, ack())
	case wire.KindWrite, wire.KindMMIO:
		kind, end := "write", ""
		if f.Kind == wire.KindMMIO {
			kind = "mmio"
		}
		if f.Flags&wire.FlagEnd != 0 {
			end = " end"
		}
		return fmt.Sprintf("%s s%d #%d queue %d to %#x %d bytes%s, ack %d", kind, s, seq(from, f.TxSeq), f.VC, f.Dest, len(f.Payload), end, ack())
	case wire.KindUpdate:
		u, _ := wire.DecodeUpdate(f.Payload)
		flags := ""
		if f.Flags&wire.FlagNACK != 0 {
			flags += " NACK"
		}
		if f.Flags&wire.FlagSolicit != 0 {
			flags += " SOLICIT"
		}
		return fmt.Sprintf("update s%d%s ack %d, grants %v", s, flags, ack(), u.Grants[:wire.BasicVCs])
	case wire.KindHello:
		h, _ := wire.DecodeHello(f.Payload)
		flags := ""
		if h.Up {
			flags += " UP"
		}
		if h.WantAnswer {
			flags += " WANT"
		}
		return fmt.Sprintf("hello s%d%s: incarnation %d training %d, echoes %d training %d", s, flags, number(x.lives, h.Incarnation), h.Training, number(x.lives, h.EchoIncarnation), h.EchoTraining)
	}
	return "close s" + strconv.Itoa(s)
}

// The function "number" returns the number that m has for the key k. If m has no number for k, k
// gets the next number.
func number[K comparable](m map[K]int, k K) int {
	if _, ok := m[k]; !ok {
		m[k] = len(m)
	}
	return m[k]
}
