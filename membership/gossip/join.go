package gossip

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"ttfabric/wire"
)

// join joins the pool. join tries a random seed, again and again until one answers. Then it joins
// others to find members that it missed while many chips joined at once.
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
		// The pool joins a seed, not any member. Two parts of a pool that formed at once know only their
		// own members, but have the same seeds.
		at := seeds[p.rng.IntN(len(seeds))]
		_, _ = p.list.Join([]string{at}) // a member that has just gone does not matter
	}
	p.heal(ctx)
}

// heal joins a process that is not a member, from time to time while chips are missing. Memberlist
// forgets members that have been dead for long. So the parts of a pool that lost sight of each
// other would not find each other again by themselves. While it finds nobody, heal searches less
// often. heal does nothing for a complete pool.
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
			_, _ = p.list.Join([]string{strangers[p.rng.IntN(len(strangers))]}) // the process may be gone; heal tries again later
		}
	}
}

// strangers are the addresses where missing chips may be: seeds that are not members, and the last
// addresses of chips that are no longer seen. There are none if no chip is missing. strangers also
// returns how many chips are seen.
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
	slices.Sort(out) // a map has no order, and the same seed must give the same choices
	return len(seen), slices.Compact(out)
}

func (p *Pool) jitter(lo, hi time.Duration) time.Duration {
	return lo + time.Duration(p.rng.Int64N(int64(hi-lo)+1))
}

// sleep waits for d. sleep reports false when ctx has ended.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
