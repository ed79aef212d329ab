package topo

import (
	"path/filepath"
	"slices"

	"go.yaml.in/yaml/v3"

	"ttfabric/router/topo/kinds"
)

// Load reads a topology from data, the content of the file at path. Load does not open the file.
// The format is a cluster descriptor of tt-umd, a mesh graph descriptor of tt-metal (YAML or
// textual protobuf), or the format that [Topology.Encode] writes. Load recognises the format by the
// content, and textual protobuf also by the ending .textproto of path. Load names the topology of a
// descriptor after the file. A file that Encode wrote has the name of its topology in it. The error
// is an [*Error], with the line if the line is known. If the cables fit no grid, the error wraps
// [ErrNoLayout].
//
// Load reads a cluster descriptor as tt-umd does (docs/yaml_schemas/cluster_descriptor.yaml;
// device/cluster_descriptor.cpp is right if the two differ). Load ignores unknown keys in cluster
// descriptors and mesh graph descriptors, because newer releases add keys. However, Load refuses
// the keys "transport" and "auth" in YAML descriptors, because only the format that
// [Topology.Encode] writes has these keys.
func Load(path string, data []byte) (*Topology, error) {
	f := file{path}
	if len(data) > MaxFile {
		return nil, f.fail(nil, "%d bytes; a topology has at most %d", len(data), MaxFile)
	}
	if isProtoGraph(path, data) {
		return loadMGD(f, filepath.Base(path), data)
	}
	root, top, keys, err := f.open(data)
	if err != nil {
		return nil, err
	}
	if _, ours := keys[renderedKey]; ours {
		return loadRendered(f, top)
	}
	if err := f.refuseSecured(keys); err != nil {
		return nil, err
	}
	_, spec := keys["ChipSpec"]
	_, arch := keys["arch"]
	if spec && !arch {
		g, err := readYAMLGraph(f, root, keys)
		if err != nil {
			return nil, err
		}
		return g.build(filepath.Base(path))
	}
	d, err := newDescriptor(f, root, top, keys)
	if err != nil {
		return nil, err
	}
	return d.load(filepath.Base(path))
}

// open parses a file in YAML. The results are the root of the document, and its keys with their values, in
// the order of the file and by key.
func (f file) open(data []byte) (root *yaml.Node, top []pair, keys map[string]pair, err error) {
	if root, err = f.parse(data); err != nil {
		return nil, nil, nil, err
	}
	if isNull(root) {
		return nil, nil, nil, f.fail(nil, "the file is empty")
	}
	if root.Kind != yaml.MappingNode {
		return nil, nil, nil, f.fail(root, "not a cluster descriptor: want keys such as arch, chips and ethernet_connections")
	}
	if top, err = f.pairs(root, "file", "a map"); err != nil {
		return nil, nil, nil, err
	}
	keys = make(map[string]pair, len(top))
	for _, p := range top {
		keys[p.key.Value] = p
	}
	return root, top, keys, nil
}

// newDescriptor returns a reader of a cluster descriptor. If the file has no key of a cluster
// descriptor, newDescriptor returns an error.
func newDescriptor(f file, root *yaml.Node, top []pair, keys map[string]pair) (*descriptor, error) {
	if !slices.ContainsFunc(clusterKeys, func(k string) bool { _, ok := keys[k]; return ok }) {
		var names []string
		for _, p := range top {
			names = append(names, p.key.Value)
		}
		return nil, f.fail(root, "%s", kinds.Strange(names))
	}
	return &descriptor{file: f, keys: keys, root: root}, nil
}

// clusterKeys are the keys of which a cluster descriptor has at least one.
var clusterKeys = []string{"arch", "chips", "ethernet_connections", "chips_with_mmio", "harvesting"}

// protoGraph matches the content of a mesh graph descriptor in textual protobuf.
const protoGraph = `(?m)^[ \t]*(mesh_descriptors|graph_descriptors|top_level_instance)[ \t]*:?\s*[{<[]`
