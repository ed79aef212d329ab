package main

import (
	"slices"

	"ttfabric/node/admin"
	"ttfabric/wire"
)

// refuse names a flag that does nothing to a fabric that runs already.
func (f *upFlags) refuse(name string) error {
	if len(f.netem) > 0 {
		return coded(exitUsage, "--netem: fabric %q runs already; 'ttfabric netem set' impairs its cables", name)
	}
	if f.archive != (archiveFlags{}) {
		return coded(exitUsage, "--archive and --archive-limit: fabric %q runs already; 'ttfabric down' stops it", name)
	}
	if f.gossipKey != "" {
		return coded(exitUsage, "--gossip-key: fabric %q runs already; 'ttfabric gossip keys' changes the keys of one that is encrypted", name)
	}
	return f.record.refuse(name)
}

// ready reports whether a chip's links are all up, and its tables know of it.
// Cables that an operator took out of service are not waited for.
func ready(v admin.ChipView, all map[wire.FabricNodeID]admin.ChipView) bool {
	if v.LinksUp < len(v.Links) {
		return false
	}
	for _, w := range all {
		if slices.ContainsFunc(w.Links, func(l admin.LinkView) bool { return l.Avoided }) {
			return true
		}
	}
	return len(v.OutOfService) == 0
}
