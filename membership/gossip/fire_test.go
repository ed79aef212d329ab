package gossip

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"ttfabric/membership"
	"ttfabric/membership/keyring"
	"ttfabric/ttlink/fault"
	"ttfabric/wire"
)

// quick is the pace of the pools in tests.
var quick = pace{gossip: 20 * time.Millisecond, probe: 100 * time.Millisecond, probeTimeout: 50 * time.Millisecond, pushPull: 2 * time.Second,
	forget: 200 * time.Millisecond, healMin: 50 * time.Millisecond, healMax: 150 * time.Millisecond, tcp: 300 * time.Millisecond, stretch: 2, repairMin: 20 * time.Millisecond, repairMax: 50 * time.Millisecond}

// patience is the longest wait for a result, long enough for a busy machine and the race detector.
// soon is the longest wait for a result that must not wait for another chip. soon is shorter than
// memberlist's timeout for streams, ten seconds.
const patience, soon = 90 * time.Second, 8 * time.Second

// fire starts pools for tests with faults.
type fire struct {
	swarm
	keys   func(chip int) *Keys
	expect int
	member func(wire.FabricNodeID) bool
}

func (f *fire) start(mesh, chip int, inc wire.Incarnation) *Pool {
	f.t.Helper()
	n := wire.FabricNodeID{Mesh: wire.MeshID(mesh), Chip: wire.ChipID(chip)}
	m := membership.Meta{Node: n, Incarnation: inc, Started: uint64(inc), Topology: 1}
	c := Config{Node: n, Incarnation: inc, Bind: loopback, Label: "fire", Meta: m, Seeds: f.seeds, Seed: uint64(inc), Expect: f.expect, Member: f.member, pace: quick}
	if f.keys != nil {
		c.Keys = f.keys(chip)
	}
	p, err := Start(context.Background(), c)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { p.Close(0) })
	f.mu.Lock()
	f.addrs = append(f.addrs, fmt.Sprintf("%s/%s", n, p.Addr()))
	f.mu.Unlock()
	return p
}

func (f *fire) startAll(n int) []*Pool {
	f.expect = n
	var out []*Pool
	for i := range n {
		out = append(out, f.start(0, i, wire.Incarnation(i+1)))
	}
	f.see("the pool forms", n, out...)
	return out
}

// steady is the number of rounds of gossip for which views must stay equal. The rounds together
// last longer than a pool waits before the pool believes a silent chip dead.
const steady = 50

// see waits until all the pools have seen n chips for steady rounds without a break. With the pace
// quick, a pool may believe a chip dead that only waits for a processor core. The count of rounds
// then begins again.
func (f *fire) see(what string, n int, pools ...*Pool) {
	f.t.Helper()
	since := time.Now()
	eventually(f.t, patience, fmt.Sprintf("%s: %d chips in each of %d views, for %d rounds", what, n, len(pools), steady), func() bool {
		if slices.ContainsFunc(pools, func(p *Pool) bool { return len(p.View()) != n }) {
			since = time.Now()
		}
		return time.Since(since) >= steady*quick.gossip
	})
}

// part cuts two parts of a pool off from each other. If "on" is false, part ends the cut.
func part(on bool, a, b []*Pool) {
	for _, side := range [2][2][]*Pool{{a, b}, {b, a}} {
		apart := map[wire.FabricNodeID]bool{}
		for _, p := range side[1] {
			apart[p.cfg.Node] = on
		}
		if !on {
			apart = nil
		}
		for _, p := range side[0] {
			p.Cut(false, apart)
		}
	}
}

// remembers reports whether memberlist believes that the member with the given name is alive.
func (p *Pool) remembers(name string) bool {
	return slices.ContainsFunc(p.list.Members(), func(n *memberNode) bool { return n.Name == name })
}

// TestSplitPoolHeals cuts two parts of a pool off from each other until memberlist has forgotten
// the members of the other part. After the cut, the parts must find each other without a restart.
func TestSplitPoolHeals(t *testing.T) {
	t.Parallel()
	f := &fire{swarm: swarm{t: t}}
	pools := f.startAll(6)
	a, b := pools[:2], pools[2:]
	part(true, a, b)
	f.see("apart", 2, a...)
	f.see("apart", 4, b...)
	time.Sleep(3 * quick.forget) // until memberlist has forgotten the dead members
	for range 20 {
		time.Sleep(10 * time.Millisecond)
		if len(a[0].View()) > 2 || len(b[0].View()) > 4 {
			t.Fatalf("while they are apart %d and %d chips are seen", len(a[0].View()), len(b[0].View()))
		}
	}
	part(false, a, b)
	f.see("together again", 6, pools...)
	eventually(t, patience, "a whole pool looks for no missing chip", func() bool {
		chips, strangers := pools[0].strangers()
		return chips == 6 && len(strangers) == 0
	})
}

