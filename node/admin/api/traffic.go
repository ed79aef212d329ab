package api

import (
	"context"

	"ttfabric/node/traffic"
)

// StartTraffic begins a run, or lets its source speak.
func (c *Client) StartTraffic(ctx context.Context, t TrafficStart) error {
	return c.call(ctx, "POST", "/v1/traffic", t, nil)
}

// Traffic returns the run's report so far.
func (c *Client) Traffic(ctx context.Context) (r traffic.Report, err error) {
	return r, c.call(ctx, "GET", "/v1/traffic", nil, &r)
}

// StopTraffic ends the run.
func (c *Client) StopTraffic(ctx context.Context) error {
	return c.call(ctx, "DELETE", "/v1/traffic", nil, nil)
}

// TrafficStart begins a run in one chip. All chips of a run get the same
// Spec and Pairs; a chip whose Send is false only verifies, so that every
// destination listens before the first source speaks.
type TrafficStart struct {
	Spec  traffic.Spec   `json:"spec"`
	Pairs []traffic.Pair `json:"pairs"`
	Send  bool           `json:"send"`
}
