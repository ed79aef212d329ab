package node_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ttfabric/node"
	"ttfabric/node/noc"
	"ttfabric/node/session"
	"ttfabric/router"
	"ttfabric/ttlink/transport"
	"ttfabric/wire"
)

// wiretap is a port that keeps the datagrams that leave through it, and that changes one byte of the next
// datagram if "damage" is set.
type wiretap struct {
	transport.Port
	damage atomic.Bool
	mu     sync.Mutex
	seen   []byte // all datagrams, one after another
}

func (w *wiretap) Send(b []byte, seg int) (int, error) {
	b = bytes.Clone(b)
	if w.damage.CompareAndSwap(true, false) {
		b[len(b)/2] ^= 1
	}
	w.mu.Lock()
	w.seen = append(w.seen, b...)
	w.mu.Unlock()
	return w.Port.Send(b, seg)
}

func (w *wiretap) SendBatch(runs []transport.Run) (int, error) { return transport.SendEach(w, runs) }

// has reports whether the datagrams that left had the bytes b.
func (w *wiretap) has(b []byte) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return bytes.Contains(w.seen, b)
}

// TestRawFramesSealed puts both ends of a cable with sealed UDP into compliance mode. Raw payloads must arrive
// in the receive buffer, and nobody on the way can read them. The other end must drop and count raw frames
// that are damaged under the seal, and datagrams whose seal is damaged.
func TestRawFramesSealed(t *testing.T) {
	t.Parallel()
	const tapped = wire.Channel(0)
	var inside, outside *wiretap // of chip 0's first port: above and below the seal
	_, _, ns := fabricWith(t, "mesh:1x2", func(c *node.Config) {
		seal := sealedCable(1)
		c.Port, c.Cable = nil, func(local netip.AddrPort, cable transport.Cable) (transport.Port, error) {
			if cable.From.Node != chipID(0) || cable.From.Channel != tapped {
				return seal(local, cable)
			}
			udp, err := transport.Listen(transport.Options{Local: local})
			if err != nil {
				return nil, err
			}
			outside = &wiretap{Port: udp}
			cable.Fabric = "lab"
			sealed, err := transport.PSK(outside, bytes.Repeat([]byte{1}, 32), cable)
			inside = &wiretap{Port: sealed}
			return inside, err
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	st, _ := ns[0].Status()
	peer := st.Ports[0].Peer
	if st.Ports[0].Local.Channel != tapped || inside == nil {
		t.Fatalf("the first port is channel %d", st.Ports[0].Local.Channel)
	}
	const txq, rxq = 0xFFB90000, 0xFFB92000
	at := func(ch wire.Channel, off uint64) wire.NocAddr {
		x, y, ok := noc.EthernetTile(wire.Wormhole, ch)
		if !ok {
			t.Fatal("no tile")
		}
		return wire.NewNocAddr(x, y, off)
	}
	words := func(v ...uint32) (b []byte) {
		for _, x := range v {
			b = binary.LittleEndian.AppendUint32(b, x)
		}
		return b
	}
	write := func(n int, ch wire.Channel, off uint64, b []byte) {
		t.Helper()
		if err := session.New(ns[n]).Write(ctx, chipID(n), at(ch, off), b); err != nil {
			t.Fatal(err)
		}
	}
	read := func(off uint64, size int) []byte { // of the other end
		t.Helper()
		b := make([]byte, size)
		if err := session.New(ns[1]).Read(ctx, chipID(1), at(peer.Channel, off), b); err != nil {
			t.Fatal(err)
		}
		return b
	}
	word := func(off uint64) uint32 { return binary.LittleEndian.Uint32(read(off, 4)) }
	until := func(what string, ok func() bool) {
		t.Helper()
		for !ok() {
			if time.Sleep(time.Millisecond); ctx.Err() != nil {
				t.Fatal(what)
			}
		}
	}
	for n, ch := range []wire.Channel{0, peer.Channel} {
		if err := ns[n].Command([]wire.Channel{ch}, router.CommandRaw); err != nil {
			t.Fatal(err)
		}
	}
	write(1, peer.Channel, rxq+0x0C, words(0x2500, 64)) // the receive buffer: 1 KiB at 0x25000
	secret := []byte("nobody on the way reads this payload of compliance mode")
	send := func() {
		t.Helper()
		write(0, 0, 0x24000, secret)
		write(0, 0, txq+0x04, words(1, 0, 1500, 0, 0x24000, uint32(len(secret))))
	}
	for i := range 3 {
		send()
		until("the payload does not arrive", func() bool { return word(rxq+0x08) == uint32((i+1)*len(secret)) })
	}
	if got := read(0x25000, 3*len(secret)); !bytes.Equal(got, bytes.Repeat(secret, 3)) {
		t.Errorf("the buffer has %q", got)
	}
	if !inside.has(secret) || outside.has(secret[:8]) || outside.has([]byte{'T', 'T', wire.RawVersion << 4}) {
		t.Errorf("the payload passes the seal %v, its beginning is readable on the way %v", inside.has(secret), outside.has(secret[:8]))
	}

	drops := word(rxq + 0x4C)
	inside.damage.Store(true)
	send()
	until("the damaged frame is not counted", func() bool { return word(rxq+0x4C) == drops+1 })
	received := func() uint64 {
		st, _ := ns[1].Status()
		for _, p := range st.Ports {
			if p.Local == peer {
				return p.Received.Received
			}
		}
		return 0
	}
	before, stats := received(), func() uint64 { return ns[1].Sockets()[peer.Channel].Auth.Forged }
	forged := stats()
	outside.damage.Store(true)
	send()
	until("the damaged datagram is not counted", func() bool { return stats() > forged })
	if received() != before || word(rxq+0x4C) != drops+1 {
		t.Errorf("a datagram with a damaged seal came to compliance mode")
	}
	send()
	until("no payload passes after the bad ones", func() bool { return word(rxq+0x08) == uint32(4*len(secret)) })
}