// TestCutOffAlone cuts one chip off from all others. Until the cut ends, this chip sees no other
// chip, no other chip sees it, and no streams pass.
func TestCutOffAlone(t *testing.T) {
	t.Parallel()
	f := &fire{swarm: swarm{t: t}}
	pools := f.startAll(4)
	pools[1].Cut(true, nil)
	f.see("the rest", 3, pools[0], pools[2], pools[3])
	f.see("alone", 1, pools[1])
	if _, err := pools[0].list.Join([]string{pools[1].Addr().String()}); err == nil {
		t.Error("a stream gets to a chip that is cut off")
	}
	if c := pools[1].FaultCounts(); c.CutOff == 0 {
		t.Errorf("nothing is counted: %+v", c)
	}
	begin := time.Now()
	pools[3].Cut(true, nil)
	if err := pools[3].Close(0); err != nil || time.Since(begin) > soon {
		t.Errorf("closing while cut off: %v after %v", err, time.Since(begin))
	}
	pools[1].Cut(false, nil)
	f.see("healed", 3, pools[:3]...)
}

// TestBadGossip checks that a pool with long delays and many lost packets forms, spreads new
// metadata, and finds lost members again.
func TestBadGossip(t *testing.T) {
	t.Parallel()
	f := &fire{swarm: swarm{t: t}}
	pools := f.startAll(4)
	seed := uint64(7)
	for _, p := range pools {
		if err := p.Impair(fault.Options{Delay: 10 * time.Millisecond, Jitter: 5 * time.Millisecond, Loss: 0.2, Duplicate: 0.1, Corrupt: 0.02}, &seed); err != nil {
			t.Fatal(err)
		}
	}
	if err := pools[0].Impair(fault.Options{Loss: 2}, nil); err == nil {
		t.Error("a loss of 200 % is taken")
	}
	m := pools[2].cfg.Meta
	m.InService, m.LinkVersion = 9, 1
	pools[2].UpdateMeta(m)
	eventually(t, patience, "news through bad gossip", func() bool {
		for _, p := range pools {
			if !slices.ContainsFunc(p.View(), func(x membership.Member) bool { return x.Meta.Node == m.Node && x.Meta.InService == 9 }) {
				return false
			}
		}
		return true
	})
	eventually(t, patience, "what is lost and what passes is counted", func() bool {
		c := pools[0].FaultCounts()
		return c.Lost > 0 && c.Passed > 0
	})
	for _, p := range pools {
		p.Impair(fault.Options{}, nil)
	}
	f.see("good again", 4, pools...)
}

// TestFormerLifeIsRefused checks that no member believes or forwards claims of a chip's former
// process. The former process ends before the new process starts, or after all members have heard
// of both processes. In one case the new process has never heard of the former process, because all
// members had forgotten it.
func TestFormerLifeIsRefused(t *testing.T) {
	for order, begin := range map[string]func(f *fire, old *Pool, others []*Pool) *Pool{
		"ends after all have heard of both": func(f *fire, old *Pool, others []*Pool) *Pool {
			now := f.start(0, 2, 100)
			eventually(f.t, patience, "all have heard of both lives, and believe the new one", func() bool {
				return believed(old.cfg.Node, 100, others...) && believed(old.cfg.Node, 100, now) &&
					!slices.ContainsFunc(others, func(p *Pool) bool { return !p.remembers(old.cfg.Meta.Name()) })
			})
			old.Close(0)
			return now
		},
		"ends as the new one begins": func(f *fire, old *Pool, _ []*Pool) *Pool {
			old.Close(0)
			return f.start(0, 2, 100)
		},
		"is forgotten": func(f *fire, old *Pool, others []*Pool) *Pool {
			old.Close(0)
			f.see("the old life is gone", 2, others...)
			return f.start(0, 2, 100)
		},
	} {
		t.Run(order, func(t *testing.T) {
			t.Parallel()
			f := &fire{swarm: swarm{t: t}}
			pools := f.startAll(3)
			old := pools[2]
			rest := append(pools[:2:2], begin(f, old, pools[:2]))
			eventually(t, patience, "the old life is gone, and the new one believed", func() bool {
				return believed(old.cfg.Node, 100, rest...) && !slices.ContainsFunc(rest, func(p *Pool) bool { return p.remembers(old.cfg.Meta.Name()) })
			})
			f.see("the new life is there", 3, rest...)
			time.Sleep(3 * quick.forget)
			formerIsRefused(t, old, rest)
		})
	}
}

