package traffic

import (
	"fmt"

	"ttfabric/wire"
)

// Limits of a run.
const (
	MinSize       = headerLen       // bytes of a packet: those of its header
	MaxSize       = wire.MaxPayload // bytes
	MaxPackets    = 1 << 40         // of one run
	MaxWays       = 2               // directions round a ring
	MaxWindow     = 1024            // packets outstanding per source
	DefaultWindow = 32              // packets outstanding per source
	MaxPairs      = 1 << 18         // of one run: four times as many as all-to-all on a full mesh of 256 chips
	MaxWeight     = 1 << 20         // of a pair: twenty times the weights of hotspot on 512 chips
	MinLoad       = 1e-3            // packets per second and source, with a load
	MaxLoad       = 1e6             // packets per second and source: no chip sends as many
	MaxQueue      = 1 << 16         // packets that may wait at a source; further arrivals are not sent
)

// Spec is one run. All its chips get the same Spec.
type Spec struct {
	Run     uint64 `json:"run"`            // names the run; random
	Pattern string `json:"pattern"`        // for reports
	Packets uint64 `json:"packets"`        // in all, split over the pairs by weight, the remainder to the first pairs; 1 to MaxPackets
	Size    int    `json:"size"`           // bytes of each packet, MinSize to MaxSize
	Planes  int    `json:"planes"`         // packets of a pair use these planes in turn, or those of them that the pair has; 1 to wire.MaxChannels
	Ways    int    `json:"ways,omitempty"` // packets of a pair with two directions round a ring use so many of them in turn, plane by plane: 1 or MaxWays; 0 counts as 1
	Window  int    `json:"window"`         // packets outstanding per source, 1 to MaxWindow; DefaultWindow is a good value without a load
	Seed    uint64 `json:"seed"`           // of the order in which sources take their destinations, and of arrivals

	// Draw makes sources draw the destination of each packet at random instead of taking
	// destinations in turn. The chance of a destination is proportional to the packets that it is
	// still to get. So each packet's destination is as random as in a free draw. Both ends still
	// know how many packets the pair has in all.
	Draw bool `json:"draw,omitempty"`

	// Load is how many packets per second arrive at each source, at random times (a Poisson
	// process). Arrived packets wait until they can be sent, MaxQueue at most. Latency is then
	// counted from the arrival. Load is MinLoad to MaxLoad, or 0: sources then send as fast as
	// Window allows.
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
		return fmt.Errorf("%d routes round rings for each pair: want 1 or %d", s.Ways, MaxWays)
	case s.Window < 1 || s.Window > MaxWindow:
		return fmt.Errorf("a window of %d packets: want 1 to %d", s.Window, MaxWindow)
	case s.Load != 0 && !(s.Load >= MinLoad && s.Load <= MaxLoad):
		return fmt.Errorf("a load of %v packets per second: want %v to %.0f, or 0 for as fast as the window allows", s.Load, MinLoad, float64(MaxLoad))
	}
	return nil
}

// must panics unless the spec is valid. Code that takes a spec from outside validates it there.
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

// ways is how many directions round rings a pair's packets use in turn.
func (s *Spec) ways(p *Pair) int {
	return min(max(s.Ways, 1), max(int(p.Ways), 1))
}

// A pair's packets are dealt to streams. Each stream is a flow of the fabric and keeps its order.
// Streams are numbered by plane. The streams of the other direction round rings follow after those
// of all planes.

// streams is how many streams a pair has.
func (s *Spec) streams(p *Pair) int { return s.planes(p) * s.ways(p) }

// stream is the number of a stream. stream is -1 for a plane or direction that the pair does not
// have.
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

// CheckPairs returns an error that names the first pair that is unfit for a run. Unfit are: an
// address out of range, a chip that sends to itself, a pair that occurs twice, a weight above
// [MaxWeight], more than [MaxWays] ways, more than [MaxPairs] pairs, and more than [MaxSources]
// sources of one destination. The pairs of a [Pattern] are fit, unless there are none. Unfit pairs
// cause wrong counts, and no other harm.
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
			return fmt.Errorf("pair %s to %s: a chip cannot send to itself", p.Src, p.Dst)
		}
		if p.Weight > MaxWeight {
			return fmt.Errorf("pair %s to %s: a weight of %d: want at most %d", p.Src, p.Dst, p.Weight, MaxWeight)
		}
		if p.Ways > MaxWays {
			return fmt.Errorf("pair %s to %s: %d routes round rings: want at most %d", p.Src, p.Dst, p.Ways, MaxWays)
		}
		ends := Pair{Src: p.Src, Dst: p.Dst}
		if _, twice := seen[ends]; twice {
			return fmt.Errorf("pair %s to %s is named twice; want distinct pairs", p.Src, p.Dst)
		}
		seen[ends] = struct{}{}
		if sources[p.Dst]++; sources[p.Dst] > MaxSources {
			return fmt.Errorf("chip %s is the destination of more than %d sources; want fewer pairs", p.Dst, MaxSources)
		}
	}
	return nil
}
