package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"ttfabric/node/chip"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/session"
	"ttfabric/router"
	"ttfabric/router/topo"
	"ttfabric/ttlink"
	"ttfabric/wire"
)

// mailboxTries is the largest number of times that the command reads a mailbox while
// the mailbox's router keeps writing to the mailbox.
const mailboxTries = 5

// mailboxView is a router's mailbox in the form that `mailbox -o json` prints.
type mailboxView struct {
	Chip        wire.FabricNodeID `json:"chip"`
	Channel     wire.Channel      `json:"channel"`
	Tile        string            `json:"tile"` // tile and offset of the mailbox, as 'mem read' takes them
	Incarnation string            `json:"incarnation"`
	At          float64           `json:"at_seconds"` // time of the status, since the chip's start
	Peer        wire.FabricNodeID `json:"peer"`
	PeerChan    wire.Channel      `json:"peer_channel"`
	State       string            `json:"state"`
	Postcode    string            `json:"postcode"`
	Link        string            `json:"link"`
	LinkFor     float64           `json:"link_for_seconds"`
	LastDown    string            `json:"last_down"`
	Downtime    float64           `json:"downtime_seconds"`
	RTT         float64           `json:"rtt_microseconds"`
	Heartbeat   string            `json:"heartbeat"`
	Retrains    uint32            `json:"retrains"`
	Queued      uint32            `json:"packets_queued"`
	Counters    map[string]uint64 `json:"counters"`
	Posted      uint32            `json:"posted"`
	Overwritten uint32            `json:"overwritten"` // old entries that new entries have replaced in the ring
	Torn        int               `json:"torn"`        // entries that the router wrote while the command read them
	Entries     []mailboxEntry    `json:"entries"`
}

// mailboxEntry is an entry of a mailbox in the form that `mailbox -o json` prints.
type mailboxEntry struct {
	Number   uint32  `json:"number"`
	At       float64 `json:"at_seconds"` // time of the entry, since the chip's start
	Severity string  `json:"severity"`
	What     string  `json:"what"`
	Detail   string  `json:"detail"`
}

