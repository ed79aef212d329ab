package output

import (
	"fmt"
	"time"

	"ttfabric/router"
	"ttfabric/router/topo"
	"ttfabric/ttlink"
	"ttfabric/wire"
)

// Mailbox is a router's mailbox in the form that `mailbox -o json` prints.
type Mailbox struct {
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
	Entries     []MailboxEntry    `json:"entries"`
}

// MailboxEntry is an entry of a mailbox in the form that `mailbox -o json` prints.
type MailboxEntry struct {
	Number   uint32  `json:"number"`
	At       float64 `json:"at_seconds"` // time of the entry, since the chip's start
	Severity string  `json:"severity"`
	What     string  `json:"what"`
	Detail   string  `json:"detail"`
}

// MailboxOf returns a mailbox as the command prints it. The argument at is the address of the
// mailbox.
func MailboxOf(m *wire.Mailbox, at wire.NocAddr) Mailbox {
	v := statusOf(&m.Status, at)
	v.Torn = m.Torn
	for i := range m.Entries {
		e := &m.Entries[i]
		what, detail := entryWords(e)
		v.Entries = append(v.Entries, MailboxEntry{e.Number, float64(e.At) / 1e9, e.Severity.String(), what, detail})
	}
	return v
}

func statusOf(s *wire.MailboxStatus, at wire.NocAddr) Mailbox {
	const second = 1e9
	return Mailbox{Chip: s.Local.Node, Channel: s.Local.Channel, Tile: at.String(), Incarnation: fmt.Sprintf("%016x", uint64(s.Incarnation)),
		At: float64(s.At) / second, Peer: s.Peer.Node, PeerChan: s.Peer.Channel, State: s.State.String(), Postcode: fmt.Sprintf("%08X", uint32(s.Postcode)),
		Link: ttlink.State(s.LinkState).String(), LinkFor: float64(s.At-s.Since) / second, LastDown: ttlink.DownReason(s.LastDown).String(),
		Downtime: float64(s.Downtime) / second, RTT: float64(s.RTT) / 1e3, Heartbeat: fmt.Sprintf("%08X", s.Heartbeat), Retrains: s.Retrains,
		Queued: s.InReceiver + s.InSender, Posted: s.Posted, Overwritten: s.Posted - min(s.Posted, wire.MailboxEntries), Entries: []MailboxEntry{},
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
		if detail = "for " + time.Duration(e.For).Round(time.Millisecond).String(); e.For == 0 {
			detail = "until the cable is back in service"
		}
	case ttlink.EventIncompatible:
		detail = ttlink.Mismatch(e.Reason).String()
	}
	return what, detail
}
