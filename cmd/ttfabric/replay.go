package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"ttfabric/node/chip/record"
	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/kernel/guide"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// replayFlags are the flags of 'replay'.
type replayFlags struct {
	until        uint64
	at           time.Duration
	verbose      bool
	show, events bool
}

func newReplay() *cobra.Command {
	var f replayFlags
	c := &cobra.Command{
		Use:   "replay FILE...",
		Short: "Run chips again with their recorded input, and compare the results",
		Long: `The command starts a fresh chip with the recorded configuration, and repeats every
recorded call into the chip, in virtual time and as fast as possible. The command
compares every frame, result and event with the recording. The result "identical" means that the
recorded process and this program gave the same results for the same input. If a
result differs, the command prints the first difference. No fabric needs to run.

If a chip was killed, the last second of its recording may be missing. The command
then replays the complete part, and prints where the recording breaks off. The
command replays a damaged file up to the damage. --show and --events print the
content of a file and replay nothing.

Exit code 5 if a result differs, 1 if a file is damaged.`,
		Example: `  ttfabric replay /tmp/calls/*.ttrec
  ttfabric replay chip-M0D3-8f1c2a5e77d0b431.ttrec -v --at 2s
  ttfabric replay chip-M0D3-8f1c2a5e77d0b431.ttrec --show | less
  ttfabric replay chip-M0D3-8f1c2a5e77d0b431.ttrec --events`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return runReplay(c, args, f) },
	}
	fl := c.Flags()
	fl.Uint64Var(&f.until, "until", 0, "stop after this many calls; 0: all calls")
	fl.DurationVar(&f.at, "at", 0, "stop before the first call after this time on the chip's clock; 0: all calls")
	fl.BoolVarP(&f.verbose, "verbose", "v", false, "print each call before replaying it; with --show: also print calls without a result")
	fl.BoolVar(&f.show, "show", false, "print the recorded calls and answers, with decoded frames, and replay nothing")
	fl.BoolVar(&f.events, "events", false, "print only the recorded events of the chip, and replay nothing")
	c.MarkFlagsMutuallyExclusive("show", "events")
	return c
}

// replayed is the result of replaying one recording.
type replayed struct {
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
	Difference *replayDifference `json:"difference,omitempty"` // first difference from the recording; absent if there is none
	Panic      string            `json:"panic,omitempty"`      // message with which the replayed chip panicked; absent if it did not
}

// replayDifference is the first difference of a replay from its recording.
type replayDifference struct {
	Call    uint64  `json:"call"`     // number of the call
	Op      string  `json:"op"`       // name of the call
	Seconds float64 `json:"seconds"`  // time of the call on the chip's clock, in seconds
	Want    string  `json:"recorded"` // what the recording has
	Got     string  `json:"now"`      // what the replayed chip did
}

func runReplay(c *cobra.Command, args []string, f replayFlags) error {
	out, err := format(c)
	if err != nil {
		return err
	}
	if f.at < 0 {
		return spec.Usagef("--at %v: want 0 or a positive time since the chip's start", f.at)
	}
	list, differ, damaged := []replayed{}, 0, 0
	for _, path := range args {
		if f.show || f.events {
			if err := showRecording(c, path, f, out == "json"); err != nil {
				return err
			}
			continue
		}
		v, err := replayOne(c, path, f)
		if err != nil {
			return err
		}
		list = append(list, v)
		if !v.Identical {
			differ++
		}
		if v.Damaged {
			damaged++
		}
		if out != "json" {
			printReplayed(c, &v)
		}
	}
	if out == "json" && !f.show && !f.events {
		if err := printJSON(c, list); err != nil {
			return err
		}
	}
	if differ > 0 {
		return assertf("%d of %d recordings did not replay identically", differ, len(list))
	}
	if damaged > 0 {
		return fmt.Errorf("%d of %d recordings are damaged; only the calls before the damage were replayed", damaged, len(list))
	}
	return nil
}

