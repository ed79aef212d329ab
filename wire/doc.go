// Package wire holds the formats that chips of ttfabric exchange, and the
// nouns in them. This page describes the formats and the protocol on them
// completely enough to implement the other end of a cable from it alone.
//
// All integers are little-endian. Offsets and lengths are in bytes. "Refuse"
// means: drop, count, change nothing else. A field that is called reserved is
// written as zero; whether a reader refuses another value is said each time.
// What routers post in their chip's memory, which others read with NoC reads,
// is described in mailbox.go. The part on flows is in docflows.go; 'go doc ./wire' prints the page whole.
//
// # Where the offsets come from
//
// The specification (TT-Fabric Architecture Specification, §2.1) gives the
// TT-link header's size, 16 bytes, and what it must say, but no public
// document gives the offsets of its fields. The envelope, the TT-link header,
// hellos, sequence updates, the packet's extension, completions and drop
// reports are therefore ours. The packet's header behind the extension has
// tt-metal's layout and codes (fabric_edm_packet_header.hpp, fabric_common.h).
//
// # Frame
//
// One UDP datagram carries one frame. How an end learns the other's UDP
// address is no part of this page.
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
// The payload takes 32 × pad bytes, or length bytes where pad is 0. The frame
// is 28 bytes longer. A payload is at most 255 × 32 = 8160, padded or not.
// Readers refuse bytes that are not exactly one frame; another magic or
// version; a length beyond the padded payload or 8160; a checksum that
// differs; a kind other than 1 to 5; a reserved
// flag that is set. They ignore the padding's content.
//
// CRC-32C (Castagnoli) is the checksum of iSCSI (RFC 3720 §B.4): reflected
// polynomial 82F63B78, initial value and final exclusive-or FFFFFFFF. Of the
// nine characters "123456789" it is E3069283.
//
// The pad byte lets a reader split frames that lie back to back, as
// segmentation offload (GSO, GRO) hands them over: a frame's length follows
// from its first 12 bytes, see [FrameLen]. All frames of one such super-packet
// but the last are of one length, and each is a datagram of its own on the
// wire.
//
// Kinds:
//
//	1 data    a piece of a fabric packet          numbered by tx seq
//	2 update  sequence update: ack, NACK, grants  not numbered, tx seq 0
//	3 hello   bring-up and training               not numbered, tx seq 0
//	4 raw     compliance mode without ARQ (Spec §2.1); a link counts and drops it
//	5 close   the sender goes away in order       not numbered, tx seq 0, no payload
//
// Flags: bit 0 END (data: last piece of its packet), bit 1 NACK and bit 2
// SOLICIT (updates); bits 3 to 7 are reserved and refused. Flags and fields
// that a kind has no use for are written as zero. Virtual channels (VC):
//
//	0 data (requests)    3 data behind the dateline      5 data upwards       8 data upwards, behind the dateline
//	1 reply (read data)  4 reply behind the dateline     6 reply upwards      9 reply upwards, behind the dateline
//	2 control (completions, drop reports)                7 control upwards
//	10 data, 11 reply, 12 control round a fault          13 data, 14 reply, 15 control upwards and round a fault
//
// A mesh without wraps that is alone and has no way round any fault needs 0 to 2 only. Only data frames have a VC other than 0. Only data frames are padded. The
// destination channel of every frame is the port at the receiver.
//
// The destination address of a data frame is slot × 8192 + the piece's offset
// in its packet ([SlotAddress]). The slot is the number of the packet on its
// VC in this session, from 0, modulo the receiver's number of slots for the
// VC. It is counted on its own, from slots-1 back to 0, and is not a 32-bit
// packet counter modulo slots: the two differ once the counter wraps, unless
// slots is a power of two.
//
// # Hello
//
// The payload of a hello, 80 or 158 bytes. The frame around it has the
// sender's session (0 before the first) and, in a session, the next data frame
// expected as its rx seq. It is padded to the largest frame payload that the
// hello names, or to less, as "bring-up and training" says: what comes up has
// been crossed by frames as long as those that follow.
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
// An incarnation is a random 64-bit number that is drawn at every start of a
// chip's process. From is the sender's port, expected the one that it believes
// at the other end of the cable.
//
// The session id is CRC-32C over 26 bytes: mesh (2), chip (2), channel (1) and
// incarnation (8) of the lower port, then the same of the higher one, ordered
// by mesh, chip, channel. A result of 0 becomes 1. The first data frame that a
// chip sends in any session has the low 32 bits of its own incarnation as tx
// seq.
//
// # Sequence update
//
// The payload of an update is 12 or 64 bytes, not padded: the grants for VC 0,
// 1 and 2, or for VC 0 to 15, 4 bytes each; those left out are 0. The acknowledgement is the frame's rx seq.
//
// # Fabric packet
//
// A packet is cut into one or more data frames. An extension of 40 bytes comes
// first, then tt-metal's 2D header with a route_buffer of r = 19, 35, 51 or 67
// bytes, the smallest that holds the route (headers of 80, 96, 112 or 128
// bytes), then at most 4096 bytes of payload.
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
//	32  4  epoch: hash of the tables that the route was planned by; a router drops a packet of older ones if its own tables could close a cycle with them
//	36  1  bit 0 UP: a crossing towards the root is before the packet; bit 1 TRACE: each chip that it comes to may note it;
//	       bit 2 DETOUR: the route through this mesh leads round a fault;
//	       bit 3 KNOWN: every destination has answered in this life of the flow;
//	       bit 4 OTHER: the other way round rings, see below; others reserved, refused
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
// Readers refuse a length that isn't the number of bytes that came, a payload
// above 4096, a node beyond mesh 1023 or chip 255, and an r, extension length,
// type, VC or trunk that isn't listed. They refuse a request or probe that has
// a group without a trunk or a trunk without a group, a group in a reply or drop
// report, a trunk in any other type, and OTHER with a group, in a drop report or a link state.
//
// Requests and probes travel on VC 0, 3, 5, 8, 10 and 13, replies on 1, 4, 6, 9,
// 11 and 14, completions and drop reports on 2, 7, 12 and 15, link states on 2.
// The VC of each hop follows from the class and from three things. With DETOUR,
// it is one of those round a fault, from 10 on, wherever the packet is. With UP, it is one of those upwards. On an axis
// that wraps, the hop over the cable from the last row or column to the first,
// or back, and the hops behind it are on one of those behind the dateline, until
// the packet turns or leaves the mesh; with bubble flow control there are none
// of these, and a packet enters such an axis only where the peer has two free
// slots. Completions and drop reports use no cable that wraps, but on up*/down* routes. A reply's payload is what was read. All but requests have send
// type 255.
//
// Size is the number of payload bytes; for a read it is the number of bytes
// wanted, 0 to 4096, and a read has no payload. Another size is refused at the
// destination.
//
// A route byte has the low four bits one-hot by direction: 1 east, 2 west, 4
// north, 8 south. The source leaves by the first direction of the path, which
// is not in the route. Byte i is the action of the i-th chip after it: forward
// in that direction, or, where it is the side that the packet came in by,
// deliver here. So a path E E N is the route 1 4 8. Unused bytes at the end
// are 0; 0, two bits, or a port that isn't there is "no route". A router that
// forwards takes 1 from the TTL and adds 1 to hop, but not past r; with a TTL
// of 0 it drops the packet instead. A packet for another mesh is routed to an
// exit node and out of it; the chip that it enters the next mesh by writes a new
// route, with hop 0 and a new UP. So its r has room for the longest way
// through any mesh of the fabric, the hop out of it included. Delivery takes nothing. A packet keeps its
// plane from the source's port to the destination's. Replies, completions and
// drop reports are routed by the other order of dimensions than requests, and
// so pass the same chips on the way home. The VC of the frames is the
// packet's.
//
// Two chips opposite each other on a ring of an even number of chips are as far
// both ways round. Each source plans one of these ways, and for packets with OTHER
// the other one, in both dimensions; so do chips that write a new route. All other
// ways are the same with OTHER. So is one that a fault has broken, and all of
// control messages. A reply or completion has the OTHER of its request.
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
// A packet with another send type, a size that isn't the payload's, a number of
// chunks out of range, a chunk of another kind or chunks longer than size is
// malformed: the destination drops and counts it without an answer, so its
// flow sees it as lost. What is well-formed and cannot be performed is answered
// with an exception: a request of send type 255, a read of more than 4096
// bytes, or a payload where none belongs, as 3 bad command. Unused chunks are
// written as 0 in all three places, and ignored. The last chunk is what remains of size.
// Flush is 0 or 1; readers take any other value for 1.
//
// A NoC address has the byte offset in bits 0 to 35, the NoC column x in bits
// 36 to 41, the row y in bits 42 to 47, and zero above (tt-metal, Wormhole).
// Inline writes and increments are of 32-bit words at offsets that are
// multiples of 4, have no payload (but 3), and wrap.
//
// # Multicast
//
// A multicast is a request or a probe for several chips of its source's mesh,
// each of which performs it. Its route_buffer is 0 and ignored; each router decides by the
// ranges. Its destination fields name the source. The trunk is the axis that requests use
// first by the fabric's order of dimensions; other than in tt-metal's header, the byte tells which.
//
// The ranges are those that the packet has before it: hops says how many chips
// in a direction, and skip how many of these, the next ones, only pass it on.
// At the source, hops are the ranges of tt-metal's mesh API, and a line of its
// linear API has start + range - 1 hops and start - 1 to skip. On an axis of n
// chips, hops both ways are together at most n - 1, and stay on the axis unless it wraps.
//
// A chip that the packet comes to is passed over if the skip of the direction that
// it travels in isn't 0: it sends one copy on in that direction, and drops the
// packet if hops are 0 there. Any other chip performs the packet, and sends a
// copy in each direction with hops; so does the source, without performing it. Hops
// back to where the packet came from are "no route". A copy that leaves in a
// direction has hops there of 1 less. Where it goes straight on, it has a skip of
// 1 less, if that isn't 0. On the trunk's axis it keeps the ranges of the other
// axis; all others become 0. TTL and VC are as for unicast: the VC behind the
// dateline is left at the turn.
//
// A router keeps the packet's slot until all copies have been handed on, each of
// them as soon as there is room for it. A copy with no port to leave by, with a
// TTL of 0, or with a dead next hop is dropped and reported alone.
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
// An exception says that count requests from first on did not end as done.
// Outcomes: 1 bad address, 2 misaligned, 3 bad command, 4 again (a table is
// full), 5 lost, 6 destination restarted, 7 too many exceptions, 8 out of
// memory, 9 flow unknown; others are refused. Only 6 leaves open whether the
// request was performed; all others were not. What 5 names did not come, and is
// not performed by this life of the destination should it come late; see
// "Flows" for the lives after it. All others but 6 came. After 4, 7 and 9 a
// source may try again, after 9 in a new life of the flow. A destination that
// has 62 exceptions to tell ends everything further as 7, in one exception, and
// from the first gap on as 5, in the next one, until the source's flow base
// says that it knows.
//
// # Drop report
//
// The payload of a packet of type 4, from a router to the source: 24 bytes, or
// 36 for a copy of a multicast.
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
// # Link state
//
// The payload of a packet of type 6, from a chip to a neighbour, one hop: 1 to
// 400 entries of 10 bytes, each what a chip says of its own ports.
//
//	0  2  mesh, 2 2 chip
//	4  4  version
//	8  2  ports out of service, a bit for each channel from the lowest
//
// Of two entries of one chip the one with the higher version (wrapping) holds, of
// two of one version the one with the higher ports. A chip starts at version 0 with no port out of service, counts the version up at
// each change, and keeps the entries of others with a version other than 0. What
// is news to it goes on to all its neighbours; a neighbour whose link comes up
// gets everything. A chip that hears a version of itself from its own one on
// that it did not say, of a former life, says the next one. A cable is out of
// service if either of its ports is. Routes are planned without such cables, by
// all chips from the same entries; a packet's table epoch names the tables.
//
// Only requests and probes are reported; nothing is told about a lost reply,
// completion or report.
//
// # Link: bring-up and training
//
// Each end is off (the other's address is unknown), training or up. It has a
// training number, 1 at the start, that is counted up each time that it leaves
// up and each time that it begins a session, and at most one session.
//
// While training, an end sends a hello at once and then at growing intervals,
// with WANT and its own number. It echoes the session peer's incarnation and
// newest number, or before the first session those of the last hello that
// proved nothing. Such periodic hellos carry echo stamp 0. Only a direct
// answer echoes a stamp, so that what remains of it is a round trip, the first
// time that it comes. While an end trains, its hello's frame is padded to
// the longest frame payload that it takes, and after that to the longest that it
// uses, until it is confirmed. An end that is up goes on with periodic hellos until it is confirmed: until it has
// heard a frame of the session other than a hello, or a hello of this session
// with UP that echoes its incarnation.
//
// A received hello is taken through these steps in order:
//
//  1. From and expected must be the ports at the two ends, and the two fabrics
//     equal or one of them 0; else the cable is miswired: refuse, and report
//     while training.
//  2. An end that is off refuses. So is refused an incarnation whose session
//     has ended: its sequence numbers are used up, and it is not taken back
//     (the last 8 are remembered). So is a training number of the session's
//     peer that is older (wrapping) than its newest.
//  3. No slots at all, slots that changed within an incarnation, or a frame
//     payload below 96 are reported and refused.
//  4. The hello proves the path both ways when it echoes this end's
//     incarnation and this end's current training number. Only a proof changes
//     state: while training, it takes the end up. A proof by another
//     incarnation than the session's starts a new session in any state; the
//     old one ends, and its unacknowledged packets' fate is unknown. The end
//     is up at once with the new one, its training number counted up: the
//     number is used up, so that a late proof of a former incarnation changes
//     nothing. What proves nothing is answered and forgotten.
//  5. If the end is up and the session's peer sends a newer training number
//     without UP, it has lost the path. An end that is confirmed goes down and
//     trains too. A newer number with UP is recorded without retraining: that
//     peer replaced its session on our proof and lost nothing.
//  6. In a hello of the running session that echoes this end's incarnation, rx
//     seq and grants count as those of an update. With UP it is also a sign of
//     life, and confirms an end that is up.
//  7. With WANT it is answered at once by a hello that echoes its incarnation,
//     number and stamp. The answer has UP if the end is up now, and WANT if it
//     isn't, or if the hello was another incarnation's than the session's and
//     proved nothing: that may be the peer restarted, which then proves itself
//     by the cable that it was asked by. An answer to an answer has no WANT. Answers are limited to 8 at once and one more every 2 ms, for the
//     session's peer and for strangers apart. An answer is as long as
//     the hello that it answers, at any time, as far as its sender takes that: its
//     padding ends where that one's does. Where several wait, the longest is answered.
//
// An end that comes up on a hello without WANT that doesn't confirm it sends
// one hello at once. Both ends use frames of at most the smaller of the two
// frame payloads, and of no more than the path carries, next. An end that would come up with unacknowledged frames larger
// than that takes another incarnation instead, and trains on: such frames
// would never get through, and cannot be cut again.
//
// A path may swallow long frames without a word. As an answer is no longer than
// its question, one that comes proves the path both ways at its own length. An end may
// train with shorter hellos, too, when the long ones are not answered. From the first
// hello on that is shorter than what both ends take, until its training number counts
// on, it comes up on answers only, and with frames no longer than an answer that proved it;
// or on a periodic hello with UP, whose sender has found out the same, and as
// long as that. An end that is up may ask at any time with a longer hello whether longer
// frames pass, and use them once it is answered. Here, each hello from the third of a training on is
// followed by one padded to 1152, 480 and 192 bytes in turn; 8 answers to those and
// none to a long one tell a narrow path, 16 where frames in the session
// are longer. From the fourth on, most hellos are padded to 160 bytes only,
// the others 0.5 to 8 s apart; an end that after a silence hears a short one that echoes it begins anew.
//
// Where a link is down, and another one of the same two chips in the same
// direction is up by its own cable, the frames of the first may go by the cable
// of the second (Spec §7.4.1.1): the datagrams go from and to the UDP ports of
// the second, and the envelope's destination channel is that of the first.
// Session, sequence numbers, slots and grants stay those of the first. Hellos
// then go by each cable that may be used, and "via" says which: one more than
// the sender's channel whose cable it is. One whose via is not that of the cable
// that it came by is miswired. An end comes up by a cable that a hello proves
// both ways, as it answers a stamp that this end sent by the same cable; where
// there is one cable only, any proof will do. Other frames of the session are
// taken by another's cable once the peer has said hello by it. An end whose
// frames go by another's cable says hello on its own, too, and goes back to it
// after two answers. An implementation without fallback drops what comes for
// another channel than the port's.
//
// An end may hold its own cable for a while, such as after it failed often. It
// then says no hello by it, answers none, and is not up by it; hellos by others'
// cables go on. To the peer that is a cable that is cut: nothing proves it. Other frames
// of the session that come by a held cable are taken while the end is up.
//
// An end that is told to train again leaves up and trains; the peer follows by
// step 5.
//
// A new session starts from the initial sequence numbers, slot 0 on every VC
// and grants of 0: no packet may be sent before its first grant is heard. A
// training within a session resumes it: everything that isn't acknowledged is
// sent again with its old numbers, and nothing is delivered twice. A packet
// under way at the end of a session is void. On a close frame of the session
// an end goes down and trains; the sender of the close is gone.
//
// # Link: data
//
// Sequence numbers are 32 bits and wrap; distances are signed 32-bit
// differences. Frames of another session, for another channel, or while not up
// are refused. Every other data, update or close frame of the session is a
// sign of life. The rx seq of data and updates acknowledges all data frames
// before it; one beyond what was sent is ignored.
//
// A packet of 1 to 8192 bytes is cut into n equal pieces (the last may be
// shorter), n being the smallest for which a piece fits, padded to a multiple
// of 32. The pieces have consecutive numbers; pieces of two packets do not
// mix. The receiver takes a data frame only if its tx seq is the next. One
// before it is a duplicate: it is acknowledged again. One after it shows a gap
// of at most 4096 frames (the largest window), and is dropped. The next frame
// must further fit: the first piece within the grants; the VC of the packet
// under way; not empty; the expected destination address; no flag but END.
// Else it is dropped and the number stays expected.
//
// On a gap the receiver sends an update with NACK, once for each missing
// number and again after a round trip. NACK with an rx seq that is the
// sender's oldest unacknowledged frame makes it go back and send that and all
// after it again (go-back-N), at most once per round trip. A retransmission
// timeout (RFC 6298 §2, doubling) does the same. An acknowledgement may ride
// on data; an update is sent otherwise, one for a batch of frames.
//
// Credits: a grant is the absolute number of packets that the peer may have
// sent on a VC since the session began: slots freed in this session + the
// channel's slots - carried, where carried are the slots that still hold
// packets of earlier sessions; each frees one more as it is emptied. An older
// grant (wrapping) changes nothing; one beyond packets sent + the peer's slots
// is refused. A slot is taken by a packet's first piece and freed when the
// packet has moved on.
//
// SOLICIT asks for an update, sent by an end that waits for credit and has
// heard none for a timeout. An idle end sends an update at least every
// keepalive time. Silence takes an end down: a short time while frames are
// unacknowledged, though at least four round trips, and a long one when idle.
// The times are each end's own, but three keepalives must fit into the other's
// idle time. Defaults: keepalive 620 ms, idle 2 s, under traffic 60 ms, hellos
// from 20 to 500 ms.
package wire
