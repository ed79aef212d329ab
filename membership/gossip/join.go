package gossip

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"ttfabric/wire"
)

// join joins the pool. join tries a random seed, again and again until a seed answers. Then join
// joins further seeds. In this way join finds members that it missed while many chips joined at
// once.
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
		// The pool joins a seed and not just any member. Two parts of a pool that formed at the
		// same time know only their own members, but they have the same seeds.
		at := seeds[p.rng.IntN(len(seeds))]
		_, _ = p.list.Join([]string{at}) // a failure does not matter: the member may have just gone
	}
	p.heal(ctx)
}

// From time to time while chips are missing, heal joins a process that is not a member. Memberlist
// forgets members that have been dead for long. Without heal, the parts of a pool that lost sight
// of each other would therefore not find each other again. While heal finds no process, it searches
// less often. For a complete pool, heal does nothing.
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

// strangers returns the addresses at which missing chips may be: seeds that are not members, and
// the last addresses of chips that the pool no longer sees. If no chip is missing, strangers
// returns no address. strangers also returns how many chips the pool sees.
func (p *Pool) strangers() (chips int, out []string) {
	member := map[string]bool{} // addresses of members
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

// sleep waits for d. When ctx has ended, sleep reports false.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
