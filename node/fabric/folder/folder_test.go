package folder

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"ttfabric/membership/keyring"
	"ttfabric/node/fabric/spec"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// TestRelativeRunFolder sets XDG_RUNTIME_DIR to a relative path, then to an absolute path.
// Programs must ignore a relative path (XDG Base Directory Specification, "Basics").
func TestRelativeRunFolder(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", "run")
	if d := Root(); !filepath.IsAbs(d) {
		t.Errorf("the folder of all fabrics is relative: %s", d)
	}
	t.Setenv("XDG_RUNTIME_DIR", "/run/user/7")
	if d := Root(); d != "/run/user/7/ttfabric" {
		t.Errorf("the fabrics' folder is %s", d)
	}
}

// made makes the run folder of a fabric named lab, in a new folder of all fabrics.
func made(t *testing.T, also ...func(Dir) error) (Dir, *topo.Topology, spec.Spec) {
	t.Helper()
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	m, err := topo.Named("2xt3000")
	if err != nil {
		t.Fatal(err)
	}
	want := spec.Default()
	want.Netem, want.StuckAfter, want.PortBase, want.LocalFirst, want.KeepUnreliable = []string{"M0D0-M0D1,delay=1ms"}, spec.Milliseconds(1500*time.Millisecond), 7000, true, true
	s, err := spec.New("lab", m, want)
	if err != nil {
		t.Fatal(err)
	}
	s.Created = s.Created.Round(0).UTC() // the JSON holds neither a monotonic clock nor the local time zone
	d, err := For("lab")
	if err == nil {
		err = MakeRoot()
	}
	if err == nil {
		err = d.Create(m, &s, "the token", also...)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d, m, s
}

// TestRoundTrip makes a run folder and reads back the spec, the topology and the token.
func TestRoundTrip(t *testing.T) {
	whole := true
	d, m, s := made(t, func(d Dir) error {
		whole = d.Has()
		return WriteFile(d.Path("more"), []byte("text"))
	})
	if whole {
		t.Error("the folder counted as complete before all files were written")
	}
	if !d.Has() || d.Gone() || !d.Exists() || d.Name() != "lab" {
		t.Errorf("%s: complete %v, gone %v, exists %v", d, d.Has(), d.Gone(), d.Exists())
	}
	got, err := d.Spec()
	s.Security = spec.Security{Transport: s.Transport, Auth: s.Auth} // the file does not say where the two values come from
	if err != nil || !reflect.DeepEqual(got, s) {
		t.Errorf("%v\n got %+v\nwant %+v", err, got, s)
	}
	back, err := d.Topology()
	if err != nil || back.Hash() != m.Hash() || !back.SameNotes(m) || back.Name != m.Name {
		t.Errorf("the topology came back as %v, %v", back, err)
	}
	if token, err := d.Token(); err != nil || token != "the token" {
		t.Errorf("token %q, %v", token, err)
	}
	if err := d.WriteToken("another"); err != nil {
		t.Error(err)
	}
	if token, _ := d.Token(); token != "another" {
		t.Errorf("token %q", token)
	}
	filepath.WalkDir(string(d), func(path string, e fs.DirEntry, _ error) error {
		if fi, err := e.Info(); err != nil || fi.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: mode %v, %v; want no access for other users", path, fi.Mode(), err)
		}
		return nil
	})
	if err := d.Create(m, &s, "x"); err == nil {
		t.Error("Create succeeded although the folder exists")
	}
	if err := d.Remove(); err != nil || d.Exists() || d.Has() || !d.Gone() {
		t.Errorf("%v: a removed folder exists: %v", err, d.Exists())
	}
	if _, err := d.Spec(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of a removed folder: %v", err)
	}
	failed := errors.New("no certificate")
	if err := d.Create(m, &s, "x", func(Dir) error { return failed }); !errors.Is(err, failed) || d.Has() {
		t.Errorf("%v; the folder counts as complete: %v", err, d.Has())
	}
}

