package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"ttfabric/node/chip"
	"ttfabric/node/chip/record"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// DefaultRecordLimit is the default of Recording.Limit, in bytes.
const DefaultRecordLimit = 256 << 20

// recordBacklog is the number of blocks of [record.BlockBytes] that may wait to be written. If more
// blocks would wait, the chip waits for the disk. A recording therefore has no gaps.
const recordBacklog = 16

// Recording says where a node records its chip's calls, and how large the recording may grow.
type Recording struct {
	Dir     string // folder of the recordings, one file for each incarnation of a chip; the node makes the folder
	Limit   int64  // largest size of the file, in bytes; the recording stops before the file is larger; 0: DefaultRecordLimit
	Program string // version of the recording program, for people who read the file
}

// RecordEvent reports that a recording has begun or has ended.
type RecordEvent struct {
	File  string
	Ended bool
	Bytes int64  // size of the file so far, in bytes
	Why   string // why the recording has ended
}

// RecordFile returns the file name of the recording of one incarnation of a chip.
func RecordFile(n wire.FabricNodeID, i wire.Incarnation) string {
	return fmt.Sprintf("chip-%s-%016x.ttrec", n, uint64(i))
}

// recording writes the calls of one incarnation of a chip to a file. The steps of the node fill
// blocks with calls. A separate goroutine compresses the blocks and writes them.
type recording struct {
	tape   *record.Recorder // the node's lock guards it
	blocks chan []byte
	empty  chan []byte
	ended  sync.WaitGroup
	file   *os.File
	w      *record.Writer
	hub    *hub
	why    record.EndReason // the reason for the recording's end, written into the file

	mu  sync.Mutex
	err error // why the recording ended early; nil: the recording has not ended early
}

// startRecording makes the recording's file and puts the recorder around the chip. The node calls
// startRecording before the chip gets its first input.
func (n *Node) startRecording(now mono.Time, cfg chip.Config) error {
	o := n.cfg.Record
	if o == nil {
		return nil
	}
	limit := o.Limit
	if limit == 0 {
		limit = DefaultRecordLimit
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return fmt.Errorf("chip %s cannot be recorded: %w", cfg.Node, err)
	}
	path := filepath.Join(o.Dir, RecordFile(cfg.Node, cfg.Incarnation))
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("chip %s cannot be recorded: %w", cfg.Node, err)
	}
	w, err := record.NewWriter(f, record.Header{Program: o.Program, Begun: n.start.UnixMilli(), Started: now, Config: cfg}, limit)
	if err != nil {
		f.Close()
		os.Remove(path)
		return fmt.Errorf("chip %s cannot be recorded: %w", cfg.Node, err)
	}
	r := &recording{blocks: make(chan []byte, recordBacklog), empty: make(chan []byte, recordBacklog+1), file: f, w: w, hub: n.events, why: record.EndClosed}
	r.tape = record.NewRecorder(now, r.take)
	n.chip.Wrap(r.tape.Wrap)
	n.record = r
	r.tell(RecordEvent{})
	r.ended.Go(r.write)
	return nil
}

func (r *recording) tell(e RecordEvent) {
	e.File, e.Bytes = r.file.Name(), r.w.Bytes()
	r.hub.publish(Event{Time: time.Now(), Record: &e})
}

// take queues a full block of the recorder for writing, and returns an empty block. If writing has
// failed, take returns the error.
func (r *recording) take(block []byte) ([]byte, error) {
	if err := r.failure(); err != nil {
		return nil, err
	}
	r.blocks <- block
	select {
	case b := <-r.empty:
		return b[:0], nil
	default:
		return make([]byte, 0, record.BlockBytes+record.BlockBytes/4), nil
	}
}

func (r *recording) failure() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// write compresses and writes the queued blocks, until the queue of blocks is closed. write then
// ends the file. After an error, write drops all further blocks.
func (r *recording) write() {
	for b := range r.blocks {
		if r.failure() != nil {
			continue
		}
		if err := r.w.Block(b); err != nil {
			r.mu.Lock()
			r.err = err
			r.mu.Unlock()
			why := err.Error()
			if errors.Is(err, record.ErrLimit) {
				why = record.EndLimit.String()
			}
			r.tell(RecordEvent{Ended: true, Why: why})
			continue
		}
		select {
		case r.empty <- b:
		default:
		}
	}
	if r.failure() == nil {
		why := r.why.String()
		if err := r.w.End(r.why, ""); err != nil {
			why = err.Error()
		}
		r.tell(RecordEvent{Ended: true, Why: why})
	}
}

// The method "over" reports whether the recorder has stopped: because of the size limit, because of
// a write error, or because the recording was closed.
func (r *recording) over() bool { return r != nil && r.tape.Err() != nil }

// close writes the rest of the recording and closes the file. The caller must make sure that nobody
// calls the chip during close.
func (r *recording) close() error {
	if r == nil || r.file == nil {
		return nil
	}
	r.tape.End()
	close(r.blocks)
	r.ended.Wait()
	err := r.file.Close()
	r.file = nil
	return err
}

// save ends the recording of a chip that panics. The last call in the file is the call in which the
// chip panicked.
func (r *recording) save() {
	if r != nil && !r.over() {
		r.why = record.EndPanic
		_ = r.close() // the panic goes on; nobody can receive an error
	}
}

// ErrNotRecorded is the error that EndRecording returns for a chip that is not being recorded.
var ErrNotRecorded = errors.New("this chip is not being recorded; a recording begins when a chip starts: 'ttfabric chip restart CHIP --record DIR'")

// EndRecording ends the chip's recording, and returns the name of the recording's file. The chip
// cannot be recorded again before the chip restarts.
func (n *Node) EndRecording() (file string, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	r := n.record
	if r == nil || r.file == nil || r.over() || n.closed {
		return "", ErrNotRecorded
	}
	r.why = record.EndStopped
	n.chip.Unwrap()
	file = r.file.Name()
	return file, r.close()
}
