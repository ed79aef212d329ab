// Package ttlink is TT-link, the reliable link between two ethernet ports of the fabric: bring-up
// and training, go-back-N retransmission, and credits per virtual channel (Spec §2.1). The terms
// are explained in package wire.
//
// A [Link] is one end of one cable. A Link holds no clock, socket or goroutine. The owner passes it
// the time and the received datagrams, and takes from it the datagrams to send.
//
// # Order of calls
//
// After every call that takes the time, the owner polls until nothing is left:
//
//  1. [Link.HandleDatagram] for each datagram of a batch. A [Delivery] is a view into the datagram.
//     The owner copies it before it reuses the datagram's memory.
//  2. [Link.Tick] when [Link.Deadline] has come.
//  3. [Link.Free], [Link.CanSend] and [Link.Send] as slots become free and packets wait.
//  4. [Link.PollEvent] until it is empty.
//  5. [Link.PollTransmit] until it is empty. One such round sends at most one sequence update, so
//     that a batch costs one acknowledgement.
//
// # Session, incarnation, training
//
// An incarnation is one run of a chip's process. A session belongs to two incarnations. They share
// the session's sequence numbers, its credits and its packets under way. Training proves the path
// between the two incarnations. The ends train each time the path is lost. The same session then
// continues where it stopped. A lost path therefore neither loses nor repeats nor reorders a
// packet.
//
// A hello that echoes this end's incarnation and the number of its current training proves the path
// both ways. Only a hello that proves the path changes the state of a link. The link answers a
// forged hello and forgets it. While training, a hello is as long as the longest frame that will
// follow. A path that takes only shorter frames therefore shows before any data depends on the
// path. The link then comes up with shorter frames, see size.go. An answer is as long as its
// question. Each end creates the state of a session once. An end never again accepts an incarnation
// whose session has ended.
//
// # What the other end may do
//
// The link drops and counts a frame that is damaged, foreign, stale, or beyond its credits. Such a
// frame has no other effect. The link reports a wrongly cabled port, at most once a second while it
// trains, and never uses that port.
package ttlink
