package traffic

import (
	"fmt"

	"ttfabric/wire"
)

// Limits of a run.
const (
	MinSize       = headerLen       // length of the smallest packet, which is only a header, in bytes
	MaxSize       = wire.MaxPayload // length of the largest packet, in bytes
	MaxPackets    = 1 << 40         // largest number of packets in one run
	MaxWays       = 2               // largest number of directions in which the packets of one pair go round a ring
	MaxWindow     = 1024            // largest window, in packets outstanding per source
	DefaultWindow = 32              // default window, in packets outstanding per source
	MaxPairs      = 1 << 18         // largest number of pairs in one run: about four times the number of pairs of all-to-all on a mesh of 256 chips
	MaxWeight     = 1 << 20         // largest weight of a pair: about twenty times the largest weight in the pattern hotspot on 512 chips
	MinLoad       = 1e-3            // smallest load, in packets per second and source
	MaxLoad       = 1e6             // largest load, in packets per second and source; more than a chip can send
	MaxQueue      = 1 << 16         // largest number of packets that wait at a source; the source discards further arrivals
)

// Spec describes one run. All chips of the run get the same Spec.
type Spec struct {
	Run     uint64 `json:"run"`            // random number that identifies the run
	Pattern string `json:"pattern"`        // name of the pattern, for reports
	Packets uint64 `json:"packets"`        // number of packets of the whole run, 1 to MaxPackets; split over the pairs by weight, with the remainder for the first pairs
	Size    int    `json:"size"`           // length of each packet in bytes, MinSize to MaxSize
	Planes  int    `json:"planes"`         // number of planes, 1 to wire.MaxChannels; a pair's packets use planes 0 to Planes-1 in turn, except planes that the pair lacks
	Ways    int    `json:"ways,omitempty"` // number of directions round a ring that a pair's packets use in turn: 1, or 2 if both directions are equally long; 0 counts as 1
	Window  int    `json:"window"`         // largest number of packets outstanding per source, 1 to MaxWindow; DefaultWindow is a good value if Load is 0
	Seed    uint64 `json:"seed"`           // seed of the order in which sources take their destinations, and of the arrivals

	// Draw makes sources draw the destination of each packet at random instead of taking
	// destinations in turn. The chance of a destination is proportional to the number of packets
	// that its pair has left. Each destination is therefore random, and yet both ends know how many
	// packets the pair has in total.
	Draw bool `json:"draw,omitempty"`

	// Load is the number of packets per second that arrive at each source, at random times (a
	// Poisson process). Arrived packets wait until the source can send them. At most MaxQueue
	// packets wait. With a load, latency is the time since the packet's arrival at its source. Load
	// is MinLoad to MaxLoad, or 0. If Load is 0, sources send as fast as Window allows.
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

// must panics if the spec is not valid. Code that gets a spec from outside the program must call
// Validate first.
func (s *Spec) must() {
	if err := s.Validate(); err != nil {
		panic(fmt.Sprintf("traffic: spec was not validated: %v", err))
	}
}

// shares returns the number of packets of each pair, in the order of the pairs.
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

// planes returns how many planes a pair's packets use in turn.
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

// The generator deals a pair's packets to streams. Each stream is a flow of the fabric, whose
// packets stay in order. The first streams belong to the usual direction round rings, one stream
// for each plane. The streams of the other direction follow, again one for each plane.

// streams returns how many streams a pair has.
func (s *Spec) streams(p *Pair) int { return s.planes(p) * s.ways(p) }

// stream returns the number of the stream for a plane and a direction. For a plane or direction
// that the pair does not have, stream returns -1.
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

// CheckPairs returns an error that names the first pair that is unfit for a run. A pair is unfit
// if an address is out of range, if a chip sends to itself, or if the pair occurs twice. A pair is
// also unfit if its weight is above [MaxWeight], or its field Ways above [MaxWays]. The destination
// of a pair may have at most [MaxSources] sources. CheckPairs also returns an error if there are no
// pairs or more than [MaxPairs] pairs. A run with unfit pairs reports wrong
// numbers of packets, but does no other harm.
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
