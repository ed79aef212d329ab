package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"time"

	"ttfabric/node/admin/api"
	"ttfabric/router/topo"
	"ttfabric/wire"
	"ttfabric/wire/capture"
)

// captureSink is where a capture goes. Its packets' interfaces are numbered in the order of AddInterface.
type captureSink interface {
	AddInterface(i capture.Interface) error
	Packet(p *capture.Packet) error
	Keys(lines []byte) error
	Flush() error
	Size() int64 // bytes so far, of all files
	Close(stats []capture.Statistics) error
	Names() string // of the files, for the summary
}

// captureJob is a running capture of many chips.
type captureJob struct {
	dir   runDir
	t     *topo.Topology
	where map[wire.FabricNodeID][]wire.Channel
	flags *captureFlags
	sink  captureSink
	say   io.Writer // for people; nil: nobody

	begin  time.Time
	ids    map[string]int       // interfaces by name
	stats  []capture.Statistics // of the streams that are over
	now    []capture.Statistics // of those that run, as last told
	came   []uint64             // packets of those that run
	keys   map[string]bool      // that were written
	merge  *capture.Merger
	frames int
	ended  bool // no more frames are taken
}

// captureItem is something that a chip's stream yields; one of the fields behind source is set.
type captureItem struct {
	source  int
	begins  bool // a new stream of the chip
	ends    bool // of it
	iface   *capture.Interface
	packet  *capture.Packet
	stats   *capture.Statistics
	of      int
	keys    []byte
	message string
	fatal   error
}

// captureQueue is how many items wait between the streams and the file.
const captureQueue = 4096

// run captures until ctx ends, or the flags say so.
func (j *captureJob) run(ctx context.Context) error {
	j.begin = time.Now()
	chips := slices.SortedFunc(maps.Keys(j.where), func(a, b wire.FabricNodeID) int { return int(a.Mesh)<<16 + int(a.Chip) - int(b.Mesh)<<16 - int(b.Chip) })
	j.merge, j.ids, j.keys = capture.NewMerger(len(chips)), map[string]int{}, map[string]bool{}
	stop, done := context.WithCancel(ctx)
	defer done()
	if j.flags.duration > 0 {
		stop, done = context.WithTimeout(stop, j.flags.duration)
		defer done()
	}
	hard, cancel := context.WithCancel(context.WithoutCancel(ctx)) // ends what doesn't end in order
	defer cancel()
	items := make(chan captureItem, captureQueue)
	var wg sync.WaitGroup
	for i, n := range chips {
		wg.Go(func() { j.follow(stop, hard, i, n, items) })
	}
	go func() { wg.Wait(); close(items) }()
	err := j.take(stop, done, cancel, items, len(chips))
	done()
	cancel()
	for range items { // the streams end
	}
	if e := j.sink.Close(j.totals()); err == nil {
		err = e
	}
	if errors.Is(err, syscall.EPIPE) {
		err = nil // the reader has what it wanted
	}
	written := j.sink.Names()
	if err != nil {
		written = ""
	}
	j.summary(written, len(chips))
	return err
}

// take takes what the streams yield to the sink. done tells the streams to end.
func (j *captureJob) take(stop context.Context, done, cancel func(), items <-chan captureItem, sources int) error {
	ids := make([][]int, sources) // of each source's interfaces
	tick := time.NewTicker(captureTick)
	defer tick.Stop()
	stopped := stop.Done()
	for {
		var err error
		select {
		case it, ok := <-items:
			if !ok {
				return j.release(true)
			}
			err = j.item(&it, ids)
		case <-tick.C:
		case <-stopped:
			stopped = nil
			time.AfterFunc(captureEnd, cancel)
		}
		if err == nil {
			err = j.release(false)
		}
		if err == nil && len(items) == 0 {
			err = j.sink.Flush()
		}
		if err != nil {
			return err
		}
		if j.ended {
			done()
		}
	}
}

// item takes one item.
func (j *captureJob) item(it *captureItem, ids [][]int) error {
	s := it.source
	switch {
	case it.fatal != nil:
		return it.fatal
	case it.message != "":
		if j.say != nil {
			fmt.Fprintln(j.say, it.message)
		}
	case it.begins:
		for _, i := range ids[s] { // the counters begin anew
			j.stats[i], j.now[i], j.came[i] = add(j.stats[i], j.life(i)), capture.Statistics{}, 0
		}
		ids[s] = nil
		j.merge.Open(time.Now(), s)
	case it.ends:
		j.merge.Close(s)
	case it.iface != nil:
		i, known := j.ids[it.iface.Name]
		if !known {
			i = len(j.ids)
			j.ids[it.iface.Name] = i
			j.stats, j.now, j.came = append(j.stats, capture.Statistics{}), append(j.now, capture.Statistics{}), append(j.came, 0)
			if err := j.sink.AddInterface(*it.iface); err != nil {
				return err
			}
		}
		ids[s] = append(ids[s], i)
	case it.stats != nil:
		j.now[ids[s][it.of]] = *it.stats
		j.merge.Past(time.Now(), s, it.stats.End)
	case it.keys != nil:
		return j.newKeys(it.keys)
	case it.packet != nil && !j.ended:
		p := *it.packet
		p.Interface = ids[s][p.Interface]
		j.came[p.Interface]++
		j.merge.Add(time.Now(), s, p)
	}
	return nil
}

