// Package archive keeps lines of JSON on disk (Spec §7.1: "All messages
// collected by the control plane are also archived to disk, creating a
// persistent log of fabric activity"): rotated, compressed, and whole after a
// kill -9 at any time.
//
// # Files
//
// An archive is a folder. Each writer, one per chip, has files of its own in
// it, its segments:
//
//	M0D3-000001-20260102T150405.jsonl.gz   closed: gzip, for zcat and zgrep
//	M0D3-000002-20260102T160405.jsonl      open: plain lines, for tail -f
//
// The number gives the order; the time, in UTC, is when the segment was begun.
// A segment is closed when it has [Limits].SegmentBytes or is SegmentAge old,
// and the oldest ones are removed when all have more than TotalBytes.
//
// # What is sure
//
//   - A line is in the archive whole, or not at all: a line counts when its
//     newline is there. A reader passes over the torn end that a kill -9 or a
//     full disk may leave; the next writer cuts it off.
//   - The lines of one writer stay in the order of their appending.
//   - What [Writer.Append] has written outlives the process at once. It outlives
//     the machine's crash once the system has written it back, and for sure
//     when its segment has been closed: only then the file is synced, so
//     that a busy fabric does not wait for the disk.
//   - A disk that is full, or fails otherwise, stops nobody. Lines wait, up to
//     MaxPending bytes; later ones are counted and lost. Both is told once when
//     it begins and once when it is over. Older segments are not removed to
//     make room: they say what led to it.
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

// Limits bound an archive; zero fields take those of [DefaultLimits].
type Limits struct {
	SegmentBytes int64         // of plain lines, after which a segment is closed
	SegmentAge   time.Duration // after which one that has lines is closed
	TotalBytes   int64         // of all segments of one writer, on disk
}

// DefaultLimits fit a folder in memory, as a user's runtime directory is.
// Lines of events shrink to about a tenth, so TotalBytes are some 80,000 of them.
var DefaultLimits = Limits{SegmentBytes: 256 << 10, SegmentAge: time.Hour, TotalBytes: 2 << 20}

// MinSegment is the smallest size of a segment, in bytes, that is taken.
const MinSegment = 1 << 10

// Limits of what is kept in memory; our own choices.
const (
	MaxLine    = 64 << 10          // bytes of a line with its newline; longer ones are refused
	MaxPending = 64 << 10          // bytes of lines that wait while nothing can be written
	retryAfter = time.Second       // how often it is tried again then
	maxPlain   = 1 << 30           // bytes that a compressed segment is read up to
	maxRepair  = 2 * MaxLine       // bytes at the end of a segment that are searched for the last whole line
	stamp      = "20060102T150405" // in a segment's name
	plainExt   = ".jsonl"
	closedExt  = ".jsonl.gz"
	unready    = ".tmp" // of a closed segment while it is written
)

// check completes the limits, or names the bad one.
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

// validName is what a writer may be called: its files can be told from another's.
var validName = regexp.MustCompile(`^[A-Za-z0-9_.]{1,64}$`)

// segmentName is what a segment's file may be called.
var segmentName = regexp.MustCompile(`^([A-Za-z0-9_.]{1,64})-([0-9]{6,9})-([0-9]{8}T[0-9]{6})(\.jsonl|\.jsonl\.gz)$`)

// segment is one file of a writer.
type segment struct {
	name   string // of the writer
	number int
	begun  time.Time
	closed bool
	path   string
}

// newSegment names the segment of a number.
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

// parseSegment reads a file's name; false if it is none of a segment.
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

// segments lists the segments in a folder, of one writer or, with "", of all:
// by name, then oldest first. One that stands there plain and closed, because
// its writer was killed between, is listed closed.
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
