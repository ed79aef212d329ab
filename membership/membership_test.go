package membership

import (
	"bytes"
	"encoding/hex"
	"math/rand/v2"
	"net/netip"
	"testing"

	"ttfabric/wire"
)

func sample() Meta {
	m := Meta{Node: wire.FabricNodeID{Mesh: 1, Chip: 3}, InService: 0x0301, Incarnation: 0x1122334455667788, Started: 1, API: 8474, LinkVersion: 7, Topology: 0xAABBCCDD}
	m.Ports[0], m.Ports[15], m.Silent = 4000, 65535, 0x8010
	return m
}

// TestMetaVector compares the encoding with a vector that a person wrote from the format in the
// package documentation.
func TestMetaVector(t *testing.T) {
	want := "0300" + "0100" + "0300" + "0103" + "8877665544332211" + "010000000000" + "1a21" + "07000000" + "ddccbbaa" +
		"a00f" + "0000000000000000000000000000000000000000000000000000000000" + "ffff"
	want = want[:64+4] + string(bytes.Repeat([]byte("0000"), 14)) + "ffff" + "1080"
	m := sample()
	b := m.Append(nil)
	if hex.EncodeToString(b) != want {
		t.Errorf("got  %x\nwant %s", b, want)
	}
	got, err := DecodeMeta(b)
	if err != nil || got != m {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestMetaRefuses(t *testing.T) {
	m := sample()
	good := m.Append(nil)
	for n := range good {
		if _, err := DecodeMeta(good[:n]); err == nil {
			t.Errorf("%d bytes were accepted", n)
		}
	}
	for _, c := range []struct {
		at  int
		val byte
	}{{0, 1}, {1, 1}, {3, 4}, {5, 1}} {
		b := bytes.Clone(good)
		b[c.at] = c.val
		if _, err := DecodeMeta(b); err == nil {
			t.Errorf("byte %d = %d was accepted", c.at, c.val)
		}
	}
	if _, err := DecodeMeta(append(good, 0)); err == nil {
		t.Error("65 bytes were accepted")
	}
}

func FuzzDecodeMeta(f *testing.F) {
	m := sample()
	f.Add(m.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, err := DecodeMeta(b); err == nil && !bytes.Equal(m.Append(nil), b) {
			t.Fatalf("the metadata decoded from %x encodes to other bytes", b)
		}
	})
}

// TestViewAgainstNaiveModel compares the view with a simple model of its rule: for each chip,
// believe the newest of the present claims.
func TestViewAgainstNaiveModel(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		v := NewView(5, nil)
		live := map[string]Meta{}
		former := map[string]bool{}
		last := map[wire.FabricNodeID]string{} // names of processes that are gone without a successor
		gone := func(name string) {
			m, ok := live[name]
			if !ok {
				return
			}
			delete(live, name)
			last[m.Node] = name
			for _, o := range live {
				if o.Node == m.Node {
					former[name] = true
					delete(last, m.Node)
				}
			}
		}
		names := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"}
		for range 200 {
			name := names[r.IntN(len(names))]
			if r.IntN(3) == 0 {
				v.Gone(name)
				gone(name)
			} else {
				m := Meta{Node: wire.FabricNodeID{Chip: wire.ChipID(r.IntN(3))}, Incarnation: wire.Incarnation(name[0]), Started: r.Uint64N(4), Topology: 5}
				if r.IntN(10) == 0 {
					m.Topology = 6
				}
				v.Alive(name, netip.Addr{}, m.Append(nil))
				if was, ok := live[name]; ok && (m.Topology != 5 || !former[name] && was.Node != m.Node) {
					gone(name)
				}
				if m.Topology == 5 && !former[name] {
					live[name] = m
					if l, ok := last[m.Node]; ok && l != name {
						former[l] = true
					}
					delete(last, m.Node)
				}
				if v.Former(name) != former[name] {
					t.Fatalf("seed %d: %s is a former life: %v, want %v", seed, name, v.Former(name), former[name])
				}
			}
			want := map[wire.FabricNodeID]Meta{}
			for _, m := range live {
				if w, ok := want[m.Node]; !ok || m.Newer(&w) {
					want[m.Node] = m
				}
			}
			got := v.Members()
			if len(got) != len(want) {
				t.Fatalf("seed %d: %d chips, want %d", seed, len(got), len(want))
			}
			for _, g := range got {
				if g.Meta != want[g.Meta.Node] {
					t.Fatalf("seed %d: chip %v is %+v, want %+v", seed, g.Meta.Node, g.Meta, want[g.Meta.Node])
				}
			}
		}
	}
}

