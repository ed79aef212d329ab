package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"ttfabric/node/admin/api"
	"ttfabric/node/fabric"
	"ttfabric/node/fabric/spec"
	"ttfabric/wire"
)

func newGossip() *cobra.Command {
	c := &cobra.Command{Use: "gossip", Short: "Impair, cut and show the gossip between chips, and change the keys of gossip",
		Long: `Chips learn by gossip which chips are alive, and the addresses of these chips.
Gossip does not use the fabric's cables, and never takes a link up or down. The
chips of each mesh form a gossip pool. All chips with a cable to another mesh form
one more pool.`}
	c.AddCommand(newGossipShow(), newGossipImpair(), newGossipCut(), newGossipHeal(), newGossipKeygen(), newGossipKeys())
	return c
}

func completeChipLists(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return append([]string{"all"}, chipNames(c)...), cobra.ShellCompDirectiveNoFileComp
}

func newGossipShow() *cobra.Command {
	return &cobra.Command{Use: "show [CHIPS...]", Short: "Show the state of the gossip, and its impairments", ValidArgsFunction: completeChipLists,
		Long: `The command prints a row per chip and pool. A row holds the number of chips of the
pool that the chip sees, and the cuts and impairments in force. The row also holds the
numbers of packets that cuts and impairments have affected since the chip's start.

Unreadable counts the streams that the chip could not read: the sender used a key that
the chip does not have, or only one of the two chips encrypts its gossip. Refused counts
three things: refused claims of a process to be a chip of the fabric, messages whose
encryption the chip does not accept, and datagrams that are too long.

` + chipsHelp,
		Example: "  ttfabric gossip show\n  ttfabric gossip show M0D0,M0D4 -o json",
		RunE: func(c *cobra.Command, args []string) error {
			chips, s, err := gossipArgs(c, args)
			if err != nil {
				return err
			}
			if len(args) == 0 {
				chips = s.All()
			}
			return showGossip(c, s, chips)
		}}
}

func showGossip(c *cobra.Command, s *fabric.Chips, chips []wire.FabricNodeID) error {
	views, absent, err := s.Gossip(c.Context(), chips)
	tellAbsent(c, absent)
	views = append([]api.GossipView{}, views...)
	if f, _ := format(c); f == "json" {
		return errors.Join(printJSON(c, views), err)
	}
	tw := newTable(c, "Chip", "Pool", "Address", "Sees", "In force", "Ends in", "Passed", "Lost", "Cut off", "Unreadable", "Refused", "Key")
	tw.Least("Unreadable", "Refused", "Cut off", "Key", "Passed", "Lost", "Pool", "Ends in", "Address")
	for _, v := range views {
		for _, p := range v.Pools {
			n := v.Counters
			tw.AppendRow(table.Row{v.Chip, p.Label[strings.LastIndexByte(p.Label, '/')+1:], p.Address, fmt.Sprintf("%d/%d", p.Seen, p.Expected),
				gossipInForce(&v), endsIn(&api.ImpairmentView{CutEndsInS: v.CutEndsInS, EndsInS: v.EndsInS}),
				n["passed"], n["lost"] + n["burst_lost"], n["cut_off"], p.Unreadable, p.Refused + p.Versions, keyWords(p.Keys)})
		}
	}
	tw.Render()
	return err
}

// gossipInForce returns the cuts and impairments of a chip's gossip in words, or "-" if
// there are none.
func gossipInForce(v *api.GossipView) string {
	var words []string
	switch {
	case v.Alone:
		words = append(words, "cut off")
	case len(v.Apart) > maxListed:
		words = append(words, fmt.Sprintf("cut off from %d chips", len(v.Apart)))
	case len(v.Apart) > 0:
		words = append(words, "cut off from "+strings.Join(nodeNames(v.Apart), " "))
	}
	if v.Options != "" {
		words = append(words, v.Options)
	}
	if len(words) == 0 {
		return "-"
	}
	return strings.Join(words, ", ")
}

