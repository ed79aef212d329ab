package kernel

import (
	"ttfabric/node/noc"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// ActiveEthernetCores lists the ethernet channels of a chip that have a cable to another chip of the
// machine, in order. If skipReserved is true, the list leaves out the channels that the dispatcher
// reserves (tt-metal: Device::get_active_ethernet_cores; CCL guide, "Acquiring Ethernet Cores").
func ActiveEthernetCores(t *topo.Topology, chip wire.FabricNodeID, skipReserved bool) []wire.Channel {
	var all []wire.Channel
	for _, p := range t.Ports(chip) {
		if !skipReserved || !t.Reserved(p.Local) {
			all = append(all, p.Local.Channel)
		}
	}
	return all
}

// ConnectedEthernetCore returns the port at the other end of the cable of an ethernet channel (tt-metal:
// Device::get_connected_ethernet_core). ConnectedEthernetCore returns false if the channel has no cable.
func ConnectedEthernetCore(t *topo.Topology, chip wire.FabricNodeID, ch wire.Channel) (wire.PortID, bool) {
	for _, p := range t.Ports(chip) {
		if p.Local.Channel == ch {
			return p.Peer, true
		}
	}
	return wire.PortID{}, false
}

// EthernetTile returns the tile of an ethernet channel (CCL guide, "Acquiring Ethernet Cores": the logical
// coordinate is (0, channel)).
func EthernetTile(a wire.Arch, ch wire.Channel) (Tile, bool) {
	x, y, ok := noc.EthernetTile(a, ch)
	return Tile{x, y}, ok
}
