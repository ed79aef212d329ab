package collective

import (
	"fmt"
	"slices"
)

// Kind is a collective operation.
type Kind uint8

// The operations. Count is the number of elements that the comment of [Call] names.
const (
	AllGather     Kind = iota // all ranks get the parts of all ranks, in the order of the ranks
	ReduceScatter             // rank r gets part r of the reduced data
	AllReduce                 // all ranks get the reduced data
	Reduce                    // the root gets the reduced data
	Broadcast                 // all ranks get the root's data
	Gather                    // the root gets the parts of all ranks, in the order of the ranks
	Scatter                   // rank r gets part r of the root's data
	AllToAll                  // rank r gets part r of each rank's data, in the order of the ranks
	SendReceive               // rank r gets the data of rank r-1, and rank 0 the data of the last rank
	Barrier                   // no rank returns before all ranks have come; no data
	numKinds
)

var kindNames = [numKinds]string{"all-gather", "reduce-scatter", "all-reduce", "reduce", "broadcast", "gather", "scatter", "all-to-all", "send-receive", "barrier"}

// String returns the name of the operation, such as "all-reduce".
func (k Kind) String() string {
	if k >= numKinds {
		return fmt.Sprintf("operation %d", uint8(k))
	}
	return kindNames[k]
}

// Kinds returns the names of all operations.
func Kinds() []string { return kindNames[:] }

// ParseKind returns the operation of a name.
func ParseKind(name string) (Kind, error) {
	if i := slices.Index(kindNames[:], name); i >= 0 {
		return Kind(i), nil
	}
	return 0, fmt.Errorf("%q is no collective operation: want one of %v", name, kindNames)
}

// Reduces reports whether the operation combines elements.
func (k Kind) Reduces() bool { return k == ReduceScatter || k == AllReduce || k == Reduce }

// Rooted reports whether the operation has a root.
func (k Kind) Rooted() bool { return k == Reduce || k == Broadcast || k == Gather || k == Scatter }

// Scheme says which way an operation takes.
type Scheme uint8

// The schemes.
const (
	Auto     Scheme = iota // Doubling or Direct for small data, and else the scheme with the most bandwidth: Halves on a ring, Both on a line
	Halves                 // ring: one half of each part goes round the ring in each direction (CCL guide, "Bidirectionality", first approach)
	Both                   // all-gather: the whole of each part goes in both directions, and meets half-way round the ring (second approach) or at the ends of a line
	Direct                 // each rank sends to each other rank over the fabric's routes
	Doubling               // all-gather and all-reduce of 2^k ranks: in step i, ranks whose numbers differ in bit i exchange all that they have; for other calls the same as Direct
	numSchemes
)

var schemeNames = [numSchemes]string{"auto", "halves", "both", "direct", "doubling"}

// String returns the name of the scheme.
func (s Scheme) String() string {
	if s >= numSchemes {
		return fmt.Sprintf("scheme %d", uint8(s))
	}
	return schemeNames[s]
}

// ParseScheme returns the scheme of a name.
func ParseScheme(name string) (Scheme, error) {
	if i := slices.Index(schemeNames[:], name); i >= 0 {
		return Scheme(i), nil
	}
	return 0, fmt.Errorf("%q is no scheme: want one of %v", name, schemeNames)
}

// Limits of a call.
const (
	MaxCount   = 1 << 31 // largest number of elements of a call
	MaxPlanes  = 4       // largest number of planes of a call
	SmallBytes = 16 << 10
)

// Call describes one operation.
//
// Count is the number of elements of one part for all-gather, reduce-scatter, gather, scatter and
// all-to-all. For all other operations Count is the number of elements of each rank's data.
type Call struct {
	Kind   Kind
	Count  int
	Type   Type
	Op     Op     // for operations that reduce
	Root   int    // for operations with a root
	Scheme Scheme // Auto: the schedule chooses
}

// InCount returns the number of elements of the input of a rank, of n ranks.
func (c *Call) InCount(rank, n int) int {
	switch c.Kind {
	case ReduceScatter, AllToAll:
		return n * c.Count
	case Scatter:
		if rank == c.Root {
			return n * c.Count
		}
		return 0
	case Broadcast:
		if rank != c.Root {
			return 0
		}
	case Barrier:
		return 0
	}
	return c.Count
}

// OutCount returns the number of elements of the output of a rank, of n ranks.
func (c *Call) OutCount(rank, n int) int {
	switch c.Kind {
	case AllGather, AllToAll:
		return n * c.Count
	case Gather:
		if rank == c.Root {
			return n * c.Count
		}
		return 0
	case Reduce:
		if rank != c.Root {
			return 0
		}
	case Barrier:
		return 0
	}
	return c.Count
}

