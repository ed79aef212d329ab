// Package scenario parses scenario files, and judges runs of scenarios. A scenario file lists timed
// faults and assertions. The package itself has no clock, goroutine or socket. A driver carries out
// the actions of a [Run], and passes samples of the fabric and the time to the Run. There are two
// drivers. The simulator (node/sim) runs scenarios in virtual time. The package node/scenario/live
// runs scenarios on real chips, for `ttfabric scenario run`.
//
// # Format
//
// A scenario file is a YAML file with one document, which is a map. A key or value that this page
// does not describe is an error. Times have a unit, as in 500ms and 2s.
//
//	scenario: 1                      # the version of this format
//	description: A cable fails, and the parallel cable carries the packets.
//	topology: t3000                  # a built-in topology, a generator, or a file, also in this file's folder
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
//	topology      topology of the fabric; without this key, t3000
//	slots, profile, order, ring, engine, fabric, exits, ttl, strict_ttl, frame, stuck, stuck_after,
//	local_first   options of the fabric, as the flags of `ttfabric up`. The value of stuck has no
//	              blanks: notify,drop. The values of local_first and strict_ttl are true or false.
//	              If order or ring is none, deadlocks are possible. The value of profile is lan or
//	              crowded
//	seed          seed of all random choices; without this key, each run draws a seed and prints the seed
//	duration      length of the timeline and the traffic; without this key, until a second after the last action is over
//	traffic       packets that the chips send to each other during the run; without this key, no packets
//	timeline      list of steps
//	assertions    list of assertions, at least one
//
// The keys of traffic:
//
//	pattern       a pattern of `ttfabric traffic`; without this key, all-to-all
//	load          packets per second that each source is to send, until the duration is over; without this key, 200
//	packets       in place of load: number of packets of all sources, sent as fast as the window allows
//	size          length of a packet's payload in bytes; without this key, 256
//	window, planes, hot, hot_share
//	              options of the traffic, as the flags of `ttfabric traffic`
//
// A step of the timeline has a time and one action, and may be repeated:
//
//	at            time of the action, counted from the start of the traffic, when all links are up
//	name          name of the step, to which assertions refer; without this key, no name
//	every         time between two repetitions of the action; needs either times or for
//	times         number of repetitions, including the first
//	for           time during which the action is repeated, counted from the time that the key at gives
//	jitter        largest time by which a repetition is earlier or later than its time, drawn at random
//
//	link:         {down: LINKS, for: TIME}, {up: LINKS}, {reroute: LINKS, for: TIME}, {restore: LINKS}; reroute
//	              takes cables out of service, as `ttfabric reroute --force`, and restore puts them back
//	netem:        {set: LINKS, delay: 1ms, …, direction: a-to-b, seed: 1, for: TIME}, {reset: LINKS}
//	chip:         {kill: CHIPS, for: TIME}, {start: CHIPS}, {restart: CHIPS}, {pause: CHIPS, for: TIME}, {resume: CHIPS}
//	partition:    {chips: CHIPS, from: CHIPS, for: TIME}: the cables between the two sets of chips are cut;
//	              without the key from, the second set is all other chips
//	heal:         all
//	gossip:       {chips: CHIPS, delay: TIME, loss: 30%, down: true, for: TIME}; without the key chips, all
//	              chips; without delay, loss and down, all faults of the gossip end; live only
//	clock:        {chips: CHIPS, jump: TIME}: the monotonic clocks of the chips jump ahead by TIME; simulator only
//
// If an action has the key "for", the run undoes the action after the time that "for" gives. For
// example, a killed chip starts, and a paused chip resumes. To make a cable flap, write a step with
// "every" and a link down with "for". The impairments of netem are those of `ttfabric netem set`.
//
// LINKS has the form that `ttfabric link` accepts: M0D0:8, M0D0-M0D1, M0D0-M0D1/p1, M0D3,
// 'M0D*-M1D*', plane:1, all, or a list of these with commas. CHIPS has the form M0D0,M0D4 or
// 'M0D[0-3]'. LINKS and CHIPS may also be a choice:
//
//	random                one link or chip, drawn at random for each repetition of the step
//	random 2 of plane:0   two links of plane 0, drawn at random for each repetition of the step
//	next                  each repetition of the step uses the next link or chip of the topology
//	next of M0D[0-3]      each repetition of the step uses the next of the chips M0D[0-3]
//
// An action leaves out chips to which the action cannot apply. For example, only a running chip can
// be killed, and only a killed chip can be started.
//
// # Assertions
//
// An assertion has one of the first three keys, and may have some of the others:
//
//	always: METRIC OP VALUE       the condition must hold at each sample of the period, and at the end
//	                              of the run unless the period has ended before
//	eventually: METRIC OP VALUE   the condition must hold at one sample of the period at least
//	finally: METRIC OP VALUE      the condition must hold at the end, when no packet is under way any more
//	after                         start of the period of always or eventually; without this key, the start of the run
//	until                         end of the period of always; without this key, the end of the run
//	within                        length of the period of eventually; without this key, until the end of the run
//
// The value of after and until is a time, or the name of a step. The name of a step means the last
// time that the step is due. OP is one of == != < <= > >=. The metrics:
//
//	sent              packets that the sources sent
//	delivered         packets that destinations received; the value may be all, which means all sent packets
//	                  and is known only at the end of the traffic
//	completed         packets that the destination has confirmed as performed
//	failed            packets that were refused or lost, or whose outcome the source does not know
//	lost              packets that did not reach their destination; during the run, only packets that
//	                  have ended at the source
//	unexplained       lost packets that the source does not count as failed
//	duplicated, corrupted, reordered, misdirected, overflowed
//	                  packets of these kinds, as `ttfabric traffic` counts packets
//	latency_p50, latency_p99
//	                  median and 99th percentile of the time from a packet's arrival at its source to
//	                  its completion at its source
//	links_up          cables whose links are up at both ends, by the own cable or a fallback path; the value may be all
//	recovery_packets  longest time from a fault until every pair of chips delivers again
//	recovery_links    longest time from a fault until all links are up
//	dropped           packets that routers dropped; dropped(TTL expired): packets dropped for one reason
//	events(link down) events of a type and action, as `ttfabric events` prints events; events(link): all
//	                  events of a type; events(link down: silence) and events(packet dropped: TTL expired):
//	                  events with a reason
//	members           number of chips that a chip sees alive, the smallest number over all chips; the value
//	                  may be all; live only
//
// recovery_packets(NAME) and recovery_links(NAME) are the recovery times after the step NAME alone.
// The step may also be one that ends a fault. During the run, the recovery time of a pair or link
// that has not recovered is the time since the step. At the end of the run, this recovery time is
// infinite, and reports show "not at all". The live driver takes a sample every 100 ms. Live
// recovery times have an error of one such interval for links, and of two intervals for packets.
// Simulated recovery times have an error of 10 ms.
//
// Packets from and to a killed chip may fail. Nobody knows whether these packets are lost, because
// the killed chip has lost its counts. Therefore these packets never count as lost. After the start
// of a chip, the traffic pauses until all packets under way have ended, or for at most 15 s. The
// traffic then continues with the started chip, which does not know the earlier packets.
//
// If a driver cannot carry out an action or judge an assertion, the report lists the action or
// assertion as skipped. The simulator skips actions of gossip, and assertions on members and
// events(member).
package scenario
