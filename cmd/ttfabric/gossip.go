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
	"ttfabric/ttlink/fault"
	"ttfabric/wire"
)

func newGossip() *cobra.Command {
	c := &cobra.Command{Use: "gossip", Short: "Impair, cut and show the gossip between chips, and change its keys",
		Long: `gossip is about how chips learn of each other: who is alive, and at which
address. It runs beside the fabric, and no link comes up or goes down because
of it. One pool holds the chips of a mesh, another one all that have a cable to another mesh.`}
	c.AddCommand(newGossipShow(), newGossipImpair(), newGossipCut(), newGossipHeal(), newGossipKeygen(), newGossipKeys())
	return c
}

func completeChipLists(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return append([]string{"all"}, chipNames(c)...), cobra.ShellCompDirectiveNoFileComp
}

func newGossipShow() *cobra.Command {
	return &cobra.Command{Use: "show [CHIPS...]", Short: "Show how the gossip fares, and what is done to it", ValidArgsFunction: completeChipLists,
		Long:    "show prints a row per chip and pool: how many chips it sees, what is done to its gossip on purpose, and what came of that since the chip's start.\n\n" + chipsHelp,
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
	tw := newTable(c, "Chip", "Pool", "Address", "Sees", "In force", "Ends in", "Passed", "Lost", "Cut off", "Unreadable", "Key")
	for _, v := range views {
		for _, p := range v.Pools {
			n := v.Counters
			tw.AppendRow(table.Row{v.Chip, p.Label[strings.LastIndexByte(p.Label, '/')+1:], p.Address, fmt.Sprintf("%d/%d", p.Seen, p.Expected),
				gossipInForce(&v), endsIn(&api.ImpairmentView{CutEndsInS: v.CutEndsInS, EndsInS: v.EndsInS}),
				n["passed"], n["lost"] + n["burst_lost"], n["cut_off"], p.Unreadable, keyWords(p.Keys)})
		}
	}
	tw.Render()
	return err
}

// gossipInForce is what is done to a chip's gossip, in words.
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
	var seed uint64
	var duration time.Duration
	values := make([]string, len(fault.Knobs))
	c := &cobra.Command{Use: "impair CHIPS...", Short: "Delay, lose and damage what chips gossip; what is not named stays as it is", Args: cobra.MinimumNArgs(1),
		ValidArgsFunction: completeChipLists,
		Long: `impair does to what chips gossip what a bad network would: packets are late,
lost and damaged; streams are late where packets are late or lost, and whole,
as TCP's are. It changes only what is named; 0 takes one impairment away, and
'gossip heal' all of them. A chip that is restarted gossips undisturbed.

Flags and units are those of 'netem set'. 

` + chipsHelp,
		Example: `  ttfabric gossip impair all --delay 200ms --jitter 50ms --loss 20%
  ttfabric gossip impair 'M0D[0-3]' --loss 50% --duration 30s`,
		RunE: func(c *cobra.Command, args []string) error {
			body := api.GossipBody{Options: fault.Change{}, ForS: duration.Seconds()}
			for i, k := range fault.Knobs {
				if c.Flags().Changed(k.Name) {
					body.Options[k.Name] = values[i]
				}
			}
			if c.Flags().Changed("seed") {
				body.Seed = &seed
			}
			if _, err := body.Options.Apply(fault.Options{}); err != nil {
				return spec.Usagef("--%w", err)
			}
			if len(body.Options) == 0 && body.Seed == nil {
				return spec.Usagef("name what is to happen, such as --delay 200ms or --loss 20%%; see '%s --help'", c.CommandPath())
			}
			if err := faultTime("--duration", duration); err != nil {
				return err
			}
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
	for i, k := range fault.Knobs {
		c.Flags().StringVar(&values[i], k.Name, "", k.Help)
	}
	c.Flags().Uint64Var(&seed, "seed", 0, "throw the dice anew from this seed; each chip has dice of its own")
	c.Flags().DurationVar(&duration, "duration", 0, "put it back after this time; 0: it stays")
	return c
}

func newGossipCut() *cobra.Command {
	var d time.Duration
	c := &cobra.Command{Use: "cut CHIPS [CHIPS]", Short: "Cut the gossip between two sets of chips", Args: cobra.RangeArgs(1, 2),
		ValidArgsFunction: completeChipLists,
		Long: `cut takes the gossip between two sets of chips away, in both directions;
without the second set, between the first and all other chips. The links stay
as they are: 'partition' cuts cables, and 'partition --gossip' both. 'gossip
heal' and 'heal' put the gossip back, or the chips do after --for. Chips that
are started meanwhile are on no side of the cut.

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
			one, other, err := twoSets(s.Topology, args)
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
	c.Flags().DurationVar(&d, "for", 0, "put it back after this time; 0: it stays cut")
	return c
}

func newGossipHeal() *cobra.Command {
	return &cobra.Command{Use: "heal", Short: "Take back all that is done to the gossip", Args: cobra.NoArgs,
		Long: `heal takes back what 'gossip cut', 'gossip impair' and 'partition --gossip' did.
Chips that lost sight of each other look for the missing ones by themselves,
every few seconds, or every half minute where they were apart for long.`,
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
