package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMemImage saves the memory of a chip, and restores it on the same chip and on another one.
func TestMemImage(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	file := filepath.Join(t.TempDir(), "chip.mem")
	c.must("up", "n300", "-d", unhurried)
	c.must("mem", "write", "M0D0", "1-2:0x1000", "hello")
	c.must("mem", "write", "M0D0", "0-0:0x40000000", "dram")
	c.must("mem", "save", "M0D0", file)
	c.must("mem", "write", "M0D0", "1-2:0x1000", "HELLO")
	c.must("mem", "write", "M0D1", "2-2:0", "gone")
	for _, chip := range []string{"M0D0", "M0D1"} {
		if _, errs, code := c.run("mem", "restore", chip, file); code != 0 || !strings.Contains(errs, "9 bytes of the memory of chip "+chip+" read from "+file) {
			t.Errorf("exit code %d: %s", code, errs)
		}
		for tile, want := range map[string]string{"1-2:0x1000": "68 65 6c 6c 6f", "0-0:0x40000000": "64 72 61 6d 00", "2-2:0": "00 00 00 00 00"} {
			if out := c.must("mem", "read", chip, tile, "5"); !strings.Contains(out, want) {
				t.Errorf("%s at %s: %s; want %s", chip, tile, out, want)
			}
		}
	}
	b, err := os.ReadFile(file)
	if err != nil || len(b) > 200 {
		t.Errorf("the image has %d bytes for 9 bytes of memory: %v", len(b), err)
	}
	c.must("mem", "write", "M0D0", "1-2:0x1000", "keep!")
	for _, bad := range [][]byte{nil, b[:len(b)-4], append(b[:40:40], b[41:]...), []byte("arch: wormhole_b0\n")} {
		if err := os.WriteFile(file, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, errs, code := c.run("mem", "restore", "M0D0", file); code != 1 || !strings.Contains(errs, "is no memory image, or is damaged") {
			t.Errorf("%d bytes: exit code %d: %s", len(bad), code, errs)
		}
	}
	if out := c.must("mem", "read", "M0D0", "1-2:0x1000", "5"); !strings.Contains(out, "keep!") {
		t.Errorf("a damaged image changed the memory: %s", out)
	}
}
