package topo

import (
	"os"
	"slices"
	"strings"
	"testing"

	"ttfabric/wire"
)

func masks(t *Topology) (ms []uint16) {
	for _, c := range t.Chips {
		ms = append(ms, c.Harvested)
	}
	slices.Sort(ms)
	return ms
}

// The chips have the masks of the descriptor, in every format that can express them.
func TestHarvestedTensixTiles(t *testing.T) {
	for file, want := range map[string][]uint16{
		"t3k_cluster_desc.yaml":         {513, 513, 513, 513, 528, 544, 576, 640},
		"2x2_n300_cluster_desc.yaml":    {65, 513, 520, 528},
		"wormhole_N300.yaml":            {5, 65},
		"wormhole_N300_board_info.yaml": {33, 65},
		"blackhole_P150.yaml":           {192},
		"6u_cluster_desc.yaml":          make([]uint16, 32),
	} {
		text, err := os.ReadFile("testdata/" + file)
		if err != nil {
			t.Fatal(err)
		}
		m, err := Load(file, text)
		if err != nil {
			t.Fatal(err)
		}
		if got := masks(m); !slices.Equal(got, want) {
			t.Errorf("%s: masks %v, want %v", file, got, want)
		}
		umd, err := m.EncodeClusterDescriptor()
		if err != nil {
			t.Fatal(err)
		}
		for form, b := range map[string][]byte{"ttfabric": m.Encode(), "umd": umd} {
			again, err := Load(form, b)
			if err != nil {
				t.Fatalf("%s as %s: %v", file, form, err)
			}
			for i := range m.Chips {
				if a, b := m.Chips[i], again.Chips[i]; a.Harvested != b.Harvested || a.Node != b.Node {
					t.Errorf("%s as %s: chip %s has mask %d, want %d", file, form, b.Node, b.Harvested, a.Harvested)
				}
			}
			if again.Hash() != m.Hash() {
				t.Errorf("%s as %s: another hash", file, form)
			}
		}
		u, ok := Unpack(m.Pack(text), text)
		if !ok || !slices.Equal(masks(u), want) {
			t.Errorf("%s: the packed form has other masks", file)
		}
	}
}

// The descriptor's key noc_translation says whether a chip translates NoC coordinates, in every
// format. A chip without the key translates NoC coordinates.
func TestNocTranslation(t *testing.T) {
	text, err := os.ReadFile("testdata/t3k_cluster_desc.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		old, with string
		off       int
	}{{"true", "true", 0}, {"noc_translation: true", "noc_translation: false", 8}, {"    noc_translation: true\n", "", 0}} {
		text := []byte(strings.ReplaceAll(string(text), c.old, c.with))
		m, err := Load("t3k.yaml", text)
		if err != nil {
			t.Fatal(err)
		}
		umd, err := m.EncodeClusterDescriptor()
		if err != nil {
			t.Fatal(err)
		}
		forms := []*Topology{m}
		for form, b := range map[string][]byte{"ttfabric": m.Encode(), "umd": umd} {
			again, err := Load(form, b)
			if err != nil {
				t.Fatal(err)
			}
			forms = append(forms, again)
		}
		u, _ := Unpack(m.Pack(text), text)
		for k, m := range append(forms, u) {
			off := 0
			for _, c := range m.Chips {
				if c.Untranslated {
					off++
				}
			}
			if off != c.off {
				t.Errorf("case %d, form %d: %d chips translate no coordinates, want %d", i, k, off, c.off)
			}
		}
	}
}

// A mask has a bit for each Tensix row of a Wormhole and each Tensix column of a Blackhole.
func TestHarvestingMasksRefused(t *testing.T) {
	for _, c := range []struct {
		arch string
		mask string
		ok   bool
	}{{"wormhole_b0", "1023", true}, {"wormhole_b0", "1024", false}, {"blackhole", "16383", true}, {"blackhole", "16384", false}, {"wormhole_b0", "-1", false}, {"wormhole_b0", "x", false}} {
		text := "arch: {0: " + c.arch + "}\nharvesting:\n  0: {noc_translation: true, harvest_mask: " + c.mask + "}\n"
		_, err := Load("f", []byte(text))
		if (err == nil) != c.ok || err != nil && (!strings.Contains(err.Error(), "f:3: chip 0: harvest_mask") || !strings.Contains(err.Error(), c.mask)) {
			t.Errorf("mask %s of %s: %v", c.mask, c.arch, err)
		}
	}
	m, err := Named("n300")
	if err != nil {
		t.Fatal(err)
	}
	m.Chips[0].Harvested = 1024
	if m.Validate() == nil {
		t.Error("a mask with a row that does not exist is valid")
	}
	if MaxHarvested(wire.ArchUnknown) != 0 {
		t.Error("an unknown architecture has rows")
	}
}
