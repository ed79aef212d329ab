package capture

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"syscall"
	"time"

	"ttfabric/node/admin/api"
	"ttfabric/node/fabric"
	"ttfabric/router/topo"
	"ttfabric/wire"
	"ttfabric/wire/capture"
)

// Limits of a job.
const (
	retryTime = 500 * time.Millisecond // time between two attempts to reach a chip that does not answer
	endTime   = 2 * time.Second        // longest time that chips may take to send their last frames at the end of a job
	tickTime  = 50 * time.Millisecond  // time between two checks whether a waiting packet can go to the sink
	queueLen  = 4096                   // largest number of items that may wait for the goroutine of Job.Run
)

// Job is a capture at the ports of many chips. A caller may call [Job.Run] only once.
type Job struct {
	Say func(line string) // gets a message when the capture has begun, and each time a chip stops answering or answers again; called in the goroutine of [Job.Run]; nil: no messages

	fabric  *fabric.Fabric
	where   fabric.Where
	o       Options
	clients map[wire.FabricNodeID]*api.Client // clients of the chips that ran when the job was made
	missing []wire.FabricNodeID

	sink   Sink
	begin  time.Time
	ids    map[string]int       // number of each interface in the sink, by the name of the interface
	past   []capture.Statistics // statistics of each interface, summed over the streams that have ended
	now    []capture.Statistics // latest statistics of each interface in the running stream
	came   []uint64             // number of packets that came from each interface in the running stream
	keys   map[string]bool      // lines of the TLS key log that the sink has already
	merge  *capture.Merger      // puts the packets of all chips in the order of time
	frames int                  // number of frames that went to the sink
	begun  map[int]bool         // numbers of the chips whose first stream has begun; see Job.tellBegun
	chips  []wire.FabricNodeID  // chips with ports of the capture, by their numbers
	ended  bool                 // a limit of the options is reached, so that the job takes no more frames
}

// New prepares a capture at ports of a fabric. The parameter "where" has the ports, as
// [Ports] returns them. The caller checks the options with [Options.Check] first. New
// returns an error if no chip runs.
func New(f *fabric.Fabric, where fabric.Where, o Options) (*Job, error) {
	cs, missing, err := f.Clients()
	if err != nil {
		return nil, err
	}
	j := &Job{fabric: f, where: where, o: o, clients: map[wire.FabricNodeID]*api.Client{}, ids: map[string]int{}, keys: map[string]bool{}}
	for _, c := range cs {
		j.clients[c.Self()] = c
	}
	for _, n := range missing {
		if where[n] != nil {
			j.missing = append(j.missing, n)
		}
	}
	return j, nil
}

// Missing returns the chips with ports of the capture that did not run at the call of [New]. As soon as a missing chip
// runs, the job begins to capture at the chip's ports.
func (j *Job) Missing() []wire.FabricNodeID { return j.missing }

// item is one piece of a chip's stream, or a message about the stream. Exactly one field
// other than source and of is set.
type item struct {
	source  int  // number of the chip among the chips of the job
	begins  bool // a new stream of the chip begins
	ends    bool // the stream ended
	iface   *capture.Interface
	packet  *capture.Packet
	stats   *capture.Statistics
	of      int    // number of the interface of stats, in the chip's stream
	keys    []byte // lines of a TLS key log
	message string // text for Job.Say
	fatal   error  // ends the job
}

// Run passes captured frames to the sink until ctx ends, until a limit of the options is
// reached, or until the fabric is taken down. Run then closes the sink. If the sink's
// reader disconnects ([syscall.EPIPE]), Run ends and returns no error. If a chip refuses
// to capture, Run returns the chip's error. The summary is valid even if Run returns an
// error, but then names no files.
func (j *Job) Run(ctx context.Context, sink Sink) (Summary, error) {
	j.begin, j.sink = time.Now(), sink
	chips := slices.SortedFunc(maps.Keys(j.where), wire.FabricNodeID.Compare)
	j.chips, j.begun = chips, map[int]bool{}
	j.merge = capture.NewMerger(len(chips))
	stop, done := context.WithCancel(ctx)
	defer done()
	if j.o.Duration > 0 {
		stop, done = context.WithTimeout(stop, j.o.Duration)
		defer done()
	}
	hard, cancel := context.WithCancel(context.WithoutCancel(ctx)) // when hard ends, streams end at once
	defer cancel()
	items := make(chan item, queueLen)
	var wg sync.WaitGroup
	for i, n := range chips {
		wg.Go(func() { j.follow(stop, hard, i, n, items) })
	}
	go func() { wg.Wait(); close(items) }()
	err := j.take(stop, done, cancel, items, len(chips))
	done()
	cancel()
	for range items { // waits until all streams have ended
	}
	if e := sink.Close(j.totals()); err == nil {
		err = e
	}
	if errors.Is(err, syscall.EPIPE) {
		err = nil // the reader needs no more frames
	}
	sum := j.summary(len(chips))
	if err == nil {
		sum.Files = sink.Files()
	}
	return sum, err
}

