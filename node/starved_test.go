package node

import (
	"slices"
	"testing"
	"time"

	"ttfabric/node/chip"
	"ttfabric/node/session"
	"ttfabric/router/topo"
	"ttfabric/ttlink"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

const ms = mono.Time(time.Millisecond)

// TestAlarm fires the timer of a node early and late. The times of the test are numbers, so that the
// test does not depend on the machine.
func TestAlarm(t *testing.T) {
	for _, c := range []struct {
		name    string
		at, set mono.Time
		fire    mono.Time
		late    time.Duration
	}{
		{name: "on time", at: 500 * ms, set: 400 * ms, fire: 500 * ms},
		{name: "a little late", at: 500 * ms, set: 400 * ms, fire: 500*ms + mono.Time(StarvedAfter) - 1},
		{name: "late", at: 500 * ms, set: 400 * ms, fire: 500*ms + mono.Time(StarvedAfter), late: StarvedAfter},
		{name: "very late", at: 500 * ms, set: 400 * ms, fire: 2600 * ms, late: 2100 * time.Millisecond},
		{name: "a deadline that had passed long before", at: 1 * ms, set: 900 * ms, fire: 901 * ms},
		{name: "a deadline that had passed, and then late", at: 1 * ms, set: 900 * ms, fire: 1200 * ms, late: 300 * time.Millisecond},
		{name: "no deadline", at: mono.Never, fire: 3600_000 * ms},
		{name: "before the deadline", at: 500 * ms, set: 400 * ms, fire: 300 * ms},
	} {
		a := alarm{at: c.at, set: c.set}
		if got := a.fire(c.fire); got != c.late {
			t.Errorf("%s: late by %v, want %v", c.name, got, c.late)
		}
		if times := a.starved.Times; (times == 1) != (c.late > 0) || a.starved.Total != c.late || a.at != mono.Never {
			t.Errorf("%s: %+v", c.name, a)
		}
	}
}

// TestArm sets the alarm several times. A later deadline changes nothing. A deadline that is due stays,
// although the chip ran for another reason meanwhile, so that the lateness counts from this deadline.
func TestArm(t *testing.T) {
	a := alarm{at: mono.Never}
	for _, c := range []struct {
		now, deadline mono.Time
		told          bool
		at            mono.Time
	}{
		{0, 500 * ms, true, 500 * ms},
		{10 * ms, 600 * ms, false, 500 * ms},
		{20 * ms, 400 * ms, true, 400 * ms},
		{2500 * ms, 300 * ms, false, 400 * ms}, // the chip was stopped up to now
	} {
		if told := a.arm(c.now, c.deadline); told != c.told || a.at != c.at {
			t.Errorf("at %v, deadline %v: %v, and the alarm is at %v", c.now, c.deadline, told, a.at)
		}
	}
	if late := a.fire(2500 * ms); late != 2100*time.Millisecond {
		t.Errorf("late by %v", late)
	}
}

// TestStarvedKeepsTheLatest starves an alarm more often than the largest number of lengths that the
// alarm keeps.
func TestStarvedKeepsTheLatest(t *testing.T) {
	var a alarm
	now, total := mono.Time(0), time.Duration(0)
	for k := range 3 * starvedKept {
		a.at, a.set = now, now
		d := time.Duration(100+k) * time.Millisecond
		if k == 3 {
			d = time.Hour
		}
		now, total = now.Add(d), total+d
		a.fire(now)
	}
	s := a.starved
	if s.Times != 3*starvedKept || s.Total != total || s.Longest != time.Hour || a.end != now || len(s.Latest) != starvedKept ||
		s.Latest[0] != 132*time.Millisecond || s.Latest[starvedKept-1] != 147*time.Millisecond {
		t.Errorf("%+v", s)
	}
}

// TestStarvedEvent lets the timer of a node fire late. The node publishes an event, and counts the
// time.
func TestStarvedEvent(t *testing.T) {
	m, err := topo.Named("n300")
	if err != nil {
		t.Fatal(err)
	}
	self := m.Nodes()[0]
	c, err := chip.New(0, chip.Config{Node: self, Incarnation: 5, FlowEpoch: 1, Topology: m, Behaviour: chip.Behaviour{Profile: ttlink.ProfileLAN}, MaxPayload: 1024})
	if err != nil {
		t.Fatal(err)
	}
	clock, err := newClock()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(clock.close)
	n := &Node{cfg: Config{Node: self}, clock: clock, start: time.Now().Add(-time.Minute), chip: c, links: c.LinkState(), alarm: alarm{at: 57_000 * ms}, events: newHub(5)}
	if s := n.Starved(); s.Times != 0 || !s.LastEnd.IsZero() {
		t.Errorf("before: %+v", s)
	}
	n.fired(59_100 * ms)
	s := n.Starved()
	if s.Times != 1 || s.Total != 2100*time.Millisecond || s.Longest != s.Total || !slices.Equal(s.Latest, []time.Duration{s.Total}) || !s.LastEnd.Equal(n.start.Add(59_100*time.Millisecond)) {
		t.Errorf("after: %+v", s)
	}
	s.Latest[0] = 0
	if n.Starved().Latest[0] == 0 {
		t.Error("a caller can change the node's list")
	}
	events, cancel := n.Events()
	defer cancel()
	if e := <-events; e.Starved == nil || e.Starved.For != 2100*time.Millisecond || !e.Time.Equal(s.LastEnd) {
		t.Errorf("event %+v", e)
	}
}

func TestParsePressure(t *testing.T) {
	const full = "full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
	for text, want := range map[string]Pressure{
		"some avg10=80.53 avg60=78.21 avg300=72.85 total=1222884986\n" + full: {80.53, 1222884986 * time.Microsecond},
		full + "some avg10=0.00 avg60=0.00 avg300=0.00 total=7":               {0, 7 * time.Microsecond},
	} {
		if got, ok := parsePressure(text); !ok || got != want {
			t.Errorf("%q: %+v, %v", text, got, ok)
		}
	}
	for _, text := range []string{"", full, "some", "some avg10=1.00", "some total=5", "some avg10=x total=5", "some avg10=1.00 total=-5", "some avg10=NaN total=5", "some avg10=101 total=5", "some avg10 total"} {
		if got, ok := parsePressure(text); ok {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

// TestSilentInSessionEvents converts the event of tables with a silent chip into an event of a session.
func TestSilentInSessionEvents(t *testing.T) {
	far := wire.FabricNodeID{Chip: 7}
	for _, refused := range []bool{false, true} {
		v, ok := SessionEvent(&Event{Chip: &chip.Event{Tables: &chip.Tables{Silent: []wire.FabricNodeID{far}, Refused: refused}}})
		if ok == refused || v.Kind != session.TablesChanged || !slices.Equal(v.Silent, []wire.FabricNodeID{far}) || v.Unreachable != nil {
			t.Errorf("refused %v: %+v, %v", refused, v, ok)
		}
	}
}
