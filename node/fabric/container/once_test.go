package container

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"ttfabric/node/fabric/folder"
	"ttfabric/wire"
)

// unpacked unpacks an archive in the folder dir, as 'docker cp' does, and returns the
// archive's headers by file name.
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

// TestOnce unpacks an archive with settings for the next start of two chips. Each of the
// chips must find its settings at its first start only.
func TestOnce(t *testing.T) {
	dir := t.TempDir()
	one, two, three := wire.FabricNodeID{Chip: 1}, wire.FabricNodeID{Chip: 2}, wire.FabricNodeID{Mesh: 1, Chip: 1}
	want := folder.Once{Record: "/state/record/%2Ftmp%2Fcalls", RecordMiB: 7}
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
		want folder.Once
	}{{one, want}, {one, folder.Once{}}, {three, folder.Once{}}, {two, want}, {two, folder.Once{}}} {
		if got, err := folder.TakeOnce(once, x.chip); err != nil || got != x.want {
			t.Errorf("chip %s: %+v, %v; want %+v", x.chip, got, err, x.want)
		}
	}
	if got, err := folder.TakeOnce("", one); err != nil || got != (folder.Once{}) {
		t.Errorf("no folder: %+v, %v", got, err)
	}
	if err := os.WriteFile(filepath.Join(once, folder.OnceName(one)), []byte(`{"record":`), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := folder.TakeOnce(once, one); err == nil {
		t.Errorf("a damaged file was read as %+v", got)
	}
	if got, err := folder.TakeOnce(once, one); err != nil {
		t.Errorf("a damaged file fails more than one start: %+v, %v", got, err)
	}
}
