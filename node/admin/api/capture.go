package api

import (
	"context"
	"io"
	"net/url"
	"strconv"
	"strings"

	"ttfabric/wire"
)

// MaxSnapLen is the largest value of CaptureBody.SnapLen, in bytes. tcpdump has the same largest
// value.
const MaxSnapLen = 1 << 18

// CaptureBody says which datagrams a chip captures, and how. The client sends the fields as the
// query of GET /v1/capture.
type CaptureBody struct {
	Channels  []wire.Channel // the ports, by ethernet channel; an empty list means all ports
	SnapLen   int            // number of bytes to keep of each Ethernet frame, at most MaxSnapLen; 0: all bytes
	Filter    string         // filter of the datagrams to take, see FilterHelp of package capture; "": all datagrams
	BufferMiB int            // MiB of datagrams that may wait in the chip, at most 1024; 0: 16
	Keys      bool           // whether the capture includes the TLS keys of QUIC ports
	ID        string         // id by which [CaptureStream.End] ends the capture, at most MaxID bytes; "": the capture ends only with the connection
}

// query returns the fields as the query of a URL.
func (b *CaptureBody) query() string {
	q := url.Values{}
	set := func(name, v string) {
		if v != "" && v != "0" {
			q.Set(name, v)
		}
	}
	var ports []string
	for _, c := range b.Channels {
		ports = append(ports, strconv.Itoa(int(c)))
	}
	if len(ports) > 0 {
		q.Set("ports", strings.Join(ports, ","))
	}
	set("snaplen", strconv.Itoa(b.SnapLen))
	set("filter", b.Filter)
	set("buffer", strconv.Itoa(b.BufferMiB))
	set("id", b.ID)
	if b.Keys {
		set("keys", "1")
	}
	return q.Encode()
}

// CaptureStream is the answer of a chip that captures. The content of the stream is a pcapng file,
// which [ttfabric/wire/capture.NewReader] reads.
type CaptureStream struct {
	io.ReadCloser // Close ends the stream at once
	c             *Client
	id            string
}

// Capture begins a capture at the chip. The capture continues until ctx ends, until the caller ends
// or closes the stream, or until the chip is closed.
func (c *Client) Capture(ctx context.Context, b CaptureBody) (*CaptureStream, error) {
	resp, err := c.open(ctx, "GET", "/v1/capture?"+b.query(), nil)
	if err != nil {
		return nil, err
	}
	return &CaptureStream{resp.Body, c, b.ID}, nil
}

// End makes the chip end the capture, which must have an ID. The stream then delivers the captured
// datagrams that the caller has not read yet, then statistics, and ends.
func (s *CaptureStream) End(ctx context.Context) error {
	return s.c.call(ctx, "DELETE", "/v1/capture?id="+url.QueryEscape(s.id), nil, nil)
}
