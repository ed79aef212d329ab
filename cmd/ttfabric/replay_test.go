package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ttfabric/node/chip/record"
	"ttfabric/node/chip/record/replay"
)

// spoiled copies a recording, changes the chip's seed in the copy, and returns the path of
// the copy.
func spoiled(t *testing.T, path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r, err := record.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	h := *r.Header()
	h.Config.Seed++
	out := filepath.Join(t.TempDir(), "spoiled.ttrec")
	f, err := os.Create(out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w, err := record.NewWriter(f, h, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	err = r.EachRaw(func(b []byte) error { return w.Block(append(binary.AppendUvarint(nil, uint64(len(b))), b...)) })
	if err != nil {
		t.Fatal(err)
	}
	if err := w.End(record.EndClosed, ""); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestRecordAndReplay(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	dir := filepath.Join(t.TempDir(), "calls")
	c.must("up", "mesh:1x2", "-d", unhurried, "--record", dir)
	c.must("mem", "write", "M0D1", "1-1:0x10", "recorded", "--via", "M0D0")
	c.must("traffic", "all-to-all", "--packets", "300", "--size", "512")
	c.must("bench", "ring", "--kernels", "--hops", "2", "--sizes", "64", "--rounds", "5") // jobs are recorded, too
	if _, errs, code := c.run("up", "-d", "--record", dir); code != exitUsage || !strings.Contains(errs, "chip restart") {
		t.Errorf("--record of a fabric that runs: exit code %d, %s", code, errs)
	}
	c.must("chip", "restart", "M0D1", "--record-limit", "5", "--record", dir)
	c.must("up", "-d") // waits for the links
	c.must("mem", "write", "M0D1", "1-1:0x10", "again", "--via", "M0D0")
	c.must("traffic", "all-to-all", "--packets", "300", "--size", "512")
	if out := c.must("record", "stop", "M0D1", "M0D0"); strings.Count(out, dir) != 2 {
		t.Errorf("record stop of two chips says %q", out)
	}
	if _, errs, code := c.run("record", "stop", "M0D1"); code != exitFailed || !strings.Contains(errs, "not being recorded") {
		t.Errorf("record stop again: exit code %d, %s", code, errs)
	}
	if out := c.must("events", "--follow=false"); !strings.Contains(out, "recording began") || !strings.Contains(out, "recording ended") {
		t.Errorf("events say %s", out)
	}
	c.must("down")
	files, _ := filepath.Glob(filepath.Join(dir, "*.ttrec"))
	if len(files) != 3 {
		t.Fatalf("recordings: %v, want 3", files)
	}
	var list []replay.Result
	if err := json.Unmarshal([]byte(c.must(append([]string{"replay", "-o", "json"}, files...)...)), &list); err != nil || len(list) != 3 {
		t.Fatalf("%v: %+v", err, list)
	}
	cut := 0
	for _, r := range list {
		if !r.Identical || r.BreaksOff == "" && (r.Calls < 50 || r.Frames < 5) {
			t.Errorf("%+v", r)
		}
		if r.BreaksOff != "" {
			cut++
		}
	}
	if cut != 1 { // the recording of the chip that was killed
		t.Errorf("%d recordings break off, want 1", cut)
	}
	if out := c.must("replay", files[0]); !strings.Contains(out, "identical: ") {
		t.Errorf("replay says %s", out)
	}
	if out := c.must("replay", "--show", files[0]); !strings.Contains(out, "hello session") || !strings.Contains(out, "data session") || !strings.Contains(out, "grants") {
		t.Errorf("replay --show says %.2000s", out)
	}
	if out := c.must("replay", "--events", files[0]); !strings.Contains(out, "link up") {
		t.Errorf("replay --events says %s", out)
	}
	out, _, code := c.run("replay", spoiled(t, files[0]))
	if code != exitAssert || !strings.Contains(out, "differs at call") {
		t.Errorf("another seed: exit code %d, %s", code, out)
	}
	b, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	short, damaged := filepath.Join(t.TempDir(), "short.ttrec"), filepath.Join(t.TempDir(), "damaged.ttrec")
	os.WriteFile(short, b[:len(b)-7], 0o600)
	b[len(b)-7] ^= 0x40
	os.WriteFile(damaged, b, 0o600)
	c.must("replay", short) // this recording ends early, as after a kill
	for _, how := range []string{"", "--show", "--events"} {
		args := append([]string{"replay", damaged}, strings.Fields(how)...)
		if out, errs, code := c.run(args...); code != exitFailed || !strings.Contains(out+errs, "breaks off after") {
			t.Errorf("replay of a damaged file %s: exit code %d, %s%s", how, code, out, errs)
		}
	}
	if _, errs, code := c.run("replay", "replay_test.go"); code != exitFailed || !strings.Contains(errs, "TTFREC") {
		t.Errorf("no recording: exit code %d, %s", code, errs)
	}
}
