package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"ttfabric/node/fabric/spec"
	"ttfabric/wire"
)

// unpacked are the files of an archive as 'docker cp' lays them out below a folder, and what it says of each.
func unpacked(t *testing.T, dir string, archive []byte) (headers map[string]*tar.Header) {
	t.Helper()
	headers = map[string]*tar.Header{}
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		if err == io.EOF {
			return headers
		}
		if err == nil && h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(filepath.Join(dir, h.Name), h.FileInfo().Mode())
		} else if err == nil {
			var b []byte
			if b, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(filepath.Join(dir, h.Name), b, h.FileInfo().Mode())
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		headers[h.Name] = h
	}
}

// TestOnce takes what a container is told of its next start from the archive
// to the chip: once, by the chip alone that it is for.
func TestOnce(t *testing.T) {
	dir := t.TempDir()
	one, two, three := wire.FabricNodeID{Chip: 1}, wire.FabricNodeID{Chip: 2}, wire.FabricNodeID{Mesh: 1, Chip: 1}
	want := onceSettings{"/state/record/%2Ftmp%2Fcalls", 7}
	b, err := onceArchive([]wire.FabricNodeID{one, two}, want)
	if err != nil {
		t.Fatal(err)
	}
	for name, h := range unpacked(t, dir, b) {
		if h.Uid != secretsUser || h.Gid != secretsUser || h.FileInfo().Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: owner %d:%d, mode %v; want the image's user, and nobody else", name, h.Uid, h.Gid, h.FileInfo().Mode())
		}
	}
	once := filepath.Join(dir, filepath.Base(stateOnce))
	for _, x := range []struct {
		chip wire.FabricNodeID
		want onceSettings
	}{{one, want}, {one, onceSettings{}}, {three, onceSettings{}}, {two, want}, {two, onceSettings{}}} {
		if got, err := takeOnce(once, x.chip); err != nil || got != x.want {
			t.Errorf("chip %s: %+v, %v; want %+v", x.chip, got, err, x.want)
		}
	}
	if got, err := takeOnce("", one); err != nil || got != (onceSettings{}) {
		t.Errorf("no folder: %+v, %v", got, err)
	}
	if err := os.WriteFile(filepath.Join(once, onceName(one)), []byte(`{"record":`), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := takeOnce(once, one); err == nil {
		t.Errorf("damaged: taken as %+v", got)
	}
	if got, err := takeOnce(once, one); err != nil {
		t.Errorf("one that is damaged stops more than one start: %+v, %v", got, err)
	}
}

// TestNodeOnce starts a chip that finds its settings, and is recorded for one life.
func TestNodeOnce(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	calls := filepath.Join(c.dir, "calls")
	b, err := onceArchive([]wire.FabricNodeID{{}}, onceSettings{calls, 1})
	if err != nil {
		t.Fatal(err)
	}
	unpacked(t, c.dir, b)
	keys := filepath.Join(c.dir, "state", "keylog") // a volume that is new has no such folder
	c.must("pki", "make", "n300", "-d", filepath.Join(c.dir, "pki"))
	for life := range 2 {
		log, err := os.Create(filepath.Join(c.dir, "log"))
		if err != nil {
			t.Fatal(err)
		}
		cmd := c.command("node", "--chip", "M0D0", "--topology", "n300", "--gossip-port", "0", "--token-file", filepath.Join(c.dir, "token"),
			"--once", filepath.Join(c.dir, "once"), "--transport", "quic", "--pki", filepath.Join(c.dir, "pki"), "--keylog", keys)
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
			t.Fatalf("life %d: %v: %s", life, err, said())
		}
		if got, _ := filepath.Glob(filepath.Join(calls, "chip-M0D0-*.ttrec")); len(got) != 1 {
			t.Errorf("after life %d the recordings are %v; want that of the first", life, got)
		}
	}
	if _, err := os.Stat(filepath.Join(keys, "keylog-M0D0.txt")); err != nil {
		t.Error(err)
	}
}

