package chip

import (
	"slices"

	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// MaxSightings is how many traced packets a chip remembers; older ones make room.
const MaxSightings = 256

// Sighting is a traced packet as it came to this chip.
type Sighting struct {
	At       mono.Time
	Src, Dst wire.FabricNodeID
	ID       uint64 // unique at the source
	Channel  wire.Channel
	VC       wire.VC
	TTL      uint16
	Plane    wire.Plane
}

// saw remembers a packet. One whose receiver channel isn't empty may be noted
// twice by a chip that it enters the mesh by: it is the same packet.
func (c *Chip) saw(now mono.Time, p *port, v wire.PacketView) {
	s := Sighting{At: now, Src: v.Src(), Dst: v.Dst(), ID: v.ID(), Channel: p.Local.Channel, VC: v.VC(), TTL: v.TTL(), Plane: v.Plane()}
	if n := len(c.sightings); n > 0 && c.sightings[n-1].ID == s.ID && c.sightings[n-1].Src == s.Src && c.sightings[n-1].TTL == s.TTL {
		return
	}
	if len(c.sightings) == MaxSightings {
		c.sightings = slices.Delete(c.sightings, 0, MaxSightings/2)
	}
	c.sightings = append(c.sightings, s)
}

// Sightings are the traced packets that came to this chip, oldest first.
func (c *Chip) Sightings() []Sighting { return slices.Clone(c.sightings) }
