package api

import (
	"context"
	"time"
)

// MaxReady is the longest time for which a chip holds an answer back until the chip is ready.
const MaxReady = time.Minute

// ChipWhenReady returns the chip's state as soon as all links of the chip are up and its tables use
// all cables. If the chip is not ready after the time "most", ChipWhenReady returns the state at this
// time. The time is at most [MaxReady].
func (c *Client) ChipWhenReady(ctx context.Context, most time.Duration) (v ChipView, err error) {
	return v, c.call(ctx, "GET", "/v1/chip?ready="+most.String(), nil, &v)
}
