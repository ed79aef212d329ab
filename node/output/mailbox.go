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
	Chip        wire.FabricNodeID `json:"chip"`             // the chip
	Channel     wire.Channel      `json:"channel"`          // ethernet channel of the router's port
	Tile        string            `json:"tile"`             // tile and offset of the mailbox, as 'mem read' takes them
	Incarnation string            `json:"incarnation"`      // incarnation of the chip's process, 16 hexadecimal digits
	At          float64           `json:"at_seconds"`       // time of the status, since the chip's start
	Peer        wire.FabricNodeID `json:"peer"`             // chip at the other end of the cable
	PeerChan    wire.Channel      `json:"peer_channel"`     // ethernet channel at the other end of the cable
	State       string            `json:"state"`            // state of the router: initializing, running, paused, draining or retraining
	Postcode    string            `json:"postcode"`         // progress of the link's bring-up, as the 8 hexadecimal digits of Spec §7.1
	Link        string            `json:"link"`             // state of the link
	LinkFor     float64           `json:"link_for_seconds"` // time for which the link has had this state, in seconds
	LastDown    string            `json:"last_down"`        // reason why the link went down last
	Downtime    float64           `json:"downtime_seconds"` // time for which the link was down in all, in seconds
	RTT         float64           `json:"rtt_microseconds"` // smoothed round trip of the link, in microseconds
	Heartbeat   string            `json:"heartbeat"`        // heartbeat of the router, 8 hexadecimal digits; the number grows while the router runs
	Retrains    uint32            `json:"retrains"`         // number of retrains of the link
	Queued      uint32            `json:"packets_queued"`   // number of packets in the port's receiver and sender channels
	Counters    map[string]uint64 `json:"counters"`         // counters of the port, by name; names that begin with bytes or frames count these, and other names count packets
	Posted      uint32            `json:"posted"`           // number of entries that the router has written
	Overwritten uint32            `json:"overwritten"`      // old entries that new entries have replaced in the ring
	Torn        int               `json:"torn"`             // entries that the router wrote while the command read them
	Entries     []MailboxEntry    `json:"entries"`          // entries in the ring, oldest first
}

// MailboxEntry is an entry of a mailbox in the form that `mailbox -o json` prints.
type MailboxEntry struct {
	Number   uint32  `json:"number"`     // number of the entry
	At       float64 `json:"at_seconds"` // time of the entry, since the chip's start
	Severity string  `json:"severity"`   // info, warning or error
	What     string  `json:"what"`       // what happened
	Detail   string  `json:"detail"`     // further facts, for people; empty if there are none
}

// MailboxOf returns a mailbox as the command prints it. The argument "at" is the address of the
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
		what = [...]string{"tables in force", "tables in force, old detours outdated", "tables refused"}[min(e.Reason, 2)]
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
