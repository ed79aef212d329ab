// Package replay runs recorded chips again, and shows the content of recordings.
package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"time"

	"ttfabric/node/admin/api"
	"ttfabric/node/chip/record"
	"ttfabric/node/fabric/folder"
	"ttfabric/node/kernel/shipped"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Result is the result of replaying one recording.
type Result struct {
	File       string            `json:"file"`                 // file with the recording
	Chip       wire.FabricNodeID `json:"chip"`                 // chip that was recorded
	Program    string            `json:"recorded_by"`          // version of the program that made the recording
	Identical  bool              `json:"identical"`            // whether the replayed chip did the same as the recorded chip
	Calls      uint64            `json:"calls"`                // number of replayed calls
	Outputs    uint64            `json:"outputs"`              // number of compared outputs, such as transmits, results and events
	Frames     uint64            `json:"frames"`               // number of sent frames
	Events     uint64            `json:"events"`               // number of compared events
	Seconds    float64           `json:"seconds_of_chip"`      // time on the chip's clock from the chip's start to the last replayed call, in seconds
	Took       float64           `json:"seconds_of_replay"`    // time that the replay took, in seconds
	End        string            `json:"end,omitempty"`        // reason why the recording ends
	BreaksOff  string            `json:"breaks_off,omitempty"` // if the recording breaks off before its end: where, and why
	Damaged    bool              `json:"damaged,omitempty"`    // true: the recording breaks off because the file is damaged; false: the file ends too early, or the recording is complete
	Difference *Difference       `json:"difference,omitempty"` // first difference from the recording; absent if there is none
	Panic      string            `json:"panic,omitempty"`      // message with which the replayed chip panicked; absent if it did not
}

// Difference is the first difference of a replay from its recording.
type Difference struct {
	Call    uint64  `json:"call"`     // number of the call
	Op      string  `json:"op"`       // name of the call
	Seconds float64 `json:"seconds"`  // time of the call on the chip's clock, in seconds
	Want    string  `json:"recorded"` // what the recording has
	Got     string  `json:"now"`      // what the replayed chip did
}

// Open opens a file with a recording, and reads its header. Open reads the file in the background, and
// returns when ctx ends. The caller must close the file.
func Open(ctx context.Context, path string) (*os.File, *record.Reader, error) {
	type opened struct {
		f *os.File
		r *record.Reader
	}
	o, err := folder.Within(ctx, func() (o opened, err error) {
		if o.f, err = os.Open(path); err != nil {
			return o, err
		}
		if o.r, err = record.NewReader(o.f); err != nil {
			o.f.Close()
			return o, fmt.Errorf("%s: %w", path, err)
		}
		return o, nil
	})
	return o.f, o.r, err
}

// Options say how much of a recording [Run] and [Show] use, and what they report.
type Options struct {
	Until   uint64        // last call; 0: all calls
	At      time.Duration // calls after this time on the chip's clock are not used; 0: all calls
	Verbose bool          // Run prints each call before replaying it; Show prints calls without a result, too
	Out     io.Writer     // where Run prints calls, and where Show prints records
	Read    func(kib int) // gets the number of KiB of the file that Run has read, now and then; nil: is not called

	Events func(api.EventView) // Show gives the chip's events to this function, and prints nothing; nil: Show prints all records
	Line   func(Record) error  // Show gives the records to this function, and prints nothing; nil: Show prints text
}

// progressCalls is the number of calls between two calls of Options.Read.
const progressCalls = 4096

// Run replays the recording in a file. The function "begin" gets the recorded chip and the size of the file in KiB
// before the replay. If the replayed chip panics or differs from the recording, the result says so, and err is nil.
// If ctx ends, or if the file cannot be read or is no recording, Run returns an error.
func Run(ctx context.Context, path string, o Options, begin func(chip wire.FabricNodeID, kib int)) (v Result, err error) {
	file, r, err := Open(ctx, path)
	if err != nil {
		return v, err
	}
	defer file.Close()
	size := int64(0)
	if fi, err := file.Stat(); err == nil {
		size = fi.Size()
	}
	h := r.Header()
	v = Result{File: path, Chip: h.Config.Node, Program: h.Program}
	begin(h.Config.Node, int(size>>10))
	start := time.Now()
	each := func(n uint64, rec *record.Record) error {
		v.Calls = n
		if o.Verbose {
			fmt.Fprintf(o.Out, "%8d %14v  %s\n", n, max(r.Now(), rec.Now), record.Describe(rec))
		} else if n%progressCalls == 0 && o.Read != nil {
			o.Read(int(r.Bytes() >> 10))
		}
		if n%progressCalls == 0 {
			return ctx.Err()
		}
		return nil
	}
	defer func() {
		if p := recover(); p != nil { // the chip panicked; the purpose of a replay may be to find this panic
			v.Panic, err = fmt.Sprintf("call %d: %v\n%s", v.Calls, p, debug.Stack()), nil
		}
	}()
	s, err := record.Replay(r, record.Options{Kernels: shipped.Kernels, Until: o.Until, At: mono.Time(o.At), Each: each})
	v.Took = time.Since(start).Seconds()
	v.Calls, v.Outputs, v.Frames, v.Events, v.Seconds = s.Calls, s.Outputs, s.Frames, s.Events, s.Last.Sub(h.Started).Seconds()
	if s.End != 0 {
		v.End = s.End.String()
	}
	if s.Cut != nil {
		v.BreaksOff, v.Damaged = s.Cut.Error(), !s.Cut.Short
	}
	var d *record.Difference
	if errors.As(err, &d) {
		v.Difference = &Difference{d.Call, d.Op, time.Duration(d.At).Seconds(), d.Want, d.Got}
		return v, nil
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		err = fmt.Errorf("%s: %w", path, err)
	}
	v.Identical = err == nil
	return v, err
}
