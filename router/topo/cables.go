package topo

import (
	"fmt"
	"math"

	"go.yaml.in/yaml/v3"

	"ttfabric/wire"
)

// umdPort is an ethernet port, by tt-umd's id of the chip.
type umdPort struct {
	chip    int
	channel wire.Channel
}

func (p umdPort) public() ClusterPort { return ClusterPort{p.chip, p.channel} }

// String renders the port, such as "chip 0 channel 8".
func (p umdPort) String() string { return fmt.Sprintf("chip %d channel %d", p.chip, p.channel) }

// umdTarget is the far end of a cable, seen from one of its ports.
type umdTarget struct {
	port   umdPort
	remote uint64 // unique id of the chip of another host; used only if away is true
	away   bool
	line   int
}

// String renders the far end, such as "chip 4 channel 0".
func (t umdTarget) String() string {
	if t.away {
		return fmt.Sprintf("channel %d of the remote chip %d", t.port.channel, t.remote)
	}
	return t.port.String()
}

// umdCable is a cable between two chips of the descriptor.
type umdCable struct {
	ends [2]umdPort
	at   *yaml.Node
}

// readConnections reads ethernet_connections: [[{chip, chan}, {chip, chan}, {routing_enabled}]]. A
// file may list a cable several times, from either end. The reader ignores the value of
// routing_enabled, which is about firmware that TT-Fabric does not use.
func (d *descriptor) readConnections() error {
	const key, want = "ethernet_connections", "a connection has two ends, each {chip, chan}, and perhaps {routing_enabled}"
	list, err := d.items(d.keys[key].val, key, "a list of connections")
	if err != nil {
		return err
	}
	d.peer = map[umdPort]umdTarget{}
	for _, conn := range list {
		parts, err := d.items(conn, key, "a list of connections, each a list of ends")
		if err != nil {
			return err
		}
		if len(parts) < 2 || len(parts) > 3 {
			return d.fail(conn, "%s", want)
		}
		var ends [2]umdPort
		for k := range ends {
			if ends[k], err = d.readEnd(parts[k]); err != nil {
				return err
			}
		}
		if len(parts) == 3 {
			if err := d.readRoutingEnabled(parts[2], want); err != nil {
				return err
			}
		}
		if err := d.addCable(ends, conn); err != nil {
			return err
		}
	}
	return nil
}

func (d *descriptor) addCable(ends [2]umdPort, at *yaml.Node) error {
	if ends[0].chip == ends[1].chip {
		return d.fail(at, "the cable from %s to %s joins two channels of one chip; remove the cable", ends[0], ends[1])
	}
	if was, dup := d.peer[ends[0]]; dup && !was.away && was.port == ends[1] {
		d.again++
		return nil // the file lists this cable a second time, from either end
	}
	if d.double && (d.taken(ends[0]) || d.taken(ends[1])) {
		return nil
	}
	for k, p := range ends {
		if err := d.connect(p, umdTarget{port: ends[1-k], line: at.Line}, at); err != nil {
			return err
		}
	}
	d.cables = append(d.cables, umdCable{ends, at})
	return nil
}

// taken reports whether a port has a cable, and counts the cable that would be the second.
func (d *descriptor) taken(p umdPort) bool {
	_, dup := d.peer[p]
	d.twice += bit(dup)
	return dup
}

// connect records the far end of the cable at port p. A second cable at one port is an error.
func (d *descriptor) connect(p umdPort, to umdTarget, at *yaml.Node) error {
	if was, dup := d.peer[p]; dup {
		return d.fail(at, "%s carries two cables: to %s (line %d) and to %s", p, was, was.line, to)
	}
	d.peer[p] = to
	return nil
}

// readRemote reads ethernet_connections_to_remote_devices: [[{chip, chan}, {remote_chip_id,
// chan}]]. The topology does not include these cables, because they lead out of the machine. The
// channels of these cables are still in use, and no other cable can use them.
func (d *descriptor) readRemote() error {
	const key, want = "ethernet_connections_to_remote_devices", "a remote connection is {chip, chan} and {remote_chip_id, chan}"
	list, err := d.items(d.keys[key].val, key, "a list of connections")
	if err != nil {
		return err
	}
	for _, conn := range list {
		parts, err := d.items(conn, key, "a list of connections, each a list of ends")
		if err != nil {
			return err
		}
		if len(parts) < 2 || len(parts) > 3 {
			return d.fail(conn, "%s", want)
		}
		local, err := d.readEnd(parts[0])
		if err != nil {
			return err
		}
		id, ch, err := d.endKeys(parts[1], "remote_chip_id", want)
		if err != nil {
			return err
		}
		to := umdTarget{away: true, line: conn.Line}
		if to.remote, err = d.number(id, "remote chip id", math.MaxUint64); err != nil {
			return err
		}
		n, err := d.number(ch, "remote channel", uint64(Channels(d.arch)-1))
		if err != nil {
			return err
		}
		to.port.channel = wire.Channel(n)
		if len(parts) == 3 {
			if err := d.readRoutingEnabled(parts[2], want); err != nil {
				return err
			}
		}
		if was, dup := d.peer[local]; dup && was.away && was.remote == to.remote && was.port == to.port {
			d.again++
			continue
		}
		if d.double && d.taken(local) {
			continue
		}
		d.away++
		d.far = append(d.far, FarCable{local.public(), to.remote, to.port.channel})
		if err := d.connect(local, to, conn); err != nil {
			return err
		}
	}
	return nil
}

// readEnd reads {chip: ID, chan: CHANNEL}.
func (d *descriptor) readEnd(n *yaml.Node) (umdPort, error) {
	id, ch, err := d.endKeys(n, "chip", "the end of a connection is {chip: ID, chan: CHANNEL}")
	if err != nil {
		return umdPort{}, err
	}
	c, err := d.chip(id)
	if err != nil {
		return umdPort{}, err
	}
	v, err := d.number(ch, "channel", math.MaxUint32)
	if err != nil {
		return umdPort{}, err
	}
	if v >= uint64(c.channels) {
		harvested := ""
		if c.fused > 0 {
			harvested = fmt.Sprintf(" with %d harvested", c.fused)
		}
		return umdPort{}, d.fail(ch, "chip %d channel %d: a %s chip%s has %d channels, numbered from 0", c.id, v, d.arch, harvested, c.channels)
	}
	return umdPort{c.id, wire.Channel(v)}, nil
}

// endKeys returns the values of the keys chipKey and chan of an end of a connection.
func (d *descriptor) endKeys(n *yaml.Node, chipKey, want string) (chip, channel *yaml.Node, err error) {
	if n.Kind != yaml.MappingNode {
		return nil, nil, d.fail(n, "%s", want)
	}
	ps, err := d.pairs(n, "end of a connection", want)
	if err != nil {
		return nil, nil, err
	}
	for _, p := range ps {
		switch p.key.Value {
		case chipKey:
			chip = p.val
		case "chan":
			channel = p.val
		}
	}
	if chip == nil || channel == nil {
		return nil, nil, d.fail(n, "%s", want)
	}
	return chip, channel, nil
}

func (d *descriptor) readRoutingEnabled(n *yaml.Node, want string) error {
	ps, err := d.pairs(n, "connection", want)
	if err != nil {
		return err
	}
	for _, p := range ps {
		if p.key.Value == "routing_enabled" {
			if _, err := d.boolean(p.val, "routing_enabled"); err != nil {
				return err
			}
			return nil
		}
	}
	return d.fail(n, "%s", want)
}
