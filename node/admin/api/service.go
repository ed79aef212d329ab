package api

import (
	"context"

	"ttfabric/wire"
)

// ServiceBody takes cables out of service, or gives them back: see [chip.Chip.Avoid].
type ServiceBody struct {
	Channels Channels `json:"channels"`
	Out      bool     `json:"out"`
}

// SetService takes cables out of service, whether they work or not, so that
// tables are planned around them; or gives them back.
func (c *Client) SetService(ctx context.Context, channels []wire.Channel, out bool) error {
	return c.call(ctx, "PUT", "/v1/service", ServiceBody{channels, out}, nil)
}
