package api

import (
	"context"

	"ttfabric/node/traffic"
)

// StartTraffic begins a traffic run in the chip, or sets whether the chip sends in a run that has
// begun.
func (c *Client) StartTraffic(ctx context.Context, t TrafficStart) error {
	return c.call(ctx, "POST", "/v1/traffic", t, nil)
}

// Traffic returns the chip's report of the traffic run so far.
func (c *Client) Traffic(ctx context.Context) (r traffic.Report, err error) {
	return r, c.call(ctx, "GET", "/v1/traffic", nil, &r)
}

// StopTraffic ends the traffic run in the chip.
func (c *Client) StopTraffic(ctx context.Context) error {
	return c.call(ctx, "DELETE", "/v1/traffic", nil, nil)
}

// TrafficStart begins a traffic run in one chip. All chips of a run must get the same spec and
// pairs. The caller first calls every chip with send false, and then every chip with send true.
// Every destination is then ready before the first source sends.
type TrafficStart struct {
	Spec  traffic.Spec   `json:"spec"`  // the traffic to generate
	Pairs []traffic.Pair `json:"pairs"` // the sources and their destinations
	Send  bool           `json:"send"`  // true: the chip sends traffic and verifies received traffic; false: the chip only verifies received traffic
}
