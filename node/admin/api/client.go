// Package api is the client of a chip's control API. The package holds the types of the JSON, the
// table of calls ([Routes]), and [Client], which makes calls to one chip. Package admin is the
// server. A [Client] implements [ttfabric/node/session.Fabric]. A program that uses a session
// inside a chip's process can therefore use a remote chip too.
package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"ttfabric/router/topo"
	"ttfabric/wire"
)

// Client makes calls to one chip's API. A Client implements [session.Fabric]. The methods of a
// Client are safe for concurrent use.
type Client struct {
	base  string
	token string
	self  wire.FabricNodeID
	name  string // name of the chip in errors; "": errors state the chip's address
	topo  *topo.Topology
	http  *http.Client
	owner string        // name of the program for reports about its jobs, see [Client.Own]
	limit time.Duration // see jobLimit

	batches *batchPlaces // places of batches under way
}

// maxAnswer is the largest number of bytes that the client reads of an answer. A chip's answer is
// shorter, but another program may listen at the address.
const maxAnswer = 16 << 20

// NewClient returns a client of the chip "self" in the topology t. The chip's API listens at addr
// ("host:port"), and token is the fabric's token.
func NewClient(addr, token string, self wire.FabricNodeID, t *topo.Topology) *Client {
	return &Client{base: "http://" + addr, token: token, self: self, topo: t, limit: jobLimit, batches: newBatchPlaces(),
		http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: maxIdle, IdleConnTimeout: time.Minute}}}
}

// Close closes the connections that no call uses.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Self returns the address of the client's chip.
func (c *Client) Self() wire.FabricNodeID { return c.self }

// Topology returns the topology of the client's fabric.
func (c *Client) Topology() *topo.Topology { return c.topo }

// At makes the client's errors name the network address addr instead of the chip, and returns the
// client. At is for callers who do not know yet which chip listens at addr.
func (c *Client) At(addr string) *Client {
	c.name = addr
	return c
}

func (c *Client) who() string {
	if c.name != "" {
		return "the chip at " + c.name
	}
	return fmt.Sprintf("chip %s", c.self)
}

// StatusError is the error of a call that the chip refused.
type StatusError struct {
	Code   int // the HTTP status
	who    string
	Detail string // reason, as stated by the chip
	kind   string // type of the problem
}

// Error returns a message that names the chip and the reason.
func (e *StatusError) Error() string { return e.who + ": " + e.Detail }

// call sends the value of the argument "in" as JSON, and reads the answer into the argument "out".
// If "in" is nil, the call has no body. If "out" is nil, call does not read the answer.
func (c *Client) call(ctx context.Context, method, path string, in, out any) error {
	resp, err := c.open(ctx, method, path, in)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(out); err != nil {
		return fmt.Errorf("%s answered %s %s with unexpected content: %w", c.who(), method, path, err)
	}
	return nil
}

// open makes a call and returns the answer. If "in" is an io.Reader, open sends the bytes of the reader. The argument "headers" lists further headers: name,
// value, name, value, and so on. If the chip answers with a status other than 2xx, the error is a
// [StatusError]. The caller must close the answer's body.
func (c *Client) open(ctx context.Context, method, path string, in any, headers ...string) (*http.Response, error) {
	body, raw := in.(io.Reader)
	if in != nil && !raw {
		b, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%s does not answer: %w", c.who(), err)
	}
	if resp.StatusCode/100 != 2 {
		defer resp.Body.Close()
		b, _ := io.ReadAll(io.LimitReader(resp.Body, MaxBody))
		p := ReadProblem(b)
		return nil, &StatusError{resp.StatusCode, c.who(), p.Detail, p.Type}
	}
	return resp, nil
}

// Chip returns the chip's state.
func (c *Client) Chip(ctx context.Context) (v ChipView, err error) {
	return v, c.call(ctx, "GET", "/v1/chip", nil, &v)
}

// Fabric reads the chip's description of the fabric into v. The description says how the fabric was
// started; see Server.Describe of package admin.
func (c *Client) Fabric(ctx context.Context, v any) error {
	return c.call(ctx, "GET", "/v1/fabric", nil, v)
}

// Members returns the chips that are alive according to the chip's gossip, including the chip
// itself.
func (c *Client) Members(ctx context.Context) (v []MemberView, err error) {
	return v, c.call(ctx, "GET", "/v1/members", nil, &v)
}

// MaxBody is the largest size of the body of a call, in bytes. A batch of requests has another
// limit, [MaxBatchBody].
const MaxBody = 1 << 20

// NoWayType is the type of the problem that a chip returns if it has no route for a request. The
// client converts the problem to a [session.NoRouteError].
const NoWayType = "tag:ttfabric,2026:no-way"

// Problem says why the chip refused a call (RFC 9457).
type Problem struct {
	Type   string `json:"type"`   // "tag:ttfabric,2026:no-way" if the chip has no route to the destination; otherwise "about:blank"
	Status int    `json:"status"` // the HTTP status
	Title  string `json:"title"`  // the name of the HTTP status
	Detail string `json:"detail"` // the reason, for people
}

// ReadProblem reads a problem in JSON. If b is another text, the text becomes the problem's detail.
func ReadProblem(b []byte) (p Problem) {
	if json.Unmarshal(b, &p) != nil || p.Detail == "" {
		p.Detail = strings.TrimSpace(string(b))
	}
	return p
}

// OK is the answer of calls that return no data. OK says that the chip has carried out the call.
type OK struct {
	OK bool `json:"ok"` // always true
}
