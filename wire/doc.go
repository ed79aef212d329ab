// Package wire holds the formats that chips of ttfabric exchange, and the types named in them.
// This page describes the formats and the link protocol completely. A reader can implement the
// other end of a cable from this page alone.
//
// All integers are little-endian. Offsets and lengths are in bytes. "Refuse" means: drop,
// count, change nothing else. A writer sets reserved fields to zero. The text says for each
// reserved field whether a reader refuses another value.
//
// The page is spread over several files: doc.go has the formats, docflows.go the flows, doclink.go
// the link protocol, and docterms.go a glossary. 'go doc ./wire' prints all of them. A router also
// posts its status in its chip's memory, where others read the status with NoC reads: see
// mailbox.go.
//
// # Where the offsets come from
//
// The specification (TT-Fabric Architecture Specification, §2.1) gives the TT-link header's
// size, 16 bytes, and what the header must say. No public document gives the offsets of its
// fields. The envelope, the TT-link header, hellos, sequence updates, the packet's extension,
// completions and drop reports are therefore ours. The packet's header behind the extension
// has tt-metal's layout and codes (fabric_edm_packet_header.hpp, fabric_common.h).
//
// # Frame
//
// One UDP datagram carries one frame. How an end learns the other end's UDP address is not
// part of this page.
//
//	 0  2  magic 'T' 'T' (54 54)                               \
//	 2  1  version (1) in the high nibble, destination channel  | envelope,
//	       0 to 15 (the port at the receiver) in the low        | 8 bytes
//	 3  1  pad: padded payload in units of 32; 0: not padded    |
//	 4  4  session id; 0 outside a session                     /
//	 8  1  kind in the low nibble, virtual channel in the high \
//	 9  1  flags                                                | TT-link
//	10  2  length: payload without padding                      | header,
//	12  4  destination address at the receiver                  | 16 bytes
//	16  4  tx seq: number of this data frame                    |
//	20  4  rx seq: next data frame expected from the receiver  /
//	24  n  payload, padded with zeros to 32 × pad where pad is not 0
//	24+n 4 CRC-32C of all bytes before it
//
// The payload takes 32 × pad bytes, or length bytes where pad is 0. The frame is 28 bytes
// longer than its payload. A payload is at most 255 × 32 = 8160 bytes, padded or not.
//
// Readers refuse bytes that are not exactly one frame. They also refuse: another magic or version;
// a length beyond the padded payload or beyond 8160; a wrong checksum; a kind other than 1 to 5; a
// reserved flag that is set. Readers ignore the padding's content.
//
// CRC-32C (Castagnoli) is the checksum of iSCSI (RFC 3720 §B.4): reflected polynomial
// 82F63B78, initial value and final exclusive-or FFFFFFFF. The CRC-32C of the nine characters
// "123456789" is E3069283.
//
// The pad byte lets a reader split frames that lie back to back, as segmentation offload (GSO,
// GRO) hands them over. The reader finds a frame's length in the frame's first 12 bytes, see
// [FrameLen]. All frames of one such super-packet but the last have the same length. Each
// frame is a datagram of its own on the wire.
//
// Kinds:
//
//	1 data    a piece of a fabric packet          numbered by tx seq
//	2 update  sequence update: ack, NACK, grants  not numbered, tx seq 0
//	3 hello   bring-up and training               not numbered, tx seq 0
//	4 raw     compliance mode without ARQ (Spec §2.1); a link counts and drops it
//	5 close   the sender goes away in order       not numbered, tx seq 0, no payload
//
// Flags: bit 0 END (data: last piece of its packet), bit 1 NACK and bit 2 SOLICIT (updates).
// Bits 3 to 7 are reserved and refused. A writer sets flags and fields that a kind does not
// use to zero.
//
// Virtual channels (VC):
//
//	0 data (requests)    3 data behind the dateline      5 data upwards       8 data upwards, behind the dateline
//	1 reply (read data)  4 reply behind the dateline     6 reply upwards      9 reply upwards, behind the dateline
//	2 control (completions, drop reports)                7 control upwards
//	10 data, 11 reply, 12 control on a detour            13 data, 14 reply, 15 control upwards and on a detour
//
// A single mesh needs only VC 0 to 2 if it has no cables that wrap and plans no detours round
// faults. Only data frames have a VC other than 0, and only data frames and hellos are padded.
// The destination channel of every frame is the port at the receiver.
//
// The destination address of a data frame is slot × 8192 + the piece's offset in its packet
// ([SlotAddress]). The slot is the packet's number on its VC in this session, modulo the receiver's
// number of slots for the VC. Packets are numbered from 0. Both ends count the slot with a counter
// of its own: after slots-1 comes 0. Taking a 32-bit packet counter modulo slots gives wrong slots
// once the counter wraps, unless slots is a power of two.
//
// # Hello
//
// The payload of a hello is 80 or 158 bytes long. The frame around it carries the sender's session
// id, or 0 before the first session. In a session, the frame's rx seq is the next data frame that
// the sender expects. The frame is padded to the largest frame payload that the hello names, or to
// less, as "Link: bring-up and training" says. Before a link comes up, frames as long as its later
// data frames have therefore crossed the path.
//
//	 0  1  version (1)
//	 1  1  bit 0 UP: the sender is up; bit 1 WANT: answer this hello; others reserved, refused
//	 2  1  from: channel, 0 to 15
//	 3  1  expected: channel
//	 4  2  from: mesh, 0 to 1023
//	 6  2  from: chip, 0 to 255
//	 8  2  expected: mesh
//	10  2  expected: chip
//	12  4  echo training: the receiver's training number, as last heard
//	16  8  incarnation of the sender, not 0
//	24  8  echo incarnation: the receiver's, as last heard; 0 for none
//	32  8  stamp: opaque to the receiver, not 0
//	40  8  echo stamp: stamp of the hello that this one answers; 0 for none
//	48  4  training: number of the sender's training
//	52  2  largest padded frame payload that the sender takes: a multiple of 32, 32 to 8160
//	54  6  slots of VC 0, 1, 2 (2 bytes each): the sender's receiver channels, in packets; 0: not in use
//	60  1  via: 0 by the cable's own port; k+1 by the cable of the sender's channel k
//	61  3  reserved, refused
//	64  4  fabric: 0 matches all
//	68 12  grants for VC 0, 1, 2 (4 bytes each), of the frame's session; 0 outside one
//	80 78  for VC 3 to 15: slots (2 bytes) and grants (4 bytes); left out where all are 0
//
// An incarnation is a random 64-bit number that a chip's process draws each time it starts.
// From is the sender's port. Expected is the port that the sender believes to be at the other
// end of the cable.
//
// The session id is CRC-32C over 26 bytes: mesh (2), chip (2), channel (1) and incarnation (8) of
// the lower port, then mesh, chip, channel and incarnation of the higher port. Ports are ordered by
// mesh, chip, channel. A result of 0 becomes 1. The first data frame that a chip sends in any
// session has the low 32 bits of the chip's own incarnation as its tx seq.
//
// # Sequence update
//
// The payload of an update is 12 or 64 bytes, not padded. It holds the grants for VC 0, 1 and
// 2, or for VC 0 to 15, 4 bytes each. Grants left out are 0. The acknowledgement is the
// frame's rx seq.
//
// # Fabric packet
//
// A packet is cut into one or more data frames. It begins with an extension of 40 bytes. Then
// comes tt-metal's 2D header with a route_buffer of r = 19, 35, 51 or 67 bytes, the smallest
// that holds the route. Such headers have 80, 96, 112 or 128 bytes. At most 4096 bytes of
// payload follow.
//
//	 0  1  type: 1 request, 2 reply, 3 completion, 4 drop report, 5 probe, 6 link state; others refused
//	 1  1  VC in the low nibble, routing plane in the high
//	 2  2  TTL: routers that may still forward the packet
//	 4  2  length of the whole packet
//	 6  1  length of the extension (40)
//	 7  1  r
//	 8  2  source mesh
//	10  2  source chip
//	12  4  flow epoch   \
//	16  4  flow seq      | of requests and probes; 0 for other types
//	20  4  flow base    /
//	24  8  id: of the request, unique at its source; a reply repeats it; 0 for completions and drop reports
//	32  4  table epoch: hash of the tables that the route was planned by; a router drops a packet of
//	       older tables if those and its own tables together could close a cycle
//	36  1  bit 0 UP: the packet still has to cross towards the root of the tree of meshes;
//	       bit 1 TRACE: each chip that the packet comes to may note it;
//	       bit 2 DETOUR: the route through this mesh leads round a fault;
//	       bit 3 KNOWN: every destination has answered in this flow epoch;
//	       bit 4 OTHER: the other direction round rings, see below; others reserved, refused
//	37  1  reserved, refused
//	38  2  group of a multicast; 0: unicast
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
//	92+r 8 multicast ranges east, west, north, south, 2 bytes each: hops in the low byte, skip in the high
//	100+r 1 trunk of a multicast: 1 east and west, 2 north and south; 0: no multicast, and ranges ignored
//	101+r  payload
//
// Readers refuse a length that is not the number of bytes that came, a payload above 4096, and
// a node beyond mesh 1023 or chip 255. They refuse an r, extension length, type, VC or trunk
// that is not listed. They refuse a request or probe that has a group without a trunk or a
// trunk without a group. They refuse a group in a reply or drop report, and a trunk in any
// type but requests and probes. They refuse OTHER together with a group, in a drop report, and
// in a link state.
//
// Requests and probes travel on VC 0, 3, 5, 8, 10 and 13. Replies travel on 1, 4, 6, 9, 11 and
// 14, completions and drop reports on 2, 7, 12 and 15, link states on 2. The packet's class
// and three things decide the VC of each hop:
//
//   - With DETOUR, every hop in this mesh uses a VC for detours round a fault (10 to 15).
//   - With UP, the hop uses an upward VC (5 to 9, 13 to 15).
//   - On an axis that wraps, one cable leads from the last row or column to the first. The hop over
//     that cable, in either direction, uses a VC behind the dateline. The hops after this hop use
//     such a VC too, until the packet turns or leaves the mesh.
//
// With bubble flow control there are no VCs behind the dateline. Instead, a packet enters an axis
// that wraps only if the peer has two free slots. Completions and drop reports use no cable that
// wraps, except on up*/down* routes.
//
// A reply's payload is the data that was read. All packets but requests have send type 255.
//
// Size is the number of payload bytes. For a read, size is the number of bytes wanted, 0 to
// 4096, and the packet has no payload. The destination refuses any other size.
//
// A route byte has one of its low four bits set, by direction: 1 east, 2 west, 4 north, 8 south.
// The source leaves by the first direction of the path, which the route does not contain. Byte i
// tells the i-th chip after the source what to do. The chip forwards the packet in that direction;
// if that is the side that the packet came in by, the chip delivers the packet. For example, the
// path E E N is the route 1 4 8. Unused bytes at the end are 0. A byte of 0, a byte with two bits
// set, and a byte that names a missing port mean "no route".
//
// A router that forwards a packet takes 1 from the TTL and adds 1 to hop, but does not count hop
// beyond r. With a TTL of 0 the router drops the packet instead. Delivery changes neither. A packet
// keeps its plane from the source's port to the destination's. Replies, completions and drop
// reports are routed by the opposite order of dimensions to requests. On the way home they
// therefore pass the same chips. The frames of a packet have the packet's VC.
//
// A packet for another mesh is routed to an exit node and out of its mesh. The chip by which it
// enters the next mesh writes a new route, with hop 0 and a new UP. The source therefore chooses an
// r with room for the longest route through any mesh of the fabric, including the hop out of that
// mesh.
//
// Two chips opposite each other on a ring with an even number of chips have two equally long
// routes, one in each direction. The source plans one of these routes. For packets with OTHER, the
// source plans the other route, in both dimensions. A chip that writes a new route also obeys
// OTHER. OTHER changes nothing for any other pair of chips, nor for control messages. OTHER also
// changes nothing if a fault has broken the other route. A reply or completion has the OTHER of its
// request.
//
// The command union by send type; the rest of the 40 bytes is 0 and ignored:
//
//	  0 unicast write     0 8 address
//	  1 inline write      0 8 address, 8 4 value
//	  2 atomic increment  0 8 address, 8 4 increment, 12 1 flush
//	  3 write, increment  0 8 address, 8 8 counter's address, 16 4 increment, 20 1 flush
//	  4 scatter write     0 32 four addresses, 32 6 sizes of the chunks but the last (3 × 2),
//	                      38 1 chunks (2 to 4), 39 1 chunk kinds, two bits each from
//	                      the lowest, 1 for a write
//	  7 read              0 8 address
//	255 none              nothing (all but requests)
//
// A packet is malformed if it has another send type, a size that is not the payload's, a
// number of chunks out of range, a chunk of another kind, or chunks longer than size. The
// destination drops and counts a malformed packet without an answer, so the flow sees the
// packet as lost. A packet that is well-formed but cannot be performed is answered with an
// exception. A request of send type 255, a read of more than 4096 bytes, and a payload where
// none belongs get the exception 3, bad command.
//
// A writer sets the address, size and kind of unused chunks to 0; readers ignore them. The
// last chunk gets the bytes of size that the other chunks leave. Flush is 0 or 1; readers take
// any other value for 1.
//
// A NoC address has the byte offset in bits 0 to 35, and the NoC column x in bits 36 to 41. It has
// the row y in bits 42 to 47, and zero above (tt-metal, Wormhole). Inline writes and increments are
// of 32-bit words at offsets that are multiples of 4. They wrap. They have no payload, except for
// send type 3.
//
// # Multicast
//
// A multicast is a request or a probe for several chips of its source's mesh. Each of these
// chips performs it. The route_buffer is 0 and ignored; each router decides by the ranges. The
// destination fields name the source. The trunk is the axis that the fabric's order of
// dimensions has requests use first. The trunk byte names the axis; tt-metal's header does
// not.
//
// The ranges describe the part of the tree that lies ahead of the packet. Hops is the number
// of chips ahead in a direction. Skip is the number of these, counted from the nearest, that
// only pass the packet on. At the source, hops are the ranges of tt-metal's mesh API. A line
// of tt-metal's linear API has start + range - 1 hops and a skip of start - 1. On an axis of n
// chips, hops in both directions are together at most n - 1. Hops do not lead past the end of
// an axis that does not wrap.
//
// A chip only passes the packet on if the skip of the packet's direction of travel is not 0.
// The chip then sends one copy on in that direction, and drops the packet if hops are 0 there.
// Any other chip performs the packet, and sends a copy in each direction with hops. The source
// sends such copies too, but does not perform the packet. Hops back to where the packet came
// from mean "no route".
//
// A copy that leaves in a direction has 1 hop less in that direction. If the copy goes
// straight on, its skip in that direction is also 1 less, but not below 0. On the trunk's axis
// the copy keeps the ranges of the other axis. All its other ranges become 0. TTL and VC are
// as for unicast: a copy that turns leaves the VC behind the dateline.
//
// A router hands on each copy as soon as there is room for that copy. The router keeps the
// packet's slot until all copies have been handed on. The router drops and reports a copy by
// itself if the copy has no port to leave by, a TTL of 0, or a dead next hop.
//
// # Completion
//
// The payload of a packet of type 3, from the destination to the source:
//
//	 0  4  flow epoch
//	 4  4  next: every request before it is settled
//	 8  4  n: exceptions, 0 to 64
//	12 8n  exceptions: first (4), count (2, not 0), outcome (1), reserved (1, refused)
//
// An exception says that count requests, from first on, did not end as done. Outcomes: 1 bad
// address, 2 misaligned, 3 bad command, 4 again (a table is full), 5 lost, 6 destination restarted,
// 7 too many exceptions, 8 out of memory, 9 flow unknown. Readers refuse all other outcomes.
//
// With outcome 6 nobody knows whether the request was performed. With all other outcomes the
// request was not performed. With outcome 5 the request did not come. If the request comes late,
// this incarnation of the destination does not perform it. For later incarnations, see "Flows".
// With all outcomes but 5 and 6 the request came. After outcomes 4, 7 and 9 a source may try again,
// after 9 in a new flow epoch.
//
// A destination that keeps 62 exceptions ends all further requests with outcome 7, in one
// exception. From the first gap on, the destination ends everything with outcome 5, in the
// next exception. Both last until the source's flow base shows that the source has received
// the exceptions.
//
// # Drop report
//
// The payload of a packet of type 4, from a router to the source. It has 24 bytes, or 36 for a
// copy of a multicast.
//
//	 0  2  mesh, 2 2 chip: where the packet was going
//	 4  4  flow epoch
//	 8  4  flow seq
//	12  1  plane, 0 to 15
//	13  1  reason: 1 next hop dead, 2 TTL used up, 3 no route, 4 malformed, 5 timeout,
//	       6 unreachable, 7 tables replaced, 8 drained, 9 flushed
//	14  1  channel of the reporting chip, 0 to 15
//	15  1  type of the dropped packet, 1 to 5; of a multicast plus 128, or of a packet with OTHER plus 64
//	16  8  id of the request
//	24  2  group, not 0
//	26  1  direction that the copy should have left by, 0 to 3 for east, west, north, south
//	27  1  trunk, 1 or 2
//	28  8  ranges of the copy, as in the packet
//
// Routers report only requests and probes. Nobody is told about a lost reply, completion or
// drop report.
//
// # Link state
//
// The payload of a packet of type 6, from a chip to a neighbour, one hop. It has 1 to 400 entries
// of 10 bytes. Each entry holds what one chip says about its own ports.
//
//	0  2  mesh, 2 2 chip
//	4  4  version
//	8  2  ports out of service, a bit for each channel from the lowest
//
// Of two entries of one chip, the entry with the higher version (wrapping) holds. Of two
// entries of one version, the entry with the higher ports holds. A chip starts at version 0
// with no port out of service, and adds 1 to its version at each change. It keeps the entries
// of other chips that have a version other than 0. It passes news on to all its neighbours. It
// sends all entries to a neighbour when the link to that neighbour comes up.
//
// A restarted chip may hear an entry about itself that an earlier incarnation sent. If that
// entry's version is not below its own, and the chip has not sent the entry itself, the chip
// sends the next version.
//
// A cable is out of service if either of its ports is. All chips plan routes without such
// cables, from the same entries. A packet's table epoch names the tables.
package wire
