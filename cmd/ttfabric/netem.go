package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"ttfabric/node/admin/api"
	"ttfabric/node/fabric"
	"ttfabric/node/fabric/spec"
	"ttfabric/wire"
)

func newNetem() *cobra.Command {
	c := &cobra.Command{Use: "netem", Short: "Impair cables: delay, loss, rate, corruption and more",
		Long: `The commands below netem impair cables. A chip treats the datagrams that it sends
over an impaired cable as a bad network would. Impairments by chips need no privilege.
A seed decides the random faults. The same seed and the same datagrams give the same
faults.

If a cable loses or damages many frames for some seconds, its frames move to a parallel
cable. To keep the frames on impaired cables, start the fabric with
'up --keep-unreliable'.

` + kernelHelp + "\n\n" + linkHelp}
	c.AddCommand(newNetemSet(), newNetemShow(), newNetemReset())
	return c
}

func newNetemSet() *cobra.Command {
	var direction string
	var k kernelFlags
	var f impairFlags
	c := &cobra.Command{Use: "set LINK...", Short: "Impair cables", Args: cobra.MinimumNArgs(1), ValidArgsFunction: completeLinks,
		Long: `The command impairs cables in both directions, or in the one direction that
--direction names. In both directions, a delay of 10ms adds 20ms to a round trip. The
command changes only the impairments that the flags name. The value 0 ends one
impairment, and 'netem reset' ends all impairments. With --duration the chips restore
the previous values by themselves. A restarted chip has only the impairments that
'up --netem' declared.

Flags and units are the same as in containerlab and tc-netem(8). Shares are
percentages, with or without the percent sign. A rate without a unit is in kbit. If
more than 1 MiB of datagrams waits because of a limited rate, further datagrams are
lost.

` + kernelHelp + "\n\n" + linkHelp,
		Example: `  ttfabric netem set M0D0-M0D1 --delay 10ms --jitter 2ms
  ttfabric netem set plane:1 --loss 1% --seed 7
  ttfabric netem set M0D0:8 --rate 100Mbit --direction a-to-b
  ttfabric netem set all --corruption 0.1% --duration 30s
  sudo ttfabric netem set M0D0-M0D1/p0 --delay 10ms --loss 1% --backend kernel
  ttfabric netem set 'M0D*-M1D*' --loss-gemodel 1%,10%,70%,0.1%`,
		RunE: func(c *cobra.Command, args []string) error {
			change, seed, err := f.read(c)
			if err != nil {
				return err
			}
			body := api.NetemBody{Options: change, Seed: seed, ForS: f.duration.Seconds()}
			if k.asked(c) {
				return k.set(c, args, direction, body, f.duration)
			}
			return setNetem(c, args, direction, body)
		}}
	k.add(c)
	f.add(c, "each direction of each cable")
	c.Flags().StringVar(&direction, "direction", "both", "directions to impair: both, a-to-b or b-to-a; a is the end that LINK names first; if LINK names no end first, a is the end with the lower chip number")
	return c
}

func setNetem(c *cobra.Command, args []string, direction string, body api.NetemBody) error {
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
	c := &cobra.Command{Use: "show [LINK...]", Short: "Show impairments in force, and the numbers of affected datagrams", ValidArgsFunction: completeLinks,
		Long: `The command prints a row per direction of a cable: the impairments in force, and the
number of datagrams that these impairments have affected. Without LINK the command
prints only impaired directions. The kernel (--backend kernel) counts only passed
and lost datagrams.

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

// showNetem prints the impairments at the ports that the argument "where" names. If only is
// true, showNetem leaves out ports without an impairment.
func showNetem(c *cobra.Command, chips *fabric.Chips, where fabric.Where, only bool) error {
	f, err := format(c)
	if err != nil {
		return err
	}
	rows, absent, err := chips.Impairments(c.Context(), where, only)
	tellAbsent(c, absent)
	return errors.Join(printNetem(c, f, rows, err == nil), err) // prints the answers, even if some chips did not answer
}

// printNetem prints impairments. The argument "all" is true if all chips answered. If "all"
// is true and rows is empty, printNetem prints that no cable is impaired, except with -o
// json.
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
	tw.Least("Overflow", "Reordered", "Twice", "Cut off", "Corrupted", "Labels", "Passed", "Plane", "Ends in", "Lost")
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

// counted0 returns the sum of the named counters, or "-" if n has no counter of the first name.
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

// inForce returns the impairments of one direction of a cable in words, or "-" if there
// are none.
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
	c := &cobra.Command{Use: "reset [LINK...]", Short: "End the impairments of the given cables, or of all cables", ValidArgsFunction: completeLinks,
		Long: `The command ends all impairments by 'netem set' and 'up --netem', in both
directions. Datagrams that an impairment delays at this moment are lost, and the
link sends their frames again. A cut cable stays cut. 'ttfabric link up' and
'ttfabric heal' put a cut cable back.

With --backend kernel, the command ends only the kernel's impairments. If an
interface has no impairment any more, the interface gets back the qdisc that it had
before 'netem set', even if 'netem set' was killed. Without LINK and with --netns, no
chip needs to run.

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
