package main

import (
	"fmt"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"ttfabric/node/admin"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// downedLink is one direction of a declared cable that is not up, as the
// downed-links report of the machines' users has it (tt-metal #52859).
type downedLink struct {
	Src        wire.FabricNodeID `json:"src"`
	SrcChannel wire.Channel      `json:"src_channel"`
	Dst        wire.FabricNodeID `json:"dst"`
	DstChannel wire.Channel      `json:"dst_channel"`
	Direction  string            `json:"direction"` // in which dst lies
	Plane      wire.Plane        `json:"plane"`
	Scope      string            `json:"scope"`            // "intra-mesh" or "inter-mesh"
	Reason     string            `json:"reason"`           // as the source's end has it
	SinceS     *float64          `json:"since_seconds"`    // null if the source cannot tell, or its frames go another way
	By         *wire.Channel     `json:"by_channel"`       // by whose cable the frames go meanwhile; null: by none
	Retrains   int               `json:"retrains"`         // of the source's end in its life
	DowntimeS  float64           `json:"downtime_seconds"` // of the source's end in its life
}

// linkDiff is what is declared and what is up of it, in cables.
type linkDiff struct {
	Declared int          `json:"declared"`
	Up       int          `json:"up"`
	Downed   []downedLink `json:"downed"` // both directions of each cable that is not up
}

// diffLinks compares the cables of a topology with what the chips say of their
// ends; quiet says why some say nothing. A cable is up if both of its ends say so, and that their frames go by it.
func diffLinks(t *topo.Topology, views []admin.ChipView, quiet map[wire.FabricNodeID]string) linkDiff {
	ends := map[wire.PortID]admin.LinkView{}
	for _, v := range views {
		for _, l := range v.Links {
			ends[wire.PortID{Node: v.Chip, Channel: l.Channel}] = l
		}
	}
	d := linkDiff{Downed: []downedLink{}}
	for _, c := range t.Cables {
		if c.Unused {
			continue
		}
		d.Declared++
		if carries(ends[c.A]) && carries(ends[c.B]) {
			d.Up++
			continue
		}
		d.Downed = append(d.Downed, downed(c, c.A, c.B, c.Dir, ends, quiet), downed(c, c.B, c.A, c.Back, ends, quiet))
	}
	return d
}

// carries reports whether an end is up and its frames go by its own cable.
func carries(l admin.LinkView) bool { return l.State == "up" && l.By == nil }

// downed is the direction of c from src to dst.
func downed(c topo.Cable, src, dst wire.PortID, dir wire.Direction, ends map[wire.PortID]admin.LinkView, quiet map[wire.FabricNodeID]string) downedLink {
	d := downedLink{Src: src.Node, SrcChannel: src.Channel, Dst: dst.Node, DstChannel: dst.Channel, Direction: dir.String(), Plane: c.Plane, Scope: "intra-mesh"}
	if c.External() {
		d.Scope = "inter-mesh"
	}
	l, told := ends[src]
	if told {
		d.By, d.Retrains, d.DowntimeS = l.By, l.Retrains, l.DowntimeS
		if l.State != "up" {
			d.SinceS = &l.SinceS
		}
	}
	switch {
	case !told && quiet[src.Node] != "":
		d.Reason = fmt.Sprintf("%s %s", src.Node, quiet[src.Node])
	case !told:
		d.Reason = "no such port at " + src.Node.String() // a chip that was started with other cables
	case quiet[dst.Node] != "":
		d.Reason = fmt.Sprintf("%s %s", dst.Node, quiet[dst.Node])
	case l.Miswired != "":
		d.Reason = "miswired: found " + l.Miswired
	case l.Held:
		d.Reason = fmt.Sprintf("held down for %s more after %d failures", seconds(l.HeldForS), l.Flaps)
	case l.By != nil:
		d.Reason = "its own cable does not carry frames"
	case l.State == "up" && ends[dst].By != nil:
		d.Reason = "up here, but the other end's frames go another way"
	case l.State == "up":
		d.Reason = "up here, not at the other end"
	case l.Retrains == 0 && l.LastDown == "none":
		d.Reason = "never was up"
	default:
		d.Reason = l.LastDown
	}
	return d
}

// showDiff is inspect --diff.
func showDiff(c *cobra.Command, format string, views []admin.ChipView, missing, silent []wire.FabricNodeID) error {
	dir, err := dirOf(c)
	if err != nil {
		return err
	}
	_, t, _, err := dir.mesh()
	if err != nil {
		return err
	}
	quiet := map[wire.FabricNodeID]string{}
	for _, n := range missing {
		quiet[n] = "is not running"
	}
	for _, n := range silent {
		quiet[n] = "does not answer"
	}
	d := diffLinks(t, views, quiet)
	if format == "json" {
		return printJSON(c, d)
	}
	printDiff(c, d)
	return nil
}

func printDiff(c *cobra.Command, d linkDiff) {
	if len(d.Downed) == 0 {
		fmt.Fprintf(c.OutOrStdout(), "all %d cables are up\n", d.Declared)
		return
	}
	tw := newTable(c, "From", "Ch", "To", "Ch", "Dir", "Plane", "Scope", "Reason", "For", "Carried by", "Retrains", "Down s")
	for _, l := range d.Downed {
		since, by := "", "none"
		if l.SinceS != nil {
			since = time.Duration(*l.SinceS * float64(time.Second)).Round(time.Second).String()
		}
		if l.By != nil {
			by = fmt.Sprintf("channel %d", *l.By)
		}
		tw.AppendRow(table.Row{l.Src, l.SrcChannel, l.Dst, l.DstChannel, l.Direction, l.Plane, l.Scope, l.Reason, since, by, l.Retrains, fmt.Sprintf("%.1f", l.DowntimeS)})
	}
	tw.Render()
	fmt.Fprintf(c.OutOrStdout(), "%d of %d cables are up\n", d.Up, d.Declared)
}
