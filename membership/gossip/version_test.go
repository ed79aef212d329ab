package gossip

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"ttfabric/membership"
	"ttfabric/ttlink/fault"
	"ttfabric/wire"
)

// sealedText encrypts a text as memberlist does, with a nonce of zeros, and puts any version before it.
func sealedText(t *testing.T, version byte, key, text []byte, associated string) []byte {
	t.Helper()
	block, err := aes.NewCipher(key)
	if err != nil {
		t.Fatal(err)
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	nonce := make([]byte, gcm.NonceSize())
	return gcm.Seal(append([]byte{version}, nonce...), nonce, text, []byte(associated))
}

// TestOtherEncryptionVersions sends keyed chips datagrams and streams whose version byte was changed
// on the way. Memberlist alone panics on version 0, because the text has no padding.
func TestOtherEncryptionVersions(t *testing.T) {
	t.Parallel()
	key := bytes.Repeat([]byte{7}, 32)
	f := &fire{swarm: swarm{t: t}}
	f.keys = func(int) *Keys { return ring(t, key) }
	pools := f.startAll(3)
	label := append([]byte{hasLabelMsg, 4}, "fire"...)
	text := append(make([]byte, 31), 0xff) // a ping that cannot be decoded; its last byte is a padding longer than the text
	for _, p := range pools {
		counted := func() uint64 { return p.Status()[0].Version }
		// again sends until the chip counts what it dropped. A busy machine may lose a datagram, and a chip
		// closes a stream whose next piece comes too late.
		sent := uint64(0)
		again := func(what string, version byte, send func()) {
			before := counted()
			for end := time.Now().Add(patience); counted() == before; sent++ {
				if time.Now().After(end) {
					t.Fatalf("version %d in a %s is not counted; %d sent in all", version, what, sent)
				}
				send()
				for wait := time.Now().Add(soon); counted() == before && time.Now().Before(wait); {
					time.Sleep(time.Millisecond)
				}
			}
			if n := counted(); n > sent {
				t.Errorf("version %d in a %s: %d counted of %d sent", version, what, n, sent)
			}
		}
		udp, err := net.Dial("udp", p.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer udp.Close()
		for _, version := range []byte{0, 2, 10, 244, 255} {
			again("datagram", version, func() {
				if _, err := udp.Write(append(slices.Clone(label), sealedText(t, version, key, text, "fire")...)); err != nil {
					t.Fatal(err)
				}
			})
			again("stream", version, func() {
				tcp, err := net.Dial("tcp", p.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				defer tcp.Close()
				const overhead = 1 + 12 + 16 // version, nonce and tag
				head := binary.BigEndian.AppendUint32([]byte{encryptMsg}, uint32(len(text)+overhead))
				stream := slices.Concat(label, head, sealedText(t, version, key, text, string(head)+"fire"))
				for b := range slices.Chunk(stream, 1+int(version)%7) { // in small pieces
					if _, err := tcp.Write(b); err != nil {
						break // the chip has closed the stream
					}
				}
				tcp.SetReadDeadline(time.Now().Add(soon))
				if b, _ := io.ReadAll(tcp); len(b) > 0 {
					t.Errorf("version %d is answered with %x", version, b)
				}
			})
		}
	}
	f.see("after the attack", 3, pools...)
}

// FuzzGuard finds the version wherever the pieces of a stream end.
func FuzzGuard(f *testing.F) {
	f.Add([]byte{hasLabelMsg, 4, 'f', 'i', 'r', 'e', encryptMsg, 0, 0, 0, 9, 0, 1, 2}, uint8(1))
	f.Add([]byte{encryptMsg, 0, 0, 0, 9, 1, 1, 2}, uint8(3))
	f.Add([]byte{hasLabelMsg, 0, encryptMsg, 0, 0, 0, 9, 0}, uint8(2))
	f.Add([]byte{6, 1, 2, 3}, uint8(2))
	f.Fuzz(func(t *testing.T, b []byte, n uint8) {
		want := true
		rest := b
		if len(rest) > 1 && rest[0] == hasLabelMsg {
			rest = rest[min(len(rest), 2+int(rest[1])):]
		}
		if len(rest) > 5 && rest[0] == encryptMsg {
			want = rest[5] == encryptionVersion
		}
		var g guard
		got := true
		for piece := range slices.Chunk(b, int(n)+1) {
			got = got && g.pass(piece)
		}
		if got != want {
			t.Errorf("%x in pieces of %d: %v, want %v", b, int(n)+1, got, want)
		}
	})
}

// TestBadGossipWithKeys damages one packet in three of encrypted gossip.
func TestBadGossipWithKeys(t *testing.T) {
	t.Parallel()
	f := &fire{swarm: swarm{t: t}}
	f.keys = func(int) *Keys { return ring(t, bytes.Repeat([]byte{9}, 16)) }
	pools := f.startAll(4)
	for i, p := range pools {
		seed := uint64(i)
		if err := p.Impair(fault.Options{Corrupt: 0.3}, &seed); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, patience, "damaged versions are dropped", func() bool {
		return slices.ContainsFunc(pools, func(p *Pool) bool { return p.Status()[0].Version > 0 })
	})
	for _, p := range pools {
		p.Impair(fault.Options{}, nil)
	}
	f.see("good again", 4, pools...)
}

// TestClaimsOfStrangers sends a pool false claims: chips that the topology lacks, unreadable
// metadata, and another topology. No member of the pool believes a false claim, passes the claim
// on, or keeps the claim in memory.
func TestClaimsOfStrangers(t *testing.T) {
	t.Parallel()
	f := &fire{swarm: swarm{t: t}}
	f.member = func(n wire.FabricNodeID) bool { return n.Mesh == 0 && n.Chip < 3 }
	pools := f.startAll(3)
	claims := map[string][]byte{"garbage": []byte("garbage")}
	for i := range 40 {
		m := membership.Meta{Node: wire.FabricNodeID{Chip: wire.ChipID(100 + i)}, Incarnation: wire.Incarnation(i + 1), Started: 1, Topology: 1}
		claims[m.Name()] = m.Append(nil)
	}
	other := membership.Meta{Node: wire.FabricNodeID{Chip: 1}, Incarnation: 77, Started: 1, Topology: 2}
	claims[other.Name()] = other.Append(nil)
	for name, meta := range claims {
		ghost := replay(t, name, netip.MustParseAddr("127.0.0.1"), meta)
		eventually(t, patience, fmt.Sprintf("%s is told", name), func() bool { return ghost(pools[0].Addr().String()) == nil })
	}
	eventually(t, patience, "the claims are counted", func() bool { return pools[0].Status()[0].Refused >= uint64(len(claims)) })
	rejected := map[string]bool{}
	for _, e := range pools[0].Events() {
		if e.Kind == membership.Rejected {
			rejected[e.Member.Name] = true
			if !strings.Contains(e.Reason, "topology") && e.Member.Name != "garbage" {
				t.Errorf("%s is rejected for another reason: %s", e.Member.Name, e.Reason)
			}
		}
	}
	if len(rejected) != maxRejected {
		t.Errorf("%d rejected processes are reported, want %d", len(rejected), maxRejected)
	}
	f.see("the chips of the topology", 3, pools...)
	for _, p := range pools {
		if n := p.list.NumMembers(); n != 3 {
			t.Errorf("chip %s: memberlist has %d members", p.cfg.Node, n)
		}
	}
}
