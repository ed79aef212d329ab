package archive

import (
	"compress/gzip"
	"io"
	"os"
)

// compress replaces the plain file of a segment by a compressed file with the segment's complete
// lines. If the segment has no complete line, compress only removes the plain file. If the process
// is killed meanwhile, at least one of the two files remains complete.
func compress(s *segment) error {
	size, err := wholeLines(s.path)
	if err != nil {
		return err
	}
	if size == 0 {
		return os.Remove(s.path)
	}
	in, err := os.Open(s.path)
	if err != nil {
		return err
	}
	defer in.Close()
	tmp := s.gz() + unready
	out, err := os.OpenFile(tmp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	err = squeeze(out, io.LimitReader(in, size))
	if err == nil {
		err = out.Sync()
	}
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(tmp, s.gz())
	}
	if err != nil {
		os.Remove(tmp)
		return err
	}
	return os.Remove(s.path)
}

// squeeze compresses r into w. squeeze uses the fastest level, because the similar lines of events
// compress well at any level.
func squeeze(w io.Writer, r io.Reader) error {
	z, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
	if err != nil {
		return err
	}
	if _, err := io.Copy(z, r); err != nil {
		return err
	}
	return z.Close()
}
