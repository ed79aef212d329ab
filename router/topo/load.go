package topo

import (
	"path/filepath"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Load reads a machine from data, the content of the file at path: a cluster
// descriptor of tt-umd, a mesh graph descriptor of tt-metal in either form, or
// what [Topology.Encode] wrote; the content says which. Path is used in
// messages and for the name, and not opened. The error is an [*Error] that
// names the line and the way out; it wraps [ErrNoLayout] where that is the
// reason.
//
// A cluster descriptor is read as tt-umd reads it (docs/yaml_schemas/
// cluster_descriptor.yaml, and device/cluster_descriptor.cpp where the two
// differ). Keys that are unknown are passed over, as newer releases add some;
// so are those of mesh graph descriptors. Only transport and auth, which are
// keys of the rendered form, are refused there.
func Load(path string, data []byte) (*Topology, error) {
	f := file{path}
	if len(data) > MaxFile {
		return nil, f.fail(nil, "%d bytes; a topology has at most %d", len(data), MaxFile)
	}
	if protoGraph.Match(data) || strings.HasSuffix(path, ".textproto") {
		return loadMGD(f, filepath.Base(path), data)
	}
	root, err := f.parse(data)
	if err != nil {
		return nil, err
	}
	if isNull(root) {
		return nil, f.fail(nil, "the file is empty")
	}
	if root.Kind != yaml.MappingNode {
		return nil, f.fail(root, "not a cluster descriptor: want keys such as arch, chips and ethernet_connections")
	}
	top, err := f.pairs(root, "file", "a map")
	if err != nil {
		return nil, err
	}
	keys := make(map[string]pair, len(top))
	for _, p := range top {
		keys[p.key.Value] = p
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
		return loadYAMLGraph(f, filepath.Base(path), root, keys)
	}
	d := &descriptor{file: f, keys: keys, root: root}
	return d.load(filepath.Base(path))
}

// protoGraph recognises a mesh graph descriptor in textual protobuf.
var protoGraph = regexp.MustCompile(`(?m)^[ \t]*(mesh_descriptors|graph_descriptors|top_level_instance)[ \t]*:?\s*[{<[]`)
