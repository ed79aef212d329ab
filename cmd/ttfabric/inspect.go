package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"ttfabric/node/admin/api"
	"ttfabric/node/fabric"
	"ttfabric/node/fabric/container"
	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/ttlink"
	"ttfabric/wire"
)

func newLs() *cobra.Command {
	return &cobra.Command{Use: "ls", Aliases: []string{"list"}, Short: "List the fabrics that run", Args: cobra.NoArgs,
		Example: "  ttfabric ls\n  ttfabric ls -o json",
		RunE: func(c *cobra.Command, _ []string) error {
			f, err := format(c)
			if err != nil {
				return err
			}
			type row struct {
				Name     string    `json:"name"`
				Topology string    `json:"topology"`
				Running  int       `json:"running"`
				Chips    int       `json:"chips"`
				Created  time.Time `json:"created"`
				Folder   string    `json:"folder"`
			}
			rows := []row{}
			for _, d := range folder.All() {
				fab, err := fabric.OpenDir(c.Context(), d)
				if err != nil {
					continue
				}
				rows = append(rows, row{fab.Spec.Name, fab.Topology.Name, len(fab.Running()), len(fab.Topology.Chips), fab.Spec.Created, string(d)})
			}
			for _, x := range container.Strays(c.Context(), func(name string) bool { return slices.ContainsFunc(rows, func(r row) bool { return r.Name == name }) }) {
				rows = append(rows, row{x.Name, x.Topology, x.Running, x.Chips, x.Created, "compose project " + x.Project})
			}
			if f == "json" {
				return printJSON(c, rows)
			}
			tw := newTable(c, "Name", "Topology", "Chips", "Up since", "Folder")
			for _, r := range rows {
				tw.AppendRow(table.Row{r.Name, r.Topology, fmt.Sprintf("%d/%d", r.Running, r.Chips), r.Created.Format(time.DateTime), r.Folder})
			}
			tw.Render()
			return nil
		}}
}

const inspectHelp = `inspect shows the chips of the fabric, or one chip with its links and counters.

With --links, Training is how far a link's training has come, in the words of the
router firmware: initialization started (the peer's address is unknown), started
(hellos are sent), remote handshake complete (the peer is heard), local handshake
complete (up here), ready for traffic (up at both ends), terminated. Router is what
the router of the port does; see 'router'. Down s and Up % are of the time since
the chip's first link came up, in which frames that went by a parallel cable count
as up. Flaps are failures of the own cable; see 'link flap'. JSON has the codes.

--diff compares the cables that should exist with those that carry frames, by
the rules of tt-metal's reliability mode: declared are the cables that the
fabric routes, expected those that should exist, live those of them that are
there. Planes are the fewer of declared and expected, the fewest along the row
or column. Downed are missing cables that the fabric routes, unused downed
those that it does not need. A link whose frames go by another cable is listed, and
since when its own is dead.

--losses balances packets. For each chip: what it injected, what came in and
went out over its links, what was delivered to it, and what it gave up, by
reason. For each direction of a link: what was sent and what was received, in
all sessions; lost is what a session that ended left behind, as both ends know.
Of a chip that was killed or started anew, the neighbours know what it
acknowledged, what it may have received beyond that (unknown fate), and what
came from it: such lives are shown as gone, their figures inferred. A packet
that nothing of this explains is unexplained, and a fault of the program.`

