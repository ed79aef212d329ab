// Package edm is the ERISC data mover (EDM) of the CCL guide: a kernel on ethernet tiles that moves messages
// over a link, on several channels, in both directions. Workers on Tensix tiles hand messages to the EDM's
// sender channels, and take messages from the receiver channels at the other end of the link. The package
// also has the host's part, which builds programs with EDMs, and the workers' part.
//
// # One link
//
// Each end of a link has one EDM. A channel is a sender at one end and a receiver at the other end, under the
// same number. Each end of a channel has one buffer, at the same address. A message moves like this:
//
//	worker                 sender channel           receiver channel              worker
//	  | <-- buffer free ---- |                                |                      |
//	  | --- write, signal -> | --- payload, channel word ---> |                      |
//	  | <-- buffer free ---- | <---------- acknowledged ----- | --- message here --> |
//	  |                      |                                | <-- read, signal --- |
//	  |                      | <------------- done ---------- |                      |
//
// The acknowledgement gives the sender's buffer back to the sender's worker. The sender channel sends the next
// message only when the receiver channel is done, because the receiver's buffer is free only then. The states of a
// channel are those of [State]. In each turn, an EDM looks at one sender channel and at one receiver channel.
//
// # Start and end
//
// Programs of different chips start in no order, so the EDMs shake hands first. An EDM with sender
// channels only is the sender of the handshake. If both ends have sender channels, the end whose
// first sender channel has the lower number is the sender of the handshake. The packet of the
// handshake says how its sender was built, and has the key of the operation. If the receiver of the
// packet was built differently or has another key, the receiver ends the job.
//
// With [MessageCountReached], a channel ends after the number of messages that the host gave. With
// [WorkerInitiated], a channel ends when its worker sends the signal [Last] with the last message,
// or [Terminate] without a further message. The workers of both ends must end the channel. When a
// channel has ended, its EDM tells the other end how many messages the channel had. The kernel ends
// when all its channels have ended at both ends with the same counts.
//
// If the counts differ, the job ends on all chips. The job's end names the link, the channel, the number that
// was expected, and the number that was seen. If one host builds both ends, [Links.Check] finds different
// counts before the job starts.
//
// # Host
//
// [NewBuilder] takes the number of channels. [Builder.AddSenderChannel] and
// [Builder.AddReceiverChannel] return the addresses that the workers need. [Links.Generate] adds
// the kernel to a chip's program, once for each end of a link. [Builder.Dump] prints the layout and
// all arguments. [NewLine] and [NewRing] choose links between neighbours. [NewStream] builds the
// programs of a complete stream of pages with these functions.
//
// # Workers
//
// A [Worker] is a worker's view of its channel. Links need packets of 4 KiB to 16 KiB, and pages are smaller:
// [PagesPerPacket] says how many pages go into a packet, [Pages.Fetch] and [Worker.SendChunk] send a packet, and
// [Worker.ReceiveChunk] and [Pages.Store] take it.
//
// # Checks
//
// A [Checker] takes the events of [Observed] kernels. A Checker reports messages that were lost, came twice or
// out of order, or were overwritten before a worker read them. A Checker also reports kernels that ended too
// early or not at all.
//
// Sources: CCL guide, "ERISC Data Mover (EDM) Engine" and "ERISC Data Mover (EDM) Builder". The names of states,
// modes and signals, the order of the arguments and the sizes in L1 are those of tt-metal in 2024.
package edm
