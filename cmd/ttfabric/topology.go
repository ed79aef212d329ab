package main

import (
	"os"
	"strings"

	"ttfabric/router/topo"
)

// loadTopology reads a file if there is one of that name, else a built-in.
func loadTopology(arg string) (*topo.Topology, error) {
	if arg == "" {
		arg = "t3000"
	}
	if fi, err := os.Stat(arg); err == nil && fi.IsDir() && strings.ContainsAny(arg, "/.") {
		return nil, coded(exitTopology, "%s is a folder: want a file", arg)
	} else if err == nil && !fi.IsDir() {
		b, err := os.ReadFile(arg)
		if err != nil {
			return nil, coded(exitTopology, "%w", err)
		}
		t, err := topo.Load(arg, b)
		if err == nil {
			err = checkDeclared(arg, t)
		}
		if err != nil {
			return nil, err
		}
		return t, nil
	}
	t, err := topo.Named(arg)
	if err != nil {
		if strings.ContainsAny(arg, "/.") {
			return nil, coded(exitTopology, "%s: no such file", arg)
		}
		return nil, coded(exitTopology, "%w", err)
	}
	return t, nil
}

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
