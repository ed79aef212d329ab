// Package scenario reads files of timed faults and assertions, and judges runs of such files. The
// package is pure: a [Run] tells its driver what to do, is told what the driver sees, and takes the
// time as an argument. The simulator (node/sim) drives a Run in virtual time. `ttfabric scenario
// run` drives one on live processes (node/scenario/live).
//
// # Format
//
// A file is YAML with one document, which is a map. Unknown keys are errors, and so is everything
// else that this page does not describe. Times have a unit, such as 500ms and 2s.
//
//	scenario: 1                      # the version of this format
//	description: A cable fails, and the one beside it takes over.
//	topology: t3000                  # a built-in, a generator, or a file, which may lie beside this one
//	traffic:
//	  pattern: neighbour-exchange
//	  load: 300
//	timeline:
//	- name: cut
//	  at: 1s
//	  link: {down: 'random of plane:0', for: 2s}
//	- at: 2s
//	  every: 500ms
//	  times: 4
//	  jitter: 100ms
//	  netem: {set: all, delay: 2ms, loss: 1%, for: 200ms}
//	duration: 6s
//	assertions:
//	- always: duplicated == 0
//	- eventually: links_up != all
//	  within: 1s
//	  after: cut
//	- finally: delivered == all
//
// The keys of the file:
//
//	scenario      1
//	description   purpose of the scenario; `scenario list` shows the first sentence
//	topology      machine; t3000 if left out
//	slots, profile, order, ring, engine, ttl, stuck, stuck_after, local_first
//	              how the fabric is started, as the flags of `ttfabric up`; stuck is
//	              one word: notify,drop; local_first is true or false. With order or ring
//	              none, deadlocks are possible
//	seed          of all random choices; if left out, each run draws a seed and prints it
//	duration      of timeline and traffic; if left out, until a second after the last action
//	traffic       what the chips send to each other during the run; none if left out
//	timeline      list of steps
//	assertions    list of assertions, at least one
//
// Of traffic:
//
//	pattern       as `ttfabric traffic` has them; all-to-all if left out
//	load          packets per second that arrive at each source, until the duration is over; 200 if left out
//	packets       instead of load: number of packets in all, sent as fast as the window allows
//	size          bytes of a packet; 256 if left out
//	window, planes, hot, hot_share
//	              as the flags of `ttfabric traffic`
//
// A step of the timeline has times, perhaps a name for assertions, and one action:
//
//	at            time since the begin, when all links are up and the traffic begins
//	name          for assertions
//	every         interval of repetitions from at on, with one of:
//	times         how often
//	for           how long
//	jitter        each repetition is earlier or later by up to this much
//
//	link:         {down: LINKS, for: TIME}, {up: LINKS}
//	netem:        {set: LINKS, delay: 1ms, …, direction: a-to-b, seed: 1, for: TIME}, {reset: LINKS}
//	chip:         {kill: CHIPS, for: TIME}, {start: CHIPS}, {restart: CHIPS}, {pause: CHIPS, for: TIME}, {resume: CHIPS}
//	partition:    {chips: CHIPS, from: CHIPS, for: TIME}; without from, from all others
//	heal:         all
//	gossip:       {chips: CHIPS, delay: TIME, loss: 30%, down: true, for: TIME}; live only
//	clock:        {chips: CHIPS, jump: TIME}: the chips' monotonic clocks jump ahead by TIME; simulator only
//
// With "for" within an action, the action is undone after that time: a killed chip starts, a paused
// chip resumes. A flapping cable is a step with "every" and a link down with "for". The impairments
// of netem are those of `ttfabric netem set`.
//
// LINKS are written as for `ttfabric link`: M0D0:8, M0D0-M0D1, M0D0-M0D1/p1, M0D3, 'M0D*-M1D*',
// plane:1, all, or a list of these with commas. CHIPS are M0D0,M0D4 or 'M0D[0-3]'. Either may be a
// choice instead:
//
//	random                one of all, drawn anew for each repetition
//	random 2 of plane:0   two of these
//	next                  each in turn, if the step is repeated
//	next of M0D[0-3]      each of these in turn
//
// A choice takes only chips to which the action can be applied: a running chip to be killed, a
// killed chip to be started.
//
// # Assertions
//
// An assertion is one of
//
//	always: METRIC OP VALUE       holds at each sample, and at the end; may have after and until
//	eventually: METRIC OP VALUE   holds at one sample, within a time after a moment; else before the end
//	finally: METRIC OP VALUE      holds at the end, when no packet is under way any more
//
//	within                        how long eventually may take
//	after, until                  a time of the timeline, or a step's name: the last time that the step is due
//
// OP is one of == != < <= > >=. The metrics:
//
//	sent, delivered, completed, failed
//	                  packets that left; that came; that their sources know to be performed; that their
//	                  sources know to be lost or refused. "delivered == all" means all sent packets
//	lost              packets that ended and did not come
//	unexplained       of the lost packets: those whose source was not told
//	duplicated, corrupted, reordered, misdirected, overflowed
//	                  as `ttfabric traffic` counts them
//	latency_p50, latency_p99
//	                  from a packet's arrival at its source to its completion there
//	links_up          cables whose links are up at both ends, by the own cable or a fallback path; or all
//	recovery_packets  longest time from a fault until every pair of chips delivers again
//	recovery_links    longest time from a fault until all links are up
//	dropped           packets dropped by routers; dropped(TTL expired): those dropped for one reason
//	events(link down) events by type and action, as `ttfabric events` prints them; events(link): all of a type;
//	                  events(link down: silence) and events(packet dropped: TTL expired): those of a reason
//	members           number of chips that a chip sees alive, the smallest of all chips; or all; live only
//
// recovery_packets(NAME) and recovery_links(NAME) are those of one step. The step may also be the
// end of a fault. A pair or link that has not recovered counts with the time so far, and at the end
// as "not at all". Live times are as exact as the interval of the samples, 100 ms, and twice that
// for packets. In the simulator they are exact to 10 ms.
//
// Packets from and to a killed chip may fail. Nobody knows whether they are lost, since only the
// dead chip knew. After a chip was started, the traffic pauses until all packets under way have
// ended. The traffic then continues with that chip, which knows nothing about earlier packets.
//
// The report lists as skipped what a driver cannot do: an action of gossip in the simulator, and an
// assertion on the simulator's members.
package scenario
