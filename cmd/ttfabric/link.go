package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"ttfabric/node/admin/api"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// minFlap is the shortest time down, and up, of a flapping cable: what a chip's API may take.
const minFlap = 10 * time.Millisecond

func newLink() *cobra.Command {
	c := &cobra.Command{Use: "link", Short: "Cut cables and put them back"}
	c.AddCommand(newLinkDown(), newLinkUp(), newLinkFlap())
	return c
}

func newLinkDown() *cobra.Command {
	var d time.Duration
	c := &cobra.Command{Use: "down LINK...", Short: "Cut cables, in both directions", Args: cobra.MinimumNArgs(1), ValidArgsFunction: completeLinks,
		Long: `down cuts cables: the chips at both ends send nothing over them any more, and
notice by the silence. A link that carries something is down after 60 ms of it
with the profile lan and 250 ms with crowded; an idle one after 2 s and 5 s.
With --for the chips put the cable back by themselves.

` + linkHelp,
		Example: "  ttfabric link down M0D0:8\n  ttfabric link down M0D0-M0D1 --for 10s\n  ttfabric link down plane:1",
		RunE: func(c *cobra.Command, args []string) error {
			if err := faultTime("--for", d); err != nil {
				return err
			}
			return cutArgs(c, args, true, d, "down")
		}}
	c.Flags().DurationVar(&d, "for", 0, "put them back after this time; 0: they stay down")
	return c
}

func newLinkUp() *cobra.Command {
	return &cobra.Command{Use: "up LINK...", Short: "Put cables back that were cut", Args: cobra.MinimumNArgs(1), ValidArgsFunction: completeLinks,
		Long: `up puts cables back that 'link down', 'link flap' or 'partition' cut. The links
train again at once, but for a cable that is held down because it failed too
often; see 'link flap'. 'ttfabric up -d' waits until all are up.

` + linkHelp,
		Example: "  ttfabric link up M0D0:8\n  ttfabric link up all",
		RunE:    func(c *cobra.Command, args []string) error { return cutArgs(c, args, false, 0, "put back") }}
}

func newHeal() *cobra.Command {
	return &cobra.Command{Use: "heal", Short: "Put back every cable that was cut, and the gossip", Args: cobra.NoArgs,
		Long: `heal puts back every cable that 'partition', 'link down' or 'link flap' cut, as
'link up all' does, and the gossip that 'partition --gossip' or 'gossip cut'
cut. What 'netem set' and 'gossip impair' do stays.`,
		Example: "  ttfabric heal",
		RunE: func(c *cobra.Command, _ []string) error {
			if err := cutArgs(c, []string{"all"}, false, 0, "put back"); err != nil {
				return err
			}
			_, s, err := gossipArgs(c, []string{"all"})
			if err != nil {
				return err
			}
			healed, err := s.healGossip(c, false)
			if f, _ := format(c); err == nil && len(healed) > 0 && f != "json" {
				return toldChips(c, "put back", healed)
			}
			return err
		}}
}

func cutArgs(c *cobra.Command, args []string, on bool, d time.Duration, done string) error {
	if _, err := format(c); err != nil {
		return err
	}
	links, chips, err := linkArgs(c, args)
	if err != nil {
		return err
	}
	told := links
	if !on {
		told = chips.cutOnes(c.Context(), links)
	}
	if err := chips.cut(c, links, on, d); err != nil {
		return err
	}
	return toldLinks(c, done, told)
}

// cutOnes are those of links that are cut in any direction. Chips that do not answer are left out.
func (s *chipSet) cutOnes(ctx context.Context, links []link) []link {
	ctx, cancel := context.WithTimeout(ctx, tellTime)
	defer cancel()
	where, _ := ends(links, "both")
	var mu sync.Mutex
	var wg sync.WaitGroup
	cut := map[wire.PortID]bool{}
	for n := range where {
		client := s.clients[n]
		if client == nil {
			continue
		}
		wg.Go(func() {
			views, _ := client.Netem(ctx)
			mu.Lock()
			defer mu.Unlock()
			for _, v := range views {
				cut[wire.PortID{Node: v.Chip, Channel: v.Channel}] = v.Cut
			}
		})
	}
	wg.Wait()
	var out []link
	for _, l := range links {
		if cut[l.a] || cut[l.b] {
			out = append(out, l)
		}
	}
	return out
}

// cut takes cables away, or puts them back.
func (s *chipSet) cut(c *cobra.Command, links []link, on bool, d time.Duration) error {
	where, _ := ends(links, "both")
	return s.at(c, where, func(ctx context.Context, cl *api.Client, chs []wire.Channel) error {
		return cl.SetNetem(ctx, api.NetemBody{Channels: chs, Cut: &on, ForS: d.Seconds()})
	})
}