// TestUnheardFormerLifeIsNotBelieved checks a chip that has never heard of a former process. Such a
// chip takes the former process for a second process that claims the same chip. The chip may
// therefore store the former process's claim, but must believe the later process.
//
// With the pace quick, the chip may believe the later process dead, because that process waits for a
// processor core. The former process's claim is then the only claim, and the chip rightly believes
// that claim. The test then begins again with another chip.
func TestUnheardFormerLifeIsNotBelieved(t *testing.T) {
	t.Parallel()
	f := &fire{swarm: swarm{t: t}}
	pools := f.startAll(3)
	old := pools[2]
	old.Close(0)
	f.see("the old life is gone", 2, pools[:2]...)
	pools[2] = f.start(0, 2, 100)
	f.see("the new life is there", 3, pools...)
	life := wire.Incarnation(3)
	eventually(t, patience, "a chip hears of the former process and of the later process for the whole trial", func() bool {
		life++
		late := f.start(0, 3, life)
		defer late.Close(0)
		return f.unheardFormer(old, late, pools)
	})
}

// unheardFormer tells the pool late of the process old. The pool late must believe the process of
// pools[2], which is the later process of the same chip. The pools know that old is a former
// process. unheardFormer returns false if late found pools[2] dead during the trial.
func (f *fire) unheardFormer(old, late *Pool, pools []*Pool) bool {
	f.see("one more", 4, append(pools[:3:3], late)...)
	late.Events()
	former, later := old.cfg.Meta.Name(), pools[2].cfg.Meta.Name()
	ghost := replay(f.t, former, old.Addr().Addr(), old.cfg.Meta.Append(nil))
	eventually(f.t, patience, "it is told", func() bool { return ghost(late.Addr().String()) == nil })
	for range steady {
		time.Sleep(quick.gossip)
		for _, p := range append(pools[:3:3], late) {
			for _, m := range p.View() {
				if m.Meta.Node != old.cfg.Node || m.Name == later {
					continue
				}
				if p == late && !late.remembers(later) {
					return false
				}
				f.t.Fatalf("chip %s believes life %d", p.cfg.Node, m.Meta.Incarnation)
			}
			if p != late && p.remembers(former) {
				f.t.Fatalf("chip %s, which has heard of the life, takes it for a member", p.cfg.Node)
			}
		}
	}
	if !late.remembers(later) {
		return false
	}
	for _, e := range late.Events() {
		if e.Member.Name == former {
			f.t.Errorf("the late chip reports a former process: %v %s", e.Kind, e.Member.Name)
		}
	}
	return true
}

// believed reports whether all pools see three chips, and believe the process of chip n with the
// incarnation life.
func believed(n wire.FabricNodeID, life wire.Incarnation, pools ...*Pool) bool {
	return !slices.ContainsFunc(pools, func(p *Pool) bool {
		v := p.View()
		return len(v) != 3 || !slices.ContainsFunc(v, func(m membership.Member) bool { return m.Meta.Node == n && m.Meta.Incarnation == life })
	})
}

// formerIsRefused sends the metadata of the former process old to all pools in rest, as from a
// member that believes old alive. The first claim has the name of old, the second claim has another
// name. All pools must refuse the two claims.
func formerIsRefused(t *testing.T, old *Pool, rest []*Pool) {
	for _, p := range rest {
		p.Events()
	}
	for i, name := range []string{old.cfg.Meta.Name(), "M0D2-00000000000000ff"} {
		ghost := replay(t, name, old.Addr().Addr(), old.cfg.Meta.Append(nil))
		for _, p := range rest {
			eventually(t, patience, "it is told", func() bool { return ghost(p.Addr().String()) == nil })
		}
		for range 10 {
			time.Sleep(quick.gossip)
			for _, p := range rest {
				if p.remembers(name) {
					t.Fatalf("replay %d: chip %s takes %s for a member", i, p.cfg.Node, name)
				}
			}
		}
		for _, p := range rest {
			for _, m := range p.View() {
				if m.Meta.Node == old.cfg.Node && m.Meta.Incarnation != 100 {
					t.Errorf("replay %d: chip %s believes life %d", i, p.cfg.Node, m.Meta.Incarnation)
				}
			}
			for _, e := range p.Events() {
				if e.Member.Name == name {
					t.Errorf("replay %d: chip %s tells of %v %s", i, p.cfg.Node, e.Kind, e.Member.Name)
				}
			}
		}
	}
}