// take passes the items of all streams to the sink. The function "done" asks the chips to end
// their streams. The function "cancel" ends all streams at once.
func (j *Job) take(stop context.Context, done, cancel func(), items <-chan item, sources int) error {
	ids := make([][]int, sources) // ids[s][i] is the number in the sink of interface i of source s
	tick := time.NewTicker(tickTime)
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
			time.AfterFunc(endTime, cancel)
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

// item passes one item of a stream to the sink.
func (j *Job) item(it *item, ids [][]int) error {
	s := it.source
	switch {
	case it.fatal != nil:
		return it.fatal
	case it.message != "":
		if j.Say != nil {
			j.Say(it.message)
		}
	case it.begins:
		for _, i := range ids[s] { // the statistics of the new stream begin with 0
			j.past[i], j.now[i], j.came[i] = add(j.past[i], j.running(i)), capture.Statistics{}, 0
		}
		ids[s] = nil
		j.merge.Open(time.Now(), s)
		j.tellBegun(s)
	case it.ends:
		j.merge.Close(s)
	case it.iface != nil:
		i, err := j.interfaceOf(it.iface)
		if err != nil {
			return err
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

// tellBegun takes note that a stream of the chip with number s has begun. When each chip that ran at the call of [New]
// has begun its first stream, tellBegun says so. From this moment on, the capture misses no frame of these chips. If a
// chip started later, tellBegun says so when the chip's first stream begins.
func (j *Job) tellBegun(s int) {
	if j.Say == nil || s >= len(j.chips) || j.begun[s] {
		return
	}
	j.begun[s] = true
	if j.clients[j.chips[s]] == nil {
		j.Say(fmt.Sprintf("chip %s runs now; the capture at its ports has begun", j.chips[s]))
		return
	}
	ports, chips := 0, 0
	for i, n := range j.chips {
		switch {
		case j.clients[n] == nil:
		case !j.begun[i]:
			return
		default:
			ports, chips = ports+len(j.where[n]), chips+1
		}
	}
	cut := ""
	if j.o.SnapLen > 0 {
		cut = fmt.Sprintf(" The capture keeps the first %d bytes of each frame; --full keeps whole frames.", j.o.SnapLen)
	}
	j.Say(fmt.Sprintf("The capture has begun, at %s of %s.%s", topo.Count(ports, "port"), topo.Count(chips, "chip"), cut))
}

// interfaceOf returns the number of an interface in the sink. If the sink does not have an
// interface of this name, interfaceOf adds the interface. A port therefore keeps its number
// in later streams of its chip.
func (j *Job) interfaceOf(in *capture.Interface) (int, error) {
	i, known := j.ids[in.Name]
	if known {
		return i, nil
	}
	i = len(j.ids)
	j.ids[in.Name] = i
	j.past, j.now, j.came = append(j.past, capture.Statistics{}), append(j.now, capture.Statistics{}), append(j.came, 0)
	return i, j.sink.AddInterface(*in)
}

// newKeys passes the lines of a TLS key log to the sink, except lines that the sink has
// already. Each stream of a chip begins with all lines of the chip's key log.
func (j *Job) newKeys(lines []byte) error {
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

// release passes packets to the sink, in the order of time. A packet waits until no
// earlier packet can come from another chip, but for at most [capture.MergeHold]. If "all"
// is true, no packet waits. If the sink is full, release sets j.ended.
func (j *Job) release(all bool) error {
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

// full reports whether the sink has the largest number of frames or bytes that the options allow.
func (j *Job) full() bool {
	return j.o.Count > 0 && j.frames >= j.o.Count || j.o.LimitMiB > 0 && j.sink.Size() >= int64(j.o.LimitMiB)<<20
}
