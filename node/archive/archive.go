// Package archive keeps lines of JSON on disk. Spec §7.1 says: "All messages collected by the
// control plane are also archived to disk, creating a persistent log of fabric activity". A writer
// rotates and compresses its files. A kill -9 of the writer's process damages no complete line.
//
// # Files
//
// An archive is a folder. Each chip has one writer. Each writer has its own files in the folder.
// These files are called segments:
//
//	M0D3-000001-20260102T150405.jsonl.gz   closed: gzip, for zcat and zgrep
//	M0D3-000002-20260102T160405.jsonl      open: plain lines, for tail -f
//
// A writer numbers its segments in order. The time in a name, in UTC, is the time at which the
// writer began the segment. Before each write, a writer closes a segment of at least SegmentBytes
// bytes or of the age SegmentAge; see [Limits]. When a writer opens the archive or closes a
// segment, the writer removes its oldest segments until all its segments together have at most
// TotalBytes.
//
// # What is guaranteed
//
//   - A reader returns only complete lines. A line is complete once its newline has been written. A
//     kill -9 or a full disk may leave a torn line at the end of a segment. A reader skips a torn
//     line, and the next writer of the same name cuts the torn line off.
//   - A reader returns the lines of a writer in the order in which the writer appended the lines.
//   - Once [Writer.Append] has written a line, the line survives the end of the process. The line
//     survives a crash of the machine once the operating system has written the line to disk. The
//     writer syncs a segment to disk only when the writer closes the segment. A busy fabric
//     therefore does not wait for the disk.
//   - A writer never waits for a disk that is full or fails in another manner. Up to MaxPending
//     bytes of lines wait in memory until the disk works again. The writer drops and counts further
//     lines. The writer reports each failure twice: at the beginning and at the end of the failure.
//     The writer removes no older segments to make room, because the older segments may show the
//     cause of the failure.
package archive

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Limits holds the limits of an archive. Zero fields take the values of [DefaultLimits].
type Limits struct {
	SegmentBytes int64         // uncompressed size from which on the writer closes a segment, in bytes; the last write may exceed the size
	SegmentAge   time.Duration // age at which the writer closes a segment that has lines
	TotalBytes   int64         // largest size of all segments of one writer together on disk, in bytes; the open segment may exceed this size until the writer closes it
}

// DefaultLimits is small enough for a folder in main memory, such as a user's runtime directory.
// Lines of events compress to about a tenth of their size. TotalBytes is therefore enough for about
// 80,000 lines.
var DefaultLimits = Limits{SegmentBytes: 256 << 10, SegmentAge: time.Hour, TotalBytes: 2 << 20}

// MinSegment is the smallest allowed size of a segment, in bytes.
const MinSegment = 1 << 10

// Limits of writers and readers, and parts of file names. All values are our own choices.
const (
	MaxLine    = 64 << 10          // largest length of a line with its newline, in bytes; the writer refuses longer lines
	MaxPending = 64 << 10          // largest size of the lines that wait in memory while the writer cannot write, in bytes
	retryAfter = time.Second       // shortest interval between two attempts to write after a failure
	maxPlain   = 1 << 30           // largest number of bytes that a reader reads of a segment, uncompressed
	maxRepair  = 2 * MaxLine       // number of bytes at a segment's end in which a writer looks for the last newline
	stamp      = "20060102T150405" // format of the time in a segment's name
	plainExt   = ".jsonl"
	closedExt  = ".jsonl.gz"
	unready    = ".tmp" // suffix of a compressed file that is not complete yet
)

// check replaces zero limits by the defaults. If a limit is invalid, check returns an error that
// names the limit.
func (l Limits) check() (Limits, error) {
	l.SegmentBytes = cmp.Or(l.SegmentBytes, DefaultLimits.SegmentBytes)
	l.SegmentAge = cmp.Or(l.SegmentAge, DefaultLimits.SegmentAge)
	l.TotalBytes = cmp.Or(l.TotalBytes, DefaultLimits.TotalBytes)
	switch {
	case l.SegmentBytes < MinSegment:
		return l, fmt.Errorf("archive segments of %d bytes: want at least %d", l.SegmentBytes, MinSegment)
	case l.SegmentAge < 0:
		return l, fmt.Errorf("archive segments of the age %v: want a positive time", l.SegmentAge)
	case l.TotalBytes < l.SegmentBytes:
		return l, fmt.Errorf("archive of %d bytes: want at least %d, the size of one segment", l.TotalBytes, l.SegmentBytes)
	}
	return l, nil
}

// validName returns a pattern of valid names of writers. A valid name contains no hyphen, because a
// hyphen ends the name in a file name.
var validName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_.]{1,64}$`) })

// segmentName returns a pattern of the file names of segments.
var segmentName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^([A-Za-z0-9_.]{1,64})-([0-9]{6,9})-([0-9]{8}T[0-9]{6})(\.jsonl|\.jsonl\.gz)$`)
})

// segment is one file of a writer.
type segment struct {
	name   string // name of the writer
	number int
	begun  time.Time
	closed bool
	path   string
}

// newSegment returns a new segment with its path. newSegment makes no file.
func newSegment(dir, name string, number int, begun time.Time) segment {
	return segment{name, number, begun, false, filepath.Join(dir, fmt.Sprintf("%s-%06d-%s%s", name, number, begun.UTC().Format(stamp), plainExt))}
}

// gz returns the path that the segment has once the segment is closed.
func (s *segment) gz() string {
	if s.closed {
		return s.path
	}
	return s.path[:len(s.path)-len(plainExt)] + closedExt
}

// parseSegment returns the segment that has the given file name. If the name is not the name of a
// segment, parseSegment returns false.
func parseSegment(dir, file string) (segment, bool) {
	m := segmentName().FindStringSubmatch(file)
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
// of the writer with that name. The result is sorted by the writer's name, then by number. A writer
// that was killed while it closed a segment may leave both the plain and the compressed file of the
// segment. If a segment has both files, segments returns only the compressed file.
func segments(dir, name string) ([]segment, error) {
	ents, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []segment
	for _, e := range ents {
		if name != "" && !strings.HasPrefix(e.Name(), name+"-") {
			continue // a fabric's archive has the segments of all chips
		}
		if s, ok := parseSegment(dir, e.Name()); ok {
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

// Names returns the names of the writers that have segments in a folder, sorted.
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

// Size returns the number of bytes in the segments of the writer with the given name. The size changes when the
// writer adds lines or closes a segment. If the folder cannot be read, Size returns 0.
func Size(dir, name string) (n int64) {
	ss, err := segments(dir, name)
	if err != nil {
		return 0
	}
	for _, s := range ss {
		if fi, err := os.Stat(s.path); err == nil {
			n += fi.Size()
		}
	}
	return n
}
