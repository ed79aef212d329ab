package traffic

import (
	"fmt"

	"ttfabric/wire"
)

// Limits of a run.
const (
	MinSize       = headerLen       // smallest packet: its header alone, in bytes
	MaxSize       = wire.MaxPayload // largest packet, in bytes
	MaxPackets    = 1 << 40         // largest number of packets in one run
	MaxWays       = 2               // largest number of directions round rings
	MaxWindow     = 1024            // packets outstanding per source
	DefaultWindow = 32              // packets outstanding per source
	MaxPairs      = 1 << 18         // largest number of pairs in one run: four times as many as all-to-all on a full mesh of 256 chips
	MaxWeight     = 1 << 20         // largest weight of a pair: twenty times the weights of hotspot on 512 chips
	MinLoad       = 1e-3            // smallest load, in packets per second and source
	MaxLoad       = 1e6             // largest load, in packets per second and source; no chip sends as many packets
	MaxQueue      = 1 << 16         // packets that may wait at a source; the source does not send further arrivals
)

// Spec describes one run. All chips of the run get the same Spec.
type Spec struct {
	Run     uint64 `json:"run"`            // identifies the run; random
	Pattern string `json:"pattern"`        // name of the pattern, for reports
	Packets uint64 `json:"packets"`        // packets of the whole run, split over the pairs by weight, the remainder to the first pairs; 1 to MaxPackets
	Size    int    `json:"size"`           // length of each packet in bytes, MinSize to MaxSize
	Planes  int    `json:"planes"`         // packets of a pair use these planes in turn, or the planes of these that the pair has; 1 to wire.MaxChannels
	Ways    int    `json:"ways,omitempty"` // packets of a pair with two directions round a ring use this number of directions in turn, plane by plane: 1 or MaxWays; 0 counts as 1
	Window  int    `json:"window"`         // packets outstanding per source, 1 to MaxWindow; DefaultWindow is a good value without a load
	Seed    uint64 `json:"seed"`           // seed of the order in which sources take their destinations, and of the arrivals

	// Draw makes sources draw the destination of each packet at random instead of taking
	// destinations in turn. The chance of a destination is proportional to the packets that the
	// destination is still to get. Each packet's destination is therefore as random as in a free
	// draw. Both ends still know how many packets the pair has in total.
	Draw bool `json:"draw,omitempty"`

	// Load is how many packets per second arrive at each source, at random times (a Poisson
	// process). Arrived packets wait until the source can send them; at most MaxQueue packets wait.
	// Latency then counts from the arrival. Load is MinLoad to MaxLoad, or 0. If Load is 0, sources
	// send as fast as Window allows.
	Load float64 `json:"load,omitempty"`
}

// Validate returns an error that names the first value that is out of range.
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

// must panics if the spec is not valid. Code that takes a spec from outside the program validates
// the spec first.
func (s *Spec) must() {
	if err := s.Validate(); err != nil {
		panic(fmt.Sprintf("traffic: spec was not validated: %v", err))
	}
}

// shares returns the number of packets of each pair.
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

// planes returns how many planes a pair's packets take in turn.
func (s *Spec) planes(p *Pair) int {
	if p.Planes == 0 {
		return s.Planes
	}
	return min(s.Planes, int(p.Planes))
}

// ways returns how many directions round rings a pair's packets use in turn.
func (s *Spec) ways(p *Pair) int {
	return min(max(s.Ways, 1), max(int(p.Ways), 1))
}

// The generator deals a pair's packets to streams. Each stream is a flow of the fabric and keeps
// its order. The first streams belong to the first direction round rings, one stream for each
// plane. The streams of the other direction follow, again one for each plane.

// streams returns how many streams a pair has.
func (s *Spec) streams(p *Pair) int { return s.planes(p) * s.ways(p) }

// stream returns the number of a stream. For a plane or direction that the pair does not have,
// stream returns -1.
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

// ofStream returns how many of a pair's packets the generator deals to one of the pair's n streams.
func ofStream(target uint64, n, stream int) uint64 {
	return (target + uint64(n) - 1 - uint64(stream)) / uint64(n)
}

// CheckPairs returns an error that names the first pair that is unfit for a run. A pair is unfit if
// an address is out of range, if a chip sends to itself, or if the pair occurs twice. A pair is
// also unfit if its weight is above [MaxWeight], if it has more than [MaxWays] ways, or if its
// destination has more than [MaxSources] sources. More than [MaxPairs] pairs are unfit too. The
// pairs of a [Pattern] are fit, unless the pattern has no pairs. Unfit pairs cause wrong counts,
// and no other harm.
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
