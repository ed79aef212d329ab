package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"ttfabric/node/fabric"
	"ttfabric/node/fabric/spec"
)

func newCheckpoint() *cobra.Command {
	var file, since string
	c := &cobra.Command{Use: "checkpoint", Short: "Print what the fabric has lost since a checkpoint", Args: cobra.NoArgs,
		Long: `'checkpoint -f FILE' writes a checkpoint of the fabric to a file. A checkpoint holds
the incarnation of each chip, and for each outcome the number of the chip's requests
that ended with this outcome. 'checkpoint --since FILE' compares the fabric with the
checkpoint in a file, and prints what has been lost since the checkpoint:

  - requests that were not performed, by source and destination
  - requests of which nobody knows whether they were performed
  - requests that are still open; run the command while the workload is idle
  - chips that have restarted and have lost the content of their memory
  - chips that do not answer

A Go program gets the same answers from the methods Checkpoint and LostSince of its
session.

Exit code 5 if anything is lost, open or unknown.`,
		Example: "  ttfabric checkpoint -f before.json\n  ttfabric checkpoint --since before.json\n  ttfabric checkpoint --since before.json -f next.json   # and write the next checkpoint",
		RunE: func(c *cobra.Command, _ []string) error {
			f, err := format(c)
			if err != nil {
				return err
			}
			if file == "" && since == "" {
				return spec.Usagef("want -f FILE to write a checkpoint, or --since FILE to print what has been lost since a checkpoint")
			}
			fab, err := openFabric(c)
			if err != nil {
				return err
			}
			cs, missing, err := fab.Clients()
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(c.Context(), fabric.AskTime)
			defer cancel()
			if since == "" {
				if len(missing) > 0 {
					fmt.Fprintf(c.ErrOrStderr(), "these chips are not running, so the checkpoint leaves them out: %v\n", missing)
				}
				now, err := fabric.TakeCheckpoint(ctx, cs)
				if err != nil {
					return err
				}
				return noteCheckpoint(c, file, now)
			}
			before, err := fabric.ReadCheckpoint(c.Context(), since)
			if err != nil {
				return spec.Usagef("--since: %w", err)
			}
			l := fabric.LostSince(ctx, cs, before)
			if file != "" {
				if err := noteCheckpoint(c, file, l.Now); err != nil {
					return err
				}
			}
			return tellLosses(c, f, &l)
		}}
	c.Flags().StringVarP(&file, "file", "f", "", "write a checkpoint of the fabric's present state to this file")
	c.Flags().StringVar(&since, "since", "", "print what has been lost since the checkpoint in this file")
	return c
}

// noteCheckpoint writes a checkpoint to a file, and says so on stderr.
func noteCheckpoint(c *cobra.Command, file string, now fabric.Checkpoint) error {
	err := now.Write(file)
	if err == nil {
		fmt.Fprintf(c.ErrOrStderr(), "Wrote a checkpoint of %d chips to %s at %s.\n", len(now.Chips), file, time.Now().Format(time.TimeOnly))
	}
	return err
}

func tellLosses(c *cobra.Command, format string, l *fabric.LossesSince) error {
	switch {
	case format == "json":
		if err := printJSON(c, l); err != nil {
			return err
		}
	case !l.Any():
		fmt.Fprintln(c.OutOrStdout(), "nothing was lost")
	default:
		tw := newTable(c, "From", "To", "Lost", "Unknown outcome", "Open")
		for _, f := range l.Flows {
			tw.AppendRow(table.Row{f.Src, f.Dst, f.Lost, f.Unknown, f.Open})
		}
		if len(l.Flows) > 0 {
			tw.Render()
		}
		if len(l.Restarted) > 0 {
			fmt.Fprintf(c.OutOrStdout(), "these chips have restarted and have lost the content of their memory: %v\n", l.Restarted)
		}
		if len(l.Silent) > 0 {
			fmt.Fprintf(c.OutOrStdout(), "these chips are not running, or do not answer: %v\n", l.Silent)
		}
	}
	if l.Any() {
		return assertf("since the checkpoint %d chips have restarted, %d chips do not answer, and %d flows have requests that are lost, of unknown outcome or open", len(l.Restarted), len(l.Silent), len(l.Flows))
	}
	return nil
}
