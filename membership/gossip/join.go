package gossip

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"ttfabric/wire"
)

// join joins the pool. join tries random seeds until a seed answers. Some time later, join joins
// further random seeds, while chips are missing and no new chips come. If many chips have joined at
// once, the further seeds may know members that the first seed did not know.
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
	for done := 0; done < repairs && !p.complete(); {
		before := p.seen()
		if !sleep(ctx, p.jitter(p.cfg.pace.repairMin, p.cfg.pace.repairMax)) {
			return
		}
		if p.seen() > before {
			continue // gossip brings the missing chips
		}
		done++
		seeds := p.cfg.Seeds()
		if len(seeds) == 0 {
			continue
		}
		// Join a seed, and not any other member. If the pool has formed in two separate parts, the
		// members of each part know only each other. The seeds of both parts are the same.
		at := seeds[p.rng.IntN(len(seeds))]
		_, _ = p.list.Join([]string{at}) // ignore the error, because the seed may have just left
	}
	p.heal(ctx)
}

// heal reunites a pool that has split into parts. While chips are missing, heal tries now and then
// to join an address that belongs to no member. Memberlist itself forgets members that have been
// dead for long. Two separated parts would therefore not find each other again. If heal knows no
// such address, heal joins any seed, because the seed may know a chip whose announcement this chip
// has missed. As long as the number of chips does not change, heal tries less often. If no chip is
// missing, heal does nothing.
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
			_, _ = p.list.Join([]string{strangers[p.rng.IntN(len(strangers))]}) // ignore the error, because heal tries again later
		}
	}
}

// complete reports whether the pool sees all chips of the complete pool. If the number of these chips
// is unknown, complete returns false.
func (p *Pool) complete() bool { return p.cfg.Expect > 0 && p.seen() >= p.cfg.Expect }

// strangers returns the number of chips that the pool sees, and the addresses at which missing
// chips may be. The addresses are those of seeds that are not members, and the last known addresses
// of chips that the pool no longer sees. If there are no such addresses, strangers returns all
// seeds. If no chip is missing, strangers returns no addresses.
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
	if len(out) == 0 {
		out = p.cfg.Seeds() // a seed may have heard of the missing chips
	}
	slices.Sort(out) // without sorting, the order of maps would make the random choices irreproducible
	return len(seen), slices.Compact(out)
}

func (p *Pool) jitter(lo, hi time.Duration) time.Duration {
	return lo + time.Duration(p.rng.Int64N(int64(hi-lo)+1))
}

// sleep waits for d and returns true. If ctx ends first, sleep returns false at once.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
