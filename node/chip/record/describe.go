package record

import (
	"fmt"
	"strings"

	"ttfabric/node/chip"
	"ttfabric/node/flow"
	"ttfabric/ttlink"
	"ttfabric/wire"
)

// String returns the name of a call, or for any other record a name such as "answer of
// Deadline".
func (k Kind) String() string {
	switch k {
	case KindAdmission:
		return "answer of HandleRequest"
	case KindSize:
		return "answer of SetMaxPayload"
	case KindDue:
		return "answer of Deadline"
	case KindNext:
		return "client Next"
	case KindUndo:
		return "client Undo"
	case KindDone:
		return "client Done"
	case KindPerformed:
		return "client Performed"
	case KindClientDeadline:
		return "client Deadline"
	case KindEnd:
		return "end"
	}
	return chip.Op(k).String()
}

// Describe renders a record in one line for display, with decoded frames.
func Describe(r *Record) string {
	switch r.Kind {
	case Kind(chip.OpHandleDatagram):
		return fmt.Sprintf("%s channel %d: %s", r.Kind, r.Channel, DescribeFrame(r.Data, len(r.Data)))
	case Kind(chip.OpHandleRequest):
		return fmt.Sprintf("%s %s", r.Kind, describeRequest(&r.Request))
	case Kind(chip.OpHandleLives):
		return fmt.Sprintf("%s: %v", r.Kind, getLives(r.Data))
	case Kind(chip.OpHandleLinkStates):
		return fmt.Sprintf("%s: %x", r.Kind, r.Data)
	case Kind(chip.OpStartJob), Kind(chip.OpEndJob):
		return fmt.Sprintf("%s: %s", r.Kind, r.Data)
	case Kind(chip.OpSetPath), Kind(chip.OpSetMaxPayload), Kind(chip.OpAvoid), Kind(chip.OpCommand), Kind(chip.OpFlush), Kind(chip.OpAsk), Kind(chip.OpAssign), Kind(chip.OpCut), Kind(chip.OpRefused), Kind(chip.OpMark):
		return fmt.Sprintf("%s channel %d: %d", r.Kind, r.Channel, r.N)
	case Kind(chip.OpSetClient):
		return fmt.Sprintf("%s: %s", r.Kind, [...]string{"none", "one without deadlines", "one with deadlines"}[r.N])
	case Kind(chip.OpLend):
		return fmt.Sprintf("%s: %d bytes", r.Kind, r.Num)
	case Kind(chip.OpHandleTransfer):
		return fmt.Sprintf("%s #%d: %s, %d bytes", r.Kind, r.Num, wire.Outcome(r.N), len(r.Data))
	case Kind(chip.OpHandleStore):
		return fmt.Sprintf("%s channel %d: %d bytes at %#x", r.Kind, r.Channel, len(r.Data), r.Num)
	case Kind(chip.OpPollTransfer):
		if !r.OK {
			return fmt.Sprintf("%s: nothing", r.Kind)
		}
		what := "read"
		if r.Transfer.Write {
			what = "write"
		}
		return fmt.Sprintf("%s: #%d, %s of %d bytes at %#x", r.Kind, r.Transfer.ID, what, r.Transfer.Len, r.Transfer.Addr)
	case Kind(chip.OpPollTransmit):
		if !r.OK {
			return fmt.Sprintf("%s: nothing", r.Kind)
		}
		return fmt.Sprintf("%s channel %d%s", r.Kind, r.Channel, describeSent(&r.Sent))
	case Kind(chip.OpPollEvent):
		if !r.OK {
			return fmt.Sprintf("%s: nothing", r.Kind)
		}
		return fmt.Sprintf("%s: %s", r.Kind, r.Data)
	case Kind(chip.OpPollResult), KindDone:
		if !r.OK && r.Kind != KindDone {
			return fmt.Sprintf("%s: nothing", r.Kind)
		}
		return fmt.Sprintf("%s: %s", r.Kind, describeResult(&r.Result))
	case KindAdmission:
		return fmt.Sprintf("%s: %s", r.Kind, describeAdmission(r.Admission))
	case KindSize:
		if r.Text == "" {
			return fmt.Sprintf("%s: ok", r.Kind)
		}
		return fmt.Sprintf("%s: %s", r.Kind, r.Text)
	case KindDue, KindClientDeadline:
		if !r.OK {
			return fmt.Sprintf("%s: none", r.Kind)
		}
		return fmt.Sprintf("%s: %v", r.Kind, r.At)
	case KindNext:
		if !r.OK {
			return fmt.Sprintf("%s: nothing", r.Kind)
		}
		return fmt.Sprintf("%s: %s", r.Kind, describeRequest(&r.Request))
	case KindPerformed:
		return fmt.Sprintf("%s: %s of %s on plane %d%s", r.Kind, describeCommand(&r.Command), r.Src, r.Plane, otherWay(r.Other))
	case KindEnd:
		return fmt.Sprintf("end: %s %s", r.End, r.Text)
	}
	return r.Kind.String()
}

