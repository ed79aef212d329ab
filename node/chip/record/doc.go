// Package record records every call into a chip and the chip's answers, and replays recordings. The
// answers of Avoid, Assign, Command, Flush, Ask, StartJob, EndJob and HandleStore are not recorded.
// In a replay, a fresh chip of the same configuration gets the same calls at the same times. The
// fresh chip must give the recorded answers, bit by bit. A replay without a difference shows that
// the replaying program computes what the recorded chip computed. A recording of a failure is all
// that a bug report needs.
//
// A recording begins with the start of the chip. A recording cannot begin later,
// because it does not hold the chip's state.
//
// # File
//
// Numbers of fixed size are little endian. A uvarint has seven bits in each byte, the
// lowest bits first. The high bit is set in all bytes except the last. A varint is a
// uvarint in zigzag form. Package encoding/binary reads and writes uvarints and varints.
//
//	0   8  magic: "TTFREC" 0x0d 0x0a
//	8   2  version of the format: 7; a mark such as (3) below names the version that added the
//	        marked part
//	10  2  reserved, 0
//	12     blocks, to the end of the file
//
// A block:
//
//	0   4  n, length of the stored bytes, 1 to MaxStored
//	4   4  length of the raw bytes, 1 to MaxRaw
//	8   4  CRC-32C of the stored bytes
//	12  n  stored bytes: the raw bytes as a separate DEFLATE stream (RFC 1951)
//
// If a process is killed, the last block of its file may be short or missing. All
// earlier blocks are complete. The first block is the header, a JSON object ([Header]).
// The header holds the configuration of the chip, with the topology in the form that
// 'ttfabric generate' writes. Each other block is a list of whole records.
//
// # Records
//
// A record has three parts. The first part is a uvarint with the length of the other two
// parts, at most MaxRecord. The second part is one byte, the record's kind. The third
// part is the body. In a body, t is a varint: the time in nanoseconds since the last t of
// the file. The first t of the file counts from [Header.Started]. A text or a list of
// bytes is a uvarint with the length, and then the bytes. A sum is a CRC-32 in 4 bytes,
// with the polynomial of IEEE 802.3. A CRC-32C would be useless as a sum: each frame ends
// with its own CRC-32C, and therefore all whole frames would have equal sums.
//
//	 1  HandleDatagram   t, channel (1 byte), the datagram (to the end)
//	 2  HandleRequest    t, request
//	 3  Tick             t
//	 4  Pump             t
//	 5  SetPath          t, channel, uvarint 1 for on, 0 for off
//	 6  SetMaxPayload    t, channel, varint bytes
//	 7  Close            t
//	 8  SetClient        uvarint: 0 no client, 1 client without deadlines, 2 client with deadlines
//	 9  PollTransmit     t; then for a transmit: channel, path (1 byte), uvarint bytes of
//	                     a frame, uvarint bytes of all frames, sum of all these bytes, and
//	                     of each frame the first bytes: all bytes of a frame of at most
//	                     192 bytes, 176 bytes of a longer frame; in versions 1 and 2,
//	                     152 bytes of a longer frame
//	10  PollResult       nothing, or a result
//	11  PollEvent        nothing, or an event, a JSON object (to the end)
//	12  Deadline
//	13  HandleLinkStates t, any number of link states, encoded as in a packet of link states (to the
//	                     end); in versions 1 and 2, without the last two bytes of each link state
//	14  Avoid            t, channel, uvarint 1 for out of service, 0 for back in service
//	15  Command          t, channel, varint: the router command
//	16  Flush            t, channel, varint 0
//	17  Ask              t, channel, varint 0
//	18  Assign           t, channel, varint: the channel of the fallback path (3)
//	19  Cut              t, channel, uvarint 1 for cut, 0 for repaired (3)
//	20  Refused          t, channel, varint 0 (3)
//	21  StartJob         t, the job, a JSON object (to the end) (4)
//	22  EndJob           t, number of the job and its end, a JSON object (to the end) (4)
//	23  Lend             t, uvarint bytes of host memory (5)
//	24  HandleTransfer   t, uvarint number of the transfer, outcome (1 byte), the bytes that a read
//	                     fetched from host memory (to the end) (5)
//	25  HandleStore      t, channel, uvarint offset in the tile, the stored bytes (to the end) (5)
//	26  PollTransfer     nothing, or a transfer (5)
//	27  HandleLives      t, any number of chips, each with mesh (2), chip (2) and life (4), little-endian
//	                     (to the end) (6)
//	28  Mark             t, channel 0, varint: the number of a cut (7)
//
// Records of kinds 9 to 11 and 26 hold a call and the call's answer. The answers of some other
// calls have records of their own:
//
//	32  answer of HandleRequest   uvarint admission
//	33  answer of SetMaxPayload   text of the error, empty for no error
//	34  answer of Deadline        uvarint 0 for no deadline, or 1 and the deadline as a varint from the last t
//
// The chip calls its client during a call into the chip. The records of the calls to the
// client follow the record of the call into the chip:
//
//	64  Next       t; then nothing, or the request that the client returned
//	65  Undo
//	66  Done       t, result
//	67  Performed  t, mesh and chip of the source (uvarints), plane (1 byte; plus 128 for the other direction round a ring, (2)), command
//	68  Deadline   uvarint 0 for no deadline, or 1 and the client's deadline as a varint from the last t
//
// The last record, if the recording was ended:
//
//	96  End  uvarint: 1 the chip was closed, 2 the file reached its limit, 3 an error,
//	              4 a user stopped the recording, 5 the chip panicked in the last call; text
//
// A request has these parts: uvarints token, mesh, chip, plane; 1 byte of flags; command; payload
// as a list of bytes; the hops to take as a list of bytes; 8 bytes with the ranges of a multicast.
// The flags are 1 probe, 2 trace, 4 the other direction round a ring (2), 8 posted (3), 16 members
// (3), 32 flush (3). The ranges are the hops to E, W, N, S, then the number of skipped hops to E,
// W, N, S. With the flag members, four uvarints follow, with the 256 bits of [wire.Members].
//
// A command has these parts: uvarints type, address, counter's address, value, 1 for
// flush, size, number of chunks; then two uvarints for each chunk: address, size.
//
// A result has these parts: uvarints token, mesh, chip, fate, outcome, drop reason, mesh and chip
// of the drop, doubt; uvarint length and sum of the data; text of the error; uvarint number and sum
// of the members; varints for the times sent and done. The sum of the members is that of their
// JSON, or 0 without members. The times count from the last t. If posted requests were missed, the
// fate is 16 higher, and a uvarint with the number of missed requests follows the fate (3).
//
// A transfer has these parts: uvarint number, uvarint 1 for a write and 0 for a read, uvarint
// address in host memory, uvarint length; then the sum of the data of a write. The records of kind
// 24 hold the data of reads. Therefore a replay needs no host.
//
// # Limits
//
// A [Writer] refuses blocks of more than [MaxRaw] bytes, and keeps the file within the
// Writer's own limit. A [Reader] refuses records and blocks beyond [MaxRecord], [MaxRaw]
// and [MaxStored].
package record
