// Package linktest tests links over real transports in real time. A scenario has the two ends of a
// link, each with a real port of a transport. Between the ports, a relay injects the faults of a
// bad network into the UDP datagrams. All transports run the same table of scenarios.
package linktest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"ttfabric/ttlink"
	"ttfabric/ttlink/fault"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Extent says how often [Links] runs the scenarios.
type Extent struct {
	Seeds  int // number of seeds of random numbers with which each scenario runs
	Rounds int // number of rounds in scenarios that repeat their steps
}

// A scenario with random faults repeats its steps until the relay has injected at least 10 faults.
// After 100 repetitions without success, the test fails.
const (
	least = 10
	most  = 100
)

// abreast is the largest number of scenarios that run at the same time. The number is higher than
// the limit of t.Parallel, because scenarios wait most of the time.
const abreast = 44

const ms = time.Millisecond

// scenarios is the table of scenarios, with the fault options of the relay. Some scenarios come
// from the QUIC interop runner (see ttlink/scenarios_test.go).
var scenarios = []struct {
	name   string
	o      fault.Options
	run    func(w *lab)
	steady bool // a link must stay up, so its limits of silence are the longest ones
}{
	{"blackhole, 5 s on and 2 s off", fault.Options{Delay: 1 * ms}, func(w *lab) { blackhole(w, 5*time.Second) }, false},
	{"blackhole longer than any timeout", fault.Options{Delay: 1 * ms}, func(w *lab) { blackhole(w, 8*time.Second) }, false},
	{"slow receiver", fault.Options{Delay: 1 * ms}, slowReceiver, true},
	{"one-way cut", fault.Options{Delay: 1 * ms}, oneWayCut, false},
	{"round trip of 1.5 s", fault.Options{Delay: 750 * ms}, func(w *lab) { w.load(20); w.done(0) }, false},
	{"handshake loss 30 % in bursts", fault.Options{Delay: 5 * ms, Burst: fault.Burst{ToBad: .2, ToGood: .5, LossBad: 1}}, handshake, false},
	{"handshake corruption 30 %", fault.Options{Delay: 5 * ms, Corrupt: .3}, handshake, false},
	{"restart of the one end mid-window", fault.Options{Delay: 1 * ms}, func(w *lab) { restart(w, 0) }, false},
	{"restart of the other end mid-window", fault.Options{Delay: 1 * ms}, func(w *lab) { restart(w, 1) }, false},
	{"replay of a stale session", fault.Options{Delay: 1 * ms}, replayStale, true},
	{"replay of the running session", fault.Options{Delay: 1 * ms}, replay, false},
	{"short blackholes", fault.Options{Delay: 1 * ms}, shortBlackholes, false},
	{"address rebinding", fault.Options{Delay: 1 * ms}, rebinding, false},
	{"asymmetric delay", fault.Options{Delay: 1 * ms}, asymmetric, false},
	{"transfer loss 2 %", fault.Options{Delay: 2 * ms, Loss: .02}, transfer, false},
	{"transfer corruption 2 %", fault.Options{Delay: 2 * ms, Corrupt: .02}, transfer, false},
	{"duplication 10 %", fault.Options{Delay: 2 * ms, Duplicate: .1}, transfer, false},
	{"reordering 25 %", fault.Options{Delay: 2 * ms, Reorder: .25}, transfer, false},
	{"path that shrinks in silence", fault.Options{Delay: 1 * ms}, narrows, false},
	{"path that is narrow from the start", fault.Options{Delay: 1 * ms}, narrowPath, false},
	{"loss of 20 %", fault.Options{Delay: 1 * ms}, lossy, false},
	{"no fault", fault.Options{}, func(w *lab) { w.load(300); w.done(0) }, false},
}

