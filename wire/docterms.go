// # Terms
//
// Each term below has one meaning in the whole project. The project uses the names of the
// specification and of tt-metal, if these names exist.
//
// Machines and addresses:
//
//   - Fabric: all chips that can send packets to each other. A fabric consists of one or more
//     meshes.
//   - Mesh: up to 256 chips in a grid of rows and columns, numbered from 0.
//   - Chip: one device, and the process or Go value that emulates the device. A fabric node is a
//     chip's address: mesh and chip number ([FabricNodeID]).
//   - Channel: the number of an ethernet port of a chip, 0 to 15. Virtual channels, sender channels
//     and receiver channels are always called by their full names.
//   - Port: one endpoint of a cable, named by a chip and a channel ([PortID]).
//   - Cable: the wire between two ports. In the live fabric, a pair of UDP addresses or QUIC
//     ends stands for the cable.
//   - Link: the connection that the protocol machines at the two ends of a cable keep up by
//     training. The protocol machine at one end is called the link, too. A link is off, training or up.
//   - Tile: a node of a chip's network on chip (NoC), with its own memory.
//   - Exit node: a chip with a cable to another mesh. An entry node is the chip at the other
//     end of that cable.
//
// The link:
//
//   - Datagram: the bytes that a port sends or receives at once, such as one UDP payload.
//   - Frame: the unit of the link protocol, one per datagram.
//   - Packet: the unit that the fabric routes. The link cuts a packet into pieces, one per
//     data frame.
//   - L1 write, MMIO write: a command of a transaction command queue. An L1 write writes into the
//     L1 of the ethernet tile at the other end of the cable. An MMIO write writes to a register of
//     that tile. Each port of Wormhole has two such queues, and each port of Blackhole has three.
//   - Compliance mode: a mode of a port, in which the cable carries payloads of standard Ethernet
//     without TT-link (Spec §2.1). A frame of this mode is a raw frame.
//   - Incarnation: one run of a chip's process, and the random number that names the run. A chip
//     that restarts has a new incarnation.
//   - Training: the exchange of hellos that proves that a path works in both directions. A training
//     number names one training of one end.
//   - Session: the state that two incarnations share over a link: sequence numbers, credits and
//     packets under way. A session survives a lost path. A session ends when one of the two ends
//     has a new incarnation.
//   - Slot: room for one packet in a receiver channel. In package router, a slot is also the index
//     of a buffer in the chip's pool.
//   - Grant: the number of packets that the peer may send on a virtual channel, counted from the
//     start of the session. A credit is the permission to send one more packet. The number of
//     credits is the grant minus the number of packets sent.
//   - Sequence update: a frame that carries the acknowledgement and grants, and perhaps a NACK
//     or SOLICIT.
//   - NACK: a request to send a missing frame and all later frames again. SOLICIT is a request for
//     a sequence update.
//   - Proof: a hello that shows that a path works in both directions. An end is confirmed after its
//     peer has shown that the peer is up too.
//   - Path: how a link's datagrams reach the peer: by the link's own cable, or by a fallback
//     path.
//   - Fallback path: the cable of another link to the same chip in the same direction. A link uses
//     a fallback path while its own cable does not work, is unreliable, or is out of service
//     (Spec §7.4.1).
//   - Damping: keeping a cable that fails often out of use for a while. During this time, the hold,
//     the cable is held.
//
// The router:
//
//   - Plane: a set of cables. A packet uses the cables of only one plane. Plane k has the k-th
//     cable between each two neighbouring chips (Spec §2.2.2).
//   - Direction: the side of a chip that a cable leaves from: east, west, north, south or Z. Only
//     cables between meshes leave in direction Z.
//   - Virtual channel (VC): a class of traffic on a link, with slots and credits of its own.
//   - Sender channel: a queue of packets that wait to leave by a port.
//   - Receiver channel: the queue of packets that came in by a port and have not moved on.
//   - Wrap: a cable that leads from the last row or column of a mesh back to the first. The columns
//     or rows with such a cable are rings.
//   - Dateline: the place on a ring where packets change to another virtual channel. The change
//     prevents a closed cycle of packets that wait for each other (a deadlock).
//   - Route: the sequence of chips and ports that a packet takes. In package route, a path is a
//     route written as a list of directions.
//   - Tables: the routing tables of a chip.
//   - Table epoch: the hash of the inputs from which all chips compute the same tables.
//   - Outdated: the state of a packet whose route comes from replaced tables, and could close a
//     cycle of waiting packets with routes of the tables in force.
//   - Parked: the state of a packet that waits in a sender channel beyond the channel's slots,
//     because it is outdated, or waits for a silent port. A parked packet holds up no packet of
//     another route.
//   - Detour: a route round a fault. Packets on detours use separate virtual channels.
//   - Out of service: the state of a cable that routes avoid, and whose link the chips do not wait
//     for. A cable goes out of service when its link is down on every path, and its peer or the
//     cable has failed. An operator can also take a cable out of service. In service is the
//     opposite.
//   - Silent: the state of a port or cable that routes avoid because the port hears nothing from its
//     peer, without evidence that the peer or the cable has failed. A chip is silent if routes lead
//     to it over silent cables only. Packets to a silent chip wait, because the chip is perhaps
//     only late.
//   - Grace period: how long packets wait for a next hop whose port is out of service. After the grace
//     period the next hop is dead, and routers drop the packets that wait for that next hop.
//   - Up, down: directions between meshes. The meshes form a tree. A crossing from one mesh to
//     another leads up if it leads towards the root of the tree, and down otherwise.
//   - Drain: an order to a port. A draining port drops the requests that would leave by the port,
//     and sends drop reports to their sources. Probes, replies, completions and drop reports still
//     pass.
//   - Multicast: a packet for several chips, the members: those within ranges of hops, or any set of
//     chips of one mesh (a sparse multicast). A multicast spreads first along one axis, the trunk.
//     Its branches leave the trunk along the other axis.
//
// Requests:
//
//   - Request: a packet with a NoC command. A probe is a packet without a command that only asks
//     for a completion.
//   - Control packet: a completion, a drop report or a link state. Control packets are small, have
//     one size, and have virtual channels with slots of that size.
//   - Reply: a packet with the data of a read. Completion: a packet with the outcomes of requests.
//   - Drop report: a packet that tells a chip that a router dropped a request or probe of the
//     chip, or the reply to a read of the chip.
//   - Flow: the numbered requests and probes from one chip to another, or to one group, on one
//     plane.
//   - Flow epoch: a period in which a flow's numbers grow without a break. Every later epoch
//     has a higher number.
//   - Group: the chips that one source multicasts to by the same ranges, or as the same set, on one
//     plane.
//   - Open: the state of a request whose fate the source does not know yet. Settled is the
//     opposite.
//   - Posted: the state of a request that ends for the program as soon as the chip has sent it. The
//     chip still counts how the request ended at its destination.
//   - Fate: how a request ended, as far as its source can know: done, refused with an outcome,
//     lost, or unknown. A posted request ends as posted when the chip has sent it.
//   - Outcome: how a request ended at the destination, as a completion reports. An exception is an
//     entry of a completion that names requests with an outcome other than done.
//   - Harvested tile: a Tensix tile that is switched off on this chip, with its whole row (Wormhole)
//     or column (Blackhole) of Tensix tiles.
//   - NoC multicast: a write or increment in all working Tensix tiles of a rectangle on one chip.
//   - Operator: the person or program that steers a running fabric.
package wire
