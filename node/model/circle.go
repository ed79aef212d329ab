package model

import (
	"time"

	"ttfabric/node/chip"
	"ttfabric/node/model/control"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Wait is a full channel of a circle of waits.
type Wait = control.Wait

// room is a channel of a router.
type room struct {
	port   wire.PortID
	vc     wire.VC
	sender int // -1: receiver channel
}

// filled is a channel that has no room.
type filled struct {
	Wait
	next room // the channel that the first packet must enter
	goes bool // whether next is known
}

// Circle returns a circle of full channels of which each waits for room in the next. No packet of such a circle
// can ever move, so that a circle is a deadlock (Spec §6.1). If there is no circle, Circle returns nil.
func (m *Machine) Circle() []Wait {
	full := map[room]*filled{}
	var order []room
	for i := range m.topology.Chips {
		if c := m.Chip(i); c != nil && c.InFlight() {
			order = fullChannels(c, m.Now(), full, order)
		}
	}
	const (
		unseen = iota
		open
		closed
	)
	seen := map[room]int{}
	for _, from := range order {
		var way []room
		at, ok := from, true
		for ok && seen[at] == unseen {
			seen[at] = open
			way = append(way, at)
			f := full[at]
			if ok = f.goes && full[f.next] != nil; ok {
				at = f.next
			}
		}
		if ok && seen[at] == open {
			var out []Wait
			for k := range way {
				if way[k] == at || out != nil {
					out = append(out, full[way[k]].Wait)
				}
			}
			return out
		}
		for _, r := range way {
			seen[r] = closed
		}
	}
	return nil
}

// fullChannels adds the full channels of a chip to the map and to the list.
func fullChannels(c *chip.Chip, now mono.Time, full map[room]*filled, order []room) []room {
	st := c.Status()
	for _, h := range c.Waiting(now) {
		if h.Waiting < h.Slots {
			continue
		}
		p := &st.Ports[h.Port]
		at := room{p.Local, h.VC, h.Sender}
		f := &filled{Wait: Wait{Chip: p.Local.Node, Channel: p.Local.Channel, VC: h.VC.String(), Side: "receiver", Packets: h.Waiting, Slots: h.Slots,
			Src: h.Packets[0].Src, Dst: h.Packets[0].Dst, AgeNS: int64(h.Packets[0].Age / time.Nanosecond)}}
		if h.Sender >= 0 {
			f.Side, f.Sender = "sender", h.Sender
			f.next, f.goes = room{p.Peer, h.VC, -1}, true
		} else if h.Next.Known {
			f.next, f.goes = room{st.Ports[h.Next.Port].Local, h.Next.VC, h.Next.Sender}, true
		}
		full[at] = f
		order = append(order, at)
	}
	return order
}
