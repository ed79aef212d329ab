package guide

import (
	"fmt"
	"slices"

	"ttfabric/node/kernel"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// Limits of a ring, our own choices.
const (
	MaxSamples = 4096     // measured trips
	MaxSize    = 64 << 10 // bytes of the payload
	MaxHops    = 64       // hops of a ring

	MaxPayloads = kernel.NumChannels - 1 // payloads in flight at once; each has a channel, and channel 0 is for the handshake
)

// Settings say how a ring runs.
type Settings struct {
	Samples  int  // measured trips, 1 to [MaxSamples]
	Size     int  // bytes of each payload, a multiple of 16, at most [MaxSize]
	Payloads int  // payloads in flight at once (the guide's max_concurrent_samples), at most [MaxPayloads]; less than 1 stands for 1
	Strict   bool // see [kernel.Job].Strict
}

// Hop is one cable of a ring (the guide's hop_eth_sockets): the sender's port, and the receiver's
// port.
type Hop struct{ From, To wire.PortID }

// Ring is a ring of chips, with the programs of its chips.
type Ring struct {
	Hops    []Hop
	Parts   map[wire.FabricNodeID]kernel.Job // part of the job for each chip
	Master  wire.FabricNodeID                // chip on which the ring begins
	Results wire.NocAddr                     // on the master: times of the trips, 4 bytes each, in nanoseconds
	Buffer  wire.NocAddr                     // on the master: the payloads, one after the other
	Arrive  []wire.NocAddr                   // address of the payloads on the receiving chip of each hop, one payload after the other
	Samples int
}

// Order returns the chips of a ring with n hops. For 2, 4, 8 and 12 hops of a T3000, the order is
// the guide's where the cabling allows. In tt-umd's numbering, some neighbours in the guide's
// literal lists for 4, 8 and 12 hops have no cable between them ("Identifying Correct Chip Order").
// So Order finds the chips by the cabling: a cycle of n steps in which each step has a cable of its
// own. The cycle begins at the earliest chip of the topology that has such a cycle.
func Order(t *topo.Topology, n int) ([]wire.FabricNodeID, error) {
	if n < 2 || n > MaxHops {
		return nil, fmt.Errorf("a ring of %d hops: want 2 to %d", n, MaxHops)
	}
	s := search{t: t, n: n, used: map[wire.PortID]bool{}, visits: map[wire.FabricNodeID]int{}, steps: maxSteps}
	for _, c := range t.Chips {
		if path := s.from(c.Node); path != nil {
			return path, nil
		}
	}
	return nil, fmt.Errorf("machine %s has no ring of %d hops: each hop needs a cable of its own that the dispatcher does not reserve", t, n)
}

// maxSteps limits the search for a ring.
const maxSteps = 1 << 20

// search looks for a ring by depth-first search.
type search struct {
	t      *topo.Topology
	n      int
	used   map[wire.PortID]bool
	visits map[wire.FabricNodeID]int
	path   []wire.FabricNodeID
	steps  int
}

func (s *search) from(start wire.FabricNodeID) []wire.FabricNodeID {
	s.path, s.visits = append(s.path[:0], start), map[wire.FabricNodeID]int{start: 1}
	clear(s.used)
	if s.extend() {
		return slices.Clone(s.path)
	}
	return nil
}

// extend adds chips to the path until the path is a ring. extend first tries the chips with the
// fewest visits.
func (s *search) extend() bool {
	if s.steps--; s.steps < 0 {
		return false
	}
	at, start := s.path[len(s.path)-1], s.path[0]
	if len(s.path) == s.n {
		_, ok := free(s.t, at, start, s.used)
		return ok
	}
	most := (s.n + len(s.t.Chips) - 1) / len(s.t.Chips) // visits of one chip
	next := neighbours(s.t, at)
	slices.SortStableFunc(next, func(a, b wire.FabricNodeID) int { return s.visits[a] - s.visits[b] })
	for _, to := range next {
		h, ok := free(s.t, at, to, s.used)
		if !ok || s.visits[to] >= most {
			continue
		}
		s.used[h.From], s.used[h.To] = true, true
		s.visits[to]++
		s.path = append(s.path, to)
		if s.extend() {
			return true
		}
		s.path = s.path[:len(s.path)-1]
		s.visits[to]--
		delete(s.used, h.From)
		delete(s.used, h.To)
	}
	return false
}

func neighbours(t *topo.Topology, at wire.FabricNodeID) (all []wire.FabricNodeID) {
	for _, ch := range kernel.ActiveEthernetCores(t, at, true) {
		if p, ok := kernel.ConnectedEthernetCore(t, at, ch); ok && !slices.Contains(all, p.Node) {
			all = append(all, p.Node)
		}
	}
	return all
}

// free returns the first unreserved cable between two chips that no hop uses ("Any revisit of this edge must
// use a different connection").
func free(t *topo.Topology, from, to wire.FabricNodeID, used map[wire.PortID]bool) (Hop, bool) {
	for _, ch := range kernel.ActiveEthernetCores(t, from, true) {
		local := wire.PortID{Node: from, Channel: ch}
		if p, ok := kernel.ConnectedEthernetCore(t, from, ch); ok && p.Node == to && !used[local] {
			return Hop{local, p}, true
		}
	}
	return Hop{}, false
}

// hops chooses the cables of a ring (the guide's build_eth_sockets_list).
func hops(t *topo.Topology, chips []wire.FabricNodeID) ([]Hop, error) {
	var all []Hop
	used := map[wire.PortID]bool{}
	for i, from := range chips {
		to := chips[(i+1)%len(chips)]
		h, ok := free(t, from, to, used)
		if !ok {
			return nil, fmt.Errorf("hop %d of the ring: no free cable leads from chip %s to chip %s", i, from, to)
		}
		used[h.From], used[h.To] = true, true
		all = append(all, h)
	}
	return all, nil
}

// New makes the programs of a ring through the given chips, the last of which is cabled to the first. All
// parts of the job have the number id.
func New(t *topo.Topology, id kernel.JobID, chips []wire.FabricNodeID, s Settings) (*Ring, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	hs, err := hops(t, chips)
	if err != nil {
		return nil, err
	}
	r := &Ring{Hops: hs, Parts: map[wire.FabricNodeID]kernel.Job{}, Master: chips[0], Samples: s.Samples, Arrive: make([]wire.NocAddr, len(hs))}
	for _, n := range chips {
		if _, ok := r.Parts[n]; ok {
			continue
		}
		b := kernel.NewBuilder(t)
		r.part(t.Arch, n, b, s)
		p, err := b.Build()
		if err != nil {
			return nil, fmt.Errorf("chip %s: %w", n, err)
		}
		r.Parts[n] = kernel.Job{ID: id, Name: fmt.Sprintf("ring of %d hops", len(chips)), Strict: s.Strict, Programs: []kernel.Program{p}}
	}
	for n, j := range r.Parts {
		for m := range r.Parts {
			j.Chips = append(j.Chips, m)
		}
		slices.SortFunc(j.Chips, wire.FabricNodeID.Compare)
		for _, h := range hs {
			for _, p := range []wire.PortID{h.From, h.To} {
				if p.Node == n {
					j.Channels = append(j.Channels, p.Channel)
				}
			}
		}
		slices.Sort(j.Channels)
		r.Parts[n] = j
	}
	return r, nil
}

// part makes the program of one chip: a receiver and a sender for each visit of the ring, and one setup
// worker.
func (r *Ring) part(a wire.Arch, n wire.FabricNodeID, b *kernel.Builder, s Settings) {
	worker := b.Tensix(0)
	ready := b.CreateSemaphore(worker, 0)
	setup := []uint32{0}
	for i, out := range r.Hops {
		if out.From.Node != n {
			continue
		}
		in := (i + len(r.Hops) - 1) % len(r.Hops)
		from, _ := kernel.EthernetTile(a, r.Hops[in].To.Channel)
		to, _ := kernel.EthernetTile(a, out.From.Channel)
		args := visit(b, from, to, worker, ready, i == 0, s)
		r.Arrive[in] = from.Addr(uint64(args[argBuffer]))
		if i == 0 {
			r.Results, r.Buffer = from.Addr(uint64(args[argResults])), r.Arrive[in]
		}
		setup[0]++
		setup = append(setup, uint32(from.X), uint32(from.Y), args[argStart])
	}
	b.CreateKernel("ring-setup", worker, append(setup, ready)...)
}

// visit adds the receiver and the sender of one visit, and returns the sender's arguments. No other kernel
// of the chip uses the two tiles, so the two buffers have the same address.
func visit(b *kernel.Builder, from, to, worker kernel.Tile, ready uint32, master bool, s Settings) []uint32 {
	args := make([]uint32, numArgs)
	all := uint32(s.Payloads)
	args[argSamples], args[argSize], args[argPayloads], args[argReady] = uint32(s.Samples), uint32(s.Size), all, ready
	args[argSetupX], args[argSetupY] = uint32(worker.X), uint32(worker.Y)
	args[argBuffer] = b.CreateBuffer(from, all*uint32(s.Size))
	b.CreateBuffer(to, all*uint32(s.Size))
	args[argAck] = b.CreateBuffer(from, all*flit)
	args[argStart] = b.CreateSemaphore(from, 0)
	for range all {
		args = append(args, b.CreateSemaphore(to, 0))
	}
	if master {
		args[argMaster], args[argResults] = 1, b.CreateBuffer(from, uint32(4*s.Samples))
	}
	args[argX], args[argY] = uint32(to.X), uint32(to.Y)
	b.CreateKernel("ring-receiver", from, args...)
	args[argX], args[argY] = uint32(from.X), uint32(from.Y)
	b.CreateKernel("ring-sender", to, args...)
	return args
}
