package router

import "ttfabric/wire"

// SlotProfile is the size of a router's channels, in packets.
type SlotProfile struct {
	Name     string
	Sender   [wire.NumVCs]int
	Receiver [wire.NumVCs]int
}

// slots is a profile with as many slots for all channels of requests and replies, and for those of control.
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

// The profiles. The control channel is smaller (Spec §2.3.2). Those that are
// named for a chip are what tt-metal's fabric builder takes first, for the 2D
// router of a Wormhole and the 2D and 1D router of a Blackhole; a Wormhole's 1D router has [SlotSpec].
var (
	// SlotSpec has the specification's sizes: 8 slots in a sender channel, 16 in a receiver channel (Spec §3.1.1).
	SlotSpec = slots("spec", 8, 16, 4, 8)
	// SlotFast has room for a long window; it is for speed, not for faithful back-pressure.
	SlotFast        = slots("fast", 128, 256, 8, 16)
	SlotWormhole    = slots("wormhole", 7, 11, 4, 8)
	SlotBlackhole   = slots("blackhole", 8, 16, 4, 8)
	SlotBlackhole1D = slots("blackhole-1d", 32, 32, 4, 8)
)

// SlotProfiles are the profiles that can be named.
var SlotProfiles = []SlotProfile{SlotSpec, SlotFast, SlotWormhole, SlotBlackhole, SlotBlackhole1D}

// Only is the profile without the channels that are not in use.
func (p SlotProfile) Only(used [wire.NumVCs]bool) SlotProfile {
	for v, u := range used {
		if !u {
			p.Sender[v], p.Receiver[v] = 0, 0
		}
	}
	return p
}
