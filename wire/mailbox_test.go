package wire

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// TestMailboxVectors compares the encoding with the bytes of an independent encoder
// (testdata/mailbox.py).
func TestMailboxVectors(t *testing.T) {
	vectors(t, "mailbox", 6, func(t *testing.T, v *vector) {
		if strings.HasPrefix(v.text("name"), "entry") {
			mailboxEntryVector(t, v)
			return
		}
		long := v.list("longs")[0]
		at := func(i int) uint64 { return long[i] }
		flags := v.num("flags")
		want := MailboxStatus{Seq: uint32(v.num("seq")), Incarnation: Incarnation(v.num("incarnation")), At: v.num("at"),
			Local: v.port("local"), Dir: Direction(v.num("direction")), Plane: Plane(v.num("plane")), Path: uint8(v.num("path")),
			Peer: v.port("peer"), LinkState: uint8(v.num("link")), LastDown: uint8(v.num("down")), Confirmed: flags&1 != 0, Miswired: flags&2 != 0,
			State: RouterState(v.num("state")), Postcode: Postcode(v.num("post")), Heartbeat: uint32(v.num("heartbeat")), Posted: uint32(v.num("posted")),
			Session: SessionID(v.num("session")), Retrains: uint32(v.num("retrains")), Since: at(0), Downtime: at(1), RTT: at(2),
			PacketsSent: at(3), BytesSent: at(4), FramesSent: at(5), FramesResent: at(6),
			PacketsReceived: at(7), BytesReceived: at(8), FramesReceived: at(9), FramesRefused: at(10),
			Injected: at(11), Forwarded: at(12), Delivered: at(13), Dropped: at(14),
			InReceiver: uint32(v.list("inside")[0][0]), InSender: uint32(v.list("inside")[0][1]), Epoch: uint32(v.num("epoch"))}
		mailboxBytes(t, v.bytes, want, DecodeMailboxStatus, want.Put)
	})
}

func mailboxEntryVector(t *testing.T, v *vector) {
	node := func(key string) FabricNodeID {
		n := v.list(key)[0]
		return FabricNodeID{MeshID(n[0]), ChipID(n[1])}
	}
	want := MailboxEntry{Number: uint32(v.num("number")), Life: uint32(v.num("life")), At: v.num("at"), Kind: MailboxKind(v.num("kind")),
		Severity: Severity(v.num("severity")), Reason: uint8(v.num("reason")), Path: uint8(v.num("path")), Packets: uint32(v.num("packets")),
		Session: SessionID(v.num("session")), Retrains: uint32(v.num("retrains")), Src: node("src"), Dst: node("dst"), VC: uint8(v.num("vc")), For: v.num("wait")}
	mailboxBytes(t, v.bytes, want, DecodeMailboxEntry, want.Put)
}

func (v *vector) port(key string) PortID {
	n := v.list(key)[0]
	return PortID{FabricNodeID{MeshID(n[0]), ChipID(n[1])}, Channel(n[2])}
}

// mailboxBytes checks that raw decodes to want, and that want encodes to raw. mailboxBytes also
// checks that decode refuses raw if raw is cut off or if one bit is flipped.
func mailboxBytes[T comparable](t *testing.T, raw []byte, want T, decode func([]byte) (T, error), put func([]byte)) {
	t.Helper()
	got, err := decode(raw)
	if err != nil || got != want {
		t.Errorf("decoded %v\n%+v, want\n%+v", err, got, want)
	}
	out := bytes.Repeat([]byte{0xEE}, len(raw)+1) // put must overwrite all earlier content
	if put(out); !bytes.Equal(out[:len(raw)], raw) || out[len(raw)] != 0xEE {
		t.Errorf("encoded\n%x, want\n%x", out, raw)
	}
	for n := range raw {
		if _, err := decode(raw[:n:n]); !errors.Is(err, ErrMailboxNone) {
			t.Fatalf("the first %d of %d bytes: %v", n, len(raw), err)
		}
		for bit := range 8 {
			b := bytes.Clone(raw)
			b[n] ^= 1 << bit
			if _, err := decode(b); err == nil {
				t.Fatalf("taken although bit %d of byte %d is another", bit, n)
			}
		}
	}
}

// mailboxOf returns the mailbox of a router that has written n entries.
func mailboxOf(n uint32) []byte {
	b := make([]byte, MailboxSize)
	for i := uint32(0); i < n; i++ {
		(&MailboxEntry{Number: i, Life: 5, At: uint64(i), Kind: MailboxDropped, Packets: i}).Put(b[MailboxEntryAt(i):])
	}
	(&MailboxStatus{Incarnation: 5, Posted: n, Path: MailboxOwnCable}).Put(b)
	return b
}

