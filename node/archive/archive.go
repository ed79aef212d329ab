// Package archive keeps lines of JSON on disk (Spec §7.1: "All messages collected by the control
// plane are also archived to disk, creating a persistent log of fabric activity"). The lines are
// rotated and compressed, and survive a kill -9 at any time.
//
// # Files
//
// An archive is a folder. Each chip has one writer. Each writer has its own files in the folder.
// These files are called segments:
//
//	M0D3-000001-20260102T150405.jsonl.gz   closed: gzip, for zcat and zgrep
//	M0D3-000002-20260102T160405.jsonl      open: plain lines, for tail -f
//
// The number gives the order. The time, in UTC, is the time at which the writer began the segment.
// A writer closes a segment that has [Limits].SegmentBytes or is SegmentAge old. If all segments of
// a writer together have more than TotalBytes, the writer removes its oldest segments.
//
// # What is guaranteed
//
//   - A line is in the archive whole, or not at all. A line counts once its newline is there. A
//     kill -9 or a full disk may leave a torn line at the end. A reader skips the torn line, and
//     the next writer cuts the torn line off.
//   - The lines of one writer keep the order in which they were appended.
//   - A line that [Writer.Append] has written survives the end of the process at once. Once the
//     system has written the line to disk, the line also survives a crash of the machine. The
//     system has done so at the latest when the writer has closed the line's segment. The writer
//     syncs a segment only when it closes the segment. A busy fabric therefore does not wait for
//     the disk.
//   - A disk that is full, or fails in another way, blocks nobody. Lines wait, up to MaxPending
//     bytes. The writer counts and drops later lines. The writer reports the failure once when the
//     failure begins and once when the failure ends. The writer does not remove older segments to
//     make room, since the older segments show what led to the failure.
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

// Limits holds the limits of an archive. Zero fields take the values of [DefaultLimits].
type Limits struct {
	SegmentBytes int64         // uncompressed bytes after which the writer closes a segment
	SegmentAge   time.Duration // age after which the writer closes a segment that has lines
	TotalBytes   int64         // size of all segments of one writer on disk, in bytes
}

// DefaultLimits suits a folder in memory, such as a user's runtime directory. Lines of events
// compress to about a tenth. TotalBytes therefore holds some 80,000 lines.
var DefaultLimits = Limits{SegmentBytes: 256 << 10, SegmentAge: time.Hour, TotalBytes: 2 << 20}

// MinSegment is the smallest allowed size of a segment, in bytes.
const MinSegment = 1 << 10

// Limits of the writer's and the reader's memory. The limits are our own choices.
const (
	MaxLine    = 64 << 10          // length of a line with its newline, in bytes; the writer refuses longer lines
	MaxPending = 64 << 10          // bytes of lines that wait while the writer cannot write
	retryAfter = time.Second       // interval between attempts to write again
	maxPlain   = 1 << 30           // bytes of a compressed segment's content that a reader reads at most
	maxRepair  = 2 * MaxLine       // bytes at the end of a segment in which the writer searches for the last whole line
	stamp      = "20060102T150405" // form of the time in a segment's name
	plainExt   = ".jsonl"
	closedExt  = ".jsonl.gz"
	unready    = ".tmp" // suffix of a closed segment's file until the file is complete
)

// check fills in default limits. check returns an error that names a bad limit.
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

// validName is the form of a writer's name. The form keeps the file names of two writers distinct.
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

// newSegment returns the segment with a number, with its file name.
func newSegment(dir, name string, number int, begun time.Time) segment {
	return segment{name, number, begun, false, filepath.Join(dir, fmt.Sprintf("%s-%06d-%s%s", name, number, begun.UTC().Format(stamp), plainExt))}
}

// gz returns the path of the segment after the segment has been closed.
func (s *segment) gz() string {
	if s.closed {
		return s.path
	}
	return s.path[:len(s.path)-len(plainExt)] + closedExt
}

// parseSegment reads a file's name. If the name is not the name of a segment, parseSegment reports
// false.
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

// segments returns the segments in a folder. If name is not "", segments returns only the segments
// of the writer with that name. The result is sorted by name, then oldest first. A writer that was
// killed while it closed a segment leaves the segment both plain and closed. segments lists such a
// segment as closed.
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
