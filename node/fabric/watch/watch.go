// Package watch shows the events of a fabric: the archived events, and the events that the running
// chips report.
package watch

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

	"ttfabric/node/admin/api"
	"ttfabric/node/archive"
	"ttfabric/node/fabric"
	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// Options say which events the caller of [Running] or [Archived] wants, and which functions get
// them.
type Options struct {
	Follow      bool                          // wait for new events after the past events, until the context ends or the fabric is taken down
	Since       time.Time                     // time of the first event; the zero time: all events, or those since the fabric was brought up
	Last        int                           // number of past events, the newest; 0: all past events
	Chips       map[wire.FabricNodeID]bool    // chips whose events are wanted; nil: all chips
	Types       []string                      // types of the wanted events; nil: all types
	Show        func(api.EventView)           // gets each wanted event once, in one goroutine at a time
	Warn        func(format string, a ...any) // gets messages for the user, such as those about damaged files, without a line end
	ArchiveRead func()                        // is called once after the archived events and before the events of running chips; nil: is not called
}

// viewer shows each wanted event exactly once, unless Last leaves out the event.
type viewer struct {
	Options
	ctx context.Context
	dir string         // the archive's folder
	fab *fabric.Fabric // the fabric that writes the archive; nil: no fabric needs to run

	mu     sync.Mutex
	seen   map[string]uint64 // number of the last event, by chip and incarnation
	types  map[string]int    // number of events by type, before Types leaves out events
	shown  int
	recent []api.EventView // past events so far, with Last
	past   bool            // true: all past events are shown
}

// Archived shows the events in the archive in the folder dir. If the folder holds no archive, or
// cannot be read, Archived returns an error.
func Archived(ctx context.Context, dir string, o Options) error {
	v := viewer{Options: o, ctx: ctx, dir: dir, seen: map[string]uint64{}, types: map[string]int{}}
	if err := v.history(); err != nil {
		return err
	}
	v.endHistory()
	return nil
}

// Running shows the archived events of a running fabric, and then the events that the running chips
// report. The function "open" opens the fabric. If the first call of "open" fails, Running returns
// the error. Running calls "open" again and again to find newly started chips. If a later call of
// "open" fails, Running ends without an error.
func Running(ctx context.Context, open func() (*fabric.Fabric, error), o Options) error {
	fab, err := open()
	if err != nil {
		return err
	}
	for n := range o.Chips {
		if _, ok := fab.Topology.Chip(n); !ok {
			return spec.Usagef("chip %s is not in %s", n, fab.Topology)
		}
	}
	if o.Since.IsZero() {
		o.Since = fab.Spec.Created
	}
	v := viewer{Options: o, ctx: ctx, dir: fab.Dir.ArchiveDir(&fab.Spec), fab: fab, seen: map[string]uint64{}, types: map[string]int{}}
	if err := v.history(); err != nil {
		return err
	}
	if o.ArchiveRead != nil {
		o.ArchiveRead()
	}
	return v.live(open)
}

// history shows the archived events. With Last, history shows nothing, but keeps the newest events
// for endHistory.
func (v *viewer) history() error {
	skipped, err := v.read(v.wants)
	switch {
	case errors.Is(err, os.ErrNotExist) && v.fab != nil:
		return nil // no chip could make an archive
	case err != nil && v.fab != nil:
		v.Warn("cannot read the archive; the following events are only those that the running chips still hold: %v", err)
	case err != nil:
		return fmt.Errorf("cannot read the archive: %w", err)
	}
	if v.fab == nil && len(v.seen) == 0 {
		if names, err := archive.Names(v.dir); err == nil && len(names) == 0 {
			return fmt.Errorf("--archive: the folder %s holds no archive%s", v.dir, v.below())
		}
	}
	if skipped.Damaged > 0 {
		v.Warn("%s of the archive in %s could not be read and were left out", topo.Count(skipped.Damaged, "damaged part"), v.dir)
	}
	return nil
}

