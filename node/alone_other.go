//go:build !linux

package node

// patient does nothing: the policy that it is about is Linux's.
func patient(bool) {}