func newLinkFlap() *cobra.Command {
	var every, down, total time.Duration
	c := &cobra.Command{Use: "flap LINK...", Short: "Cut cables again and again", Args: cobra.MinimumNArgs(1), ValidArgsFunction: completeLinks,
		Long: `flap cuts cables for a moment, again and again, until --for is over or Ctrl-C.
The chips put the cables back by themselves, so that none stays cut when flap
is killed. An idle link does not notice a short cut; see 'link down'.

A cable that a chip sees fail five times within ten seconds is held down: for 5 s,
after the next failure for 10 s, and so on up to 5 minutes; each minute in use
takes one doubling back. Its frames go by a parallel cable meanwhile. Where there
is none, it is held for a tenth to half a second only, which drops no packet.
'inspect --links' shows holds, 'events' tells of them, 'router retrain' ends one.

` + linkHelp,
		Example: "  ttfabric link flap M0D0:8 --every 2s --down 500ms --for 30s",
		RunE: func(c *cobra.Command, args []string) error {
			if down < minFlap || every-down < minFlap {
				return coded(exitUsage, "--every %v --down %v: want at least %v down and as much up", every, down, minFlap)
			}
			if total < 0 {
				return coded(exitUsage, "--for %v: want 0, until Ctrl-C, or more", total)
			}
			if _, err := format(c); err != nil {
				return err
			}
			links, chips, err := linkArgs(c, args)
			if err != nil {
				return err
			}
			n, err := chips.flap(c, links, every, down, total)
			if err != nil {
				return err
			}
			return toldLinks(c, fmt.Sprintf("cut %d times", n), links)
		}}
	c.Flags().DurationVar(&every, "every", 2*time.Second, "time from cut to cut")
	c.Flags().DurationVar(&down, "down", 500*time.Millisecond, "how long they stay cut")
	c.Flags().DurationVar(&total, "for", 0, "end after this time; 0: at Ctrl-C")
	return c
}

// flap returns how often it has cut the links. It returns when they are back.
func (s *chipSet) flap(c *cobra.Command, links []link, every, down, total time.Duration) (int, error) {
	begin := time.Now()
	for n := 1; ; n++ {
		if err := s.cut(c, links, true, down); err != nil {
			return n, err
		}
		back := time.Now().Add(down)
		next := begin.Add(time.Duration(n) * every)
		if total > 0 && next.Add(down).Sub(begin) > total {
			next = back
		}
		select {
		case <-c.Context().Done():
			time.Sleep(time.Until(back))
			return n, nil
		case <-time.After(time.Until(next)):
		}
		if next == back {
			return n, nil
		}
	}
}

func newPartition() *cobra.Command {
	var d time.Duration
	var gossip bool
	c := &cobra.Command{Use: "partition CHIPS [CHIPS]", Short: "Cut every cable between two sets of chips", Args: cobra.RangeArgs(1, 2),
		Long: `partition cuts every cable between two sets of chips, in both directions;
without the second set, between the first and the rest of the fabric. 'heal'
puts the cables back, or the chips do after --for. The gossip between the
chips goes on, as on machines whose hosts talk over a network of their own;
with --gossip it is cut as well, and 'heal' puts it back, too. 'gossip cut'
cuts only that.

CHIPS is a list of chips, or of patterns of them: M0D0,M0D1 or 'M0D[0-3]' or 'M0D*'.`,
		Example: "  ttfabric partition M0D0,M0D4\n  ttfabric partition 'M0D*' 'M1D*' --for 10s\n  ttfabric partition M0D0,M0D4 --gossip\n  ttfabric heal",
		RunE: func(c *cobra.Command, args []string) error {
			if err := faultTime("--for", d); err != nil {
				return err
			}
			if _, err := format(c); err != nil {
				return err
			}
			dir, err := dirOf(c)
			if err != nil {
				return err
			}
			_, t, _, err := dir.mesh()
			if err != nil {
				return err
			}
			links, err := between(t, args)
			if err != nil {
				return err
			}
			chips, err := openChips(dir)
			if err != nil {
				return err
			}
			if err := chips.cut(c, links, true, d); err != nil {
				return err
			}
			if gossip {
				one, other, err := twoSets(t, args)
				if err != nil {
					return err
				}
				if err := chips.cutGossip(c, one, other, d); err != nil {
					return err
				}
			}
			return toldLinks(c, "down", links)
		}}
	c.Flags().BoolVar(&gossip, "gossip", false, "cut the gossip between the two sets as well")
	c.ValidArgsFunction = func(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return chipNames(c), cobra.ShellCompDirectiveNoFileComp
	}
	c.Flags().DurationVar(&d, "for", 0, "put the cables back after this time; 0: they stay down")
	return c
}

// between are the cables between two lists of chips, or between one and the rest.
func between(t *topo.Topology, args []string) ([]link, error) {
	ls, err := t.Between(args[0], strings.Join(args[1:], ""))
	return toLinks(ls), usage(err)
}
