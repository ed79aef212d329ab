// # Flows
//
// A flow is what one chip sends another on one plane, with OTHER or without, or to
// one group of chips on one plane; see below for groups. Those with OTHER are a flow of
// their own even where both go one way. Requests and probes are
// numbered in it from 0 by flow seq, and travel in order. Flow base is the
// lowest number whose fate the source doesn't know. Flow epoch names one life
// of the flow, of which a later one is greater (wrapping): the first one is the
// time of the source's start in milliseconds, or whatever grows faster than
// lives end, and the next ones count on from it. At most
// 4096 requests are open. Ids count up from the incarnation, so that the reply
// to a read of a former life meets no read of this one.
//
// The destination keeps next, the number that it expects, and at most 64
// exceptions.
//
//   - An unknown flow, or a newer epoch, begins with this packet. If seq is
//     beyond base (by less than 8192), the numbers from base to seq are
//     excepted as restarted. next becomes seq. An older epoch is dropped, and a
//     completion is owed, of the newer one. So a source that was started by a clock
//     set back learns of it, and begins the life after that epoch.
//   - Exceptions that lie wholly before base are forgotten. If base is beyond
//     next, next becomes base.
//   - A seq before next was answered already: it is not performed, and a
//     completion is owed.
//   - An unknown flow or newer epoch that begins with a packet with KNOWN is
//     void here: the destination has answered in it in a former life. Numbers
//     between next and seq are excepted as restarted, seq as flow unknown, and
//     nothing of that epoch is ever performed. Where exceptions are too many,
//     all are excepted as restarted, in one. next becomes seq + 1.
//   - With 62 exceptions or more the packet is not performed: it is excepted as
//     too many exceptions, in one that goes on with the next packet. From the
//     first gap on, the gap, the packet and all that follow are excepted as lost,
//     again in one; so they are from the first packet on where there are 63
//     exceptions and the last is not of too many. next becomes seq + 1.
//   - A seq beyond next: the numbers between are excepted as lost.
//   - Otherwise the request is performed in the flow's order, and excepted if
//     it could not be; next becomes seq + 1. A probe does nothing.
//   - A completion is owed for each; one that waits covers later requests too.
//     It repeats all exceptions that are kept.
//
// Completions are cumulative: the newest makes the older superfluous. The
// source refuses one of another epoch or with next beyond what it sent. All
// open requests before next are done but for the exceptions; a read is done
// when its reply has come, which the source finds by id. A source that hears
// nothing for 250 ms sends a probe behind its requests (and then at doubling
// intervals): the completion of the probe tells what was lost. A drop report
// settles its request as lost; of a probe, it leaves all open requests before
// it unknown. After 10 s without progress all open ones are unknown, and the
// flow begins a new life at 0.
//
// A source sets KNOWN once it has had a completion of the flow's present epoch.
// A request that was sent with KNOWN and is excepted as lost will never be
// performed, since a next life of the destination would refuse it. One that was
// sent without may come late to a next life and begin the flow there: the source
// takes it for unknown. So it does with all that is lost in that epoch from then
// on, and from when it hears of 6 or 9, or takes a request without KNOWN for
// unknown for another reason. It then sends no new requests, and begins a new
// life of the flow at 0 when nothing is open. It also begins one before the
// first request after 100 ms in which nothing was open, so that a destination
// that restarted meanwhile has nothing to refuse.
//
// A group is the chips that one source multicasts to by the same ranges on one
// plane. The source numbers its groups from 1 to at most 256, and a member drops
// others. To a member a group is a flow of its own, by source, plane and group, and
// all of the above holds for it; a completion names the group in its packet.
// Sequence numbers are the group's, so that each member sees gaps and repetitions
// by itself. KNOWN is set when all members have answered in the epoch, and the
// lives of a group's flow end as those of other flows do. At the source a request is done
// when all members have answered, and base is the lowest number that any member
// has not settled. A drop report settles the request for the members that the
// copy had before it. A member without progress for 10 s is given up alone: its
// open requests are unknown, and the group's numbers go on. Where a number is
// given to other ranges, the flow begins another life. A multicast read is a bad
// command.
package wire