func describeAdmission(a flow.Admission) string {
	names := [...]string{"accepted", "busy", "no such chip", "no such plane", "unreachable", "too large", "bad hops", "bad ranges", "cannot be posted"}
	if int(a) < len(names) {
		return names[a]
	}
	return fmt.Sprintf("admission %d", a)
}

func describeRequest(r *flow.Request) string {
	s := fmt.Sprintf("#%d to %s plane %d%s: ", r.Token, r.Dst, r.Plane, otherWay(r.Other))
	if r.Ranges.Any() {
		s = fmt.Sprintf("#%d multicast %s plane %d: ", r.Token, r.Ranges, r.Plane)
	}
	if r.Members.Any() {
		s = fmt.Sprintf("#%d multicast to chips %s of mesh %d plane %d: ", r.Token, r.Members, r.Dst.Mesh, r.Plane)
	}
	if r.Posted {
		s += "posted "
	}
	if r.Probe && r.Flush {
		s += "flush"
	} else if r.Probe {
		s += "probe"
	} else {
		s += fmt.Sprintf("%s, %d bytes", describeCommand(&r.Command), len(r.Payload))
	}
	if len(r.Via) > 0 {
		s += fmt.Sprintf(" via %v", r.Via)
	}
	if r.Trace {
		s += " traced"
	}
	return s
}

func describeCommand(c *wire.Command) string {
	s := fmt.Sprintf("%s %s", c.Type, c.Addr)
	if c.Type == wire.NocRead {
		s += fmt.Sprintf(" %d bytes", c.Size)
	}
	return s
}

func describeResult(r *Result) string {
	s := fmt.Sprintf("#%d to %s: %s", r.Token, r.Dst, r.Fate)
	if r.Outcome != 0 {
		s += ", " + r.Outcome.String()
	}
	if r.Drop != 0 {
		s += fmt.Sprintf(", %s at %s", r.Drop, r.Result.At)
	}
	if r.Doubt != 0 {
		s += ", " + r.Doubt.String()
	}
	if r.Missed > 0 {
		s += fmt.Sprintf(", %d posted requests missed", r.Missed)
	}
	if r.DataLen > 0 {
		s += fmt.Sprintf(", data of %d bytes, sum %08x", r.DataLen, r.DataSum)
	}
	if r.Members > 0 {
		s += fmt.Sprintf(", not done at %d members, sum %08x", r.Members, r.MembersSum)
	}
	return s + fmt.Sprintf(", sent at %v, after %v", r.Result.Sent, r.Done.Sub(r.Result.Sent))
}

// shownFrames is the largest number of frames of a transmit that Describe shows.
const shownFrames = 3

