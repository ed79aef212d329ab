package gossip

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"ttfabric/wire"
)

// join finds the pool: a random seed, again and again until one answers, then others to mend what the rush has missed.
func (p *Pool) join(ctx context.Context) {
	wait := retryMin
	for {
		seeds := p.cfg.Seeds()
		if len(seeds) > 0 {
			if _, err := p.list.Join([]string{seeds[p.rng.IntN(len(seeds))]}); err == nil {
				break
			}
		}
		if !sleep(ctx, p.jitter(wait/2, wait)) {
			return
		}
		wait = min(2*wait, retryMax)
	}
	for range repairs {
		if !sleep(ctx, p.jitter(p.cfg.pace.repairMin, p.cfg.pace.repairMax)) {
			return
		}
		seeds := p.cfg.Seeds()
		if len(seeds) == 0 {
			continue
		}
		// A seed and not just any member: two islands that formed at once know only their own members, but share the seeds.
		at := seeds[p.rng.IntN(len(seeds))]
		_, _ = p.list.Join([]string{at}) // a member that has just gone is no matter
	}
	p.heal(ctx)
}

// heal joins somebody who is no member, now and then while chips are missing:
// memberlist forgets who has been dead for long, so that the parts of a pool
// that lost sight of each other would not find together again by themselves.
// While nobody is found it looks less often; a whole pool is left alone.
func (p *Pool) heal(ctx context.Context) {
	seen, doublings := 0, 0
	for {
		k := time.Duration(1 << doublings)
		if !sleep(ctx, p.jitter(k*p.cfg.pace.healMin, k*p.cfg.pace.healMax)) {
			return
		}
		chips, strangers := p.strangers()
		if chips != seen {
			doublings = 0
		} else {
			doublings = min(doublings+1, healDoublings)
		}
		seen = chips
		if len(strangers) > 0 {
			_, _ = p.list.Join([]string{strangers[p.rng.IntN(len(strangers))]}) // it may be gone; there is a next time
		}
	}
}

// strangers are the addresses where missing chips may be: seeds that are no
// members, and where those were last that are not seen any more. There are none
// where no chip is missing. It returns how many chips are seen, too.
func (p *Pool) strangers() (chips int, out []string) {
	member := map[string]bool{} // by address
	seen := map[wire.FabricNodeID]bool{}
	p.mu.Lock()
	for _, at := range p.here {
		member[at] = true
	}
	for _, m := range p.view.Members() {
		seen[m.Meta.Node] = true
	}
	want := p.cfg.Expect
	if want == 0 {
		want = p.most
	}
	if len(seen) < want {
		for n, at := range p.last {
			if !seen[n] && !member[at] {
				out = append(out, fmt.Sprintf("%s/%s", n, at))
			}
		}
	}
	p.mu.Unlock()
	if len(seen) >= want {
		return len(seen), nil
	}
	for _, s := range p.cfg.Seeds() {
		if !member[s[strings.LastIndexByte(s, '/')+1:]] {
			out = append(out, s)
		}
	}
	slices.Sort(out) // a map has no order, and the dice are to fall alike
	return len(seen), slices.Compact(out)
}

func (p *Pool) jitter(lo, hi time.Duration) time.Duration {
	return lo + time.Duration(p.rng.Int64N(int64(hi-lo)+1))
}

// sleep waits for d; false when ctx has ended.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