// TestUpFindsContainers has 'up' find containers that were just started, by an engine that is a script:
// whatever they say, it starts no fabric of processes that has their name.
func TestUpFindsContainers(t *testing.T) {
	t.Parallel()
	const chip = "id%s\tm0d%s\t%s\tUp\tdefault\t%s\tM0D%s\t127.0.0.1:1->8474/tcp\n"
	for _, x := range []struct {
		name, containers, want string
		code                   int
	}{
		{"no token yet", fmt.Sprintf(chip, "0", "0", "running", "a", "0"), "not ready in time: fabric \"default\": the API's token is not", exitNotReady},
		{"made, not started", fmt.Sprintf(chip, "0", "0", "created", "a", "0"), "not ready in time", exitNotReady},
		{"stopped", fmt.Sprintf(chip, "0", "0", "exited", "a", "0"), "the API's token is not", exitFailed},
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

// TestPlaces is where on this machine the recordings of a volume go: what a
// container calls its folders chooses among them, and makes no new ones.
func TestPlaces(t *testing.T) {
	m := spec.Spec{Record: "/home/u/all calls", RecordOnce: []string{"/tmp/a$b/%2F", "/tmp/ä"}}
	want := map[string]string{"record": "/home/u/all calls", "%2Ftmp%2Fa$b%2F%252F": "/tmp/a$b/%2F", "%2Ftmp%2F%C3%A4": "/tmp/ä"}
	if got := m.places(); !reflect.DeepEqual(got, want) {
		t.Errorf("%v; want %v", got, want)
	}
	for folder := range want {
		if strings.Contains(folder, "/") {
			t.Errorf("%s is no name of a folder", folder)
		}
	}
	for n, want := range map[int]string{252: "no container of fabric", 253: "at most 255 characters"} { // "%2F" and so many
		_, err := containers{dir: "lab"}.reader(t.Context(), []wire.FabricNodeID{{}}, nil, recordFlags{dir: "/" + strings.Repeat("x", n)})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a folder of %d characters: %v; want %q", n+1, err, want)
		}
	}
	for name, ok := range map[string]bool{"chip-M0D3-00ff00ff00ff00ff.ttrec": true, ".bashrc": false, "chip-M0D3-00ff00ff00ff00ff.ttrec.sh": false, "x-chip-M0D3-00ff00ff00ff00ff.ttrec": false} {
		if recordingName.MatchString(name) != ok {
			t.Errorf("%s: taken as a recording is %v", name, !ok)
		}
	}
}

// TestAddLines adds what a container has logged to what is in the user's folder: each line once, and whole.
func TestAddLines(t *testing.T) {
	to := filepath.Join(t.TempDir(), "keylog-M0D0.txt")
	if err := os.WriteFile(to, []byte("of another fabric\na 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, x := range [][2]string{
		{"a 1\nb 2\n", "of another fabric\na 1\nb 2\n"},
		{"a 1\nb 2\nc 3", "of another fabric\na 1\nb 2\n"}, // c's line is being written
		{"a 1\nb 2\nc 34\n", "of another fabric\na 1\nb 2\nc 34\n"},
		{"d 5\nd 5\n", "of another fabric\na 1\nb 2\nc 34\nd 5\n"}, // of a volume that is new
		{"", "of another fabric\na 1\nb 2\nc 34\nd 5\n"},
	} {
		if err := addLines(to, strings.NewReader(x[0])); err != nil {
			t.Fatal(err)
		}
		if b, _ := os.ReadFile(to); string(b) != x[1] {
			t.Errorf("after %q: %q; want %q", x[0], b, x[1])
		}
	}
	if fi, err := os.Stat(to); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v: want a file for its owner alone", fi.Mode(), err)
	}
	if err := addLines(to, failing{}); !errors.Is(err, errNotThere) {
		t.Errorf("%v of a reader that failed", err)
	}
}
