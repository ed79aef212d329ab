package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"ttfabric/node/admin/api"
	"ttfabric/node/losses"
	"ttfabric/wire"
)

// lossesFlags are those of inspect --losses.
type lossesFlags struct {
	show   bool
	assert bool
	wait   time.Duration
}

const (
	lossesWait = 5 * time.Second
	lossesPoll = 50 * time.Millisecond // between two accounts that are to be alike
	lossesRows = 64                    // links that are shown although nothing is to be told of them
)

func (l *lossesFlags) register(c *cobra.Command) {
	c.Flags().BoolVar(&l.show, "losses", false, "what became of every packet, by chip, by link and by class; of chips that are dead, what their neighbours know")
	c.Flags().BoolVar(&l.assert, "assert", false, "with --losses: exit code 5 if a packet is unexplained, 4 if the fabric does not come to rest")
	c.Flags().DurationVar(&l.wait, "wait", lossesWait, "with --losses: for the fabric to come to rest")
}

func (l *lossesFlags) check(args []string) error {
	switch {
	case l.show && len(args) > 0:
		return coded(exitUsage, "inspect --losses is of the whole fabric; leave %s out", args[0])
	case l.assert && !l.show:
		return coded(exitUsage, "--assert goes with --losses")
	case l.wait < 0:
		return coded(exitUsage, "--wait %v: want 0 or more", l.wait)
	}
	return nil
}

// lossesReport is what inspect --losses prints as JSON.
type lossesReport struct {
	losses.Report
	AtRest bool                `json:"at_rest"` // nothing moved between two looks: the figures are of one instant
	Silent []wire.FabricNodeID `json:"no_answer"`
}

func (l *lossesFlags) run(c *cobra.Command, format string, cs []*api.Client, missing []wire.FabricNodeID) error {
	r := account(c.Context(), cs, missing, l.wait)
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
		return coded(exitNotReady, "%s runs and does not answer: 'ttfabric chip resume' wakes a chip that was paused", r.Silent[0])
	case !r.AtRest:
		return coded(exitNotReady, "packets still move after %v: a balance needs a fabric at rest; stop the traffic, or wait longer with --wait", l.wait)
	case n > 0:
		return coded(exitAssert, "%d packets are unexplained", n)
	}
	return nil
}

// account asks all chips until nothing has moved between two rounds, or wait is over.
func account(ctx context.Context, cs []*api.Client, missing []wire.FabricNodeID, wait time.Duration) lossesReport {
	end := time.Now().Add(wait)
	for last := []losses.Chip(nil); ; time.Sleep(lossesPoll) {
		chips, silent := askLosses(ctx, cs)
		rest := last != nil && slices.EqualFunc(last, chips, func(a, b losses.Chip) bool { return a.Same(&b) })
		if rest || time.Now().After(end) || ctx.Err() != nil {
			return lossesReport{losses.Merge(chips, append(slices.Clone(missing), silent...)), rest, append([]wire.FabricNodeID{}, silent...)}
		}
		last = chips
	}
}

// askLosses gets the accounts of all running chips at once.
func askLosses(ctx context.Context, cs []*api.Client) (chips []losses.Chip, silent []wire.FabricNodeID) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	got := make([]*losses.Chip, len(cs))
	var wg sync.WaitGroup
	for i, c := range cs {
		wg.Go(func() {
			if v, err := c.Losses(ctx); err == nil {
				got[i] = &v
			}
		})
	}
	wg.Wait()
	chips = []losses.Chip{}
	for i, v := range got {
		if v != nil {
			chips = append(chips, *v)
		} else {
			silent = append(silent, cs[i].Self())
		}
	}
	return chips, silent
}

func printLosses(c *cobra.Command, r *lossesReport) {
	tw := newTable(c, "Chip", "Life", "Injected", "Copied", "In", "Delivered", "Forwarded", "Out", "Dropped", "In flight", "Unexplained")
	for _, x := range r.Chips {
		p := &x.Packets
		tw.AppendRow(table.Row{x.Chip, life(x.Incarnation), p.Injected.Total(), p.Copied.Total(), p.Received.Total(), p.Delivered.Total(), p.Forwarded.Total(),
			p.Sent.Total(), dropText(p), x.InFlight.Total(), x.Unexplained})
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
		fmt.Fprintf(c.OutOrStdout(), "%d directions of links more, of which all that was sent was received\n", hidden)
	}
	sum := newTable(c, "Class", "Injected", "Copied", "From gone lives", "Delivered", "Dropped", "In flight", "Lost", "To gone lives", "Unknown fate", "Unexplained")
	row := func(name string, t losses.Total) table.Row {
		return table.Row{name, t.Injected, t.Copied, t.FromGone, t.Delivered, t.Dropped, t.InFlight, t.Lost, t.ToGone, t.Unknown, t.Unexplained}
	}
	for k, name := range losses.ClassNames {
		sum.AppendRow(row(name, r.Classes[k]))
	}
	sum.AppendFooter(row("all", r.Total))
	sum.Render()
	if len(r.Missing) > 0 {
		fmt.Fprintf(c.OutOrStdout(), "not asked, since they do not run or do not answer: %v\n", r.Missing)
	}
	if !r.AtRest {
		fmt.Fprintln(c.OutOrStdout(), "packets moved while the chips were asked: what is under way and unexplained is not of one instant")
	}
}

// life is an incarnation in short.
func life(i wire.Incarnation) string { return fmt.Sprintf("%08x", uint64(i)>>32) }

// dropText is how many packets a chip gave up, and why.
func dropText(p *losses.Packets) string {
	var parts []string
	for r := wire.DropReason(1); r < wire.NumDropReasons; r++ {
		n := p.Dropped[r].Total()
		if r == wire.DropMalformed {
			n += p.Malformed.Total()
		}
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, r))
		}
	}
	if len(parts) == 0 {
		return "0"
	}
	return strings.Join(parts, ", ")
}
