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
	"ttfabric/node/output"
	"ttfabric/router/topo"
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
			rows := []output.Fabric{}
			dirs, err := folder.All()
			if err != nil {
				return err
			}
			for _, d := range dirs {
				fab, err := fabric.OpenDir(c.Context(), d)
				if err != nil {
					continue
				}
				where := append([]folder.Chip{}, fab.Running()...)
				rows = append(rows, output.Fabric{Name: fab.Spec.Name, Topology: fab.Topology.Name, Running: len(where), Chips: len(fab.Topology.Chips), Created: fab.Spec.Created, Folder: string(d), Where: where})
			}
			for _, x := range container.Strays(c.Context(), func(name string) bool {
				return slices.ContainsFunc(rows, func(r output.Fabric) bool { return r.Name == name })
			}) {
				rows = append(rows, output.Fabric{Name: x.Name, Topology: x.Topology, Running: x.Running, Chips: x.Chips, Created: x.Created, Folder: "compose project " + x.Project, Where: []folder.Chip{}})
			}
			if f == "json" {
				return printJSON(c, rows)
			}
			tw := newTable(c, "Name", "Topology", "Chips", "Up since", "Folder")
			tw.Least("Up since")
			for _, r := range rows {
				tw.AppendRow(table.Row{r.Name, r.Topology, fmt.Sprintf("%d/%d", r.Running, r.Chips), r.Created.Format(time.DateTime), r.Folder})
			}
			tw.Render()
			return nil
		}}
}

const inspectHelp = `The command shows the chips of the fabric, or one chip with its links and counters.

Below the table, the command names two kinds of chips. A chip is silent if the
other chips hear nothing from it, and have no evidence that the chip is dead. Requests
to a silent chip wait. A chip was starved if its process waited for a processor, or was
stopped, for at least 100 ms. The command names the chips that were starved in the last
minute, and -o json has the figures of all chips.

--links shows one row per link end. The columns of the table are:

  Training   how far the training has come, in the words of the router firmware:
             initialization started (the peer's address is unknown), started (the
             port sends hellos), remote handshake complete (the port hears its
             peer), local handshake complete (this end is up), ready for traffic
             (both ends are up), terminated; the output of -o json has the codes
  Router     the state of the port's router; see 'ttfabric router --help'
  Down s     seconds that the link was down since the link first came up;
             the link counts as up while a parallel cable carries its frames
  Up %       share of the time since the chip's first link came up in which the
             link was up
  Flaps      failures of the link's own cable; see 'link flap'

--rates shows the data rates of each link end, over a window of at least the last
second: bytes of frames of every kind, and packets. The column Resent shows the share
of the data frames on the own cable that the link sent again, in the latest window
with at least 64 frames. If the share is 30 % or more in three successive windows, the
cable is unreliable, and a parallel cable carries the frames.

--channels shows each sender and receiver channel that holds packets, with its first
packets in the order in which they leave. Each packet has its source, destination, id,
and the time since the packet entered the channel. The table shows the first packet, and the output of
-o json the first 16. If the column Credits shows 0, the peer has no room.

--diff compares the cables that should exist with the cables that carry frames,
by the rules of tt-metal's reliability mode. The columns of the tables are:

  Declared       cables that the fabric routes
  Expected       cables that should exist
  Live           expected cables that carry frames
  Planes         routing planes; within a mesh: the smaller of Declared and
                 Expected, for the chip of the row or column where this number is
                 smallest; between meshes: the smaller of Declared and Live
  Downed         missing cables that the fabric needs
  Unused downed  missing cables that the fabric does not need
  Carried by     channel of the parallel cable that carries the link's frames now
  For            time for which the link's own cable has carried no frames

--losses shows what became of every packet. For each chip, a row shows the numbers
of packets that the chip injected, received and sent over its links, delivered, and
dropped, with the reasons. The column Life shows the upper half of the number of the
chip's incarnation. For each direction of a link, a row shows the numbers of packets
sent and received in all sessions. A packet is lost if a session ended before the
packet arrived.

If a chip was killed or restarted, its counters are gone. The chip's neighbours then
know three numbers about the incarnation that ended. The first is the number of packets
that the chip acknowledged. The second is the number of further packets that the chip
may have received (unknown fate). The third is the number of packets that came from the
chip. The table calls such an incarnation gone,
and marks these numbers as inferred. A packet is unexplained if no number explains
what became of the packet. An unexplained packet means a fault in the program.`

