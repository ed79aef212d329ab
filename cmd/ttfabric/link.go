package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"ttfabric/node/fabric/spec"
	"ttfabric/router/topo/pick"
	"ttfabric/wire"
)

// minFlap is the shortest cut of a flapping cable, and the shortest time from the end of a cut to
// the next cut. A call of a chip's API may take as long as minFlap.
const minFlap = 10 * time.Millisecond

func newLink() *cobra.Command {
	c := &cobra.Command{Use: "link", Short: "Cut cables, put cut cables back, and assign fallback cables"}
	c.AddCommand(newLinkDown(), newLinkUp(), newLinkFlap(), newLinkFallback())
	return c
}

func newLinkDown() *cobra.Command {
	var d time.Duration
	c := &cobra.Command{Use: "down LINK...", Short: "Cut cables, in both directions", Args: cobra.MinimumNArgs(1), ValidArgsFunction: completeLinks,
		Long: `The command cuts cables. The chips at both ends send nothing over a cut cable. The
chips notice the cut by the silence. With the profile lan, a link with traffic goes
down after 60 ms of silence, and an idle link after 240 ms. With the profile crowded,
these times are 250 ms and 620 ms. With the profile paced, these times are 1 s and
2.4 s. With --for the chips put the cable back by themselves.

` + linkHelp,
		Example: "  ttfabric link down M0D0:8\n  ttfabric link down M0D0-M0D1 --for 10s\n  ttfabric link down plane:1\n  ttfabric link down all --random 2 --seed 7",
		RunE: func(c *cobra.Command, args []string) error {
			if err := faultTime("--for", d); err != nil {
				return err
			}
			return cutArgs(c, args, true, d, "down")
		}}
	c.Flags().DurationVar(&d, "for", 0, "put the cables back after this time; 0: never")
	addRandom(c, "cables")
	return c
}

func newLinkUp() *cobra.Command {
	return &cobra.Command{Use: "up LINK...", Short: "Put back cut cables", Args: cobra.MinimumNArgs(1), ValidArgsFunction: completeLinks,
		Long: `The command puts back cables that 'link down', 'link flap' or 'partition' cut. The
links train again at once. The exception is a cable that a chip holds down because
the cable failed too often, see 'link flap'. 'ttfabric up -d' waits until all links
are up.

` + linkHelp,
		Example: "  ttfabric link up M0D0:8\n  ttfabric link up all",
		RunE:    func(c *cobra.Command, args []string) error { return cutArgs(c, args, false, 0, "put back") }}
}

func newHeal() *cobra.Command {
	return &cobra.Command{Use: "heal", Short: "Put back all cut cables, and end pauses, drains and cuts of gossip", Args: cobra.NoArgs,
		Long: `The command puts back every cable that 'partition', 'link down' or 'link flap' cut,
and every cable that 'reroute' or 'remove' took out of service. The command resumes the
routers that 'router pause' or 'router drain' stopped, and ends the cuts of the gossip
that 'partition --gossip' or 'gossip cut' made. Chips that refuse new requests, because
their 'chip remove' was interrupted, accept new requests again.

Impairments by 'netem set' and 'gossip impair' stay in force, and fallbacks assigned by
'link fallback' stay assigned. Chips that do not run stay down. The command names what
stays, and the command that ends it.`,
		Example: "  ttfabric heal",
		RunE: func(c *cobra.Command, _ []string) error {
			f, err := openFabric(c)
			if err != nil {
				return err
			}
			chips, err := f.Chips()
			if err != nil {
				return err
			}
			h, err := chips.Heal(c.Context())
			return errors.Join(printHealed(c, &h), err)
		}}
}

func cutArgs(c *cobra.Command, args []string, on bool, d time.Duration, done string) error {
	links, chips, err := linkArgs(c, args)
	if err != nil {
		return err
	}
	told, absent := links, []wire.FabricNodeID(nil)
	if on {
		absent, err = chips.Cut(c.Context(), links, on, d)
	} else {
		told, absent, err = chips.Uncut(c.Context(), links)
	}
	tellAbsent(c, absent)
	if err != nil {
		return err
	}
	return toldLinks(c, done, told)
}

