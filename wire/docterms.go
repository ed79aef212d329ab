// # Terms
//
// Each term below has one meaning in the whole project. If the specification or tt-metal has a name
// for a thing, the project keeps this name.
//
// Machines and addresses:
//
//   - Fabric: all chips that can send packets to each other. It consists of one or more
//     meshes.
//   - Mesh: up to 256 chips in a grid of rows and columns, with one numbering.
//   - Chip: one device, and the process or value that emulates it. A fabric node is the same
//     thing seen as an address: mesh and chip number, [FabricNodeID].
//   - Channel: alone, the number of an ethernet port of a chip, 0 to 15. The other kinds of
//     channel are always called by their full name: virtual channel, sender channel, receiver
//     channel.
//   - Port: one endpoint of a cable: a chip and a channel, [PortID].
//   - Cable: the wire between two ports. In the live fabric, a pair of UDP addresses or QUIC
//     ends stands for the cable.
//   - Link: the protocol machine at the two ends of a cable, and the connection that the two
//     ends keep by training. A link is off, training or up.
//   - Tile: a place on a chip's network on chip (NoC), with memory of its own.
//   - Exit node: a chip with a cable to another mesh. An entry node is the chip at the other
//     end of that cable.
//
// The link:
//
//   - Datagram: what a port sends or receives at once: one UDP payload.
//   - Frame: the unit of the link protocol, one per datagram.
//   - Packet: the unit that the fabric routes. The link cuts a packet into pieces, one per
//     data frame.
//   - Incarnation: the random number of one run of a chip's process. A chip that restarts has
//     another incarnation.
//   - Training: the exchange of hellos that proves a path both ways. A training number names
//     one training of one end.
//   - Session: what two incarnations share over a link: sequence numbers, credits and packets
//     under way. A session survives a lost path and ends when either end has another
//     incarnation.
//   - Slot: room for one packet in a receiver channel. In package router also: a buffer of the
//     chip's pool, by index.
//   - Grant: the absolute number of packets that the peer may have sent on a virtual channel.
//     A credit is the permission to send one more packet, the difference of the grant and the
//     packets sent.
//   - Sequence update: a frame that carries the acknowledgement and grants, and perhaps a NACK
//     or SOLICIT.
//   - NACK: a request to send again from a missing frame on. SOLICIT is a request for a
//     sequence update.
//   - Proof: a hello that shows that a path works both ways. An end is confirmed once its peer
//     has shown that it is up too.
//   - Path: how a link's datagrams reach the peer: by the link's own cable, or by a fallback
//     path.
//   - Fallback path: the cable of another link to the same chip in the same direction, used
//     while the own cable does not work (Spec §7.4.1.1).
//   - Damping: keeping a cable that fails often out of use for a while. The cable is then
//     held; a hold is one such time.
//
// The router:
//
//   - Plane: a set of cables that packets do not leave on their way: channel k of one edge
//     connects only to channel k of the others (Spec §2.2.2).
//   - Direction: the side of a chip that a cable leaves from: east, west, north or south.
//   - Virtual channel (VC): a class of traffic on a link, with slots and credits of its own.
//   - Sender channel: a queue of packets that wait to leave by a port. Receiver channel: the
//     queue of packets that came in by a port and have not moved on.
//   - Wrap: the cable of an axis that leads from the last row or column back to the first.
//     Such an axis consists of rings.
//   - Dateline: the place on a ring where packets change to another virtual channel, so that
//     no cycle of waiting packets closes.
//   - Route: the chips and ports that a packet takes. A path in package route is a route as a
//     list of directions.
//   - Tables: the routing tables of a chip.
//   - Epoch: always with its kind. A table epoch is the hash of the inputs from which all
//     chips compute the same tables. A flow epoch is explained below.
//   - Detour: a route round a fault, in virtual channels of its own.
//   - Out of service: said of a cable that routes avoid. Its link has been down for some time,
//     by its own cable and every other, or an operator took it out. In service is the
//     opposite.
//   - Grace period: how long packets wait for a next hop whose link is down. A next hop is
//     dead after that time; routers drop the packets that wait for it.
//   - Up, down: the meshes form a tree. A crossing from one mesh to another leads up if it
//     leads towards the root, else down.
//   - Drain: an order to a port. A draining port drops requests that would leave by it, and
//     tells their sources. Probes, replies, completions and reports still pass.
//   - Multicast: a packet for several chips. Its trunk is the axis along which it spreads
//     first; its branches leave the trunk along the other axis.
//
// Requests:
//
//   - Request: a packet with a NoC command. A reply carries the data of a read; a completion
//     tells the outcomes of requests; a probe is a request that only asks for a completion; a
//     drop report tells the source about a packet that a router dropped.
//   - Flow: the numbered requests and probes from one chip to another, or to one group, on one
//     plane.
//   - Flow epoch: a period in which a flow's numbers grow without a break. Every later epoch
//     has a higher number.
//   - Group: the chips that one source multicasts to by the same ranges on one plane.
//   - Open: said of a request whose fate the source does not know yet. Settled is the
//     opposite.
//   - Fate: what became of a request, as far as its source can know: done, refused with an
//     outcome, lost, or unknown.
//   - Outcome: what the destination says about a request in a completion. An exception carries
//     an outcome other than done.
//   - Operator: the person or program that steers a running fabric.
package wire
