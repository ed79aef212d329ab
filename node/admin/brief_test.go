package admin_test

import (
	"context"
	"encoding/json"
	"testing"

	"ttfabric/node/admin/api"
	"ttfabric/node/session"
	"ttfabric/wire"
)

// TestBrief compares the brief state of both chips with their whole state, after some writes. The brief
// state comes later, so its counters must be at least as high. The brief state must be much shorter.
func TestBrief(t *testing.T) {
	t.Parallel()
	machine, addrs, stop, err := start()
	defer stop()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for i, n := range machine.Nodes() {
		c := api.NewClient(addrs[i], token, n, machine)
		s := session.New(c)
		if err := s.Ready(ctx); err != nil {
			t.Fatal(err)
		}
		for range 10 {
			if err := s.Write(ctx, machine.Chips[1-i].Node, wire.NewNocAddr(1, 1, 0x1000), make([]byte, 100)); err != nil {
				t.Fatal(err)
			}
		}
		v, err := c.Chip(ctx)
		if err != nil {
			t.Fatal(err)
		}
		b, err := c.Brief(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if b.Chip != n || b.Incarnation != v.Incarnation || b.TableEpoch != v.TableEpoch || b.UptimeS < v.UptimeS || b.LinksUp != v.LinksUp || len(b.Links) != len(v.Links) {
			t.Errorf("brief %+v, whole %+v", b, v)
		}
		injected := uint64(0)
		for k, l := range b.Links {
			w := &v.Links[k]
			if l.Channel != w.Channel || l.State != w.State || l.Router != w.Router || l.LastDown != w.LastDown || l.Bytes < w.Counters["bytes_sent"] || l.Bytes == 0 ||
				l.Packets < w.Counters["packets_sent"] || l.RTTMicros <= 0 {
				t.Errorf("port %d: brief %+v, whole %+v", k, l, w)
			}
			injected += l.Injected
		}
		if injected < 10 {
			t.Errorf("the chip sent %d packets, want at least 10", injected)
		}
		short, _ := json.Marshal(b)
		long, _ := json.Marshal(v)
		if 5*len(short) > len(long) {
			t.Errorf("the brief state has %d bytes, the whole state %d", len(short), len(long))
		}
	}
}
