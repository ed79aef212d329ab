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

// DefaultTopology is what commands that bring a fabric up take where none is named.
const DefaultTopology = "t3000"

// LoadTopology reads a file if there is one of that name, else a built-in; "" is [DefaultTopology].
func LoadTopology(ctx context.Context, arg string) (*topo.Topology, error) {
	if arg == "" {
		arg = DefaultTopology
	}
	if fi, err := os.Stat(arg); err == nil && fi.IsDir() && strings.ContainsAny(arg, "/.") {
		return nil, spec.Topologyf("%s is a folder: want a file", arg)
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
			return nil, spec.Topologyf("%s is a folder: want a file", arg)
		case !errors.Is(there, fs.ErrNotExist):
			return nil, spec.Topologyf("%w", there)
		case strings.ContainsAny(arg, "/."):
			return nil, spec.Topologyf("%s: no such file", arg)
		}
		return nil, spec.Topologyf("%w", err)
	}
	return t, nil
}
