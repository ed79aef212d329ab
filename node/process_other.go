//go:build !linux

package node

const policyNormal, policyBatch = 0, 0

// setPolicy does nothing, because only Linux has these scheduling policies.
func setPolicy(from, to uint32) (changed bool) { return false }
