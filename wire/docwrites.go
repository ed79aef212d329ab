// # L1 writes and MMIO writes
//
// An ethernet tile of Wormhole has two transaction command queues, and one of Blackhole has three.
// A command of a queue is an L1 write or an MMIO write. An L1 write copies 16-byte words into the
// L1 of the ethernet tile at the other end. An MMIO write writes 4 bytes to a register of that
// tile. Commands need no credits.
//
// The link cuts an L1 write into pieces, one for each frame. The payload of a piece is a multiple
// of 16 bytes long, and not empty. The destination address is the address of the piece in the
// peer's L1, a multiple of 16. The payload of an MMIO write is 4 bytes long. The destination
// address of an MMIO write is the register's address, a multiple of 4. END marks the last frame of
// a command. A receiver drops a write that breaks these rules, or has a queue above 2. The receiver
// then still expects a frame with the number of the dropped write. A receiver acknowledges, but
// does not perform, a write on a queue that its tile lacks. A receiver also acknowledges, but does
// not perform, an MMIO write on a queue that takes none (queue 1 of Wormhole, queue 2 of
// Blackhole).
//
// The commands of a queue arrive in the order in which they began. There is no order between the
// queues, nor between commands and fabric packets. A sender may send the frames of different queues
// in any order, but sends no write between the pieces of a packet. A receiver takes a write at
// once, even if fabric packets wait in its receiver channels.
//
// A sender reads the payload from the L1 of its own tile each time that it sends the frame. If a
// program changes the source before the frame is acknowledged, a retransmission has other content.
//
// MAX_PKT_SIZE is the largest length of TT-link header and payload of an L1 write, 1500 bytes by
// default. With this default, a frame carries 1472 bytes of payload, or less if the frame size of
// the link is smaller.
//
// # Marks
//
// A mark is an MMIO write of 4 bytes to the register with the address FFBF3000 (hexadecimal) of the
// ethernet tile at the other end. Hardware has no such register. The 4 bytes are the number of a cut,
// which is not 0. Bits 0 and 1 of the number say whether the chips save the payloads of packets, and
// the memory of their tiles. A later cut has a higher number (wrapping).
//
// When a chip begins a cut, the chip saves its state, and sends a mark with the cut's number over each
// link that is up. A chip begins a cut when somebody asks for the cut, or when the first mark of the cut
// comes. The frames of packets that the chip sent before its cut have lower sequence numbers than the
// frame of the mark. The frames of packets that the chip sends after its cut have higher sequence
// numbers. So the packets that come over a link between the receiver's own cut and the mark were under
// way at the cut. A mark of a cut that the chip has begun already only ends the list of these packets. A
// chip ignores a mark of an earlier cut that comes within 15 s of its latest cut. An implementation
// without snapshots may ignore marks.
//
// # Compliance mode
//
// Compliance mode (Spec §2.1) sends payloads of standard Ethernet without TT-link. A person sets
// compliance mode by hand at both ends. A raw frame has no TT-link header:
//
//	 0  2  magic 'T' 'T' (54 54)
//	 2  1  15 in the high nibble, destination channel in the low
//	 3  1  reserved, refused
//	 4  4  length of the payload, 1 to 1500
//	 8  n  payload
//	8+n 4  CRC-32C of all bytes before it
//
// A receiver drops bytes that are not exactly one raw frame for its channel. There are no sequence
// numbers and no retransmission. A port in compliance mode drops all frames of TT-link, and a port in
// TT-link mode drops all raw frames.
package wire
