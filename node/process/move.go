package process

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"ttfabric/node"
)

// addressPoll is the time between two checks of the address of a chip's interface.
const addressPoll = 2 * time.Second

// follow prepares the chip for changes of the address of iface, an interface or network.
// The chip then listens on all addresses, and tells other chips the present address in
// iface.
func (a *Address) follow(iface string) {
	a.Interface, a.Advertise = iface, a.Listen
	if a.Listen.Is4() {
		a.Listen = netip.IPv4Unspecified()
	} else {
		a.Listen = netip.IPv6Unspecified()
	}
}

// current returns the present address of the interface. A container that is put back on
// its network gets an interface with another name. If the interface does not exist any
// more or has no address, current therefore looks at all interfaces that are up, except
// loopback. If exactly one of these interfaces has an address, current returns this
// address. Otherwise current returns false.
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

// move runs until ctx ends, or returns at once if the parameter "pools" cannot change its
// address. When the interface gets another address of the same IP version, move tells the gossip
// the new address. From then on, the ports of the chip send from the new address. For example, a
// container may get another address when the container is put back on its network.
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
				log.Warn("the interface has no address any more", "interface", c.Address.Interface, "address", at)
			}
			away = true
		case now != at:
			log.Info("the interface has another address", "interface", c.Address.Interface, "old", at, "new", now)
			at, away = now, false
			n.Readdress()
			mover.Move(now)
		case away:
			log.Info("the interface has its address again", "interface", c.Address.Interface, "address", at)
			away = false
			n.Readdress()
		}
	}
}