// TestDamagedFolder damages or removes one file of a folder at a time. The error must name
// the file, and must say what the user can do.
func TestDamagedFolder(t *testing.T) {
	d, _, _ := made(t)
	for _, x := range []struct {
		file, text string // the file's new text; "" removes the file
		read       func() error
		want       string
	}{
		{specFile, `{"name": "lab", "ttl": "many"`, func() error { _, err := d.Spec(); return err }, "is damaged"},
		{specFile, `{"ttl": "many"}`, func() error { _, err := d.Spec(); return err }, "'ttfabric down' removes the fabric"},
		{specFile, `[]`, func() error { _, err := d.Spec(); return err }, "is damaged"},
		{topologyFile, "arch: {0: grayskull}", func() error { _, err := d.Topology(); return err }, topologyFile},
		{topologyFile, "", func() error { _, err := d.Topology(); return err }, topologyFile},
		{tokenFile, "", func() error { _, err := d.Token(); return err }, "'ttfabric down' removes the fabric"},
		{PSKFile, "", func() error { _, err := d.PSK(); return err }, "take the fabric down with 'ttfabric down', and bring it up again with 'ttfabric up'"},
		{PSKFile, "short", func() error { _, err := d.PSK(); return err }, "is damaged"},
		{KeysFile, "", func() error { _, err := GossipKeys(d.Path(KeysFile)); return err }, KeysFile},
		{KeysFile, `["x"]`, func() error { _, err := GossipKeys(d.Path(KeysFile)); return err }, "are damaged"},
	} {
		os.Remove(d.Path(x.file))
		if x.text != "" {
			if err := WriteFile(d.Path(x.file), []byte(x.text)); err != nil {
				t.Fatal(err)
			}
		}
		if err := x.read(); err == nil || !strings.Contains(err.Error(), x.want) || !strings.Contains(err.Error(), d.Path(x.file)) {
			t.Errorf("%s with %q: %v; want %q", x.file, x.text, err, x.want)
		}
	}
	if !d.Has() || d.Gone() {
		t.Error("a folder with a damaged mesh.json counts as gone; the chips would therefore end by themselves")
	}
}