// openRecording opens a file and reads its header.
func openRecording(ctx context.Context, path string) (*os.File, *record.Reader, error) {
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

// progressCalls is the number of calls between two steps of the progress bar.
const progressCalls = 4096

func replayOne(c *cobra.Command, path string, f replayFlags) (v replayed, err error) {
	file, r, err := openRecording(c.Context(), path)
	if err != nil {
		return v, err
	}
	defer file.Close()
	size := int64(0)
	if fi, err := file.Stat(); err == nil {
		size = fi.Size()
	}
	h := r.Header()
	v = replayed{File: path, Chip: h.Config.Node, Program: h.Program}
	bar := newProgress(c.ErrOrStderr(), "KiB of "+h.Config.Node.String(), int(size>>10))
	defer bar.stop()
	begin := time.Now()
	each := func(n uint64, rec *record.Record) error {
		v.Calls = n
		if f.verbose {
			fmt.Fprintf(c.OutOrStdout(), "%8d %14v  %s\n", n, max(r.Now(), rec.Now), record.Describe(rec))
		} else if n%progressCalls == 0 {
			bar.set(int(r.Bytes() >> 10))
		}
		if n%progressCalls == 0 {
			return c.Context().Err()
		}
		return nil
	}
	defer func() {
		if p := recover(); p != nil { // the chip panicked; the purpose of a replay may be to find this panic
			v.Panic, err = fmt.Sprintf("call %d: %v\n%s", v.Calls, p, debug.Stack()), nil
		}
	}()
	s, err := record.Replay(r, record.Options{Kernels: guide.Kernels, Until: f.until, At: mono.Time(f.at), Each: each})
	v.Took = time.Since(begin).Seconds()
	v.Calls, v.Outputs, v.Frames, v.Events, v.Seconds = s.Calls, s.Outputs, s.Frames, s.Events, s.Last.Sub(h.Started).Seconds()
	if s.End != 0 {
		v.End = s.End.String()
	}
	if s.Cut != nil {
		v.BreaksOff, v.Damaged = s.Cut.Error(), !s.Cut.Short
	}
	var d *record.Difference
	if errors.As(err, &d) {
		v.Difference = &replayDifference{d.Call, d.Op, time.Duration(d.At).Seconds(), d.Want, d.Got}
		return v, nil
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		err = fmt.Errorf("%s: %w", path, err)
	}
	v.Identical = err == nil
	return v, err
}

func printReplayed(c *cobra.Command, v *replayed) {
	w := c.OutOrStdout()
	switch {
	case v.Panic != "":
		fmt.Fprintf(w, "%s: chip %s panics at %s\n", v.File, v.Chip, v.Panic)
	case v.Difference != nil:
		d := v.Difference
		fmt.Fprintf(w, "%s: chip %s differs at call %d, %s, at %.6f s\n  recorded: %s\n  now:      %s\n", v.File, v.Chip, d.Call, d.Op, d.Seconds, d.Want, d.Got)
		if now := version(); v.Program != "" && v.Program != now {
			fmt.Fprintf(w, "  version %s made the recording; this program is version %s\n", v.Program, now)
		}
	default:
		fmt.Fprintf(w, "%s: identical: %d calls, %d outputs (%d frames, %d events), %.1f s of chip %s in %.2f s\n",
			v.File, v.Calls, v.Outputs, v.Frames, v.Events, v.Seconds, v.Chip, v.Took)
	}
	if v.BreaksOff != "" {
		fmt.Fprintf(w, "  %s; the calls before were replayed\n", v.BreaksOff)
	} else if v.End != "" && v.End != record.EndClosed.String() {
		fmt.Fprintf(w, "  the recording ends because %s\n", v.End)
	}
}

// shownRecord is one record in the form that `replay --show -o json` prints.
type shownRecord struct {
	Call uint64        `json:"call"`    // number of the call to which the record belongs
	Time time.Duration `json:"time_ns"` // time of the record on the chip's clock
	Kind string        `json:"kind"`    // kind of the record
	Text string        `json:"text"`    // content of the record, for people
}

// showRecording prints the content of a recording. If the file ends too early,
// showRecording prints this on stderr, and returns no error. If the file is damaged,
// showRecording returns an error.
func showRecording(c *cobra.Command, path string, f replayFlags, asJSON bool) error {
	file, r, err := openRecording(c.Context(), path)
	if err != nil {
		return err
	}
	defer file.Close()
	p := recordPrinter{c: c, r: r, f: f, asJSON: asJSON}
	for {
		rec, err := r.Next()
		var cut *record.Cut
		switch {
		case errors.Is(err, io.EOF):
			if why, text := r.End(); !f.events && !asJSON {
				fmt.Fprintf(c.OutOrStdout(), "end: %s %s\n", why, text)
			}
			return nil
		case errors.As(err, &cut):
			if !cut.Short {
				return fmt.Errorf("%s: %w", path, cut)
			}
			fmt.Fprintf(c.ErrOrStderr(), "%s: %v\n", path, cut)
			return nil
		case err != nil:
			return err
		}
		if more, err := p.print(&rec); !more || err != nil {
			return err
		}
	}
}
