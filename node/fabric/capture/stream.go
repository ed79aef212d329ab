package capture

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"time"

	"ttfabric/node/admin/api"
	"ttfabric/node/fabric"
	"ttfabric/wire"
	"ttfabric/wire/capture"
)

// follow captures at the ports of chip n until stop ends or the fabric is taken down. When
// a stream of the chip has ended, follow opens another stream as soon as the chip answers
// again. If the chip refuses a stream, follow ends the job.
func (j *Job) follow(stop, hard context.Context, source int, n wire.FabricNodeID, items chan<- item) {
	put := func(it item) {
		it.source = source
		select {
		case items <- it:
		case <-hard.Done():
		}
	}
	client := func() (*api.Client, error) {
		if c := j.clients[n]; c != nil {
			return c, nil
		}
		return nil, &fabric.NotRunningError{Chip: n}
	}
	lost := false
	for stop.Err() == nil {
		began, err := j.stream(stop, hard, n, client, put, lost)
		var refused *api.StatusError
		switch {
		case stop.Err() != nil:
			return
		case errors.As(err, &refused) && refused.Code != http.StatusUnauthorized: // StatusUnauthorized: the chips of a new fabric of the same name want another token
			if refused.Code == http.StatusNotFound {
				err = fmt.Errorf("chip %s runs an old version of the program, which cannot capture; restart the chip with 'ttfabric chip restart %s'", n, n)
			}
			put(item{fatal: err})
			return
		case began:
			put(item{message: fmt.Sprintf("chip %s does not answer; the capture at its ports continues when the chip answers again", n)})
			lost = true
		}
		if _, err := fabric.Open(hard, j.fabric.Name()); err != nil {
			return // the fabric was taken down
		}
		select {
		case <-stop.Done():
		case <-time.After(retryTime):
		}
		client = func() (*api.Client, error) { return j.clientNow(hard, n) }
	}
}

// clientNow opens a chip's API at the address and with the token that the run folder has
// now. The chip or the whole fabric may have restarted since the last call.
func (j *Job) clientNow(ctx context.Context, n wire.FabricNodeID) (*api.Client, error) {
	f, err := fabric.Open(ctx, j.fabric.Name())
	if err != nil {
		return nil, err
	}
	return f.Client(n)
}

// stream opens one stream of chip n and passes the pieces of the stream to put, until the
// stream ends. If "again" is true, stream also reports that the chip answers again. The
// result "began" is true if the chip opened the stream.
func (j *Job) stream(stop, hard context.Context, n wire.FabricNodeID, client func() (*api.Client, error), put func(item), again bool) (began bool, err error) {
	cl, err := client()
	if err != nil {
		return false, err
	}
	defer cl.Close()
	var id [12]byte
	rand.Read(id[:])
	st, err := cl.Capture(hard, api.CaptureBody{Channels: j.where[n], SnapLen: j.o.SnapLen, Filter: j.o.Filter, BufferMiB: j.o.BufferMiB, Keys: j.o.Keys, ID: hex.EncodeToString(id[:])})
	if err != nil {
		return false, err
	}
	defer st.Close()
	ended := context.AfterFunc(stop, func() {
		ctx, cancel := context.WithTimeout(hard, endTime)
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
	put(item{begins: true})
	if again {
		put(item{message: fmt.Sprintf("chip %s answers again", n)})
	}
	for {
		k, err := r.Next()
		if err != nil {
			put(item{ends: true})
			return true, err
		}
		it := item{iface: k.Interface, stats: k.Statistics, of: k.Of, keys: k.Keys}
		if k.Packet != nil {
			p := *k.Packet
			p.Data = bytes.Clone(p.Data)
			it.packet = &p
		}
		put(it)
	}
}
