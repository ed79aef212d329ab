package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// goodputs measures every chosen transport with every message size. For each size, the transports
// are in random order.
func (b *bench) goodputs(round int, r *rand.Rand) error {
	for _, size := range b.sizes {
		for _, i := range r.Perm(len(kinds)) {
			k := kinds[i]
			if !b.chosen(k.name) || k.apart && !b.named(k.name) {
				continue
			}
			g, err := goodput(k.name, size, b.span)
			if err != nil {
				return err
			}
			b.add(result{Bench: fmt.Sprintf("goodput %d B", size), Kind: k.name, Unit: "Gb/s", Round: round, Value: g, Size: size})
		}
	}
	return nil
}

// udpC names the ping-pong in C, which is not a transport of this program.
const udpC = "udp-c"

// latencies measures the round trips of chosen transports, and of the ping-pong in C, in every
// seat. In each seat, the transports are in random order. latencies leaves out transports that are
// marked "apart", and raw datagrams (udp-gso, udp-mmsg).
func (b *bench) latencies(round int, r *rand.Rand) error {
	names := []string{udpC}
	for _, k := range kinds {
		if !k.apart && !strings.HasPrefix(k.name, "udp-") {
			names = append(names, k.name)
		}
	}
	if b.pingpong == "" && round == 0 && b.chosen(udpC) {
		fmt.Fprintln(os.Stderr, "udp-c is left out, because there is no ping-pong in C; install a C compiler (cc), and use scripts/bench/run, which builds the ping-pong")
	}
	for _, s := range seats() {
		for _, i := range r.Perm(len(names)) {
			kind := names[i]
			if !b.chosen(kind) || (kind == udpC && b.pingpong == "") {
				continue
			}
			var p50, p99 float64
			err := s.sit(func() (err error) {
				if kind == udpC {
					p50, p99, err = latencyC(b.pingpong)
				} else {
					p50, p99, err = latency(kind, pings)
				}
				return err
			})
			if err != nil {
				return err
			}
			b.add(figure("round trip 64 B, "+s.name+" p50", kind, "µs", round, p50), figure("round trip 64 B, "+s.name+" p99", kind, "µs", round, p99))
		}
	}
	return nil
}

// latencyC runs the ping-pong in C. The results are in microseconds.
func latencyC(program string) (p50, p99 float64, err error) {
	cmd := exec.Command(program, fmt.Sprint(pings), "64", fmt.Sprint(sitting.near), fmt.Sprint(sitting.far))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err == nil {
		_, err = fmt.Sscan(string(out), &p50, &p99)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("%s: %w", program, err)
	}
	return p50 / 1e3, p99 / 1e3, nil
}

// goodput returns the goodput that the far end counts after a short warm-up, in Gb/s.
func goodput(kind string, size int, d time.Duration) (float64, error) {
	c, o, err := meet(kind, "drain")
	if err != nil {
		return 0, err
	}
	defer o.end()
	defer c.close()
	done := make(chan error, 1)
	go func() { done <- c.pump(size, d+d/4) }()
	time.Sleep(d / 4)
	read := func() (n uint64, at time.Time, err error) {
		s, err := o.ask("count")
		if err == nil {
			_, err = fmt.Sscan(s, &n)
		}
		return n, time.Now(), err
	}
	a, begin, err := read()
	if err != nil {
		return 0, err
	}
	time.Sleep(d * 3 / 4)
	b, end, err := read()
	if err != nil {
		return 0, err
	}
	if err := <-done; err != nil {
		return 0, fmt.Errorf("%s: %w", kind, err)
	}
	return float64(b-a) * 8 / end.Sub(begin).Seconds() / 1e9, nil
}

// pings is the number of round trips of one latency measurement on loopback.
const pings = 5000

// latency times n round trips of 64 B, one at a time. The results are in microseconds.
func latency(kind string, n int) (p50, p99 float64, err error) {
	c, o, err := meet(kind, "echo")
	if err != nil {
		return 0, 0, err
	}
	defer o.end()
	defer c.close()
	ds, err := c.pingpong(64, n)
	if err != nil {
		return 0, 0, fmt.Errorf("%s: %w", kind, err)
	}
	slices.Sort(ds)
	return us(ds[len(ds)/2]), us(ds[len(ds)*99/100]), nil
}