func describeSent(s *Sent) string {
	var b strings.Builder
	if s.Path != ttlink.Own {
		b.WriteString(" (frames of a parallel link)")
	}
	fmt.Fprintf(&b, ": %d frames, %d bytes, sum %08x", len(s.Heads), s.Bytes, s.Sum)
	left := s.Bytes
	for i, h := range s.Heads {
		n := min(max(s.Seg, 1), left)
		left -= n
		if i == shownFrames {
			fmt.Fprintf(&b, "; and %d more", len(s.Heads)-i)
			break
		}
		b.WriteString("; ")
		b.WriteString(DescribeFrame(h, n))
	}
	return b.String()
}

// DescribeFrame renders a frame of size bytes for display. The slice b may hold only the
// first bytes of the frame.
func DescribeFrame(b []byte, size int) string {
	if len(b) == size {
		f, err := wire.DecodeFrame(b)
		if err != nil {
			return fmt.Sprintf("%d bytes that are no frame: %v", size, err)
		}
		return describeFrame(&f, size)
	}
	f, ok := wire.PeekFrame(b)
	if !ok {
		return fmt.Sprintf("%d bytes", size)
	}
	return describeFrame(&f, size)
}

func describeFrame(f *wire.Frame, size int) string {
	s := fmt.Sprintf("%s session %08x", kindName(f.Kind), uint32(f.Session))
	switch f.Kind {
	case wire.KindHello:
		if h, err := wire.DecodeHello(f.Payload); err == nil {
			s += fmt.Sprintf(" from %s for %s, up %v, training %d/%d, incarnation %x/%x, payload %d", h.From, h.Expected, h.Up, h.Training, h.EchoTraining,
				uint64(h.Incarnation), uint64(h.EchoIncarnation), h.MaxPayload)
		}
	case wire.KindData:
		s += fmt.Sprintf(" seq %d ack %d vc %s", uint32(f.TxSeq), uint32(f.RxSeq), f.VC)
		if _, offset := f.Slot(); offset == 0 {
			s += describePacket(wire.PacketView(f.Payload))
		} else {
			s += fmt.Sprintf(" piece at %d", offset)
		}
	case wire.KindWrite, wire.KindMMIO:
		s += fmt.Sprintf(" seq %d ack %d queue %d to %#x", uint32(f.TxSeq), uint32(f.RxSeq), f.VC, f.Dest)
	case wire.KindUpdate:
		s += fmt.Sprintf(" ack %d", uint32(f.RxSeq))
		if f.Flags&wire.FlagNACK != 0 {
			s += " nack"
		}
		if f.Flags&wire.FlagSolicit != 0 {
			s += " solicit"
		}
		if u, err := wire.DecodeUpdate(f.Payload); err == nil {
			s += fmt.Sprintf(" grants %v", u.Grants)
		}
	}
	return fmt.Sprintf("%s, %d bytes", s, size)
}

func kindName(k wire.Kind) string {
	switch k {
	case wire.KindData:
		return "data"
	case wire.KindUpdate:
		return "update"
	case wire.KindHello:
		return "hello"
	case wire.KindClose:
		return "close"
	case wire.KindWrite:
		return "L1 write"
	case wire.KindMMIO:
		return "MMIO write"
	}
	return fmt.Sprintf("kind %d", k)
}

func otherWay(other bool) string {
	if other {
		return ", other direction round rings"
	}
	return ""
}

// describePacket renders the header of a packet for display.
func describePacket(v wire.PacketView) string {
	if !v.HeadWhole() {
		return ""
	}
	names := map[wire.PacketType]string{wire.PacketRequest: "request", wire.PacketReply: "reply", wire.PacketCompletion: "completion",
		wire.PacketDropReport: "drop report", wire.PacketProbe: "probe", wire.PacketLinkState: "link states"}
	name, ok := names[v.Type()]
	if !ok {
		name = fmt.Sprintf("packet of type %d", v.Type())
	}
	s := fmt.Sprintf(" %s %s to %s ttl %d", name, v.Src(), v.Dst(), v.TTL())
	if !v.Type().Control() { // control packets have neither id nor flow
		epoch, seq := v.Flow()
		s += fmt.Sprintf(" id %d flow %08x/%d", v.ID(), epoch, seq)
	}
	return s + otherWay(v.Other())
}
