package spec

import (
	"fmt"
	"os"
	"path/filepath"
)

// Sizes of recordings and archives, in MiB.
const (
	DefaultRecordMiB = 256     // default limit of one recording
	MaxRecordMiB     = 1 << 20 // largest limit of one recording
	MaxArchiveMiB    = 1 << 20 // largest limit of one chip's part of the archive
)

// CheckRecording returns an error of kind [Usage] if RecordMiB is out of range. CheckRecording also
// makes the path in Record absolute, because a chip's process may run in another working folder.
func (r *Records) CheckRecording() (err error) {
	if r.RecordMiB < 1 || r.RecordMiB > MaxRecordMiB {
		return Usagef("--record-limit %d: want 1 to %d MiB", r.RecordMiB, MaxRecordMiB)
	}
	if r.Record != "" {
		r.Record, err = filepath.Abs(r.Record)
	}
	return err
}

// RecordArguments returns the command-line arguments with which a chip's process records
// all calls into the chip. RecordArguments returns nil if Record is empty.
func (r *Records) RecordArguments() []string {
	if r.Record == "" {
		return nil
	}
	return []string{"--record", r.Record, "--record-limit", fmt.Sprint(r.RecordMiB)}
}

// places checks [Records], and makes the paths of all folders absolute. The folder of
// --keylog must exist. If the user named an archive, places adds the fabric's name to its
// path, and makes this folder.
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
			return Usagef("--keylog %s: want an existing folder", s.KeyLog)
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
		return Usagef("--archive %q: cannot make the folder: %w", s.Archive, err)
	}
	s.Archive = path
	return nil
}
