// Package capture makes ttfabric's traffic readable for common tools. The package has gopacket
// layers for TT-link frames and fabric packets. The package also writes pcapng files for Wireshark,
// tshark and tcpdump.
//
// The layers decode with package wire's decoders. The layers and the Wireshark dissector give the
// same fields under the same names. The section "Names" lists these fields.
//
// # What a datagram holds
//
// A UDP payload belongs to ttfabric if [IsTTLink] reports true. The UDP ports do not matter. The
// payload holds one frame, or several frames back to back if segmentation offload (GSO or GRO) has
// joined datagrams. [wire.FrameLen] gives the length of each frame. Each frame is a layer [TTLink].
// If a data frame holds or completes a fabric packet, a layer [Fabric] for the packet follows the
// frame's layer.
//
// A datagram may end with bytes that are not a whole frame, for example if the capture's snap
// length cut a frame off. These bytes are one [TTLink] layer with ttlink.fault "short" or "magic".
// If at least 24 bytes are left and begin with the magic, the layer has the fields from
// ttlink.version to ttlink.ack, and the fault. Otherwise the layer has only the fault. The layer of
// a whole frame that [wire.DecodeFrame] refuses has the fields from ttlink.version to
// ttlink.crc.good, and the fault.
//
// # Fabric packets and their pieces
//
// A link cuts a packet into pieces, and sends the pieces in data frames with consecutive
// ttlink.seq. The first frame has ttlink.offset 0, and the last frame has the flag END. A frame
// with ttlink.offset 0 and END holds a whole packet. A layer with the packet's fields follows the
// layer of each copy of this frame.
//
// For a packet of several pieces, the layer with the packet's fields follows the frame that
// completes the packet. The pieces may come in any order, and copies of a piece have no effect.
// Pieces belong together if their interface, addresses, ports, session and destination channel are
// equal. After a packet is complete, copies of its pieces do not complete it again.
//
// Two kinds of frame have a layer with only the packet's header. The first kind is a frame with the
// first of several pieces. The second kind is a frame that the capture cut off within the packet's
// payload. In this layer, ttfabric.partial is 1. The field ttfabric.pieces, the field
// ttfabric.data_len, and all fields listed after ttfabric.data_len are missing. If a frame of these
// two kinds does not hold the whole header, or if the header is invalid, the layer is missing.
// Frames with a ttlink.fault other than "short" have no layer for a packet.
//
// # Files
//
// A capture is one section of pcapng (draft-ietf-opsawg-pcapng). Each port is an interface with a
// name such as M0D3/eth8. The packets of an interface are Ethernet frames. The packets' times are
// in nanoseconds, from the clock of the machine that runs the chip. Each datagram has the Ethernet,
// IP and UDP headers that it has, or would have, on the wire. The UDP addresses are the addresses
// of the two ports. The MAC addresses name mesh, chip and channel ([MAC]). If the transport
// encrypts frames (with a pre-shared key or QUIC), the capture has the frames before encryption.
// The description of the interface then says that the frames are shown before encryption.
//
// A capture records an outgoing datagram when the chip gives the datagram to the port. At this
// time, no emulated impairment has changed or lost the datagram, and the socket has not yet
// accepted or refused the datagram. A capture records an incoming datagram as it arrived, even if
// it is damaged. Each packet in the file has its direction as a flag, and an identifier that is
// equal at both ends of the cable. Each packet also has the number of packets that the capture left
// out before this packet.
//
// A packet's comments name the faults that were injected into the packet ("injected fault: lost",
// "corrupted, delayed by 10ms"). Comments about events at the port since the previous packet come
// first. Events at the port are drops by the router, changes of the link's state, and new settings
// of faults. Comments about events after the last packet are in the interface's statistics. If the
// user asks for the keys of QUIC ports, the file has these keys as decryption secrets (TLS key
// log). With these keys, a reader can also decrypt captures of the same connections by other
// programs.
//
// # Names
//
// The value of a field is a number, a flag (1 or 0) or text. A number is decimal. "0x, 8 digits" in
// the list means a hexadecimal number with 0x and 8 digits. If a field occurs several times in one
// frame or packet, its values are in the order of the bytes. The page of package wire gives the
// offsets of the fields.
//
//	ttlink.version           number
//	ttlink.channel           number: channel of the receiver's port
//	ttlink.padded            bytes of payload with padding; 0: not padded
//	ttlink.session           0x, 8 digits
//	ttlink.kind              number; 1 data, 2 update, 3 hello, 5 close, 6 L1 write, 7 MMIO write
//	ttlink.vc                number; of an L1 or MMIO write: the queue
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
//	                         reserved, hello or update (malformed payload)
//	only in valid data frames:
//	ttlink.slot              number (dest / 8192)
//	ttlink.offset            bytes (dest mod 8192)
//	only in valid L1 and MMIO writes:
//	ttlink.queue             number of the transaction command queue
//	ttlink.value             0x, 8 digits: value of an MMIO write
//	only in valid updates and hellos:
//	ttlink.grant             number, occurs once for each VC (3 or 16 times)
//	only in valid hellos:
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
//	ttlink.hello.slots              number, occurs once for each VC (3 or 16 times)
//
//	ttfabric.fault           text: packet or command (the malformed part); the packet then has no other field
//	ttfabric.partial         flag: the capture has only the packet's header
//	ttfabric.pieces          number of frames that carried the packet; only if partial is 0
//	ttfabric.type            number; 1 request, 2 reply, 3 completion, 4 drop report, 5 probe, 6 link state
//	ttfabric.vc, ttfabric.plane     numbers
//	ttfabric.ttl             hops
//	ttfabric.length          bytes of the whole packet
//	ttfabric.route_size      bytes of the route_buffer; of control packets, number of actions
//	ttfabric.src             text, such as M0D3
//	ttfabric.src_mesh, ttfabric.src_chip   numbers
//	ttfabric.dst             text, such as M0D7
//	ttfabric.dst_mesh, ttfabric.dst_chip   numbers
//	ttfabric.flow_epoch, ttfabric.flow_seq, ttfabric.flow_base   numbers; not in control packets
//	ttfabric.id              0x, 16 digits; not in control packets
//	ttfabric.epoch           0x, 8 digits
//	ttfabric.up, ttfabric.trace, ttfabric.detour, ttfabric.other   flags
//	ttfabric.known, ttfabric.posted   flags; not in control packets
//	ttfabric.group           number, 0: unicast
//	ttfabric.trunk           number, 0: unicast, or members of a mesh still ahead; not in control packets
//	ttfabric.life            0x, 8 digits, life of the destination, 0: any; only in unicast requests and probes
//	ttfabric.mcast.hops      four numbers: east, west, north, south; only if trunk is not 0, and without members
//	ttfabric.mcast.skip      four numbers: east, west, north, south; only if trunk is not 0, and without members
//	ttfabric.mcast.members   text, such as 0-3,7: chips of the destination's mesh; only in a multicast to members
//	ttfabric.hop             number
//	ttfabric.route           text: E, W, N, S or Z for each byte that names a direction, ? for any other byte; without the zeros at the end
//	ttfabric.send_type       number, as on the page of package wire; 255: no command; not in control packets
//	ttfabric.size            bytes; not in control packets
//	only in packets with a command that is not a scatter write:
//	ttfabric.addr            0x, 16 digits
//	ttfabric.addr.x, ttfabric.addr.y   numbers
//	ttfabric.addr.offset     0x, 9 digits
//	ttfabric.sem             0x, 16 digits: address of the counter; only in a write with increment
//	ttfabric.value           number; only in inline writes and increments
//	ttfabric.flush           flag; only in increments
//	ttfabric.chunks          number; only in scatter writes
//	ttfabric.rect.x          first column of a NoC multicast
//	ttfabric.rect.y          first row of a NoC multicast
//	ttfabric.rect.columns    number of columns of a NoC multicast
//	ttfabric.rect.rows       number of rows of a NoC multicast
//	ttfabric.scatter.addr    0x, 16 digits, one for each chunk
//	ttfabric.scatter.size    bytes, one for each chunk
//	only if partial is 0:
//	ttfabric.data_len        bytes of payload
//	ttfabric.completion.flow_epoch, from, next, count    numbers (count: number of exceptions)
//	ttfabric.completion.first, number, outcome     numbers, for each exception
//	ttfabric.drop.dst_mesh, dst_chip, flow_epoch, flow_seq, plane, reason, channel, type   numbers
//	ttfabric.drop.other, open   flags
//	ttfabric.drop.id         0x, 16 digits
//	ttfabric.drop.group, direction, trunk, hops (four), skip (four)   numbers; only with a group; with members no hops and skip
//	ttfabric.drop.members    text, such as 0-3,7; only with members
//	ttfabric.linkstate.mesh, chip, version         numbers, for each entry
//	ttfabric.linkstate.out, silent   0x, 4 digits, for each entry
//	ttfabric.payload_fault   text: completion, drop report or link state (the malformed payload)
package capture
