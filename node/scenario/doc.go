// Package scenario reads files of timed faults and assertions, and judges runs
// of them. It is pure: a [Run] says what is to be done, is told what is seen,
// and takes the time as an argument. The simulator (node/sim) drives one in
// virtual time, and `ttfabric scenario run` one on live processes.
//
// # Format
//
// A file is YAML, with one document that is a map. Unknown keys are errors, and
// so is everything else that is not below. Times have their unit, as 500ms and 2s.
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
//	description   what it is about; the first sentence is what `scenario list` shows
//	topology      machine; t3000 if left out
//	slots, profile, order, ring, engine, ttl, stuck, stuck_after, local_first
//	              how the fabric is started; as the flags of `ttfabric up`, stuck in
//	              one word: notify,drop; local_first is true or false. Order or ring
//	              none allow a deadlock
//	seed          of all choices; without it each run draws one, and prints it
//	duration      of timeline and traffic; a second behind the last action if left out
//	traffic       what the chips send each other all the time; none if left out
//	timeline      list of steps
//	assertions    list of assertions, at least one
//
// Of traffic:
//
//	pattern       as `ttfabric traffic` has them; all-to-all if left out
//	load          packets per second that arrive at each source, until the duration is over; 200 if left out
//	packets       instead of load: so many in all, as fast as the window allows
//	size          bytes of a packet; 256 if left out
//	window, planes, hot, hot_share
//	              as the flags of `ttfabric traffic`
//
// A step of the timeline has times, perhaps a name for assertions, and one action:
//
//	at            since the begin, when all links are up and the traffic begins
//	name          for assertions
//	every         again and again from at on, with one of:
//	times         how often
//	for           how long
//	jitter        each time is earlier or later by up to this
//
//	link:         {down: LINKS, for: TIME}, {up: LINKS}
//	netem:        {set: LINKS, delay: 1ms, …, direction: a-to-b, seed: 1, for: TIME}, {reset: LINKS}
//	chip:         {kill: CHIPS, for: TIME}, {start: CHIPS}, {restart: CHIPS}, {pause: CHIPS, for: TIME}, {resume: CHIPS}
//	partition:    {chips: CHIPS, from: CHIPS, for: TIME}; without from, from all others
//	heal:         all
//	gossip:       {chips: CHIPS, delay: TIME, loss: 30%, down: true, for: TIME}; live only
//	clock:        {chips: CHIPS, jump: TIME}: the chips' monotonic clocks go on by that at once; simulator only
//
// With "for" within an action, what was done is taken back after that time: a
// killed chip starts, a paused one resumes. A flapping cable is a step with
// "every" and a link down with "for". The impairments of netem are those of `ttfabric netem set`.
//
// LINKS are written as for `ttfabric link`: M0D0:8, M0D0-M0D1, M0D0-M0D1/p1,
// M0D3, 'M0D*-M1D*', plane:1, all, or a list of them with commas. CHIPS are
// M0D0,M0D4 or 'M0D[0-3]'. Instead of either:
//
//	random                one of all, another each time
//	random 2 of plane:0   two out of these
//	next                  each in turn, where the step is repeated
//	next of M0D[0-3]      the same out of these
//
// A chip is chosen only where the action can be done to it: one that runs is
// killed, one that was killed is started.
//
// # Assertions
//
// An assertion is one of
//
//	always: METRIC OP VALUE       at each look at the fabric, and at the end; with after and until
//	eventually: METRIC OP VALUE   at one look, within a time after a moment; else before the end
//	finally: METRIC OP VALUE      at the end, when nothing is under way any more
//
//	within                        how long eventually may take
//	after, until                  a time of the timeline, or a step's name: the last time that it is due
//
// OP is one of == != < <= > >=. The metrics:
//
//	sent, delivered, completed, failed
//	                  packets that left, came, are known to their sources as performed, are known as lost or refused;
//	                  "delivered == all" is all that were sent
//	lost              packets that ended and did not come
//	unexplained       of these: those that no source was told of
//	duplicated, corrupted, reordered, misdirected, overflowed
//	                  as `ttfabric traffic` counts them
//	latency_p50, latency_p99
//	                  from a packet's arrival at its source to its completion there
//	links_up          cables that work at both ends, by their own cable or a fallback; or all
//	recovery_packets  longest time from a fault until every pair of chips delivers again
//	recovery_links    longest time from a fault until all links are up
//	dropped           packets given up by routers; dropped(TTL expired) those of one reason
//	events(link down) events by type and action, as `ttfabric events` prints them; events(link) all of a type,
//	                  events(link down: silence) and events(packet dropped: TTL expired) those of a reason
//	members           chips that the chip that sees the fewest sees alive; or all; live only
//
// recovery_packets(NAME) is that of one step, which may be the end of a fault,
// too. What has not recovered counts with the time so far, and at the end as
// "not at all". Live times are as exact as the looks at the fabric, 100 ms,
// and twice that for packets; in the simulator they are 10 ms.
//
// Packets from and to a chip that is killed are sent and may fail; whether they
// are lost nobody knows, as the chip was the only one who did. After a chip was
// started, the traffic pauses until what is under way has ended, and goes on
// with that chip: it knows nothing of what came before.
//
// What a driver cannot do is reported as skipped: an action of gossip in the
// simulator, and an assertion on its members.
package scenario
