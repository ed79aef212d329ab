package main

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"ttfabric/node"
	"ttfabric/node/admin"
	"ttfabric/node/chip"
	"ttfabric/node/chip/record"
)

// recordPrinter prints the records of a recording.
type recordPrinter struct {
	c      *cobra.Command
	r      *record.Reader
	f      replayFlags
	asJSON bool
	calls  uint64
}

// print prints a record if the flags ask for this record. If the flags ask for no
// further record, the result "more" is false.
func (p *recordPrinter) print(rec *record.Record) (more bool, err error) {
	call := rec.Kind < record.Kind(chip.NumOps)
	if call {
		p.calls++
	}
	if p.f.until > 0 && p.calls > p.f.until || p.f.at > 0 && time.Duration(p.r.Now()) > p.f.at || p.c.Context().Err() != nil {
		return false, p.c.Context().Err()
	}
	if p.f.events {
		if rec.Kind == record.Kind(chip.OpPollEvent) && rec.OK {
			var e chip.Event
			if err := json.Unmarshal(rec.Data, &e); err != nil {
				return false, fmt.Errorf("call %d holds an event that cannot be read: %w", p.calls, err)
			}
			h := p.r.Header()
			at := time.UnixMilli(h.Begun).Add(time.Duration(e.At))
			printEvent(p.c, admin.EventOf(h.Config.Node, node.Event{Time: at, Chip: &e}), p.asJSON)
		}
		return true, nil
	}
	if !p.f.verbose && idle(rec) {
		return true, nil
	}
	w := p.c.OutOrStdout()
	if p.asJSON {
		return true, printLine(p.c, shownRecord{p.calls, time.Duration(p.r.Now()), rec.Kind.String(), record.Describe(rec)})
	}
	indent := ""
	if !call {
		indent = "  "
	}
	_, err = fmt.Fprintf(w, "%8d %14v  %s%s\n", p.calls, p.r.Now(), indent, record.Describe(rec))
	return true, err
}

// idle returns true for a call without a result, and for a record that holds only a time.
func idle(r *record.Record) bool {
	switch r.Kind {
	case record.Kind(chip.OpPump), record.Kind(chip.OpTick), record.Kind(chip.OpDeadline), record.KindDue, record.KindClientDeadline:
		return true
	case record.Kind(chip.OpPollTransmit), record.Kind(chip.OpPollResult), record.Kind(chip.OpPollEvent), record.KindNext:
		return !r.OK
	}
	return false
}
