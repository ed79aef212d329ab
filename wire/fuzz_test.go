package wire

import (
	"bytes"
	"encoding/binary"
	"reflect"
	"testing"
)

// reseal overwrites the checksum of the frame b with the right checksum.
func reseal(b []byte) []byte {
	end := len(b) - TrailerLen
	binary.LittleEndian.PutUint32(b[end:], Checksum(b[:end]))
	return b
}

// checkView compares the fields that a PacketView of b returns with the decoded packet p. checkView
// also advances the view to the end of the packet's route.
func checkView(t *testing.T, b []byte, p *Packet) {
	t.Helper()
	v, err := ViewPacket(bytes.Clone(b))
	if err != nil {
		t.Fatalf("view: %v", err)
	}
	epoch, seq := v.Flow()
	if v.Type() != p.Type || v.VC() != p.VC || v.Plane() != p.Plane || v.TTL() != p.TTL || v.Src() != p.Src ||
		v.Dst() != p.Dst || v.Hop() != p.Hop || epoch != p.FlowEpoch || seq != p.FlowSeq {
		t.Fatalf("the view of %+v differs", p)
	}
	if v.Group() != p.Group || v.Trunk() != p.Trunk || p.Trunk != TrunkNone && !p.Members.Any() && v.Ranges() != p.Ranges { // with members, readers ignore the ranges
		t.Fatalf("the view of the multicast %+v differs", p)
	}
	if v.HasMembers() != p.Members.Any() || p.Members.Any() && v.Members() != p.Members || v.Posted() != p.Posted {
		t.Fatalf("the view of the members of %+v differs", p)
	}
	if v.Other() != p.Other || v.Up() != p.Up || v.Detour() != p.Detour || v.Known() != p.Known {
		t.Fatalf("the flags of the view of %+v differ", p)
	}
	if w := PacketView(bytes.Clone(v)); !w.Reroute(nil, !p.Up, !p.Detour) || w.Other() != p.Other || w.Known() != p.Known {
		t.Fatalf("a new route changes the flow of %+v", p)
	}
	for range min(int(p.TTL), 2*MaxHops) {
		want := byte(0)
		if int(v.Hop()) < len(p.Route) {
			want = p.Route[v.Hop()]
		}
		if v.Action() != want {
			t.Fatalf("action %d at hop %d of %x, want %d", v.Action(), v.Hop(), p.Route, want)
		}
		ttl, hop := v.TTL(), v.Hop()
		if !v.Advance() || v.TTL() != ttl-1 || v.Hop() < hop {
			t.Fatalf("advanced from TTL %d, hop %d to %d, %d", ttl, hop, v.TTL(), v.Hop())
		}
	}
	binary.LittleEndian.PutUint16(v[poTTL:], 0)
	before := bytes.Clone(v)
	if v.Advance() || !bytes.Equal(before, v) {
		t.Fatal("advanced although the TTL was used up")
	}
}

func FuzzFrame(f *testing.F) {
	f.Add((&Frame{Kind: KindClose, Session: 1}).Append(nil))
	f.Add((&Frame{Kind: KindData, VC: VCControl, Flags: FlagEnd, Padded: 64, Payload: make([]byte, 33)}).Append(nil))
	f.Add((&Frame{Kind: KindWrite, VC: 1, Flags: FlagEnd, Dest: 0x1A2B0, Padded: 32, Payload: make([]byte, 16)}).Append(nil))
	f.Add((&Frame{Kind: KindMMIO, Flags: FlagEnd, Dest: 0xFFB9001C, Padded: 32, Payload: make([]byte, 4)}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if n, err := FrameLen(b); err == nil && (n < FrameOverhead || n > len(b)) {
			t.Fatalf("length %d of %d bytes", n, len(b))
		}
		if len(b) >= FrameOverhead {
			b = reseal(bytes.Clone(b)) // without a right checksum, DecodeFrame would refuse almost every input
		}
		frame, err := DecodeFrame(b)
		if err != nil {
			if fault, ok := err.(FrameFault); !ok || fault == 0 || fault >= NumFrameFaults {
				t.Fatalf("error %v", err)
			}
			return
		}
		if frame.WireLen() != len(b) || len(frame.Payload) > MaxFrame || cap(frame.Payload) != len(frame.Payload) {
			t.Fatalf("%d bytes: %+v", len(b), frame)
		}
		if len(frame.Payload) > MaxFramePayload {
			t.Fatalf("payload of %d bytes", len(frame.Payload))
		}
		again, err := DecodeFrame(frame.Append(nil))
		if err != nil || !reflect.DeepEqual(frame, again) {
			t.Fatalf("%+v, again %+v: %v", frame, again, err)
		}
	})
}

