package admin_test

import (
	"context"
	"testing"

	"ttfabric/node/admin/api"
	"ttfabric/node/session"
	"ttfabric/wire"
)

// remote starts two chips. remote returns a session over the API of the first chip, and the address
// of the second chip.
func remote(b *testing.B) (*session.Session, wire.FabricNodeID) {
	b.Helper()
	machine, addrs, stop, err := start()
	b.Cleanup(stop)
	if err != nil {
		b.Fatal(err)
	}
	s := session.New(api.NewClient(addrs[0], token, machine.Chips[0].Node, machine))
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()
	if err := s.Ready(ctx); err != nil {
		b.Fatal(err)
	}
	return s, machine.Chips[1].Node
}

// BenchmarkRemoteWrite measures writes of 1 MiB, in 256 packets, over the API.
func BenchmarkRemoteWrite(b *testing.B) {
	s, dst := remote(b)
	data := make([]byte, 1<<20)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if err := s.Write(b.Context(), dst, wire.NewNocAddr(0, 0, 0), data); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRemotePings measures 1000 pings over the API, one after another.
func BenchmarkRemotePings(b *testing.B) {
	s, dst := remote(b)
	for b.Loop() {
		for range 1000 {
			if _, err := s.Ping(b.Context(), dst); err != nil {
				b.Fatal(err)
			}
		}
	}
}
