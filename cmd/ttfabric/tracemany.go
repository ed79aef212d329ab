package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"ttfabric/node/fabric"
	"ttfabric/node/output/screen"
	"ttfabric/wire"
)

// maxTraced is the largest number of packets that one trace sends.
const maxTraced = 1000

// hopCount is a hop number, with the planned hop and the number of packets that made
// this hop. From, Dir, To and VC are empty if the plan has fewer hops.
type hopCount struct {
	Hop       int      `json:"hop"`                  // number of the hop, from 1
	From      string   `json:"from,omitempty"`       // planned chip from which the packets make the hop
	Dir       string   `json:"direction,omitempty"`  // planned direction
	To        string   `json:"to,omitempty"`         // planned chip to which the packets make the hop
	VC        string   `json:"vc,omitempty"`         // planned virtual channel
	Seen      int      `json:"seen"`                 // packets that made a hop with this number, on any route
	AsPlanned int      `json:"as_planned"`           // packets that took this hop as planned
	Elsewhere []string `json:"elsewhere,omitempty"`  // ports and virtual channels by which the other packets came in
	LostShare float64  `json:"lost_before,omitzero"` // share of the packets that made fewer hops than Hop; 0 if the plan has fewer hops
}

// traceCounts is the result of tracing several packets.
type traceCounts struct {
	Src      wire.FabricNodeID `json:"src"`              // chip that sent the packets
	Dst      wire.FabricNodeID `json:"dst"`              // destination of the packets
	Plane    wire.Plane        `json:"plane"`            // routing plane
	Packets  int               `json:"packets"`          // number of packets that were sent
	Answered int               `json:"answered"`         // number of packets that the destination answered
	Planned  int               `json:"as_planned"`       // packets that took every hop as planned
	Min      float64           `json:"min_microseconds"` // shortest round trip, in microseconds
	P50      float64           `json:"p50_microseconds"` // median round trip, in microseconds
	Max      float64           `json:"max_microseconds"` // longest round trip, in microseconds
	Hops     []hopCount        `json:"hops"`             // counts for each hop number
	Error    string            `json:"error,omitempty"`  // error of the last packet without an answer
}

// add adds the hops of one packet to the counts.
func (v *traceCounts) add(hops []fabric.Hop) {
	planned := true
	for i := range hops {
		h := &hops[i]
		if i == len(v.Hops) {
			v.Hops = append(v.Hops, hopCount{Hop: h.Number, From: h.From, Dir: h.Dir, To: h.To, VC: h.VC})
		}
		n := &v.Hops[i]
		planned = planned && h.Agrees
		switch {
		case h.Agrees:
			n.AsPlanned++
			n.Seen++
		case h.Seen != "":
			n.Seen++
			if at := h.Seen + " " + h.SeenVC; !slices.Contains(n.Elsewhere, at) {
				n.Elsewhere = append(n.Elsewhere, at)
			}
		}
	}
	if planned {
		v.Planned++
	}
}

// traceMany sends several packets, and shows how many packets made each hop. If not all
// packets were answered and took the planned route, traceMany returns an error.
func traceMany(c *cobra.Command, plan []fabric.Hop, way fabric.Route, timeout time.Duration, count int, format string) error {
	t, err := traced(c, way, timeout)
	if err != nil {
		return err
	}
	v := traceCounts{Src: way.Src, Dst: way.Dst, Plane: way.Plane}
	var us []float64
	bar := screen.NewProgress(c.ErrOrStderr(), "packets", count)
	defer bar.Stop()
	for range count {
		hops, rtt, sent, err := t.Packet(c.Context(), plan)
		if c.Context().Err() != nil {
			return context.Canceled
		}
		if err != nil {
			return err
		}
		v.Packets++
		v.add(hops)
		if sent != nil {
			v.Error = strings.ReplaceAll(sent.Error(), "\n", "; ")
		} else {
			v.Answered++
			us = append(us, float64(rtt.Nanoseconds())/1e3)
		}
		bar.Set(v.Packets)
	}
	bar.Stop()
	if slices.Sort(us); len(us) > 0 {
		v.Min, v.P50, v.Max = us[0], us[len(us)/2], us[len(us)-1]
	}
	for i := range v.Hops {
		v.Hops[i].LostShare = 1 - float64(v.Hops[i].Seen)/float64(v.Packets)
		if v.Hops[i].To == "" { // only packets on a longer route than planned make this hop
			v.Hops[i].LostShare = 0
		}
	}
	if format == "json" {
		err = printJSON(c, v)
	} else {
		printTraceCounts(c, &v)
	}
	switch {
	case err != nil:
		return err
	case v.Answered < v.Packets:
		return assertf("%d of %d packets got no answer: %s", v.Packets-v.Answered, v.Packets, v.Error)
	case v.Planned < v.Packets:
		return assertf("%d of %d packets did not take the planned route", v.Packets-v.Planned, v.Packets)
	}
	return nil
}

func printTraceCounts(c *cobra.Command, v *traceCounts) {
	tw := newTable(c, "Hop", "From", "Dir", "To", "VC", "Seen", "Lost %", "As planned", "Elsewhere")
	tw.Least("VC", "Elsewhere", "As planned", "Dir")
	for _, h := range v.Hops {
		tw.AppendRow(table.Row{h.Hop, h.From, h.Dir, h.To, h.VC, h.Seen, percent(h.LostShare), h.AsPlanned, strings.Join(h.Elsewhere, ", ")})
	}
	tw.Render()
	fmt.Fprintf(c.OutOrStdout(), "%d packets, %d answered, round trip min/p50/max %.1f/%.1f/%.1f µs\n", v.Packets, v.Answered, v.Min, v.P50, v.Max)
}
