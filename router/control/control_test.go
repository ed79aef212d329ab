package control

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"ttfabric/router/topo"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

const hold, boot, confirm = 120 * time.Millisecond, 10 * time.Second, 500 * time.Millisecond

func known(wire.FabricNodeID) bool { return true }

// reaches reports that a chip has no route to any other chip. In this case, agreement of both ends
// of a cable is no evidence.
func reaches(wire.FabricNodeID) bool { return false }

func machine(t testing.TB, name string) *topo.Topology {
	t.Helper()
	m, err := topo.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func newControl(m *topo.Topology, now mono.Time, chip int) *Control {
	n := m.Chips[chip].Node
	return New(now, Config{Self: n, Ports: m.Ports(n), Hold: hold, Boot: boot, Confirm: confirm, Reaches: reaches})
}

// The function "at" runs c's timers up to an instant, and returns how often c asked for new tables.
func at(c *Control, until mono.Time) (plans int) {
	for {
		d, ok := c.Deadline()
		if !ok || d.After(until) {
			return plans
		}
		if c.Tick(d) {
			plans++
		}
	}
}

// TestHold finds that a link counts as failed when it has been down for Hold, and not before. A
// link that has never been up counts as failed when Boot has passed since the start.
func TestHold(t *testing.T) {
	m := machine(t, "t3000")
	c := newControl(m, 1, 0)
	at(c, mono.Time(boot))
	if c.Self().Version != 0 || len(c.Out()) != 0 {
		t.Fatalf("%+v before the boot time", c.Self())
	}
	c.SetPort(mono.Time(boot), 0, true)
	if at(c, mono.Time(boot+time.Second)) != 1 || len(c.Out()) != len(m.Ports(m.Chips[0].Node))-1 {
		t.Fatalf("%+v, out %v: want all ports but one", c.Self(), c.Out())
	}
	now := mono.Time(20 * time.Second)
	for i := 1; i < len(m.Ports(m.Chips[0].Node)); i++ {
		c.SetPort(now, i, true)
	}
	at(c, now.Add(time.Second))
	if len(c.Out()) != 0 {
		t.Fatalf("out %v with all links up", c.Out())
	}
	now = now.Add(2 * time.Second)
	version := c.Self().Version
	c.SetPort(now, 2, false)
	at(c, now.Add(hold-1))
	if c.Self().Version != version {
		t.Errorf("the link counts as failed %v after the link went down", hold-1)
	}
	if at(c, now.Add(hold+Settle)) != 1 || len(c.Out()) != 1 || c.Self().Version != version+1 {
		t.Errorf("%+v, out %v", c.Self(), c.Out())
	}
	// A link that is down for less than Hold changes nothing.
	c.SetPort(now.Add(time.Second), 2, true)
	at(c, now.Add(2*time.Second))
	version = c.Self().Version
	c.SetPort(now.Add(3*time.Second), 1, false)
	c.SetPort(now.Add(3*time.Second+hold/2), 1, true)
	if at(c, now.Add(5*time.Second)) != 0 || c.Self().Version != version {
		t.Errorf("after a short outage: %+v, version before %d", c.Self(), version)
	}
}

// TestLinkDownAtTheEndOfLateness lets a chip be late while a plan is due. A link goes down when the
// chip runs again. The link must count as failed after Hold and Settle. The link was up while the
// chip was late, so the link gets no time for this lateness.
func TestLinkDownAtTheEndOfLateness(t *testing.T) {
	m := machine(t, "t3000")
	c := newControl(m, 1, 0)
	for i := range m.Ports(m.Chips[0].Node) {
		c.SetPort(1, i, true)
	}
	at(c, mono.Time(time.Second))
	now := mono.Time(2 * time.Second)
	c.Hear(now, []wire.LinkState{{Node: m.Chips[3].Node, Version: 1, Silent: 1}}, known)
	now = now.Add(4 * time.Second)
	c.SetPort(now, 0, false)
	c.Tick(now)
	at(c, now.Add(hold-1))
	if c.Self().Silent != 0 {
		t.Errorf("%+v before Hold", c.Self())
	}
	at(c, now.Add(hold+Settle))
	if c.Self().Silent == 0 {
		t.Errorf("the link has been down for %v, but the port is in service", hold+Settle)
	}
}

// TestGoneHold finds that evidence takes a port out of service after GoneHold, if Hold is longer and no
// parallel cable works. While a parallel cable works, the port stays in service for Hold.
func TestGoneHold(t *testing.T) {
	const hold = 2 * time.Second
	m := machine(t, "line:2") // two parallel cables
	n := m.Chips[0].Node
	c := New(1, Config{Self: n, Ports: m.Ports(n), Hold: hold, Boot: boot, Confirm: confirm, Reaches: reaches})
	c.SetPort(1, 0, true)
	c.SetPort(1, 1, true)
	c.SetPath(1, 0, 0)
	c.SetPath(1, 1, 1)
	now := mono.Time(3 * time.Second)
	at(c, now)
	c.SetPort(now, 0, false)
	c.SetGone(now, 0, true)
	at(c, now.Add(GoneHold+Settle))
	if s := c.Self(); s.Avoided() != 0 {
		t.Errorf("%+v: a parallel cable works", c.Self())
	}
	now = now.Add(hold / 2)
	c.SetPort(now, 1, false)
	c.SetGone(now, 1, true)
	at(c, now.Add(GoneHold-1))
	if c.Self().Out>>m.Ports(n)[1].Local.Channel&1 != 0 {
		t.Errorf("%+v before GoneHold", c.Self())
	}
	at(c, now.Add(GoneHold+Settle))
	if len(c.Lost()) != 2 {
		t.Errorf("after GoneHold, only %v are out of service", c.Lost())
	}
}

// TestFormerLife hears link states that an earlier incarnation of this chip sent. This chip then
// makes a newer version of its link state.
func TestFormerLife(t *testing.T) {
	m := machine(t, "t3000")
	c := newControl(m, 1, 3)
	old := wire.LinkState{Node: m.Chips[3].Node, Version: 1<<31 + 17, Out: 5}
	c.Hear(2, []wire.LinkState{old}, known)
	if s := c.Self(); s.Version != old.Version+1 || s.Out != 0 {
		t.Errorf("%+v after %+v", s, old)
	}
	c.Hear(3, []wire.LinkState{old}, known)
	if s := c.Self(); s.Version != old.Version+1 {
		t.Errorf("%+v after the chip heard the old link state again", s)
	}
	c.Hear(4, []wire.LinkState{{Node: m.Chips[3].Node, Version: old.Version + 1, Out: 9}}, known)
	if s := c.Self(); s.Version != old.Version+2 || s.Out != 0 {
		t.Errorf("%+v after the chip heard another link state of the same version", s)
	}
	c.Hear(5, []wire.LinkState{{Node: wire.FabricNodeID{Mesh: 7}, Version: 1, Out: 1}}, func(wire.FabricNodeID) bool { return false })
	if len(c.Out()) != 0 {
		t.Errorf("out %v, by the link state of a chip outside the fabric", c.Out())
	}
}

// TestThrottle finds that many changes in a row lead to few plans, and that the chip plans for the
// last change too.
func TestThrottle(t *testing.T) {
	m := machine(t, "mesh:4x4")
	c := newControl(m, 1, 0)
	plans, now := 0, mono.Time(time.Second)
	for i := range 1000 {
		c.Hear(now, []wire.LinkState{{Node: m.Chips[5].Node, Version: uint32(i + 1), Out: uint16(i % 2)}}, known)
		now = now.Add(time.Millisecond)
		plans += at(c, now)
	}
	plans += at(c, now.Add(time.Second))
	if plans < 9 || plans > 11 || len(c.Out()) != 1 {
		t.Errorf("%d plans in a second, out %v", plans, c.Out())
	}
}

// TestFlood floods link states over links that come up and go down at random. At the end, all
// connected chips must have the same link states.
func TestFlood(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 7))
		m := machine(t, []string{"mesh:3x3", "t3000", "torus:3x3", "line:4"}[r.IntN(4)])
		f := &flood{t: t, m: m, rng: r, now: 1, at: map[wire.FabricNodeID]int{}, up: map[wire.PortID]bool{}}
		for i, c := range m.Chips {
			f.at[c.Node] = i
			f.chips = append(f.chips, newControl(m, f.now, i))
		}
		for _, c := range m.Cables {
			f.set(c, true)
		}
		for range 60 {
			switch c := m.Cables[r.IntN(len(m.Cables))]; r.IntN(5) {
			case 0, 1:
				f.set(c, r.IntN(2) == 0)
			case 2:
				i := r.IntN(len(m.Chips))
				f.chips[i].Avoid(f.now, r.IntN(len(m.Ports(m.Chips[i].Node))), r.IntN(2) == 0)
			case 3: // a chip restarts: it has lost all link states, and its links come up again
				i := r.IntN(len(m.Chips))
				f.chips[i] = newControl(m, f.now, i)
				for _, c := range m.Cables {
					if f.up[c.A] && (c.A.Node == m.Chips[i].Node || c.B.Node == m.Chips[i].Node) {
						f.set(c, false)
						f.set(c, true)
					}
				}
			default:
				f.pass(time.Duration(r.IntN(int(200 * time.Millisecond))))
			}
			f.send(r.IntN(4))
		}
		f.pass(2 * boot)
		f.send(1 << 20)
		f.pass(time.Second)
		f.send(1 << 20)
		f.compare(seed)
	}
}

