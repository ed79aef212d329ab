package api

import (
	"context"

	"ttfabric/wire"
)

// ServiceBody takes cables out of service, or puts cables back into service. The fabric
// plans its routing tables around a cable that is out of service.
type ServiceBody struct {
	Channels Channels `json:"channels"` // the ports of the cables, by ethernet channel
	Out      bool     `json:"out"`      // true: take the cables out of service; false: put the cables back into service
}

// SetService takes cables out of service, even if the cables work, or puts cables back
// into service. The fabric plans its routing tables around a cable that is out of
// service.
func (c *Client) SetService(ctx context.Context, channels []wire.Channel, out bool) error {
	return c.call(ctx, "PUT", "/v1/service", ServiceBody{channels, out}, nil)
}
