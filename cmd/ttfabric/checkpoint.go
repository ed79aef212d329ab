package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"ttfabric/node/fabric"
	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
)

func newCheckpoint() *cobra.Command {
	var file, since string
	c := &cobra.Command{Use: "checkpoint", Short: "Ask whether anything got lost since a moment", Args: cobra.NoArgs,
		Long: `checkpoint notes in a file which life each chip is in and how its requests have
ended so far. With --since it says what has got lost since: requests that were
not performed, or nobody knows whether, by source and destination; chips that
started anew, so that their memory is gone; chips that do not answer. Requests
that are still open are named too: ask when the workload is idle.

A workload does the same from Go, with Checkpoint and LostSince of its session.

Exit code 5 if anything got lost, or may have.`,
		Example: "  ttfabric checkpoint -f before.json\n  ttfabric checkpoint --since before.json\n  ttfabric checkpoint --since before.json -f next.json   # the moment of the answer",
		RunE: func(c *cobra.Command, _ []string) error {
			f, err := format(c)
			if err != nil {
				return err
			}
			if file == "" && since == "" {
				return spec.Usagef("want a file: -f FILE notes this moment, --since FILE asks what got lost since")
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
					fmt.Fprintf(c.ErrOrStderr(), "not running, and not in the checkpoint: %v\n", missing)
				}
				now, err := fabric.TakeCheckpoint(ctx, cs)
				if err != nil {
					return err
				}
				return noteCheckpoint(c, file, now)
			}
			before, err := readCheckpoint(c.Context(), since)
			if err != nil {
				return err
			}
			l := fabric.LostSince(ctx, cs, before)
			if file != "" {
				if err := noteCheckpoint(c, file, l.Now); err != nil {
					return err
				}
			}
			return tellLosses(c, f, &l)
		}}
	c.Flags().StringVarP(&file, "file", "f", "", "note this moment in this file")
	c.Flags().StringVar(&since, "since", "", "say what got lost since the moment in this file")
	return c
}

// maxCheckpoint is the largest file with a checkpoint that is read, in bytes: many times what the largest fabric has.
const maxCheckpoint = 256 << 20

func noteCheckpoint(c *cobra.Command, file string, now fabric.Checkpoint) error {
	b, err := json.MarshalIndent(now, "", " ")
	if err != nil {
		return err
	}
	if err := folder.WriteFile(file, append(b, '\n')); err != nil {
		return err
	}
	fmt.Fprintf(c.ErrOrStderr(), "%d chips noted in %s at %s\n", len(now.Chips), file, time.Now().Format(time.TimeOnly))
	return nil
}

func readCheckpoint(ctx context.Context, file string) (v fabric.Checkpoint, err error) {
	b, err := folder.ReadFile(ctx, file, maxCheckpoint)
	if err != nil {
		return v, spec.Usagef("--since: %w", err)
	}
	if err := json.Unmarshal(b, &v); err != nil || len(v.Chips) == 0 {
		return v, spec.Usagef("--since: %s is no checkpoint; 'ttfabric checkpoint -f FILE' writes one", file)
	}
	return v, nil
}

func tellLosses(c *cobra.Command, format string, l *fabric.LossesSince) error {
	switch {
	case format == "json":
		if err := printJSON(c, l); err != nil {
			return err
		}
	case !l.Any():
		fmt.Fprintln(c.OutOrStdout(), "nothing got lost")
	default:
		tw := newTable(c, "From", "To", "Lost", "Unknown outcome", "Open")
		for _, f := range l.Flows {
			tw.AppendRow(table.Row{f.Src, f.Dst, f.Lost, f.Unknown, f.Open})
		}
		if len(l.Flows) > 0 {
			tw.Render()
		}
		if len(l.Restarted) > 0 {
			fmt.Fprintf(c.OutOrStdout(), "started anew, their memory is gone: %v\n", l.Restarted)
		}
		if len(l.Silent) > 0 {
			fmt.Fprintf(c.OutOrStdout(), "not running, or no answer: %v\n", l.Silent)
		}
	}
	if l.Any() {
		return assertf("since the checkpoint %d chips started anew, %d do not answer, and %d flows have requests that are lost, of unknown outcome or open", len(l.Restarted), len(l.Silent), len(l.Flows))
	}
	return nil
}
