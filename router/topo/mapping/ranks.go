package mapping

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"ttfabric/router/topo/yamldoc"
)

// ranksKey is the key of a mapping of ranks to cluster descriptors (tt-metal, tt-run
// --mock-cluster-rank-binding).
const ranksKey = "rank_to_cluster_mock_cluster_desc"

// MaxRanks is the largest number of ranks in a mapping.
const MaxRanks = 4096

// IsRanks reports whether a file is a mapping of ranks to cluster descriptors.
func IsRanks(data []byte) bool {
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, ranksKey) {
			return true
		}
	}
	return false
}

// ReadRanks returns the paths of the cluster descriptors in a mapping of ranks to cluster descriptors, in the
// order of the ranks. The value of the key is a map of ranks to paths, or a list of {rank, filename}.
func ReadRanks(data []byte) ([]string, error) {
	root, _, err := yamldoc.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("not YAML: %w", err)
	}
	byRank := map[int]string{}
	add := func(rank, file *yaml.Node) error {
		n, err := strconv.ParseUint(rank.Value, 10, 31)
		if err != nil || file.Kind != yaml.ScalarNode || file.Value == "" {
			return fmt.Errorf("line %d: want a rank and the path of a cluster descriptor", rank.Line)
		}
		if _, dup := byRank[int(n)]; dup || len(byRank) >= MaxRanks {
			return fmt.Errorf("line %d: rank %d: want each rank once, and at most %d ranks", rank.Line, n, MaxRanks)
		}
		byRank[int(n)] = file.Value
		return nil
	}
	value := child(root, ranksKey)
	switch {
	case value == nil:
		return nil, fmt.Errorf("the file has no key %s", ranksKey)
	case value.Kind == yaml.MappingNode:
		for i := 0; i+1 < len(value.Content); i += 2 {
			if err := add(value.Content[i], value.Content[i+1]); err != nil {
				return nil, err
			}
		}
	case value.Kind == yaml.SequenceNode:
		for _, n := range value.Content {
			rank, file := child(n, "rank"), child(n, "filename")
			if rank == nil || file == nil {
				return nil, fmt.Errorf("line %d: want rank and filename", n.Line)
			}
			if err := add(rank, file); err != nil {
				return nil, err
			}
		}
	}
	if len(byRank) == 0 {
		return nil, fmt.Errorf("line %d: %s names no cluster descriptor", value.Line, ranksKey)
	}
	var ranks []int
	for r := range byRank {
		ranks = append(ranks, r)
	}
	slices.Sort(ranks)
	var paths []string
	for _, r := range ranks {
		paths = append(paths, byRank[r])
	}
	return paths, nil
}

// child returns the value of a key of a YAML map, or nil.
func child(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// Candidates returns the possible paths of a file that a mapping of ranks names, the most likely path first. A
// mapping names its files relative to the root of tt-metal. So the file may be at this path. The file may also be
// below one of the folders above the mapping, perhaps without the first parts of the path.
func Candidates(mapping, name string) []string {
	list := []string{name}
	if path.IsAbs(name) {
		return list
	}
	parts := strings.Split(path.Clean(name), "/")
	for i := range parts {
		rest := path.Join(parts[i:]...)
		for dir := path.Dir(path.Clean(mapping)); ; dir = path.Dir(dir) {
			list = append(list, path.Join(dir, rest))
			if dir == "/" || dir == "." {
				break
			}
		}
	}
	return list
}
