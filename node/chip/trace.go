package chip

import (
	"slices"

	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// MaxSightings is the largest number of traced packets that a chip remembers. If the
// list is full, the chip forgets the older half.
const MaxSightings = 256

// Sighting records the arrival of a traced packet at this chip.
type Sighting struct {
	At       mono.Time
	Src, Dst wire.FabricNodeID
	ID       uint64 // ID of the packet, unique at the source
	Channel  wire.Channel
	VC       wire.VC
	TTL      uint16
	Plane    wire.Plane
}

// saw remembers a packet that came in by a port, if the packet is traced.
func (c *machine) saw(now mono.Time, p *port, v wire.PacketView) {
	if !v.Traced() {
		return
	}
	s := Sighting{At: now, Src: v.Src(), Dst: v.Dst(), ID: v.ID(), Channel: p.Local.Channel, VC: v.VC(), TTL: v.TTL(), Plane: v.Plane()}
	if len(c.sightings) == MaxSightings {
		c.sightings = slices.Delete(c.sightings, 0, MaxSightings/2)
	}
	c.sightings = append(c.sightings, s)
}

// Sightings returns the arrivals of traced packets at this chip, oldest first.
func (c *machine) Sightings() []Sighting { return slices.Clone(c.sightings) }
