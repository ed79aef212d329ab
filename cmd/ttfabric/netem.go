package main

import (
	"errors"
	"fmt"
	"slices"
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

func newNetem() *cobra.Command {
	c := &cobra.Command{Use: "netem", Short: "Impair cables: delay, loss, rate, corruption and more",
		Long: `netem does to what goes over a cable what a bad network would. The chips do it
themselves, to each datagram that they send, so that no privilege is needed.
The dice have a seed: one seed and the same datagrams give the same faults.

` + kernelHelp + "\n\n" + linkHelp}
	c.AddCommand(newNetemSet(), newNetemShow(), newNetemReset())
	return c
}

func newNetemSet() *cobra.Command {
	var direction string
	var seed uint64
	var duration time.Duration
	var k kernelFlags
	values := make([]string, len(fault.Knobs))
	c := &cobra.Command{Use: "set LINK...", Short: "Impair cables; what is not named stays as it is", Args: cobra.MinimumNArgs(1), ValidArgsFunction: completeLinks,
		Long: `set impairs cables, in both directions unless --direction says otherwise: a
delay of 10ms adds 20ms to a round trip. It changes only what is named; 0
takes one impairment away, and 'netem reset' all of them. With --duration the
chips put back by themselves what was named. A chip that is restarted has only
what 'up --netem' declared.

Flags and units are those of containerlab and tc-netem(8): shares are
percentages with or without the sign, and a bare rate is kbit. Where more than
1 MiB waits for a limited rate, what comes is lost.

` + kernelHelp + "\n\n" + linkHelp,
		Example: `  ttfabric netem set M0D0-M0D1 --delay 10ms --jitter 2ms
  ttfabric netem set plane:1 --loss 1% --seed 7
  ttfabric netem set M0D0:8 --rate 100Mbit --direction a-to-b
  ttfabric netem set all --corruption 0.1% --duration 30s
  sudo ttfabric netem set M0D0-M0D1/p0 --delay 10ms --loss 1% --backend kernel
  ttfabric netem set 'M0D*-M1D*' --loss-gemodel 1%,10%,70%,0.1%`,
		RunE: func(c *cobra.Command, args []string) error {
			body := api.NetemBody{Options: fault.Change{}, ForS: duration.Seconds()}
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
				return spec.Usagef("name what is to happen, such as --delay 10ms or --loss 1%%; see '%s --help'", c.CommandPath())
			}
			if err := faultTime("--duration", duration); err != nil {
				return err
			}
			if k.asked(c) {
				return k.set(c, args, direction, body, duration)
			}
			return setNetem(c, args, direction, body)
		}}
	k.add(c)
	for i, k := range fault.Knobs {
		c.Flags().StringVar(&values[i], k.Name, "", k.Help)
	}
	c.Flags().Uint64Var(&seed, "seed", 0, "throw the dice anew from this seed; each cable and direction has dice of its own")
	c.Flags().DurationVar(&duration, "duration", 0, "put it back after this time; 0: it stays")
	c.Flags().StringVar(&direction, "direction", "both", "both, a-to-b or b-to-a; a is the end that LINK names first, or the lower one")
	return c
}

func setNetem(c *cobra.Command, args []string, direction string, body api.NetemBody) error {
	if _, err := format(c); err != nil {
		return err
	}
	links, chips, err := linkArgs(c, args)
	if err != nil {
		return err
	}
	where, err := spec.Ends(links, direction)
	if err != nil {
		return err
	}
	absent, err := chips.Impair(c.Context(), where, body)
	tellAbsent(c, absent)
	if err != nil {
		return err
	}
	return showNetem(c, chips, where, false)
}

func newNetemShow() *cobra.Command {
	var k kernelFlags
	c := &cobra.Command{Use: "show [LINK...]", Short: "Show what is in force, and what it did", ValidArgsFunction: completeLinks,
		Long: `show prints a row per direction: what is in force, and what has been done to
the datagrams that were sent since it is. Without LINK it prints only the
directions to which something is done. The kernel (--backend kernel) counts what
it passes on and loses, and nothing else.

` + linkHelp,
		Example: "  ttfabric netem show\n  ttfabric netem show M0D0-M0D1\n  ttfabric netem show all -o json",
		RunE: func(c *cobra.Command, args []string) error {
			only := len(args) == 0
			if only {
				args = []string{"all"}
			}
			if k.asked(c) {
				return k.show(c, args, only)
			}
			links, chips, err := linkArgs(c, args)
			if err != nil {
				return err
			}
			where, _ := spec.Ends(links, "both")
			return showNetem(c, chips, where, only)
		}}
	k.add(c)
	return c
}

