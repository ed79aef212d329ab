package folder

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"

	"ttfabric/node/fabric/spec"
	"ttfabric/router/topo"
)

// DefaultTopology is the topology of a new fabric if the user names no topology.
const DefaultTopology = "t3000"

// LoadTopology returns the topology that arg names. If a file has the name arg,
// LoadTopology reads the file. Otherwise arg is the name of a built-in topology, or of a
// generator such as ring:4. An empty arg means [DefaultTopology]. A name such as torus:4x4@mesh or
// FILE@planes=1 stands for a fabric that does not use all cables, see [topo.Topology.Downshift]. A name such as
// GRAPH@map=CLUSTER stands for a mesh graph descriptor on the chips of a machine, see [Map]. An error has kind
// [spec.Topology], or is a [*topo.Error] if the file has a mistake.
func LoadTopology(ctx context.Context, arg string) (*topo.Topology, error) {
	if arg == "" {
		arg = DefaultTopology
	}
	if file, words, shifted := topo.SplitShift(arg); shifted {
		if _, err := os.Stat(arg); err != nil { // no file has the whole name
			if strings.HasPrefix(words, MapWord) {
				return mapped(ctx, file, words)
			}
			t, err := LoadTopology(ctx, file)
			if err != nil {
				return nil, err
			}
			if t, err = t.Downshift(words); err != nil {
				return nil, spec.Topologyf("%w", err)
			}
			return t, nil
		}
	}
	if fi, err := os.Stat(arg); err == nil && fi.IsDir() && strings.ContainsAny(arg, "/.") {
		return nil, spec.Topologyf("topology %s is a folder; want a file", arg)
	} else if err == nil && !fi.IsDir() {
		b, err := ReadFile(ctx, arg, topo.MaxFile)
		if err != nil {
			return nil, spec.Topologyf("%w", err)
		}
		t, err := topo.Load(arg, b)
		if err == nil {
			err = spec.CheckDeclared(arg, t)
		}
		if err != nil {
			return nil, err
		}
		return t, nil
	}
	t, err := topo.Named(arg)
	if err != nil {
		switch _, there := os.Stat(arg); {
		case there == nil:
			return nil, spec.Topologyf("topology %s is a folder; want a file", arg)
		case !errors.Is(there, fs.ErrNotExist):
			return nil, spec.Topologyf("%w", there)
		case strings.ContainsAny(arg, "/."):
			return nil, spec.Topologyf("topology %s: no such file; want a file, or a name such as t3000", arg)
		}
		return nil, spec.Topologyf("%w", err)
	}
	return t, nil
}
