package replay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"ttfabric/node"
	"ttfabric/node/admin"
	"ttfabric/node/chip"
	"ttfabric/node/chip/record"
)

// Record is one record of a recording, in the form that `replay --show -o json` prints.
type Record struct {
	Call uint64        `json:"call"`    // number of the call to which the record belongs
	Time time.Duration `json:"time_ns"` // time of the record on the chip's clock
	Kind string        `json:"kind"`    // kind of the record
	Text string        `json:"text"`    // content of the record, for people
}

// Show prints the content of a recording. If the file ends too early,
// Show calls "short" with the reason, and returns no error. If the file is damaged,
// Show returns an error.
func Show(ctx context.Context, path string, o Options, short func(*record.Cut)) error {
	file, r, err := Open(ctx, path)
	if err != nil {
		return err
	}
	defer file.Close()
	p := printer{Options: o, ctx: ctx, r: r}
	for {
		rec, err := r.Next()
		var cut *record.Cut
		switch {
		case errors.Is(err, io.EOF):
			if why, text := r.End(); o.Events == nil && o.Line == nil {
				fmt.Fprintf(o.Out, "end: %s %s\n", why, text)
			}
			return nil
		case errors.As(err, &cut):
			if !cut.Short {
				return fmt.Errorf("%s: %w", path, cut)
			}
			short(cut)
			return nil
		case err != nil:
			return err
		}
		if more, err := p.print(&rec); !more || err != nil {
			return err
		}
	}
}

// printer prints the records of a recording.
type printer struct {
	Options
	ctx   context.Context
	r     *record.Reader
	calls uint64
}

// print prints a record if the options ask for this record. If the options ask for no
// further record, the result "more" is false.
func (p *printer) print(rec *record.Record) (more bool, err error) {
	call := rec.Kind < record.Kind(chip.NumOps)
	if call {
		p.calls++
	}
	if p.Until > 0 && p.calls > p.Until || p.At > 0 && time.Duration(p.r.Now()) > p.At || p.ctx.Err() != nil {
		return false, p.ctx.Err()
	}
	if p.Events != nil {
		if rec.Kind == record.Kind(chip.OpPollEvent) && rec.OK {
			var e chip.Event
			if err := json.Unmarshal(rec.Data, &e); err != nil {
				return false, fmt.Errorf("call %d holds an event that cannot be read: %w", p.calls, err)
			}
			h := p.r.Header()
			at := time.UnixMilli(h.Begun).Add(time.Duration(e.At))
			p.Events(admin.EventOf(h.Config.Node, node.Event{Time: at, Chip: &e}))
		}
		return true, nil
	}
	if !p.Verbose && idle(rec) {
		return true, nil
	}
	if p.Line != nil {
		return true, p.Line(Record{p.calls, time.Duration(p.r.Now()), rec.Kind.String(), record.Describe(rec)})
	}
	indent := ""
	if !call {
		indent = "  "
	}
	_, err = fmt.Fprintf(p.Out, "%8d %14v  %s%s\n", p.calls, p.r.Now(), indent, record.Describe(rec))
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
