package tensor

import "fmt"

// Pipeline is the buffers between two neighbours of a ring, of one worker: the worker's own, and those of its EDM
// channel at both ends.
type Pipeline struct {
	Packet  int // bytes of a packet
	Buffers int // packets that fit into all buffers together
}

// Capacity returns the bytes that fit into the pipeline.
func (p Pipeline) Capacity() int { return p.Packet * p.Buffers }

// Slice is a box of elements of one fracture.
type Slice struct {
	At    []int // first element in the fracture
	Shape Shape
}

// Slicer cuts the fractures of a reduce-scatter into slices (the guide's tensor slicer scheduler). All fractures have
// the same slices.
type Slicer struct {
	Fracture Shape   // shape of a fracture
	Slices   []Slice // all slices of a fracture, in order
	workers  int
}

// NewSlicer cuts a tensor's fractures along a dimension, one for each rank, into slices. No slice is larger than the
// pipeline, because a ring has no other place for partial sums. If possible, each worker gets a slice.
func NewSlicer(s Spec, workers, dim, ranks int, p Pipeline) (*Slicer, error) {
	x, err := NewExchange(ReduceScatter, s, dim, ranks, Memory{Layout: s.Layout, Rows: 1, Cols: 1})
	if err != nil {
		return nil, err
	}
	if workers < 1 || p.Packet < 1 || p.Buffers < 1 || p.Packet > MaxBytes || p.Buffers > MaxBytes {
		return nil, fmt.Errorf("%d workers with %d buffers of %d bytes: want at least 1 of each", workers, p.Buffers, p.Packet)
	}
	out := &Slicer{Fracture: x.Part.Shape, workers: workers}
	unit := unitOf(s.Layout, out.Fracture)
	shape := append(Shape(nil), out.Fracture...)
	for d := range shape { // whole slices of the first dimensions are the largest, so cut these first
		for shape[d] > unit[d] && (count(out.Fracture, shape) < workers || p.packets(s, shape) > p.Buffers || d == len(shape)-1 && p.wide(s, shape)) {
			shape[d] = divide(divide(shape[d], 2), unit[d]) * unit[d]
		}
	}
	if err := p.Fits(s, shape); err != nil {
		return nil, fmt.Errorf("the smallest slice: %w", err)
	}
	out.cut(shape)
	return out, nil
}

// unitOf returns the smallest slice: a tile, or one row.
func unitOf(l Layout, f Shape) []int {
	unit := make([]int, len(f))
	for i := range unit {
		unit[i] = 1
		if l == Tiled && i >= len(f)-2 {
			unit[i] = min(TileSide, f[i])
		}
	}
	return unit
}

// count returns the number of slices with a shape.
func count(f, slice Shape) int {
	n := 1
	for i := range f {
		n *= divide(f[i], slice[i])
	}
	return n
}

// packets returns the packets of a slice. A packet has whole pages, at least one.
func (p Pipeline) packets(s Spec, slice Shape) int {
	part := s.with(slice)
	stream := part.Stream()
	return divide(stream.Pages(), max(p.Packet/stream.PageSize(), 1))
}

// wide reports whether a page of a slice is larger than a packet.
func (p Pipeline) wide(s Spec, slice Shape) bool {
	part := s.with(slice)
	stream := part.Stream()
	return stream.PageSize() > p.Packet
}

// Fits refuses a slice that is larger than the pipeline.
func (p Pipeline) Fits(s Spec, slice Shape) error {
	if p.wide(s, slice) {
		return fmt.Errorf("the pages of a slice of shape %d are larger than a packet of %d bytes: use larger packets", []int(slice), p.Packet)
	}
	if n := p.packets(s, slice); n > p.Buffers {
		return fmt.Errorf("a slice of shape %d has %d packets, and the pipeline holds %d: all chips of the ring would wait to send; use smaller slices or more buffers", []int(slice), n, p.Buffers)
	}
	return nil
}

// cut lists the slices.
func (s *Slicer) cut(shape Shape) {
	at := make([]int, len(shape))
	for {
		one := Slice{append([]int(nil), at...), make(Shape, len(shape))}
		for i := range at {
			one.Shape[i] = min(shape[i], s.Fracture[i]-at[i])
		}
		s.Slices = append(s.Slices, one)
		d := len(at) - 1
		for ; d >= 0; d-- {
			if at[d] += shape[d]; at[d] < s.Fracture[d] {
				break
			}
			at[d] = 0
		}
		if d < 0 {
			return
		}
	}
}

// Worker returns the slices of a worker, 0 to workers - 1, in order. Workers take alternating slices.
func (s *Slicer) Worker(w int) (slices []Slice) {
	for i := w; i < len(s.Slices); i += s.workers {
		slices = append(slices, s.Slices[i])
	}
	return slices
}

// Simulate runs one worker of each rank of a ring through a number of slices, without data. Each worker first sends
// all packets of its own slice. Then the worker receives, adds and forwards packet by packet. Simulate returns an error
// if all workers wait for each other.
func (p Pipeline) Simulate(ranks, slices, packets int) error {
	if ranks < 2 || slices < 1 || packets < 1 {
		return fmt.Errorf("%d ranks, %d slices, %d packets: want at least 2, 1 and 1", ranks, slices, packets)
	}
	full := make([]int, ranks) // packets between rank r and the next rank
	sent, got := make([]int, ranks), make([]int, ranks)
	each := (ranks - 1) * packets // packets that a worker sends, and receives, for a slice
	for done := 0; done < ranks; {
		moved := false
		done = 0
		for r := range ranks {
			from := (r + ranks - 1) % ranks
			for sent[r] < each*slices || got[r] < each*slices {
				slice := got[r] / each
				own := sent[r] < slice*each+packets && sent[r] < each*slices // packets of the own slice are left
				forwards := !own && sent[r]-slice*each-packets < got[r]-slice*each && sent[r] < (slice+1)*each
				if own || forwards {
					if full[r] == p.Buffers {
						break
					}
					full[r]++
					sent[r]++
				} else {
					if full[from] == 0 {
						break
					}
					full[from]--
					got[r]++
				}
				moved = true
			}
			if got[r] == each*slices {
				done++
			}
		}
		if !moved && done < ranks {
			return fmt.Errorf("deadlock: %d ranks wait for each other, with %d packets in each of the pipelines, which hold %d; rank 0 has sent %d packets and received %d", ranks-done, full[0], p.Buffers, sent[0], got[0])
		}
	}
	return nil
}
