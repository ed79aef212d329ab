package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ttfabric/wire/capture/wireshark"
)

func TestWiresharkInstall(t *testing.T) {
	c := newCLI(t)
	home := t.TempDir()
	var steps []wireshark.Step
	look := func(args ...string) {
		t.Helper()
		steps = nil
		if err := json.Unmarshal([]byte(c.must(append(args, "--dir", home, "-o", "json")...)), &steps); err != nil || len(steps) < 7 {
			t.Fatalf("%v: %d steps", err, len(steps))
		}
	}
	look("wireshark", "install", "--dry-run")
	if left, _ := os.ReadDir(home); len(left) > 0 {
		t.Errorf("--dry-run wrote %v", left)
	}
	look("wireshark", "install")
	plugin, err := os.ReadFile(filepath.Join(home, ".config/wireshark/extcap/ttfabric"))
	exe, _ := os.Executable()
	if err != nil || !strings.Contains(string(plugin), "exec '"+exe+"' extcap") {
		t.Errorf("%v: the plugin does not call this program by its path: %s", err, plugin)
	}
	var shown shownWireshark
	if err := json.Unmarshal([]byte(c.must("wireshark", "show", "--dir", home, "-o", "json")), &shown); err != nil {
		t.Fatal(err)
	}
	for _, s := range shown.Files {
		if s.State != wireshark.Current {
			t.Errorf("%s is %s after install", s.Path, s.State)
		}
	}

	if err := os.WriteFile(filepath.Join(home, ".local/lib/wireshark/plugins/ttfabric.lua"), []byte("-- mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, said, code := c.run("wireshark", "install", "--dir", home); code != exitFailed || !strings.Contains(said, "ttfabric.lua") || !strings.Contains(said, "--force") {
		t.Errorf("exit code %d: %s; want %d, the file and the way out", code, said, exitFailed)
	}
	look("wireshark", "install", "--force")
	look("wireshark", "install", "--uninstall")
	if left, _ := os.ReadDir(home); len(left) > 0 {
		t.Errorf("--uninstall left %v", left)
	}
	if _, said, code := c.run("wireshark", "install", "--dir", "/no/such/folder"); code != exitUsage || !strings.Contains(said, "/no/such/folder") {
		t.Errorf("exit code %d: %s", code, said)
	}
}
