// Command garbage throws noise and forged frames at every UDP port of a
// running fabric on loopback, for a bounded time: random bytes, truncated and
// bit-flipped frames with right and wrong checksums, hellos of strangers and
// of the true peer with a wrong incarnation, updates, closes and data of
// guessed sessions. As root it also spoofs the peer's address, so that the
// datagrams pass the kernel's filter of the connected socket.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"ttfabric/node/admin"
	"ttfabric/wire"
)

func main() {
	dir := flag.String("dir", "", "run folder of the fabric")
	for_ := flag.Duration("for", 10*time.Second, "how long, at most 10m")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "of the noise")
	flag.Parse()
	if err := run(*dir, min(*for_, 10*time.Minute), *seed); err != nil {
		fmt.Fprintln(os.Stderr, "garbage:", err)
		os.Exit(1)
	}
}

// target is one port of the fabric, and who it believes at the other end.
type target struct {
	at, peerAt netip.AddrPort
	self, peer wire.PortID
	session    wire.SessionID
}

func targets(dir string) ([]target, error) {
	token, err := os.ReadFile(filepath.Join(dir, "token"))
	if err != nil {
		return nil, err
	}
	files, _ := filepath.Glob(filepath.Join(dir, "chip-*.json"))
	var out []target
	where := map[wire.PortID]netip.AddrPort{}
	for _, f := range files {
		var c struct{ API string }
		b, err := os.ReadFile(f)
		if err == nil {
			err = json.Unmarshal(b, &c)
		}
		if err != nil {
			return nil, err
		}
		var v admin.ChipView
		req, _ := http.NewRequest("GET", "http://"+c.API+"/v1/chip", nil)
		req.Header.Set("Authorization", "Bearer "+string(token))
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return nil, err
		}
		err = json.NewDecoder(resp.Body).Decode(&v)
		resp.Body.Close()
		if err != nil {
			return nil, err
		}
		for _, l := range v.Links {
			t := target{self: wire.PortID{Node: v.Chip, Channel: l.Channel}, peer: wire.PortID{Node: l.Peer, Channel: l.PeerChan}}
			if t.at, err = netip.ParseAddrPort(l.Address); err != nil || !t.at.Addr().IsLoopback() {
				return nil, fmt.Errorf("%s: only loopback addresses are shot at", l.Address)
			}
			fmt.Sscanf(l.Session, "%x", (*uint32)(&t.session))
			where[t.self] = t.at
			out = append(out, t)
		}
	}
	for i := range out {
		out[i].peerAt = where[out[i].peer]
	}
	if len(out) == 0 {
		return nil, errors.New("no chip of this fabric runs")
	}
	return out, nil
}

func run(dir string, d time.Duration, seed uint64) error {
	ts, err := targets(dir)
	if err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(seed, 0))
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return err
	}
	defer conn.Close()
	raw, rawErr := syscall.Socket(syscall.AF_INET, syscall.SOCK_RAW, syscall.IPPROTO_RAW)
	if rawErr == nil {
		defer syscall.Close(raw)
	}
	sent, spoofed := 0, 0
	for end := time.Now().Add(d); time.Now().Before(end); {
		for range 20 {
			t := &ts[r.IntN(len(ts))]
			b := noise(r, t)
			if _, err := conn.WriteToUDPAddrPort(b, t.at); err == nil {
				sent++
			}
			if rawErr == nil && syscall.Sendto(raw, spoof(t, b), 0, &syscall.SockaddrInet4{Addr: t.at.Addr().As4()}) == nil {
				spoofed++
			}
		}
		time.Sleep(time.Millisecond)
	}
	how := "with the peers' addresses forged"
	if rawErr != nil {
		how = strings.ReplaceAll("none with forged addresses, for want of rights: "+rawErr.Error(), "\n", " ")
	}
	fmt.Printf("garbage: %d datagrams at %d ports, and %d %s (seed %d)\n", sent, len(ts), spoofed, how, seed)
	return nil
}

// noise makes one bad datagram.
func noise(r *rand.Rand, t *target) []byte {
	random := make([]byte, r.IntN(1500))
	for i := range random {
		random[i] = byte(r.Uint32())
	}
	f := wire.Frame{Channel: t.self.Channel, Kind: wire.Kind(1 + r.IntN(5)), VC: wire.VC(r.IntN(wire.NumVCs)), Session: wire.SessionID(r.Uint32()),
		TxSeq: wire.Seq(r.Uint32()), RxSeq: wire.Seq(r.Uint32()), Dest: r.Uint32(), Payload: random}
	switch r.IntN(5) {
	case 0:
		return random
	case 1: // a stranger's or a forged peer's hello
		h := wire.Hello{From: t.peer, Expected: t.self, WantAnswer: r.IntN(2) == 0, Up: r.IntN(2) == 0, MaxPayload: 1408,
			Incarnation: wire.Incarnation(r.Uint64() | 1), EchoIncarnation: wire.Incarnation(r.Uint64()), Training: r.Uint32(), EchoTraining: r.Uint32N(4)}
		for v := range h.Slots {
			h.Slots[v], h.Grants[v] = uint16(r.Uint32()), r.Uint32()
		}
		if r.IntN(3) == 0 {
			h.From.Node.Chip = wire.ChipID(r.IntN(8))
		}
		f.Kind, f.Session, f.Payload = wire.KindHello, 0, h.Append(nil)
	case 2: // a bit is wrong
		b := f.Append(nil)
		b[r.IntN(len(b))] ^= 1 << r.IntN(8)
		return b
	case 3:
		b := f.Append(nil)
		return b[:r.IntN(len(b))]
	}
	return f.Append(nil)
}

// spoof wraps b in UDP and IPv4 from the peer's address. The kernel fills in the IP checksum; UDP's may be 0 over IPv4 (RFC 768).
func spoof(t *target, b []byte) []byte {
	src, dst := t.peerAt.Addr().As4(), t.at.Addr().As4()
	n := 28 + len(b)
	p := []byte{0x45, 0, byte(n >> 8), byte(n), 0, 0, 0, 0, 64, syscall.IPPROTO_UDP, 0, 0}
	p = append(append(p, src[:]...), dst[:]...)
	n -= 20
	p = append(p, byte(t.peerAt.Port()>>8), byte(t.peerAt.Port()), byte(t.at.Port()>>8), byte(t.at.Port()), byte(n>>8), byte(n), 0, 0)
	return append(p, b...)
}
