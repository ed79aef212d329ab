// Package ttlink is TT-link, the reliable link between two ethernet ports of
// the fabric: bring-up and training, go-back-N retransmission, and credits
// per virtual channel (Spec §2.1).
//
// A [Link] is one end of one cable. It holds no clock, socket or goroutine:
// its owner hands it the time and the datagrams that came, and takes from it
// what is to be sent.
//
// # Order of calls
//
// After every call that takes the time, the owner polls until nothing is left:
//
//  1. [Link.HandleDatagram] for each datagram of a batch. A [Delivery] is a
//     view into the datagram, to be copied before the datagram's memory is used again.
//  2. [Link.Tick] when [Link.Deadline] has come.
//  3. [Link.Free], [Link.CanSend] and [Link.Send] as slots and packets come free.
//  4. [Link.PollEvent] until it is empty.
//  5. [Link.PollTransmit] until it is empty: one round of it sends at most one
//     sequence update, so that a batch costs one acknowledgement.
//
// # Session, incarnation, training
//
// An incarnation is one life of a chip's process, a session is what two
// incarnations share: sequence numbers, credits and the packets under way.
// Training is about the path between them. It is repeated as often as the path
// is lost, with the same session going on where it stopped, so that a lost
// path neither loses nor repeats nor reorders a packet.
//
// A hello proves the path both ways when it echoes this end's incarnation and
// the number of its current training. Nothing but a proved hello changes the
// state of a link; a forged one is answered and forgotten. While training, a
// hello is as long as the longest frame that will follow, so that a path that is
// narrower than it seems shows before anything depends on it: the link then comes up with
// shorter ones, see size.go. An answer is as long as its question. Each end creates
// the state of a session once: an incarnation whose session has ended is not taken back.
//
// # What the other end may do
//
// A frame that is damaged, foreign, stale, or beyond its credits is dropped
// and counted, and changes nothing else. A port that is cabled wrongly is reported, once a second
// at most while it trains, and never used.
package ttlink
