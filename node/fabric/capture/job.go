package capture

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"syscall"
	"time"

	"ttfabric/node/admin/api"
	"ttfabric/node/fabric"
	"ttfabric/wire"
	"ttfabric/wire/capture"
)

// Limits of a job.
const (
	retryTime = 500 * time.Millisecond // time between two attempts to reach a chip that does not answer
	endTime   = 2 * time.Second        // time at the end of a job for the chips to send their last frames
	tickTime  = 50 * time.Millisecond  // time between two checks of packets that wait for packets of other chips
	queueLen  = 4096                   // largest number of items that wait between the streams of the chips and the sink
)

// Job is a capture of many chips. A job runs once.
type Job struct {
	Say func(line string) // called with notices about chips that stop answering or come back, from the goroutine of [Job.Run]; nil: no notices

	fabric  *fabric.Fabric
	where   fabric.Where
	o       Options
	clients map[wire.FabricNodeID]*api.Client // clients of the chips that ran when the job was made
	missing []wire.FabricNodeID

	sink   Sink
	begin  time.Time
	ids    map[string]int       // interfaces by name
	past   []capture.Statistics // by interface: sum of the ended streams
	now    []capture.Statistics // by interface: latest statistics of the running stream
	came   []uint64             // by interface: number of packets from the running stream
	keys   map[string]bool      // lines of the key log that the sink has already
	merge  *capture.Merger
	frames int
	ended  bool // the job takes no more frames
}

// New prepares a capture at ports of a fabric; see [Ports]. The caller has checked
// the options with [Options.Check]. New returns an error if no chip runs.
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

// Missing returns the chips that did not run when the job was made. The job begins
// to capture a missing chip as soon as the chip runs.
func (j *Job) Missing() []wire.FabricNodeID { return j.missing }

// item is one piece of a chip's stream. Exactly one of the fields after the field
// source is set.
type item struct {
	source  int
	begins  bool // a new stream of the chip begins
	ends    bool // the stream ended
	iface   *capture.Interface
	packet  *capture.Packet
	stats   *capture.Statistics
	of      int // interface that stats belongs to
	keys    []byte
	message string
	fatal   error
}

// Run captures into the sink until ctx ends, a limit of the options is reached, or the
// fabric is down. Run then closes the sink. If the sink's reader disconnects
// ([syscall.EPIPE]), Run ends without an error. The summary is valid even if Run
// returns an error.
func (j *Job) Run(ctx context.Context, sink Sink) (Summary, error) {
	j.begin, j.sink = time.Now(), sink
	chips := slices.SortedFunc(maps.Keys(j.where), wire.FabricNodeID.Compare)
	j.merge = capture.NewMerger(len(chips))
	stop, done := context.WithCancel(ctx)
	defer done()
	if j.o.Duration > 0 {
		stop, done = context.WithTimeout(stop, j.o.Duration)
		defer done()
	}
	hard, cancel := context.WithCancel(context.WithoutCancel(ctx)) // ends streams that do not end by themselves
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
	for range items { // until all streams have ended
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

// take moves items from the streams to the sink. The function "done" tells the streams
// to end, and the function "cancel" ends the streams at once.
func (j *Job) take(stop context.Context, done, cancel func(), items <-chan item, sources int) error {
	ids := make([][]int, sources) // numbers in the sink of each source's interfaces
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
		for _, i := range ids[s] { // the chip counts from 0 again
			j.past[i], j.now[i], j.came[i] = add(j.past[i], j.running(i)), capture.Statistics{}, 0
		}
		ids[s] = nil
		j.merge.Open(time.Now(), s)
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

// interfaceOf returns the number that an interface has in the sink. Interfaces of
// the same name in several streams of a chip have the same number.
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

// newKeys gives the sink the key lines that the sink does not have yet. Each stream of
// a chip begins with all lines.
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

// release gives the sink the packets whose order is certain. If all is true, release
// gives the sink every packet.
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

// full reports whether the sink has reached the limit of frames or bytes in the
// options.
func (j *Job) full() bool {
	return j.o.Count > 0 && j.frames >= j.o.Count || j.o.LimitMiB > 0 && j.sink.Size() >= int64(j.o.LimitMiB)<<20
}
