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
	collectBatch = 64          // largest number of events in one write
	collectRate  = 1000        // largest average number of events per second that the collector archives; the next archived event counts the events left out
	collectBurst = 4000        // largest number of events that the collector archives at once, after a quiet period
	agePoll      = time.Minute // time between two checks of the age of the archive's segment
	fullPoll     = time.Second // time between two attempts to write, if writing fails
)

// collector writes a node's events into its archive.
type collector struct {
	n      *node.Node
	self   wire.FabricNodeID
	w      *archive.Writer
	log    *slog.Logger
	tokens float64       // number of events that the collector may archive now; grows by collectRate per second, up to collectBurst
	at     time.Time     // time at which tokens was last updated
	over   uint64        // number of events left out since the last archived event
	poll   time.Duration // time until the next check of the archive
	buf    []byte        // lines of the next write
}

// Collect archives the events of a node until the node is closed (Spec §7.1). The function "stop"
// waits until the node is closed and its last events are archived. Each chip's process archives the
// events of its own chip, and the archive remains if the process is killed. If Collect cannot open
// the archive, Collect reports the error in the log and as an event. The chip then runs without an
// archive.
func Collect(n *node.Node, cfg archive.Config, log *slog.Logger) (stop func()) {
	w, err := archive.Open(cfg, time.Now())
	if err != nil {
		log.Warn("events are not archived until this chip restarts", "folder", cfg.Dir, "error", err)
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

// write archives the event e, and up to collectBatch-1 events that wait in the Go channel "more".
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

// add appends an event's line to buf. If collectRate allows no further event now, add only counts
// the event as left out.
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

// tell reports in the log and as an event that the archive has stopped, or writes again.
func (c *collector) tell(n *archive.Notice) {
	if n == nil {
		return
	}
	c.n.TellArchive(node.ArchiveEvent(*n))
	if n.Err != nil {
		c.poll = fullPoll
		c.log.Warn("events are not archived at present, but the fabric continues; free space on the disk, or move the archive with 'ttfabric up --archive'", "path", n.Path, "error", n.Err)
		return
	}
	c.poll = agePoll
	c.log.Info("events are archived again", "path", n.Path, "lost", n.Lost, "after", n.For.Round(time.Millisecond))
}

// archiveEvent writes into v that the archive has stopped, or writes again.
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
