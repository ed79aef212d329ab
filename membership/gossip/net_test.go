package gossip

import (
	"bytes"
	"io"
	"log"
	"net"
	"net/netip"
	"testing"
	"time"
)

// TestPacketsInMemory checks how much memory a packet of gossip keeps. Packets longer than maxPacket
// must not come.
func TestPacketsInMemory(t *testing.T) {
	t.Parallel()
	for _, keyed := range []bool{false, true} {
		w, port, err := listen(loopback, "", patience, keyed, log.New(io.Discard, "", 0))
		if err != nil {
			t.Fatal(err)
		}
		defer w.Shutdown()
		conn, err := net.Dial("udp", netip.AddrPortFrom(loopback.Addr(), uint16(port)).String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		sent := 0
		for n := 64; n <= 60<<10; n *= 2 {
			for _, kind := range []byte{aliveMsg, compoundMsg} { // a compound message that repeats cannot read
				b := bytes.Repeat([]byte{0xff}, n)
				if b[0] = kind; keyed {
					b[0] = encryptionVersion
				}
				if _, err := conn.Write(b); err != nil {
					t.Fatal(err)
				}
				if n > maxPacket {
					sent++
					continue
				}
				select {
				case p := <-w.PacketCh():
					if len(p.Buf) != n || cap(p.Buf) > 2*n {
						t.Errorf("a packet of %d bytes arrived with %d bytes, in memory of %d bytes", n, len(p.Buf), cap(p.Buf))
					}
				case <-time.After(patience):
					t.Fatalf("a packet of %d bytes did not come", n)
				}
			}
		}
		eventually(t, patience, "long packets are counted", func() bool { return w.dropped.long.Load() == uint64(sent) })
	}
}
