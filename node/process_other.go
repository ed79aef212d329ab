//go:build !linux

package node

import "time"

const policyNormal, policyBatch = 0, 0

// setPolicy does nothing, because only Linux has these scheduling policies.
func setPolicy(from, to uint32) (changed bool) { return false }

var started = time.Now()

// processorTime returns the time since the start of the process, which the processor time does not
// exceed on one processor.
func processorTime() time.Duration { return time.Since(started) }