// Links runs every scenario of the table over every carrier. In each scenario, packets must arrive
// once, in order and unchanged. If a session ends, a packet may be missing, but the sender must
// report its fate as unknown.
func Links(t *testing.T, x Extent, carriers ...Carrier) {
	var wg sync.WaitGroup
	defer wg.Wait()
	room := make(chan struct{}, abreast)
	for _, s := range scenarios {
		for _, c := range carriers {
			for seed := range x.Seeds {
				name := c.Name + "/" + s.name
				if x.Seeds > 1 {
					name += fmt.Sprintf("/seed %d", seed+1)
				}
				c := c // the carrier of this scenario
				if s.steady {
					c.Profile = ttlink.ProfilePaced
				}
				wg.Go(func() {
					room <- struct{}{}
					defer func() { <-room }()
					t.Run(name, func(t *testing.T) { s.run(newLab(t, c, uint64(seed+1)*1000+uint64(len(s.name)), x.Rounds, s.o)) })
				})
			}
		}
	}
}

// transfer sends packets until the relay has injected enough faults.
func transfer(w *lab) {
	w.strike(func() {
		w.load(120)
		w.done(0)
	})
}

// strike repeats f until the number of injected faults reaches the constant least. If the number of
// repetitions reaches the constant "most", strike fails the test.
func (w *lab) strike(f func()) {
	for range most {
		if w.cable.struck() >= least {
			return
		}
		f()
	}
	w.t.Fatalf("the relay injected %d faults in %d tries, want %d", w.cable.struck(), most, least)
}

// handshake brings the link up several times over a path that loses or corrupts many datagrams.
// Then handshake sends packets over a good path.
func handshake(w *lab) {
	w.up()
	w.strike(func() {
		w.ends[0].stop()
		w.begin(0)
		w.until("the new incarnation is up", func(a, b state) bool { return a.Confirmed && a.Session == b.Session })
	})
	w.cable.set(fault.Options{}, 0, 1)
	w.load(50)
	w.done(1 << 10)
}

// blackhole cuts both directions of the cable for at least the time that the argument "on" gives.
// blackhole then repairs the cable, and waits two seconds. With more rounds, blackhole repeats the
// steps.
func blackhole(w *lab, on time.Duration) {
	w.up()
	for range w.rounds {
		w.load(400)
		time.Sleep(20 * ms)
		w.cable.cut(true, 0, 1)
		w.load(200)
		time.Sleep(on)
		w.down()
		w.cable.cut(false, 0, 1)
		time.Sleep(2 * time.Second)
	}
	w.done(0)
	retrained(w)
}

// retrained checks that both ends of the link have been down and trained again.
func retrained(w *lab) {
	w.t.Helper()
	for _, e := range w.ends {
		if s := e.look(); s.Retrains == 0 || s.LastDown == ttlink.DownNone {
			w.t.Errorf("end %d was never down: %+v", e.i, s)
		}
	}
}

func shortBlackholes(w *lab) {
	w.up()
	for range 4 {
		w.load(200)
		time.Sleep(20 * ms)
		w.cable.cut(true, 0, 1)
		time.Sleep(500 * ms)
		w.cable.cut(false, 0, 1)
		time.Sleep(150 * ms)
	}
	w.done(0)
}

// oneWayCut cuts one direction of the cable, and later the other direction. Each time, both ends
// must go down.
func oneWayCut(w *lab) {
	w.up()
	for from := range w.ends {
		w.load(200)
		time.Sleep(5 * ms)
		w.cable.cut(true, from)
		w.load(200)
		w.down()
		w.cable.cut(false, from)
		w.done(0)
	}
	retrained(w)
}

// asymmetric uses a path with a delay of 1 ms in one direction and 300 ms in the other.
func asymmetric(w *lab) {
	w.cable.set(fault.Options{Delay: 300 * ms, Jitter: 20 * ms}, 1)
	w.load(25)
	w.done(0)
}

// rebinding changes the relay's addresses during traffic, and calls SetPeer with the new addresses.
// In a fabric, gossip tells a chip the new addresses.
func rebinding(w *lab) {
	w.up()
	for range 2 + w.rounds {
		w.load(200)
		w.cable.rebind()
		for _, e := range w.ends {
			e.meet()
		}
		time.Sleep(30 * ms)
	}
	w.load(100)
	w.done(0)
}

