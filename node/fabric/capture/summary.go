package capture

import (
	"fmt"
	"strings"
	"time"

	"ttfabric/router/topo"
	"ttfabric/wire/capture"
)

// Summary says what a [Job] captured.
type Summary struct {
	Frames   int           // number of frames that went to the sink
	Passed   uint64        // number of frames that the ports sent and received
	Dropped  uint64        // number of frames that a chip left out, because its buffer was full
	Late     uint64        // number of frames that came to the sink after a frame of a later time
	Ports    int           // number of ports at which chips captured frames
	Chips    int           // number of chips with ports of the capture
	Took     time.Duration // time from the start to the end of the capture
	Files    []string      // names of the files that exist at the end, oldest first; nil if the capture failed
	WantKeys bool          // whether the user asked for TLS keys
	Keys     int           // number of lines of the TLS key log that came from the chips
}

// String returns the summary as lines of text, without a newline at the end. The lines
// after the first explain what went wrong.
func (s Summary) String() string {
	written := ""
	switch n := len(s.Files); n {
	case 0:
	case 1:
		written = ", written to " + s.Files[0]
	default:
		written = fmt.Sprintf(", written to %s … %s", s.Files[0], s.Files[n-1])
	}
	out := []string{fmt.Sprintf("%s of %d that passed %s of %s in %.1f s%s; %d dropped by the capture",
		topo.Count(s.Frames, "frame"), s.Passed, topo.Count(s.Ports, "port"), topo.Count(s.Chips, "chip"), s.Took.Seconds(), written, s.Dropped)}
	if s.Dropped > 0 {
		out = append(out, "To lose fewer frames, use a --filter, fewer ports, a --snaplen, or a larger --buffer.")
	}
	if s.WantKeys && s.Keys == 0 {
		out = append(out, "No chip sent TLS keys: only links of --transport quic have TLS keys, and chips keep these keys only if the fabric was started with --keylog.")
	}
	if s.Late > 0 {
		out = append(out, fmt.Sprintf("%s came late from a chip and therefore follow frames of a later time; 'reordercap' sorts the file", topo.Count(int(s.Late), "frame")))
	}
	return strings.Join(out, "\n")
}

// summary returns the summary of the job so far.
func (j *Job) summary(chips int) Summary {
	s := Summary{Frames: j.frames, Late: j.merge.Late, Ports: len(j.ids), Chips: chips, Took: time.Since(j.begin), WantKeys: j.o.Keys, Keys: len(j.keys)}
	for _, t := range j.totals() {
		s.Dropped, s.Passed = s.Dropped+t.Dropped, s.Passed+t.Received
	}
	return s
}

// add returns the sum of one interface's statistics in two streams. The statistics b come
// from the later stream.
func add(a, b capture.Statistics) capture.Statistics {
	if a.Start.IsZero() || !b.Start.IsZero() && b.Start.Before(a.Start) {
		a.Start = b.Start
	}
	if b.End.After(a.End) {
		a.End = b.End
	}
	a.Received, a.Accepted, a.Dropped = a.Received+b.Received, a.Accepted+b.Accepted, a.Dropped+b.Dropped
	a.Comments = b.Comments
	return a
}

// running returns the statistics of interface i in the running stream. A killed chip does not send
// its last statistics. For a killed chip, running counts the packets that came from the chip.
func (j *Job) running(i int) capture.Statistics {
	s := j.now[i]
	s.Accepted = max(s.Accepted, j.came[i]+s.Dropped)
	s.Received = max(s.Received, s.Accepted)
	if s.Start.IsZero() && j.came[i] > 0 {
		s.Start, s.End = j.begin, time.Now()
	}
	return s
}

// totals returns the statistics of all interfaces, summed over all streams.
func (j *Job) totals() []capture.Statistics {
	out := make([]capture.Statistics, len(j.past))
	for i := range out {
		out[i] = add(j.past[i], j.running(i))
	}
	return out
}