func FuzzRaw(f *testing.F) {
	f.Add(AppendRaw(nil, 3, []byte("payload")))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= RawOverhead {
			b = reseal(bytes.Clone(b))
		}
		c, p, err := DecodeRaw(b)
		if err != nil {
			if fault, ok := err.(FrameFault); !ok || fault == 0 || fault >= NumFrameFaults {
				t.Fatalf("error %v", err)
			}
			return
		}
		if out := AppendRaw(nil, c, p); !bytes.Equal(out, b) || cap(p) != len(p) {
			t.Fatalf("%x, again %x", b, out)
		}
	})
}

func FuzzHello(f *testing.F) {
	f.Add((&Hello{Incarnation: 1, MaxPayload: PadUnit}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if h, err := DecodeHello(b); err == nil {
			if out := h.Append(nil); !bytes.Equal(out, b) {
				t.Fatalf("%x, again %x", b, out)
			}
		}
	})
}

func FuzzUpdate(f *testing.F) {
	f.Add(make([]byte, UpdateLen))
	f.Fuzz(func(t *testing.T, b []byte) {
		if u, err := DecodeUpdate(b); err == nil {
			if out := u.Append(nil); !bytes.Equal(out, b) {
				t.Fatalf("%x, again %x", b, out)
			}
		}
	})
}

func FuzzPacket(f *testing.F) {
	add := func(p Packet) { f.Add(p.Append(nil)) }
	add(Packet{Type: PacketRequest, TTL: 9, Route: []byte{1, 2}, Command: Command{Type: NocUnicastWrite, Size: 3}, Payload: []byte{1, 2, 3}})
	add(Packet{Type: PacketRequest, TTL: 9, Route: make([]byte, MaxHops), Command: Command{Type: NocRead, Size: 3}})
	add(Packet{Type: PacketRequest, Command: Command{Type: NocScatterWrite, Size: 2, Chunks: 2, Sizes: [MaxScatter]uint16{1, 1}}, Payload: []byte{1, 2}})
	for _, typ := range []PacketType{PacketCompletion, PacketDropReport, PacketLinkState} {
		add(Packet{Type: typ, VC: VCControl, TTL: 3, Hop: 1, Route: []byte{8, 1}, Payload: make([]byte, 20), Command: Command{Type: NocNone, Size: 20}})
	}
	add(Packet{Type: PacketProbe, Command: Command{Type: NocNone}})
	rect, _ := NewNocRect(1, 2, 3, 4, 0x100)
	add(Packet{Type: PacketRequest, TTL: 9, Command: Command{Type: NocMulticastWrite, Addr: rect, Size: 2}, Payload: []byte{1, 2}})
	add(Packet{Type: PacketRequest, TTL: 9, Command: Command{Type: NocMulticastInc, Addr: rect, Value: 3}})
	add(Packet{Type: PacketRequest, TTL: 9, Group: 7, Trunk: TrunkX, Ranges: Ranges{Hops: [4]uint8{3, 0, 1, 2}, Skip: [4]uint8{1}}, Command: Command{Type: NocAtomicInc}})
	add(Packet{Type: PacketRequest, TTL: 9, Group: 7, Trunk: TrunkX, Members: MembersOf(1, 255), Posted: true, Command: Command{Type: NocAtomicInc}})
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > poLength+1 && len(b) <= MaxPacket {
			b = bytes.Clone(b)
			binary.LittleEndian.PutUint16(b[poLength:], uint16(len(b))) // without a right length, ViewPacket would refuse almost every input
		}
		v, viewErr := ViewPacket(b)
		if viewErr == nil {
			walk(bytes.Clone(v))
		}
		p, err := DecodePacket(b)
		if err != nil {
			return
		}
		if viewErr != nil {
			t.Fatalf("decoded, but there is no view: %v", viewErr)
		}
		if p.Type.Control() {
			p.Route = v.AppendActions(nil)
		}
		checkView(t, b, &p)
		if p.Len() == 0 || p.Len() > len(b) {
			t.Fatalf("length %d of %d bytes", p.Len(), len(b))
		}
		out := p.Append(nil)
		again, err := DecodePacket(out)
		if again.Type.Control() {
			again.Route = PacketView(out).AppendActions(nil)
		}
		if err != nil || !reflect.DeepEqual(p, again) {
			t.Fatalf("%+v, again %+v: %v", p, again, err)
		}
	})
}

