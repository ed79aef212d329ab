// Package scenario reads files of timed faults and assertions, and judges runs of such files. The
// package is pure: a [Run] tells its driver what to do, takes from the driver what the driver sees,
// and takes the time as an argument. The simulator (node/sim) drives a Run in virtual time. The
// command `ttfabric scenario run` drives a Run on live processes (node/scenario/live).
//
// # Format
//
// A file is YAML with one document, which is a map. An unknown key is an error. Everything else
// that this page does not describe is an error too. Times have a unit, such as 500ms and 2s.
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
//	topology      the machine; without this key, t3000
//	slots, profile, order, ring, engine, ttl, stuck, stuck_after, local_first
//	              options of the fabric, as the flags of `ttfabric up`; stuck is one word:
//	              notify,drop; local_first is true or false. If order or ring is none,
//	              deadlocks are possible
//	seed          seed of all random choices; without this key, each run draws a seed and prints it
//	duration      length of timeline and traffic; without this key, until a second after the last action
//	traffic       packets that the chips send to each other during the run; without this key, no packets
//	timeline      list of steps
//	assertions    list of assertions, at least one
//
// The keys of traffic:
//
//	pattern       a pattern of `ttfabric traffic`; without this key, all-to-all
//	load          packets per second that arrive at each source, until the duration is over; without this key, 200
//	packets       instead of load: number of packets in total, sent as fast as the window allows
//	size          length of a packet in bytes; without this key, 256
//	window, planes, hot, hot_share
//	              options of the traffic, as the flags of `ttfabric traffic`
//
// A step of the timeline has times, one action, and optionally a name to which assertions refer:
//
//	at            time since the begin, when all links are up and the traffic begins
//	name          name to which assertions refer
//	every         interval between repetitions; the first is due at the time at. Needs one of:
//	times         how often the step is due
//	for           for how long the step is repeated
//	jitter        each repetition is earlier or later by up to this time
//
//	link:         {down: LINKS, for: TIME}, {up: LINKS}
//	netem:        {set: LINKS, delay: 1ms, …, direction: a-to-b, seed: 1, for: TIME}, {reset: LINKS}
//	chip:         {kill: CHIPS, for: TIME}, {start: CHIPS}, {restart: CHIPS}, {pause: CHIPS, for: TIME}, {resume: CHIPS}
//	partition:    {chips: CHIPS, from: CHIPS, for: TIME}; without the key from, the partition is from all other chips
//	heal:         all
//	gossip:       {chips: CHIPS, delay: TIME, loss: 30%, down: true, for: TIME}; live only
//	clock:        {chips: CHIPS, jump: TIME}: the chips' monotonic clocks jump ahead by TIME; simulator only
//
// If an action has the key "for", the run undoes the action after that time: a killed chip starts,
// and a paused chip resumes. To make a cable flap, write a step with "every" and a link down with
// "for". The impairments of netem are the impairments of `ttfabric netem set`.
//
// Write LINKS as for `ttfabric link`: M0D0:8, M0D0-M0D1, M0D0-M0D1/p1, M0D3, 'M0D*-M1D*', plane:1,
// all, or a list of these with commas. Write CHIPS as M0D0,M0D4 or 'M0D[0-3]'. In place of LINKS or
// CHIPS, a choice is allowed:
//
//	random                one of all links or chips, drawn anew for each repetition
//	random 2 of plane:0   two links of plane 0
//	next                  if the step is repeated, all links or chips in turn
//	next of M0D[0-3]      the chips M0D[0-3] in turn
//
// A choice takes only chips to which the action can be applied. Only a running chip can be killed,
// and only a killed chip can be started.
//
// # Assertions
//
// An assertion has one of these forms, perhaps with further keys:
//
//	always: METRIC OP VALUE       holds at each sample, and at the end; may have the keys after and until
//	eventually: METRIC OP VALUE   holds at one sample, within a time after a moment; without such a time, before the end
//	finally: METRIC OP VALUE      holds at the end, when no packet is under way any more
//
//	within                        longest time until the condition of eventually must hold
//	after, until                  a time of the timeline, or a step's name: the last time that the step is due
//
// OP is one of == != < <= > >=. The metrics:
//
//	sent, delivered, completed, failed
//	                  packets that sources sent; that destinations received; that their sources know to
//	                  be performed; that their sources know to be lost or refused.
//	                  "delivered == all" means all sent packets
//	lost              packets that ended and did not reach their destination
//	unexplained       lost packets whose source does not know that they are lost
//	duplicated, corrupted, reordered, misdirected, overflowed
//	                  packets of these kinds, as `ttfabric traffic` counts them
//	latency_p50, latency_p99
//	                  time from a packet's arrival at its source to its completion there
//	links_up          cables whose links are up at both ends, by the own cable or a fallback path; the value may be all
//	recovery_packets  longest time from a fault until every pair of chips delivers again
//	recovery_links    longest time from a fault until all links are up
//	dropped           packets dropped by routers; dropped(TTL expired): packets dropped for one reason
//	events(link down) events of a type and action, as `ttfabric events` prints them; events(link): all events
//	                  of a type; events(link down: silence) and events(packet dropped: TTL expired):
//	                  events with a reason
//	members           number of chips that a chip sees alive, the smallest number over all chips; the value
//	                  may be all; live only
//
// recovery_packets(NAME) and recovery_links(NAME) are the times of the step NAME alone. The step
// may also be the end of a fault. During the run, a pair or link that has not recovered counts with
// the time so far. At the end of the run, it counts as "not at all". Live times are as exact as the
// interval of the samples, 100 ms. For packets, live times are as exact as twice that interval. In
// the simulator, all times are exact to 10 ms.
//
// Packets from and to a killed chip may fail. Nobody knows whether these packets are lost, since
// only the dead chip knew. After a chip was started, the traffic pauses until all packets under way
// have ended. The traffic then continues with that chip, which knows nothing about earlier packets.
//
// If a driver cannot carry out an action or judge an assertion, the report lists it as skipped. The
// simulator skips actions of gossip and assertions on members.
package scenario
