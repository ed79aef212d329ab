// Command garbage sends noise, repeated frames and forged frames to every UDP port of a running
// fabric on loopback. The noise is random bytes, and truncated and bit-flipped frames with right
// and wrong checksums. The repeated frames come from a capture. The forged frames are hellos of
// strangers, and hellos in the name of the true peer with a wrong incarnation. Further forged frames
// are updates, closes and data with guessed session ids. The last are data and updates of the true
// session with guessed sequence numbers.
//
// A port's socket is connected, so the kernel delivers only datagrams from the peer's address. As
// root, the command forges this address. Without root, hardly any datagram reaches a socket.
//
// With -judge, the command compares the state that the chips report before and after. The chips
// must have counted every datagram. Incarnations, members, sessions, frame lengths and peers must
// be as before. Without traffic (-judge idle), links, tables, memory and packet counters must be as
// before too.
package main

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"syscall"
	"time"
)

// options holds the values of the flags.
type options struct {
	name   string
	span   time.Duration
	count  int    // number of datagrams to send from forged addresses; 0: as many as fit into span
	replay string // pcapng file whose frames are sent again
	seed   uint64
	judge  string // value of -judge: "idle", "busy", or "" to judge nothing
}

func main() {
	var o options
	flag.StringVar(&o.name, "name", "default", "name of the fabric")
	flag.DurationVar(&o.span, "for", 10*time.Second, "longest time to send, up to 10m")
	flag.IntVar(&o.count, "count", 0, "stop after this many datagrams from forged addresses, or when the time of -for is over; 0: only the time of -for counts")
	flag.StringVar(&o.replay, "replay", "", "also send the frames of this capture again")
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "seed of the noise")
	flag.StringVar(&o.judge, "judge", "", "idle (the fabric has no traffic) or busy (traffic runs): compare the chips before and after, and fail if the chips do not count every datagram, or if something else changes; empty: do not compare")
	flag.Parse()
	o.span = min(o.span, 10*time.Minute)
	if err := run(&o); err != nil {
		fmt.Fprintln(os.Stderr, "garbage:", err)
		os.Exit(1)
	}
}

// pace is the number of datagrams before each pause, and pause is the length of the pause. The
// sockets' buffers and the chips can take datagrams at this rate.
const (
	pace  = 40
	pause = time.Millisecond
)

func run(o *options) error {
	before, err := look(o.name)
	if err != nil {
		return err
	}
	ts, err := before.targets()
	if err != nil {
		return err
	}
	if o.replay != "" {
		if err := load(o.replay, ts); err != nil {
			return err
		}
	}
	r := rand.New(rand.NewPCG(o.seed, 0))
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return err
	}
	defer conn.Close()
	raw, rawErr := syscall.Socket(syscall.AF_INET, syscall.SOCK_RAW, syscall.IPPROTO_RAW)
	if rawErr == nil {
		defer syscall.Close(raw)
	} else if o.judge != "" {
		return fmt.Errorf("-judge needs the right to forge addresses: %w", rawErr)
	}
	strange, spoofed := 0, 0
	begun := time.Now()
	for time.Since(begun) < o.span && (o.count == 0 || spoofed < o.count) {
		for range pace {
			t := ts[r.IntN(len(ts))]
			b := noise(r, t)
			if r.IntN(10) == 0 {
				if _, err := conn.WriteToUDPAddrPort(b, t.at); err == nil {
					strange++
				}
			}
			if rawErr == nil && syscall.Sendto(raw, spoof(t, b), 0, &syscall.SockaddrInet4{Addr: t.at.Addr().As4()}) == nil {
				spoofed++
				if t.sent++; len(b) == 0 {
					t.empty++
				}
			}
		}
		time.Sleep(pause)
	}
	fmt.Printf("garbage: %d datagrams from forged addresses of the peers to %d ports, %d datagrams from another address, in %.1f s (seed %d)\n", spoofed, len(ts), strange,
		time.Since(begun).Seconds(), o.seed)
	if rawErr != nil {
		fmt.Println("garbage: no address was forged, because this user has no right to do so:", rawErr)
	}
	if o.judge == "" {
		return nil
	}
	if spoofed < o.count {
		return fmt.Errorf("only %d of %d datagrams were sent within %v; allow more time with -for", spoofed, o.count, o.span)
	}
	time.Sleep(3 * time.Second) // time in which the chips receive all datagrams and send all answers
	after, err := look(o.name)
	return errors.Join(err, after.judge(before, ts, o.judge == "idle"))
}
