package capture

import (
	"fmt"
	"strings"
	"time"

	"ttfabric/wire"
)

// lineTime is the format of the time at the start of a line: the local time of day in nanoseconds.
const lineTime = "15:04:05.000000000"

// Line describes a datagram in one line for people: the time, the port, the direction, the peer's
// port, the frame, the packet and the notes. The caller must pass s to [Tracker.Look] before.
func Line(at time.Time, s *Sight, notes []string) string {
	var b strings.Builder
	arrow := ">"
	if s.Dir == DirIn {
		arrow = "<"
	}
	fmt.Fprintf(&b, "%s %s %s %s ", at.Format(lineTime), PortName(s.Port), arrow, PortName(s.Peer))
	switch {
	case s.IsFrame:
		frameLine(&b, s)
	case wire.IsRaw(s.Data):
		fmt.Fprintf(&b, "raw, %d bytes", s.Length)
	default:
		fmt.Fprintf(&b, "not TT-link, %d bytes", s.Length)
	}
	if s.Head != nil {
		packetLine(&b, s)
	}
	if s.Retransmitted {
		b.WriteString(" [retransmission]")
	}
	if isBad(s) {
		b.WriteString(" [damaged]")
	}
	for _, n := range notes {
		fmt.Fprintf(&b, " [%s]", n)
	}
	return b.String()
}

func frameLine(b *strings.Builder, s *Sight) {
	f := &s.Frame
	b.WriteString(kindNames[f.Kind])
	switch {
	case f.Kind == wire.KindData:
		fmt.Fprintf(b, " vc %d seq %d", f.VC, f.TxSeq)
	case f.Kind == wire.KindWrite, f.Kind == wire.KindMMIO:
		fmt.Fprintf(b, " queue %d seq %d to %#x", f.VC, f.TxSeq, f.Dest)
	case f.Kind == wire.KindHello:
		helloLine(b, f.Payload)
	}
	for _, x := range []struct {
		flag wire.Flags
		word string
	}{{wire.FlagNACK, " NACK"}, {wire.FlagSolicit, " solicit"}} {
		if f.Flags&x.flag != 0 {
			b.WriteString(x.word)
		}
	}
	fmt.Fprintf(b, " ack %d, %d bytes", f.RxSeq, s.Length)
	if _, offset := f.Slot(); f.Kind == wire.KindData && (offset != 0 || f.Flags&wire.FlagEnd == 0) {
		fmt.Fprintf(b, ", piece at %d", offset)
		if f.Flags&wire.FlagEnd != 0 {
			b.WriteString(", the last")
		}
	}
	if s.Port.Channel != f.Channel && s.Dir == DirIn || s.Dir == DirOut && s.Peer.Channel != f.Channel {
		fmt.Fprintf(b, ", for channel %d", f.Channel)
	}
}

func helloLine(b *strings.Builder, payload []byte) {
	h, err := wire.DecodeHello(payload[:min(len(payload), wire.HelloLen)])
	if err != nil {
		return
	}
	fmt.Fprintf(b, " training %d", h.Training)
	for _, x := range []struct {
		is   bool
		word string
	}{{h.Up, " up"}, {h.WantAnswer, " want"}, {h.Via != 0, " via another cable"}} {
		if x.is {
			b.WriteString(x.word)
		}
	}
}

func packetLine(b *strings.Builder, s *Sight) {
	v := s.Head
	what := typeNames[v.Type()]
	if v.Type() == wire.PacketRequest {
		what = v.SendType().String()
	}
	fmt.Fprintf(b, " | %s %s > %s", what, v.Src(), v.Dst())
	if toMembers(v) {
		fmt.Fprintf(b, " and chips %s", v.Members())
	} else if v.Trunk() != wire.TrunkNone {
		fmt.Fprintf(b, " and %s", v.Ranges())
	}
	switch v.Type() {
	case wire.PacketRequest, wire.PacketProbe, wire.PacketReply:
		fmt.Fprintf(b, " id %#x", v.ID())
	}
	if v.Type() == wire.PacketRequest || v.Type() == wire.PacketProbe {
		_, seq := v.Flow()
		fmt.Fprintf(b, " flow %d", seq)
	}
	fmt.Fprintf(b, " plane %d hop %d ttl %d, %d bytes", v.Plane(), v.Hop(), v.TTL(), v.PayloadLen())
	if v.Detour() {
		b.WriteString(", detour")
	}
	if v.Other() {
		b.WriteString(", other way")
	}
}
