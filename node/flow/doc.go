// Package flow is the end-to-end protocol of requests. At the source, the package finds out how
// each request of a chip ended. At the destination, the package decides which requests the chip
// performs.
//
// A flow is the sequence of requests from one chip to another chip on one plane. Requests with the
// field Other of [Request] and requests without it form two separate flows. The packets of a flow
// take one route, through sender and receiver channels that keep packets in order. Therefore the
// destination sees a gap as soon as a later packet arrives.
//
// A destination answers with completions in the control virtual channel. Completions
// are cumulative. A completion says: "the requests from m to n-1 are settled; the
// listed requests did not end as done". One completion covers many requests. If more
// requests did not end as done than fit one completion, the destination sends several
// completions. If a flow stalls, its source sends a probe behind the requests. Since
// the packets of a flow keep their order, a request that has not arrived before the
// probe is lost.
//
// The data of reads travels in replies, in a virtual channel of its own. A read stays
// open until its data comes. A performed read whose data is late holds up no later
// request. Replies of a flow keep their order on one route. After new tables, a reply
// may overtake an earlier reply that is late by more than [ProbeAfter]. Then the source takes the
// late data for lost, and ignores this data when it comes.
//
// A multicast belongs to the flow of its group. The members of the group are all chips
// that the multicast's ranges reach from the source, or a set of chips of one mesh.
// Each member sends its own completions. A unicast flow works as a group with one
// member, with the same kind of window, epochs and timers. Unicast flows and groups
// differ in three points, because the members of a group answer independently:
//
//   - A unicast flow resets its count of probes at the next completion. A group resets
//     its count of probes when every member answers again.
//   - In a unicast flow, a drop report counts as an answer (for [FlowIdle]), even for a
//     request that is already settled. The data of a read also counts as an answer. In
//     a group, only a completion counts as an answer.
//   - The source gives up a member that no longer answers: all requests that are open at the member
//     end as FateUnknown. A flow with one member then begins another epoch. A larger group
//     continues with its other members. The group's epoch ends if the source sent one of these
//     requests before every member had answered in the epoch.
//
// # Posted requests
//
// A request with the field Posted of [Request] ends as FatePosted as soon as the chip has
// sent it. The destination sends no completion for a posted request, and the program gets no other
// result. The sender may rely on this:
//
//   - The destination performs a posted request at most once. On an intact route, the
//     destination performs the request, after all earlier requests of the flow.
//   - If a router drops a posted request, the router counts the drop and reports it to the
//     source. If the destination refuses a posted request or misses it, the completion of a
//     later request says so. The source counts the fates of posted requests among those of
//     all others (see [Ends]).
//   - A probe of the program is a barrier. When the probe has ended as FateDone, each earlier
//     posted request of the flow is settled.
//   - A flush is a probe with the field Flush. If the flush ended as FateDone, the field Missed of
//     its [Result] says how many posted requests before it did not end as FateDone. Each request
//     counts in one flush. All programs of the chip share these counts.
//   - A flow keeps at most MaxOutstanding open requests, also if they are posted. While the
//     destination does not answer, the flow keeps at most [MaxUnanswered]. Of MaxUnanswered/2
//     posted requests in a row, the last asks for a completion. A posted request therefore rarely
//     waits for room, and the flow's memory stays limited.
//
// The package holds two machines. A [Source] numbers the requests of this chip, sends
// them through a [Network], and turns the answers into a [Result] for each request. A
// [Sink] takes the requests of other chips and owes completions. Both machines are pure:
// they get time and packets as arguments. The two machines know nothing of links, routers
// and topology. Package chip connects the two machines with links, router and topology.
//
// # Guarantees
//
// The sender of a request that is not posted has these guarantees, for a multicast at each
// member:
//
//   - FateDone means that the destination performed the request. A request of unknown
//     outcome ends as FateUnknown, never as FateDone. Package session reports
//     FateUnknown as OutcomeUnknownError.
//   - A request that ended as lost or refused is never performed, however late the
//     request's packet arrives. Later incarnations of the destination also never
//     perform this request.
//   - Once a chip has performed a request of the source's present incarnation, the chip
//     performs no request that a former incarnation sent in the same flow.
//   - If the destination gets a later packet of the flow, or answers a probe, a request that did
//     not come ends as FateLost, also if the request was the first of its flow. The request ends as
//     FateUnknown only if the destination has restarted, and the source may have sent the request
//     before the restart. For this guarantee, the source must learn the lives of the other chips
//     from gossip (see [Source.HandleLives]). A multicast has the guarantee at the members that
//     answer when its group begins an epoch.
//   - Every request ends. If a flow makes no progress for [FlowTimeout], 2 minutes, all open
//     requests of the flow end as FateUnknown. If the destination is unreachable, the requests end
//     as soon as the reports of dropped packets have come. While the destination is silent,
//     the requests wait.
//   - A read whose data was lost ends as soon as the source knows of the loss. If a router drops
//     the data, the read ends with the drop report. If data is overdue by [ProbeAfter], the flow
//     repeats the read as a probe. Replies of a flow keep their order. The read therefore ends when
//     the reply to the probe comes first. While any cable is silent, and for [Patience] after new
//     tables, the data may merely be late, and the flow waits. If a cable on the replies' route is
//     out of service, the flow does not wait. A read whose data was lost ends as FateUnknown for
//     [DoubtData]: the destination performed the read. If the destination has restarted, its
//     completion ends the read for [DoubtRestarted]. If no route leads to the destination any more,
//     the read ends for [DoubtUnreachable]. Package session repeats a read that ended for
//     DoubtData.
//   - If no route leads to the destination of a new request, the request ends at once. Its
//     error then matches session.ErrUnreachable. If only silent cables lead to the
//     destination, the request waits: the destination is perhaps only late.
//
// The guarantees above rest on guarantees of the lower layers:
//
//   - In a session, a link delivers each packet in order, exactly once. This guarantee holds under
//     loss, duplicates, reordering, corruption and cuts. If a path is lost and works again, the
//     link resumes its session. A retrain neither loses nor duplicates a packet. A session ends if
//     the peer restarts, or if the path's MTU shrinks below the length of the frames under way. The
//     link then reports how many packets were under way. A link measures the largest frame length
//     that its path carries, and reports this length. The link also finds this length if IP routers
//     silently drop longer frames (package ttlink).
//   - Without a router.Timeout, no router drops a packet for lack of room. At each hop,
//     a packet waits for a credit. While the next hop of a packet is silent, the packet waits.
//     When the port to the next hop is out of service, the packet waits in its channel for
//     a grace period. The grace period is four times
//     DeadTraffic of the link profile: 240 ms with the profile "lan", 1 s with "crowded",
//     4 s with "paced". Then the router drops and counts the packet. The chip reports the
//     drop of a request or probe to the packet's source (package router).
//   - If a link's cable fails, the link continues over a parallel cable, keeps its session and
//     loses nothing. If no cable between two chips works for the time Hold of the link profile, all
//     chips plan tables around the fault. Without evidence that the cable or a chip has failed, the
//     cable counts as silent for up to 20 s (package router/control). While the cable is silent,
//     packets and probes wait for the old route. On the new route, packets and probes would
//     overtake the packets that the silent link holds. If the old route leads through other meshes,
//     a flow waits while any cable of these meshes is silent: a late entry node may have sent
//     packets over this cable. If all these cables work, a probe waits for [Patience]. Each chip
//     plans its tables from the same flooded link states, without a leader. Within a mesh, routes
//     that do not cross the fault stay the same. Routes that cross the fault become detours in
//     virtual channels of their own. Therefore packets of old and of new tables together close no
//     cycle of waiting packets. The tests of package router/route prove this for many faults.
//     Packets of old tables that could close a cycle are parked: they hold no receiver channel.
//     Chips reroute the packets that wait at the fault, except multicasts and packets to other
//     meshes. A link that is out of service discards its unacknowledged packets, and reports their
//     number. The chip tells the sources of these packets. Each source then asks its destination
//     within [ProbeAfter].
//   - Every packet is accounted for. A packet was delivered, was dropped for a stated
//     reason, is under way, or has an unknown fate because a chip died. A chip may also
//     refuse a packet after its router delivered the packet; the chip then states a
//     reason. 'ttfabric inspect --losses --assert' fails on any packet that is not
//     accounted for (package node/losses).
//   - Gossip neither brings a link up nor takes one down. While a port hears its peer, the port
//     keeps the peer's address, even if gossip reports another address.
package flow