// walk forwards a packet like a router until forwarding fails. The test passes if nothing panics.
func walk(v PacketView) {
	for range 2 * MaxHops {
		v.Action()
		if !v.Advance() {
			return
		}
	}
}

func FuzzCompletion(f *testing.F) {
	f.Add((&Completion{FlowEpoch: 1, Next: 2}).Append(nil))
	f.Add((&Completion{Exceptions: []Exception{{1, 2, OutcomeLost}}}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, err := DecodeCompletion(b, nil); err == nil {
			if out := c.Append(nil); !bytes.Equal(out, b) {
				t.Fatalf("%x, again %x", b, out)
			}
		}
	})
}

func FuzzDropReport(f *testing.F) {
	f.Add((&DropReport{Reason: DropTTL, Type: PacketRequest}).Append(nil))
	f.Add((&DropReport{Reason: DropTTL, Type: PacketRequest, Group: 1, Dir: South, Trunk: TrunkY, Ranges: Ranges{Hops: [4]uint8{1}}}).Append(nil))
	f.Add((&DropReport{Reason: DropTTL, Type: PacketReply, Open: true}).Append(nil))
	f.Add((&DropReport{Reason: DropTTL, Type: PacketRequest, Group: 1, Trunk: TrunkX, Members: MembersOf(0, 127)}).Append(nil))
	f.Add((&DropReport{Reason: DropTTL, Type: PacketRequest, Group: 1, Members: MembersOf(128, 255)}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := DecodeDropReport(b); err == nil {
			if out := r.Append(nil); !bytes.Equal(out, b) {
				t.Fatalf("%x, again %x", b, out)
			}
		}
	})
}

func FuzzLinkStates(f *testing.F) {
	s := LinkState{FabricNodeID{1, 2}, 3, 4, 8}
	f.Add(s.Append(s.Append(nil)))
	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := DecodeLinkStates(b, nil)
		if err != nil {
			return
		}
		var out []byte
		for _, s := range all {
			out = s.Append(out)
		}
		if !bytes.Equal(out, b) {
			t.Fatalf("%x, again %x", b, out)
		}
	})
}

func FuzzParseFabricNodeID(f *testing.F) {
	for _, s := range []string{"3", "1:3", "M1D3", "m1023d255", "M1D", "1:", "", "M1024D0", "0:256", "+1:-1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := ParseFabricNodeID(s)
		if err != nil {
			if n != (FabricNodeID{}) {
				t.Fatalf("%q: %v with an error", s, n)
			}
			return
		}
		if again, err := ParseFabricNodeID(n.String()); err != nil || again != n || !n.Valid() {
			t.Fatalf("%q: %v, again %v: %v", s, n, again, err)
		}
	})
}
