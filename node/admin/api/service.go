package api

import (
	"context"

	"ttfabric/wire"
)

// ServiceBody takes cables of a chip out of service, or puts the cables back into service. Routes
// avoid a cable that is out of service.
type ServiceBody struct {
	Channels Channels `json:"channels"` // the ports of the cables, by ethernet channel
	Out      bool     `json:"out"`      // true: take the cables out of service; false: put the cables back into service
}

// SetService takes the cables of the given channels out of service if the argument "out" is true,
// even if the cables work. If "out" is false, SetService puts the cables back into service. Routes
// avoid a cable that is out of service.
func (c *Client) SetService(ctx context.Context, channels []wire.Channel, out bool) error {
	return c.call(ctx, "PUT", "/v1/service", ServiceBody{channels, out}, nil)
}
