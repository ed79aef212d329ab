package live

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/scenario"
	"ttfabric/router/topo"
)

// Load reads the scenario in the file arg. If there is no such file, Load returns the scenario of the
// program with the name arg.
func Load(ctx context.Context, arg string) (*scenario.Scenario, error) {
	b, err := folder.ReadFile(ctx, arg, scenario.MaxFile)
	if err != nil {
		source, ok := scenario.Source(arg)
		switch {
		case ok:
			arg, b = arg+".yaml", source
		case strings.ContainsAny(arg, "/.") || !errors.Is(err, os.ErrNotExist):
			return nil, spec.Usagef("scenario: %w", err)
		default:
			hint := "'ttfabric scenario list' lists the scenarios of the program"
			if near := scenario.Nearest(arg); near != "" {
				hint = fmt.Sprintf("did you mean %q?", near)
			}
			return nil, spec.Usagef("scenario %q: no file and no scenario of the program has this name; %s", arg, hint)
		}
	}
	s, err := scenario.Parse(arg, b)
	return s, spec.AsUsage(err)
}

// Topology returns the topology of a scenario. The parameter "flag" names the
// topology. If flag is empty, the scenario names the topology. If the scenario names none
// either, Topology returns the default topology. If the scenario names a file,
// Topology looks for the file first in the folder of the scenario's file.
func Topology(ctx context.Context, s *scenario.Scenario, flag string) (*topo.Topology, error) {
	arg := s.Fabric.Topology
	if beside := filepath.Join(filepath.Dir(s.File), arg); arg != "" && flag == "" {
		if fi, err := os.Stat(beside); err == nil && !fi.IsDir() {
			arg = beside
		}
	}
	if flag != "" {
		arg = flag
	}
	return folder.LoadTopology(ctx, arg)
}
