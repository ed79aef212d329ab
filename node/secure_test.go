package node_test

import (
	"bytes"
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"

	"ttfabric/node"
	"ttfabric/node/session"
	"ttfabric/ttlink"
	"ttfabric/ttlink/transport"
	"ttfabric/ttlink/transport/pki"
	"ttfabric/ttlink/transport/quicport"
	"ttfabric/wire"
)

type openCable = func(netip.AddrPort, transport.Cable) (transport.Port, error)

// sealedCable opens sealed UDP ports.
func sealedCable(key byte) openCable {
	return func(local netip.AddrPort, c transport.Cable) (transport.Port, error) {
		p, err := transport.Listen(transport.Options{Local: local})
		if err != nil {
			return nil, err
		}
		c.Fabric = "lab"
		return transport.PSK(p, bytes.Repeat([]byte{key}, 32), c)
	}
}

// quicCable opens QUIC ports with the certificates in a folder.
func quicCable(dir string) openCable {
	return func(local netip.AddrPort, c transport.Cable) (transport.Port, error) {
		c.Fabric = "lab"
		id, err := pki.Load(dir, pki.Identity{Fabric: "lab", Chip: c.From.Node})
		if err != nil {
			return nil, err
		}
		return quicport.Listen(quicport.Options{Local: local, Cable: c, Chip: id})
	}
}

func certificates(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := pki.Make(dir, "lab", []wire.FabricNodeID{chipID(0), chipID(1), chipID(2), chipID(3)}, time.Now(), time.Hour); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestSecuredFabric runs a fabric over each transport that checks its peers. A chip is replaced by
// a chip with wrong secrets. Its neighbours must refuse the chip and report each refusal once. A
// chip with the right secrets must then be accepted.
func TestSecuredFabric(t *testing.T) {
	for name, c := range map[string]struct {
		good, bad openCable
		profile   ttlink.Profile
	}{
		"psk":  {sealedCable(1), sealedCable(2), ttlink.ProfileCrowded},
		"quic": {quicCable(certificates(t)), quicCable(certificates(t)), ttlink.ProfilePaced},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			secured := func(o openCable) func(*node.Config) {
				return func(cfg *node.Config) { cfg.Port, cfg.Cable, cfg.Profile = nil, o, c.profile }
			}
			m, p, ns := fabricWith(t, "mesh:2x2", secured(c.good))
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			s := session.New(ns[0])
			at := wire.NewNocAddr(1, 1, 0)
			write := func(data []byte) error {
				if err := s.Write(ctx, chipID(3), at, data); err != nil {
					return err
				}
				got := make([]byte, len(data))
				if err := s.Read(ctx, chipID(3), at, got); err != nil || !bytes.Equal(got, data) {
					t.Fatalf("read back %d bytes: %v", len(got), err)
				}
				return nil
			}
			if err := write(bytes.Repeat([]byte("secured"), 20000)); err != nil {
				t.Fatal(err)
			}
			ns[3].Close()
			start := func(inc wire.Incarnation, o openCable) *node.Node {
				cfg := config(m, p, chipID(3), inc)
				secured(o)(&cfg)
				n, err := node.Start(ctx, cfg)
				if err != nil {
					t.Fatal(err)
				}
				return n
			}
			events, stop := ns[1].Events()
			defer stop()
			impostor := start(3001, c.bad)
			var refused []string
			for wait := time.After(patience); wait != nil; {
				select {
				case e := <-events:
					if e.Port != nil && e.Port.Refused != "" && e.Port.Peer.Node == chipID(3) {
						if refused = append(refused, e.Port.Refused); len(refused) == 1 {
							wait = time.After(2 * time.Second) // time in which the impostor tries again, and must cause no second report
						}
					}
				case <-wait:
					wait = nil
				}
			}
			if ports := 2; len(refused) < 1 || len(refused) > ports || !strings.Contains(refused[0], map[string]string{"psk": "key", "quic": "refused"}[name]) {
				t.Errorf("the neighbour reported the refusals %q", refused)
			}
			if st, _ := impostor.Status(); st.PortsUp != 0 {
				t.Errorf("%d ports of a chip with other secrets are up", st.PortsUp)
			}
			impostor.Close()
			n := start(3002, c.good)
			t.Cleanup(func() { n.Close() })
			if err := s.Ready(ctx); err != nil {
				t.Fatal(err)
			}
			for err := write([]byte("and again")); err != nil; err = write([]byte("and again")) {
				if ctx.Err() != nil {
					t.Fatal(err)
				}
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
}
