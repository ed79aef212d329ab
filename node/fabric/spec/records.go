package spec

import (
	"fmt"
	"os"
	"path/filepath"
)

// Limits of what chips write down, in MiB.
const (
	DefaultRecordMiB = 256     // of one recording
	MaxRecordMiB     = 1 << 20 // of one recording, at most
	MaxArchiveMiB    = 1 << 20 // of one chip's part of the archive, at most
)

// CheckRecording refuses a limit that cannot be, and makes the name of the
// recordings' folder absolute: the processes of the chips may run elsewhere.
func (r *Records) CheckRecording() (err error) {
	if r.RecordMiB < 1 || r.RecordMiB > MaxRecordMiB {
		return Usagef("--record-limit %d: want 1 to %d MiB", r.RecordMiB, MaxRecordMiB)
	}
	if r.Record != "" {
		r.Record, err = filepath.Abs(r.Record)
	}
	return err
}

// RecordArguments are the options of a chip's process that say where it is recorded.
func (r *Records) RecordArguments() []string {
	if r.Record == "" {
		return nil
	}
	return []string{"--record", r.Record, "--record-limit", fmt.Sprint(r.RecordMiB)}
}

// places makes the names of folders absolute, and makes the folder of the archive.
func (s *Spec) places() error {
	if err := s.CheckRecording(); err != nil {
		return err
	}
	for _, path := range []*string{&s.PKI, &s.KeyLog} {
		if *path == "" {
			continue
		}
		abs, err := filepath.Abs(*path)
		if err != nil {
			return err
		}
		*path = abs
	}
	if s.KeyLog != "" {
		if fi, err := os.Stat(s.KeyLog); err != nil || !fi.IsDir() {
			return Usagef("--keylog %s: want a folder that is there", s.KeyLog)
		}
	}
	if s.ArchiveMiB < 0 || s.ArchiveMiB > MaxArchiveMiB {
		return Usagef("--archive-limit %d: want 1 to %d MiB, or 0 for the default", s.ArchiveMiB, MaxArchiveMiB)
	}
	if s.Archive == "" {
		return nil
	}
	path, err := filepath.Abs(filepath.Join(s.Archive, s.Name))
	if err == nil {
		err = os.MkdirAll(path, 0o700)
	}
	if err != nil {
		return Usagef("--archive %q: %w", s.Archive, err)
	}
	s.Archive = path
	return nil
}
