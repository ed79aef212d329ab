// Package reliable is a model of the Reliable Router of Dally, Dennison, Harris, Kan and
// Xanthopoulos, "Architecture and Implementation of the Reliable Router" (RR), flit by flit.
//
// The model has the parts of the chip, and each part names its section of the paper:
//
//   - [Flit], [Head] and [Slot] are the formats of RR §2.1, Tables 1 and 2, bit by bit.
//   - package nexthop decides the next hop of a packet (RR §4), and checks the rule under a fault.
//   - [Bank] is one virtual channel of an input controller: the flit queue, the route state
//     machine of RR Figure 6, and the Unique Token Protocol (RR §5).
//   - [Router] is one chip: six input controllers, the crossbar allocator and six output
//     controllers (RR §2.3).
//   - line and wave are a physical channel between two free-running clocks (RR §2.2, §6).
//   - [Network] runs the routers of a mesh, each with its own clock, and injects faults.
//   - [Load] is an experiment under load, with its latency and its accepted rate. [Numbers] measures
//     the figures that the paper gives.
//
// Everything that crosses from chip to chip is encoded in frames of 23 bits and a parity bit.
// The package has no clock and no global randomness. A run repeats from its seed.
//
// The paper leaves some points open. README.md lists what this model chose there, and why.
package reliable
