package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"ttfabric/node/admin/api"
	"ttfabric/node/archive"
	"ttfabric/node/fabric"
	"ttfabric/node/fabric/spec"
	"ttfabric/router/topo"
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
	fl.StringSliceVar(&f.types, "type", nil, "show only events of these types, such as link, packet, member, fault, chip, archive")
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

// viewer prints each requested event exactly once, unless --last leaves out the event.
type viewer struct {
	c     *cobra.Command
	json  bool
	flags eventFlags
	chips map[wire.FabricNodeID]bool // chips whose events are requested; nil: all chips
	since time.Time
	dir   string         // the archive's folder
	fab   *fabric.Fabric // the fabric that writes the archive; nil with --archive

	mu     sync.Mutex
	seen   map[string]uint64 // number of the last event, by chip and incarnation
	types  map[string]int    // number of events by type, before --type leaves out events; helps with a misspelt --type
	shown  int
	recent []api.EventView // past events so far, with --last
	past   bool            // true: all past events are printed
}

func showEvents(c *cobra.Command, chips []string, f eventFlags, asJSON bool) error {
	v := &viewer{c: c, json: asJSON, flags: f, seen: map[string]uint64{}, types: map[string]int{}}
	if f.last < 0 {
		return spec.Usagef("--last %d: want 1 or more, or 0 for all", f.last)
	}
	for _, s := range chips {
		n, err := wire.ParseFabricNodeID(s)
		if err != nil {
			return spec.Usagef("%w", err)
		}
		if v.chips == nil {
			v.chips = map[wire.FabricNodeID]bool{}
		}
		v.chips[n] = true
	}
	if f.archive != "" {
		if f.follow {
			return spec.Usagef("--follow: --archive reads past events only; leave out --follow")
		}
		v.dir = f.archive
	} else {
		fab, err := openFabric(c)
		if err != nil {
			return err
		}
		for n := range v.chips {
			if _, ok := fab.Topology.Chip(n); !ok {
				return spec.Usagef("chip %s is not in %s", n, fab.Topology)
			}
		}
		v.dir, v.since, v.fab = fab.Dir.ArchiveDir(&fab.Spec), fab.Spec.Created, fab
	}
	if f.since != "" {
		var err error
		if v.since, err = parseSince(f.since, time.Now()); err != nil {
			return err
		}
	}
	if err := v.history(); err != nil {
		return err
	}
	if f.archive != "" {
		v.endHistory()
		return nil
	}
	return v.live()
}

// history prints the archived events. With --last, history prints nothing, but keeps the
// newest events until endHistory prints them.
func (v *viewer) history() error {
	skipped, err := v.read(v.wants)
	switch {
	case errors.Is(err, os.ErrNotExist) && v.flags.archive == "":
		return nil // no chip could make an archive
	case err != nil && v.flags.archive == "":
		fmt.Fprintln(v.c.ErrOrStderr(), "ttfabric: cannot read the archive; the following events are only those that the running chips still hold:", err)
	case err != nil:
		return fmt.Errorf("cannot read the archive: %w", err)
	}
	if v.flags.archive != "" && len(v.seen) == 0 {
		if names, err := archive.Names(v.dir); err == nil && len(names) == 0 {
			return fmt.Errorf("--archive: the folder %s holds no archive%s", v.dir, v.below())
		}
	}
	if skipped.Damaged > 0 {
		fmt.Fprintf(v.c.ErrOrStderr(), "ttfabric: %s of the archive in %s could not be read and were left out\n", topo.Count(skipped.Damaged, "damaged part"), v.dir)
	}
	return nil
}

// read calls [viewer.take] for each archived event of the chips for which want returns
// true. If chips run in containers, read first copies their latest events to the archive.
func (v *viewer) read(want func(wire.FabricNodeID) bool) (archive.Skipped, error) {
	if v.fab != nil {
		if err := v.fab.Archive(v.c.Context()); err != nil && v.c.Context().Err() == nil {
			return archive.Skipped{}, err
		}
	}
	return fabric.History(v.dir, want, v.take)
}

