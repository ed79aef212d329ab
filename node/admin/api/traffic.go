package api

import (
	"context"

	"ttfabric/node/traffic"
)

// StartTraffic begins a traffic run in the chip. If the run has begun already,
// StartTraffic makes the chip send.
func (c *Client) StartTraffic(ctx context.Context, t TrafficStart) error {
	return c.call(ctx, "POST", "/v1/traffic", t, nil)
}

// Traffic returns the report of the traffic run so far.
func (c *Client) Traffic(ctx context.Context) (r traffic.Report, err error) {
	return r, c.call(ctx, "GET", "/v1/traffic", nil, &r)
}

// StopTraffic ends the traffic run.
func (c *Client) StopTraffic(ctx context.Context) error {
	return c.call(ctx, "DELETE", "/v1/traffic", nil, nil)
}

// TrafficStart begins a traffic run in one chip. All chips of a run get the same spec
// and pairs. The caller first begins the run in all chips with send false, and then
// again with send true. Therefore every destination listens before the first source
// sends.
type TrafficStart struct {
	Spec  traffic.Spec   `json:"spec"`  // the run
	Pairs []traffic.Pair `json:"pairs"` // the sources and their destinations
	Send  bool           `json:"send"`  // true: the chip also sends; false: the chip only verifies
}
