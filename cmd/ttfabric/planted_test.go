package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ttfabric/node/fabric/folder"
)

// TestPlantedFolder runs commands while other users can write to the folder of all fabrics. A file
// there names a process of the user as a chip. Every command refuses the folder, and the process
// continues.
func TestPlantedFolder(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.must("up", "n300", "-d")
	defer c.run("down")
	dir := folder.Dir(filepath.Join(c.dir, "ttfabric", "default"))
	victim := exec.Command("sleep", "600")
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		victim.Process.Kill()
		victim.Wait()
	}()
	file := filepath.Join(string(dir), "chip-M0D0.json")
	genuine, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var chip map[string]any
	if err := json.Unmarshal(genuine, &chip); err != nil {
		t.Fatal(err)
	}
	chip["pid"], chip["started_ticks"] = victim.Process.Pid, folder.StartTicks(victim.Process.Pid)
	planted, err := json.Marshal(chip)
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Dir(string(dir))
	plant := func(b []byte, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(root, mode); err != nil {
			t.Fatal(err)
		}
	}
	plant(planted, 0o777)
	for _, args := range [][]string{{"down"}, {"down", "--all"}, {"ls"}, {"chip", "kill", "M0D0"}, {"chip", "pause", "M0D0"}, {"chip", "start", "M0D1"},
		{"chip", "restart", "M0D0"}, {"chip", "remove", "M0D0"}, {"up", "n300", "-d"}, {"inspect"}, {"ping", "M0D0", "M0D1"}, {"link", "down", "M0D0-M0D1"}} {
		if _, errs, code := c.run(args...); code == 0 || !strings.Contains(errs, "chmod 700") {
			t.Errorf("%v: exit code %d: %s", args, code, errs)
		}
	}
	if folder.StartTicks(victim.Process.Pid) == 0 {
		t.Error("a command ended the process that the planted file names")
	}
	plant(genuine, 0o700)
	c.must("ping", "M0D0", "M0D1")
	c.must("down")
}
