package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ttfabric/node/admin/api"
	"ttfabric/node/fabric"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/fabric/watch"
	"ttfabric/node/output/screen"
	"ttfabric/wire"
)

type eventFlags struct {
	follow  bool
	since   string
	last    int
	chips   []string
	types   []string
	archive string
}

func newEvents() *cobra.Command {
	var f eventFlags
	c := &cobra.Command{Use: "events [CHIP]", Short: "Show past events of the fabric, and follow new events", Args: cobra.MaximumNArgs(1),
		Long: `The command prints the events since the fabric was brought up, in order of time.
Then the command prints new events as they happen, until Ctrl-C or 'ttfabric down'.
Events are about links, tables, routers, dropped packets, chips that join and leave,
jobs of kernels, and injected faults.

Each chip archives its events in its own files. So the command shows events of dead
chips too. With --since, --last or --archive but without -f, the command ends after
the past events. With -o json the command prints one JSON object per line. The field
"seq" counts the events of one incarnation of a chip. A gap in "seq" means that
events were lost.`,
		Example: `  ttfabric events
  ttfabric events --since 10m --type link,fault
  ttfabric events M0D3 --last 20 -f
  ttfabric events --follow=false -o json
  ttfabric events --archive logs/default            a fabric that is down`,
		RunE: func(c *cobra.Command, args []string) error {
			out, err := format(c)
			if err != nil {
				return err
			}
			if !c.Flags().Changed("follow") {
				f.follow = f.since == "" && f.last == 0 && f.archive == ""
			}
			return showEvents(c, append(f.chips, args...), f, out == "json")
		}}
	fl := c.Flags()
	fl.BoolVarP(&f.follow, "follow", "f", false, "follow new events after the past events (default: follow, unless --since, --last or --archive is given)")
	fl.StringVar(&f.since, "since", "", "show only events that are at most this old, for example 10m, or that are later than this instant, for example 2026-01-02T15:04:05")
	fl.IntVar(&f.last, "last", 0, "show only this many past events, the newest; 0: all past events")
	fl.StringSliceVar(&f.chips, "chip", nil, "show only events that these chips report")
	fl.StringSliceVar(&f.types, "type", nil, "show only events of these types: "+strings.Join(api.EventTypes, ", "))
	_ = c.RegisterFlagCompletionFunc("type", cobra.FixedCompletions(api.EventTypes, cobra.ShellCompDirectiveNoFileComp))
	fl.StringVar(&f.archive, "archive", "", "read the event archive in this folder instead of the running fabric's archive")
	return c
}

// parseSince reads a duration before now, such as "10m", or an instant. If the instant
// has no offset from UTC, it is in local time.
func parseSince(s string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t, nil
	}
	for _, layout := range []string{"2006-01-02T15:04:05", time.DateTime, time.DateOnly} {
		if t, err := time.ParseInLocation(layout, s, time.Local); err == nil {
			return t, nil
		}
	}
	return time.Time{}, spec.Usagef("--since %q: want a duration before now, such as 90s or 10m, or an instant such as 2026-01-02T15:04:05", s)
}

// showEvents prints the events that the flags ask for.
func showEvents(c *cobra.Command, chips []string, f eventFlags, asJSON bool) error {
	o := watch.Options{Follow: f.follow, Last: f.last, Types: f.types, Show: func(e api.EventView) { printEvent(c, e, asJSON) },
		Warn: func(format string, a ...any) { fmt.Fprintf(c.ErrOrStderr(), "ttfabric: "+format+"\n", a...) }}
	if f.last < 0 {
		return spec.Usagef("--last %d: want 1 or more, or 0 for all", f.last)
	}
	for _, name := range f.types {
		if !slices.Contains(api.EventTypes, name) {
			return spec.Usagef("--type %q: want %s", name, strings.Join(api.EventTypes, ", "))
		}
	}
	for _, s := range chips {
		n, err := wire.ParseFabricNodeID(s)
		if err != nil {
			return spec.Usagef("%w", err)
		}
		if o.Chips == nil {
			o.Chips = map[wire.FabricNodeID]bool{}
		}
		o.Chips[n] = true
	}
	if f.since != "" {
		var err error
		if o.Since, err = parseSince(f.since, time.Now()); err != nil {
			return err
		}
	}
	if f.archive != "" {
		if f.follow {
			return spec.Usagef("--follow: --archive reads past events only; leave out --follow")
		}
		return watch.Archived(c.Context(), f.archive, o)
	}
	if f.follow && !c.Flags().Changed("follow") && !screen.Terminal(c.OutOrStdout()) {
		o.ArchiveRead = func() {
			o.Warn("the command prints new events until Ctrl-C; with --follow=false it ends after the past events")
		}
	}
	return watch.Running(c.Context(), func() (*fabric.Fabric, error) { return openFabric(c) }, o)
}
