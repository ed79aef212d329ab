// Gather runs an all-gather over EDMs on a ring of all chips of a fabric.
package main

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"ttfabric/node/edm"
	"ttfabric/node/edm/allgather"
	"ttfabric/node/kernel/guide"
	"ttfabric/node/process"
	"ttfabric/node/session"
)

func main() { process.Main(program, edm.Kernels, allgather.Kernels) }

// program runs in the process of each chip. All processes build the same operation, and each
// process runs its chip's part.
func program(ctx context.Context, s *session.Session) error {
	const pages, size = 16, 2048
	if err := s.Ready(ctx); err != nil { // all chips answer
		return err
	}
	order, err := guide.Order(s.Topology(), len(s.Topology().Chips))
	if err != nil {
		return err
	}
	ring, err := edm.NewRing(s.Topology(), order, 1)
	if err != nil {
		return err
	}
	op, err := allgather.New(s.Topology(), 1, ring, allgather.Settings{Scheme: allgather.Halves, Workers: 2, Pages: pages, PageSize: size, Banks: 4})
	if err != nil {
		return err
	}
	place := slices.Index(order, s.Self())
	page := func(rank int) []byte { return bytes.Repeat([]byte{byte(rank + 1)}, size) } // all pages of a chip's slice are equal
	for i := range pages {
		if err := s.Write(ctx, s.Self(), op.Inputs[place].Page(i), page(place)); err != nil {
			return err
		}
	}
	if err := s.Run(ctx, op.Parts[s.Self()]); err != nil {
		return err
	}
	got := make([]byte, size)
	for i := range pages * len(order) {
		if err := s.Read(ctx, s.Self(), op.Outputs[place].Page(i), got); err != nil {
			return err
		}
		if !bytes.Equal(got, page(i/pages)) {
			return fmt.Errorf("page %d of the output is wrong", i)
		}
	}
	fmt.Printf("chip %s has %d pages of %d chips\n", s.Self(), pages*len(order), len(order))
	return nil
}
