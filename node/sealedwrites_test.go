package node_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"ttfabric/node"
	"ttfabric/node/noc"
	"ttfabric/node/session"
	"ttfabric/ttlink/transport"
	"ttfabric/wire"
)

// shortPath is a port whose path has an MTU of 1500 bytes. IPv4 and UDP take 28 of them.
type shortPath struct{ transport.Port }

func (shortPath) MaxDatagram() int { return 1500 - 28 }

// TestL1WritesAtMTU1500 performs L1 writes over a cable with a path of 1500 bytes, open and sealed. The register
// MAX_PKT_SIZE stays 1500. A frame carries 1472 bytes of data at most, and less because datagrams on the path
// carry envelope, header, padding and checksum, and in a sealed cable also the seal.
func TestL1WritesAtMTU1500(t *testing.T) {
	for name, c := range map[string]struct {
		sealed bool
		want   int // largest number of bytes of data in a frame
	}{"open": {false, 1440}, "sealed": {true, 1408}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, ns := fabricWith(t, "mesh:1x2", func(cfg *node.Config) {
				cfg.Port, cfg.Cable = nil, func(local netip.AddrPort, cable transport.Cable) (transport.Port, error) {
					udp, err := transport.Listen(transport.Options{Local: local})
					if err != nil || !c.sealed {
						return shortPath{udp}, err
					}
					cable.Fabric = "lab"
					return transport.PSK(shortPath{udp}, bytes.Repeat([]byte{1}, 32), cable)
				}
			})
			writeL1(t, ns, c.want)
		})
	}
}

// writeL1 writes 20,000 bytes into the L1 at the other end of a cable, in frames of at most "most" bytes of data.
func writeL1(t *testing.T, ns []*node.Node, most int) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	st, _ := ns[0].Status()
	port := st.Ports[0]
	for q, n := range port.Payload {
		if n != most {
			t.Errorf("queue %d: a frame carries %d bytes, want %d", q, n, most)
		}
	}
	const txq, size, from, to = 0xFFB90000, 20000, 0x21000, 0x28000
	s, other := session.New(ns[0]), session.New(ns[1])
	tile := func(ch wire.Channel, off uint64) wire.NocAddr {
		x, y, ok := noc.EthernetTile(wire.Wormhole, ch)
		if !ok {
			t.Fatal("no tile")
		}
		return wire.NewNocAddr(x, y, off)
	}
	register := func(off uint64) uint32 {
		var b [4]byte
		if err := s.Read(ctx, chipID(0), tile(port.Local.Channel, txq+off), b[:]); err != nil {
			t.Fatal(err)
		}
		return binary.LittleEndian.Uint32(b[:])
	}
	if n := register(0x0C); n != 1500 {
		t.Errorf("MAX_PKT_SIZE is %d", n)
	}
	want := make([]byte, size)
	rng := rand.New(rand.NewPCG(1, uint64(most)))
	for i := range want {
		want[i] = byte(rng.Uint32())
	}
	frames := register(0x34)
	if err := s.Write(ctx, chipID(0), tile(port.Local.Channel, from), want); err != nil {
		t.Fatal(err)
	}
	for _, r := range [][2]uint32{{0x14, from}, {0x18, size}, {0x1C, to}, {0x04, 2}} { // source, length, destination, command
		if err := s.InlineWrite(ctx, chipID(0), tile(port.Local.Channel, txq+uint64(r[0])), r[1]); err != nil {
			t.Fatal(err)
		}
	}
	got := make([]byte, size)
	for !bytes.Equal(got, want) {
		if time.Sleep(time.Millisecond); ctx.Err() != nil {
			t.Fatal("the data did not arrive")
		}
		if err := other.Read(ctx, chipID(1), tile(port.Peer.Channel, to), got); err != nil {
			t.Fatal(err)
		}
	}
	if n, least := int(register(0x34)-frames), (size+most-1)/most; n < least {
		t.Errorf("%d bytes arrived in %d frames, and need %d", size, n, least)
	}
}
