// Package collective is the pure part of collective operations between the chips of a fabric: the
// arithmetic, the order of the chips, and the schedules. Package session/collective runs the
// schedules on a fabric.
//
//	p, err := collective.FindPath(t, chips)          // a ring, or else a line
//	s, err := collective.Plan(collective.Call{Kind: collective.AllReduce, Count: n}, p, planes)
//	err = s.Check()                                  // no step waits in a circle
//
// # Schedules
//
// A [Schedule] lists moves. A [Move] says which rank sends which elements to which rank, and what the
// receiver does with the elements. Each rank has an input and an output. The elements of a move come
// from the input, or from the output once another move has brought these elements to the output.
//
// Each move has a lane. The moves from one rank to another rank in one lane keep their order. Moves of
// different lanes do not wait for each other, unless a move names another move in SendAfter or
// TakeAfter. A lane belongs to one direction and one plane.
//
// # Orders of summation
//
// The order of summation of a schedule is fixed, so two runs with the same ranks give the same bits.
// A ring reduces part f of the data in the order of the CCL guide, "(Ring) Reduce Scatter": the first
// chip sends its own part. Each further chip adds its own part to what the chip has received, and
// sends the sum. The last chip is the owner of part f. A line adds from both ends towards the owner:
// the owner adds its own part to the sum from the lower ranks, and then adds the sum from the higher
// ranks. [Reference] computes the same bits without a fabric.
package collective
