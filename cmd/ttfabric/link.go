package main

import (
	"fmt"
	"strings"
	"time"

	"ttfabric/node/fabric/spec"

	"github.com/spf13/cobra"
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
			healed, err := s.HealGossip(c.Context(), false)
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
		told = chips.CutNow(c.Context(), links)
	}
	absent, err := chips.Cut(c.Context(), links, on, d)
	tellAbsent(c, absent)
	if err != nil {
		return err
	}
	return toldLinks(c, done, told)
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
				return spec.Usagef("--every %v --down %v: want at least %v down and as much up", every, down, minFlap)
			}
			if total < 0 {
				return spec.Usagef("--for %v: want 0, until Ctrl-C, or more", total)
			}
			if _, err := format(c); err != nil {
				return err
			}
			links, chips, err := linkArgs(c, args)
			if err != nil {
				return err
			}
			n, absent, err := chips.Flap(c.Context(), links, every, down, total)
			tellAbsent(c, absent)
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
			f, err := openFabric(c)
			if err != nil {
				return err
			}
			links, err := f.Topology.Between(args[0], strings.Join(args[1:], ""))
			if err != nil {
				return spec.AsUsage(err)
			}
			chips, err := f.Chips()
			if err != nil {
				return err
			}
			absent, err := chips.Cut(c.Context(), links, true, d)
			tellAbsent(c, absent)
			if err != nil {
				return err
			}
			if gossip {
				one, other, err := twoSets(f.Topology, args)
				if err != nil {
					return err
				}
				if _, err := chips.CutGossip(c.Context(), one, other, d); err != nil {
					return err
				}
			}
			return toldLinks(c, "down", links)
		}}
	c.Flags().BoolVar(&gossip, "gossip", false, "cut the gossip between the two sets as well")
	c.ValidArgsFunction = completeChipNames
	c.Flags().DurationVar(&d, "for", 0, "put the cables back after this time; 0: they stay down")
	return c
}
