// Package ttlink implements TT-link, the reliable link between two ethernet ports of the fabric. A
// link does bring-up and training, go-back-N retransmission, and credits per virtual channel (Spec
// §2.1). Package wire explains the terms.
//
// A [Link] is the protocol machine at one end of a cable. A Link has no clock, socket or goroutine.
// The owner of the Link passes the time and the received datagrams to the Link, and sends the
// datagrams that the Link returns.
//
// # Order of calls
//
// The owner calls the methods in this order, and always finishes with steps 4 and 5:
//
//  1. [Link.HandleDatagram] for each datagram of a batch. The bytes of a returned [Delivery] lie in
//     the datagram. The owner must copy the bytes before the owner reuses the datagram's memory.
//  2. [Link.Tick], if the time of [Link.Deadline] has come.
//  3. [Link.Free] for each receiver slot that has become free, and [Link.CanSend] and [Link.Send]
//     for packets that wait.
//  4. [Link.PollEvent] until it returns false.
//  5. [Link.PollTransmit] until it returns false. In this step the Link sends at most one sequence
//     update, which acknowledges all data frames of the batch that the Link has accepted.
//
// # L1 writes and MMIO writes
//
// Besides packets, a link carries L1 writes and MMIO writes: [Link.StartWrite], [Link.StartRegister] (see
// writes.go). These writes need no credits. [Link.HandleDatagram] returns the frames of writes as soon as
// the frames come. A link calls only one function of its owner, [Config].Source. An owner that has started a
// command must call [Link.PollTransmit] as in step 5.
//
// # Session, incarnation, training
//
// An incarnation is one run of a chip's process. A link also takes a new incarnation if it gives up
// its unacknowledged packets (see [EventSessionEnded]). Each session belongs to two incarnations. A
// session consists of sequence numbers, credits and the packets under way. Training proves that the
// path between the two incarnations works both ways. The ends train each time the path is lost, and
// the session then continues. Within a session, packets therefore arrive once and in order, even if
// the path was lost meanwhile.
//
// A hello proves the path both ways if it echoes this end's incarnation and current training
// number. If the link may use several cables, the hello must also answer a hello that this end sent
// by the same cable. Only a hello that proves the path can take a link up. A link also answers
// hellos that prove nothing. A training begins with hellos as long as the longest frame that the
// link may send later. If the path drops these long hellos, the link also sends shorter hellos, and
// comes up with shorter frames (see size.go). A link never pads an answer beyond the length of the
// hello that it answers. When a new incarnation of the peer replaces an old incarnation, the end
// refuses the old incarnation from then on. An end remembers the last 8 replaced incarnations.
//
// # Bad frames
//
// A link drops and counts a frame that is damaged, comes from a wrong port, belongs to another
// session, or exceeds the credits. Such a frame carries no data to the owner. A frame that exceeds
// the credits belongs to the running session. Such a frame therefore still acknowledges frames, and
// shows that the peer is alive. If a cable leads to a wrong port, a link that is not up queues an
// [EventMiswired], at most once a second. The link does not come up by that cable.
package ttlink
