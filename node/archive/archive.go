// Package archive keeps lines of JSON on disk (Spec §7.1: "All messages collected by the control
// plane are also archived to disk, creating a persistent log of fabric activity"). The lines are
// rotated and compressed, and survive a kill -9 at any time.
//
// # Files
//
// An archive is a folder. Each chip has one writer. Each writer has files of its own in the folder,
// called segments:
//
//	M0D3-000001-20260102T150405.jsonl.gz   closed: gzip, for zcat and zgrep
//	M0D3-000002-20260102T160405.jsonl      open: plain lines, for tail -f
//
// The number gives the order. The time, in UTC, is when the segment was begun. A writer closes a
// segment that has [Limits].SegmentBytes or is SegmentAge old. The writer removes its oldest
// segments when all of them together have more than TotalBytes.
//
// # What is guaranteed
//
//   - A line is in the archive whole, or not at all. A line counts once its newline is there. A
//     kill -9 or a full disk may leave a torn line at the end. A reader skips it, and the next
//     writer cuts it off.
//   - The lines of one writer keep the order in which they were appended.
//   - A line that [Writer.Append] has written survives the end of the process at once. The line
//     survives a crash of the machine once the system has written it to disk, at the latest when
//     its segment has been closed. The writer syncs a segment only then, so a busy fabric does not
//     wait for the disk.
//   - A disk that is full, or fails in another way, blocks nobody. Lines wait, up to MaxPending
//     bytes; the writer counts and drops later ones. The writer reports the failure once when it
//     begins and once when it ends. The writer does not remove older segments to make room, since
//     these show what led to the failure.
package archive

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"
)

// Limits bound an archive. Zero fields take the values of [DefaultLimits].
type Limits struct {
	SegmentBytes int64         // plain bytes after which a segment is closed
	SegmentAge   time.Duration // age after which a segment that has lines is closed
	TotalBytes   int64         // size of all segments of one writer on disk
}

// DefaultLimits suit a folder in memory, such as a user's runtime directory. Lines of events
// compress to about a tenth, so TotalBytes hold some 80,000 lines.
var DefaultLimits = Limits{SegmentBytes: 256 << 10, SegmentAge: time.Hour, TotalBytes: 2 << 20}

// MinSegment is the smallest allowed size of a segment, in bytes.
const MinSegment = 1 << 10

// Limits of what is kept in memory. They are our own choices.
const (
	MaxLine    = 64 << 10          // bytes of a line with its newline; longer ones are refused
	MaxPending = 64 << 10          // bytes of lines that wait while the archive cannot be written
	retryAfter = time.Second       // interval of attempts to write again
	maxPlain   = 1 << 30           // bytes of a compressed segment that are read at most
	maxRepair  = 2 * MaxLine       // bytes at the end of a segment that are searched for the last whole line
	stamp      = "20060102T150405" // in a segment's name
	plainExt   = ".jsonl"
	closedExt  = ".jsonl.gz"
	unready    = ".tmp" // suffix of a closed segment while it is written
)

// check completes the limits. check returns an error that names a bad limit.
func (l Limits) check() (Limits, error) {
	l.SegmentBytes = cmp.Or(l.SegmentBytes, DefaultLimits.SegmentBytes)
	l.SegmentAge = cmp.Or(l.SegmentAge, DefaultLimits.SegmentAge)
	l.TotalBytes = cmp.Or(l.TotalBytes, DefaultLimits.TotalBytes)
	switch {
	case l.SegmentBytes < MinSegment:
		return l, fmt.Errorf("archive segments of %d bytes: want at least %d", l.SegmentBytes, MinSegment)
	case l.SegmentAge < 0:
		return l, fmt.Errorf("archive segments of %v: want a positive time", l.SegmentAge)
	case l.TotalBytes < l.SegmentBytes:
		return l, fmt.Errorf("archive of %d bytes: want at least one segment, %d", l.TotalBytes, l.SegmentBytes)
	}
	return l, nil
}

// validName is the form of a writer's name. The form ensures that the files of two writers can be
// told apart.
var validName = regexp.MustCompile(`^[A-Za-z0-9_.]{1,64}$`)

// segmentName is the form of a segment's file name.
var segmentName = regexp.MustCompile(`^([A-Za-z0-9_.]{1,64})-([0-9]{6,9})-([0-9]{8}T[0-9]{6})(\.jsonl|\.jsonl\.gz)$`)

// segment is one file of a writer.
type segment struct {
	name   string // name of the writer
	number int
	begun  time.Time
	closed bool
	path   string
}

// newSegment names the segment with a number.
func newSegment(dir, name string, number int, begun time.Time) segment {
	return segment{name, number, begun, false, filepath.Join(dir, fmt.Sprintf("%s-%06d-%s%s", name, number, begun.UTC().Format(stamp), plainExt))}
}

// gz is the path of the segment when it is closed.
func (s *segment) gz() string {
	if s.closed {
		return s.path
	}
	return s.path[:len(s.path)-len(plainExt)] + closedExt
}

// parseSegment reads a file's name. parseSegment reports false if that is not the name of a
// segment.
func parseSegment(dir, file string) (segment, bool) {
	m := segmentName.FindStringSubmatch(file)
	if m == nil {
		return segment{}, false
	}
	n, err := strconv.Atoi(m[2])
	t, err2 := time.Parse(stamp, m[3])
	if err != nil || err2 != nil {
		return segment{}, false
	}
	return segment{m[1], n, t, m[4] == closedExt, filepath.Join(dir, file)}, true
}

// segments lists the segments in a folder, of one writer, or of all if name is "". They are sorted
// by name, then oldest first. A segment that exists both plain and closed, because its writer was
// killed in between, is listed as closed.
func segments(dir, name string) ([]segment, error) {
	ents, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []segment
	for _, e := range ents {
		if s, ok := parseSegment(dir, e.Name()); ok && (name == "" || s.name == name) {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b segment) int {
		closedFirst := 0
		if a.closed != b.closed {
			closedFirst = 1
			if a.closed {
				closedFirst = -1
			}
		}
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.number, b.number), closedFirst)
	})
	return slices.CompactFunc(out, func(a, b segment) bool { return a.name == b.name && a.number == b.number }), nil
}

// Names lists the writers that have segments in a folder, sorted.
func Names(dir string) ([]string, error) {
	ss, err := segments(dir, "")
	var out []string
	for _, s := range ss {
		if len(out) == 0 || out[len(out)-1] != s.name {
			out = append(out, s.name)
		}
	}
	return out, err
}
