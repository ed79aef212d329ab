// Package fifo is the protocol of sockets: send and receive with flow control over writes of the
// fabric (Spec §5). The two ends of a socket are pure machines. Kernels, programs on hosts and the
// simulator drive the same machines.
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
//	64  4  counter: the bytes sent, in the receiver's block; the bytes acknowledged, in the sender's
//	68  12 0
//	80  4  [Farewell] of the other end
//	84  12 0
//
// The two counters are bytes_sent and bytes_acked of tt-metal's socket metadata. They count modulo
// 2^32. The bytes with the number n of the stream, from 0, lie at n modulo the FIFO's size.
//
// # Meeting
//
// Each end clears its block, and publishes the block by one write. Each end then reads the block of the
// other end until the block fits. If the other end has another configuration, the [Meeting] ends with a
// [MismatchError]. Otherwise the end publishes the other end's nonce in its own block. The ends have met
// when each block names the nonce of the other. Nobody writes into the memory of the other chip before.
//
// # Data
//
// The sender cuts the stream into chunks of whole pages. An increment of the bytes sent only counts bytes
// that are in the FIFO. So no receiver reads a byte that the fabric has lost. A chunk that need not wait
// for earlier bytes ends with a fused write and increment. This last packet leaves when the receiver's chip
// has performed the chunk's other packets, and its increment counts the whole chunk. In a longer stream,
// the chunks are plain writes, several of them under way at once. An atomic increment then counts all bytes
// that are in the FIFO so far. A write that got lost is repeated. Its bytes are not counted yet, so the
// order of repetitions does not matter. If nobody knows whether a command was performed, for example
// because its route died, the end reads the other end's block, and then repeats a plain write. Of an
// increment, the counter there says whether it was performed; see [Resolve]. The receiver adds the bytes
// that it has read to the bytes acknowledged, by an atomic increment. At most one increment of each end is
// under way.
//
// # Invariants
//
//   - bytes sent − bytes acknowledged ≤ size of the FIFO.
//   - A write touches no byte of the FIFO that counts as sent and is not acknowledged.
//   - The receiver reads each byte once and in order.
//
// # End
//
// A sender that closes waits until the bytes sent count all bytes. Then the sender writes the farewell
// [Closed] into the receiver's block, and waits until all bytes are acknowledged: the socket is drained.
// The sender then frees its block: the owner writes zeros over the magic number. The receiver frees its
// block and its FIFO when the program has read all bytes and the last acknowledgement has ended. A receiver
// that closes early writes [Closed] into the sender's block. Writes of the sender may still be under way.
// So the receiver waits for the sender's farewell before it frees the FIFO. An end that fails writes [Failed].
//
// Each end reads the block of the other end every [CheckEvery]. A chip that restarts has lost its memory.
// So the block no longer has the nonce, and the end fails with a [PeerError]. In the time between the
// restart and the next check, up to one FIFO of bytes can reach the new incarnation's memory, at the
// addresses of the FIFO. These bytes are never acknowledged, so neither end takes them for delivered. An
// end that beats and whose beat has stood still for [Silence] has died, too.
package fifo
