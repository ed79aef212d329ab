package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ttfabric/node/admin/api"
	"ttfabric/node/fabric"
	"ttfabric/node/fabric/folder"
)

// The method "within" waits until ok returns true. If the time d has passed before, the test fails.
func (c *cli) within(d time.Duration, what string, ok func() bool) {
	c.t.Helper()
	for end := time.Now().Add(d); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			c.t.Fatalf("not within %v: %s", d, what)
		}
	}
}

// sees returns, for each running chip, the number of chips that the chip sees by gossip.
func (c *cli) sees() (out []int) {
	c.t.Helper()
	for _, v := range read[[]api.GossipView](c, "gossip", "show") {
		out = append(out, v.Pools[0].Seen)
	}
	return out
}

func TestGossipIsCutAndEncrypted(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	key := filepath.Join(c.dir, "key")
	c.must("gossip", "keygen", "-f", key, "--bits", "128")
	text, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	if fi, _ := os.Stat(key); fi.Mode().Perm() != 0o600 {
		t.Errorf("the key's file has mode %v", fi.Mode())
	}
	if _, errs, code := c.run("up", "n300", "-d", "--gossip-key", strings.TrimSpace(string(text))); code != exitUsage || !strings.Contains(errs, "not the key") || strings.Contains(errs, string(text[:10])) {
		t.Errorf("a key on the command line: exit code %d: %s", code, errs)
	}
	c.must("up", "n300", "-d", patient, "--gossip-key", key)
	c.fails(exitUsage, "up", "-d", "--gossip-key", "generate")
	kept := filepath.Join(c.dir, "ttfabric", "default", folder.KeysFile)
	if fi, err := os.Stat(kept); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("the keys in the run folder: %v, %v", fi, err)
	}
	c.within(soon, "both chips see each other", func() bool { s := c.sees(); return len(s) == 2 && s[0] == 2 && s[1] == 2 })

	// The keys change while packets move. Afterwards, both chips must still see each other.
	moving := make(chan struct{})
	go func() {
		defer close(moving)
		c.run("traffic", "all-to-all", "--packets", "3000")
	}()
	rows := read[[]fabric.KeyRow](c, "gossip", "keys", "rotate")
	<-moving
	c.within(soon, "both chips see each other with the new key", func() bool { s := c.sees(); return len(s) == 2 && s[0] == 2 && s[1] == 2 })
	if len(rows) != 6 {
		t.Fatalf("%+v", rows)
	}
	for _, r := range rows[4:] {
		if r.Error != "" || len(r.Keys) != 1 || r.Keys[0].Bits != 256 || !r.Keys[0].Primary {
			t.Errorf("%+v", r)
		}
	}
	c.fails(exitFailed, "gossip", "keys", "remove", rows[5].Keys[0].ID)
	c.fails(exitUsage, "gossip", "keys", "use", "nonsense")
	c.must("gossip", "keys", "install", key)
	c.must("chip", "restart", "M0D1") // the chip reads the keys from the run folder
	c.within(soon, "the chip that was started again is seen", func() bool { s := c.sees(); return len(s) == 2 && s[0] == 2 && s[1] == 2 })
	for _, r := range read[[]fabric.KeyRow](c, "gossip", "keys", "list") {
		if len(r.Keys) != 2 || r.Keys[0] != rows[5].Keys[0] {
			t.Errorf("%+v", r)
		}
	}

	// The links work even if the gossip is cut.
	c.must("up", "-d")
	c.must("gossip", "impair", "all", "--delay", "20ms", "--loss", "10%", "--seed", "3")
	c.must("gossip", "cut", "M0D0", "--for", "1h")
	v := read[[]api.GossipView](c, "gossip", "show")
	if !v[0].Alone || v[0].CutEndsInS == 0 || v[1].Alone || v[1].Options != "delay=20ms,loss=10%" || v[1].Seed != 3 {
		t.Errorf("%+v", v)
	}
	c.must("ping", "M0D0", "M0D1", "-c", "1")
	c.must("heal") // ends the cut, and leaves the impairment in force
	if v = read[[]api.GossipView](c, "gossip", "show"); v[0].Alone || v[0].Options == "" {
		t.Errorf("%+v", v)
	}
	c.must("gossip", "heal")
	c.must("partition", "M0D0", "M0D1", "--gossip")
	if v = read[[]api.GossipView](c, "gossip", "show"); len(v[0].Apart)+len(v[1].Apart) == 0 && !v[0].Alone || v[0].Options != "" {
		t.Errorf("%+v", v)
	}
	c.must("heal")
	if n := c.faults(); n["set"] != 2 || n["reset"] != 2 || n["cut"] < 5 || n["restored"] < 5 {
		t.Errorf("events tell of %v", n)
	}
}

