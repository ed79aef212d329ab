package model

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"ttfabric/node/chip"
	"ttfabric/node/flow"
	"ttfabric/node/sim"
	"ttfabric/node/traffic/client"
	"ttfabric/router/topo"
	"ttfabric/ttlink"
	"ttfabric/ttlink/fault"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Limits of the inputs that a [Machine] keeps for [Machine.Back]. When a limit is reached, the machine
// forgets all inputs, and cannot go back any more.
const (
	MaxInputs     = 4 << 20   // number of inputs
	MaxInputBytes = 512 << 20 // bytes of the requests' payloads
)

// Starter starts a simulated fabric. Each call starts the same fabric: the argument cfg holds what the caller
// adds to the Starter's own configuration.
type Starter func(record Recorder, h sim.Hosts) (*sim.Hosted, error)

// Recorder is the value of [sim.Config.Record].
type Recorder = func(now mono.Time, cfg chip.Config) func(chip.Inputs) chip.Inputs

// Machine is a simulated fabric that can go back in time. A Machine notes each input of the hosts, with the place
// of the input in the sequence of events. To go back, the machine starts the fabric anew from its seed, and makes
// the same inputs at the same places. A Machine is not safe for concurrent use.
type Machine struct {
	*sim.Hosted
	topology *topo.Topology
	start    Starter
	hosts    sim.Hosts
	begin    mono.Time // virtual time at which the fabric was up

	log    log
	replay *replay // inputs that the machine makes again; nil: the hosts make the inputs
	ready  bool    // the fabric is up, so that inputs come from the hosts
	stops  stops
	halted bool            // Go returns after the present event
	tick   func(mono.Time) // gets the time before each event; nil: nobody listens
}

// log holds the inputs of the hosts so far, in their order.
type log struct {
	inputs []input
	bytes  int    // bytes of payloads in inputs
	feeds  uint64 // number of calls of [sim.Hosts.Feed] so far
	within uint64 // number of the call of Feed under way; 0: none
	lost   bool   // the log was too long, and is empty from then on
}

// input is an input of a host.
type input struct {
	at     mono.Time
	events int    // number of events before the input
	feed   uint64 // number of the call of Feed within which the input came; 0: the input came between two events
	do     func(m *Machine, now mono.Time)
}

// replay is a log whose inputs a machine makes again.
type replay struct {
	inputs  []input
	next    int                               // index of the input that comes next
	clients map[*client.Client]*client.Client // for each client of the run: the client that stands for it in the replay
	at      map[int]*client.Client            // client of the run that each chip has, by the chip's place
}

// NewMachine starts a fabric with a Starter. The hosts get the outputs of the chips from now on.
func NewMachine(t *topo.Topology, start Starter, hosts sim.Hosts) (*Machine, error) {
	m := &Machine{topology: t, start: start, hosts: hosts}
	h, err := start(m.wrap, m)
	if err != nil {
		return nil, err
	}
	m.Hosted, m.ready, m.begin = h, true, h.Now()
	return m, nil
}

// OnTime sets a function that gets the virtual time before each event of [Machine.Go].
func (m *Machine) OnTime(f func(mono.Time)) { m.tick = f }

// Begin returns the virtual time at which the fabric was up. A machine cannot go back beyond this time.
func (m *Machine) Begin() mono.Time { return m.begin }

// note notes an input that happens now, with a payload of a number of bytes.
func (m *Machine) note(bytes int, do func(m *Machine, now mono.Time)) {
	if !m.ready || m.replay != nil || m.log.lost {
		return
	}
	if len(m.log.inputs) >= MaxInputs || m.log.bytes+bytes > MaxInputBytes {
		m.log = log{feeds: m.log.feeds, lost: true}
		return
	}
	m.log.bytes += bytes
	m.log.inputs = append(m.log.inputs, input{m.Now(), m.Events(), m.log.within, do})
}

// outside notes an input between two events, and makes the input.
func (m *Machine) outside(do func(m *Machine, now mono.Time)) {
	m.note(0, do)
	do(m, m.Now())
}

// Step runs a chip until nothing moves, after inputs of its host.
func (m *Machine) Step(i int) { m.outside(func(m *Machine, _ mono.Time) { m.Hosted.Step(i) }) }

// Start starts a dead chip.
func (m *Machine) Start(i int) { m.outside(func(m *Machine, _ mono.Time) { m.Hosted.Start(i) }) }

// Pause pauses a chip, or lets it run again.
func (m *Machine) Pause(i int, on bool) {
	m.outside(func(m *Machine, _ mono.Time) { m.Hosted.Pause(i, on) })
}

// End ends a chip.
func (m *Machine) End(i int, goodbye bool) {
	m.outside(func(m *Machine, _ mono.Time) { m.Hosted.End(i, goodbye) })
}

