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
	c := &cobra.Command{Use: "events [CHIP]", Short: "Show what has happened and what happens", Args: cobra.MaximumNArgs(1),
		Long: `events prints what has happened since the fabric was brought up, by time, and
goes on as it happens, until Ctrl-C or 'ttfabric down': links, packets given up,
chips that join and leave, faults that were injected.

Each chip archives its events in files of its own, so those of a chip that is
dead are there too. With --since or --last it ends after the history, unless -f
says otherwise. With -o json it prints one JSON object a line; seq counts the
events of one life of a chip, so a gap in it is a loss.`,
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
	fl.BoolVarP(&f.follow, "follow", "f", false, "go on with what happens next (the default unless --since, --last or --archive is given)")
	fl.StringVar(&f.since, "since", "", "only events of this past time, such as 10m, or from an instant on, such as 2026-01-02T15:04:05")
	fl.IntVar(&f.last, "last", 0, "only the last so many of the history; 0: all")
	fl.StringSliceVar(&f.chips, "chip", nil, "only those that these chips tell of")
	fl.StringSliceVar(&f.types, "type", nil, "only those of these types, such as link, packet, member, fault, archive")
	fl.StringVar(&f.archive, "archive", "", "read this archive's folder instead of the running fabric's")
	return c
}

// parseSince reads "10m" or an instant in local time or with an offset.
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
	return time.Time{}, spec.Usagef("--since %q: want a time that has passed, such as 90s or 10m, or an instant such as 2026-01-02T15:04:05", s)
}

// viewer prints each event once that it is asked for.
type viewer struct {
	c     *cobra.Command
	json  bool
	flags eventFlags
	chips map[wire.FabricNodeID]bool // nil: all
	since time.Time
	dir   string         // the archive's folder
	fab   *fabric.Fabric // whose archive it is; nil for a folder that is named

	mu     sync.Mutex
	seen   map[string]uint64 // last event by chip and life
	types  map[string]int    // that came by, for a misspelt --type
	shown  int
	recent []api.EventView // with --last: the history so far
	past   bool            // the history is through
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
			return spec.Usagef("--archive reads files that are there: leave --follow out")
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

// history prints what is archived, or keeps the last of it.
func (v *viewer) history() error {
	skipped, err := v.read(v.wants)
	switch {
	case errors.Is(err, os.ErrNotExist) && v.flags.archive == "":
		return nil // no chip could make it
	case err != nil && v.flags.archive == "":
		fmt.Fprintln(v.c.ErrOrStderr(), "ttfabric: cannot read the archive, so only what the running chips remember follows:", err)
	case err != nil:
		return fmt.Errorf("cannot read the archive: %w", err)
	}
	if v.flags.archive != "" && len(v.seen) == 0 {
		if names, err := archive.Names(v.dir); err == nil && len(names) == 0 {
			return fmt.Errorf("no archive in %s%s", v.dir, v.below())
		}
	}
	if skipped.Damaged > 0 {
		fmt.Fprintf(v.c.ErrOrStderr(), "ttfabric: %s in %s could not be read\n", topo.Count(skipped.Damaged, "part"), v.dir)
	}
	return nil
}

// read reads the archive as it is now.
func (v *viewer) read(want func(wire.FabricNodeID) bool) (archive.Skipped, error) {
	if v.fab != nil {
		if err := v.fab.Archive(v.c.Context()); err != nil && v.c.Context().Err() == nil {
			return archive.Skipped{}, err
		}
	}
	return fabric.History(v.dir, want, v.take)
}

// below names archives in folders of the one that was named.
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
	return "; it has the folders " + strings.Join(names, ", ")
}

func (v *viewer) wants(n wire.FabricNodeID) bool { return v.chips == nil || v.chips[n] }

// take prints an event that was not seen yet, if it is asked for.
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

// endHistory prints what was kept back of the history.
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
		fmt.Fprintf(v.c.ErrOrStderr(), "ttfabric: no event yet of type %s; there are %s\n", strings.Join(v.flags.types, ", "), strings.Join(there, ", "))
	}
}

// Times of following.
const (
	settleTime = 300 * time.Millisecond // that the latest history of a running chip may take to come
	attachPoll = 500 * time.Millisecond // how often chips that were started are looked for
)

// live adds what the running chips have to say: the latest history that is
// not archived, and, to follow, what happens from now on.
func (v *viewer) live() error {
	ctx, cancel := context.WithCancel(v.c.Context())
	defer cancel()
	time.AfterFunc(settleTime, func() {
		if !v.flags.follow {
			cancel()
			return
		}
		v.endHistory()
	})
	type life struct {
		chip wire.FabricNodeID
		api  string // each life of a chip has its API elsewhere
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
	if v.c.Context().Err() == nil { // the last words, where the archive is kept
		v.read(v.wants)
	}
	v.endHistory()
	return nil
}

// attach prints a chip's events until it goes away; what it could not send any more is in its files.
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
