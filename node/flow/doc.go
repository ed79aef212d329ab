// Package flow is the end-to-end protocol of requests. It tells a chip what
// became of each request that the chip sent, and decides at the destination which
// requests are performed.
//
// A flow is what one chip sends another chip on one plane. Where two routes round
// a ring are equally long, each of the two is a flow of its own (see [Request]).
// The packets of a flow take one route through channels that keep their order. So
// the destination sees a gap as soon as a later packet arrives.
//
// A destination answers with completions on the control channel. A completion is
// cumulative: "every request before n is settled, these were not performed". One
// completion stands for many requests. A source whose flow stalls sends a probe
// behind its requests. Since the packets of a flow keep their order, a request that
// has not arrived before the probe is lost.
//
// A multicast belongs to the flow of its group: all chips that its ranges reach
// from the source. Each member answers for itself. A unicast flow is a group of
// one: both have the same window, the same epochs and the same timers. They differ
// in three points, because the members of a group answer apart from each other:
//
//   - A unicast flow forgets how often it has probed with the next completion, a
//     group once no member is silent any more.
//   - A drop report counts as an answer of a unicast flow (for [FlowIdle]), even if
//     its request is settled already; so does the data of a read. In a group only a
//     completion counts as an answer.
//   - A flow of one member begins another epoch when it gives up that member. A
//     larger group goes on with its other members.
//
// The package holds two machines. A [Source] numbers the requests of this chip,
// sends them through a [Network], and turns the answers into a [Result] for each
// request. A [Sink] takes the requests of other chips and owes completions. Both
// are pure: time and packets are arguments, and both know no link, router or
// topology. Package chip composes them with these.
//
// # What is sure
//
// Whoever sends a request can rely on this:
//
//   - FateDone means that the destination performed the request. A request whose
//     outcome cannot be known ends as FateUnknown, never as done; session reports
//     it as OutcomeUnknownError.
//   - A request that ended as lost or refused is never performed, however late
//     its packet arrives. That holds for later incarnations of the destination, too.
//   - A chip that has performed a request of a flow performs no request that a
//     former incarnation of the source sent in that flow.
//   - Every request ends. A flow without progress for [FlowTimeout] gives up its
//     requests as of unknown outcome.
//   - A request to a chip that no route leads to ends at once, with an error that
//     matches session.ErrUnreachable.
//
// The layers below keep their own promises, on which these rest:
//
//   - A link delivers each packet in order, exactly once. Loss, duplicates,
//     reordering, corruption, cuts and restarts of the peer do not change that.
//     After a path loss the same incarnation resumes, and a retrain loses and
//     doubles nothing. There is one exception: where the path's MTU shrinks below
//     the frames under way, the session ends as in a restart, and the packets under
//     way are reported. A link finds by itself how long frames may be, also where
//     routers swallow longer frames in silence, and says so (package ttlink).
//   - No router drops a packet for want of room: credits hold the packet back, hop
//     by hop. The head of a packet at a dead next hop waits for a grace period of
//     four times the profile's silence: 240 ms, crowded 1 s. Then the router drops
//     and counts the packet, and reports it to its source (package router).
//   - A link whose cable fails goes on by a parallel cable, with the same session,
//     and loses nothing. Where no cable between two chips is left for twice the
//     profile's silence, all chips plan tables around the fault. They do so from
//     the same flooded words, without a leader. Routes that do not cross the fault
//     stay. The others become detours in virtual channels of their own, so that old
//     and new tables together close no cycle (package router/route; the tests prove
//     that for every fault that they take). Packets that wait at the fault are sent
//     on. Packets that the dead link held are lost, and their sources are told.
//   - Every packet is accounted for. It was delivered, dropped for a stated reason,
//     is under way, or is of unknown fate with a chip that died. A packet that a
//     chip refuses after its router delivered it has a stated reason. 'ttfabric
//     inspect --losses --assert' fails on any other packet (package node/losses).
//   - Gossip takes no link up or down. A port that hears its peer stays with that
//     peer, whatever address gossip tells of.
package flow
