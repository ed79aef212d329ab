// Package collective runs collective operations between the programs of several chips, over writes of the
// fabric. Package node/collective has the schedules and the arithmetic.
//
//	c, err := collective.New(ctx, s, collective.Options{Chips: chips, Meet: rank.Barrier})
//	err = c.AllReduce(ctx, collective.Sum, collective.Float32, in, out)
//	c.Close()
//
// Each rank makes the same calls in the same order. A call blocks until the rank's output is complete.
// A call does not wait for the outputs of other ranks. The caller must not change the input before
// the call returns. The output may be the input where both have the same length, except in
// [Comm.AllToAll].
//
// # Memory
//
// A communicator uses memory on each chip: FIFOs in the first DRAM bank, from offset [FIFOOffset] on, and
// control words in the L1 of the last Tensix tile that works on all chips, from offset [ControlOffset]
// on. One program at a time has communicators on a chip: [New] claims this memory of its chip, and [Comm.Close]
// of the last communicator ends the claim. The claim also ends when the program ends. [Comm.Split] makes
// further communicators, which have further memory.
//
// A FIFO belongs to one sending rank, one receiving rank and one lane. A FIFO has [Slots] slots of
// [SlotSize] bytes. A message takes one slot, and consists of packets of 4096 bytes. The last packet
// may be shorter. A packet is a header of 16 bytes and up to 4080 bytes of data:
//
//	u32 number of the message in its FIFO, from 1
//	u32 tag: a hash of the generation, the chips, the number of the call and the arguments of the call
//	u16 number of the move in the schedule, modulo 65536
//	u16 length of the data of the message in bytes
//	u16 number of the last message that the sender has taken from the opposite FIFO of the same lane, modulo 65536
//	u16 number of the last message that the sender has taken from the opposite FIFO of the plane's other lane, modulo 65536
//
// The sender writes all packets of a message at once. The receiver waits for the number of the
// message in the last packet, and then checks the headers of all packets. So the order in which the
// packets come does not matter. Each of these writes can be repeated without harm. So a lost packet or
// an unknown outcome does not end an operation. The receiver writes the number of the last message that
// it has taken into a word at the sender, unless a message to the sender carries this number.
//
// If all data of a call to and from a rank are at most 64 KiB, the rank posts the messages of one
// packet on plane 0 (see [session.Posted]). No chip answers a posted message. If the receiver has not
// acknowledged a posted message after 200 ms, the sender writes the message again, with an answer. A lost
// posted message counts in the result of [session.Session.Flush].
//
// # Means
//
// With [Options].Means, kernels move the data, in place of writes over the fabric's routes: [EDM]. The chips must have
// these kernels, as all chips of 'ttfabric node' have. Each operation is one job of kernels, which performs the schedule
// of the operation between neighbours, see package node/edm/schedule. The rank stores its input in the DRAM of its chip
// before the job, and reads its output there after the job. A communicator uses a bank of DRAM for these data, from the
// last bank on. An operation may have up to 1 GiB of input and output on a chip.
//
// If two ranks make different calls, the EDMs between them find different keys in their handshake, and the operation ends
// on all ranks. A rank may come to an operation as late as it likes.
//
// # Rows and columns
//
// [Comm.Split] makes communicators of some of the ranks, and [Comm.Row] and [Comm.Column] make those of a mesh.
// All of them can work at the same time, each in its own goroutine:
//
//	row, err := c.Row(ctx)
//	column, err := c.Column(ctx)
//	err = row.AllGather(ctx, in, out)
//	err = column.AllReduce(ctx, collective.Sum, collective.Float32, out, out)
//
// # Failures
//
// If a chip dies or restarts, or if no route to a chip is left, the operation ends on every rank with a
// [DeadError] that names the chip. If a rank's context ends during a call, the operation ends on all other
// ranks with an [AbandonedError] that names the rank. A rank that notices a failure itself tells all
// other ranks. After a failure, each call of the communicator returns the error of the failure.
// [Comm.Shrink] makes a communicator of the ranks that are left, as ULFM's MPI_Comm_shrink does.
//
// Each communicator that Shrink makes has the next generation. Even and odd generations have
// separate memory, and Shrink returns only after all ranks that are left have ended their writes. Posted
// messages come before the later writes of Shrink, which have answers. So no write of a failed operation
// reaches a later operation.
//
// During an operation, a rank looks every 200 ms at the chips that it waits for, and every second at all
// others. If the process of a chip ends, the operation ends on every rank within the sum of three times. The
// first is the silence of a link. The second is the time for which a port may be down before routes avoid the
// port. The third is the grace period of the router. With the profile lan these are 240 + 200 + 240 ms. A chip
// whose host answers nothing is late, and counts as dead after 20 seconds. The tests show this over simulated
// chips, with a death at each of 64 instants of an operation.
//
// A communicator watches chips, and does not watch processes. If a program ends without its chip, the
// other ranks wait until their contexts end. 'ttfabric run' ends all ranks in this case.
package collective
