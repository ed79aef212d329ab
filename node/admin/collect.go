package admin

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"ttfabric/node"
	"ttfabric/node/admin/api"
	"ttfabric/node/archive"
	"ttfabric/wire"
)

// Limits of the collection of events.
const (
	collectBatch = 64          // events that are written at once
	collectRate  = 1000        // events that are archived per second, over a time;
	collectBurst = 4000        // and at once. Further ones are counted in the next one
	agePoll      = time.Minute // how often a segment's age is looked at
	fullPoll     = time.Second // how often it is tried to write while that fails
)

// collector writes a node's events into its archive.
type collector struct {
	n      *node.Node
	self   wire.FabricNodeID
	w      *archive.Writer
	log    *slog.Logger
	tokens float64
	at     time.Time // of tokens
	over   uint64    // events left out since the last one archived
	poll   time.Duration
	buf    []byte
}

// Collect archives the events of a node until it is closed (Spec §7.1); stop
// then waits for the last ones. Each chip's process writes for itself, so
// there is no collector to lose: what a chip that was killed had to say is in
// its files. An archive that cannot be opened or written is told of in the log
// and as an event, and stops nothing.
func Collect(n *node.Node, cfg archive.Config, log *slog.Logger) (stop func()) {
	w, err := archive.Open(cfg, time.Now())
	if err != nil {
		log.Warn("events are not archived until this chip is started again", "folder", cfg.Dir, "error", err)
		n.TellArchive(node.ArchiveEvent{Err: err, Path: cfg.Dir})
		return func() {}
	}
	c := &collector{n: n, self: n.Self(), w: w, log: log, tokens: collectBurst, at: time.Now(), poll: agePoll}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.run()
	}()
	return func() { <-done }
}

func (c *collector) run() {
	events, cancel := c.n.Events()
	defer cancel()
	tick := time.NewTicker(c.poll)
	defer tick.Stop()
	for {
		before := c.poll
		select {
		case e, ok := <-events:
			if !ok {
				if err := c.w.Close(time.Now()); err != nil {
					c.log.Warn("the archive is not complete", "error", err)
				}
				return
			}
			c.write(time.Now(), e, events)
		case <-tick.C:
			c.tell(c.w.Retry(time.Now()))
		}
		if c.poll != before {
			tick.Reset(c.poll)
		}
	}
}

// write archives an event and those that wait behind it.
func (c *collector) write(now time.Time, e node.Event, more <-chan node.Event) {
	c.tokens = min(collectBurst, c.tokens+max(0, now.Sub(c.at).Seconds())*collectRate)
	c.at = now
	c.buf = c.buf[:0]
	c.add(e)
	for k := 1; k < collectBatch && len(more) > 0; k++ {
		if e, ok := <-more; ok {
			c.add(e)
		}
	}
	notice, err := c.w.Append(now, c.buf)
	if err != nil {
		c.log.Warn("events could not be archived", "error", err)
	}
	c.tell(notice)
}

// add appends an event's line to the batch.
func (c *collector) add(e node.Event) {
	if c.tokens < 1 {
		c.over += 1 + e.Lost
		return
	}
	c.tokens--
	e.Lost += c.over
	c.over = 0
	b, _ := json.Marshal(EventOf(c.self, e))
	c.buf = append(append(c.buf, b...), '\n')
}

// tell passes on that the archive stopped, or goes on.
func (c *collector) tell(n *archive.Notice) {
	if n == nil {
		return
	}
	c.n.TellArchive(node.ArchiveEvent(*n))
	if n.Err != nil {
		c.poll = fullPoll
		c.log.Warn("events are not archived for now, the fabric runs on; make room, or keep the archive elsewhere with 'ttfabric up --archive'", "path", n.Path, "error", n.Err)
		return
	}
	c.poll = agePoll
	c.log.Info("events are archived again", "path", n.Path, "lost", n.Lost, "after", n.For.Round(time.Millisecond))
}

// archiveEvent renders an event of the archive.
func archiveEvent(v *api.EventView, e *node.ArchiveEvent) {
	v.Type, v.Action, v.Actor = "archive", "stopped", v.Chip.String()
	v.Detail["path"] = e.Path
	if e.Err != nil {
		v.Detail["reason"] = e.Err.Error()
		return
	}
	v.Action = "resumed"
	v.Detail["lost"], v.Detail["after"] = fmt.Sprint(e.Lost), e.For.Round(time.Millisecond).String()
}