func newInspect() *cobra.Command {
	var links, diff, rates, channels bool
	var expected string
	var lost lossesFlags
	c := &cobra.Command{Use: "inspect [CHIP]", Short: "Show chips, links, counters and memory use", Args: cobra.MaximumNArgs(1),
		Long:    inspectHelp,
		Example: "  ttfabric inspect\n  ttfabric inspect M0D3\n  ttfabric inspect --links\n  ttfabric inspect --rates\n  ttfabric inspect --channels       packets that wait in routers\n  ttfabric inspect --diff           declared cables that are not up\n  ttfabric inspect --losses         what became of every packet\n  ttfabric inspect --losses --assert\n  ttfabric inspect -o json",
		RunE: func(c *cobra.Command, args []string) error {
			f, err := format(c)
			if err != nil {
				return err
			}
			if diff && len(args) > 0 {
				return spec.Usagef("inspect --diff compares the whole fabric; leave out the argument %s", args[0])
			}
			if expected != "" && !diff {
				return spec.Usagef("--expected %s: the flag needs --diff; add --diff", expected)
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
			if channels {
				return showChannels(c, f, cs, missing)
			}
			views, silent := fabric.Ask(c.Context(), cs)
			if f != "json" {
				defer tellLate(c, views)
			}
			switch {
			case diff:
				return showDiff(c, fab.Topology, f, expected, views, missing, silent)
			case f == "json":
				return printJSON(c, output.ChipsOf("", views, missing, silent))
			case rates:
				printRates(c, views)
				tellQuiet(c, missing, silent)
			case len(args) == 1 && len(views) == 1:
				printLinks(c, views)
				printChip(c, views[0])
			case links:
				printLinks(c, views)
				tellQuiet(c, missing, silent)
			default:
				printChips(c, views, missing, silent)
			}
			return nil
		}}
	c.Flags().BoolVarP(&links, "links", "l", false, "show one row per link end, with counters and retrain history")
	c.Flags().BoolVar(&rates, "rates", false, "show the data rates of each link end")
	c.Flags().BoolVar(&channels, "channels", false, "show the packets that wait in sender and receiver channels")
	c.Flags().BoolVar(&diff, "diff", false, "show each declared cable that is not live, with the reason, the time, and the cable that carries its frames meanwhile")
	c.Flags().StringVar(&expected, "expected", "", "with --diff: topology with the cables that should exist; a file, such as a factory descriptor, or a built-in name (default: the fabric's topology)")
	lost.register(c)
	c.MarkFlagsMutuallyExclusive("links", "diff", "losses", "rates", "channels")
	return c
}

func printLinks(c *cobra.Command, views []api.ChipView) {
	tw := newTable(c, "Chip", "Ch", "Dir", "Plane", "Peer", "State", "For", "Training", "Router", "Retrains", "Last retrain", "Last down", "Down s", "Up %", "Flaps", "RTT µs", "Sent", "Received", "Resent", "Dropped")
	tw.Least("Last retrain", "Training", "Last down", "Router", "Retrains", "Dropped", "Up %", "Resent", "Down s", "RTT µs", "For", "Received", "Sent", "Flaps", "Plane", "Dir")
	for _, v := range views {
		for _, l := range v.Links {
			var drops uint64
			for _, n := range l.FrameDrops {
				drops += n
			}
			tw.AppendRow(table.Row{v.Chip, l.Channel, l.Direction, l.Plane, fmt.Sprintf("%s/%d", l.Peer, l.PeerChan), l.StateWords(),
				seconds(l.SinceS), training(&l), l.Router, l.Retrains, ago(l.RetrainedS), l.LastDown, fmt.Sprintf("%.1f", l.DowntimeS), share(l.UptimeShare), l.Flaps,
				fmt.Sprintf("%.0f", l.RTTMicros), l.Counters["packets_sent"], l.Counters["packets_received"], l.Counters["retransmitted"], drops})
		}
	}
	tw.Render()
}

func printRates(c *cobra.Command, views []api.ChipView) {
	tw := newTable(c, "Chip", "Ch", "Dir", "Plane", "Peer", "State", "Sent MB/s", "Received MB/s", "Sent packets/s", "Received packets/s", "Over s", "Resent")
	tw.Least("Over s", "Dir", "Received packets/s", "Sent packets/s", "Plane", "Resent", "State")
	for _, v := range views {
		for _, l := range v.Links {
			r, resent := l.Rate, fmt.Sprintf("%d %%", l.ResentPct)
			if l.Unreliable {
				resent += ", unreliable"
			}
			tw.AppendRow(table.Row{v.Chip, l.Channel, l.Direction, l.Plane, fmt.Sprintf("%s/%d", l.Peer, l.PeerChan), l.State, fmt.Sprintf("%.3f", r.BytesOut/1e6), fmt.Sprintf("%.3f", r.BytesIn/1e6),
				fmt.Sprintf("%.0f", r.PacketsOut), fmt.Sprintf("%.0f", r.PacketsIn), fmt.Sprintf("%.1f", r.OverS), resent})
		}
	}
	tw.Render()
}

func showChannels(c *cobra.Command, format string, cs []*api.Client, missing []wire.FabricNodeID) error {
	views, silent := fabric.Channels(c.Context(), cs)
	if format == "json" {
		return printJSON(c, output.Channels{Channels: views, NotRunning: append([]wire.FabricNodeID{}, missing...), NoAnswer: append([]wire.FabricNodeID{}, silent...)})
	}
	tw := newTable(c, "Chip", "Ch", "Peer", "VC", "Channel", "Waiting", "Link", "Router", "Credits", "First packet", "Src", "Dst", "Id", "Age s")
	tw.Least("Id", "Router", "Link", "First packet", "VC", "Credits", "Peer")
	for _, v := range views {
		p := v.Packets[0]
		tw.AppendRow(table.Row{v.Chip, v.Channel, fmt.Sprintf("%s/%d", v.Peer, v.PeerChan), v.VC, v.Name(), fmt.Sprintf("%d/%d", v.Waiting, v.Slots), v.Link, v.Router, v.Credits, p.Type, p.Src, p.Dst, p.ID, fmt.Sprintf("%.3f", p.AgeS)})
	}
	tw.Render()
	fmt.Fprintf(c.ErrOrStderr(), "%s in %s\n", topo.Count(fabric.Held(views), "packet"), topo.Count(len(views), "channel"))
	tellQuiet(c, missing, silent)
	return nil
}

func printChip(c *cobra.Command, v api.ChipView) {
	tw := newTable(c, "Counter", "Value")
	for _, k := range sortedKeys(v.Counters) {
		tw.AppendRow(table.Row{k, v.Counters[k]})
	}
	for _, k := range sortedKeys(v.Dropped) {
		tw.AppendRow(table.Row{"dropped: " + k, v.Dropped[k]})
	}
	s := &v.Starved
	tw.AppendRow(table.Row{"starved, times", s.Times})
	tw.AppendRow(table.Row{"starved, seconds in all", fmt.Sprintf("%.1f", s.TotalS)})
	tw.AppendRow(table.Row{"starved, longest, seconds", fmt.Sprintf("%.1f", s.LongestS)})
	for _, l := range v.Links {
		for q, w := range l.Writes.Queues {
			tw.AppendRow(table.Row{fmt.Sprintf("channel %d, queue %d: bytes of data in a frame of an L1 write", l.Channel, q), w.Payload})
		}
	}
	tw.AppendRow(table.Row{"tile memory held, bytes", v.Memory.Tiles})
	tw.AppendRow(table.Row{"packet buffers held, bytes", v.Memory.Buffers})
	tw.Render()
}
