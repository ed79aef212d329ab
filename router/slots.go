package router

import "ttfabric/wire"

// SlotProfile gives the sizes of a router's channels, in packets.
type SlotProfile struct {
	Name     string
	Sender   [wire.NumVCs]int
	Receiver [wire.NumVCs]int
}

// slots returns a profile in which all channels of requests and replies have the same sizes. All
// channels of control messages have the same sizes too.
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

// The profiles of channel sizes. The control channel is smaller than the others (Spec §2.3.2). The
// profiles named after a chip have the sizes that tt-metal's fabric builder tries first. They are
// for the 2D router of a Wormhole, and for the 2D and the 1D router of a Blackhole. A Wormhole's 1D
// router has [SlotSpec].
var (
	// SlotSpec has the specification's sizes: 8 slots in a sender channel, 16 in a receiver channel (Spec §3.1.1).
	SlotSpec = slots("spec", 8, 16, 4, 8)
	// SlotFast has room for a long window. The profile is for speed, not for the back-pressure of
	// the hardware.
	SlotFast        = slots("fast", 128, 256, 8, 16)
	SlotWormhole    = slots("wormhole", 7, 11, 4, 8)
	SlotBlackhole   = slots("blackhole", 8, 16, 4, 8)
	SlotBlackhole1D = slots("blackhole-1d", 32, 32, 4, 8)
)

// SlotProfiles are the profiles that a user can name.
var SlotProfiles = []SlotProfile{SlotSpec, SlotFast, SlotWormhole, SlotBlackhole, SlotBlackhole1D}

// Only returns the profile with only the virtual channels that are in use.
func (p SlotProfile) Only(used [wire.NumVCs]bool) SlotProfile {
	for v, u := range used {
		if !u {
			p.Sender[v], p.Receiver[v] = 0, 0
		}
	}
	return p
}
