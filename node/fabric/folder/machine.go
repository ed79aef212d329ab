package folder

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"ttfabric/node/fabric/spec"
	"ttfabric/router/topo"
	"ttfabric/router/topo/mapping"
)

// rendered matches a file that 'ttfabric generate' wrote.
var rendered = regexp.MustCompile(`(?m)^ttfabric:`)

// MapWord follows the mark @ in the name of a topology whose chips are mapped on a machine, such as
// lab.textproto@map=cluster_desc.yaml. Plus signs separate the names of several files of the machine.
const MapWord = "map="

// mapped returns the topology that a name such as GRAPH@map=CLUSTER stands for.
func mapped(ctx context.Context, graph, machine string) (*topo.Topology, error) {
	m, err := Map(ctx, graph, strings.Split(strings.TrimPrefix(machine, MapWord), "+"), mapping.Options{})
	if err != nil {
		return nil, err
	}
	return m.Topology, nil
}

// Map puts the chips of the mesh graph descriptor in the file graph on the chips of a machine, see
// [LoadMachine]. An error has kind [spec.Topology], or is a [*topo.Error].
func Map(ctx context.Context, graph string, machine []string, o mapping.Options) (*mapping.Mapping, error) {
	b, err := ReadFile(ctx, graph, topo.MaxFile)
	if err != nil {
		return nil, spec.Topologyf("%w", err)
	}
	g, err := topo.LoadGraph(graph, b)
	if err != nil {
		return nil, err
	}
	m, err := LoadMachine(ctx, machine)
	if err != nil {
		return nil, err
	}
	o.Limit.Stop = func() bool { return ctx.Err() != nil }
	out, err := mapping.Map(filepath.Base(graph), g, m, o)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, spec.Topologyf("%s does not fit %s: %w", filepath.Base(graph), strings.Join(machine, " "), err)
	}
	return out, nil
}

// LoadMachine returns the machine that args name: cluster descriptors of the machine's hosts, mappings of ranks to
// cluster descriptors, files that 'ttfabric generate' wrote, and names of built-in topologies.
func LoadMachine(ctx context.Context, args []string) (*mapping.Machine, error) {
	var hosts []mapping.Host
	for _, arg := range args {
		hs, err := loadHosts(ctx, arg)
		if err != nil {
			return nil, err
		}
		hosts = append(hosts, hs...)
	}
	m, err := mapping.Join(hosts)
	if err != nil {
		return nil, spec.Topologyf("%s: %w", strings.Join(args, " "), err)
	}
	return m, nil
}

func loadHosts(ctx context.Context, arg string) ([]mapping.Host, error) {
	if fi, err := os.Stat(arg); err != nil || fi.IsDir() {
		t, err := LoadTopology(ctx, arg)
		if err != nil {
			return nil, err
		}
		return []mapping.Host{mapping.HostOf(t)}, nil
	}
	b, err := ReadFile(ctx, arg, topo.MaxFile)
	if err != nil {
		return nil, spec.Topologyf("%w", err)
	}
	if rendered.Match(b) {
		t, err := topo.Load(arg, b)
		if err != nil {
			return nil, err
		}
		return []mapping.Host{mapping.HostOf(t)}, nil
	}
	if !mapping.IsRanks(b) {
		c, err := topo.LoadCluster(arg, b)
		if err != nil {
			return nil, err
		}
		return []mapping.Host{{Name: filepath.Base(arg), Cluster: c}}, nil
	}
	names, err := mapping.ReadRanks(b)
	if err != nil {
		return nil, spec.Topologyf("%s: %w", arg, err)
	}
	abs, err := filepath.Abs(arg)
	if err != nil {
		return nil, spec.Topologyf("%s: %w", arg, err)
	}
	var hosts []mapping.Host
	for _, name := range names {
		found := ""
		for _, p := range mapping.Candidates(abs, name) {
			if fi, err := os.Stat(p); err == nil && fi.Mode().IsRegular() {
				found = p
				break
			}
		}
		if found == "" {
			return nil, spec.Topologyf("%s names the file %s: no such file, and no file with the end of this path is in a folder above %s", arg, name, arg)
		}
		b, err := ReadFile(ctx, found, topo.MaxFile)
		if err != nil {
			return nil, spec.Topologyf("%w", err)
		}
		c, err := topo.LoadCluster(found, b)
		if err != nil {
			return nil, err
		}
		hosts = append(hosts, mapping.Host{Name: filepath.Base(found), Cluster: c})
	}
	return hosts, nil
}