func TestViewEvents(t *testing.T) {
	v := NewView(0xAABBCCDD, nil)
	m := sample()
	kinds := func(es []Event) (out []EventKind) {
		for _, e := range es {
			out = append(out, e.Kind)
		}
		return out
	}
	step := func(what string, got []Event, want ...EventKind) {
		t.Helper()
		if k := kinds(got); !bytes.Equal(asBytes(k), asBytes(want)) {
			t.Errorf("%s: got %v, want %v", what, k, want)
		}
	}
	step("first", v.Alive("x", netip.Addr{}, m.Append(nil)), Joined)
	step("again", v.Alive("x", netip.Addr{}, m.Append(nil)))
	m.InService = 1
	step("update", v.Alive("x", netip.Addr{}, m.Append(nil)), Updated)
	m.Started, m.Incarnation = 2, 9
	step("restart", v.Alive("y", netip.Addr{}, m.Append(nil)), Restarted)
	step("old one dies", v.Gone("x"))
	step("garbage", v.Alive("z", netip.Addr{}, []byte("?")), Rejected)
	m.Topology = 1
	step("stranger", v.Alive("z", netip.Addr{}, m.Append(nil)), Rejected)
	step("gone", v.Gone("y"), Left)
}

func asBytes(k []EventKind) []byte {
	var b []byte
	for _, x := range k {
		b = append(b, byte(x))
	}
	return b
}

// TestFormerLives checks that the view never believes a claim of a former process.
func TestFormerLives(t *testing.T) {
	life := func(inc, started uint64, links uint32) (string, []byte) {
		m := Meta{Node: wire.FabricNodeID{Chip: 3}, Incarnation: wire.Incarnation(inc), Started: started, LinkVersion: links, Topology: 1}
		return m.Name(), m.Append(nil)
	}
	alive := func(v *View, inc, started uint64, links uint32) []Event {
		n, b := life(inc, started, links)
		return v.Alive(n, netip.Addr{}, b)
	}
	gone := func(v *View, inc uint64) { n, _ := life(inc, 0, 0); v.Gone(n) }
	holder := func(v *View) uint64 {
		if ms := v.Members(); len(ms) == 1 {
			return uint64(ms[0].Meta.Incarnation)
		}
		return 0
	}
	for what, c := range map[string]struct {
		play func(v *View)
		want uint64
	}{
		"replayed while the new one lives":           {func(v *View) { alive(v, 1, 10, 0); alive(v, 2, 20, 0); alive(v, 1, 10, 0) }, 2},
		"replayed when the new one is gone":          {func(v *View) { alive(v, 1, 10, 0); alive(v, 2, 20, 0); gone(v, 1); gone(v, 2); alive(v, 1, 10, 0) }, 0},
		"the old one was missed before":              {func(v *View) { alive(v, 1, 10, 0); gone(v, 1); alive(v, 2, 20, 0); gone(v, 2); alive(v, 1, 10, 9) }, 0},
		"the clock went back between the two":        {func(v *View) { alive(v, 1, 10, 0); gone(v, 1); alive(v, 2, 5, 0); alive(v, 1, 10, 0) }, 2},
		"the clock went back, and both are heard":    {func(v *View) { alive(v, 1, 10, 0); alive(v, 2, 5, 0); gone(v, 1); alive(v, 1, 10, 0) }, 2},
		"believed dead by mistake, and not replaced": {func(v *View) { alive(v, 1, 10, 0); gone(v, 1); alive(v, 1, 10, 0) }, 1},
		"two live ones, and the later goes":          {func(v *View) { alive(v, 1, 10, 0); alive(v, 2, 20, 0); gone(v, 2) }, 1},
		"the third life, after both others were heard": {func(v *View) {
			alive(v, 1, 10, 0)
			gone(v, 1)
			alive(v, 2, 20, 0)
			gone(v, 2)
			alive(v, 3, 1, 0)
			alive(v, 2, 20, 7)
			alive(v, 1, 10, 7)
		}, 3},
	} {
		v := NewView(1, nil)
		c.play(v)
		if got := holder(v); got != c.want {
			t.Errorf("%s: life %d is believed, want %d", what, got, c.want)
		}
	}
	v := NewView(1, nil)
	alive(v, 1, 10, 5)
	if es := alive(v, 1, 10, 4); len(es) != 0 || v.Members()[0].Meta.LinkVersion != 5 {
		t.Errorf("older metadata of the same life is taken: %v", es)
	}
	for i := range uint64(2 * MaxFormer) {
		alive(v, i+10, i+10, 0)
		gone(v, i+9)
	}
	if len(v.former) > MaxFormer || len(v.order) > MaxFormer {
		t.Errorf("%d former lives are remembered; at most %d", len(v.former), MaxFormer)
	}
}
