// Package capture shows the traffic of ttfabric to the tools that people use for it. It has
// gopacket layers for TT-link frames and fabric packets. It writes pcapng files that
// Wireshark, tshark and tcpdump read.
//
// The layers decode with package wire's own decoders. They give the same fields as the
// Wireshark dissector, under the same names. Both follow the list below.
//
// # What a datagram holds
//
// A UDP payload is ours if [IsTTLink] says so, whatever its ports. The payload holds one frame. If
// a GSO or GRO super-packet was captured, the payload holds several frames back to back, and
// [wire.FrameLen] splits these frames. Each frame is a layer [TTLink]. A fabric packet that a data
// frame holds or completes is a layer [Fabric] behind that frame.
//
// At the end of a datagram, bytes may be left that cannot be split into frames. These bytes are one
// [TTLink] layer with ttlink.fault "short" or "magic". At least 24 bytes with the magic may be
// left, for example if a capture's snap length cut the frame off. The layer then has the fields
// from ttlink.version to ttlink.ack, but not the fields of the checksum and the payload. With fewer
// bytes, the layer has only the fault. A whole frame that [wire.DecodeFrame] refuses has the fields
// from ttlink.version to ttlink.ack, the fields of the checksum, and the fault.
//
// # Fabric packets and their pieces
//
// A packet is cut into data frames of consecutive ttlink.seq. The first frame has ttlink.offset 0,
// the last frame has the END flag. A frame with both holds a whole packet. The packet's fields then
// follow at each such frame, however often it is sent.
//
// For a packet of several pieces, the fields stand at the frame that completes the packet, in
// the order of capture. The pieces may come in any order, and copies of a piece change
// nothing. Pieces belong together if they were captured at the same interface and have the
// same addresses, ports and session. Once a packet is complete, further copies of its pieces
// complete nothing.
//
// Two kinds of frame show only the packet's header, if the header is whole: a first piece that is
// not the last, and a frame that was cut off in its packet's payload. Then ttfabric.partial is 1,
// and the fields of a payload (data_len and all fields listed after data_len) are missing. Only
// good frames (no ttlink.fault but "short") have packets.
//
// # Files
//
// A capture is one section of pcapng (draft-ietf-opsawg-pcapng). Each port is an interface,
// M0D3/eth8. Its packets are Ethernet frames, with times in nanoseconds of the clock of the chip's
// machine. A datagram is shown behind the Ethernet, IP and UDP headers that it has, or would have,
// on the wire. The UDP addresses are those of the two ports. The MAC addresses name mesh, chip and
// channel ([MAC]). If the transport seals frames (a pre-shared key, QUIC), the capture shows the
// frames before sealing. The description of the interface then says that the frames are shown
// before sealing.
//
// A capture shows an outgoing datagram as the chip hands it to the port: before an impairment
// changes it, and whether or not the socket takes it. A capture shows an incoming datagram as it
// arrived, damaged or not. A packet has its direction as a flag, and an identifier that is the same
// at both ends of the cable. A packet also has the number of packets that the capture had to leave
// out before this packet.
//
// A packet's comments say what was done to it on purpose ("injected fault: lost", "corrupted,
// delayed by 10ms"). Comments before these say what has happened at the port since the previous
// packet: packets that the router dropped there, the link's ups and downs, faults that were set.
// Comments left when the capture ends stand in the interface's statistics. Keys of QUIC ports are
// decryption secrets (TLS key log). These keys also decrypt what others have captured of the same
// connections.
//
// # Names
//
// A field is a number, a flag (1 or 0) or text. A number is written in decimal. If the list gives a
// number of digits, the number is written in hexadecimal, with 0x and this number of digits. Fields
// that occur several times are in the order of the wire. Offsets are in wire/doc.go.
//
//	ttlink.version           number
//	ttlink.channel           number, the receiver's port
//	ttlink.padded            bytes of payload with padding, 0: not padded
//	ttlink.session           0x, 8 digits
//	ttlink.kind              number; 1 data, 2 update, 3 hello, 4 raw, 5 close
//	ttlink.vc                number
//	ttlink.flags             0x, 2 digits
//	ttlink.flags.end         flag
//	ttlink.flags.nack        flag
//	ttlink.flags.solicit     flag
//	ttlink.length            bytes of payload
//	ttlink.dest              0x, 8 digits
//	ttlink.seq               number
//	ttlink.ack               number (rx seq)
//	ttlink.crc               0x, 8 digits
//	ttlink.crc.good          flag
//	ttlink.fault             text: short, magic, version, checksum, kind, length,
//	                         reserved; or hello, update for a payload that is none
//	of good data frames:
//	ttlink.slot              number (dest / 8192)
//	ttlink.offset            bytes (dest mod 8192)
//	of good updates and hellos:
//	ttlink.grant             number, one per VC: 3 or 16
//	of good hellos:
//	ttlink.hello.up          flag
//	ttlink.hello.want        flag
//	ttlink.hello.from_mesh, from_chip, from_channel               numbers
//	ttlink.hello.expected_mesh, expected_chip, expected_channel   numbers
//	ttlink.hello.echo_training      number
//	ttlink.hello.incarnation        0x, 16 digits
//	ttlink.hello.echo_incarnation   0x, 16 digits
//	ttlink.hello.stamp              0x, 16 digits
//	ttlink.hello.echo_stamp         0x, 16 digits
//	ttlink.hello.training           number
//	ttlink.hello.max_payload        bytes
//	ttlink.hello.via                number
//	ttlink.hello.fabric             0x, 8 digits
//	ttlink.hello.slots              number, one per VC: 3 or 16
//
//	ttfabric.fault           text, alone: packet (malformed), command (malformed)
//	ttfabric.partial         flag: the header alone is here
//	ttfabric.pieces          number of frames that the packet came in; only if not partial
//	ttfabric.type            number; 1 request, 2 reply, 3 completion, 4 drop report, 5 probe, 6 link state
//	ttfabric.vc, ttfabric.plane     numbers
//	ttfabric.ttl             hops
//	ttfabric.length          bytes of the whole packet
//	ttfabric.route_size      bytes of the route_buffer
//	ttfabric.src             text, M0D3
//	ttfabric.src_mesh, ttfabric.src_chip   numbers
//	ttfabric.dst             text
//	ttfabric.dst_mesh, ttfabric.dst_chip   numbers
//	ttfabric.flow_epoch, ttfabric.flow_seq, ttfabric.flow_base   numbers
//	ttfabric.id              0x, 16 digits
//	ttfabric.epoch           0x, 8 digits
//	ttfabric.up, ttfabric.trace, ttfabric.detour, ttfabric.known, ttfabric.other   flags
//	ttfabric.group           number, 0: unicast
//	ttfabric.trunk           number, 0: unicast
//	ttfabric.mcast.hops      number, four: east, west, north, south; only with a trunk
//	ttfabric.mcast.skip      the same
//	ttfabric.hop             number
//	ttfabric.route           text: E, W, N or S per byte, ? for any other; without the zeros at the end
//	ttfabric.send_type       number, as in wire/doc.go; 255: none
//	ttfabric.size            bytes
//	all commands but scatter writes and none:
//	ttfabric.addr            0x, 16 digits
//	ttfabric.addr.x, ttfabric.addr.y   numbers
//	ttfabric.addr.offset     0x, 9 digits
//	ttfabric.sem             0x, 16 digits: the counter's address of a write with increment
//	ttfabric.value           number: of inline writes and increments
//	ttfabric.flush           flag: of increments
//	ttfabric.chunks          number: of scatter writes
//	ttfabric.scatter.addr    0x, 16 digits, one per chunk
//	ttfabric.scatter.size    bytes, one per chunk
//	and of packets that are not partial:
//	ttfabric.data_len        bytes of payload
//	ttfabric.completion.flow_epoch, next, count    numbers (count: of exceptions)
//	ttfabric.completion.first, number, outcome     numbers, of each exception
//	ttfabric.drop.dst_mesh, dst_chip, flow_epoch, flow_seq, plane, reason, channel, type   numbers
//	ttfabric.drop.other      flag
//	ttfabric.drop.id         0x, 16 digits
//	ttfabric.drop.group, direction, trunk, hops (four), skip (four)   numbers; only with a group
//	ttfabric.linkstate.mesh, chip, version         numbers, of each entry
//	ttfabric.linkstate.out   0x, 4 digits, of each entry
//	ttfabric.payload_fault   text: completion, drop report or link state that is malformed
package capture