// flood is a set of chips that are connected by links without loss.
type flood struct {
	t     testing.TB
	m     *topo.Topology
	rng   *rand.Rand
	now   mono.Time
	chips []*Control
	at    map[wire.FabricNodeID]int
	up    map[wire.PortID]bool
}

func (f *flood) port(p wire.PortID) (chip, port int) {
	chip = f.at[p.Node]
	return chip, slices.IndexFunc(f.m.Ports(p.Node), func(q topo.Port) bool { return q.Local == p })
}

func (f *flood) set(c topo.Cable, up bool) {
	f.up[c.A], f.up[c.B] = up, up
	for _, p := range []wire.PortID{c.A, c.B} {
		i, k := f.port(p)
		f.chips[i].SetPort(f.now, k, up)
	}
}

func (f *flood) pass(d time.Duration) {
	f.now = f.now.Add(d)
	for _, c := range f.chips {
		at(c, f.now)
	}
}

// send carries at most n messages between neighbours.
func (f *flood) send(n int) {
	for moved := true; moved && n > 0; {
		moved = false
		for i, c := range f.chips {
			for k, p := range f.m.Ports(f.m.Chips[i].Node) {
				if !c.Owes(k) || n == 0 {
					continue
				}
				words, upTo := c.Tell(k)
				if len(words) == 0 {
					f.t.Fatalf("%s owes %s link states, but Tell lists none", p.Local.Node, p.Peer.Node)
				}
				c.Told(k, upTo)
				f.chips[f.at[p.Peer.Node]].Hear(f.now, words, known)
				moved = true
				n--
			}
		}
	}
}

