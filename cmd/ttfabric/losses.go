package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"ttfabric/node/admin/api"
	"ttfabric/node/fabric"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/losses"
	"ttfabric/wire"
)

// lossesFlags are the flags of 'inspect --losses'.
type lossesFlags struct {
	show   bool
	assert bool
	wait   time.Duration
}

const (
	lossesWait = 5 * time.Second
	lossesRows = 64 // if the table of links would have more rows, the table leaves out the directions of links that received all packets sent
)

func (l *lossesFlags) register(c *cobra.Command) {
	c.Flags().BoolVar(&l.show, "losses", false, "show what became of every packet, by chip, by link and by class; for dead chips, show the figures that their neighbours know")
	c.Flags().BoolVar(&l.assert, "assert", false, "with --losses: exit code 5 if a packet is unexplained, 4 if a chip does not answer or the fabric does not come to rest")
	c.Flags().DurationVar(&l.wait, "wait", lossesWait, "with --losses: wait at most this long for the fabric to come to rest")
}

func (l *lossesFlags) check(args []string) error {
	switch {
	case l.show && len(args) > 0:
		return spec.Usagef("inspect --losses balances the whole fabric; leave out the argument %s", args[0])
	case l.assert && !l.show:
		return spec.Usagef("--assert needs --losses; add --losses")
	case l.wait < 0:
		return spec.Usagef("--wait %v: want 0 or more", l.wait)
	}
	return nil
}

func (l *lossesFlags) run(c *cobra.Command, format string, cs []*api.Client, missing []wire.FabricNodeID) error {
	r := fabric.Losses(c.Context(), cs, missing, l.wait)
	if format == "json" {
		if err := printJSON(c, r); err != nil {
			return err
		}
	} else {
		printLosses(c, &r)
	}
	switch n := r.Unexplained(); {
	case !l.assert:
	case len(r.Silent) > 0:
		return spec.NotReadyf("chip %s runs but does not answer; if the chip is paused, 'ttfabric chip resume %s' lets the chip run again", r.Silent[0], r.Silent[0])
	case !r.AtRest:
		return spec.NotReadyf("packets still move after %v, but --losses needs a fabric at rest; stop the traffic, or wait longer with --wait", l.wait)
	case n > 0:
		return assertf("%d packets are unexplained; the columns Unexplained show at which chips and links", n)
	}
	return nil
}

func printLosses(c *cobra.Command, r *fabric.Balance) {
	tw := newTable(c, "Chip", "Life", "Injected", "Copied", "In", "Delivered", "Forwarded", "Out", "Dropped", "In flight", "Unexplained")
	tw.Least("Copied", "Life", "In flight", "In", "Out", "Forwarded")
	for _, x := range r.Chips {
		p := &x.Packets
		tw.AppendRow(table.Row{x.Chip, life(x.Incarnation), p.Injected.Total(), p.Copied.Total(), p.Received.Total(), p.Delivered.Total(), p.Forwarded.Total(),
			p.Sent.Total(), p.DropText(), x.InFlight.Total(), x.Unexplained})
	}
	for _, g := range r.Gone {
		in := fmt.Sprint(g.Received.Total())
		if top := g.ReceivedMax.Total(); top != g.Received.Total() {
			in = fmt.Sprintf("%s–%d", in, top)
		}
		state := " gone"
		if slices.Contains(r.Silent, g.Chip) {
			state = " no answer"
		}
		tw.AppendRow(table.Row{g.Chip, life(g.Incarnation) + state, "", "", in, "", "", g.Sent.Total(), fmt.Sprintf("inferred from %d links", g.ToldBy), "", ""})
	}
	tw.Render()
	rows := newTable(c, "From", "To", "Plane", "Out", "In", "Under way", "Lost", "To gone lives", "Unknown fate", "From gone lives", "Unexplained")
	rows.Least("Under way", "From gone lives", "To gone lives", "Unknown fate", "Plane", "In")
	hidden := 0
	for _, l := range r.Links {
		plain := l.Sent == l.Received && l.Lost.Total()+l.ToGone.Total()+l.Unknown.Total()+l.FromGone.Total() == 0 && l.Unexplained == 0
		if plain && len(r.Links) > lossesRows {
			hidden++
			continue
		}
		out := fmt.Sprint(l.Sent.Total())
		if l.Inferred {
			out += " inferred"
		}
		rows.AppendRow(table.Row{fmt.Sprintf("%s/%d", l.Src, l.SrcChannel), fmt.Sprintf("%s/%d", l.Dst, l.DstChannel), l.Plane, out, l.Received.Total(),
			l.UnderWay.Total(), l.Lost.Total(), l.ToGone.Total(), l.Unknown.Total(), l.FromGone.Total(), l.Unexplained})
	}
	rows.Render()
	if hidden > 0 {
		fmt.Fprintf(c.OutOrStdout(), "the table leaves out %d more directions of links, which received all packets that were sent\n", hidden)
	}
	sum := newTable(c, "Class", "Injected", "Copied", "From gone lives", "Delivered", "Dropped", "In flight", "Lost", "To gone lives", "Unknown fate", "Unexplained")
	sum.Least("Copied", "From gone lives", "To gone lives", "Unknown fate", "In flight")
	row := func(name string, t losses.Total) table.Row {
		return table.Row{name, t.Injected, t.Copied, t.FromGone, t.Delivered, t.Dropped, t.InFlight, t.Lost, t.ToGone, t.Unknown, t.Unexplained}
	}
	for k, name := range losses.ClassNames {
		sum.AppendRow(row(name, r.Classes[k]))
	}
	sum.AppendFooter(row("all", r.Total))
	sum.Render()
	if len(r.Missing) > 0 {
		fmt.Fprintf(c.OutOrStdout(), "these chips gave no figures, because they do not run or do not answer: %v\n", r.Missing)
	}
	if !r.AtRest {
		fmt.Fprintln(c.OutOrStdout(), "packets moved while the chips gave their figures; the numbers of packets under way and of unexplained packets may therefore be wrong")
	}
}

// life returns the upper 32 bits of an incarnation in hexadecimal.
func life(i wire.Incarnation) string { return fmt.Sprintf("%08x", uint64(i)>>32) }
