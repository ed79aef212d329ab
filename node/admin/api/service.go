package api

import (
	"context"

	"ttfabric/wire"
)

// ServiceBody takes cables of a chip out of service, or puts the cables back into service. The
// frames of a link whose cable is out of service use a parallel cable. If no parallel cable works,
// routes avoid the cable.
type ServiceBody struct {
	Channels Channels `json:"channels"` // the ports of the cables, by ethernet channel
	Out      bool     `json:"out"`      // true: take the cables out of service; false: put the cables back into service
}

// SetService takes the cables of the given channels out of service if the argument "out" is true,
// even if the cables work. If "out" is false, SetService puts the cables back into service. See
// [ServiceBody].
func (c *Client) SetService(ctx context.Context, channels []wire.Channel, out bool) error {
	return c.call(ctx, "PUT", "/v1/service", ServiceBody{channels, out}, nil)
}

// FallbackBody assigns a fallback path to a link. If the link's own cable fails, is unreliable or
// is out of service, the cable of the fallback path carries the link's frames.
type FallbackBody struct {
	Channel wire.Channel  `json:"channel"`      // the link's port, by ethernet channel
	By      *wire.Channel `json:"by,omitempty"` // the port whose cable is the fallback path; absent: the chip chooses the path itself again
}

// AssignFallback assigns a fallback path to the link of a port. While the cable of channel "by" does
// not work, the chip chooses another parallel cable. If "by" is nil, the chip chooses the path itself
// again. AssignFallback returns an error if the two cables do not lead to the same chip in the same
// direction.
func (c *Client) AssignFallback(ctx context.Context, channel wire.Channel, by *wire.Channel) error {
	return c.call(ctx, "PUT", "/v1/fallback", FallbackBody{channel, by}, nil)
}
