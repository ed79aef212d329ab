package topo

import (
	"bytes"
	"path/filepath"

	"go.yaml.in/yaml/v3"
)

// Load reads a machine from data, the content of the file at path: either a
// tt-umd cluster descriptor or what [Topology.Encode] wrote; the content says
// which. Path is used in messages and for the name, and not opened. The error
// is an [*Error] that names the line and the way out; it wraps
// [ErrNoCoordinates] where that is the reason.
//
// A cluster descriptor is read as tt-umd reads it (docs/yaml_schemas/
// cluster_descriptor.yaml, and device/cluster_descriptor.cpp where the two
// differ). Keys that are unknown are passed over, as newer releases add some.
func Load(path string, data []byte) (*Topology, error) {
	f := file{path}
	if len(data) > MaxFile {
		return nil, f.fail(nil, "%d bytes; a topology has at most %d", len(data), MaxFile)
	}
	root, err := f.parse(data)
	if err != nil {
		if isGraphDescriptor(data, nil) {
			return nil, f.graphDescriptor()
		}
		return nil, err
	}
	if isNull(root) {
		return nil, f.fail(nil, "the file is empty")
	}
	if root.Kind != yaml.MappingNode {
		if isGraphDescriptor(data, nil) {
			return nil, f.graphDescriptor()
		}
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
	if isGraphDescriptor(nil, keys) {
		return nil, f.graphDescriptor()
	}
	d := &descriptor{file: f, keys: keys, root: root}
	return d.load(filepath.Base(path))
}

// isGraphDescriptor recognises tt-metal's mesh graph descriptors: the textual
// protobuf by its content, the older YAML by its keys.
func isGraphDescriptor(data []byte, keys map[string]pair) bool {
	_, spec := keys["ChipSpec"]
	_, arch := keys["arch"]
	return spec && !arch || bytes.Contains(data, []byte("mesh_descriptors"))
}

func (f file) graphDescriptor() error {
	return f.fail(nil, "this is a mesh graph descriptor, which is not supported; use a cluster descriptor of tt-umd, or a generator such as mesh:4x8")
}