func newGossipImpair() *cobra.Command {
	var f impairFlags
	c := &cobra.Command{Use: "impair CHIPS...", Short: "Delay, lose and damage gossip packets", Args: cobra.MinimumNArgs(1),
		ValidArgsFunction: completeChipLists,
		Long: `The command makes chips treat gossip as a bad network would. The chips delay, lose
and damage gossip packets. Gossip also uses streams, which behave like TCP. Delay
and loss make the data of a stream late, but no data are lost or damaged.

The command changes only the impairments that the flags name. The value 0 ends one
impairment, and 'gossip heal' ends all impairments. A restarted chip has no
impairment of its gossip. Flags and units are the same as for 'netem set'.

` + chipsHelp,
		Example: `  ttfabric gossip impair all --delay 200ms --jitter 50ms --loss 20%
  ttfabric gossip impair 'M0D[0-3]' --loss 50% --duration 30s`,
		RunE: func(c *cobra.Command, args []string) error {
			change, seed, err := f.read(c)
			if err != nil {
				return err
			}
			body := api.GossipBody{Options: change, Seed: seed, ForS: f.duration.Seconds()}
			chips, s, err := gossipArgs(c, args)
			if err != nil {
				return err
			}
			absent, err := s.AtChips(c.Context(), chips, func(ctx context.Context, cl *api.Client) error { return cl.SetGossip(ctx, body) })
			tellAbsent(c, absent)
			if err != nil {
				return err
			}
			return toldChips(c, "impaired", chips)
		}}
	f.add(c, "each chip")
	return c
}

func newGossipCut() *cobra.Command {
	var d time.Duration
	c := &cobra.Command{Use: "cut CHIPS [CHIPS]", Short: "Cut the gossip between two sets of chips", Args: cobra.RangeArgs(1, 2),
		ValidArgsFunction: completeChipLists,
		Long: `The command stops the gossip between two sets of chips, in both directions. Without
a second set, the command cuts the first set off from all other chips. The command
does not affect links. 'partition' cuts cables, and 'partition --gossip' cuts cables
and gossip.

'gossip heal' and 'heal' end the cut. With --for the chips end the cut by
themselves. The cut does not affect chips that start after the cut began.

` + chipsHelp,
		Example: "  ttfabric gossip cut M0D3\n  ttfabric gossip cut 'M0D*' 'M1D*' --for 1m\n  ttfabric gossip heal",
		RunE: func(c *cobra.Command, args []string) error {
			if err := faultTime("--for", d); err != nil {
				return err
			}
			_, s, err := gossipArgs(c, args)
			if err != nil {
				return err
			}
			one, other, err := spec.TwoSets(s.Topology, args)
			if err != nil {
				return err
			}
			absent, err := s.CutGossip(c.Context(), one, other, d)
			tellAbsent(c, absent)
			if err != nil {
				return err
			}
			return toldChips(c, "cut off", one)
		}}
	c.Flags().DurationVar(&d, "for", 0, "end the cut after this time; 0: never")
	return c
}

func newGossipHeal() *cobra.Command {
	return &cobra.Command{Use: "heal", Short: "End all cuts and impairments of the gossip", Args: cobra.NoArgs,
		Long: `The command ends all cuts and impairments of the gossip that 'gossip cut', 'gossip
impair' and 'partition --gossip' made. Chips then find missing chips again by
themselves. Chips look for missing chips every few seconds, or every half minute
after a long cut.`,
		Example: "  ttfabric gossip heal",
		RunE: func(c *cobra.Command, _ []string) error {
			_, s, err := gossipArgs(c, []string{"all"})
			if err != nil {
				return err
			}
			healed, err := s.HealGossip(c.Context(), true)
			if err != nil {
				return err
			}
			return toldChips(c, "put back", healed)
		}}
}