func (f *flood) compare(seed uint64) {
	for _, c := range f.m.Cables {
		if !f.up[c.A] {
			continue
		}
		a, b := f.chips[f.at[c.A.Node]], f.chips[f.at[c.B.Node]]
		if x, y := sorted(a.Out()), sorted(b.Out()); x != y {
			f.t.Fatalf("seed %d: %s and %s are connected; ports out of service: at the first chip %s, at the second %s", seed, c.A.Node, c.B.Node, x, y)
		}
	}
	for i, c := range f.chips {
		for k, p := range f.m.Ports(f.m.Chips[i].Node) {
			out := slices.Contains(c.Out(), p.Local)
			if want := !f.up[p.Local] || c.Avoided(k); out != want {
				f.t.Fatalf("seed %d: %s: out %v, want %v", seed, p.Local, out, want)
			}
		}
	}
}

// byPort orders ports by chip and channel.
func byPort(a, b wire.PortID) int {
	return cmp.Or(a.Node.Compare(b.Node), cmp.Compare(a.Channel, b.Channel))
}

func sorted(ps []wire.PortID) string {
	slices.SortFunc(ps, byPort)
	return fmt.Sprint(ps)
}

// TestManyWords sends a neighbour more link states than fit into one packet.
func TestManyWords(t *testing.T) {
	m := machine(t, "t3000")
	c := newControl(m, 1, 0)
	var words []wire.LinkState
	for i := range 1000 {
		words = append(words, wire.LinkState{Node: wire.FabricNodeID{Mesh: wire.MeshID(i)}, Version: 1})
	}
	c.Hear(1, words, known)
	c.SetPort(1, 0, true)
	told := map[wire.FabricNodeID]bool{}
	for n := 0; c.Owes(0); n++ {
		ws, upTo := c.Tell(0)
		if len(ws) > wire.MaxLinkStates || n > 1000/wire.MaxLinkStates+1 {
			t.Fatalf("%d link states in packet %d", len(ws), n)
		}
		for _, w := range ws {
			told[w.Node] = true
		}
		c.Told(0, upTo)
	}
	if len(told) != 1000 {
		t.Errorf("%d of 1000 link states were listed", len(told))
	}
}
