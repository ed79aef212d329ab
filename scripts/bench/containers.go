package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

const (
	// bridgeMTU is the MTU of the containers' network, in bytes. Docker gives its networks this MTU
	// by default.
	bridgeMTU = 1500
	// bridgeSize is the size of a message, in bytes. Over a path with the MTU bridgeMTU, a message
	// takes several frames.
	bridgeSize = 4096
	// bridgeShare is the smallest share of the raw datagrams' goodput that a link must reach.
	bridgeShare = 0.5
	// bridgeSpare is the time, beyond twice the time of the measurement, in which both ends must
	// start and stop. [between] kills ends that take longer.
	bridgeSpare = 10 * time.Second
)

// bridgeKinds are the transports that cross the bridge, with the size of their messages. Raw
// datagrams have the longest size that the path takes.
var bridgeKinds = []struct {
	name string
	size int
}{
	{"ttlink-fast", bridgeSize},
	{"udp-gso", bridgeMTU - udpBytes},
	{"ttlink-spec", bridgeSize},
	{"ttlink-nogso", bridgeSize},
	{"udp-mmsg", bridgeMTU - udpBytes},
	{"tcp", bridgeSize},
}

// containers measures goodput between two containers on one bridge. The benchmark's process only
// controls the processes in the containers. After the last round, containers checks bridgeShare.
func (b *bench) containers(round int, r *rand.Rand) error {
	near, far, ok := strings.Cut(b.pair, " ")
	if !ok {
		return errors.New("-only container needs two containers on a bridge; use scripts/bench/container")
	}
	name := fmt.Sprintf("two containers, bridge with MTU %d", bridgeMTU)
	for _, i := range r.Perm(len(bridgeKinds)) {
		k := bridgeKinds[i]
		if !b.chosen(k.name) {
			continue
		}
		g, err := between(place{near: where.near, container: near}, place{near: where.far, container: far}, k.name, k.size, b.span)
		if err != nil {
			return err
		}
		b.add(result{Bench: name, Kind: k.name, Unit: "Gb/s", Round: round, Value: g, Size: k.size})
	}
	if round == b.rounds-1 {
		b.broken = append(b.broken, b.report.share(name, "ttlink-fast", "udp-gso", bridgeShare))
	}
	return nil
}

// share checks that the kind "ours" reaches at least the share "least" of the figure of the kind
// "theirs". The check uses the median of the rounds' ratios. If no round has both figures, share
// checks nothing.
func (p *report) share(bench, ours, theirs string, least float64) error {
	of := map[string]map[int]float64{ours: {}, theirs: {}}
	for _, r := range p.Results {
		if m := of[r.Kind]; m != nil && r.Bench == bench {
			m[r.Round] = r.Value
		}
	}
	var ratios []float64
	for round, v := range of[ours] {
		if w := of[theirs][round]; w > 0 {
			ratios = append(ratios, v/w)
		}
	}
	if m := median(ratios); m < least {
		return fmt.Errorf("%s: %s has %.2f of %s; want at least %.2f", bench, ours, m, theirs, least)
	}
	return nil
}

// The function "between" returns the goodput that the far end counts after a warm-up, in Gb/s. Each
// end is a process of its own.
func between(near, far place, kind string, size int, d time.Duration) (float64, error) {
	f, err := spawnAt(far, kind, "drain")
	if err != nil {
		return 0, err
	}
	defer f.end()
	n, err := spawnAt(near, kind, fmt.Sprintf("pump %d", size))
	if err != nil {
		return 0, err
	}
	defer n.end()
	late := time.AfterFunc(2*d+bridgeSpare, func() { n.cmd.Process.Kill(); f.cmd.Process.Kill() })
	defer late.Stop()
	if err := introduce(n, f); err != nil {
		return 0, fmt.Errorf("%s between two containers: %w", kind, err)
	}
	fmt.Fprintln(n.in, d+d/4)
	time.Sleep(d / 4)
	a, begin, err := f.counted()
	if err != nil {
		return 0, err
	}
	time.Sleep(d * 3 / 4)
	b, end, err := f.counted()
	if err != nil {
		return 0, err
	}
	if said, err := n.ask(""); err != nil {
		return 0, fmt.Errorf("%s: the near end: %w", kind, err)
	} else if said != "done" {
		return 0, fmt.Errorf("%s: the near end printed %q, want done", kind, said)
	}
	return float64(b-a) * 8 / end.Sub(begin).Seconds() / 1e9, nil
}

// introduce tells each of two ends the address of the other end, and waits until both ends are
// connected.
func introduce(a, b *other) error {
	at, err := a.ask("")
	if err != nil {
		return err
	}
	to, err := b.ask("")
	if err != nil {
		return err
	}
	if _, err = fmt.Fprintln(a.in, to); err == nil {
		_, err = fmt.Fprintln(b.in, at)
	}
	for _, o := range []*other{a, b} {
		if err == nil {
			_, err = o.ask("")
		}
	}
	return err
}

// counted returns the number of bytes that a far end has counted, and the time of its answer.
func (o *other) counted() (n uint64, at time.Time, err error) {
	s, err := o.ask("count")
	if err == nil {
		_, err = fmt.Sscan(s, &n)
	}
	return n, time.Now(), err
}
