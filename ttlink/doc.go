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
//     update, which acknowledges all datagrams of the batch.
//
// # Session, incarnation, training
//
// An incarnation is one run of a chip's process. Two incarnations share a session: its sequence
// numbers, its credits and its packets under way. Training proves that the path between the two
// incarnations works both ways. The ends train each time the path is lost, and the session then
// continues. Packets therefore arrive once and in order, even if the path was lost meanwhile.
//
// A hello proves the path both ways if it echoes this end's incarnation and current training
// number. Only a hello that proves the path can take a link up. A link answers any other hello, and
// then forgets it. During training, hellos are as long as the longest frame that the link may send
// later. If the path drops such long hellos, the link comes up with shorter frames (see size.go).
// The answer to a hello is never longer than that hello. An end refuses an incarnation whose
// session has ended.
//
// # Bad frames
//
// A link drops and counts a frame that is damaged, comes from a wrong port, belongs to an ended
// session, or exceeds the credits. A dropped frame has no other effect. If a cable leads to a wrong
// port, a link that trains reports the wrong port, at most once a second. The link stays down on
// that cable.
package ttlink