func newMailbox() *cobra.Command {
	var last int
	c := &cobra.Command{Use: "mailbox CHIP[:CHANNEL]", Short: "Read the status mailboxes of a chip's routers, through the fabric", Args: cobra.ExactArgs(1),
		Long: fmt.Sprintf(`The command reads the status mailboxes of a chip's routers, as the control plane
does. A router posts its status and its latest %d entries in the L1 memory of its
ethernet tile (Spec §7.1). The command prints one row per router, and the last
entries. The reads are plain NoC reads, which enter the fabric at --via. The
following command shows the same bytes, in the layout that wire/mailbox.go describes:

  ttfabric mem read CHIP TILE %d`, wire.MailboxEntries, wire.MailboxSize),
		Example: "  ttfabric mailbox M0D3\n  ttfabric mailbox M0D3:8 --last 64\n  ttfabric mailbox M0D3 --via M0D0 -o json",
		RunE: func(c *cobra.Command, args []string) error {
			f, err := format(c)
			if err != nil {
				return err
			}
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
			if f == "json" {
				return printJSON(c, views)
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
func readMailboxes(c *cobra.Command, arg string) ([]mailboxView, error) {
	name, channel, one := arg, uint64(0), false
	if i := strings.LastIndexByte(arg, ':'); i > 0 && strings.ContainsAny(arg[:i], "mMdD:") {
		n, err := strconv.ParseUint(arg[i+1:], 10, 8)
		if err != nil {
			return nil, spec.Usagef("%q: want a chip such as M0D3, or CHIP:CHANNEL such as M0D3:8", arg)
		}
		name, channel, one = arg[:i], n, true
	}
	f, n, err := chipArg(c, name)
	if err != nil {
		return nil, err
	}
	via := n
	if v, _ := c.Flags().GetString("via"); v != "" {
		if via, err = chipOf(f.Topology, v); err != nil {
			return nil, err
		}
	}
	cl, err := f.Client(via)
	if err != nil {
		return nil, err
	}
	t := cl.Topology()
	k, _ := c.Flags().GetInt("plane")
	plane, err := planeOf(t, k)
	if err != nil {
		return nil, err
	}
	var views []mailboxView
	for _, p := range t.Ports(n) {
		if one && uint64(p.Local.Channel) != channel {
			continue
		}
		v, err := readMailbox(c.Context(), session.New(cl), t, p.Local, plane)
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

// readMailbox reads the mailbox of port p. If the router wrote to the mailbox meanwhile,
// readMailbox reads the mailbox again, and reads at most [mailboxTries] times. The field
// Torn of the result is the number of entries that the last read could not get.
func readMailbox(ctx context.Context, s *session.Session, t *topo.Topology, p wire.PortID, plane wire.Plane) (v mailboxView, err error) {
	at, err := chip.MailboxAddr(t.Arch, p.Channel)
	if err != nil {
		return v, err
	}
	var m wire.Mailbox
	for range mailboxTries {
		b := make([]byte, wire.MailboxSize)
		if err = s.Read(ctx, p.Node, at, b, session.OnPlane(plane)); err != nil {
			return v, err
		}
		if m, err = wire.DecodeMailbox(b); err == nil && m.Torn == 0 || errors.Is(err, wire.ErrMailboxNone) {
			break
		}
	}
	if err != nil {
		return v, fmt.Errorf("chip %s channel %d, tile %s: %w", p.Node, p.Channel, at, err)
	}
	v = statusView(&m.Status, at)
	v.Torn = m.Torn
	for _, e := range m.Entries {
		what, detail := entryWords(&e)
		v.Entries = append(v.Entries, mailboxEntry{e.Number, float64(e.At) / 1e9, e.Severity.String(), what, detail})
	}
	return v, nil
}

// statusView returns a status in the form that the command prints. The argument at is the
// address of the mailbox.
func statusView(s *wire.MailboxStatus, at wire.NocAddr) mailboxView {
	const second = 1e9
	return mailboxView{Chip: s.Local.Node, Channel: s.Local.Channel, Tile: at.String(), Incarnation: fmt.Sprintf("%016x", uint64(s.Incarnation)),
		At: float64(s.At) / second, Peer: s.Peer.Node, PeerChan: s.Peer.Channel, State: s.State.String(), Postcode: fmt.Sprintf("%08X", uint32(s.Postcode)),
		Link: ttlink.State(s.LinkState).String(), LinkFor: float64(s.At-s.Since) / second, LastDown: ttlink.DownReason(s.LastDown).String(),
		Downtime: float64(s.Downtime) / second, RTT: float64(s.RTT) / 1e3, Heartbeat: fmt.Sprintf("%08X", s.Heartbeat), Retrains: s.Retrains,
		Queued: s.InReceiver + s.InSender, Posted: s.Posted, Overwritten: s.Posted - min(s.Posted, wire.MailboxEntries), Entries: []mailboxEntry{},
		Counters: map[string]uint64{"packets_sent": s.PacketsSent, "bytes_sent": s.BytesSent, "frames_sent": s.FramesSent, "retransmitted": s.FramesResent,
			"packets_received": s.PacketsReceived, "bytes_received": s.BytesReceived, "frames_received": s.FramesReceived, "frames_refused": s.FramesRefused,
			"injected": s.Injected, "forwarded": s.Forwarded, "delivered": s.Delivered, "dropped": s.Dropped}}
}

// entryWords translates an entry into words.
func entryWords(e *wire.MailboxEntry) (what, detail string) {
	cable := "own cable"
	if e.Path != wire.MailboxOwnCable {
		cable = fmt.Sprintf("by the cable of channel %d", e.Path)
	}
	switch e.Kind {
	case wire.MailboxDropped:
		return "packets dropped", fmt.Sprintf("%d from %s to %s: %s", e.Packets, e.Src, e.Dst, wire.DropReason(e.Reason))
	case wire.MailboxTables:
		what = [...]string{"tables in force", "tables in force, old detours given up", "tables refused"}[min(e.Reason, 2)]
		return what, fmt.Sprintf("epoch %08x, without %s", uint32(e.Session), topo.Count(int(e.Packets), "cable"))
	case wire.MailboxCommand:
		if e.Reason == 255 {
			return "router flushed", topo.Count(int(e.Packets), "packet") + " given up"
		}
		return "router command", router.Command(e.Reason).String()
	case wire.MailboxStuck:
		where := "receiver channel"
		if e.Path != wire.MailboxOwnCable {
			where = fmt.Sprintf("sender channel %d", e.Path)
		}
		return "packets stuck", fmt.Sprintf("%d in the %s of %s for %v, the first from %s to %s", e.Packets, where, wire.VC(e.VC),
			time.Duration(e.For).Round(time.Millisecond), e.Src, e.Dst)
	}
	k := ttlink.EventKind(e.Kind)
	what = "link " + k.String()
	switch k {
	case ttlink.EventUp, ttlink.EventPath:
		detail = fmt.Sprintf("%s, %s", cable, topo.Count(int(e.Retrains), "retrain"))
	case ttlink.EventDown:
		detail = ttlink.DownReason(e.Reason).String()
	case ttlink.EventSessionStarted:
		detail = fmt.Sprintf("session %08x", uint32(e.Session))
	case ttlink.EventSessionEnded:
		detail = fmt.Sprintf("session %08x, %s of unknown fate", uint32(e.Session), topo.Count(int(e.Packets), "packet"))
	case ttlink.EventMiswired:
		detail = fmt.Sprintf("found %s channel %d", e.Src, e.VC)
	case ttlink.EventNarrow, ttlink.EventWide:
		detail = fmt.Sprintf("to %d bytes of payload", e.Packets)
	case ttlink.EventHeld:
		detail = "for " + time.Duration(e.For).Round(time.Millisecond).String()
	case ttlink.EventIncompatible:
		detail = ttlink.Mismatch(e.Reason).String()
	}
	return what, detail
}

func printMailboxes(c *cobra.Command, views []mailboxView) {
	tw := newTable(c, "Chip", "Ch", "Tile", "Peer", "State", "Postcode", "Link", "For", "Heartbeat", "Retrains", "Sent", "Received", "Resent", "Forwarded", "Dropped", "Queued", "Entries", "Overwritten")
	for _, v := range views {
		n := v.Counters
		tw.AppendRow(table.Row{v.Chip, v.Channel, v.Tile, fmt.Sprintf("%s/%d", v.Peer, v.PeerChan), v.State, v.Postcode, v.Link,
			time.Duration(v.LinkFor * float64(time.Second)).Round(time.Second), v.Heartbeat, v.Retrains, n["packets_sent"], n["packets_received"],
			n["retransmitted"], n["forwarded"], n["dropped"], v.Queued, v.Posted, v.Overwritten})
	}
	tw.Render()
	tw = newTable(c, "Chip", "Ch", "No.", "At s", "Severity", "What", "Detail")
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