// restart stops end i while frames are under way, and starts a new incarnation of the end.
func restart(w *lab, i int) {
	w.up()
	w.load(1 << 20)
	w.until("packets arrive", func(a, b state) bool { return a.next > 50 && b.next > 50 })
	w.ends[i].stop()
	w.begin(i)
	other := w.ends[1-i]
	other.step(func(mono.Time) { other.toSend = min(other.toSend, 100) })
	w.until("the other end has ended the session", func(a, b state) bool { return [2]state{a, b}[1-i].ended == 1 })
	w.up()
	w.load(50)
	w.done(1)
	if s := other.look(); s.ended != 1 {
		w.t.Errorf("%d sessions ended", s.ended)
	}
}

// replay sends all datagrams of the running session a second time, during traffic.
func replay(w *lab) {
	w.cable.recorded(true)
	w.up()
	w.load(300)
	w.done(0)
	again(w, w.cable.recorded(false))
	w.done(0)
}

// replayStale records all datagrams of a session, handshakes included. After the session has ended,
// replayStale sends the recorded datagrams during the next session. The next session must not end,
// and the link must not go down.
func replayStale(w *lab) {
	w.cable.recorded(true)
	w.up()
	w.load(200)
	w.done(0)
	record := w.cable.recorded(false)
	w.ends[1].stop()
	w.begin(1)
	w.until("the new incarnation is up", func(a, b state) bool { return b.Confirmed && a.Session == b.Session && a.ended == 1 })
	first := [2]state{w.ends[0].look(), w.ends[1].look()}
	w.calmly(func() (bad string) {
		before := [2]state{w.ends[0].look(), w.ends[1].look()}
		again(w, record)
		w.done(1)
		for i, e := range w.ends {
			if s := e.look(); s.Retrains != before[i].Retrains {
				bad = fmt.Sprintf("end %d: the replay took the link down:\n%+v\n%+v", i, before[i], s)
			}
		}
		return bad
	})
	for i, e := range w.ends {
		if s := e.look(); s.Session != first[i].Session || s.ended != first[i].ended {
			w.t.Errorf("end %d: the replay ended the session:\n%+v\n%+v", i, first[i], s)
		}
	}
}

// The function "again" sends recorded datagrams to their receivers, mixed with new packets. If the
// carrier counts refused datagrams, again checks that the receiver refuses at least half of the
// recorded datagrams.
func again(w *lab, record [2][][]byte) {
	refused := func(s state) uint64 {
		return s.port.Auth.Rejected() + s.counters.StaleSession + s.counters.Duplicates + s.counters.StaleHellos
	}
	for from, ds := range record {
		to := w.ends[1-from]
		before := refused(to.look())
		for n, d := range ds {
			if n%100 == 0 {
				w.load(30)
			}
			w.cable.deliver(1-from, d)
			if n%20 == 0 {
				time.Sleep(ms)
			}
		}
		if !w.c.Silent {
			w.until("at least half of the replayed datagrams are refused", func(state, state) bool { return refused(to.look())-before >= uint64(len(ds))/2 })
		}
	}
}

// slowReceiver makes a receiver keep its slots full for five seconds. Meanwhile the link must stay
// up and lose no packet.
func slowReceiver(w *lab) {
	w.up()
	e := w.ends[1]
	w.calmly(func() (bad string) {
		before := [2]state{w.ends[0].look(), w.ends[1].look()}
		e.step(func(mono.Time) { e.hold = true })
		w.load(200)
		time.Sleep(5 * time.Second)
		w.until("all slots are taken", func(_, b state) bool { return b.held >= slots })
		if s := e.look(); s.held > slots {
			w.t.Errorf("%d packets in %d slots", s.held, slots)
		}
		e.step(func(mono.Time) {
			for e.hold = false; e.held > 0; e.held-- {
				e.link.Free(wire.VCData)
			}
		})
		w.done(0)
		for i, e := range w.ends {
			if s := e.look(); s.Retrains != before[i].Retrains {
				bad = fmt.Sprintf("end %d: the link did not stay up: %+v", i, s)
			}
		}
		return bad
	})
}
