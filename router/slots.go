package router

import "ttfabric/wire"

// SlotProfile gives the numbers of slots of a router's channels, by virtual channel.
type SlotProfile struct {
	Name     string
	Sender   [wire.NumVCs]int
	Receiver [wire.NumVCs]int
}

// slots returns a profile with two sizes. Virtual channels for requests and replies have "sender"
// and "receiver" slots. Virtual channels for control packets have "controlSender" and
// "controlReceiver" slots.
func slots(name string, sender, receiver, controlSender, controlReceiver int) SlotProfile {
	p := SlotProfile{Name: name}
	for v := range p.Sender {
		p.Sender[v], p.Receiver[v] = sender, receiver
		if wire.VC(v).Class() == wire.ClassControl {
			p.Sender[v], p.Receiver[v] = controlSender, controlReceiver
		}
	}
	return p
}

// The profiles of channel sizes. Channels for control packets are smaller than the others (Spec
// §2.3.2). A profile named after a chip has the sizes that tt-metal's fabric builder tries first.
// SlotWormhole is for the 2D router of a Wormhole. SlotBlackhole is for the 2D router of a
// Blackhole, and SlotBlackhole1D for the 1D router. For a 1D router of a Wormhole, the builder's
// first sizes are those of SlotSpec.
var (
	// SlotSpec has the specification's sizes: 8 slots in a sender channel, 16 in a receiver channel
	// (Spec §3.1.1).
	SlotSpec = slots("spec", 8, 16, 4, 8)
	// SlotFast has many slots, so that many packets are under way at once. The profile is for
	// speed, and does not show the back-pressure of the hardware.
	SlotFast        = slots("fast", 128, 256, 8, 16)
	SlotWormhole    = slots("wormhole", 7, 11, 4, 8)
	SlotBlackhole   = slots("blackhole", 8, 16, 4, 8)
	SlotBlackhole1D = slots("blackhole-1d", 32, 32, 4, 8)
)

// SlotProfiles are the profiles that a user can choose by name.
var SlotProfiles = []SlotProfile{SlotSpec, SlotFast, SlotWormhole, SlotBlackhole, SlotBlackhole1D}

// Only returns a copy of the profile that has slots only in the virtual channels that are true in
// "used".
func (p SlotProfile) Only(used [wire.NumVCs]bool) SlotProfile {
	for v, u := range used {
		if !u {
			p.Sender[v], p.Receiver[v] = 0, 0
		}
	}
	return p
}
