// Package record writes down every call into a chip and what it answered, and
// replays such a recording: a fresh chip of the same configuration gets the
// same calls at the same times, and must answer the same, to the bit. So a
// recording of a live chip proves that a simulated one runs the same code, and
// a recording of a failure is all that a bug report needs.
//
// A recording begins with the chip: there is no way to write down a chip in
// the middle of its life.
//
// # File
//
// Numbers of fixed size are little endian. A uvarint has seven bits a byte,
// the lowest first, the high bit set in all bytes but the last; a varint is
// one in zigzag form (encoding/binary has both).
//
//	0   8  magic: "TTFREC" 0x0d 0x0a
//	8   2  version of the format: 2; 1 is the same without what is marked (2)
//	10  2  reserved, 0
//	12     blocks, to the end of the file
//
// A block:
//
//	0   4  n, length of the stored bytes, 1 to MaxStored
//	4   4  length of the raw bytes, 1 to MaxRaw
//	8   4  CRC-32C of the stored bytes
//	12  n  stored bytes: the raw ones as a DEFLATE stream of their own (RFC 1951)
//
// A process that is killed leaves a last block that is short, or no last block
// at all: what comes before is whole. The first block is the header, a JSON
// object ([Header]): the configuration of the chip with its topology, as 'ttfabric
// generate' writes one. Each other block is a list of whole records.
//
// # Records
//
// A record is a uvarint, the length of what follows, at most MaxRecord; one
// byte, its kind; and the body. In a body, t is a varint: the time in
// nanoseconds since the last t of the file, at first since [Header.Started]. A
// text or list of bytes is a uvarint, its length, and the bytes. A sum is a
// CRC-32 (IEEE 802.3; CRC-32C would be the same for all whole frames) in 4 bytes.
//
//	 1  HandleDatagram   t, channel (1 byte), the datagram (to the end)
//	 2  HandleRequest    t, request
//	 3  Tick             t
//	 4  Pump             t
//	 5  SetPath          t, channel, uvarint 1 for on, 0 for off
//	 6  SetMaxPayload    t, channel, varint bytes
//	 7  Close            t
//	 8  SetClient        uvarint: 0 none, 1 one without deadlines, 2 one with
//	 9  PollTransmit     t; then for a transmit: channel, path (1 byte), uvarint bytes of
//	                     a frame, uvarint bytes in all, sum of these, and of each frame the
//	                     first bytes: all of a frame of at most 192 bytes, 152 of a longer one
//	10  PollResult       nothing, or a result
//	11  PollEvent        nothing, or an event, a JSON object (to the end)
//	12  Deadline
//	13  HandleLinkStates t, the words as in a packet of link states, of any number (to the end)
//	14  Avoid            t, channel, uvarint 1 for out of service, 0 for back
//	15  Command          t, channel, varint: the router command
//	16  Flush            t, channel, varint 0
//	17  Ask              t, channel, varint 0
//
// Kinds 9 to 11 tell the call and its answer. Of the others:
//
//	32  answer of HandleRequest   uvarint admission
//	33  answer of SetMaxPayload   text of the error, empty for none
//	34  answer of Deadline        uvarint 0 for none, or 1 and t' as a varint of its own, from the last t
//
// What passes between the chip and its client stands behind the call in which it happened:
//
//	64  Next       t; then nothing, or the request that the client gave
//	65  Undo
//	66  Done       t, result
//	67  Performed  t, mesh and chip of the source (uvarints), plane (1 byte; plus 128 of the other way round, (2)), command
//	68  Deadline   uvarint 0 for none, or 1 and the client's deadline as a varint from the last t
//
// The last record of a recording that was ended:
//
//	96  End  uvarint: 1 the chip was closed, 2 the file's limit, 3 an error,
//	              4 it was told to stop, 5 the chip panicked in the last call; text
//
// A request: uvarints token, mesh, chip, plane; 1 byte of flags (1 probe, 2
// trace, 4 the other way round (2)); command; payload as a list of bytes; the hops to take as a list of
// bytes; then 8 bytes, the ranges of a multicast: the hops to E, W, N, S and
// how many of them are skipped.
//
// A command: uvarints type, address, counter's address, value, 1 for flush,
// size, number of chunks n; then as many pairs of uvarints as there are chunks: address, size.
//
// A result: uvarints token, mesh, chip, fate, outcome, drop reason, mesh and
// chip where, doubt; uvarint length and sum of the data; text of the error;
// uvarint number and sum of the members, as JSON; varints sent and done, from the last t.
//
// # Limits
//
// [MaxRecord], [MaxRaw], [MaxStored] and the number of bytes that a [Writer] is
// allowed bound what is written and what is believed when it is read.
package record