// snapshot returns the path, mode, time of the last change, and content of each file below dir.
func snapshot(t *testing.T, dir string) (out []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := e.Info()
		if err != nil {
			return err
		}
		var b []byte
		if fi.Mode().IsRegular() {
			b, err = os.ReadFile(path)
		}
		out = append(out, fmt.Sprintf("%s %v %v %q", path, fi.Mode(), fi.ModTime().UnixNano(), b))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestReadingChangesNothing calls every function that reads a run folder. No content, mode
// or time of a file may change.
func TestReadingChangesNothing(t *testing.T) {
	key, err := keyring.New(KeyBytes)
	if err != nil {
		t.Fatal(err)
	}
	d, m, _ := made(t, WriteGossipKeys([][]byte{key}), WritePSK(key))
	n := m.Nodes()[1]
	if err := d.WriteChip(Chip{Chip: n, PID: 1, Started: 1}); err != nil { // process 1 did not start at tick 1, so that the chip is not alive
		t.Fatal(err)
	}
	for name, text := range map[string]string{"chip-M0D7.json": "damaged", "chip-M0D1.log": "first\nttfabric: last words\n", "chip-M0D2.json.77.tmp": "left by a crash"} {
		if err := os.WriteFile(d.Path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	root := filepath.Dir(string(d))
	long := time.Now().Add(-time.Hour)
	for _, dir := range []string{string(d), root} {
		if err := errors.Join(os.Chtimes(dir, long, long), os.Chmod(dir, 0o500)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.Chmod(dir, 0o700) })
	}
	before := snapshot(t, root)
	s, err := d.Spec()
	_, terr := d.Topology()
	_, kerr := d.Token()
	psk, perr := d.PSK()
	keys, gerr := GossipKeys(d.KeysPath(&s))
	if err := errors.Join(err, terr, kerr, perr, gerr); err != nil || string(psk) != string(key) || len(keys) != 1 || string(keys[0]) != string(key) {
		t.Errorf("%v; keys %x and %x, want %x", err, psk, keys, key)
	}
	if cs := d.ChipFiles(); len(cs) != 1 || cs[0].Chip != n || cs[0].Alive() {
		t.Errorf("chips: %+v", cs)
	}
	if words := d.LastWords(n); words != "last words" {
		t.Errorf("last words %q", words)
	}
	if words := d.LastWords(m.Nodes()[2]); words != "" {
		t.Errorf("last words of a chip without a log: %q", words)
	}
	if c := d.ArchiveConfig(&s, n); c.Dir != d.Path("archive") || c.Name != "M0D1" || d.PKI(&s) != d.Path("pki") {
		t.Errorf("archive %+v, certificates %s", c, d.PKI(&s))
	}
	if all, err := All(); err != nil || !slices.Equal(all, []Dir{d}) || !d.Has() || d.Gone() || !d.Exists() {
		t.Errorf("all: %v", all)
	}
	if after := snapshot(t, root); !slices.Equal(before, after) {
		t.Errorf("before:\n%s\nafter:\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
	}
}

// TestAll lists the run folders of all fabrics. The list must not contain hidden folders,
// which commands still write.
func TestAll(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	if all, err := All(); err != nil || len(all) != 0 {
		t.Errorf("without a folder of all fabrics: %v", all)
	}
	if err := MakeRoot(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"b", ".new-123", "a.b", ".x"} {
		if err := os.Mkdir(filepath.Join(Root(), name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	var names []string
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range all {
		names = append(names, d.Name())
	}
	if !slices.Equal(names, []string{"a.b", "b"}) {
		t.Errorf("fabrics %v", names)
	}
	for _, bad := range []string{"", "..", "a/b", ".new-1"} {
		if d, err := For(bad); err == nil {
			t.Errorf("a fabric named %q would be in %s", bad, d)
		}
	}
}

// TestMakeRoot calls MakeRoot while the folder of all fabrics is a symbolic link, which
// another user may have made.
func TestMakeRoot(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", dir)
	if err := os.Symlink(t.TempDir(), filepath.Join(dir, "ttfabric")); err != nil {
		t.Fatal(err)
	}
	if err := MakeRoot(); err == nil || !strings.Contains(err.Error(), "XDG_RUNTIME_DIR") {
		t.Errorf("MakeRoot with a symbolic link that another user may have made: %v", err)
	}
}

// TestForeignFolders calls For, All and Check for folders that other users could have written.
func TestForeignFolders(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", dir)
	root := filepath.Join(dir, "ttfabric")
	lab := filepath.Join(root, "lab")
	if err := os.MkdirAll(lab, 0o700); err != nil {
		t.Fatal(err)
	}
	refused := func(what, want string, all bool) {
		t.Helper()
		if _, err := For("lab"); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "XDG_RUNTIME_DIR") {
			t.Errorf("For, %s: %v", what, err)
		}
		if ds, err := All(); len(ds) != 0 || all && err == nil {
			t.Errorf("All, %s: %v, %v", what, ds, err)
		}
	}
	if _, err := For("lab"); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		path string
		all  bool
	}{{root, true}, {lab, false}} {
		for _, mode := range []os.FileMode{0o777, 0o720, 0o702} {
			if err := os.Chmod(x.path, mode); err != nil {
				t.Fatal(err)
			}
			refused(fmt.Sprintf("%s with mode %o", x.path, mode), "chmod 700", x.all)
		}
		if err := os.Chmod(x.path, 0o755); err != nil {
			t.Fatal(err)
		}
		if os.Getuid() == 0 {
			if err := os.Chown(x.path, 12345, -1); err != nil {
				t.Fatal(err)
			}
			refused(x.path+" of another user", "uid 12345", x.all)
			if err := os.Chown(x.path, 0, -1); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.Remove(lab); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dir, lab); err != nil {
		t.Fatal(err)
	}
	refused("a link to a folder", "is no folder", false)
}

// TestLinksInTheFolder puts symbolic links in the place of the folder's files. No function may read
// or write through a link.
func TestLinksInTheFolder(t *testing.T) {
	d := Dir(t.TempDir())
	victim := filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	n := wire.FabricNodeID{}
	for _, path := range []string{d.Path(specFile), d.Path(topologyFile), d.Path(tokenFile), d.Path(PSKFile), d.ChipPath(n, ".log"),
		d.ChipPath(n, ".json"), fmt.Sprintf("%s.%d.tmp", d.Path(tokenFile), os.Getpid())} {
		if err := os.Symlink(victim, path); err != nil {
			t.Fatal(err)
		}
	}
	_, spec := d.Spec()
	_, topology := d.Topology()
	_, token := d.Token()
	_, psk := d.PSK()
	for what, err := range map[string]error{"Spec": spec, "Topology": topology, "Token": token, "PSK": psk} {
		if !errors.Is(err, syscall.ELOOP) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if cs := d.ChipFiles(); len(cs) != 0 || d.LastWords(n) != "" {
		t.Errorf("chips %v, last words %q", cs, d.LastWords(n))
	}
	if err := d.WriteToken("new"); err != nil {
		t.Error(err)
	}
	if b, _ := os.ReadFile(victim); string(b) != "{}" {
		t.Errorf("the file behind the links now holds %q", b)
	}
	if got, err := d.Token(); got != "new" || err != nil {
		t.Errorf("token %q, %v", got, err)
	}
}

// TestChipFiles writes the files of four chips in any order and removes one file. ChipFiles
// must return the other three chips in order.
func TestChipFiles(t *testing.T) {
	d, _, _ := made(t)
	self := Chip{PID: os.Getpid(), Started: StartTicks(os.Getpid()), API: "127.0.0.1:1", Gossip: "127.0.0.1:2", Exits: "127.0.0.1:3"}
	for _, n := range []wire.FabricNodeID{{Mesh: 1}, {Chip: 3}, {Chip: 1}, {Mesh: 1, Chip: 2}} {
		c := self
		c.Chip = n
		if err := d.WriteChip(c); err != nil {
			t.Fatal(err)
		}
	}
	d.RemoveChip(wire.FabricNodeID{Chip: 3})
	var names []string
	for _, c := range d.ChipFiles() {
		names = append(names, c.Chip.String())
		want := self
		if want.Chip = c.Chip; c != want || !c.Alive() {
			t.Errorf("%+v, alive %v; want %+v", c, c.Alive(), want)
		}
		if c.Started++; c.Alive() {
			t.Error("a later process with the same id counts as the chip's process")
		}
	}
	if got := strings.Join(names, " "); got != "M0D1 M1D0 M1D2" {
		t.Errorf("chips %s", got)
	}
	for want, c := range map[string]Chip{"process 7": {PID: 7}, "container lab-m0d0": {Container: "id", Name: "lab-m0d0"}, "the process with its API at h:1": {API: "h:1"}} {
		if got := c.Where(); got != want {
			t.Errorf("%+v is %s, want %s", c, got, want)
		}
	}
}

// TestLock takes a lock that is held. The second Lock must wait until its context ends, or
// until the first holder unlocks.
func TestLock(t *testing.T) {
	dir := t.TempDir()
	unlock, err := Lock(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 3*lockPoll)
	defer cancel()
	var e *spec.Error
	if _, err := Lock(short, dir); !errors.As(err, &e) || e.Kind != spec.NotReady || !strings.Contains(err.Error(), dir) {
		t.Errorf("Lock of a folder that is locked: %v", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := Lock(ended, dir); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	got := make(chan error, 1)
	go func() {
		again, err := Lock(t.Context(), dir)
		if err == nil {
			again()
		}
		got <- err
	}()
	select {
	case err := <-got:
		t.Fatalf("a second Lock succeeded before unlock: %v", err)
	case <-time.After(3 * lockPoll):
	}
	unlock()
	if err := <-got; err != nil {
		t.Error(err)
	}
	if _, err := Lock(t.Context(), filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of no folder: %v", err)
	}
}

// TestReadKeys reads files as 'gossip keygen' and a fabric write them. ReadKeys must refuse
// a key in place of a file's name.
func TestReadKeys(t *testing.T) {
	a, _ := keyring.New(16)
	b, _ := keyring.New(32)
	dir := t.TempDir()
	one, two, long := filepath.Join(dir, "one"), filepath.Join(dir, "two"), filepath.Join(dir, "long")
	for path, text := range map[string][]byte{one: PSKText(a), two: KeyList([][]byte{a, b}), long: make([]byte, maxKeyFile+1)} {
		if err := WriteFile(path, text); err != nil {
			t.Fatal(err)
		}
	}
	read := func(arg, in string) ([][]byte, error) {
		return ReadKeys(t.Context(), strings.NewReader(in), "--gossip-key", arg)
	}
	for _, x := range []struct {
		arg, in string
		want    [][]byte
	}{{one, "", [][]byte{a}}, {two, "", [][]byte{a, b}}, {"-", keyring.Text(b), [][]byte{b}}} {
		if got, err := read(x.arg, x.in); err != nil || !reflect.DeepEqual(got, x.want) {
			t.Errorf("%s: %x, %v; want %x", x.arg, got, err, x.want)
		}
	}
	if got, err := read("generate", ""); err != nil || len(got) != 1 || len(got[0]) != KeyBytes {
		t.Errorf("generate: %x, %v", got, err)
	}
	for arg, want := range map[string]string{keyring.Text(b): "not the key", filepath.Join(dir, "none"): "keygen", long: "too long", "-": "--gossip-key -"} {
		_, err := read(arg, "nonsense")
		var e *spec.Error
		if !errors.As(err, &e) || e.Kind != spec.Usage || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), keyring.Text(b)) {
			t.Errorf("%s: %v; want %q", arg, err, want)
		}
	}
	if _, err := ReadKey(t.Context(), nil, "--psk-file", two); err == nil || !strings.Contains(err.Error(), "want a file with one key") {
		t.Errorf("two keys in place of one: %v", err)
	}
}

// TestReadToken reads the token from a file, and from the environment variable.
func TestReadToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	if err := WriteFile(path, []byte("of a file\n")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TTFABRIC_TOKEN", "of the environment")
	for file, want := range map[string]string{path: "of a file", "": "of the environment"} {
		if got, err := ReadToken(file); err != nil || got != want {
			t.Errorf("%q: %q, %v", file, got, err)
		}
	}
	t.Setenv("TTFABRIC_TOKEN", "")
	for _, file := range []string{"", path + "x"} {
		if _, err := ReadToken(file); err == nil || !strings.Contains(err.Error(), "--token-file") {
			t.Errorf("%q: %v", file, err)
		}
	}
}
