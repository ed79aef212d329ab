// # Flows
//
// A flow is the sequence of requests and probes that one chip sends to another chip on one plane,
// or to one group of chips on one plane. "Flows of groups" describes groups. Packets with OTHER
// form a separate flow, even if OTHER changes nothing about their route. The flow seq numbers the
// requests and probes of a flow from 0. Requests and probes travel in the order of their flow seq.
// The flow base is the lowest flow seq whose fate the source does not know. For the flow base, the
// fate of a read is known once the source knows that the destination performed the read. The read
// stays open until its data comes. A flow has at most 4096 open requests.
//
// A flow epoch is a period in which the numbers of a flow grow without a break. Later epochs have
// higher numbers (wrapping). The number of a flow's first epoch is the time of the source's start,
// in milliseconds. An implementation may use any other number that is higher, after a restart, than
// the numbers of all epochs before.
// Each further epoch has the next number. The source counts packet ids up from its incarnation,
// across all epochs. A reply to a read of an earlier epoch therefore matches no read of the present
// epoch.
//
// For each flow, the destination keeps "next" and at most 64 exceptions. Next is the flow seq that
// the destination expects. Below, seq and base are the flow seq and flow base of a packet. To owe a
// completion means to send a completion of the flow as soon as possible. The destination handles a
// request or probe by these rules, in this order:
//
//   - A packet of an unknown flow, or of a newer epoch, begins the flow anew. If seq is beyond base
//     by less than 8192, the numbers from base to seq-1 get an exception with outcome 6
//     (destination restarted). Next becomes seq.
//   - The destination drops a packet of an older epoch, and owes a completion of the newer epoch.
//     A source whose clock was set back may start with a number that is too low. From the
//     completion, the source learns the newer epoch, and begins the epoch that follows.
//   - The destination forgets exceptions that lie wholly before base. If base is beyond next, next
//     becomes base.
//   - If seq is before next, the packet is a duplicate. The destination does not perform a
//     duplicate, and owes a completion.
//   - If the packet that began the epoch at this destination had KNOWN, the epoch is void: an
//     earlier incarnation of the destination has answered in the epoch. The destination performs no
//     request of a void epoch. For each packet, the numbers from next to seq-1 get an exception
//     with outcome 6, and seq gets an exception with outcome 9 (flow unknown). If the destination
//     already keeps 62 or more exceptions, one exception with outcome 6 covers all these numbers.
//     Next becomes seq+1.
//   - If the destination keeps 62 exceptions or more, it does not perform the packet. The packet
//     gets an exception with outcome 7 (too many exceptions), and later packets extend this
//     exception. From the first gap on, an exception with outcome 5 (lost) covers the gap and all
//     later packets. If there are 63 exceptions, and the last has another outcome than 7, only one
//     more fits. The packet then gets outcome 5, and so do all later packets. Next becomes seq+1.
//   - If seq is beyond next, the numbers from next to seq-1 get an exception with outcome 5. The
//     packet then falls under the next rule.
//   - The destination performs a request after all earlier requests of the flow. A request that it
//     cannot perform gets an exception. A probe does nothing. Next becomes seq+1.
//   - After every packet without POSTED that it has not dropped, the destination owes a completion.
//     The completions that it then sends answer all packets that came before. Together, they repeat
//     all exceptions that the destination keeps.
//
// Completions are cumulative: they begin at the flow base, so that a lost completion leaves no
// lasting gap. The source refuses completions of an earlier epoch. The source also refuses a
// completion whose field "next" is beyond the flow seq that the source will use next. The source
// also refuses a completion whose field "from" is beyond the first request without a fate. All open
// requests before next are done, except requests with an exception. A read is done only when its
// reply has also come. The source finds the read by the id in the reply.
//
// If a flow with open requests makes no progress for 250 ms, the source sends a probe behind the
// requests. Further probes follow at intervals that double up to 4 s. The completion of a probe
// shows which requests were lost. When an open drop report comes (see "Drop report"), probes follow
// at intervals from 250 ms on again. When any other drop report of a request comes, the source
// settles the request as lost. When any other drop report of a probe comes, the source settles the
// probe. If new tables may lead the next probe round the fault (reasons 1, 5, 7, 8 and 9), the
// source sends further probes. Otherwise the source settles all open requests before the probe as
// unknown, except the reads that the destination has performed. After 2 minutes without progress
// the source settles all open requests as unknown, and the flow begins a new epoch at flow seq 0.
//
// The reply to a performed read can be lost. When a drop report of the reply comes, the source
// settles the read as unknown. A reply can also be lost without a report, with the session of a
// link. If the reply to a performed read has not come 250 ms after the completion, the source sends
// the read again. The read then is a new request, with a flow seq and an id of its own. The source
// sends further such requests at intervals of at least 250 ms. Replies of a flow keep their order,
// so the reply to the repeated read overtakes no earlier reply. When that reply comes, the source
// therefore settles some earlier reads as unknown. The settled reads are those whose data were
// overdue by 250 ms when the source repeated the read. A reply that has not come after 2 minutes is
// lost, too. If the destination has restarted, the request begins a void epoch there. An exception
// with outcome 6 or 9 shows such a restart. The source then settles as unknown all performed reads
// up to the last flow seq of the exception.
//
// A source sets KNOWN once it has received a completion of the flow's present epoch. If a request
// that was sent with KNOWN has outcome 5, the destination will never perform the request. A later
// incarnation of the destination would refuse the request too. A request that was sent without
// KNOWN, and without a life, may still come to a later incarnation. The later incarnation would
// begin the flow with the request, and perform the request. If such a request has outcome 5, the
// source therefore settles the request as unknown. For requests with a life, see "Lives".
//
// An epoch ends when the source settles as unknown a request that was sent without KNOWN and
// without a life. An epoch also ends when the source receives an exception with outcome 6 or 9. In
// an ended epoch, the source sends no new requests. If the packets of the epoch name no life, a
// request that gets outcome 5 from then on ends as unknown, even if the source sent the request
// with KNOWN. When an ended epoch has no open request left, the source begins the next epoch, at
// flow seq 0. An epoch with KNOWN also ends if the flow has had no open request for 100 ms. The
// next request then begins a new epoch. A destination that restarted in this pause therefore
// refuses no request of the flow.
//
// A request with POSTED is a request like any other, but the destination owes no completion for it.
// A later completion covers the request, too. This implementation sends each 128th of consecutive
// posted requests without POSTED, so that the flow's window does not fill up. If no later packet of
// the flow asks for a completion, the probe after 250 ms does. A read is never posted.
//
// # Lives
//
// The life of a chip is the low 32 bits of the incarnation that the chip's process draws when it
// starts. A chip's hellos and its gossip name this incarnation. A unicast request or probe may name
// one life of its destination, or 0 for any life. All packets of one epoch name the same life.
// Packets of groups name no life.
//
// The first packet of an epoch that comes to a destination may name a life. If this life is not the
// destination's, the epoch is void at the destination, as with KNOWN. If the life is the
// destination's, and the packet has no KNOWN, the numbers from base to seq-1 get outcome 5 instead
// of outcome 6. The reason is that no other life performs requests of the epoch.
//
// If the requests of an epoch name a life, outcome 5 is final: the source settles the request as
// lost. Only the named life gives this outcome, and the named life does not perform the request
// later. All other lives refuse the request. Outcome 6 means that the destination has restarted.
// The source settles the request as unknown. Outcome 9 means that the request came to a later life,
// and that no life performed the request.
//
// A source need not name a life. This implementation learns the lives of the other chips from
// gossip, and those of its neighbours from their hellos. The source is sure of a life if the source
// has learned the life since its tables changed last. The source is also sure of a life if, since
// then, the chip has answered a packet that named the life. If the source is not sure, its flow
// begins the epoch with a probe, and sends no request before the probe is answered. All requests of
// the epoch then have KNOWN. The probe names the life that gossip has reported. An exception with
// outcome 6 or 9 shows that gossip is late. From then on, the packets name no life until gossip
// reports another life. When gossip reports a new life, the epochs of all flows to the chip end. A
// group also begins each epoch with a probe. If a member does not answer the probe of a group, the
// source sends the multicasts without KNOWN.
//
// # Flows of groups
//
// A group is a set of chips, the members. One source multicasts to these members on one plane,
// always by the same ranges, or always to the same set. The source numbers its groups from 1 to at
// most 256. A member drops packets with a higher group number. Each member keeps one flow for each
// source, plane and group, by the rules of "Flows". The packet of a completion has the number of
// the group. All members get the same flow seq for a request, and each member finds its own gaps
// and duplicates. The source sets KNOWN when all members have answered in the epoch. The epochs of
// a group's flow end by the same rules as the epochs of other flows.
//
// At the source, a request to a group is done when all members have answered for it. The flow base
// is the lowest flow seq that is not settled for all members. A drop report settles the request for
// the members that the dropped copy would have reached. If one member makes no progress for 2
// minutes, the source settles the open requests of that member alone as unknown. The flow then
// continues in the same epoch, if all these requests were sent with KNOWN. If the source uses a
// group number for other ranges, the flow begins a new epoch. A read by multicast has outcome 3
// (bad command).
package wire