// TestMailboxWrapsAround checks that the mailbox holds the last 64 entries, or all entries if the
// router has written fewer.
func TestMailboxWrapsAround(t *testing.T) {
	for _, n := range []uint32{0, 1, 63, 64, 65, 127, 128, 1000} {
		m, err := DecodeMailbox(mailboxOf(n))
		if err != nil || m.Torn != 0 || len(m.Entries) != int(min(n, MailboxEntries)) {
			t.Fatalf("%d posted: %v, %d entries, %d torn", n, err, len(m.Entries), m.Torn)
		}
		for i, e := range m.Entries {
			if want := n - uint32(len(m.Entries)) + uint32(i); e.Number != want || e.Packets != want {
				t.Fatalf("%d posted: entry %d is %+v", n, i, e)
			}
		}
	}
}

// TestMailboxReadWhileWritten decodes regions that a reader put together from two reads at
// different times. The first cut bytes are some entries older or newer than the rest. No decoded
// entry may be a mixture.
func TestMailboxReadWhileWritten(t *testing.T) {
	for _, later := range []uint32{1, 3, 64, 65, 200} {
		older, newer := mailboxOf(100), mailboxOf(100+later)
		for cut := 0; cut <= MailboxSize; cut += 4 {
			for _, b := range [][]byte{append(bytes.Clone(older[:cut]), newer[cut:]...), append(bytes.Clone(newer[:cut]), older[cut:]...)} {
				m, err := DecodeMailbox(b)
				if err != nil {
					if cut == 0 || cut >= MailboxStatusLen {
						t.Fatalf("cut at %d: %v", cut, err)
					}
					continue
				}
				if len(m.Entries)+m.Torn != MailboxEntries {
					t.Fatalf("cut at %d: %d entries and %d torn", cut, len(m.Entries), m.Torn)
				}
				for _, e := range m.Entries {
					if e.Number != e.Packets || e.Number+MailboxEntries < m.Status.Posted || e.Number >= m.Status.Posted {
						t.Fatalf("cut at %d: %+v of %d posted", cut, e, m.Status.Posted)
					}
				}
			}
		}
	}
}

func TestNoMailbox(t *testing.T) {
	if _, err := DecodeMailbox(make([]byte, MailboxSize)); !errors.Is(err, ErrMailboxNone) {
		t.Errorf("of zeros: %v", err)
	}
	if _, err := DecodeMailbox(mailboxOf(3)[:MailboxSize-1]); !errors.Is(err, ErrMailboxNone) {
		t.Errorf("a byte short: %v", err)
	}
	b := mailboxOf(3)
	(&MailboxStatus{Incarnation: 6, Posted: 3}).Put(b) // the chip has restarted with a new incarnation
	if m, err := DecodeMailbox(b); err != nil || len(m.Entries) != 0 || m.Torn != 3 {
		t.Errorf("entries of another life: %v, %+v", err, m)
	}
}

func FuzzMailbox(f *testing.F) {
	f.Add(mailboxOf(3), true)
	f.Add(mailboxOf(70), false)
	f.Fuzz(func(t *testing.T, b []byte, seal bool) {
		b = bytes.Clone(b)
		if seal && len(b) >= MailboxStatusLen { // without right checksums, DecodeMailbox would refuse almost every input
			sealMailbox(b[:MailboxStatusLen])
			for i := uint32(0); MailboxEntryAt(i)+MailboxEntryLen <= len(b) && i < MailboxEntries; i++ {
				sealMailbox(b[MailboxEntryAt(i):][:MailboxEntryLen])
			}
		}
		m, err := DecodeMailbox(b)
		if err != nil {
			return
		}
		if len(m.Entries)+m.Torn != int(min(m.Status.Posted, MailboxEntries)) {
			t.Fatalf("%d entries and %d torn of %d posted", len(m.Entries), m.Torn, m.Status.Posted)
		}
		again := make([]byte, MailboxSize)
		m.Status.Put(again)
		for _, e := range m.Entries {
			e.Put(again[MailboxEntryAt(e.Number):])
		}
		n, err := DecodeMailbox(again)
		if err != nil || n.Status != m.Status || len(n.Entries) != len(m.Entries) {
			t.Fatalf("%v: %+v became %+v", err, m, n)
		}
	})
}