func TestChipRemove(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.must("up", "n300", "-d", patient)
	if got := read[struct{ Drained bool }](c, "chip", "remove", "M0D1"); !got.Drained {
		t.Error("an idle chip is not drained")
	}
	c.within(soon, "M0D0 reports that M0D1 said goodbye and was removed", func() bool {
		out := c.must("events", "--follow=false")
		return strings.Contains(out, "peer closed") && strings.Contains(out, "member left M0D1") && strings.Contains(out, "removed M0D1")
	})
	c.fails(exitFailed, "chip", "remove", "M0D1")
	c.fails(exitUsage, "chip", "remove", "M0D0", "--drain", "-1s")
	c.must("chip", "start", "M0D1")
	c.must("up", "-d")
	c.must("ping", "M0D0", "M0D1", "-c", "1")
}

func TestGossipMessages(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.fails(exitFailed, "gossip", "show")
	c.must("up", "n300", "-d", patient)
	for _, x := range []struct {
		args, want string
		code       int
	}{
		{"gossip keys list", "not encrypted", exitFailed},
		{"gossip keygen --bits 100", "128, 192 or 256", exitUsage},
		{"gossip impair all", "--delay", exitUsage},
		{"gossip impair M0D9 --loss 1%", "M0D9", exitUsage},
		{"gossip impair all --loss 101%", "--loss", exitUsage},
		{"gossip impair all --loss 1% --duration 48h", "24h", exitUsage},
		{"gossip cut all", "all chips", exitUsage},
		{"gossip cut M0D0 M0D0", "both sets", exitUsage},
		{"up -d -n other --gossip-key nofile", "keygen", exitUsage},
	} {
		_, errs, code := c.run(strings.Fields(x.args)...)
		if code != x.code || !strings.Contains(errs, x.want) {
			t.Errorf("%s: exit code %d, want %d; stderr %q, want it to say %q", x.args, code, x.code, errs, x.want)
		}
	}
}

// TestLabels brings up a fabric from a topology file that has labels and impairments of
// cables.
func TestLabels(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	file := filepath.Join(c.dir, "lab.yaml")
	text := c.must("generate", "n300")
	first := "    - a: M0D0/8\n      b: M0D1/0\n"
	if !strings.Contains(text, first) {
		t.Fatal(text)
	}
	write := func(note, more string) {
		if err := os.WriteFile(file, []byte(strings.Replace(text, first, first+note, 1)+more), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("      labels: [wan]\n      netem: dleay=1ms\n", "")
	if _, errs, code := c.run("up", file, "-d"); code != exitTopology || !strings.Contains(errs, "dleay") || !strings.Contains(errs, "M0D0/8-M0D1/0") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	write("      labels: [wan]\n", "netem:\n    - label:lan,delay=1ms\n")
	if _, errs, code := c.run("validate", file); code != exitTopology || !strings.Contains(errs, file+": netem") || !strings.Contains(errs, "its labels are wan") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	write("      labels: [wan, far]\n      netem: delay=3ms\n", "netem:\n    - label:wan,loss=1%\n")
	if out := c.must("generate", file); !strings.Contains(out, "labels: [far, wan]") || !strings.Contains(out, "- label:wan,loss=1%") {
		t.Errorf("generated again: %s", out)
	}
	c.must("up", file, "-d", patient, "--netem", "label:far,seed=5,duplicate=1%")
	rows := read[[]api.ImpairmentView](c, "netem", "show")
	if len(rows) != 2 || rows[0].Options != "delay=3ms,loss=1%,duplicate=1%" || len(rows[0].Labels) != 2 || rows[0].Plane != 0 {
		t.Errorf("in force from the start: %+v", rows)
	}
	if out := c.must("netem", "show"); !strings.Contains(out, "far wan") {
		t.Errorf("no labels in %s", out)
	}
	c.must("netem", "set", "label:wan", "--loss", "2%")
	if cut := read[struct{ Links []string }](c, "link", "down", "label:far"); len(cut.Links) != 1 {
		t.Errorf("cut %q", cut.Links)
	}
	c.must("link", "up", "label:far")
	if _, errs, code := c.run("link", "down", "label:near"); code != exitUsage || !strings.Contains(errs, "its labels are far, wan") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	if out := c.must("__complete", "netem", "set", ""); !strings.Contains(out, "label:wan\n") {
		t.Errorf("the shell completes %s", out)
	}
	c.must("chip", "restart", "M0D1")
	if rows = read[[]api.ImpairmentView](c, "netem", "show"); len(rows) != 2 || rows[1].Options != "delay=3ms,loss=1%,duplicate=1%" {
		t.Errorf("after a restart: %+v", rows)
	}
	write("      labels: [wan]\n", "")
	if _, errs, code := c.run("up", file, "-d"); code != exitUsage || !strings.Contains(errs, "other labels") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}