// Take says what the receiver of a move does with the elements.
type Take uint8

// The values of Take. The sign ∘ is the operation of the call.
const (
	Store   Take = iota // work = received
	Combine             // work = received ∘ input: the receiver adds its own input
	Add                 // work = received ∘ work: the receiver adds what it has combined before
)

// Move is one transfer of elements from one rank to another rank. Offsets count elements.
type Move struct {
	From, To  int
	Lane      int // see [Schedule]
	Step      int // time step in a schedule in which each link carries one move at a time
	SrcOff    int // first element at the sender, in the input if Input is set, and else in the work
	DstOff    int // first element at the receiver, in the work; of [Combine], also in the input
	Len       int // number of elements; a move of a barrier has 0 elements
	Input     bool
	Take      Take
	SendAfter int // number of the move to From whose elements this move sends on; -1: none
	TakeAfter int // number of the move to To after which the receiver may take the elements; -1: none
}

// Schedule is an operation as data. The work of a rank is a buffer of Work elements. An operation
// first copies elements from the input to the work, as Copies says, and ends with the elements of the
// work from Result on as the output.
type Schedule struct {
	Call
	Ranks  int
	Lanes  int // lane d+2·p is direction d on plane p
	Scheme Scheme
	Work   []int  // number of elements of the work, by rank
	Result []int  // first element of the output in the work, by rank
	Copies []Copy // what each rank copies first, in order of the ranks
	Fold   bool   // at the end, each rank that has an output combines the Ranks parts of its work into part 0, in the order of the ranks
	Moves  []Move // the moves of a rank to another rank in one lane keep this order
}

// Copy is a transfer from the input to the work of a rank. Offsets count elements.
type Copy struct{ Rank, SrcOff, DstOff, Len int }

// part is a range of elements.
type part struct{ off, len int }

// split returns part i of n parts of a range. The first parts are longer by one if the range cannot
// be split evenly.
func (p part) split(i, n int) part {
	q, r := p.len/n, p.len%n
	return part{p.off + i*q + min(i, r), q + min(1, max(0, r-i))}
}

// Plan returns the schedule of a call on a path, with so many planes. Each plane carries an equal
// share of the data (num_links in the CCL guide). Plan returns an error for a value that is out of
// range.
func Plan(c Call, p *Path, planes int) (*Schedule, error) {
	n := len(p.Order)
	switch {
	case c.Kind >= numKinds || !c.Type.Valid() || !c.Op.Valid() || c.Scheme >= numSchemes:
		return nil, fmt.Errorf("%s of %s with %s by scheme %s: there is no such operation, type, reduction or scheme", c.Kind, c.Type, c.Op, c.Scheme)
	case c.Count < 0 || c.Count > MaxCount/max(n, 1):
		return nil, fmt.Errorf("%s of %d elements: want 0 to %d with %d ranks", c.Kind, c.Count, MaxCount/max(n, 1), n)
	case planes < 1 || planes > MaxPlanes:
		return nil, fmt.Errorf("%s over %d planes: want 1 to %d", c.Kind, planes, MaxPlanes)
	case c.Kind.Rooted() && (c.Root < 0 || c.Root >= n):
		return nil, fmt.Errorf("%s with root %d: want a rank, 0 to %d", c.Kind, c.Root, n-1)
	case c.Scheme == Halves && !p.Ring && n > 2:
		return nil, fmt.Errorf("%s: the scheme halves needs a ring, and the ranks form %s", c.Kind, p)
	}
	s := &Schedule{Call: c, Ranks: n, Lanes: 2 * planes, Scheme: c.Scheme, Work: make([]int, n), Result: make([]int, n)}
	if s.Scheme == Auto {
		s.Scheme = s.choose(p)
	}
	if s.Scheme == Doubling && (s.Kind != AllGather && s.Kind != AllReduce || n&(n-1) != 0) {
		s.Scheme = Direct
	}
	b := builder{s: s, p: p, planes: planes, last: map[[2]int]int{}}
	b.build()
	return s, nil
}

// choose returns the scheme of a call without a choice of its own.
func (s *Schedule) choose(p *Path) Scheme {
	whole := s.Count * s.Type.Size()
	if s.Kind == AllGather || s.Kind == ReduceScatter {
		whole *= s.Ranks
	}
	switch {
	case s.Kind == AllGather || s.Kind == AllReduce || s.Kind == ReduceScatter:
		if whole <= SmallBytes {
			return Doubling
		}
		if p.Strided {
			return Direct
		}
	case s.Kind != Reduce && s.Kind != Broadcast, p.Strided:
		return Direct
	}
	if p.Ring || s.Ranks == 2 && s.Kind != AllGather {
		return Halves
	}
	return Both
}
