package spec

import (
	"strconv"
	"strings"
)

// Limits that hold for all chips, regardless of how the chips are started.
const (
	MaxSeeds  = 64    // largest number of addresses of other chips that the command 'node' or 'attach' accepts
	SeedChips = 8     // largest number of chips through which a chip joins the gossip pool
	MinMTU    = 576   // smallest MTU in bytes; every IPv4 host accepts packets of this length (RFC 791)
	MaxMTU    = 65535 // largest MTU in bytes
)

// APIPort is the TCP port of a chip's API if each chip has an address of its own.
const APIPort = "8474"

// TopologyEnv is the environment variable that may hold the text of a topology file.
// Containers get their topology from this variable, because containers share no file.
const TopologyEnv = "TTFABRIC_TOPOLOGY_TEXT"

// Bytes returns the number of bytes that a text such as 268435456, 256m or 1gb names. The
// notation is that of compose files. A number before a unit must be below 2³². Bytes
// returns 0 for any other text.
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

// View describes a fabric to a program that has no run folder. Each chip returns the View
// of its fabric at GET /v1/fabric.
type View struct {
	Mesh     Spec   `json:"mesh"`
	Topology string `json:"topology"` // text of a topology file
}
