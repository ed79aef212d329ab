// # Link: bring-up and training
//
// Each end of a link is in one of three states, until its chip closes the link for good. An end is
// off while the other end's address is unknown, and while the end's port is in compliance mode.
// Otherwise the end is training or up. Each end has a training number, which is 1 at the start. The
// end adds 1 to the training number each time it leaves the state up, begins a session, or takes a
// new incarnation. Each end has at most one session.
//
// While training, an end sends periodic hellos: the first at once, and the next ones at growing
// intervals. A periodic hello has WANT and the end's own training number. A periodic hello echoes
// the incarnation and the newest training number of the session's peer. Before the first session,
// the hello echoes the incarnation and the training number of the last hello that proved nothing.
// Periodic hellos have echo stamp 0, because only an answer echoes a stamp. The sender of a stamp
// can therefore measure a round trip when the stamp's first echo comes.
//
// While it trains, an end pads its hellos to the longest frame payload that it takes. An end that
// is up continues its periodic hellos until the end is confirmed. The end pads these hellos to the
// longest frame payload that it uses. Two kinds of frame confirm an end that is up. The first kind
// is any frame of the session other than a hello. The second kind is a hello of the session that
// has UP and echoes the end's incarnation.
//
// An end takes a received hello through these steps in order:
//
//  1. "From" must be the port that the end expects at the other end of the cable, and "expected"
//     must be the end's own port. The hello's fabric must be the end's fabric, or one of the two
//     must be 0. Otherwise the cable is miswired. The end refuses the hello. If the end is not up,
//     it also reports the miswiring.
//  2. An end that is off refuses the hello. An end refuses a hello of a replaced incarnation,
//     because the sequence numbers of that incarnation's session are used up. An incarnation is
//     replaced when another incarnation of the peer begins a new session in place of the old
//     session. An end remembers the last 8 replaced incarnations. When an end itself takes a new
//     incarnation, its session ends, but the peer's incarnation is not replaced. An end also
//     refuses a hello of the session's peer with a training number older (wrapping) than the newest
//     that the peer has sent.
//  3. The end refuses a hello whose slots are all 0, and a hello with a frame payload below 96. The
//     end also refuses a hello of the session's peer whose slots differ from those in the hello
//     that began the session. If the end is training, it also reports the refused hello.
//  4. The hello is a proof if it echoes this end's incarnation and this end's current training
//     number. While the end trains, a proof from the session's peer takes the end up. A proof from
//     an incarnation other than the session's peer starts a new session, whether the end trains or
//     is up. The old session then ends, and the fate of its unacknowledged packets is unknown. The
//     end is up at once in the new session. The end adds 1 to its training number because the
//     session begins, and 1 more if the end was up. A late hello from an earlier incarnation
//     therefore echoes an old training number, proves nothing, and does not end the session. A
//     hello that proves nothing and comes from another incarnation than the session's peer changes
//     neither the session nor the state. The end only answers such a hello (step 7). An end without
//     a session also stores the incarnation and training number of such a hello, and echoes them in
//     its periodic hellos.
//  5. Suppose that this end is up, and that the session's peer sends a newer training number.
//     Without UP, the hello shows that the peer has lost the path. If this end is confirmed, it
//     then goes down and trains too. With UP, the number grew only because the peer began this
//     session when this end's proof came; the path still works. This end then records the new
//     number, and stays up.
//  6. If the hello is of the running session and echoes this end's incarnation, the end uses its rx
//     seq and grants like those of an update. An end that trains uses the rx seq and grants of a
//     hello only if the hello takes the end up. If this hello also has UP, it is a sign of life,
//     and confirms an end that is up.
//  7. The end answers a hello with WANT (the question) at once. The answer is a hello that echoes
//     the question's incarnation, training number and stamp. The answer has UP if the answering end
//     is up now, and WANT if it is not up. The answer also has WANT if the question came from a
//     stranger and proved nothing. A stranger is an incarnation other than the session's peer. A
//     stranger may be the peer after a restart, and can then prove itself by answering. An answer
//     to an answer has no WANT. An end sends at most 8 answers at once, and one more every 2 ms.
//     This limit applies to answers to the session's peer and to answers to strangers separately.
//     The answer is padded to the length of the question, or to the longest payload that the
//     answering end takes if that is shorter. If several questions of one training of one
//     incarnation wait on a path, the end answers the longest. A question of another training or
//     another incarnation replaces the waiting question.
//
// Suppose that an end comes up on a hello without WANT, and that this hello does not confirm the
// end. The end then sends one hello at once. The frame size is the smaller of the two ends' frame
// payloads, or less if the path carries only shorter frames (see "Link: frame size"). Suppose that
// an end is about to come up, and holds unacknowledged frames that are longer than the frame size.
// The long frames would never reach the peer, and the end cannot cut them again. The end therefore
// takes a new incarnation, and continues to train.
//
// The lower 32 bits of an incarnation name the process of the chip. An end that takes a new
// incarnation keeps these bits, and changes the upper 32 bits. The peer can therefore tell an end
// that has given up its session from a chip that has started anew.
//
// # Link: frame size
//
// A path may drop long frames without a report to the sender. An answer is never longer than its
// question. An answer that arrives therefore proves that frames of the answer's length pass in both
// directions.
//
// If an end's long hellos are not answered, the end may also send short hellos. A hello is short if
// its frame payload is smaller than the frame payload that both ends take. An end that has sent a
// short hello comes up on only two kinds of hello. The restriction to these two kinds ends when the
// end next leaves the state up or the state off. The first kind is an answer. The end then uses
// frames that are no longer than an answer that proved the path. The second kind is a padded
// periodic hello with UP and the session's id. The sender of such a hello has already found the
// frame size that passes. The end then uses frames as long as this hello. An end that is up may
// send a longer hello at any time to ask whether longer frames pass. When the peer answers the
// longer hello, the end uses longer frames.
//
// In this implementation, a short hello follows each long periodic hello from the fourth of a
// training on. The short hellos are padded to 1152, 480 and 192 bytes in turn. If 8 of these short
// hellos are answered and no long hello is answered, the end takes the path for narrow. If the
// session holds longer frames, the end waits for 16 answers to short hellos. From the sixth
// periodic hello of a training on, most periodic hellos are padded to only 160 bytes, until a short
// hello is answered. A periodic hello of 160 bytes is called a knock. An answer to a knock does not
// count as an answer to a short hello. Meanwhile, hellos of full length follow at intervals of 0.5
// to 8 s. An end that trains restarts this sequence when it hears, after a silence, a short hello
// that echoes its incarnation.
//
// # Link: fallback paths
//
// Suppose that two links A and B lead to the same chip in the same direction. If A is down and B is
// up by its own cable, then A's frames may use B's cable (Spec §7.4.1.1). A's datagrams then travel
// between the UDP ports of B. The envelope of A's frames has the destination channel of A. A's
// frames also keep the session, the sequence numbers, the slots and the grants of A.
//
// An end with fallback paths sends hellos by each cable that its frames may use. The hello's "via"
// names the cable: 0 is the link's own cable, and k+1 is the cable of the sender's channel k. The
// receiver treats a hello as miswired if via does not name the cable by which the hello came. An
// end comes up by a cable if a hello that comes by this cable answers a stamp that the end sent by
// this cable. If the link has only one cable, any proof takes the end up. An end takes other frames
// of the session by another link's cable only after a hello of the peer has come by this cable. The
// hello must have echoed the end's incarnation. An end that uses another link's cable also sends
// hellos by its own cable. After two answers by its own cable, the end returns to its own cable. By
// default, an end needs 32 answers by its own cable if this cable is unreliable and the cable in
// use is reliable. An implementation without fallback paths drops frames whose destination channel
// is not the channel of the port.
//
// # Link: held cables
//
// An end may hold its own cable for a while, for example after the cable has failed often, or
// because the cable is unreliable. If an operator took the cable out of service, the hold has no
// end while the end is up. While an end trains, a hold ends at the latest 60 ms (by default) after
// the training began. The end can then use its own cable again. An end that is up by another cable
// can begin to hold its own cable at once. Before an end that is up by its own cable holds this
// cable, it asks by other links' cables, with hellos that have WANT. After an answer, the end holds
// its own cable, leaves the state up and trains. The peer trains too, by step 5 of the list of
// steps for a received hello. While the cable is held, the end sends and answers no hellos by this
// cable, and is not up by this cable. The end continues to send hellos by other links' cables. For
// the peer, a held cable looks like a cut cable: no hello proves the path. If the end is up by
// another cable, it still takes frames of the session, other than hellos, that come by the held
// cable.
//
// An operator may order an end to train again. The end then leaves the state up and trains. The
// peer trains too, by step 5 of that list.
//
// # Link: sessions
//
// A new session starts from the initial sequence numbers, from slot 0 on every VC, and from grants
// of 0. An end sends its first packet after it has received the first grant. A training within a
// session resumes that session. The sender sends every unacknowledged frame again with its old
// number, and the receiver delivers no packet twice. If only a part of a packet has come when the
// session ends, the receiver drops that part. When a close frame of the session comes, an end goes
// down and trains, although the peer has shut its link down.
//
// # Link: data
//
// Sequence numbers have 32 bits and wrap. The distance of two sequence numbers is their signed
// 32-bit difference. An end refuses frames of another session, frames for another channel, and
// frames that come while the end is not up. Every data, update or close frame that the end does not
// refuse is a sign of life. The rx seq of data and update frames acknowledges all data frames with
// lower numbers. An end ignores an rx seq beyond the data frames that it has sent. In this section,
// data frames include L1 writes and MMIO writes, which have numbers of the same sequence.
//
// The sender cuts a packet of 1 to 8192 bytes into n equal pieces; the last piece may be shorter.
// The sender chooses the smallest n for which a piece, padded to a multiple of 32, fits into a
// frame. The pieces of a packet have consecutive sequence numbers.
//
// The receiver takes a data frame only if the frame's tx seq is the next expected number. A frame
// with an earlier number is a duplicate, which the receiver drops and acknowledges again. The
// receiver also drops a frame with a later number. If that number is at most 4096 (the largest
// window) above the expected number, the frame shows a gap. A data frame of a packet with the
// expected number must also pass these checks. A packet's first piece is within the grants. Later
// pieces are on the VC of their packet. The piece is not empty. The packet so far has at most 8192
// bytes, or 96 bytes on a VC for control packets. The destination address is the expected address.
// No flag other than END is set. A frame of an L1 write or MMIO write must instead pass the checks
// of the section "L1 writes and MMIO writes". If a check fails, the receiver drops the frame and
// continues to expect the frame's number.
//
// When the receiver finds a gap, it sends an update with NACK. The receiver sends one NACK for each
// missing number, and repeats the NACK if the frame is still missing after a round trip. If the rx
// seq of a NACK is the sender's oldest unacknowledged frame, the sender sends this frame and all
// later frames again (go-back-N). The sender goes back at most once per round trip. After a
// retransmission timeout (RFC 6298 §2, doubling), the sender also goes back. Data frames also carry
// acknowledgements. An end that has no data to send acknowledges by an update, one for a batch of
// frames.
//
// Credits: a grant is the absolute number of packets that the peer may have sent on a VC since the
// session began. A grant is the number of slots freed in this session + the channel's slots -
// carried. Carried is the number of slots that still hold packets of earlier sessions. When such a
// slot is freed, carried falls by one, and the grant rises by one. A grant that is lower (wrapping)
// than an earlier grant changes nothing. An end refuses a grant above the number of packets that it
// has sent + the peer's slots. A packet's first piece takes a slot. When the packet has moved on,
// the slot is free again.
//
// If an end waits for credit, and no grant has come for a retransmission timeout, the end sends an
// update with SOLICIT. The peer answers with an update. An idle end sends an update at least once
// in 9/8 of the keepalive time. An end that has heard nothing for 19/16 of its own keepalive time
// sends an update with SOLICIT, and repeats it. Therefore the two ends may have different keepalive
// times. Silence of the peer takes an end down. While frames are unacknowledged, a short silence
// suffices, which lasts at least four round trips. Otherwise a long silence is necessary. The
// defaults are: keepalive time 150 ms, long silence 240 ms, short silence 60 ms, intervals between
// hellos from 20 to 500 ms. This implementation also takes an end down if the peer sends frames,
// but does not acknowledge the oldest frame. The limit is 8 s, or 8 retransmission timeouts if they
// are longer.
package wire
