package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

const (
	// bridgeMTU is that of the containers' network, in bytes: what Docker gives unasked.
	bridgeMTU = 1500
	// bridgeSize is a message: a packet of the usual size, which takes several frames.
	bridgeSize = 4096
	// bridgeShare is how much of the raw datagrams' goodput a link must have.
	bridgeShare = 0.5
	// bridgeSpare is for both ends to begin and to end, beyond the measurement's time.
	bridgeSpare = 10 * time.Second
)

// bridgeKinds are the transports that cross the bridge, with the size of their
// messages: raw datagrams are as long as the path takes.
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

// containers measures with each end in a container of its own, on one bridge.
// What runs here only steers.
func (b *bench) containers(round int, r *rand.Rand) error {
	near, far, ok := strings.Cut(b.pair, " ")
	if !ok {
		return errors.New("-only container needs two containers on a bridge: use scripts/bench/container")
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

// share checks that of two kinds the first has at least a share of the other's
// figure, by the median of the rounds' ratios.
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

// between is what the far end counts per second, in Gb/s, after a warm-up, of what another process sends it.
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
	if said, err := n.ask(""); err != nil || said != "done" {
		return 0, fmt.Errorf("%s: the near end says %q: %w", kind, said, err)
	}
	return float64(b-a) * 8 / end.Sub(begin).Seconds() / 1e9, nil
}

// introduce tells each of two ends where the other is, and waits until they have met.
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

// counted is what a far end has counted, in bytes, and when it said so.
func (o *other) counted() (n uint64, at time.Time, err error) {
	s, err := o.ask("count")
	if err == nil {
		_, err = fmt.Sscan(s, &n)
	}
	return n, time.Now(), err
}
