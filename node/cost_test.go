package node_test

import (
	"context"
	"testing"

	"ttfabric/node/session"
	"ttfabric/wire"
)

// TestNoAllocationPerPacket counts allocations of writes of 1 MiB and of 4 MiB over two hops of
// real sockets. The number of allocations in all three chips must not grow with the number of
// packets.
func TestNoAllocationPerPacket(t *testing.T) {
	if testing.Short() {
		t.Skip("moves 200 MiB")
	}
	_, _, ns := fabric(t, "mesh:1x3")
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, to := session.New(ns[0]), wire.NewNocAddr(0, 0, 0)
	cost := func(blocks int) float64 {
		data := make([]byte, blocks<<20)
		return testing.AllocsPerRun(10, func() {
			if err := s.Write(ctx, chipID(2), to, data); err != nil {
				t.Fatal(err)
			}
		})
	}
	cost(4)
	one, four := cost(1), cost(4)
	if perPacket := (four - one) / (3 * 256); perPacket > 0.1 {
		t.Errorf("a write of 1 MiB allocates %.0f times, one of 4 MiB %.0f times: %.2f more for each packet", one, four, perPacket)
	} else {
		t.Logf("a write of 1 MiB allocates %.0f times, one of 4 MiB %.0f times: %.3f more for each packet", one, four, perPacket)
	}
}
