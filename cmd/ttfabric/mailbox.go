package main

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"ttfabric/node/chip"
	"ttfabric/node/fabric"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/output"
	"ttfabric/node/session"
	"ttfabric/wire"
)

func newMailbox() *cobra.Command {
	var last int
	c := &cobra.Command{Use: "mailbox CHIP[:CHANNEL]", Short: "Read the status mailboxes of a chip's routers, through the fabric", Args: cobra.ExactArgs(1),
		Long: fmt.Sprintf(`The command reads the status mailboxes of a chip's routers, as the control plane
does. A router writes its status and its latest %d entries into the L1 memory of its
ethernet tile (Spec §7.1). The command prints one row per router, and the latest
entries. The reads are plain NoC reads. The reads enter the fabric at the chip of --via.
The following command shows the same bytes, in the layout that wire/mailbox.go
describes:

  ttfabric mem read CHIP TILE %d`, wire.MailboxEntries, wire.MailboxSize),
		Example: "  ttfabric mailbox M0D3\n  ttfabric mailbox M0D3:8 --last 64\n  ttfabric mailbox M0D3 --via M0D0 -o json",
		RunE: func(c *cobra.Command, args []string) error {
			if last < 0 {
				return spec.Usagef("--last %d: want 0 to %d", last, wire.MailboxEntries)
			}
			views, err := readMailboxes(c, args[0])
			if err != nil {
				return err
			}
			for i := range views {
				es := views[i].Entries
				views[i].Entries = es[max(0, len(es)-last):]
			}
			if f, err := format(c); f == "json" || err != nil {
				return cmp.Or(err, printJSON(c, views))
			}
			printMailboxes(c, views)
			return nil
		}}
	c.Flags().IntVar(&last, "last", 8, "number of latest entries to show of each router")
	memFlags(c)
	return c
}

// readMailboxes reads the mailboxes that arg names: all mailboxes of a chip ("M0D3"),
// or the mailbox of one port ("M0D3:8").
func readMailboxes(c *cobra.Command, arg string) ([]output.Mailbox, error) {
	name, channel, one := arg, uint64(0), false
	if i := strings.LastIndexByte(arg, ':'); i > 0 && strings.ContainsAny(arg[:i], "mMdD:") {
		n, err := strconv.ParseUint(arg[i+1:], 10, 8)
		if err != nil {
			return nil, spec.Usagef("%q: want a chip such as M0D3, or CHIP:CHANNEL such as M0D3:8", arg)
		}
		name, channel, one = arg[:i], n, true
	}
	cl, n, plane, err := entryArg(c, name)
	if err != nil {
		return nil, err
	}
	t := cl.Topology()
	var views []output.Mailbox
	for _, p := range t.Ports(n) {
		if one && uint64(p.Local.Channel) != channel {
			continue
		}
		at, err := chip.MailboxAddr(t.Arch, p.Local.Channel)
		if err != nil {
			return nil, err
		}
		v, err := fabric.ReadMailbox(c.Context(), session.New(cl), p.Local, at, plane)
		if err != nil {
			return nil, err
		}
		views = append(views, v)
	}
	if len(views) == 0 {
		return nil, spec.Usagef("chip %s has no cable at channel %d; 'ttfabric inspect %s' lists the chip's channels", n, channel, n)
	}
	return views, nil
}

func printMailboxes(c *cobra.Command, views []output.Mailbox) {
	tw := newTable(c, "Chip", "Ch", "Tile", "Peer", "State", "Postcode", "Link", "For", "Heartbeat", "Retrains", "Sent", "Received", "Resent", "Forwarded", "Dropped", "Queued", "Entries", "Overwritten")
	tw.Least("Overwritten", "Postcode", "Entries", "Queued", "Resent", "Tile", "Retrains", "Dropped", "Forwarded", "Heartbeat", "Received", "Sent", "For")
	for _, v := range views {
		n := v.Counters
		tw.AppendRow(table.Row{v.Chip, v.Channel, v.Tile, fmt.Sprintf("%s/%d", v.Peer, v.PeerChan), v.State, v.Postcode, v.Link,
			time.Duration(v.LinkFor * float64(time.Second)).Round(time.Second), v.Heartbeat, v.Retrains, n["packets_sent"], n["packets_received"],
			n["retransmitted"], n["forwarded"], n["dropped"], v.Queued, v.Posted, v.Overwritten})
	}
	tw.Render()
	tw = newTable(c, "Chip", "Ch", "No.", "At s", "Severity", "What", "Detail")
	tw.Least("No.", "Ch")
	rows := 0
	for _, v := range views {
		for _, e := range v.Entries {
			tw.AppendRow(table.Row{v.Chip, v.Channel, e.Number, fmt.Sprintf("%.3f", e.At), e.Severity, e.What, e.Detail})
			rows++
		}
	}
	if rows > 0 {
		tw.Render()
	}
}