func ring(t *testing.T, keys ...[]byte) *Keys {
	t.Helper()
	k, err := NewKeys(keys)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// TestKeyRotation changes the key of a running pool without the loss of a member. Afterwards, a
// chip with only the old key, a chip with a wrong key, and a chip without a key cannot join the
// pool. Each of these chips reports that it cannot join.
func TestKeyRotation(t *testing.T) {
	t.Parallel()
	first, second := bytes.Repeat([]byte{1}, 16), bytes.Repeat([]byte{2}, 32)
	f := &fire{swarm: swarm{t: t}}
	f.keys = func(int) *Keys { return ring(t, first) }
	pools := f.startAll(4)
	unread := func() {
		t.Helper()
		for _, p := range pools {
			for _, e := range p.Events() {
				if e.Kind == membership.Rejected {
					t.Errorf("chip %s tells of %v %s %s", p.cfg.Node, e.Kind, e.Member.Name, e.Reason)
				}
			}
		}
	}
	version := uint32(0)
	each := func(do func(k *Keys) error) {
		t.Helper()
		version++
		for _, p := range pools {
			if err := do(p.cfg.Keys); err != nil {
				t.Error(err)
			}
			m := p.cfg.Meta
			m.LinkVersion = version
			p.UpdateMeta(m) // the chips gossip new metadata with the keys of this step
			time.Sleep(2 * quick.gossip)
		}
		// Wait until all chips have received the new metadata. Hardly any gossip of the previous
		// step is then still under way.
		eventually(t, patience, "all have heard of all", func() bool {
			return !slices.ContainsFunc(pools, func(p *Pool) bool {
				v := p.View()
				return len(v) != len(pools) || slices.ContainsFunc(v, func(m membership.Member) bool { return m.Meta.LinkVersion != version })
			})
		})
		time.Sleep(2 * quick.probe)
	}
	each(func(k *Keys) error { return k.Install(second) })
	each(func(k *Keys) error { return k.Use(keyring.ID(second)) })
	for _, p := range pools {
		if err := p.cfg.Keys.Remove(keyring.ID(second)); err == nil {
			t.Error("the key in use can be removed")
		}
	}
	each(func(k *Keys) error { return k.Remove(keyring.ID(first)) })
	f.see("all through the rotation", 4, pools...)
	unread()
	for _, p := range pools {
		if ks := p.cfg.Keys.List(); len(ks) != 1 || ks[0] != (membership.Key{ID: keyring.ID(second), Bits: 256, Primary: true}) {
			t.Errorf("keys at the end: %+v", ks)
		}
	}
	f.expect = 7
	for chip, keys := range map[int]*Keys{4: ring(t, first), 5: ring(t, bytes.Repeat([]byte{3}, 24)), 6: nil} {
		f.keys = func(int) *Keys { return keys }
		p := f.start(0, chip, wire.Incarnation(chip+1))
		eventually(t, patience, "a chip without the right key says so", func() bool {
			return slices.ContainsFunc(p.Events(), func(e membership.Event) bool {
				return e.Kind == membership.Rejected && strings.Contains(e.Reason, "chip restart")
			})
		})
		if len(p.View()) != 1 || p.Status()[0].Unreadable == 0 {
			t.Errorf("chip %d with a wrong key sees %d chips; %+v", chip, len(p.View()), p.Status())
		}
	}
	f.see("the four chips with the key see each other", 4, pools...)
}

func TestKeys(t *testing.T) {
	t.Parallel()
	for _, n := range keyring.Sizes {
		k, err := keyring.New(n)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := keyring.Parse(" " + keyring.Text(k) + "\n"); err != nil || !bytes.Equal(got, k) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	for what, text := range map[string]string{"not base64": "§§§", "empty": "", "17 bytes": keyring.Text(make([]byte, 17))} {
		if _, err := keyring.Parse(text); err == nil || text != "" && strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := NewKeys(nil); err == nil {
		t.Error("NewKeys accepts an empty list")
	}
	k := ring(t, make([]byte, 16))
	for i := range keyring.Max {
		err := k.Install(bytes.Repeat([]byte{byte(i)}, 16))
		if err != nil {
			t.Errorf("key %d: %v", i, err)
		}
	}
	if err := k.Install(make([]byte, 24)); err == nil {
		t.Error("Install accepts more keys than the limit")
	}
	if err := k.Use("nonsense"); err == nil {
		t.Error("Use accepts a key that is not installed")
	}
	if err := k.Remove("nonsense"); err != nil {
		t.Error("Remove of a key that is not installed:", err)
	}
}

// replay returns a function that tells the member at the address "to" that a process is alive.
func replay(t *testing.T, name string, at netip.Addr, meta []byte) func(to string) error {
	t.Helper()
	l, err := ghost(name, at.String(), meta)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Shutdown() })
	return func(to string) error {
		_, err := l.Join([]string{to})
		return err
	}
}
