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
	m := Meta{Node: wire.FabricNodeID{Mesh: 1, Chip: 3}, InService: 0x0301, Incarnation: 0x1122334455667788, Started: 1, LinkVersion: 7, Topology: 0xAABBCCDD}
	m.Ports[0], m.Ports[15] = 4000, 65535
	return m
}

// The vector was written by hand from the layout in the package's documentation.
func TestMetaVector(t *testing.T) {
	want := "0100" + "0100" + "0300" + "0103" + "8877665544332211" + "0100000000000000" + "07000000" + "ddccbbaa" +
		"a00f" + "0000000000000000000000000000000000000000000000000000000000" + "ffff"
	want = want[:64+4] + string(bytes.Repeat([]byte("0000"), 14)) + "ffff"
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
	}{{0, 2}, {1, 1}, {3, 4}, {5, 1}} {
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
			t.Fatalf("%x is not what it encodes to", b)
		}
	})
}

// The view against the plainest statement of its rule: of the live claims to a chip, the newest.
func TestViewAgainstNaiveModel(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		v := NewView(5)
		live := map[string]Meta{}
		names := []string{"a", "b", "c", "d", "e", "f"}
		for range 200 {
			name := names[r.IntN(len(names))]
			if r.IntN(3) == 0 {
				v.Gone(name)
				delete(live, name)
			} else {
				m := Meta{Node: wire.FabricNodeID{Chip: wire.ChipID(r.IntN(3))}, Incarnation: wire.Incarnation(name[0]), Started: r.Uint64N(4), Topology: 5}
				if r.IntN(10) == 0 {
					m.Topology = 6
				}
				v.Alive(name, netip.Addr{}, m.Append(nil))
				if m.Topology == 5 {
					live[name] = m
				} else {
					delete(live, name)
				}
			}
			want := map[wire.FabricNodeID]Meta{}
			for _, m := range live {
				if w, ok := want[m.Node]; !ok || m.newer(&w) {
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
	v := NewView(0xAABBCCDD)
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
