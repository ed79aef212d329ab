package attach

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"

	"ttfabric/node/kernel"
)

// MaxReason is the largest length of the text of a stop, in bytes.
const MaxReason = 64

// Stop is the body of a stop: which job the chip shall stop, and why.
type Stop struct {
	Job  kernel.JobID
	Text string
}

// AppendStop appends a stop.
func AppendStop(b []byte, number uint64, s *Stop) []byte {
	b = binary.LittleEndian.AppendUint64(AppendHead(b, KindStop, number, 8+len(s.Text)), uint64(s.Job))
	return append(b, s.Text...)
}

// ParseStop reads the body of a stop.
func ParseStop(b []byte) (s Stop, err error) {
	if len(b) < 8 || len(b) > 8+MaxReason {
		return s, fmt.Errorf("a stop of %d bytes: want 8 to %d", len(b), 8+MaxReason)
	}
	return Stop{kernel.JobID(binary.LittleEndian.Uint64(b)), string(b[8:])}, nil
}

// AppendEnd appends a request for the end of a job.
func AppendEnd(b []byte, number uint64, id kernel.JobID) []byte {
	return binary.LittleEndian.AppendUint64(AppendHead(b, KindEnd, number, 8), uint64(id))
}

// ParseEnd reads the body of a request for the end of a job.
func ParseEnd(b []byte) (kernel.JobID, error) {
	if len(b) != 8 {
		return 0, fmt.Errorf("a request for the end of a job has %d bytes: want 8", len(b))
	}
	return kernel.JobID(binary.LittleEndian.Uint64(b)), nil
}

// StartJob starts the chip's part of a job; see [session.Runner]. If the job names no owner, its owner is
// that of [Client.Own].
func (c *Client) StartJob(j kernel.Job) error {
	if j.Owner == "" {
		j.Owner = c.owner
	}
	body, err := json.Marshal(j)
	if err == nil && HeadLen+len(body) > MaxFrame {
		err = fmt.Errorf("the description of job %d has %d bytes: want at most %d", j.ID, len(body), MaxFrame-HeadLen)
	}
	if err != nil {
		return err
	}
	_, err = c.call(context.Background(), func(b []byte, number uint64) []byte {
		return append(AppendHead(b, KindJob, number, len(body)), body...)
	})
	return err
}

// EndJob stops a job on all its chips; see [session.Runner].
func (c *Client) EndJob(id kernel.JobID, text string) error {
	s := Stop{id, text[:min(len(text), MaxReason)]}
	_, err := c.call(context.Background(), func(b []byte, number uint64) []byte { return AppendStop(b, number, &s) })
	return err
}

// WaitJob waits until a job has ended on the chip, and returns how; see [session.Runner].
func (c *Client) WaitJob(ctx context.Context, id kernel.JobID) (e kernel.End, err error) {
	b, err := c.call(ctx, func(b []byte, number uint64) []byte { return AppendEnd(b, number, id) })
	if err == nil {
		err = json.Unmarshal(b, &e)
	}
	return e, err
}

// Own sets the name of the program for reports about its jobs, such as "rank 3". Own must be called
// before the first job.
func (c *Client) Own(name string) { c.owner = name }
