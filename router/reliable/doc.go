// Package reliable is the Reliable Router at the granularity of packets. The source is "Architecture
// and Implementation of the Reliable Router" (RR) by Dally, Dennison, Harris, Kan and Xanthopoulos. A
// packet that a router has accepted survives the death of any one link or chip on its way. The source
// does not help, and the packet arrives exactly once.
//
//   - Package nexthop decides the next hop (RR §4), and proves the rule under every single failure.
//   - [Copy] is the Unique Token Protocol in one router, for one packet (RR §5.1).
//   - [Frame] is what neighbours send each other: packets, "copied", tokens and free places.
//   - [Router] is one router with its places, ports and endpoint.
//
// The chip of the paper forwards flits (wormhole routing). This router forwards whole packets, as the
// specification's router does: a place holds a packet. Package node/sim/reliable is the chip of the
// paper, flit by flit.
//
// The package is pure. Time and frames are arguments, and a run repeats from its seed.
package reliable