// newKeys passes on the lines that did not come yet: after a restart a stream begins with all.
func (j *captureJob) newKeys(lines []byte) error {
	var fresh []byte
	for line := range bytes.Lines(lines) {
		if !j.keys[string(line)] {
			j.keys[string(line)] = true
			fresh = append(fresh, line...)
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	return j.sink.Keys(fresh)
}

// release gives the sink what is in order, or with all everything.
func (j *captureJob) release(all bool) error {
	now := time.Now()
	for !j.full() {
		p, ok := j.merge.Next(now, all)
		if !ok {
			return nil
		}
		if err := j.sink.Packet(&p); err != nil {
			return err
		}
		j.frames++
	}
	j.ended = true
	return nil
}

// full reports whether as many frames, or bytes, as asked for are written.
func (j *captureJob) full() bool {
	return j.flags.count > 0 && j.frames >= j.flags.count || j.flags.limit > 0 && j.sink.Size() >= int64(j.flags.limit)<<20
}

// follow reads a chip's streams until stop ends: one, and another one whenever the chip has come back.
func (j *captureJob) follow(stop, hard context.Context, source int, n wire.FabricNodeID, items chan<- captureItem) {
	put := func(it captureItem) {
		it.source = source
		select {
		case items <- it:
		case <-hard.Done():
		}
	}
	lost := false
	for stop.Err() == nil {
		began, err := j.stream(stop, hard, n, put, lost)
		var refused *api.StatusError
		switch {
		case stop.Err() != nil:
			return
		case errors.As(err, &refused) && refused.Code != http.StatusUnauthorized: // that is a fabric of the same name, started anew
			if refused.Code == http.StatusNotFound {
				err = fmt.Errorf("chip %s is of a version that cannot capture; restart it", n)
			}
			put(captureItem{fatal: err})
			return
		case began:
			put(captureItem{message: fmt.Sprintf("chip %s is gone; its capture goes on once it is back", n)})
			lost = true
		}
		if _, _, _, err := j.dir.mesh(); err != nil {
			return // the fabric is down
		}
		select {
		case <-stop.Done():
		case <-time.After(captureRetry):
		}
	}
}

// stream reads one stream of a chip to its end.
func (j *captureJob) stream(stop, hard context.Context, n wire.FabricNodeID, put func(captureItem), again bool) (began bool, err error) {
	var b [12]byte
	rand.Read(b[:])
	st, err := j.open(hard, n, hex.EncodeToString(b[:]))
	if err != nil {
		return false, err
	}
	defer st.Close()
	ended := context.AfterFunc(stop, func() {
		ctx, cancel := context.WithTimeout(hard, captureEnd)
		defer cancel()
		if st.End(ctx) != nil {
			st.Close()
		}
	})
	defer ended()
	r, err := capture.NewReader(st)
	if err != nil {
		return false, fmt.Errorf("chip %s: %w", n, err)
	}
	put(captureItem{begins: true})
	if again {
		put(captureItem{message: fmt.Sprintf("chip %s is back", n)})
	}
	for {
		k, err := r.Next()
		if err != nil {
			put(captureItem{ends: true})
			return true, err
		}
		it := captureItem{iface: k.Interface, stats: k.Statistics, of: k.Of, keys: k.Keys}
		if k.Packet != nil {
			p := *k.Packet
			p.Data = bytes.Clone(p.Data)
			it.packet = &p
		}
		put(it)
	}
}

// add sums up two lives of a port.
func add(a, b capture.Statistics) capture.Statistics {
	if a.Start.IsZero() || !b.Start.IsZero() && b.Start.Before(a.Start) {
		a.Start = b.Start
	}
	if b.End.After(a.End) {
		a.End = b.End
	}
	a.Received, a.Accepted, a.Dropped = a.Received+b.Received, a.Accepted+b.Accepted, a.Dropped+b.Dropped
	a.Comments = b.Comments
	return a
}

// life is what is known of an interface's running stream: a chip that was killed could not tell the last of it.
func (j *captureJob) life(i int) capture.Statistics {
	s := j.now[i]
	s.Accepted = max(s.Accepted, j.came[i]+s.Dropped)
	s.Received = max(s.Received, s.Accepted)
	if s.Start.IsZero() && j.came[i] > 0 {
		s.Start, s.End = j.begin, time.Now()
	}
	return s
}

// totals are the statistics of all interfaces.
func (j *captureJob) totals() []capture.Statistics {
	out := make([]capture.Statistics, len(j.stats))
	for i := range out {
		out[i] = add(j.stats[i], j.life(i))
	}
	return out
}

// summary says what has been captured.
func (j *captureJob) summary(written string, chips int) {
	if j.say == nil {
		return
	}
	var dropped, passed uint64
	for _, s := range j.totals() {
		dropped, passed = dropped+s.Dropped, passed+s.Received
	}
	fmt.Fprintf(j.say, "%s of %d that passed %s of %s in %.1f s%s; %d dropped by the capture\n",
		counted(j.frames, "frame"), passed, counted(len(j.ids), "port"), counted(chips, "chip"), time.Since(j.begin).Seconds(), written, dropped)
	if dropped > 0 {
		fmt.Fprintln(j.say, "For fewer drops take a --filter, fewer ports, a --snaplen, or a larger --buffer.")
	}
	if j.flags.keys && len(j.keys) == 0 {
		fmt.Fprintln(j.say, "No keys came: only ports of --transport quic have any, and chips keep them only where the fabric was started with --keylog.")
	}
	if j.merge.Late > 0 {
		fmt.Fprintf(j.say, "%s stand behind later ones, as they came too late from their chips; 'reordercap' sorts them\n", counted(int(j.merge.Late), "frame"))
	}
}
