package chip

import (
	"ttfabric/node/firmware"
	"ttfabric/node/noc"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// firmwares holds what hosts use: the base firmware of the chip's ethernet tiles, and the words that a host
// reads when it discovers the chip.
type firmwares struct {
	firmware *firmware.Machine
	lent     hostMemory
	waiting  waiting // requests to host memory, and the packets that wait behind these requests
	host     host
}

// firmwareHost implements [firmware.Host] for the base firmware of the chip's ethernet tiles.
type firmwareHost machine

// Load reads memory or registers of a tile.
func (h *firmwareHost) Load(now mono.Time, a wire.NocAddr, b []byte) wire.Outcome {
	return (*machine)(h).readHere(now, a, b)
}

// Store writes memory or registers of a tile.
func (h *firmwareHost) Store(now mono.Time, a wire.NocAddr, b []byte) wire.Outcome {
	cmd := wire.Command{Type: wire.NocUnicastWrite, Addr: a, Size: uint16(len(b))}
	o := h.memory.Execute(&cmd, b)
	(*machine)(h).resets(now, "a host, through the queues of the base firmware,")
	if o == wire.OutcomeDone && h.program.client != nil {
		h.program.client.Performed(now, h.cfg.Node, 0, false, &cmd, h.memory)
	}
	return o
}

// Up reports whether the link of a channel is up, and carries L1 writes.
func (h *firmwareHost) Up(ch wire.Channel) bool {
	i := h.ports.index(ch)
	return i >= 0 && h.ports.list[i].up && !h.ports.list[i].raw.on
}

// Send gives an L1 write to transaction command queue 0.
func (h *firmwareHost) Send(ch wire.Channel, src, dst uint32, words int) bool {
	c := (*machine)(h)
	if c.startWrite(ch, 0, src, dst, words) != wire.OutcomeDone { // the firmware has checked the addresses
		return false
	}
	c.ports.list[c.ports.index(ch)].link.PlaceWrites() // the next command may find a free queue
	return true
}

// Out reports whether the tables in force do not use the cable of a port. If "hope" is true, Out
// asks the tables that use silent cables, instead of the tables in force.
func (h *firmwareHost) Out(p wire.PortID, hope bool) bool {
	if hope {
		return h.tables.hope.plan.Out(p)
	}
	return h.tables.plan.Out(p)
}

// Works reports whether the firmware of a tile may work now. The firmware may work if no kernel of
// a strict job holds the firmware back, and if the tile's processor is not in reset. After a reset,
// the firmware continues with the words in L1. On hardware, the firmware starts anew after a reset.
func (h *firmwareHost) Works(ch wire.Channel) bool {
	x, y, _ := noc.EthernetTile(h.cfg.Topology.Arch, ch)
	return !h.kernels.Holds(ch) && !h.memory.Held(x, y)
}

// StartTransfer starts a transfer to or from host memory. StartTransfer returns false if too many
// transfers are under way.
func (h *firmwareHost) StartTransfer(now mono.Time, t firmware.Transfer) bool {
	return h.lent.start(ofFirmware, t)
}

// addFirmware makes the base firmware.
func (c *machine) addFirmware() (err error) {
	c.firmware, err = firmware.New(firmware.Config{Self: c.cfg.Node, Life: c.cfg.Incarnation.Life(), Topology: c.cfg.Topology, Memory: c.memory, Host: (*firmwareHost)(c), Seed: c.cfg.KernelSeed})
	return err
}

// runFirmware runs the firmware of the ethernet tiles. runFirmware returns true if anything moved.
func (c *machine) runFirmware(now mono.Time) bool {
	moved := c.firmware.Run(now)
	moved = c.endTransfers(now) || moved
	if c.firmware.HasEvent() {
		c.firmwareEvents(now)
	}
	return moved
}

// firmwareEvents passes the events of the firmware to the chip's events.
func (c *machine) firmwareEvents(now mono.Time) {
	for e, ok := c.firmware.PollEvent(); ok; e, ok = c.firmware.PollEvent() {
		c.events.add(Event{At: now, Firmware: &e})
	}
}

// HostQueues lists the firmware's queues of the chip's ethernet tiles, by channel. Chips of the architecture
// Blackhole have none.
func (c *machine) HostQueues() []firmware.Tile { return c.firmware.Tiles() }

var _ firmware.Host = (*firmwareHost)(nil)
