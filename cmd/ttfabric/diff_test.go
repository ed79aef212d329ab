package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ttfabric/node/fabric"
	"ttfabric/node/output"
)

// TestCablingOfALiveFabric exports the live cabling of a running fabric, and the difference to the declared cabling, before
// and after a cut. The files must load as topologies.
func TestCablingOfALiveFabric(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.must("up", "t3000", "-d", patient)
	c.intact()
	live, gone := filepath.Join(c.dir, "live.yaml"), filepath.Join(c.dir, "gone.yaml")
	_, errs, code := c.run("cabling", "-f", live)
	if code != exitOK || !strings.Contains(errs, "Wrote "+live) || !strings.Contains(errs, "20 of 20 declared cables are live.") {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	if a, b := read[output.Topology](c, "validate", live), read[output.Topology](c, "validate", "t3000"); a.Hash != b.Hash {
		t.Errorf("the live cabling has the hash %s, the declared cabling %s", a.Hash, b.Hash)
	}
	c.must("link", "down", "M0D5:1")
	c.within(soon, "the chips notice the cut", func() bool { return len(read[fabric.Cabling](c, "cabling").Missing) == 1 })
	if v := read[output.Topology](c, "validate", c.saved(live, c.must("cabling"))); v.Cables != 19 || v.Chips != 8 {
		t.Errorf("after the cut, the live cabling is %+v", v)
	}
	c.must("cabling", "--missing", "-f", gone)
	if v := read[output.Topology](c, "validate", gone); v.Cables != 1 || v.Chips != 8 {
		t.Errorf("the missing cabling is %+v", v)
	}
	if text := c.must("cabling", "--found", "--expected", gone); strings.Count(text, "{chip:") != 2*19 {
		t.Errorf("beside the missing cable, training found\n%s", text)
	}
	c.must("chip", "kill", "M0D7")
	if text, errs, _ := c.run("cabling"); strings.Contains(text, "\n  7:") == strings.Contains(text, "M0D7 is not running") || !strings.Contains(errs, "chip M0D7 is not running") {
		t.Errorf("without M0D7, stderr %s\n%s", errs, text)
	}
	c.fails(exitUsage, "cabling", "--mesh", "1")
	c.fails(exitUsage, "cabling", "--mesh", "-1")
	c.fails(exitUsage, "cabling", "--missing", "--found")
	c.fails(exitTopology, "cabling", "--expected", "nothing.yaml")
}

// saved writes a text to a file, and returns the file's path.
func (c *cli) saved(path, text string) string {
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
	return path
}

// TestDiffOfAFabric runs 'inspect --diff' on a running fabric.
func TestDiffOfAFabric(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.must("up", "n300", "-d", patient)
	c.intact()
	file := filepath.Join(c.dir, "factory.yaml")
	os.WriteFile(file, []byte(c.must("generate", "n300")), 0o600)
	if out := c.must("inspect", "--diff", "--expected", file); !strings.HasPrefix(out, "all 2 cables are up") {
		t.Error(out)
	}
	c.must("link", "down", "M0D0:8")
	c.must("traffic", "all-to-all", "--packets", "1000") // with traffic, the link notices the cut
	out := c.must("inspect", "--diff")
	for _, want := range []string{"Carried by", "channel 9", "Declared", "1 of 2 cables are up"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	d := read[fabric.LinkDiff](c, "inspect", "--diff")
	if len(d.Downed) != 2 || d.Downed[0].SinceS == nil || d.Downed[0].By == nil || len(d.Planes) != 2 || d.Planes[0].Live != 1 || d.Planes[0].Usable != 2 {
		t.Errorf("%+v", d)
	}
	c.fails(exitUsage, "inspect", "--expected", file)
	c.fails(exitTopology, "inspect", "--diff", "--expected", "nothing.yaml")
}