// showNetem prints what is done at the ends; with only, where something is.
func showNetem(c *cobra.Command, chips *fabric.Chips, where fabric.Where, only bool) error {
	f, err := format(c)
	if err != nil {
		return err
	}
	rows, absent, err := chips.Impairments(c.Context(), where, only)
	tellAbsent(c, absent)
	return errors.Join(printNetem(c, f, rows, err == nil), err) // what the others say is printed first
}

// printNetem prints what is done, or if all could be asked that nothing is.
func printNetem(c *cobra.Command, f string, rows []api.ImpairmentView, all bool) error {
	if f == "json" {
		return printJSON(c, append([]api.ImpairmentView{}, rows...))
	}
	if len(rows) == 0 && all {
		fmt.Fprintln(c.ErrOrStderr(), "No cable is impaired.")
	}
	if len(rows) == 0 {
		return nil
	}
	labels := slices.ContainsFunc(rows, func(v api.ImpairmentView) bool { return len(v.Labels) > 0 })
	header := []any{"From", "To", "Plane"}
	if labels {
		header = append(header, "Labels")
	}
	tw := newTable(c, append(header, "In force", "Ends in", "Passed", "Lost", "Cut off", "Corrupted", "Twice", "Reordered", "Overflow")...)
	for _, v := range rows {
		n := v.Counters
		row := table.Row{wire.PortID{Node: v.Chip, Channel: v.Channel}.Short(), wire.PortID{Node: v.Peer, Channel: v.PeerChan}.Short(), v.Plane}
		if labels {
			row = append(row, strings.Join(v.Labels, " "))
		}
		tw.AppendRow(append(row,
			inForce(&v), endsIn(&v), counted0(n, "passed"), counted0(n, "lost", "burst_lost"), counted0(n, "cut_off"), counted0(n, "corrupted"), counted0(n, "duplicated"), counted0(n, "reordered"), counted0(n, "overflowed", "overfull")))
	}
	tw.Render()
	return nil
}

// counted0 adds counters up; "-" where nobody counts the first.
func counted0(n map[string]uint64, names ...string) any {
	if _, ok := n[names[0]]; !ok {
		return "-"
	}
	sum := uint64(0)
	for _, name := range names {
		sum += n[name]
	}
	return sum
}

// inForce is what is done in one direction, in words.
func inForce(v *api.ImpairmentView) string {
	var words []string
	if v.Cut {
		words = append(words, "cut")
	}
	if v.Options != "" {
		words = append(words, v.Options)
		if v.Seed != 0 {
			words = append(words, fmt.Sprintf("seed=%d", v.Seed))
		}
	}
	if len(words) == 0 {
		return "-"
	}
	return strings.Join(words, " ")
}

func newNetemReset() *cobra.Command {
	var k kernelFlags
	c := &cobra.Command{Use: "reset [LINK...]", Short: "Take impairments away from cables, or from all", ValidArgsFunction: completeLinks,
		Long: `reset takes away all that 'netem set' and 'up --netem' do, in both directions.
What waits for its time is lost, and sent again by the link. A cable that is
cut stays so: 'ttfabric link up' and 'ttfabric heal' put it back.

With --backend kernel it takes away what the kernel does, and nothing else. An
interface with nothing left to do gets back the qdisc that it had before 'netem
set', whatever became of the command that took it. Without LINK, and in a
namespace that --netns names, it needs no chip that runs.

` + linkHelp,
		Example: "  ttfabric netem reset\n  ttfabric netem reset M0D0-M0D1",
		RunE: func(c *cobra.Command, args []string) error {
			if k.asked(c) {
				return k.reset(c, args)
			}
			if len(args) == 0 {
				args = []string{"all"}
			}
			links, chips, err := linkArgs(c, args)
			if err != nil {
				return err
			}
			where, _ := spec.Ends(links, "both")
			absent, err := chips.ResetImpairments(c.Context(), where)
			tellAbsent(c, absent)
			if err != nil {
				return err
			}
			return toldLinks(c, "reset", links)
		}}
	k.add(c)
	return c
}
