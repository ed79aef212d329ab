// Package fifo is the protocol of sockets: send and receive with flow control over writes of the
// fabric (Spec §5). The two ends of a socket are state machines without clock, lock or input and
// output. Kernels, programs on hosts and the simulator drive the same state machines.
//
// # Memory
//
// Each end has a [Block] of [BlockSize] bytes in the L1 of a tile of its own chip. The receiver's FIFO
// follows the receiver's block. The owner of a block writes the first half, and the other end writes
// the second half. All numbers are little endian:
//
//	 0  4  magic number "TTSK"; 0: no end uses the block
//	 4  1  version, 1
//	 5  1  role: 1 sender, 2 receiver
//	 6  1  plane of the socket's packets
//	 7  1  0
//	 8  8  nonce of this end, a random number that is not 0
//	16  8  incarnation of this end's chip
//	24  8  nonce of the end that this end has met; 0: none yet
//	32  4  size of the FIFO, in bytes
//	36  4  size of a page, in bytes
//	40  2  mesh of the chip of the other end
//	42  2  chip of the other end
//	44  4  beat: a number that changes each second; 0: this end does not beat
//	48  16 0
//	64  4  counter: bytes_sent in the receiver's block, bytes_acked in the sender's block
//	68  12 0
//	80  4  [Farewell] of the other end
//	84  12 0
//
// The two counters are bytes_sent and bytes_acked of tt-metal's socket metadata. They count modulo
// 2^32. The bytes with the number n of the stream, from 0, lie at n modulo the FIFO's size.
//
// # Meeting
//
// Each end clears its block, and publishes the block by one write. Each end then reads the memory
// of the other end's block again and again. While this memory holds no block, or a block that has
// met another end, the reading end waits. If the other end has another configuration, the [Meeting]
// ends with a [MismatchError]. Otherwise the end publishes the other end's nonce in its own block.
// The ends have met when each block holds the nonce of the other end. Before the ends have met,
// neither end writes into the memory of the other chip.
//
// # Data
//
// The sender cuts the stream into chunks of whole pages. An increment of bytes_sent only counts
// bytes that are in the FIFO. So no receiver reads a byte that the fabric has lost. A chunk that
// need not wait for earlier bytes ends with a fused write and increment. The sender sends this last
// packet when the receiver's chip has performed the chunk's other packets. The increment counts the
// whole chunk. In a longer stream, the sender sends the chunks as plain writes, several at once. An
// atomic increment then counts all bytes that are in the FIFO so far. The sender repeats a write
// that got lost. The bytes of this write are not counted yet, so repetitions may come in any order.
// If a route dies, an end may not know whether the other chip performed a command. The end then
// reads the other end's block. The end repeats a plain write. The counter in the block says whether
// the other chip performed an increment; see [Resolve]. The receiver adds the number of bytes that
// it has read to bytes_acked, by an atomic increment. At most one increment of each end is under
// way.
//
// # Invariants
//
//   - bytes_sent − bytes_acked ≤ size of the FIFO.
//   - A write touches no byte of the FIFO that counts as sent and is not acknowledged.
//   - The receiver reads each byte once and in order.
//
// # End
//
// A sender that closes waits until bytes_sent counts all bytes. Then the sender writes the farewell
// [Closed] into the receiver's block, and waits until all bytes are acknowledged. The socket is
// then drained. The sender then frees its block: the owner writes zeros over the magic number. The
// receiver frees its block and its FIFO when the program has read all bytes and the last
// acknowledgement has ended. A receiver that closes early writes [Closed] into the sender's block.
// Writes of the sender may still be under way. So the receiver waits for the sender's farewell
// before it frees the FIFO. An end that fails writes [Failed].
//
// Each end reads the block of the other end every [CheckEvery]. A chip that restarts has lost its
// memory. So the block no longer has the nonce, and the end fails with a [PeerError]. Between the
// restart and the next check, the sender can still write up to one FIFO of bytes. These bytes reach
// the new incarnation's memory, at the addresses of the FIFO. The new incarnation never
// acknowledges these bytes, so neither end takes the bytes for delivered. An end whose block has a
// beat other than 0 that has not changed for [Silence] counts as dead, too.
package fifo
