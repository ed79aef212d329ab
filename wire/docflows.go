// # Flows
//
// A flow is the sequence of requests and probes that one chip sends to another chip on one plane,
// or to one group of chips on one plane. Groups are described below. Packets with OTHER form a flow
// of their own, even where OTHER changes nothing about their route. Requests and probes are
// numbered in their flow from 0 by flow seq, and travel in order. Flow base is the lowest number
// whose fate the source does not know. At most 4096 requests are open.
//
// A flow epoch is a period in which the numbers of a flow grow without a break. Later epochs have
// higher numbers (wrapping). The number of the first epoch is the time of the source's start in
// milliseconds, or another number that grows faster than epochs end. Each further epoch adds 1.
// Packet ids count up from the incarnation. The reply to a read of an earlier epoch therefore
// matches no read of the present epoch.
//
// For each flow, the destination keeps next, the number that it expects, and at most 64
// exceptions. It handles a request or probe by these rules:
//
//   - A packet of an unknown flow, or of a newer epoch, begins the flow anew. If seq is beyond base
//     (by less than 8192), the numbers from base to seq get exceptions with outcome 6 (destination
//     restarted). next becomes seq. The destination drops a packet of an older epoch, and owes a
//     completion of the newer epoch. A source whose clock was set back before the source started
//     thus learns the newer epoch, and begins the epoch after the newer epoch.
//   - The destination forgets exceptions that lie wholly before base. If base is beyond next,
//     next becomes base.
//   - The destination has already answered a seq before next. It does not perform the packet,
//     and owes a completion.
//   - A packet with KNOWN that begins an unknown flow or a newer epoch is void: an earlier
//     incarnation of the destination has answered in that epoch. Numbers between next and seq get
//     exceptions with outcome 6, and seq gets one with outcome 9 (flow unknown). The destination
//     never performs a request of that epoch. If there would be too many exceptions, one exception
//     with outcome 6 covers all these numbers. next becomes seq + 1.
//   - With 62 exceptions or more, the destination does not perform the packet. The packet gets
//     an exception with outcome 7 (too many exceptions), which the next packets extend. At the
//     first gap, a second exception begins, with outcome 5 (lost). It covers the gap, the
//     packet behind the gap and all that follow. If there are 63 exceptions and the last has
//     another outcome than 7, that second exception begins with the first such packet. next
//     becomes seq + 1.
//   - For a seq beyond next, the numbers between next and seq get exceptions with outcome 5.
//   - Otherwise the destination performs the request in the flow's order, and adds an
//     exception if the request could not be performed; next becomes seq + 1. A probe does
//     nothing.
//   - The destination owes a completion for each packet. A completion that waits to be sent
//     covers later requests too. It repeats all exceptions that are kept.
//
// Completions are cumulative: the newest replaces the older ones. The source refuses a
// completion of another epoch, or with next beyond what the source has sent. All open requests
// before next are done, except those with an exception. A read is done when its reply has
// come; the source finds the read by its id.
//
// A source that hears nothing for 250 ms sends a probe behind its requests, and further probes
// at doubling intervals. The completion of the probe tells what was lost. A drop report of a
// request settles that request as lost. A drop report of a probe settles all open requests
// before the probe as unknown. After 10 s without progress all open requests are unknown, and
// the flow begins a new epoch at flow seq 0.
//
// A source sets KNOWN once it has had a completion of the flow's present epoch. If a request
// that was sent with KNOWN has outcome 5, it will never be performed, since a later
// incarnation of the destination would refuse it. A request that was sent without KNOWN may
// come late to a later incarnation and begin the flow there. The source therefore settles such
// a request as unknown when its outcome is 5.
//
// Three things end a flow epoch: a request that the source settles as unknown for the reason above;
// an exception with outcome 6 or 9; and a request sent without KNOWN that the source settles as
// unknown for another reason. From then on, the source settles all requests of that epoch with
// outcome 5 as unknown, and sends no new requests. When nothing is open, it begins a new epoch at
// flow seq 0. A source also begins a new epoch before its first request after 100 ms in which
// nothing was open. A destination that restarted in this pause then has nothing to refuse.
//
// # Flows of groups
//
// A group is the chips that one source multicasts to by the same ranges on one plane. The
// source numbers its groups from 1 to at most 256, and a member drops packets of other
// numbers. For a member a group is a flow of its own, by source, plane and group. All of the
// above holds for that flow. A completion names the group in its packet. Sequence numbers
// belong to the group, so each member sees gaps and repetitions by itself. KNOWN is set when
// all members have answered in the epoch. The epochs of a group's flow end as those of other
// flows do.
//
// At the source a request is done when all members have answered. Base is the lowest number that
// any member has not settled. A drop report settles the request for the members that lay ahead of
// the dropped copy. The source gives up a member without progress for 10 s alone: that member's
// open requests are unknown, and the group's numbers go on. If the source gives a group number to
// other ranges, the flow begins another epoch. A multicast read is a bad command.
package wire
