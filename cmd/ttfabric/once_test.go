package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ttfabric/node/fabric/folder"
	"ttfabric/wire"
)

// TestNodeOnce starts a chip twice. At the first start, the folder of --once holds the
// settings of a recording. Only the first incarnation must be recorded.
func TestNodeOnce(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	calls := filepath.Join(c.dir, "calls")
	once := filepath.Join(c.dir, "once")
	b, err := json.Marshal(folder.Once{Record: calls, RecordMiB: 1})
	if err == nil {
		err = os.Mkdir(once, 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(once, folder.OnceName(wire.FabricNodeID{})), b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	keys := filepath.Join(c.dir, "state", "keylog") // this folder does not exist yet, as in a new volume
	c.must("pki", "make", "n300", "-d", filepath.Join(c.dir, "pki"))
	for life := range 2 {
		log, err := os.Create(filepath.Join(c.dir, "log"))
		if err != nil {
			t.Fatal(err)
		}
		cmd := c.command("node", "--chip", "M0D0", "--topology", "n300", "--gossip-port", "0", "--token-file", filepath.Join(c.dir, "token"),
			"--once", once, "--transport", "quic", "--pki", filepath.Join(c.dir, "pki"), "--keylog", keys)
		cmd.Stderr = log
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		said := func() string { b, _ := os.ReadFile(log.Name()); return string(b) }
		for end := time.Now().Add(soon); !strings.Contains(said(), "running") && time.Now().Before(end); {
			time.Sleep(10 * time.Millisecond)
		}
		cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil {
			t.Fatalf("start %d: %v: %s", life, err, said())
		}
		if got, _ := filepath.Glob(filepath.Join(calls, "chip-M0D0-*.ttrec")); len(got) != 1 {
			t.Errorf("after start %d the recordings are %v; want one recording, of the first start", life, got)
		}
	}
	if _, err := os.Stat(filepath.Join(keys, "keylog-M0D0.txt")); err != nil {
		t.Error(err)
	}
}

// TestUpFindsContainers runs 'up' while containers of a fabric with the wanted name
// exist. A script acts as the Docker engine. 'up' must not start a fabric of processes
// with the name of the containers' fabric.
func TestUpFindsContainers(t *testing.T) {
	t.Parallel()
	const chip = "id%s\tm0d%s\t%s\tUp\tdefault\t%s\tM0D%s\t127.0.0.1:1->8474/tcp\n"
	for _, x := range []struct {
		name, containers, want string
		code                   int
	}{
		{"no token yet", fmt.Sprintf(chip, "0", "0", "running", "a", "0"), "not ready in time: fabric \"default\": cannot read the API's token", exitNotReady},
		{"made, not started", fmt.Sprintf(chip, "0", "0", "created", "a", "0"), "not ready in time", exitNotReady},
		{"stopped", fmt.Sprintf(chip, "0", "0", "exited", "a", "0"), "cannot read the API's token", exitFailed},
		{"two projects", fmt.Sprintf(chip, "0", "0", "running", "a", "0") + fmt.Sprintf(chip, "1", "1", "running", "b", "1"), "another TTFABRIC_NAME", exitFailed},
		{"none", "", "up in", exitOK},
	} {
		c := newCLI(t)
		script := "#!/bin/sh\ncase $1 in ps) printf '" + x.containers + "' ;; cp) echo 'Could not find the file' >&2; exit 1 ;; esac\n"
		if err := os.WriteFile(filepath.Join(c.dir, "docker"), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
		up := c.command("up", "ring:4", "-d", "--timeout", map[bool]string{true: "1s", false: "1m"}[x.code == exitNotReady])
		up.Env = append(up.Env, "PATH="+c.dir+":"+os.Getenv("PATH"))
		out, _ := up.CombinedOutput()
		if code := up.ProcessState.ExitCode(); code != x.code || !strings.Contains(string(out), x.want) {
			t.Errorf("%s: exit code %d, %s; want %d and %q", x.name, code, out, x.code, x.want)
		}
		if left, _ := filepath.Glob(filepath.Join(c.dir, "ttfabric", "default")); len(left) != 0 && x.code != exitOK {
			t.Errorf("%s: a fabric of processes was made", x.name)
		}
	}
}
