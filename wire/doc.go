// Package wire defines the formats in which ttfabric's chips exchange data, and Go types for these
// formats. This page describes the formats and the link protocol completely. From this page alone,
// a programmer can implement the other end of a cable.
//
// All integers are little-endian. Offsets and lengths are in bytes. A writer encodes a format, and
// a reader decodes the format. To refuse something means to drop it, count the drop, and change
// nothing else. A writer sets reserved fields to zero. For each reserved field, the text says
// whether readers refuse a value other than zero.
//
// The page is spread over five files, and 'go doc ./wire' prints all of them. doc.go has the
// formats, docflows.go the flows, doclink.go the link protocol, and docterms.go a glossary.
// docwrites.go has writes over the cable and compliance mode. A router also writes its status into
// its chip's memory, where programs and chips read the status with NoC reads; see mailbox.go.
//
// # Where the offsets come from
//
// The specification (TT-Fabric Architecture Specification, §2.1) gives the TT-link header's size,
// 16 bytes, and the information that the header must contain. No public document gives the offsets
// of the header's fields. ttfabric therefore has its own layouts of the envelope, the TT-link
// header, hellos, sequence updates, the packet's extension, completions and drop reports. The
// header that follows a packet's extension has tt-metal's layout and codes
// (fabric_edm_packet_header.hpp, fabric_common.h).
//
// # Frame
//
// One UDP datagram carries one frame. How an end learns the peer's UDP address is not part of this
// page.
//
//	 0  2  magic 'T' 'T' (54 54)                               \
//	 2  1  version (3) in the high nibble, destination channel  | envelope,
//	       0 to 15 (port of the receiving link) in the low      | 8 bytes
//	 3  1  pad: padded payload in units of 32; 0: not padded    |
//	 4  4  session id; 0 outside a session                     /
//	 8  1  kind in the low nibble, virtual channel in the high \
//	 9  1  flags                                                | TT-link
//	10  2  length: payload without padding                      | header,
//	12  4  destination address at the receiver                  | 16 bytes
//	16  4  tx seq: number of this frame                         |
//	20  4  rx seq: next number expected from the receiver      /
//	24  n  payload, padded with zeros to 32 × pad bytes if pad is not 0
//	24+n 4 CRC-32C of all bytes before it
//
// The payload takes 32 × pad bytes, or length bytes if pad is 0. The frame is 28 bytes longer than
// its payload. A payload is at most 255 × 32 = 8160 bytes long, with or without padding.
//
// Readers refuse bytes that are not exactly one frame. Readers also refuse a frame with any of
// these faults: another magic or version; a length beyond the padded payload or 8160; a wrong
// checksum; a kind other than 1, 2, 3, 5, 6 and 7; a set reserved flag. Readers ignore the padding's content.
//
// CRC-32C (Castagnoli) is also the checksum of iSCSI (RFC 3720 §B.4). The reflected polynomial is
// 82F63B78. The initial value and the final exclusive-or are FFFFFFFF. The CRC-32C of the nine
// characters "123456789" is E3069283.
//
// Segmentation offload (GSO, GRO) puts several frames back to back into one buffer. The pad byte
// lets a reader split this buffer into frames. The first 12 bytes of a frame give the frame's
// length (see [FrameLen]). All frames of one buffer have the same length, except that the last may
// be shorter. On the wire, each frame is a separate datagram.
//
// Kinds:
//
//	1 data    a piece of a fabric packet          numbered by tx seq
//	2 update  sequence update: ack, NACK, grants  not numbered, tx seq 0
//	3 hello   bring-up and training               not numbered, tx seq 0
//	5 close   the sender shuts its link down      not numbered, tx seq 0, no payload
//	6 write   L1 write: a piece of a command      numbered by tx seq
//	7 MMIO    write to one register               numbered by tx seq
//
// Flags: bit 0 is END, bit 1 is NACK, bit 2 is SOLICIT. END marks the data frame with the last
// piece of a packet, and the last frame of an L1 write or MMIO write. NACK and SOLICIT are flags of
// updates. Bits 3 to 7 are reserved. Readers refuse a frame with a reserved bit set. A writer sets
// to zero all flags and fields that the frame's kind does not use.
//
// Virtual channels (VC):
//
//	0 data (requests)    3 data behind the dateline      5 data upwards       8 data upwards, behind the dateline
//	1 reply (read data)  4 reply behind the dateline     6 reply upwards      9 reply upwards, behind the dateline
//	2 control (completions, drop reports)                7 control upwards
//	10 data, 11 reply, 12 control on a detour            13 data, 14 reply, 15 control upwards and on a detour
//
// A fabric of one mesh needs only VC 0 to 2 if no cable wraps and no route leads round a fault. In
// an L1 write and an MMIO write, the VC field holds the number of the transaction command queue
// instead, 0 to 2. All other kinds have VC 0. Only data frames, L1 writes, MMIO writes and hellos
// are padded. The destination channel of every frame is the channel of the port at the other end of
// the link's own cable. A fallback path does not change the destination channel.
//
// The destination address of a data frame is slot × 8192 + the piece's offset in its packet
// ([SlotAddress]). On the VCs for control packets (2, 7, 12 and 15), a slot has 96 bytes. The
// destination address there is slot × 96 + the offset. A packet must fit its slot.
//
// The destination address of an L1 write or MMIO write is an address of the ethernet tile of the port
// at the other end. See "L1 writes and MMIO writes".
//
// In each session, the packets of each VC are numbered from 0. A packet's slot is
// the packet's number modulo the number of slots that the receiver has for the VC. Each end counts
// slots in a separate counter that returns from the last slot to 0. An end cannot use a 32-bit
// packet counter modulo the number of slots instead. If the number of slots is not a power of two,
// the result is wrong after the packet counter wraps.
//
// # Hello
//
// The payload of a hello is 80 or 158 bytes long. The frame of a hello has the sender's session id,
// or 0 before the first session. In a session, the frame's rx seq is the next number that the sender
// expects. The sender pads the frame to the largest frame payload that the hello names, or
// to less. "Link: bring-up and training" gives the lengths. Before a link comes up, its path has
// therefore carried frames as long as the link's later data frames.
//
//	 0  1  version (3)
//	 1  1  bit 0 UP: the sender is up; bit 1 WANT: answer this hello; other bits reserved, refused
//	 2  1  from: channel, 0 to 15
//	 3  1  expected: channel
//	 4  2  from: mesh, 0 to 1023
//	 6  2  from: chip, 0 to 255
//	 8  2  expected: mesh
//	10  2  expected: chip
//	12  4  echo training: the receiver's training number that the sender heard last
//	16  8  incarnation of the sender, not 0
//	24  8  echo incarnation: the receiver's incarnation that the sender heard last; 0: none
//	32  8  stamp: opaque to the receiver, not 0
//	40  8  echo stamp: stamp of the hello that this hello answers; 0: not an answer
//	48  4  training: number of the sender's training
//	52  2  largest padded frame payload that the sender takes: a multiple of 32, 32 to 8160
//	54  6  slots of VC 0, 1, 2 (2 bytes each): lengths of the sender's receiver channels, in packets; 0: VC not in use
//	60  1  via: 0: sent by the link's own cable; k+1: sent by the cable of the sender's channel k
//	61  3  reserved, refused
//	64  4  fabric: a number that all chips of one fabric share; 0 matches every fabric
//	68 12  grants for VC 0, 1, 2 (4 bytes each), of the frame's session; 0 outside a session
//	80 78  for each VC from 3 to 15: slots (2 bytes) and grant (4 bytes); left out if all are 0
//
// An incarnation is a random 64-bit number that a chip's process draws each time it starts. "From"
// is the sender's port. "Expected" is the port that the sender believes to be at the other end of
// the cable.
//
// The session id is the CRC-32C of 26 bytes: 13 bytes of the lower port, then 13 bytes of the
// higher port. The 13 bytes of a port are mesh (2), chip (2), channel (1) and incarnation (8).
// Ports are ordered by mesh, then chip, then channel. If the CRC-32C is 0, the session id is 1. In
// every session, the tx seq of an end's first data frame or write is the low 32 bits of that end's
// incarnation.
//
// # Sequence update
//
// The payload of an update is 12 or 64 bytes long, and not padded. A payload of 12 bytes holds the
// grants for VC 0, 1 and 2, 4 bytes each. The grants for the other VCs are then 0. A payload of 64
// bytes holds the grants for VC 0 to 15, 4 bytes each. The acknowledgement is the frame's rx seq.
//
// # Fabric packet
//
// Requests, probes and replies have the format of this section. Control packets have a shorter
// format; see "Control packet".
//
// The link cuts a packet into pieces, one for each data frame. A packet begins with an extension of
// 40 bytes. After the extension comes tt-metal's 2D header. The header's route_buffer has a length
// r of 19, 35, 51 or 67 bytes. The source chooses the smallest r with room for every route that the
// packet may need. The header is accordingly 80, 96, 112 or 128 bytes long. The payload of at most
// 4096 bytes follows the header.
//
//	 0  1  type: 1 request, 2 reply, 5 probe; others refused, except the types of control packets
//	 1  1  VC in the low nibble, routing plane in the high
//	 2  2  TTL: number of routers that may still forward the packet
//	 4  2  length of the whole packet
//	 6  1  length of the extension (40)
//	 7  1  r
//	 8  2  source mesh
//	10  2  source chip
//	12  4  flow epoch   \
//	16  4  flow seq      | of requests and probes; 0 for other types
//	20  4  flow base    /
//	24  8  id of the request or probe, unique at the source; a reply has its request's id; 0 for other types
//	32  4  table epoch of the tables that gave the route; 0: tables of several epochs gave the route, or the
//	       route leads to silent cables. See "Link state"
//	36  1  bit 0 UP: the packet still has to cross towards the root of the tree of meshes;
//	       bit 1 TRACE: each chip that the packet comes to may record the packet;
//	       bit 2 DETOUR: the route through the present mesh leads round a fault;
//	       bit 3 KNOWN: the source has had an answer from every destination in this flow epoch;
//	       bit 4 OTHER: the other direction round rings, see below;
//	       bit 5 MEMBERS: a multicast to a set of chips, see "Multicast to members";
//	       bit 6 POSTED: the source wants no completion for this request; bit 7 reserved, refused
//	37  1  reserved, refused
//	38  2  number of a multicast's group; 0: unicast
//	40 40  command union                               \
//	80  2  size                                         | tt-metal's base
//	82  1  send type                                    | header, 44 bytes
//	83  1  source channel: 0, ignored                  /
//	84  2  hop: index of the next router's route byte
//	86  1  branch offset east: 0, ignored (multicasts have ranges instead)
//	87  1  branch offset west: 0, ignored
//	88  r  route_buffer
//	88+r 2 destination chip
//	90+r 2 destination mesh
//	92+r 8 multicast: ranges east, west, north, south, 2 bytes each: hops in the low byte, skip in the
//	       high; unicast request or probe: 92+r 4 life of the destination, see "Lives"; then 0
//	100+r 1 trunk of a multicast: 1 east and west, 2 north and south; 0: ranges ignored
//	101+r  payload
//
// With MEMBERS, 32 bytes of members lie between header and payload, at offset 101+r. The bytes name
// the members ahead of the packet: chip c is bit c%8 of byte c/8. The payload then begins at offset
// 133+r.
//
// Readers refuse a packet with any of these faults:
//
//   - The length is not the number of bytes that came, or the payload has more than 4096 bytes.
//   - The source or destination has a mesh above 1023 or a chip above 255.
//   - The number r, the extension length, the type or the trunk is not among the values above.
//   - A request or probe without MEMBERS has a group but no trunk, or a trunk but no group.
//   - A packet with MEMBERS has no group or no member, or is neither a request nor a probe.
//   - A reply has a trunk or a group.
//   - POSTED is set in a packet that is no request.
//   - OTHER is set in a packet with a group.
//
// Requests and probes travel on VC 0, 3, 5, 8, 10 and 13. Replies travel on VC 1, 4, 6, 9, 11 and
// 14. Completions and drop reports travel on VC 2, 7, 12 and 15. Link states travel on VC 2. The
// packet's class and these rules decide the VC of each hop:
//
//   - With DETOUR, every hop in this mesh uses a VC for detours round a fault (10 to 15).
//   - With UP, the hop uses an upward VC (5 to 9, 13 to 15).
//   - On an axis that wraps, one cable leads from the last row or column to the first. Crossing
//     this cable, in either direction, puts the packet behind the dateline. The packet uses a VC
//     behind the dateline (3, 4, 8 or 9) from that hop on, until it turns or leaves the mesh.
//
// A fabric with bubble flow control does not use the VCs behind the dateline. In that fabric, a
// request, probe or reply enters an axis that wraps only if the peer has two free slots. The rule
// of two free slots does not apply to packets on detours. Completions and drop reports use no cable
// that wraps, except on up*/down* routes.
//
// A reply's payload is the data that was read. Replies and probes have send type 255.
//
// Size is the number of payload bytes. For a read, which has no payload, size is the number of
// bytes wanted, 0 to 4096.
//
// Each byte of the route_buffer names one direction: 1 east, 2 west, 4 north, 8 south. The source
// sends the packet in the first direction of the path. The route_buffer has no byte for the first
// direction. The first byte is for the first chip after the source, the second byte for the second
// chip, and so on. If the packet came in by the side that the byte names, the chip delivers the
// packet. Otherwise the chip forwards the packet in the direction that the byte names. For example,
// the route_buffer for the path E E N is 1 4 8. Unused bytes at the end are 0. A byte of 0, a byte
// with two bits set, and a byte that names a missing port mean "no route".
//
// A router that forwards a packet takes 1 from the TTL, and adds 1 to hop as long as hop is below
// r. A router that should forward a packet with TTL 0 drops the packet. Delivery changes neither
// TTL nor hop. With --strict-ttl, a chip drops every packet that comes in with TTL 0 (Spec §7.2).
// A packet keeps its plane from the source's port to the destination's port. Requests are routed
// along one dimension of the mesh first. Replies, completions and drop reports take the other
// dimension first, which reverses the request's route. Frames of a packet have the packet's VC.
//
// A packet for another mesh is routed to an exit node, and over the exit node's cable into the next
// mesh. The entry node of the next mesh writes a new route, sets hop to 0, and sets UP and DETOUR
// for the new route. The source therefore chooses an r with room for the longest route through any
// mesh of the fabric. The hop out of the mesh counts as part of the route.
//
// Two chips opposite each other on a ring with an even number of chips have two equally long
// routes, one in each direction. Without OTHER, a packet takes the route that the tables prefer.
// With OTHER, a packet takes the opposite route, in both dimensions. An entry node that writes a
// new route also obeys OTHER. OTHER has an effect only for such pairs of chips, and has no effect
// on control packets. If a fault has broken the opposite route, OTHER has no effect. A reply or
// completion has OTHER if its request has OTHER.
//
// The send type decides the fields of the command union. The union's other bytes are 0, and readers
// ignore them:
//
//	  0 unicast write     0 8 address
//	  1 inline write      0 8 address, 8 4 value
//	  2 atomic increment  0 8 address, 8 4 increment, 12 1 flush
//	  3 write, increment  0 8 address, 8 8 counter's address, 16 4 increment, 20 1 flush
//	  4 scatter write     0 32 four addresses, 32 6 sizes of the chunks but the last (3 × 2),
//	                      38 1 chunks (2 to 4), 39 1 chunk kinds, two bits each from
//	                      the lowest, 1 for a write
//	  5 NoC multicast     0 4 offset in each tile, 4 1 first column, 5 1 first row, 6 1 columns, 7 1 rows
//	  6 NoC multicast     0 4 offset in each tile, 4 4 increment, 8 1 first column, 9 1 first row,
//	    increment         10 1 columns, 11 1 rows
//	  7 read              0 8 address
//	255 none              nothing (all but requests)
//
// A packet is malformed if it has a send type that is not in this list. Except for reads, a packet
// is also malformed if its size is not the payload's length. A scatter write is malformed if it
// does not have 2 to 4 chunks, all of kind 1, or if the chunks are longer than size. A NoC
// multicast is malformed if it has no columns or rows, or a column or row above 63, or if its first
// column and row are both 0. The destination drops and counts a malformed packet, and sends no
// answer. The flow therefore treats the packet as lost. The destination answers a well-formed
// request that it cannot perform with an exception. These errors have outcome 3 (bad command): a
// request of send type 255; a read of more than 4096 bytes; a read by multicast; a payload in an
// inline write or atomic increment; an inline write or an increment in DRAM.
//
// A writer sets the address, size and kind of unused chunks to 0, and readers ignore these fields.
// The last chunk gets the part of the payload that the other chunks leave. A writer sets flush to 0
// or 1. Readers treat any other value as 1.
//
// A NoC address has the byte offset in bits 0 to 35, the NoC column x in bits 36 to 41, and the NoC
// row y in bits 42 to 47. Higher bits are 0 (tt-metal, Wormhole). Inline writes and increments act
// on a 32-bit word at an offset that is a multiple of 4. An increment wraps. Inline writes and
// atomic increments have no payload.
//
// # Multicast
//
// A multicast is a request or a probe for several chips of one mesh. Each of these chips, the
// members, performs the multicast. A multicast without MEMBERS is for chips of its source's mesh, and
// has ranges, as this section describes. The route_buffer of a multicast is 0, and readers ignore it.
// Each router decides by the ranges. The destination fields name the source. The trunk is the axis
// along which the fabric routes requests first. The trunk byte names this axis. In tt-metal's
// header, the trunk byte is the flag is_mcast_active.
//
// The ranges describe the part of the multicast's tree that lies ahead of the packet. Each
// direction has a number "hops" and a number "skip". Hops is the number of chips ahead in the
// direction. Skip is the number of chips, from the nearest on, that only pass the packet on. At the
// source, hops are the ranges of tt-metal's mesh API. A line of tt-metal's linear API has start +
// range - 1 hops and a skip of start - 1. On an axis of n chips, the hops of the two directions add
// up to at most n - 1. If the axis does not wrap, hops lead at most to the last chip of the axis.
//
// If the skip in the packet's direction of travel is not 0, the chip only passes the packet on. The
// chip sends one copy in that direction, or drops the packet if the direction has 0 hops. If the
// skip is 0, the chip performs the packet, and sends a copy in each direction that has hops. The
// source sends a copy in each direction that has hops, and does not perform the packet. A packet
// with hops in the direction that it came from has no route.
//
// A copy that leaves in a direction has 1 hop less in that direction than the packet. If the copy
// goes straight on and its skip in that direction is above 0, this skip is also 1 less. A copy that
// leaves along the trunk keeps the ranges of the other axis. All other ranges of the copy become 0.
// A copy's TTL and VC follow the rules for unicast packets. A copy that turns thus leaves the VC
// behind the dateline.
//
// A router forwards each copy as soon as there is room for that copy. The router keeps the packet's
// slot until it has forwarded all copies. The router drops and reports a copy that has no port to
// leave by, a TTL of 0, or a dead next hop.
//
// # Multicast to members
//
// A multicast with MEMBERS is for any set of chips of the mesh that the destination fields name. The
// chip in the destination fields is one of the members. The ranges are 0, and readers ignore them. The
// source is never a member. A source whose mesh is the members' mesh gives the packet a trunk, as in
// other multicasts. The route_buffer is then 0.
//
// A source in another mesh sends the packet without a trunk. As long as the packet has no trunk,
// routers handle it as a unicast to the members' mesh, with route, UP and DETOUR. The entry node of the
// members' mesh gives the packet the trunk, and clears the route, UP and DETOUR. At the entry node the
// tree begins, as it does at a source.
//
// Each chip of the tree looks at the members ahead of the packet. If the chip is a member, it performs
// the packet. The route to any other member first follows the axis of the trunk. If the member lies
// at the chip's own place along this axis (with trunk 1, in the chip's column), the route follows
// the other axis. Where the tree begins, the route takes the shorter direction along its axis. If
// both directions round a ring are equally long, the route goes east or south from an even column
// or row. From an odd column or row, the route goes west or north. A member whose axis is the axis
// on which the packet came is straight ahead. A packet that came along the trunk turns for the
// other members, again in the shorter direction. A packet that came along a branch has no route if
// a member lies in another row or column than the branch. One copy leaves in each direction that
// has members, and has these members. In all other respects, copies follow the rules of multicasts
// by ranges.
//
// # Control packet
//
// Completions, drop reports and link states are control packets. A control packet always has 96
// bytes (Spec §2.3.2: "small, fixed size packets"). The header has 44 bytes. The payload of at most
// 52 bytes follows, and zeros up to the packet's end:
//
//	 0  1  type: 3 completion, 4 drop report, 6 link state
//	 1  1  VC in the low nibble, routing plane in the high; another VC than 2, 7, 12 and 15 is refused
//	 2  2  TTL
//	 4  2  length of the whole packet (96)
//	 6  1  length of the header (44)
//	 7  1  low seven bits: r, actions in the route, 0 to 67; bit 7: the last action is 16 (Z), refused if r is 0
//	 8  2  source mesh
//	10  2  source chip
//	12 17  route: two bits for each action, from the lowest: 0 east, 1 west, 2 north, 3 south
//	29  1  hop: index of the next router's action, 0 to r
//	30  1  length of the payload, 0 to 52
//	31  1  reserved, refused
//	32  4  table epoch
//	36  1  flags UP, TRACE, DETOUR and OTHER, as in other packets; other bits reserved, refused
//	37  1  reserved, refused
//	38  2  completions: number of the multicast group; 0: unicast. Other types: 0, others refused
//	40  2  destination chip
//	42  2  destination mesh
//	44 52  payload; readers ignore the bytes after it
//
// Readers refuse a control packet with a field outside these ranges, or with OTHER and a group. Only
// completions have OTHER. An action has the meaning of a byte of the route_buffer. If hop is r, the
// packet has no route. A router that forwards the packet adds 1 to hop as long as hop is below r. An
// entry node that writes a new route also writes r.
//
// News that is longer than a control packet travels in several control packets. A receiver can use
// each of these packets alone, and keeps no memory to join them. A completion names its first
// request. A drop report names its members. Each entry of a link state has its own version.
//
// # Completion
//
// A completion is the payload of a packet of type 3, from the destination to the source:
//
//	 0  4  flow epoch
//	 4  4  from: flow seq; see below
//	 8  4  next: flow seq, not before from (wrapping)
//	12  4  n: exceptions, 0 to 4
//	16 8n  exceptions: first (4), count (2, not 0), outcome (1), reserved (1, refused)
//
// A completion settles the requests from "from" to next-1. A destination with more than four
// exceptions sends several completions. From of the first completion is the highest flow base that
// the destination has seen. From of each further completion is next of the previous completion. An
// exception may begin before from; the source already knows how these requests ended. An exception
// may also end after next; the source ignores its part from next on. If a request before from has
// no fate yet at the source, an earlier completion is missing, and the source ignores the
// completion.
//
// An exception says that count requests, from flow seq first on, did not end as done. Outcomes: 1
// bad address, 2 misaligned, 3 bad command, 4 again (no room or no route for the reply), 5 lost, 6
// destination restarted, 7 too many exceptions, 8 out of memory, 9 flow unknown, 10 harvested tile (a
// Tensix tile is switched off), 11 untranslated coordinates, 12 no host memory (no host lets the chip
// use its memory), 13 host gone (the host left or did not answer). Readers refuse all other outcomes.
//
// With outcomes 6 and 13 nobody knows whether the request was performed. With all other outcomes
// the destination did not perform the request. With outcome 5 the request did not come, or came
// when the destination kept too many exceptions. If a request with outcome 5 comes later, the
// present incarnation of the destination does not perform it. "Flows" says what a later
// incarnation does. With all outcomes except 5 and 6 the request came to the destination. After
// outcomes 4, 7 and 9 a source may try again, after 9 in a new flow epoch.
//
// A destination that keeps 62 or more exceptions of a flow performs no further requests of the
// flow. One more exception, with outcome 7, covers these further requests. From the first gap on, a
// last exception, with outcome 5, covers the gap and all later requests. The destination performs
// requests again when the source's flow base shows that the source has received the exceptions.
//
// # Drop report
//
// A drop report is the payload of a packet of type 4. A router sends the report to the source of a
// dropped request or probe, or to the destination of a dropped reply. A report of a unicast packet
// has 24 bytes. A report of a copy of a multicast has 36 bytes, or 44 bytes with members:
//
//	 0  2  mesh, 2 2 chip: destination of the dropped request or probe, or source of the reply
//	 4  4  flow epoch; 0 for a reply
//	 8  4  flow seq; 0 for a reply
//	12  1  plane, 0 to 15
//	13  1  reason: 1 next hop dead, 2 TTL used up, 3 no route, 4 malformed, 5 timeout,
//	       6 unreachable, 7 tables replaced, 8 drained, 9 flushed
//	14  1  channel of the reporting chip's port at which the packet waited, 0 to 15
//	15  1  type of the dropped packet, 1 to 5; plus 128 for a multicast, plus 64 for a packet with OTHER,
//	       plus 32 for a multicast with MEMBERS, plus 16 for an open report
//	16  8  id of the request or probe; for a reply, id of the read
//	24  2  number of the multicast's group, not 0
//	26  1  direction that the copy should have left by, 0 to 3 for east, west, north, south;
//	       with members instead: half of the mesh, 0 for chips 0 to 127, 1 for chips 128 to 255
//	27  1  trunk, 1 or 2; with members also 0, if the packet had not entered their mesh
//	28  8  ranges of the copy, as in the packet; with members instead: 28 16 members of the
//	       copy in this half, chip 128 half + c is bit c%8 of byte c/8, at least one
//
// If a copy has members in both halves, the router sends two reports, one for each half. The source
// can use either report without the other.
//
// An open report says that the packet was unacknowledged in the link of the channel when the link
// died. Such a packet was not dropped for certain, because the peer may have received it. All other
// reports say that the packet was dropped.
//
// Routers report only requests, probes and replies. Routers send no report about a dropped
// completion, drop report or link state.
//
// # Link state
//
// A link state message is the payload of a packet of type 6, which a chip sends to a neighbour. The
// packet travels one hop. The payload has 1 to 4 entries of 12 bytes. A chip with more
// news sends several packets. Each entry comes from one chip, and says which of that chip's own
// ports routes must avoid:
//
//	0  2  mesh, 2 2 chip
//	4  4  version
//	8  2  ports out of service: bit k stands for channel k
//	10 2  silent ports: bit k stands for channel k
//
// A port is in one of the two maps at most. Readers refuse a message in which an entry has a port in
// both. A silent port hears nothing from its peer, but there is no evidence that the cable or the
// peer has failed. The peer is perhaps only late. A silent port goes out of service when the chip
// has such evidence, or after 20 s (package router/control). For both kinds of ports, routes avoid
// the cable.
//
// Of two entries about one chip, the entry with the higher version (wrapping) is valid. If the
// versions are equal, the entry with the numerically higher map of ports out of service is valid. If
// these maps are equal, too, the entry with the numerically higher map of silent ports is valid. A chip
// starts at version 0 with both maps empty, and adds 1 to its version at each change. For every other
// chip, a chip keeps the valid entry if the entry's version is not 0. A chip sends each new valid
// entry to all its neighbours. When a link to a neighbour comes up, the chip sends all its entries
// to that neighbour.
//
// A restarted chip may receive an entry about itself that an earlier incarnation sent. Suppose that
// this old entry differs from the chip's present entry, and that its version is not lower. The chip
// then gives the present entry the version after the old entry's, and sends the present entry
// again.
//
// Routes avoid a cable if at least one of its two ports is silent or out of service. All chips compute
// their routing tables from the same entries, and leave out the cables to avoid. A packet's table
// epoch names these tables. If every route to a chip crosses a silent cable, packets to that chip
// wait. If no route leads to a chip, not even over silent cables, routers drop packets to it.
//
// An entry node gives a packet its route by the tables that the packet's epoch names, so that the
// packets of a flow keep their order. The entry node must remember these tables, and the route must
// cross no cable out of service. Otherwise the entry node uses the tables of the flow's previous
// packet, or its own tables. If its own tables have no route, the entry node uses a route by silent
// cables. If the route comes from other tables than the packet names, the packet has the epoch 0
// from then on. There is one exception. If the entry node knows neither the named tables nor a
// packet of the flow, and the packet is not outdated, the packet gets the entry node's epoch.
//
// Only a packet that has the flag DETOUR, or that goes to another mesh, can be outdated for a
// router. A packet of these two kinds is outdated if routes of its epoch and of the router's own
// tables together could close a cycle. By this rule, routes of the epoch 0 can always close a
// cycle. An outdated packet keeps its route, but must not wait in a receiver channel. The router
// parks the packet, or drops the packet for reason 7 if no room is left.
package wire
