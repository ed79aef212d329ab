package topo

import (
	"fmt"
	"math"

	"go.yaml.in/yaml/v3"

	"ttfabric/wire"
)

// umdPort is an ethernet port in the descriptor's numbering.
type umdPort struct {
	chip    int
	channel wire.Channel
}

// String renders the port: "chip 0 channel 8".
func (p umdPort) String() string { return fmt.Sprintf("chip %d channel %d", p.chip, p.channel) }

// umdTarget is the other end of a port's cable.
type umdTarget struct {
	port   umdPort
	remote uint64 // unique id of a chip of another host; meaningful where away
	away   bool
	line   int
}

// String renders the end: "chip 4 channel 0".
func (t umdTarget) String() string {
	if t.away {
		return fmt.Sprintf("channel %d of the remote chip %d", t.port.channel, t.remote)
	}
	return t.port.String()
}

// umdCable is a cable within the machine.
type umdCable struct {
	ends [2]umdPort
	at   *yaml.Node
}

// readConnections reads ethernet_connections: [[{chip, chan}, {chip, chan}, {routing_enabled}]].
// A cable may be listed from both its ends. routing_enabled tells tt-umd
// whether the chip's own firmware routes there; TT-Fabric doesn't use that firmware.
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
		return d.fail(at, "the cable from %s leads to %s, the same chip; remove it", ends[0], ends[1])
	}
	if was, dup := d.peer[ends[0]]; dup && !was.away && was.port == ends[1] {
		return nil // the same cable again, or told from its other end
	}
	for k, p := range ends {
		if err := d.connect(p, umdTarget{port: ends[1-k], line: at.Line}, at); err != nil {
			return err
		}
	}
	d.cables = append(d.cables, umdCable{ends, at})
	return nil
}

// connect notes where p's cable leads; a port has one.
func (d *descriptor) connect(p umdPort, to umdTarget, at *yaml.Node) error {
	if was, dup := d.peer[p]; dup {
		return d.fail(at, "%s carries two cables: to %s (line %d) and to %s", p, was, was.line, to)
	}
	d.peer[p] = to
	return nil
}

// readRemote reads ethernet_connections_to_remote_devices: [[{chip, chan},
// {remote_chip_id, chan}]]. Such a cable leaves the machine, so it is no part
// of the topology, but no other cable can be on its channel.
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
			continue
		}
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
		return umdPort{}, d.fail(ch, "chip %d channel %d: a %s chip%s has %d channels, from 0", c.id, v, d.arch, harvested, c.channels)
	}
	return umdPort{c.id, wire.Channel(v)}, nil
}

// endKeys returns the values of the two keys of an end.
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

// place moves the grid to row 0 and column 0 and returns its size. The chips must fill a rectangle.
func (d *descriptor) place() (Mesh, error) {
	if len(d.ids) == 1 && d.chips[d.ids[0]].at == nil {
		return Mesh{Rows: 1, Cols: 1}, nil
	}
	chips := d.keys["chips"].key
	if chips == nil {
		chips = d.root
	}
	first := d.chips[d.ids[0]]
	low, high := [2]int{maxCoordinate, maxCoordinate}, [2]int{}
	for _, id := range d.ids {
		c := d.chips[id]
		if c.at == nil {
			return Mesh{}, &Error{File: d.path, Line: chips.Line, Err: ErrNoCoordinates,
				Reason: fmt.Sprintf("chip %d has no coordinates under chips, so its place would have to be derived from the cables, "+
					"which is not supported; use a descriptor with coordinates, or a generator such as mesh:4x8", id)}
		}
		if c.coord[2] != first.coord[2] || c.coord[3] != first.coord[3] {
			return Mesh{}, d.fail(c.at, "chip %d is on rack %d shelf %d and chip %d on rack %d shelf %d: one mesh is on one shelf; describe each shelf in a file of its own",
				id, c.coord[2], c.coord[3], first.id, first.coord[2], first.coord[3])
		}
		for k := range low {
			low[k], high[k] = min(low[k], c.coord[k]), max(high[k], c.coord[k])
		}
	}
	at := map[[2]int]int{}
	for _, id := range d.ids {
		c := d.chips[id]
		xy := [2]int(c.coord[:2])
		if other, dup := at[xy]; dup {
			return Mesh{}, d.fail(c.at, "chips %d and %d have the same coordinates, x %d, y %d", other, id, xy[0], xy[1])
		}
		at[xy] = id
	}
	for y := low[1]; y <= high[1]; y++ {
		for x := low[0]; x <= high[0]; x++ {
			if _, ok := at[[2]int{x, y}]; !ok {
				return Mesh{}, d.fail(chips, "the chips span x %d to %d and y %d to %d but none is at x %d, y %d: a mesh is a full rectangle",
					low[0], high[0], low[1], high[1], x, y)
			}
		}
	}
	for _, id := range d.ids {
		c := d.chips[id]
		c.coord[0], c.coord[1] = c.coord[0]-low[0], c.coord[1]-low[1]
	}
	d.origin = low
	return Mesh{Rows: high[1] - low[1] + 1, Cols: high[0] - low[0] + 1}, nil
}

// checkGrid finds cables between chips that aren't neighbours, and neighbours without a cable.
func (d *descriptor) checkGrid(m Mesh) error {
	joined := map[[2]int]bool{}
	for _, c := range d.cables {
		a, b := d.chips[c.ends[0].chip], d.chips[c.ends[1].chip]
		if _, ok := towards(a.coord[1], a.coord[0], b.coord[1], b.coord[0]); !ok {
			return d.fail(c.at, "the cable from %s to %s joins %s and %s, which are not neighbours; correct the coordinates or remove it (rings and tori are not supported)",
				c.ends[0], c.ends[1], d.where(a), d.where(b))
		}
		joined[[2]int{a.id, b.id}], joined[[2]int{b.id, a.id}] = true, true
	}
	byNode := map[wire.ChipID]*umdChip{}
	for _, id := range d.ids {
		byNode[node(m, d.chips[id]).Chip] = d.chips[id]
	}
	at := d.keys["ethernet_connections"].key
	if at == nil {
		at = d.root
	}
	for i := range wire.ChipID(len(d.ids)) {
		a := byNode[i]
		for _, dir := range []wire.Direction{wire.East, wire.South} {
			row, col := step(a.coord[1], a.coord[0], dir)
			if row >= m.Rows || col >= m.Cols {
				continue
			}
			if b := byNode[wire.ChipID(row*m.Cols+col)]; !joined[[2]int{a.id, b.id}] {
				return d.fail(at, "no cable joins the neighbours %s and %s: a mesh has one on every edge", d.where(a), d.where(b))
			}
		}
	}
	return nil
}

// where names a placed chip by its coordinates in the file.
func (d *descriptor) where(c *umdChip) string {
	return fmt.Sprintf("chip %d at x %d, y %d", c.id, c.coord[0]+d.origin[0], c.coord[1]+d.origin[1])
}
