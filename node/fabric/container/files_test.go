package container

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// TestPlaces checks which folder of this machine gets the recordings in each folder of the
// volume. TestPlaces also checks which lengths of a folder's name and which names of
// recordings are accepted.
func TestPlaces(t *testing.T) {
	m := spec.Spec{Records: spec.Records{Record: "/home/u/all calls", RecordOnce: []string{"/tmp/a$b/%2F", "/tmp/ä"}}}
	want := map[string]string{"record": "/home/u/all calls", "%2Ftmp%2Fa$b%2F%252F": "/tmp/a$b/%2F", "%2Ftmp%2F%C3%A4": "/tmp/ä"}
	if got := places(&m); !reflect.DeepEqual(got, want) {
		t.Errorf("%v; want %v", got, want)
	}
	for folder := range want {
		if strings.Contains(folder, "/") {
			t.Errorf("%s is no name of a folder", folder)
		}
	}
	for n, want := range map[int]string{252: "no container of fabric", 253: "at most 255 characters"} { // the name of the volume's folder is "%2F" and n letters
		_, err := Host{Dir: "lab"}.reader(t.Context(), []wire.FabricNodeID{{}}, nil, spec.Records{Record: "/" + strings.Repeat("x", n)})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a folder of %d characters: %v; want %q", n+1, err, want)
		}
	}
	for name, ok := range map[string]bool{"chip-M0D3-00ff00ff00ff00ff.ttrec": true, ".bashrc": false, "chip-M0D3-00ff00ff00ff00ff.ttrec.sh": false, "x-chip-M0D3-00ff00ff00ff00ff.ttrec": false} {
		if recordingName().MatchString(name) != ok {
			t.Errorf("%s: accepted as a recording: %v", name, !ok)
		}
	}
}

// TestComposeWithSockets checks that the containers mount the folder of the sockets, and open their sockets there for
// the user of the fabric. A compose file for another machine has no such folder.
func TestComposeWithSockets(t *testing.T) {
	m, err := topo.Named("n300")
	if err != nil {
		t.Fatal(err)
	}
	o := DefaultOptions()
	s, err := Settle("lab", m, spec.Default(), o)
	if err != nil {
		t.Fatal(err)
	}
	with, err := (&File{Spec: s, Topology: m, Named: "n300", Options: o, Sockets: "./" + SocketsName, User: 1234}).Compose()
	if err != nil || !strings.Contains(string(with), `volumes: ["state:/state", "./sockets:/sockets"]`) || !strings.Contains(string(with), `"--socket-dir", "/sockets", "--socket-user", "1234"`) {
		t.Errorf("%v\n%s", err, with)
	}
	without, err := (&File{Spec: s, Topology: m, Named: "n300", Options: o}).Compose()
	if err != nil || strings.Contains(string(without), "socket") {
		t.Errorf("%v\n%s", err, without)
	}
	dir := folder.Dir(t.TempDir())
	if err := MakeSockets(dir); err != nil {
		t.Fatal(err)
	}
	if i, err := os.Stat(dir.Path(SocketsName)); err != nil || i.Mode().Perm() != 0o777 || i.Mode()&os.ModeSticky == 0 {
		t.Errorf("%v, %v", i.Mode(), err)
	}
}

// TestAddLines adds the lines that a container has logged to the user's file. The file must
// get each line once, and only complete lines.
func TestAddLines(t *testing.T) {
	to := filepath.Join(t.TempDir(), "keylog-M0D0.txt")
	if err := os.WriteFile(to, []byte("of another fabric\na 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, x := range [][2]string{
		{"a 1\nb 2\n", "of another fabric\na 1\nb 2\n"},
		{"a 1\nb 2\nc 3", "of another fabric\na 1\nb 2\n"}, // the container has not completed the line of c
		{"a 1\nb 2\nc 34\n", "of another fabric\na 1\nb 2\nc 34\n"},
		{"d 5\nd 5\n", "of another fabric\na 1\nb 2\nc 34\nd 5\n"}, // a new volume does not have the older lines
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
		t.Errorf("%v, %v: want a file that only its owner can read", fi.Mode(), err)
	}
	if err := addLines(to, failing{}); !errors.Is(err, errNotThere) {
		t.Errorf("%v, want the reader's error", err)
	}
}
