package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"ttfabric/node/admin/api"
	"ttfabric/node/chip/record"
	"ttfabric/node/chip/record/replay"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/output/screen"
	"ttfabric/wire"
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

func runReplay(c *cobra.Command, args []string, f replayFlags) error {
	out, err := format(c)
	if err != nil {
		return err
	}
	if f.at < 0 {
		return spec.Usagef("--at %v: want 0 or a positive time since the chip's start", f.at)
	}
	list, differ, damaged := []replay.Result{}, 0, 0
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

// options returns the options of package replay that the flags stand for.
func (f replayFlags) options(c *cobra.Command) replay.Options {
	return replay.Options{Until: f.until, At: f.at, Verbose: f.verbose, Out: c.OutOrStdout()}
}

func replayOne(c *cobra.Command, path string, f replayFlags) (replay.Result, error) {
	bar := screen.NewProgress(c.ErrOrStderr(), "", 0)
	defer bar.Stop()
	o := f.options(c)
	o.Read = bar.Set
	return replay.Run(c.Context(), path, o, func(chip wire.FabricNodeID, kib int) { bar.Rename("KiB of "+chip.String(), kib) })
}

func printReplayed(c *cobra.Command, v *replay.Result) {
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

// showRecording prints the content of a recording. If the file ends too early,
// showRecording prints this on stderr, and returns no error. If the file is damaged,
// showRecording returns an error.
func showRecording(c *cobra.Command, path string, f replayFlags, asJSON bool) error {
	o := f.options(c)
	if f.events {
		o.Events = func(e api.EventView) { printEvent(c, e, asJSON) }
	} else if asJSON {
		o.Line = func(r replay.Record) error { return printLine(c, r) }
	}
	return replay.Show(c.Context(), path, o, func(cut *record.Cut) { fmt.Fprintf(c.ErrOrStderr(), "%s: %v\n", path, cut) })
}
