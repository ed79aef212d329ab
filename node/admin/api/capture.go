package api

import (
	"context"
	"io"
	"net/url"
	"strconv"
	"strings"

	"ttfabric/wire"
)

const (
	MaxSnapLen = 1 << 18 // bytes of a packet, as tcpdump's
)

// CaptureBody says what to capture at one chip; it is the query of GET /v1/capture.
type CaptureBody struct {
	Channels  []wire.Channel // none: all
	SnapLen   int            // bytes of each Ethernet frame; 0: all
	Filter    string         // see capture.FilterHelp
	BufferMiB int            // MiB of datagrams that may wait in the chip, at most 1024; 0: 16
	Keys      bool           // put in the TLS keys of QUIC ports
	ID        string         // to end it by; "" where the connection's end will do
}

// query writes the body as a query.
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

// CaptureStream is a running capture at one chip: pcapng, to be read with [ttfabric/wire/capture.NewReader].
type CaptureStream struct {
	io.ReadCloser // Close ends the stream at once
	c             *Client
	id            string
}

// Capture begins to capture at the chip, until ctx ends or the stream is closed.
func (c *Client) Capture(ctx context.Context, b CaptureBody) (*CaptureStream, error) {
	resp, err := c.open(ctx, "GET", "/v1/capture?"+b.query(), nil)
	if err != nil {
		return nil, err
	}
	return &CaptureStream{resp.Body, c, b.ID}, nil
}

// End lets the chip end a capture that has a name: what it has taken still
// comes, its statistics, and then the end of the stream.
func (s *CaptureStream) End(ctx context.Context) error {
	return s.c.call(ctx, "DELETE", "/v1/capture?id="+url.QueryEscape(s.id), nil, nil)
}
