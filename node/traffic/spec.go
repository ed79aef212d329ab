package traffic

import (
	"fmt"

	"ttfabric/wire"
)

// Limits of a run.
const (
	MinSize       = headerLen       // bytes of a packet: its header
	MaxSize       = wire.MaxPayload // bytes
	MaxPackets    = 1 << 40         // of one run
	MaxWindow     = 1024            // packets outstanding per source
	DefaultWindow = 32              // packets outstanding per source
	MaxPairs      = 1 << 18         // of one run: four times those of all-to-all on a full mesh of 256 chips
)

// Spec is one run; all chips of it get the same.
type Spec struct {
	Run     uint64 `json:"run"`     // names the run; random
	Pattern string `json:"pattern"` // for reports
	Packets uint64 `json:"packets"` // in all, split evenly over the pairs, what is left over to the first ones; 1 to MaxPackets
	Size    int    `json:"size"`    // bytes of each, MinSize to MaxSize
	Planes  int    `json:"planes"`  // packets of a pair take these planes in turn; 1 to wire.MaxChannels
	Window  int    `json:"window"`  // packets outstanding per source, 1 to MaxWindow; DefaultWindow is a good one
	Seed    uint64 `json:"seed"`    // of the order in which sources take their destinations
}

// Validate names the first value that is out of range.
func (s *Spec) Validate() error {
	switch {
	case s.Packets < 1 || s.Packets > MaxPackets:
		return fmt.Errorf("%d packets: want 1 to %d", s.Packets, uint64(MaxPackets))
	case s.Size < MinSize || s.Size > MaxSize:
		return fmt.Errorf("packets of %d bytes: want %d to %d", s.Size, MinSize, MaxSize)
	case s.Planes < 1 || s.Planes > wire.MaxChannels:
		return fmt.Errorf("%d planes: want 1 to %d", s.Planes, wire.MaxChannels)
	case s.Window < 1 || s.Window > MaxWindow:
		return fmt.Errorf("a window of %d packets: want 1 to %d", s.Window, MaxWindow)
	}
	return nil
}

// must panics unless the spec is valid: whoever takes one from outside validates it there.
func (s *Spec) must() {
	if err := s.Validate(); err != nil {
		panic(fmt.Sprintf("traffic: spec was not validated: %v", err))
	}
}

// share is the number of packets of pair i of n.
func (s *Spec) share(i, n int) uint64 {
	k := s.Packets / uint64(n)
	if uint64(i) < s.Packets%uint64(n) {
		k++
	}
	return k
}

// ofPlane is how many of a pair's packets take a plane.
func (s *Spec) ofPlane(target uint64, p wire.Plane) uint64 {
	n := uint64(s.Planes)
	return (target + n - 1 - uint64(p)) / n
}

// CheckPairs says what makes pairs unfit for a run, naming the first such
// pair: an address out of range, a chip that sends to itself, a pair that
// comes twice, more than [MaxPairs] pairs, or more than [MaxSources] sources
// of one destination. Those of a [Pattern] are fit, unless they are none.
// Unfit pairs do no other harm than wrong counts.
func CheckPairs(pairs []Pair) error {
	if len(pairs) == 0 || len(pairs) > MaxPairs {
		return fmt.Errorf("%d pairs: want 1 to %d", len(pairs), MaxPairs)
	}
	seen := make(map[Pair]struct{}, len(pairs))
	sources := map[wire.FabricNodeID]int{}
	for _, p := range pairs {
		if !p.Src.Valid() || !p.Dst.Valid() {
			return fmt.Errorf("pair %s to %s: want meshes below %d and chips below %d", p.Src, p.Dst, wire.MaxMeshes, wire.MaxChipsPerMesh)
		}
		if p.Src == p.Dst {
			return fmt.Errorf("pair %s to %s: a chip is no destination of its own", p.Src, p.Dst)
		}
		if _, twice := seen[p]; twice {
			return fmt.Errorf("pair %s to %s: it comes twice", p.Src, p.Dst)
		}
		seen[p] = struct{}{}
		if sources[p.Dst]++; sources[p.Dst] > MaxSources {
			return fmt.Errorf("chip %s: it has more than %d sources", p.Dst, MaxSources)
		}
	}
	return nil
}
