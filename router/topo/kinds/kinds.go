// Package kinds names files of Tenstorrent's software that are not topologies.
package kinds

import (
	"fmt"
	"slices"
	"strings"
)

// files lists files of Tenstorrent's software that are not topologies, with the keys or
// fields at the top of such a file. A file is of the first kind whose keys the file has.
var files = []struct {
	keys []string
	is   string
}{
	{[]string{"grid", "functional_workers"}, "a soc descriptor, which lists the tiles of one chip"},
	{[]string{"rank_bindings"}, "a file of rank bindings, which names a mesh graph descriptor and the meshes of each rank"},
	{[]string{"subcontext_id_to_rank_bindings"}, "a mapping of subcontexts to files of rank bindings"},
	{[]string{"rank_to_cluster_mock_cluster_desc"}, "a mapping of ranks to cluster descriptors; load the cluster descriptors one at a time"},
	{[]string{"asic_to_fabric_node_mapping"}, "a mapping of a machine's chips to the chips of a mesh graph descriptor"},
	{[]string{"Tests"}, "a list of tests of tt-metal"},
	{[]string{"tests"}, "a list of tests of tt-metal"},
	{[]string{"physical_mesh"}, "a list of tests of tt-metal"},
	{[]string{"title", "properties"}, "a schema of files, not such a file"},
	{[]string{"local_eth_connections"}, "a physical system descriptor, which lists the cables of several hosts"},
	{[]string{"asic_descriptors"}, "a physical system descriptor, which lists the cables of several hosts"},
	{[]string{"graph_templates"}, "a cabling descriptor, which lists the cables between boards"},
	{[]string{"hosts", "board_types"}, "a factory system descriptor, which lists the boards and cables of several hosts"},
	{[]string{"hosts"}, "a deployment descriptor, which lists the places of hosts"},
	{[]string{"groupings"}, "a descriptor of physical groupings, which lists the trays of hosts"},
	{[]string{"training_config"}, "a configuration of a training run"},
	{[]string{"device_config"}, "a configuration of a training run"},
	{[]string{"multihost_config"}, "a configuration of a training run"},
	{[]string{"unharvested"}, "a core descriptor, which lists the uses of a chip's cores"},
	{[]string{"nebula_x1"}, "a core descriptor, which lists the uses of a chip's cores"},
}

// wantTopology names the kinds of files that topo.Load reads.
const wantTopology = "want a cluster descriptor (keys arch, chips and ethernet_connections), a mesh graph descriptor (key ChipSpec, or field mesh_descriptors), or a file that 'ttfabric generate' wrote"

// Limits of an error about a strange file.
const (
	maxKeys  = 5  // largest number of keys that the error names
	maxShown = 40 // largest length of a shown key, in bytes
)

// Strange returns the reason why a file with the given keys is not a topology. The list has the
// keys or the names of the fields at the top of the file, in the order of the file.
func Strange(keys []string) string {
	for _, k := range files {
		if !slices.ContainsFunc(k.keys, func(key string) bool { return !slices.Contains(keys, key) }) {
			return fmt.Sprintf("this is %s: %s", k.is, wantTopology)
		}
	}
	if len(keys) == 0 {
		return "the file has no keys: " + wantTopology
	}
	var have []string
	for _, k := range keys {
		if len(k) > maxShown {
			k = strings.ToValidUTF8(k[:maxShown], "") + "…"
		}
		if !slices.Contains(have, k) {
			have = append(have, k)
		}
		if len(have) > maxKeys {
			have[maxKeys] = "…"
			break
		}
	}
	return fmt.Sprintf("no topology has the keys of this file (%s): %s", strings.Join(have, ", "), wantTopology)
}
