// Package attach is a binary protocol on a Unix socket. By this protocol, a local program reaches a
// chip faster than by the HTTP API. The package holds the format and the client. Package server is
// the chip's end. A [Client] implements [ttfabric/node/session.Fabric], so a program can use a
// session on a Client. scripts/python has a client in Python, which was written from this page
// alone.
//
// # Socket
//
// Each chip listens on a stream socket in its run folder, chip-M0D0.sock. The folder has mode 0700
// and the socket mode 0600. The chip also asks the kernel for the user of the peer (SO_PEERCRED,
// socket(7)), and refuses other users than its own and root. An admitted user may do everything
// that the API's token allows. The kernel limits the path of a socket to [MaxPath] bytes.
//
// A chip in a container has a user of its own. The chip opens its socket in the folder "sockets" of
// the run folder, which 'up --runtime docker' mounts into the container. The socket has mode 0666,
// and the chip also admits the user who brought the fabric up. The run folder keeps other users
// out.
//
// # Frames
//
// All numbers are little endian. A frame is a header of 16 bytes and a body:
//
//	0  4  length of the frame with its header, 16 to MaxFrame
//	4  1  kind
//	5  3  reserved, 0
//	8  8  number
//
// The client gives each request a number, and the answer has the same number. A client may choose
// any numbers, but two open requests should have different numbers. Up to [MaxInFlight] requests
// may be under way. If more requests are under way, or if the chip has no room, the chip reads no
// further frames until the chip has sent answers. The client may send a batch: frames of several
// requests in one piece. The chip then answers the batch in one piece.
//
// The chip performs the commands of one client in the order in which they were sent. The chip
// performs a command to its own memory at one instant, so that no packet and no other program sees
// half of the command. A command to another chip leaves at one instant if there is room. Commands
// are inputs of the chip, and are part of recordings. Answers come in the order in which the
// requests end.
//
// The first frame must be a hello. If a frame cannot be read, the chip sends an error with the
// number 0, and closes the connection. When a connection closes, the connection's waits end, and
// the connection leaves its barriers. Commands under way go on.
//
// # Requests
//
//	1  hello    8 bytes "TTATTACH", u16 version 1, 6 bytes 0
//	2  command  a NoC command, see below
//	3  wait     u64 address of a word of 32 bits in the chip's own memory, u32 value, u8 test, 3
//	            bytes 0; the chip answers when the word equals the value (test 0), or is at least
//	            the value (test 1). The address must be a multiple of 4.
//	4  cancel   u64 number of a wait, a barrier, an events, an end, a hold, a claim, an operation, a
//	            shrink or a split request of this connection. If this request is still open, the
//	            request ends with error 4. An operation, a shrink or a split that has begun ends with
//	            error 10, see Collective operations.
//	5  barrier  u32 rank, u32 number of ranks, the name (1 to 64 bytes); the chip answers when all
//	            ranks have sent a barrier of this name to this chip. When a rank's connection
//	            closes, the other ranks' barriers of this name end with error 6, now and later.
//	6  events   empty; after the answer, the chip sends an event frame with the same number for
//	            each event
//	7  moment   empty
//	8  job      a [kernel.Job] as JSON: the chip starts its part of a job of kernels. When the
//	            connection closes, the chip ends the jobs of this connection that still run, on all
//	            their chips. The reports name the job's owner as the rank that has died.
//	9  stop     u64 number of a job, why as text (at most 64 bytes); the chip stops the job on all
//	            its chips
//	10 end      u64 number of a job; the chip answers when the job has ended on this chip
//	11 memory   empty; the answer carries a file descriptor, see Host memory
//	12 tile     u8 x, u8 y of an ethernet tile on NoC 0, 6 bytes 0; the answer carries a file
//	            descriptor, see Host memory
//	13 lend     u64 size of the memory that the client lends, in bytes: 32 to 2^32
//	14 moved    u64 number of a transfer, u8 0 for done and 1 for refused, 7 bytes 0, the bytes that a
//	            read wanted; has no answer
//	15 hold     u32 longest time in µs, 1 to 10000, u32 0, then 1 to 32 words: u64 address of a word of 32
//	            bits in the chip's own memory, u32 value, u32 0; the chip answers when one of the words
//	            does not have its value, or after the longest time. For drivers that poll words.
//	18 claim    u8 length of the name (1 to 64), the name, the holder (1 to 256 bytes); the chip answers
//	            at once. The claim ends when the client cancels the request, or when the connection
//	            closes. If another program has the claim, the answer is error 8, which names the holder.
//	19 comm     a [Comm] as JSON: opens a communicator, see Collective operations
//	20 begin    u64 number of the communicator, which is the number of the comm request
//	21 operation
//	            u64 number of a communicator, u8 operation, u8 type of the elements, u8 reduction, u8 0,
//	            u32 root, u64 count, u64 offset of the input, u64 offset of the output
//	22 shrink   u64 number of a communicator
//	23 split    u64 number of a communicator, i32 color, i32 key
//	24 close    u64 number of a communicator
//
// A command has these parts. The payload is up to 4096 bytes, or up to [MaxBlock] for a write or a
// read:
//
//	 0  2  mesh of the destination
//	 2  2  chip of the destination
//	 4  1  type: 0 write, 1 inline write, 2 atomic increment, 3 write and increment, 4 scatter write,
//	       7 read (the codes of [wire.NocSendType])
//	 5  1  routing plane
//	 6  2  flags: 1 probe, 2 flush, 4 posted, 8 other way round a ring, 16 trace, 32 members
//	 8  8  address: offset in bits 0 to 35, x in bits 36 to 41, y in bits 42 to 47; bit 60 says that x
//	       and y are coordinates of NoC 1 ([wire.NocOne])
//	16  8  address of the counter, for type 3
//	24  4  value, or increment
//	28  4  number of bytes wanted, for a read; otherwise the length of the payload
//	32  8  multicast: hops to E, W, N, S, then skipped hops to E, W, N, S; all 0: no ranges
//	40  1  number of chunks of a scatter write, 2 to 4; otherwise 0
//	41  1  number of hops that the packet shall take, instead of the routing table's; 0: none
//	42  6  reserved, 0
//	48     with the flag 32: 32 bytes, bit c%8 of byte c/8 stands for chip c of the mesh
//	       one byte for each hop: 0 east, 1 west, 2 north, 3 south
//	       12 bytes for each chunk: u64 address, u32 length
//	       the payload
//
// # Answers
//
// The kind of an answer is the kind of its request plus 128:
//
//	129  hello    u16 version, u16 mesh and u16 chip of the chip, u16 0, u64 incarnation, u32
//	              MaxFrame, u32 MaxInFlight, u32 hash of the topology, u8 architecture (1 Wormhole,
//	              2 Blackhole), u8 1 if the host reaches the chip over PCIe and otherwise 0, u16 id of
//	              the chip in a cluster descriptor (65535: an id of more than 16 bits)
//	130  command  the result, see below
//	131  wait     u32 the word's value, u32 0
//	132  cancel   empty
//	133  barrier  empty
//	134  events   empty
//	135  moment   a [flow.Moment] as JSON
//	136  job      empty
//	137  stop     empty
//	138  end      a [kernel.End] as JSON
//	139  memory   u64 size of the memory, in bytes, and a file descriptor
//	140  tile     u64 size of the L1, in bytes, and a file descriptor
//	141  lend     empty
//	143  hold     u32 for each word, its value
//	146  claim    empty
//	147  comm     u64 size of the shared memory, in bytes, and a file descriptor
//	148  begin    a [CommView] as JSON
//	149  operation
//	              empty
//	150  shrink   a [CommView] as JSON
//	151  split    a [CommView] as JSON
//	152  close    empty
//
// Three further kinds of frames are no answers of this form:
//
//	144  event    an [Event] as JSON, with the number of the events request
//	145  transfer a transfer of host memory, with the number of the lend request; see below
//	255  error    u16 code, u16 rank for the codes 9 to 11 and otherwise 0, the reason as text
//
// A result:
//
//	 0  1  fate ([flow.Fate]): 0 done, 1 refused, 2 lost, 3 unknown, 4 posted
//	 1  1  outcome ([wire.Outcome]): why the destination refused
//	 2  1  drop ([wire.DropReason]): why a router dropped the packet; 0: no router did
//	 3  1  doubt ([flow.Doubt]): why the outcome is unknown; 0 with the fate 3: the chip was shut down
//	 4  4  mesh and chip where the packet was dropped
//	 8  8  nanoseconds from the start of the command to its end, by the chip's clock
//	16  8  for a flush: number of missed posted requests
//	24  4  number of members of a multicast that follow
//	28  4  length of the data
//	32     12 bytes for each member that did not perform the command: mesh and chip, fate, outcome,
//	       drop and doubt, mesh and chip of the drop
//	       the data of a read
//
// A command of more than 4096 bytes travels as several packets. The result of such a command is
// that of the first packet that did not end as done.
//
// The codes of errors:
//
//	1  the chip cannot start the command; the reason names the bad value
//	2  the fabric has no route to the destination on this plane
//	3  the frame has a bad value
//	4  the request was cancelled
//	5  a limit is reached
//	6  a rank has left the barrier
//	7  the chip shuts down, or is being removed
//	8  another program has the claim
//	9  the chip of a rank is dead; the error has the rank
//	10 a rank has left an operation before its end; the error has the rank
//	11 two ranks of a communicator made different calls; the error has the other rank
//
// # Host memory
//
// Requests in the firmware's queues can name host memory ([ttfabric/node/firmware], DataBlockDRAM). Packets
// of the fabric, the chip's own requests and kernels reach host memory at the tile 0-3 of a Wormhole, from
// offset 0x8_0000_0000 on (the PCIe tile). Writes, reads, scatter writes, and writes with an increment of a
// word in L1 take effect there. The chip refuses inline writes and increments of host memory, as hardware
// does.
//
// A client gives the chip host memory with the request memory or with the request lend. A chip uses one host
// memory at a time, for the requests of all hosts. If the chip already has another host memory, the chip
// refuses the request with error 1.
//
// The request memory is for programs that map files, on Linux. The answer carries a descriptor of a memfd
// (SCM_RIGHTS, unix(7)), which the program maps as shared. The file cannot shrink or grow. Byte n of the
// file is the byte at address n of host memory. All clients get the same file. The chip uses the file until
// the last connection that asked for the file closes. Then the requests under way end with errors, and the
// next request memory gets a new file.
//
// The request lend is for programs whose memory no other process can map. The chip sends a transfer for
// each read and write. The client performs the transfer and sends a frame of kind moved. When the
// connection closes, the chip has no host memory any more. The flags of a completion change only after the
// client has sent moved for all writes. A transfer has these parts:
//
//	 0  8  number of the transfer
//	 8  8  address in the client's memory
//	16  1  1 for a write, 0 for a read
//	17  3  0
//	20  4  length, at most [MaxTransfer] bytes
//	24     the data of a write
//
// The request tile is for programs that use the firmware's queues with plain loads and stores, on
// Linux. The answer carries a descriptor of a memfd with the bytes of the tile's L1, which the
// program maps as shared. The chip's stores appear there in their order. A program's store sends no
// message to the chip. While the file is in use, the chip therefore looks at the indices of the
// queues. After a change of an index, the chip looks every 20 µs for 1 ms. Otherwise, the chip
// looks every 1 ms. If an index has changed, the chip copies the program's changes of the queues
// and their buffers into its memory. Every 10 ms, the chip copies the program's changes elsewhere
// in the L1, and refreshes words such as the heartbeat. The copied changes are inputs of the chip,
// and part of recordings. If the program and the chip store into one word at the same time, either
// store may be lost. The chip uses the file until the last connection that asked for the file
// closes. A chip refuses other tiles than ethernet tiles with error 1.
//
// # Collective operations
//
// A program in any language performs collective operations by its chip. The program hands over a call, and the
// chip's process runs the package [ttfabric/node/session/collective] for the program. The program writes the
// input to memory that it shares with the chip, and finds the output there. So the data do not cross the chip's
// socket. One implementation gives each language all operations, types, means and errors. With an
// implementation in each language, over writes and waits, every packet would cross the socket.
//
// A communicator begins in two steps, because the ranks meet by a means of their own, such as the request
// barrier. First, all ranks meet. Then each rank sends the request comm. The chip claims and clears its memory
// for collective operations. The answer has the size and a descriptor of a memfd (SCM_RIGHTS, unix(7)), which
// the program maps as shared. The file cannot shrink or grow, and its pages use no memory before they are
// written. Then all ranks meet again, and send the request begin. The number of the request comm is the number
// of the communicator. If another program has communicators on this chip, the answer to comm is error 8.
//
// The codes of operations are 0 all-gather, 1 reduce-scatter, 2 all-reduce, 3 reduce, 4 broadcast, 5 gather,
// 6 scatter, 7 all-to-all, 8 send-receive, 9 barrier. The types are 0 fp32, 1 bf16, 2 int32, 3 uint8, and the
// reductions are 0 sum, 1 product, 2 minimum, 3 maximum. The comments of [collective.Kind] and
// [collective.Call] say what each operation does, and what the count counts. The chip performs the operations of
// one communicator in the order in which they were sent, and answers when the output is complete. Until the
// answer, the program must not change the input. Except in all-to-all, input and output of equal length may be
// the same bytes. If input and output overlap otherwise, the chip refuses the operation.
//
// The requests shrink and split also take their turn among the operations. Each makes another communicator
// with the same shared memory. The number of the request is the number of this communicator. A rank whose color
// is negative gets no communicator, and the answer states rank -1. The request close ends a communicator after
// the communicator's earlier operations. If a client cancels an operation, a shrink or a split that has begun,
// the request ends on all ranks with error 10. When the connection closes, its communicators close. The shared
// memory stays until the last of these communicators has closed.
//
// # Limits
//
// A chip takes [MaxClients] clients. A client has at most [MaxInFlight] requests in flight, and at most
// [MaxAnswers] bytes of answers that it has not read. A client has at most [MaxComms] communicators, and a
// request comm names at most [MaxCommMemory] bytes of shared memory. A chip has at most [MaxWaits] open waits
// of all clients. The chip disconnects a client that takes no answer for [WriteTimeout].
package attach
