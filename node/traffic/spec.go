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
	MaxWays       = 2               // round a ring
	MaxWindow     = 1024            // packets outstanding per source
	DefaultWindow = 32              // packets outstanding per source
	MaxPairs      = 1 << 18         // of one run: four times those of all-to-all on a full mesh of 256 chips
	MaxWeight     = 1 << 20         // of a pair: those of hotspot on 512 chips are a twentieth of it
	MinLoad       = 1e-3            // packets per second and source, where they arrive by themselves
	MaxLoad       = 1e6             // packets per second and source: no chip takes as many
	MaxQueue      = 1 << 16         // packets that wait at a source; those that arrive beyond it are not sent
)

// Spec is one run; all chips of it get the same.
type Spec struct {
	Run     uint64 `json:"run"`            // names the run; random
	Pattern string `json:"pattern"`        // for reports
	Packets uint64 `json:"packets"`        // in all, split over the pairs by weight, what is left over to the first ones; 1 to MaxPackets
	Size    int    `json:"size"`           // bytes of each, MinSize to MaxSize
	Planes  int    `json:"planes"`         // packets of a pair take these planes in turn, or those of them that the pair has; 1 to wire.MaxChannels
	Ways    int    `json:"ways,omitempty"` // packets of a pair with two ways round a ring take so many of them in turn, plane by plane: 1 or MaxWays; 0 counts as 1
	Window  int    `json:"window"`         // packets outstanding per source, 1 to MaxWindow; DefaultWindow is a good one without a load
	Seed    uint64 `json:"seed"`           // of the order in which sources take their destinations, and of arrivals

	// Draw makes sources draw the destination of each packet at random, in
	// proportion to what each is still to get, instead of taking them in turn.
	// So every packet's destination is as random as a free draw's, and yet both
	// ends know how many packets make the pair complete.
	Draw bool `json:"draw,omitempty"`

	// Load is how many packets per second arrive at each source, at random
	// times (a Poisson process), to wait there until they can be sent, MaxQueue
	// at most. Latency is then counted from the arrival. It is MinLoad to
	// MaxLoad, or 0: sources send as fast as Window allows.
	Load float64 `json:"load,omitempty"`
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
	case s.Ways < 0 || s.Ways > MaxWays:
		return fmt.Errorf("%d ways round rings: want 1 or %d", s.Ways, MaxWays)
	case s.Window < 1 || s.Window > MaxWindow:
		return fmt.Errorf("a window of %d packets: want 1 to %d", s.Window, MaxWindow)
	case s.Load != 0 && !(s.Load >= MinLoad && s.Load <= MaxLoad):
		return fmt.Errorf("a load of %v packets per second: want %v to %.0f, or 0 for as fast as the window allows", s.Load, MinLoad, float64(MaxLoad))
	}
	return nil
}

// must panics unless the spec is valid: whoever takes one from outside validates it there.
func (s *Spec) must() {
	if err := s.Validate(); err != nil {
		panic(fmt.Sprintf("traffic: spec was not validated: %v", err))
	}
}

// shares are the numbers of packets of the pairs.
func (s *Spec) shares(pairs []Pair) []uint64 {
	all, left := uint64(0), s.Packets
	for i := range pairs {
		all += pairs[i].weight()
	}
	out := make([]uint64, len(pairs))
	for i := range pairs {
		out[i] = s.Packets * pairs[i].weight() / all
		left -= out[i]
	}
	for i := 0; left > 0 && i < len(out); i++ {
		out[i]++
		left--
	}
	return out
}

// planes is how many planes a pair's packets take in turn.
func (s *Spec) planes(p *Pair) int {
	if p.Planes == 0 {
		return s.Planes
	}
	return min(s.Planes, int(p.Planes))
}

// ways is how many ways round rings a pair's packets take in turn.
func (s *Spec) ways(p *Pair) int {
	return min(max(s.Ways, 1), max(int(p.Ways), 1))
}

// A pair's packets are dealt out to streams, each of which is a flow of the
// fabric and keeps its order: by plane, and the planes' other ways behind them.

// streams is how many a pair has.
func (s *Spec) streams(p *Pair) int { return s.planes(p) * s.ways(p) }

// stream is the number of one of them; -1 for a plane or way that the pair does not have.
func (s *Spec) stream(p *Pair, plane wire.Plane, other bool) int {
	n := s.planes(p)
	switch {
	case int(plane) >= n || other && s.ways(p) == 1:
		return -1
	case other:
		return n + int(plane)
	}
	return int(plane)
}

// ofStream is how many of a pair's packets are dealt to one of its n streams.
func ofStream(target uint64, n, stream int) uint64 {
	return (target + uint64(n) - 1 - uint64(stream)) / uint64(n)
}

// CheckPairs says what makes pairs unfit for a run, naming the first such
// pair: an address out of range, a chip that sends to itself, a pair that
// comes twice, a weight above [MaxWeight], more than [MaxWays] ways, more than [MaxPairs] pairs, or more than [MaxSources] sources
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
		if p.Weight > MaxWeight {
			return fmt.Errorf("pair %s to %s: a weight of %d: want at most %d", p.Src, p.Dst, p.Weight, MaxWeight)
		}
		if p.Ways > MaxWays {
			return fmt.Errorf("pair %s to %s: %d ways: want at most %d", p.Src, p.Dst, p.Ways, MaxWays)
		}
		ends := Pair{Src: p.Src, Dst: p.Dst}
		if _, twice := seen[ends]; twice {
			return fmt.Errorf("pair %s to %s: it comes twice", p.Src, p.Dst)
		}
		seen[ends] = struct{}{}
		if sources[p.Dst]++; sources[p.Dst] > MaxSources {
			return fmt.Errorf("chip %s: it has more than %d sources", p.Dst, MaxSources)
		}
	}
	return nil
}
