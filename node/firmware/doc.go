// Package firmware is the base firmware of Wormhole's ethernet tiles, as far as a host sees it: the
// baseline data movement service (BDMS). A host writes requests into a queue in the L1 of any ethernet
// tile. The firmware reads or writes the memory of any tile of any chip.
//
// # For authors of clients
//
// The word at [QueuePointer] of every ethernet tile has the address of the tile's queues, [QueueBase]. The
// queues, entries and flags are those of BDMS. A host pushes a request and pops a completion as BDMS says in
// "Queues". The package board says which position each chip has.
//
// A completion of a read has exactly the flags RdData, with DataBlock and DataBlockDRAM as in the request.
// Errors add one flag:
//
//   - [DestUnreachable]: no chip has the position, or no route leads to the chip, or none of the
//     request's parts made progress for [AnswerTimeout]. A write also ends with this error if the
//     write was on a cable when the cable's session ended. If the write had left its tile, nobody
//     knows whether the write took place. A write that has waited at tiles for [AnswerTimeout] no
//     longer takes place.
//   - [DataBlockUnavailable]: the firmware refused the read. The documents do not define the request: the
//     flags name no request, or an address or a length is wrong. Type Reason lists the reasons.
//
// A write has no completion entry. Each error of a read or a write adds 1 to the error counter, and
// the chip reports an event. The firmware performs nothing of a refused part. A request with
// [DataBlockDRAM] has parts of [BlockSize] bytes; if a part fails, the following parts do not
// leave, and earlier parts stay performed. The firmware refuses a request with neither or both of
// [RdReq] and [WrReq]. If such a request has RdReq, the firmware pushes a completion.
//
// The length limits of scatter pages count the bytes that a page writes: 1024 bytes of page have 12
// bytes of header, so data_block_length may be 1024. The firmware checks all writes of a page before it performs the first one. Some registers may
// refuse a store: registers that can only be read, and the command register of a transaction command
// queue. A write to such registers must be the only write of its page.
//
// A chip has host memory only while a host lends the chip memory. Without a host, and beyond the
// end of the host's memory, the firmware refuses the data of a request with [DataBlockDRAM]. The
// completion of such a read has the flag [DataBlockUnavailable]. The firmware also refuses the data
// if the host goes away while data are under way. The flags of a completion change only after the
// host has acknowledged the last write.
//
// The target of a request may be the window of the PCIe tile to host memory: tile 0-3, from offset
// 0x8_0000_0000 on. The request then reads or writes the memory of the target chip's host, because the
// firmware performs requests by NoC reads and writes (BDMS, "Stage 3"). The later requests of the same
// queue wait for the host. If the host does not perform the request within [AnswerTimeout], the request ends
// with [DestUnreachable]. Nobody knows then whether the host performs a write. The firmware refuses a
// request beyond the end of the host's memory, and a request while no host lends the chip memory. A scatter
// page cannot name the window.
//
// Package host is the host's side of the queues in Go; 'ttfabric host' uses that package.
//
// # Routes
//
// A request passes from tile to tile over the NoC, and over cables as L1 writes, see cable.go. With
// [Ordered], all requests to one chip take the same cables. Without it, requests of different tiles may
// take parallel cables. Requests of one tile to one chip take the same cables and keep their order, because
// luwen relies on this order. Only the parts of a request with [DataBlockDRAM] take parallel cables. Such a
// request waits until earlier requests of the tile to the chip have ended, and later ones wait for it. But two such requests
// for different bytes do not wait for each other. BDMS does not promise any of this order. A chip with a
// seed (KernelSeed) therefore chooses among parallel cables for each request, so that tests meet requests
// that overtake others.
//
// # In a capture
//
// A capture shows a message between two tiles as an L1 write of 64 bytes to an address from 0x11400 to
// 0x118C0: the message's header. The fields of the header are little-endian:
//
//	offset  bytes  field
//	0       4      CRC-32C of the following 60 bytes
//	4       4      number of the message in this session of the link
//	8       1      0: a request, 1: an answer
//	9       1      1: the message has taken a cable away from the root of the routes
//	10      2      cables that the message has taken since its last pause
//	12      4      mesh and chip whose host asked
//	16      4      mesh and chip that performs the request
//	20      1      ethernet channel of the tile whose host asked
//	21      1      of an answer: 0, or the number of the Reason
//	22      2      bytes of data
//	24      4      number of the request at its tile
//	28      4      part of the request
//	32      8      of a request: address, with x from bit 36 on and y from bit 42 on; bit 60: NoC 1
//	40      4      flags of the request
//	44      2      bytes that a read wants
//	48      4      CRC-32C of the data
//	52      4      time for which the message has waited at tiles, in ms
//	56      8      data of at most 8 bytes
//
// Longer data come before the header, in an L1 write to an address from 0x13000 on. An L1 write of 16 bytes
// to 0x11910 has the numbers of messages that a tile tells the other end of its cable.
//
// # Beside kernels
//
// The firmware works beside the kernels of a tile. If a kernel of a strict job runs on a tile, the
// tile's firmware works only while the kernel waits in RunRouting, or in a call that runs the
// routing itself. (See Context.RunRouting of package kernel.) Outside of these calls, the tile
// accepts, passes on and ends no request. Deadlines that pass meanwhile take effect when the
// firmware works again. L1 writes from the other end of the tile's cable still reach the tile's
// buffers.
//
// The package is a pure machine. An idle tile has no state and no timer.
package firmware
