package topo

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var (
	update = flag.Bool("topo.update", false, "rewrite testdata/golden.txt")
	full   = flag.Bool("topo.full", false, "read hostile files of the greatest length; scripts/check does so")
)

// describe returns the golden text of a machine: its meshes, their planes, the cables between
// meshes, and the machine's hash.
func describe(t *Topology) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n  hash %016x\n", t, t.Hash())
	if t.Layout != "" {
		fmt.Fprintf(&b, "  layout: %s\n", t.Layout)
	}
	for _, m := range t.Meshes {
		fmt.Fprintf(&b, "  mesh %d %s, %d planes\n", m.ID, m.Shape(), t.MeshPlanes(m.ID))
		for _, c := range t.Cables {
			if c.External() && c.A.Node.Mesh == m.ID {
				fmt.Fprintf(&b, "    plane %d: %s %s – %s %s%s\n", c.Plane, c.A.Short(), c.Dir, c.Back, c.B.Short(), map[bool]string{true: ", unused"}[c.Unused])
			}
		}
	}
	return b.String()
}

// TestGolden compares all built-in machines and all descriptors of testdata with
// testdata/golden.txt. The flag -topo.update rewrites this file.
func TestGolden(t *testing.T) {
	var b strings.Builder
	for _, x := range Builders {
		b.WriteString(describe(mustName(t, x.Example)))
	}
	for _, pattern := range []string{"testdata/*.yaml", "testdata/*.textproto"} {
		files, _ := filepath.Glob(pattern)
		for _, f := range files {
			topo, err := load(t, filepath.Base(f))
			if err != nil {
				fmt.Fprintf(&b, "refused: %v\n", err)
				continue
			}
			b.WriteString(describe(topo))
		}
	}
	const path = "testdata/golden.txt"
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got, old := strings.Split(b.String(), "\n"), strings.Split(string(want), "\n")
	for i := range max(len(got), len(old)) {
		if i >= len(got) || i >= len(old) || got[i] != old[i] {
			t.Fatalf("line %d of %s differs:\n got %q\nwant %q", i+1, path, at(got, i), at(old, i))
		}
	}
}

func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "the end"
}
