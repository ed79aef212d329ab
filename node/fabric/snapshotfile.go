package fabric

import (
	"os"

	"ttfabric/node/fabric/spec"
	"ttfabric/node/snapshot"
)

// ReadSnapshot reads and checks the snapshot in a file.
func ReadSnapshot(path string) (*snapshot.File, error) {
	r, err := os.Open(path)
	if err != nil {
		return nil, spec.AsUsage(err)
	}
	defer r.Close()
	s, err := snapshot.Read(r)
	if err != nil {
		return nil, spec.Usagef("%s: %w", path, err)
	}
	return s, nil
}

// WriteSnapshot writes a snapshot into a file. A snapshot may hold the data of packets and memory, so only
// the owner can read a new file. An existing file keeps its mode. If path is "", WriteSnapshot writes
// nothing.
func WriteSnapshot(path string, s *snapshot.File) error {
	if path == "" {
		return nil
	}
	b, err := s.Encode()
	if err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o600)
}

// DiffSnapshots compares the snapshots in two files, see [snapshot.Diff].
func DiffSnapshots(before, after string) ([]snapshot.Difference, error) {
	a, err := ReadSnapshot(before)
	if err != nil {
		return nil, err
	}
	b, err := ReadSnapshot(after)
	if err != nil {
		return nil, err
	}
	return snapshot.Diff(a, b), nil
}
