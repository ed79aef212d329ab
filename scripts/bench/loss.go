package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
)

// lossPercents lists the rates of loss to measure, in percent of the packets.
var lossPercents = []int{0, 1, 5}

// lossChain names the chain of the packet filter that scripts/bench/loss makes.
const lossChain = "inet bench in"

// losses measures 4 KiB messages over a loopback on which the packet filter drops at random. A rule
// of the filter drops a super-packet as a whole. For comparison, losses also measures a link that
// drops single frames by itself.
func (b *bench) losses(round int, r *rand.Rand) error {
	if os.Getenv(lossEnv) == "" {
		return errors.New("-only loss needs a loopback that drops packets; use scripts/bench/loss")
	}
	type job struct {
		kind    string
		percent int
	}
	var jobs []job
	for _, percent := range lossPercents {
		for _, kind := range []string{"ttlink-fast", "ttlink-nogso", "tcp", "tcp-cubic", "quic"} {
			jobs = append(jobs, job{kind, percent})
		}
		if percent > 0 {
			jobs = append(jobs, job{fmt.Sprintf("ttlink-impaired-%d", percent), percent})
		}
	}
	for _, i := range r.Perm(len(jobs)) {
		j := jobs[i]
		if !b.chosen(j.kind) {
			continue
		}
		drop, kind := j.percent, j.kind
		if fmt.Sprintf("ttlink-impaired-%d", drop) == kind {
			drop, kind = 0, "ttlink-impaired"
		}
		if err := dropPercent(drop); err != nil {
			return err
		}
		g, err := goodput(j.kind, 4096, b.span)
		if err != nil {
			return err
		}
		b.add(result{Bench: fmt.Sprintf("loopback, 4096 B, %d %% loss", j.percent), Kind: kind, Unit: "Gb/s", Round: round, Value: g, Size: 4096, Loss: float64(j.percent)})
	}
	return nil
}

// lossEnv names an environment variable. If this variable is set, this program may change the
// packet filter.
const lossEnv = "TTFABRIC_BENCH_LOSS"

// dropPercent makes the packet filter drop n percent of the UDP and TCP packets that come in.
func dropPercent(n int) error {
	rules := "flush chain " + lossChain + "\n"
	if n > 0 {
		rules += fmt.Sprintf("add rule %s meta l4proto { udp, tcp } numgen random mod 100 lt %d drop\n", lossChain, n)
	}
	if out, err := exec.Command("nft", rules).CombinedOutput(); err != nil {
		return fmt.Errorf("nft %q: %w: %s", rules, err, out)
	}
	return nil
}
