package container

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"ttfabric/wire"
)

// TestContainersAreParsed parses lines of 'docker ps'. Lines without a valid chip, and
// incomplete lines, must be left out.
func TestContainersAreParsed(t *testing.T) {
	got := parseContainers("a1\tlab_m0d3_1\trunning\tUp 3 seconds\tlab\tlab\tM0D3\t127.0.0.1:32768->8474/tcp\n" +
		"a2\tlab-m1d0-1\tPaused\tUp 3 seconds (Paused)\tlab\tlab\tM1D0\t9000/tcp, 127.0.0.1:32769->8474/tcp, 127.0.0.1:1->9/tcp\n" +
		"a3\tlab_m0d1_1\texited\tExited (137) 2 seconds ago\tlab\tlab\tM0D1\t\n" +
		"a4\tx\trunning\tUp\tlab\tlab\tnonsense\t\n\nshort\tline\n")
	want := []container{
		{id: "a1", name: "lab_m0d3_1", state: "running", status: "Up 3 seconds", fabric: "lab", project: "lab", chip: wire.FabricNodeID{Chip: 3}, api: "127.0.0.1:32768"},
		{id: "a2", name: "lab-m1d0-1", state: "paused", status: "Up 3 seconds (Paused)", fabric: "lab", project: "lab", chip: wire.FabricNodeID{Mesh: 1}, api: "127.0.0.1:32769"},
		{id: "a3", name: "lab_m0d1_1", state: "exited", status: "Exited (137) 2 seconds ago", fabric: "lab", project: "lab", chip: wire.FabricNodeID{Chip: 1}},
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// TestTheEnginesErrors checks that explain returns advice for known error messages of the
// engine, and the last line of unknown messages.
func TestTheEnginesErrors(t *testing.T) {
	for said, want := range map[string]string{
		"Got permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock": "usermod -aG docker",
		"Cannot connect to the Docker daemon at unix:///x. Is the docker daemon running?":                          "systemctl start docker",
		"Unable to find image 'ttfabric:latest' locally\npull access denied for ttfabric":                          "scripts/image",
		"first\nsomething else": "docker compose: something else",
		"":                      "docker compose: exit status 1",
		"Error response from daemon: a reason\nexit status 1":                       "docker compose: Error response from daemon: a reason",
		"Error response from daemon: network x has active endpoints\nexit status 1": "restart the engine",
	} {
		if got := explain("docker", []string{"compose"}, said, fmt.Errorf("exit status 1")).Error(); !strings.Contains(got, want) {
			t.Errorf("%q became %q; want %q in it", said, got, want)
		}
	}
}

// TestEachFile reads an archive in the format of 'docker cp'. The names that take gets must
// have no slash. Links and files above the limit must be left out.
func TestEachFile(t *testing.T) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range []tar.Header{
		{Name: "record/", Typeflag: tar.TypeDir, Mode: 0o700},
		{Name: "record/../../../etc/a", Size: 3},
		{Name: "record/link", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"},
		{Name: "record/large", Size: 11},
		{Name: "record/b", Size: 10},
	} {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		w.Write(bytes.Repeat([]byte("x"), int(h.Size)))
	}
	w.Close()
	got := map[string]int{}
	take := func(folder, name string, r io.Reader) error {
		b, err := io.ReadAll(r)
		got[folder+" "+name] = len(b)
		return err
	}
	if err := eachFile(bytes.NewReader(b.Bytes()), 10, take); err != nil || fmt.Sprint(got) != "map[etc a:3 record b:10]" {
		t.Errorf("%v, %v", got, err)
	}
	for n := 512; n < b.Len()-1024; n += 512 { // the last 1024 bytes only mark the end of the archive
		if err := eachFile(io.MultiReader(bytes.NewReader(b.Bytes()[:n]), failing{}), 10, take); err == nil {
			t.Errorf("no error for an archive that was cut after %d bytes", n)
		}
	}
}

// failing is a reader that returns an error, as if the docker command had failed.
type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errNotThere }