// The method "below" returns the end of a message, with the names of the folders inside the folder
// of --archive. One of these folders may be the archive that the user wanted. If there is no such
// folder, below returns "".
func (v *viewer) below() string {
	ents, _ := os.ReadDir(v.dir)
	var names []string
	for _, e := range ents {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "; name one of its folders: " + strings.Join(names, ", ")
}

func (v *viewer) wants(n wire.FabricNodeID) bool { return v.chips == nil || v.chips[n] }

// take prints an event if the event is new and requested. With --last, take keeps past
// events for endHistory instead.
func (v *viewer) take(e api.EventView) {
	v.mu.Lock()
	defer v.mu.Unlock()
	life := e.Chip.String() + e.Life
	if e.Seq <= v.seen[life] {
		return
	}
	v.seen[life] = e.Seq
	if e.Time.Before(v.since) {
		return
	}
	v.types[e.Type]++
	if len(v.flags.types) > 0 && !slices.Contains(v.flags.types, e.Type) {
		return
	}
	if v.flags.last > 0 && !v.past {
		if len(v.recent) >= 2*v.flags.last {
			v.recent = v.recent[:copy(v.recent, v.recent[len(v.recent)-v.flags.last:])]
		}
		v.recent = append(v.recent, e)
		return
	}
	v.shown++
	printEvent(v.c, e, v.json)
}

// endHistory prints the newest of the past events that take has kept because of --last.
// If no event had a type of --type, endHistory prints which types there are. A second
// call of endHistory does nothing.
func (v *viewer) endHistory() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.past {
		return
	}
	if v.past = true; v.flags.last > 0 {
		for _, e := range v.recent[max(0, len(v.recent)-v.flags.last):] {
			v.shown++
			printEvent(v.c, e, v.json)
		}
		v.recent = nil
	}
	if v.shown == 0 && len(v.flags.types) > 0 && len(v.types) > 0 {
		var there []string
		for t := range v.types {
			there = append(there, t)
		}
		sort.Strings(there)
		fmt.Fprintf(v.c.ErrOrStderr(), "ttfabric: no event of type %s so far; there are events of type %s\n", strings.Join(v.flags.types, ", "), strings.Join(there, ", "))
	}
}

// Times for following new events.
const (
	settleTime = 300 * time.Millisecond // longest time to wait for the past events of the running chips
	attachPoll = 500 * time.Millisecond // time between two searches for newly started chips
)

// live prints events that the running chips report. These are past events that are
// not archived yet and, with --follow, new events as they happen.
func (v *viewer) live() error {
	ctx, cancel := context.WithCancel(v.c.Context())
	defer cancel()
	if v.flags.follow && !v.c.Flags().Changed("follow") && !terminal(v.c.OutOrStdout()) {
		fmt.Fprintln(v.c.ErrOrStderr(), "ttfabric: the command prints new events until Ctrl-C; with --follow=false it ends after the past events")
	}
	time.AfterFunc(settleTime, func() {
		if !v.flags.follow {
			cancel()
			return
		}
		v.endHistory()
	})
	type life struct {
		chip wire.FabricNodeID
		api  string // address of the API; a restarted chip may have another address
	}
	var wg sync.WaitGroup
	var attached sync.Map
	tick := time.NewTicker(attachPoll)
	defer tick.Stop()
	for ctx.Err() == nil {
		fab, err := openFabric(v.c)
		if err != nil {
			break // the fabric was taken down
		}
		for _, f := range fab.Running() {
			p := life{f.Chip, f.API}
			if _, on := attached.Load(p); on || !v.wants(f.Chip) {
				continue
			}
			attached.Store(p, true)
			wg.Go(func() {
				v.attach(ctx, fab.ClientAt(f))
				attached.Delete(p)
			})
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	cancel()
	wg.Wait()
	if v.c.Context().Err() == nil { // reads the last events, if the archive remains after 'ttfabric down'
		v.read(v.wants)
	}
	v.endHistory()
	return nil
}

// attach prints a chip's events until the chip or ctx ends. If the chip ends, attach
// reads the archived events of the chip, because a chip that ends cannot send its last
// events.
func (v *viewer) attach(ctx context.Context, cl *api.Client) {
	err := cl.Events(ctx, v.take)
	if ctx.Err() != nil {
		return
	}
	self := cl.Self()
	if _, herr := v.read(func(n wire.FabricNodeID) bool { return n == self }); herr != nil && err != nil && !errors.Is(herr, os.ErrNotExist) {
		fmt.Fprintln(v.c.ErrOrStderr(), "ttfabric:", err)
	}
}