// Impair sets the fault of the datagrams that a port sends; see [sim.Hosted.Impair].
func (m *Machine) Impair(p wire.PortID, o fault.Options, cut bool, seed *uint64) (err error) {
	m.outside(func(m *Machine, _ mono.Time) { err = m.Hosted.Impair(p, o, cut, seed) })
	return err
}

// After calls f at a time from now, and makes [Machine.Go] return after this event, unless the machine goes back to an earlier time.
func (m *Machine) After(d time.Duration, f func()) {
	m.outside(func(m *Machine, _ mono.Time) {
		m.Hosted.After(d, func() {
			if m.replay == nil {
				m.halted = true
				f()
			}
		})
	})
}

// ErrForgotten is the error of [Machine.Back] if the machine has forgotten its inputs.
var ErrForgotten = fmt.Errorf("the model keeps at most %d inputs, and %d MiB of payloads; this run had more, so the model cannot go back", MaxInputs, MaxInputBytes>>20)

// Back goes back to an instant, by a replay from the seed. Back makes the inputs up to and at this instant again, and
// forgets all later inputs. Back changes
// nothing if it returns an error.
func (m *Machine) Back(to mono.Time) error {
	if m.log.lost {
		return ErrForgotten
	}
	to = max(to, m.begin)
	was := *m
	m.ready, m.log, m.replay = false, log{}, &replay{inputs: was.log.inputs, clients: map[*client.Client]*client.Client{}, at: map[int]*client.Client{}}
	err := func() (err error) {
		if m.Hosted, err = m.start(m.wrap, m); err != nil {
			return err
		}
		m.ready = true
		return m.again(to)
	}()
	if err != nil {
		*m = was
		return err
	}
	r := m.replay
	for live, now := range r.clients {
		*live = *now
	}
	for i, live := range r.at {
		if c := m.Chip(i); c != nil && live != nil {
			c.SetClient(live)
		}
	}
	m.replay = nil
	m.log = log{inputs: slices.Clip(r.inputs[:r.next]), bytes: was.log.bytes, feeds: m.log.feeds}
	for i := range m.topology.Chips { // ends the coroutines of the kernels of the former run
		if c := was.Chip(i); c != nil {
			c.Close(was.Now())
		}
	}
	return nil
}

// again makes the inputs of the log and carries out the events, up to an instant.
func (m *Machine) again(to mono.Time) error {
	r := m.replay
	for {
		for r.next < len(r.inputs) && r.inputs[r.next].feed == 0 && r.inputs[r.next].events == m.Events() {
			in := &r.inputs[r.next]
			if in.at > to {
				m.Wait(to)
				return nil
			}
			m.Wait(in.at)
			r.next++
			in.do(m, m.Now())
		}
		more, err := m.Once(to)
		if err != nil {
			return err
		}
		if !more {
			if r.next < len(r.inputs) && r.inputs[r.next].at < to {
				return errors.New("the replay differs from the run; please report this error")
			}
			return nil
		}
	}
}

// Feed implements [sim.Hosts].
func (m *Machine) Feed(i int) bool {
	if !m.ready {
		return false
	}
	m.log.feeds++
	if r := m.replay; r != nil {
		again := false
		for r.next < len(r.inputs) && r.inputs[r.next].feed == m.log.feeds {
			in := &r.inputs[r.next]
			if r.next++; in.do == nil {
				again = true
			} else {
				in.do(m, m.Now())
			}
		}
		return again
	}
	m.log.within = m.log.feeds
	more := m.hosts.Feed(i)
	m.log.within = 0
	if more {
		m.log.within = m.log.feeds
		m.note(0, nil)
		m.log.within = 0
	}
	return more
}

// Send implements [sim.Hosts].
func (m *Machine) Send(i int, ch wire.Channel, t ttlink.Transmit) {
	if m.replay != nil || !m.ready {
		m.Carry(i, ch, t.Data, t.Seg)
		return
	}
	m.hosts.Send(i, ch, t)
}

// Received implements [sim.Hosts].
func (m *Machine) Received(i int, ch wire.Channel, b []byte) {
	if m.replay == nil {
		m.stops.received(m, i, ch, b)
		m.hosts.Received(i, ch, b)
	}
}

// Result implements [sim.Hosts].
func (m *Machine) Result(i int, r flow.Result) {
	if m.replay == nil {
		m.hosts.Result(i, r)
	}
}

// Event implements [sim.Hosts].
func (m *Machine) Event(i int, e chip.Event) {
	if m.replay == nil {
		m.stops.event(m, &e)
		m.hosts.Event(i, e)
	}
}

// Stepped implements [sim.Hosts].
func (m *Machine) Stepped(i int) {
	if m.replay == nil {
		m.stops.stepped(m, i)
		m.hosts.Stepped(i)
	}
}