func newLinkFlap() *cobra.Command {
	var every, down, total time.Duration
	c := &cobra.Command{Use: "flap LINK...", Short: "Cut cables again and again", Args: cobra.MinimumNArgs(1), ValidArgsFunction: completeLinks,
		Long: `The command cuts cables for a moment, again and again, until the time of --for is
over or until Ctrl-C. The chips put the cables back by themselves. So no cable stays
cut if the command is killed. An idle link does not notice a cut that is shorter than
the times in the help of 'link down'.

A chip holds a cable down after the cable has failed five times within ten
seconds. The first hold lasts 5 s, the second hold 10 s, and so on up to 5 minutes.
Each minute in use halves the length of the next hold. A parallel cable carries the
frames during a hold. If there is no parallel cable, the hold ends soon after the link
went down, and no packet is dropped: after 60 ms with the profile lan, 100 ms with
crowded, and 1 s with paced. 'inspect --links' and 'events' show holds. 'router
retrain' ends a hold.

` + linkHelp,
		Example: "  ttfabric link flap M0D0:8 --every 2s --down 500ms --for 30s",
		RunE: func(c *cobra.Command, args []string) error {
			if down < minFlap || every-down < minFlap {
				return spec.Usagef("--every %v --down %v: want --down at least %v, and --every longer than --down by at least %v", every, down, minFlap, minFlap)
			}
			if total < 0 {
				return spec.Usagef("--for %v: want a positive time, or 0 to flap until Ctrl-C", total)
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
	c.Flags().DurationVar(&every, "every", 2*time.Second, "time from the start of a cut to the start of the next cut")
	c.Flags().DurationVar(&down, "down", 500*time.Millisecond, "time for which each cut lasts")
	c.Flags().DurationVar(&total, "for", 0, "end after this time; 0: end at Ctrl-C")
	addRandom(c, "cables")
	return c
}

func newPartition() *cobra.Command {
	var d time.Duration
	var gossip bool
	c := &cobra.Command{Use: "partition CHIPS [CHIPS]", Short: "Cut every cable between two sets of chips", Args: cobra.RangeArgs(1, 2),
		Long: `The command cuts every cable between two sets of chips, in both directions. Without
a second set, the command cuts the first set off from the rest of the fabric. 'heal'
puts the cables back. With --for the chips put the cables back by themselves.

The gossip between the two sets continues, as in a machine whose hosts have a network
of their own. With --gossip, the command cuts the gossip too, and 'heal' ends both
cuts. 'gossip cut' cuts only the gossip.

CHIPS is a list of chips or patterns of chips: M0D0,M0D1 or 'M0D[0-3]' or 'M0D*'.`,
		Example: "  ttfabric partition M0D0,M0D4\n  ttfabric partition 'M0D*' 'M1D*' --for 10s\n  ttfabric partition M0D0,M0D4 --gossip\n  ttfabric heal",
		RunE: func(c *cobra.Command, args []string) error {
			if err := faultTime("--for", d); err != nil {
				return err
			}
			f, err := openFabric(c)
			if err != nil {
				return err
			}
			links, err := pick.Between(f.Topology, args[0], strings.Join(args[1:], ""))
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
				one, other, err := spec.TwoSets(f.Topology, args)
				if err != nil {
					return err
				}
				if _, err := chips.CutGossip(c.Context(), one, other, d); err != nil {
					return err
				}
			}
			return toldLinks(c, "down", links)
		}}
	c.Flags().BoolVar(&gossip, "gossip", false, "also cut the gossip between the two sets")
	c.ValidArgsFunction = completeChipNames
	c.Flags().DurationVar(&d, "for", 0, "end the cut after this time; 0: never")
	return c
}

func newLinkFallback() *cobra.Command {
	by := ""
	c := &cobra.Command{Use: "fallback LINK...", Short: "Show or assign the cable that carries a link's frames if the link's own cable cannot", Args: cobra.MinimumNArgs(1), ValidArgsFunction: completeLinks,
		Long: `If a link's own cable fails, is unreliable or is out of service, a parallel cable
carries the link's frames. For each link, the command shows which parallel cable would
do so: the cable of the next higher plane, if the cable works and is reliable. --by
assigns another parallel cable. While the assigned cable does not work, the chips
choose another. --by auto ends the assignment.

` + linkHelp,
		Example: "  ttfabric link fallback all\n  ttfabric link fallback M0D0-M0D1/p0 --by M0D0-M0D1/p3\n  ttfabric link fallback all --by auto",
		RunE: func(c *cobra.Command, args []string) error {
			f, err := format(c)
			if err != nil {
				return err
			}
			links, chips, err := linkArgs(c, args)
			if err != nil {
				return err
			}
			if by != "" {
				absent, err := chips.AssignFallback(c.Context(), links, by)
				tellAbsent(c, absent)
				if err != nil {
					return err
				}
			}
			rows := chips.Fallbacks(c.Context(), links)
			if f == "json" {
				return printJSON(c, rows)
			}
			tw := newTable(c, "Link", "Plane", "Carried by", "Fallback", "")
			for _, r := range rows {
				tw.AppendRow(table.Row{r.Link, r.Plane, r.CarriedBy, r.Fallback, r.Note()})
			}
			tw.Render()
			return nil
		}}
	c.Flags().StringVar(&by, "by", "", "assign this parallel cable, a LINK; auto: let the chips choose")
	return c
}
