package spec

import (
	"strconv"
	"strings"
)

// Limits that several ways to start chips share.
const (
	MaxSeeds  = 64    // addresses of other chips that a chip, or 'attach', can be told
	SeedChips = 8     // chips of a fabric, by order, that others join the gossip pool through
	MinMTU    = 576   // bytes: the least that every IPv4 host takes (RFC 791)
	MaxMTU    = 65535 // bytes
)

// APIPort is the TCP port of a chip's API where each chip has an address of its own.
const APIPort = "8474"

// TopologyEnv is the environment variable that holds a topology file's text,
// for containers, which share no file.
const TopologyEnv = "TTFABRIC_TOPOLOGY_TEXT"

// Bytes reads an amount of memory as compose files write it: 268435456, 256m,
// 1gb. The amount is 0 for anything else.
func Bytes(s string) uint64 {
	s = strings.TrimSuffix(strings.ToLower(s), "b")
	shift := 0
	for i, unit := range []string{"k", "m", "g"} {
		if n, ok := strings.CutSuffix(s, unit); ok {
			s, shift = n, 10*(i+1)
			break
		}
	}
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil && shift == 0 {
		n, err = strconv.ParseUint(s, 10, 63)
	}
	if err != nil {
		return 0
	}
	return n << shift
}

// View is what a chip says of its fabric, at GET /v1/fabric, to a program that has no run folder.
type View struct {
	Mesh     Spec   `json:"mesh"`
	Topology string `json:"topology"` // rendered
}
