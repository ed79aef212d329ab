package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"ttfabric/node/fabric"
)

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
