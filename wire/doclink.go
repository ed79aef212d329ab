// # Link: bring-up and training
//
// Each end of a link is in one of three states. While the other end's address is unknown, an end is
// off. Otherwise the end is training or up. Each end has a training number, 1 at the start. The end
// adds 1 to the number each time it leaves the state up, and each time it begins a session. Each
// end has at most one session.
//
// While training, an end sends periodic hellos: one at once, and the next ones at growing
// intervals. A periodic hello has WANT and the end's own training number. It echoes the session
// peer's incarnation and newest training number. Before the first session, it echoes those of the
// last hello that proved nothing. Periodic hellos carry echo stamp 0. Only a direct answer echoes a
// stamp. When the echo comes for the first time, the sender of the stamp can therefore measure a
// round trip.
//
// While it trains, an end pads its hellos to the longest frame payload that it takes. After
// that, until it is confirmed, it pads them to the longest frame payload that it uses. An end
// that is up continues its periodic hellos until it is confirmed. Two things confirm an end: a
// frame of the session other than a hello, or a hello of the session with UP that echoes the
// end's incarnation.
//
// An end takes a received hello through these steps in order:
//
//  1. From and expected must be the ports at the two ends. The two fabrics must be equal, or one of
//     them 0. Otherwise the cable is miswired: the end refuses the hello, and reports the miswiring
//     while training.
//  2. An end that is off refuses the hello. An end refuses a hello of an incarnation whose
//     session has ended, since the sequence numbers of that session are used up. It remembers
//     the last 8 such incarnations. It also refuses a training number of the session's peer
//     that is older (wrapping) than the peer's newest.
//  3. The end reports and refuses a hello with no slots at all, with slots that changed within
//     an incarnation, or with a frame payload below 96.
//  4. The hello proves the path both ways if it echoes this end's incarnation and this end's
//     current training number. Only a proof changes the state. While the end trains, a proof takes
//     it up. A proof by another incarnation than the session's starts a new session in any state.
//     The old session then ends, and the fate of its unacknowledged packets is unknown. The end is
//     up at once in the new session, and adds 1 to its training number. A late proof by an earlier
//     incarnation therefore names a used-up number and changes nothing. A hello that proves nothing
//     is answered and forgotten.
//  5. The session's peer has lost the path if it sends a newer training number without UP
//     while this end is up. If this end is confirmed, it goes down and trains too. The end
//     records a newer number with UP without training again: that peer has replaced its
//     session on this end's proof, and lost nothing.
//  6. In a hello of the running session that echoes this end's incarnation, rx seq and grants
//     count as those of an update. With UP, such a hello is also a sign of life, and confirms
//     an end that is up.
//  7. A hello with WANT is answered at once, by a hello that echoes its incarnation, training
//     number and stamp. The answer has UP if the answering end is up now. The answer has WANT if
//     the answering end is not up. It also has WANT if the question came from another incarnation
//     than the session's and proved nothing: the sender may be the peer after a restart, which then
//     proves itself by the cable that the answer takes. An answer to an answer has no WANT. An end
//     sends at most 8 answers at once and one more every 2 ms; it counts those to the session's
//     peer and those to strangers separately. The answer is padded to the length of the question,
//     but never beyond the longest payload that the answering end takes. If several questions wait,
//     the end answers the longest question.
//
// An end that comes up on a hello without WANT, and is not confirmed by it, sends one hello at
// once. Both ends use frames of at most the smaller of the two frame payloads. They also use
// no longer frames than the path carries, as the next section describes. An end may hold
// unacknowledged frames that are longer than that when it would come up. It then takes another
// incarnation instead of coming up, and continues to train. Such frames would never get
// through, and cannot be cut again.
//
// # Link: frame size
//
// A path may drop long frames without telling anybody. An answer is never longer than its
// question. So an answer that comes proves the path both ways for frames as long as the
// answer.
//
// An end whose long hellos are not answered may train with shorter ones too. A hello is short
// if its frame payload is smaller than what both ends take. Once an end has sent a short
// hello, and until its training number changes, it comes up on two kinds of hello only. One is
// an answer; the end then uses frames no longer than an answer that proved the path. The other
// is a periodic hello with UP, whose sender has already found the size that passes; the end
// then uses frames as long as that hello. An end that is up may send a longer hello at any
// time to ask whether longer frames pass. It uses longer frames once that hello is answered.
//
// In this implementation, each hello from the third of a training on is followed by a short one,
// padded to 1152, 480 and 192 bytes in turn. If 8 of these are answered and no long hello is, the
// path counts as narrow. If the session holds longer frames, the path counts as narrow only after
// 16 such answers. From the fourth hello of a training on, most hellos are padded to 160 bytes
// only, and the others follow at intervals of 0.5 to 8 s. An end restarts this sequence when it
// hears, after a silence, a short hello that echoes its incarnation.
//
// # Link: fallback paths
//
// Two links may lead to the same chip in the same direction. One link may be down while the other
// link is up by its own cable. Then the frames of the first link may use the cable of the second
// link (Spec §7.4.1.1). The datagrams then travel between the UDP ports of the second link. The
// envelope's destination channel is that of the first. Session, sequence numbers, slots and grants
// stay those of the first.
//
// An end of such a link says hello by each cable that may be used, and "via" names the cable: 0 for
// the own cable, else one more than the sender's channel whose cable it is. A hello whose via does
// not name the cable that the hello came by is miswired. An end comes up by a cable that a hello
// proves both ways: the hello answers a stamp that this end sent by the same cable. If there is
// only one cable, any proof suffices. An end takes other frames of the session by another link's
// cable once the peer has said hello by that cable. An end whose frames use another link's cable
// says hello by its own cable too. It goes back to its own cable after two answers there. An
// implementation without fallback drops frames that come for another channel than the port's.
//
// # Link: held cables
//
// An end may hold its own cable for a while, for example after the cable failed often. While
// the cable is held, the end neither sends nor answers hellos by it, and is not up by it.
// Hellos by other links' cables continue. The peer sees what it would see of a cut cable: no
// hello proves the path. If the end is up, it still takes other frames of the session that
// come by the held cable.
//
// An end that is told to train again leaves the state up and trains; the peer follows by step
// 5.
//
// # Link: sessions
//
// A new session starts from the initial sequence numbers, slot 0 on every VC and grants of 0.
// No packet may be sent before the first grant is heard. A training within a session resumes
// that session: every unacknowledged frame is sent again with its old number, and no packet is
// delivered twice. A packet of which only a part has come when its session ends is void. On a
// close frame of the session an end goes down and trains, although the sender of the close
// frame has gone.
//
// # Link: data
//
// Sequence numbers are 32 bits and wrap; distances are signed 32-bit differences. An end
// refuses frames of another session, frames for another channel, and frames that come while
// the end is not up. Every other data, update or close frame of the session is a sign of life.
// The rx seq of data and updates acknowledges all data frames before that number. An end
// ignores an rx seq beyond what it has sent.
//
// A packet of 1 to 8192 bytes is cut into n equal pieces; the last may be shorter. The sender
// chooses the smallest n for which a piece, padded to a multiple of 32, fits into a frame. The
// pieces have consecutive numbers, and pieces of two packets do not mix.
//
// The receiver takes a data frame only if its tx seq is the next expected number. A frame with an
// earlier number is a duplicate: the receiver acknowledges it again. A frame with a later number
// shows a gap, of at most 4096 frames (the largest window). The receiver drops that frame. The next
// frame must also pass these checks: the first piece is within the grants; later pieces are on the
// VC of their packet; the piece is not empty; the destination address is the expected one; no flag
// but END is set. Otherwise the receiver drops the frame and continues to expect its number.
//
// On a gap the receiver sends an update with NACK: once for each missing number, and again after a
// round trip. If the rx seq of a NACK is the sender's oldest unacknowledged frame, the sender goes
// back: it sends that frame and all after it again (go-back-N). The sender goes back at most once
// per round trip. A retransmission timeout (RFC 6298 §2, doubling) has the same effect. An
// acknowledgement may ride on data. Otherwise the receiver sends an update, one for a batch of
// frames.
//
// Credits: a grant is the absolute number of packets that the peer may have sent on a VC since
// the session began. A grant is computed as slots freed in this session + the channel's slots
// - carried. Carried is the number of slots that still hold packets of earlier sessions; each
// of these raises the grant by one when it is emptied. An older grant (wrapping) changes
// nothing. An end refuses a grant beyond the packets that it has sent + the peer's slots. A
// packet's first piece takes a slot. The slot is freed when the packet has moved on.
//
// An end that waits for credit, and has heard no grant for a timeout, sends an update with
// SOLICIT. The peer answers with an update. An idle end sends an update at least every
// keepalive time. Silence takes an end down: a short silence while frames are unacknowledged,
// but at least four round trips, and a long silence when idle. Each end has its own times, but
// three keepalives must fit into the other end's idle time. Defaults: keepalive 620 ms,
// silence when idle 2 s, silence under traffic 60 ms, intervals between hellos from 20 to 500
// ms.
package wire
