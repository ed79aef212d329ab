// Package snapshot defines the file format of a snapshot: the state of a whole fabric at one cut
// (Spec §7.5.1: "TT-Fabric Model will serialize these components of the Fabric"). A snapshot is one
// JSON object, a [File]. The schema of the object is in schema.json, and in [Schema].
//
// A snapshot holds, for each chip: the ports as training found them, with the states of links and
// routers; the routing tables L0 and L1 in force, with their epoch; for each port and virtual
// channel, the packets of the receiver channel and of each sender channel, in the order in which the
// packets leave; the credits; the flows that begin or end at the chip, with the open requests; the
// kernels; on demand, the memory of the tiles. A packet is written with its headers. The payload is
// written on demand.
//
// # What a cut is
//
// In the simulator, all chips are written at one instant. A live fabric has no common instant. Each
// chip of a live fabric writes its state at its own cut, and the cuts are consistent (Chandy and
// Lamport, "Distributed Snapshots", 1985): if a chip received a packet before its cut, the sender
// sent the packet before the sender's cut. In both cases, the field in_flight of a virtual channel
// holds the packets that were under way on the cable: the peer had sent these packets before its cut,
// and the chip had not received them at its cut. So each packet of the fabric is in the file once.
//
// The fields sent and received of a virtual channel count the packets of the link's session. Between
// two chips of a snapshot, the packets in flight are the difference of both counts. [File.Check]
// compares them. Grants are no packets, and may overtake the packets of a cut. The field credits
// therefore holds what a chip knew at its cut. To get the true number of free slots, take the number of
// slots at the receiver. Then subtract the packets in the receiver channel and the packets in flight.
//
// # What is not written
//
// A kernel is a coroutine, whose state nobody can save. The file has the kernel's name and tile, for
// people. The file does not have frames of L1 writes and MMIO writes that are under way. Of timers,
// histories and counters, the file has only the ages of packets and requests.
//
// # Versions
//
// A reader refuses a file of another [Version], and a file with fields that the reader does not
// know. A later version of the format gets a new number.
package snapshot
