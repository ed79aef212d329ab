package api

import (
	"context"

	"ttfabric/wire"
)

// ServiceBody takes cables out of service, or puts them back into service. The
// fabric plans its routing tables around a cable that is out of service.
type ServiceBody struct {
	Channels Channels `json:"channels"` // the ports whose cables are meant, by ethernet channel
	Out      bool     `json:"out"`      // out of service
}

// SetService takes cables out of service, whether they work or not, or puts them
// back into service. The fabric plans its routing tables around a cable that is
// out of service.
func (c *Client) SetService(ctx context.Context, channels []wire.Channel, out bool) error {
	return c.call(ctx, "PUT", "/v1/service", ServiceBody{channels, out}, nil)
}
