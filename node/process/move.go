package process

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"ttfabric/node"
)

// addressPoll is how often a chip that listens on an interface looks whether that has another address.
const addressPoll = 2 * time.Second

// follow lets the chip be where an interface is, at whatever address that has
// or will have: it listens on all, and tells the others the interface's.
func (a *Address) follow(iface string) {
	a.Interface, a.Advertise = iface, a.Listen
	if a.Listen.Is4() {
		a.Listen = netip.IPv4Unspecified()
	} else {
		a.Listen = netip.IPv6Unspecified()
	}
}

// current is the interface's at present. Where it is gone it is that of the
// only other one that leads out of the machine: an engine that puts a container
// on its network again numbers interfaces on.
func (a *Address) current(ctx context.Context) (netip.Addr, bool) {
	if at, err := listenAddr(ctx, a.Interface, nil); err == nil {
		return at, true
	}
	var found []netip.Addr
	all, _ := net.Interfaces()
	for _, i := range all {
		if i.Flags&net.FlagLoopback == 0 && i.Flags&net.FlagUp != 0 {
			if a, err := listenAddr(ctx, i.Name, nil); err == nil {
				found = append(found, a)
			}
		}
	}
	if len(found) != 1 {
		return netip.Addr{}, false
	}
	return found[0], true
}

// move tells ports and gossip when the interface has got another address, as
// that of a container that was taken off its network and put on again.
func (c *Config) move(ctx context.Context, n *node.Node, pools node.Membership, log *slog.Logger) {
	mover, ok := pools.(interface{ Move(to netip.Addr) })
	at, away := c.Address.Advertise, false
	tick := time.NewTicker(addressPoll)
	defer tick.Stop()
	for ok {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now, found := c.Address.current(ctx)
		switch {
		case !found || now.Is4() != at.Is4():
			if !away {
				log.Warn("the interface is gone, or its address", "interface", c.Address.Interface, "address", at)
			}
			away = true
		case now != at:
			log.Info("the interface has another address", "interface", c.Address.Interface, "old", at, "new", now)
			at, away = now, false
			n.Readdress()
			mover.Move(now)
		case away:
			log.Info("the interface is back", "interface", c.Address.Interface, "address", at)
			away = false
			n.Readdress()
		}
	}
}