func newInspect() *cobra.Command {
	var links, diff bool
	var expected string
	var lost lossesFlags
	c := &cobra.Command{Use: "inspect [CHIP]", Short: "Show chips, links, counters and memory use", Args: cobra.MaximumNArgs(1),
		Long:    inspectHelp,
		Example: "  ttfabric inspect\n  ttfabric inspect M0D3\n  ttfabric inspect --links\n  ttfabric inspect --diff           declared cables that are not up\n  ttfabric inspect --losses         what became of every packet\n  ttfabric inspect --losses --assert\n  ttfabric inspect -o json",
		RunE: func(c *cobra.Command, args []string) error {
			f, err := format(c)
			if err != nil {
				return err
			}
			if diff && len(args) > 0 {
				return spec.Usagef("inspect --diff compares the whole fabric; leave %s out", args[0])
			}
			if expected != "" && !diff {
				return spec.Usagef("--expected goes with --diff")
			}
			if err := lost.check(args); err != nil {
				return err
			}
			fab, cs, missing, err := clientsOf(c, args)
			if err != nil {
				return err
			}
			if lost.show {
				return lost.run(c, f, cs, missing)
			}
			views, silent := fabric.Ask(c.Context(), cs)
			switch {
			case diff:
				return showDiff(c, fab.Topology, f, expected, views, missing, silent)
			case f == "json":
				return printJSON(c, map[string]any{"chips": views, "not_running": append([]wire.FabricNodeID{}, missing...), "no_answer": append([]wire.FabricNodeID{}, silent...)})
			case len(args) == 1 && len(views) == 1:
				printLinks(c, views)
				printChip(c, views[0])
			case links:
				printLinks(c, views)
			default:
				printChips(c, views, missing, silent)
			}
			return nil
		}}
	c.Flags().BoolVarP(&links, "links", "l", false, "one row per link end, with counters and retrain history")
	c.Flags().BoolVar(&diff, "diff", false, "declared cables minus live ones: what is down, why, since when, and what carries its frames meanwhile")
	c.Flags().StringVar(&expected, "expected", "", "with --diff: a topology file or built-in whose cables should exist, such as a factory descriptor's (default: the fabric's own)")
	lost.register(c)
	c.MarkFlagsMutuallyExclusive("links", "diff", "losses")
	return c
}

func printLinks(c *cobra.Command, views []api.ChipView) {
	tw := newTable(c, "Chip", "Ch", "Dir", "Plane", "Peer", "State", "For", "Training", "Router", "Retrains", "Last retrain", "Last down", "Down s", "Up %", "Flaps", "RTT µs", "Sent", "Received", "Resent", "Dropped")
	for _, v := range views {
		for _, l := range v.Links {
			var drops uint64
			for _, n := range l.FrameDrops {
				drops += n
			}
			state := l.State
			if l.By != nil {
				state = fmt.Sprintf("%s by channel %d", l.State, *l.By)
			}
			if l.State == ttlink.StateUp.String() && l.Payload < l.Wanted {
				state += fmt.Sprintf(", frames of %d B, %d get lost", l.Payload, l.Wanted)
			}
			if l.Held {
				state += fmt.Sprintf(", held %s more", seconds(l.HeldForS))
			}
			if l.Miswired != "" {
				state = "miswired: found " + l.Miswired
			}
			tw.AppendRow(table.Row{v.Chip, l.Channel, l.Direction, l.Plane, fmt.Sprintf("%s/%d", l.Peer, l.PeerChan), state,
				seconds(l.SinceS), training(&l), l.Router, l.Retrains, ago(l.RetrainedS), l.LastDown, fmt.Sprintf("%.1f", l.DowntimeS), share(l.UptimeShare), l.Flaps,
				fmt.Sprintf("%.0f", l.RTTMicros), l.Counters["packets_sent"], l.Counters["packets_received"], l.Counters["retransmitted"], drops})
		}
	}
	tw.Render()
}

func printChip(c *cobra.Command, v api.ChipView) {
	tw := newTable(c, "Counter", "Value")
	for _, k := range sortedKeys(v.Counters) {
		tw.AppendRow(table.Row{k, v.Counters[k]})
	}
	for _, k := range sortedKeys(v.Dropped) {
		tw.AppendRow(table.Row{"dropped: " + k, v.Dropped[k]})
	}
	tw.AppendRow(table.Row{"tile memory held, bytes", v.Memory.Tiles})
	tw.AppendRow(table.Row{"packet buffers held, bytes", v.Memory.Buffers})
	tw.Render()
}
