package api

import (
	"context"
	"fmt"
	"time"

	"ttfabric/node/traffic"
)

// TrafficClaim is how long a chip keeps a traffic run for its owner after the owner's last call.
const TrafficClaim = 10 * time.Second

// StartTraffic begins a traffic run in the chip, or sets whether the chip sends in a run that has
// begun.
func (c *Client) StartTraffic(ctx context.Context, t TrafficStart) error {
	return c.call(ctx, "POST", "/v1/traffic", t, nil)
}

// Traffic returns the chip's report of the traffic run so far. If owner is not 0, the run must
// belong to this owner, and the call extends the owner's claim; see [TrafficStart].Owner.
func (c *Client) Traffic(ctx context.Context, owner uint64) (r traffic.Report, err error) {
	return r, c.call(ctx, "GET", "/v1/traffic"+ofOwner(owner), nil, &r)
}

// TrafficCounts is like Traffic, but the report has no latencies. Such a report costs the chip and the
// caller much less processor time.
func (c *Client) TrafficCounts(ctx context.Context, owner uint64) (r traffic.Report, err error) {
	return r, c.call(ctx, "GET", fmt.Sprintf("/v1/traffic?counts=true&owner=%d", owner), nil, &r)
}

// StopTraffic ends the traffic run in the chip. If owner is not 0, the chip only ends a run of this
// owner.
func (c *Client) StopTraffic(ctx context.Context, owner uint64) error {
	return c.call(ctx, "DELETE", "/v1/traffic"+ofOwner(owner), nil, nil)
}

func ofOwner(owner uint64) string {
	if owner == 0 {
		return ""
	}
	return fmt.Sprintf("?owner=%d", owner)
}

// TrafficStart begins a traffic run in one chip. All chips of a run must get the same spec and
// pairs. The caller first calls every chip with send false, and then every chip with send true.
// Every destination is then ready before the first source sends.
//
// A chip takes part in one run at a time. While the owner of a run asks for reports, the chip
// refuses the runs of other owners with status 409. If the owner has made no call for
// [TrafficClaim], the next run replaces the run.
type TrafficStart struct {
	Spec  traffic.Spec   `json:"spec"`            // the traffic to generate
	Pairs []traffic.Pair `json:"pairs"`           // the sources and their destinations
	Owner uint64         `json:"owner,omitempty"` // random number; a caller with the same number may replace the run; 0: the number of the run in spec
	Send  bool           `json:"send"`            // true: the chip sends traffic and verifies received traffic; false: the chip only verifies received traffic
}