// read calls [viewer.take] for each archived event of the chips for which want returns
// true. If chips run in containers, read first copies their latest events to the archive.
func (v *viewer) read(want func(wire.FabricNodeID) bool) (archive.Skipped, error) {
	if v.fab != nil {
		if err := v.fab.Archive(v.ctx); err != nil && v.ctx.Err() == nil {
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

func (v *viewer) wants(n wire.FabricNodeID) bool { return v.Chips == nil || v.Chips[n] }

// take shows an event if the event is new and requested. With Last, take keeps past
// events for endHistory instead.
func (v *viewer) take(e api.EventView) {
	v.mu.Lock()
	defer v.mu.Unlock()
	life := e.Chip.String() + e.Life
	if e.Seq <= v.seen[life] {
		return
	}
	v.seen[life] = e.Seq
	if e.Time.Before(v.Since) {
		return
	}
	v.types[e.Type]++
	if len(v.Types) > 0 && !slices.Contains(v.Types, e.Type) {
		return
	}
	if v.Last > 0 && !v.past {
		if len(v.recent) >= 2*v.Last {
			v.recent = v.recent[:copy(v.recent, v.recent[len(v.recent)-v.Last:])]
		}
		v.recent = append(v.recent, e)
		return
	}
	v.shown++
	v.Show(e)
}

// endHistory shows the newest of the past events that take has kept because of Last.
// If no event had a type of Types, endHistory says which types there are. A second
// call of endHistory does nothing.
func (v *viewer) endHistory() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.past {
		return
	}
	if v.past = true; v.Last > 0 {
		for _, e := range v.recent[max(0, len(v.recent)-v.Last):] {
			v.shown++
			v.Show(e)
		}
		v.recent = nil
	}
	if v.shown == 0 && len(v.Types) > 0 && len(v.types) > 0 {
		var there []string
		for t := range v.types {
			there = append(there, t)
		}
		sort.Strings(there)
		v.Warn("no event of type %s so far; there are events of type %s", strings.Join(v.Types, ", "), strings.Join(there, ", "))
	}
}

// Times for following new events.
const (
	settleTime = 300 * time.Millisecond // longest time to wait for the past events of the running chips
	attachPoll = 500 * time.Millisecond // time between two searches for newly started chips
)

// live shows events that the running chips report. These are past events that are
// not archived yet and, with Follow, new events as they happen.
func (v *viewer) live(open func() (*fabric.Fabric, error)) error {
	ctx, cancel := context.WithCancel(v.ctx)
	defer cancel()
	time.AfterFunc(settleTime, func() {
		if !v.Follow {
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
	sizes := map[wire.FabricNodeID]int64{} // size of the archive of each chip that did not run at the last search
	for first := true; ctx.Err() == nil; first = false {
		fab, err := open()
		if err != nil {
			break // the fabric was taken down
		}
		running := fab.Running()
		for _, f := range running {
			p := life{f.Chip, f.API}
			if _, on := attached.Load(p); on || !v.wants(f.Chip) {
				continue
			}
			attached.Store(p, true)
			wg.Go(func() {
				if !first { // the chip may have started and ended several times since the last search
					v.reread(f.Chip)
				}
				v.attach(ctx, fab.ClientAt(f))
				attached.Delete(p)
			})
		}
		v.searchEnded(fab.Topology, running, sizes)
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	cancel()
	wg.Wait()
	if v.ctx.Err() == nil { // reads the last events, if the archive remains after 'ttfabric down'
		v.read(v.wants)
	}
	v.endHistory()
	return nil
}

// reread shows the archived events of one chip that were not shown yet.
func (v *viewer) reread(n wire.FabricNodeID) error {
	_, err := v.read(func(m wire.FabricNodeID) bool { return m == n })
	return err
}

// searchEnded shows the events of chips that started and ended between two searches. The archive of a chip that
// started and ended has grown. The argument "running" lists the chips that run. The argument "sizes" holds the sizes
// of the archives at the last search.
func (v *viewer) searchEnded(t *topo.Topology, running []folder.Chip, sizes map[wire.FabricNodeID]int64) {
	runs := map[wire.FabricNodeID]bool{}
	for _, f := range running {
		runs[f.Chip] = true
	}
	for _, n := range t.Nodes() {
		if runs[n] || !v.wants(n) {
			delete(sizes, n)
			continue
		}
		size := archive.Size(v.dir, n.String())
		if last, known := sizes[n]; !known || size != last {
			v.reread(n)
		}
		sizes[n] = size
	}
}

// attach shows a chip's events until the chip or ctx ends. If the chip ends, attach
// reads the archived events of the chip, because a chip that ends cannot send its last
// events.
func (v *viewer) attach(ctx context.Context, cl *api.Client) {
	err := cl.Events(ctx, v.take)
	if ctx.Err() != nil {
		return
	}
	if herr := v.reread(cl.Self()); herr != nil && err != nil && !errors.Is(herr, os.ErrNotExist) {
		v.Warn("%v", err)
	}
}
