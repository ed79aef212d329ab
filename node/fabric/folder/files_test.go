package folder

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReadFileHasALimit reads a file with as many bytes as the limit, a longer file, and an
// endless device.
func TestReadFileHasALimit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	if b, err := ReadFile(t.Context(), path, 5); err != nil || string(b) != "12345" {
		t.Errorf("%q, %v", b, err)
	}
	if b, err := ReadFile(t.Context(), path, 4); err == nil || b != nil || !strings.Contains(err.Error(), path) {
		t.Errorf("over the limit: %q, %v", b, err)
	}
	if _, err := ReadFile(t.Context(), "/dev/zero", 1<<20); err == nil {
		t.Error("ReadFile of an endless device succeeded")
	}
	if _, err := LoadTopology(t.Context(), "/dev/zero"); err == nil {
		t.Error("LoadTopology of an endless device succeeded")
	}
}

// TestWriteOut writes a file twice, writes through a symbolic link, to a device, and into a
// folder that does not exist.
func TestWriteOut(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	for _, text := range []string{"first", "second"} {
		if err := WriteOut(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b, _ := os.ReadFile(path)
	if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o600 || string(b) != "second" {
		t.Errorf("%q, %v, %v", b, fi.Mode(), err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if err := WriteOut(link, []byte("third")); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(path); string(b) != "third" {
		t.Errorf("through a link: %q", b)
	}
	if err := WriteOut("/dev/null", nil); err != nil {
		t.Error(err)
	}
	if err := WriteOut(filepath.Join(dir, "no", "f"), nil); err == nil || strings.Contains(err.Error(), "tmp:") || !strings.Contains(err.Error(), filepath.Join("no", "f")+":") {
		t.Errorf("no folder: %v", err)
	}
	if ents, _ := os.ReadDir(dir); len(ents) != 2 {
		t.Errorf("left behind: %v", ents)
	}
}

// TestLoadTopologySaysWhatAFolderIs loads a topology whose name is that of a folder. The
// error must say that the name is a folder. The name of a built-in machine must load the
// machine, even if a folder has the same name.
func TestLoadTopologySaysWhatAFolderIs(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("machine", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("round", "round"); err != nil {
		t.Fatal(err)
	}
	for arg, want := range map[string]string{"machine": "machine is a folder", "round": "too many levels", "n3000": "no file and no built-in"} {
		if _, err := LoadTopology(t.Context(), arg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", arg, err, want)
		}
	}
	if err := os.Mkdir("t3000", 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadTopology(t.Context(), "t3000"); err != nil {
		t.Errorf("a folder hides the built-in machine: %v", err)
	}
}
