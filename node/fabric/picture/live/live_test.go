package live

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"ttfabric/node/fabric"
	"ttfabric/node/fabric/picture"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/process/processtest"
	"ttfabric/router/topo"
)

// TestMain lets the test binary run the chips of a fabric.
func TestMain(m *testing.M) {
	fabric.ServesChips()
	processtest.Main(m)
}

// soon is the longest time of a step of a test. On an idle machine, a step takes much less time.
const soon = 30 * time.Second

// up brings up the machine n300, and runs a collector of it until the end of the test. The channel gets
// the result of the collector's Run.
func up(t *testing.T, name string) (*fabric.Fabric, *Collector, <-chan error) {
	t.Helper()
	m, err := topo.Named("n300")
	if err != nil {
		t.Fatal(err)
	}
	w := fabric.Wanted{Name: name, Topology: m, Named: "n300", Spec: spec.Default()}
	w.Spec.Profile = "crowded"
	f, err := fabric.Create(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Remove() })
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	if _, err := f.Up(ctx, nil, nil); err != nil {
		t.Fatal(err)
	}
	c, err := New(func() (*fabric.Fabric, error) { return fabric.Open(t.Context(), name) })
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Run(t.Context(), t.Logf) }()
	return f, c, ended
}

// until waits for an update for which the function is returns true.
func until(t *testing.T, updates <-chan *Update, what string, is func(*Update) bool) *Update {
	t.Helper()
	late := time.After(soon)
	for {
		select {
		case u, ok := <-updates:
			if !ok {
				t.Fatalf("%s: the feed cut the subscriber off", what)
			}
			if is(u) {
				return u
			}
		case <-late:
			t.Fatalf("%s: not within %v", what, soon)
		}
	}
}

func subscribe(t *testing.T, f *Feed) <-chan *Update {
	t.Helper()
	updates, leave, err := f.Subscribe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(leave)
	return updates
}

// TestCollector follows a live fabric. Without a subscriber, the collector asks no chip. All
// subscribers get the same updates. The test cuts, impairs and restores a cable, and takes the fabric down.
func TestCollector(t *testing.T) {
	f, c, ended := up(t, "collector")
	time.Sleep(3 * askEvery / 2)
	if n := c.State().Seq; n != 0 {
		t.Fatalf("the collector has asked %d times, and nobody watches", n)
	}
	first, second := subscribe(t, c.Feed), subscribe(t, c.Feed)
	isState := func(u *Update) bool { return u.State != nil }
	a := until(t, first, "a state", isState)
	if b := until(t, second, "a state", isState); a != b {
		t.Error("two subscribers get states of their own, although one round of questions is enough")
	}
	if a.State.Total.Answer != 2 || a.State.Cables[0].State != picture.Up {
		t.Errorf("the first state is %+v", a.State)
	}
	cable := c.Machine().Cables[0].Name
	do := func(a Action) string {
		t.Helper()
		said, err := c.Do(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		return said
	}
	if said := do(Action{Do: "cut", Cable: cable}); said != "cut: "+cable {
		t.Errorf("a cut says %q", said)
	}
	begin := time.Now()
	until(t, first, "the event of the cut", func(u *Update) bool {
		return u.Event != nil && u.Event.Kind == picture.KindFault && u.Event.Cable == 0
	})
	until(t, first, "the state after the cut", func(u *Update) bool {
		return u.State != nil && u.State.Cables[0].Cut && u.State.Cables[0].State != picture.Up && u.State.Total.Cut == 1
	})
	t.Logf("the page knows of the cut after %v", time.Since(begin).Round(time.Millisecond))
	do(Action{Do: "impair", Cable: cable, Options: map[string]string{"delay": "1ms"}})
	until(t, first, "the impairment", func(u *Update) bool {
		return u.State != nil && strings.Contains(u.State.Cables[0].Impaired, "delay=1ms")
	})
	do(Action{Do: "clear", Cable: cable})
	if said := do(Action{Do: "heal"}); !strings.Contains(said, "1 cables put back") {
		t.Errorf("heal says %q", said)
	}
	until(t, first, "the state after the repair", func(u *Update) bool {
		return u.State != nil && u.State.Total.States[picture.Up] == len(u.State.Cables) && u.State.Total.Cut+u.State.Total.Impaired == 0
	})
	if !slices.ContainsFunc(c.Events(), func(e picture.Event) bool { return strings.Contains(e.Text, "fault cut") }) {
		t.Error("the past events lack the cut")
	}
	f.Remove()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(soon):
		t.Error("the collector runs on after the fabric was taken down")
	}
}

// TestQuestions asks for a chip's channels, a route and the balance. Two viewers of one chip share an answer.
func TestQuestions(t *testing.T) {
	_, c, _ := up(t, "questions")
	a, err := c.Chip(t.Context(), "M0D0")
	if err != nil || len(a.Routers) != len(c.Machine().Cables) || len(a.Routers[0].VCs) == 0 {
		t.Fatalf("%+v, %v", a, err)
	}
	if b, err := c.Chip(t.Context(), "M0D0"); err != nil || b.Time != a.Time {
		t.Errorf("a second viewer asks the chip again: %v and %v, %v", a.Time, b.Time, err)
	}
	r, err := c.Route("M0D0", "M0D1", 1, false)
	if err != nil || len(r.Hops) != 1 || r.Hops[0].To != "M0D1" {
		t.Errorf("%+v, %v", r, err)
	}
	if b, err := c.Losses(t.Context()); err != nil || len(b.Chips) != 2 {
		t.Errorf("%d chips are in the balance, %v", len(b.Chips), err)
	}
	for what, err := range map[string]error{
		`"x"`: second(c.Do(t.Context(), Action{Do: "x"})), "M0D0/99": second(c.Do(t.Context(), Action{Do: "cut", Cable: "M0D0/99"})), "M0D7": second(c.Chip(t.Context(), "M0D7")),
		"plane 9": second(c.Route("M0D0", "M0D1", 9, false)), `"<b>"`: second(c.Route("<b>", "M0D1", 0, true)), "no impairment": second(c.Do(t.Context(), Action{Do: "impair", Cable: "all"})),
	} {
		var usage *spec.Error
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), what) {
			t.Errorf("want a usage error that names %s, got %v", what, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// TestFeed checks the limit of subscribers, and that a slow subscriber is cut off and delays nobody.
func TestFeed(t *testing.T) {
	f := NewFeed()
	slow := subscribe(t, f)
	fast := subscribe(t, f)
	for range maxQueue + 1 {
		f.Publish(&Update{Event: &picture.Event{}})
		<-fast
	}
	n := 0
	for range slow {
		n++
	}
	if n != maxQueue {
		t.Errorf("a slow subscriber gets %d updates before it is cut off, want %d", n, maxQueue)
	}
	for range MaxSubscribers - 1 {
		subscribe(t, f)
	}
	if _, _, err := f.Subscribe(); !errors.Is(err, ErrFull) {
		t.Errorf("subscriber %d: %v", MaxSubscribers+1, err)
	}
}
