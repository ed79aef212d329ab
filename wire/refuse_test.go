package wire

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"math"
	"slices"
	"testing"
)

// patch is a change that makes a valid encoding invalid: bytes, and the offset at which they
// replace other bytes.
type patch struct {
	name   string
	offset int
	bytes  []byte
}

// refusesAll checks that decode accepts good, and refuses good with each single patch.
func refusesAll[T any](t *testing.T, good []byte, decode func([]byte) (T, error), patches []patch) {
	t.Helper()
	if _, err := decode(good); err != nil {
		t.Fatalf("before any patch: %v", err)
	}
	for _, p := range patches {
		bad := bytes.Clone(good)
		copy(bad[p.offset:], p.bytes)
		if _, err := decode(bad); err == nil {
			t.Errorf("%s: taken", p.name)
		}
	}
}

func TestHelloRefuses(t *testing.T) {
	h := Hello{Incarnation: 1, MaxPayload: PadUnit}
	refusesAll(t, h.Append(nil), DecodeHello, []patch{
		{"no incarnation", 16, make([]byte, 8)},
		{"no payload", 52, []byte{0, 0}},
		{"payload that is no multiple", 52, []byte{33, 0}},
		{"payload beyond a frame", 52, []byte{0x00, 0x20}}, // 8192
		{"mesh 1024", 4, []byte{0, 4}},
		{"chip 256", 6, []byte{0, 1}},
		{"expected mesh 1024", 8, []byte{0, 4}},
		{"expected chip 256", 10, []byte{0, 1}},
	})
}

func TestPacketRefuses(t *testing.T) {
	write := Packet{Type: PacketRequest, Command: Command{Type: NocUnicastWrite, Size: 4}, Payload: make([]byte, 4)}
	tail := poRoute + routeSizes[0]
	refusesAll(t, write.Append(nil), DecodePacket, []patch{
		{"type 0", poType, []byte{0}},
		{"type 7", poType, []byte{7}},
		{"extension of 41", poExtLen, []byte{41}},
		{"route size 18", poRouteSize, []byte{18}},
		{"route size beyond the packet", poRouteSize, []byte{67}},
		{"source mesh 1024", poSrcMesh, []byte{0, 4}},
		{"source chip 256", poSrcChip, []byte{0, 1}},
		{"destination chip 256", tail, []byte{0, 1}},
		{"destination mesh 1024", tail + 2, []byte{0, 4}},
		{"size above the payload", poSize, []byte{5}},
		{"size below the payload", poSize, []byte{3}},
		{"NoC multicast", poSendType, []byte{5}},
		{"a group without a trunk", poGroup, []byte{1}},
		{"a trunk without a group", tail + 12, []byte{1}},
		{"NoC command 8", poSendType, []byte{8}},
	})
	scatter := Packet{Type: PacketRequest, Payload: make([]byte, 6),
		Command: Command{Type: NocScatterWrite, Size: 6, Chunks: 3, Sizes: [MaxScatter]uint16{1, 2, 3}}}
	refusesAll(t, scatter.Append(nil), DecodePacket, []patch{
		{"1 chunk", poCommand + 38, []byte{1}},
		{"5 chunks", poCommand + 38, []byte{5}},
		{"4 chunks with 3 kinds", poCommand + 38, []byte{4}},
		{"kind 0", poCommand + 39, []byte{0x14}},
		{"kind 2", poCommand + 39, []byte{0x25}},
		{"chunks longer than the payload", poCommand + 32, []byte{5}},
	})
	write.Payload = make([]byte, MaxPayload)
	write.Command.Size = MaxPayload
	long := append(write.Append(nil), 0) // still shorter than MaxPacket, because the route_buffer is the smallest
	for _, at := range []int{poLength, poSize} {
		long[at]++
	}
	if _, err := DecodePacket(long); err != ErrPacket {
		t.Errorf("payload of %d bytes: %v", MaxPayload+1, err)
	}
}

// TestMulticastRefuses checks that a multicast needs a group and a trunk, and is a request or a
// probe.
func TestMulticastRefuses(t *testing.T) {
	inc := Packet{Type: PacketRequest, Group: 1, Trunk: TrunkX, Command: Command{Type: NocAtomicInc}}
	tail := poRoute + routeSizes[0]
	refusesAll(t, inc.Append(nil), DecodePacket, []patch{
		{"no group", poGroup, []byte{0}},
		{"no trunk", tail + 12, []byte{0}},
		{"trunk 3", tail + 12, []byte{3}},
		{"reply", poType, []byte{byte(PacketReply)}},
		{"completion", poType, []byte{byte(PacketCompletion)}},
		{"drop report", poType, []byte{byte(PacketDropReport)}},
	})
	r := DropReport{Reason: DropTTL, Type: PacketRequest, Group: 1, Trunk: TrunkX}
	refusesAll(t, r.Append(nil), DecodeDropReport, []patch{
		{"no group", 24, []byte{0}},
		{"direction 4", 26, []byte{4}},
		{"no trunk", 27, []byte{0}},
		{"trunk 3", 27, []byte{3}},
	})
}

// TestMembersRefuses checks that a multicast to members needs a group and at least one member, and is a
// request or a probe. Only a request may be posted.
func TestMembersRefuses(t *testing.T) {
	inc := Packet{Type: PacketRequest, Group: 1, Members: MembersOf(9), Command: Command{Type: NocAtomicInc}}
	tail := poRoute + routeSizes[0]
	refusesAll(t, inc.Append(nil), DecodePacket, []patch{
		{"no group", poGroup, []byte{0}},
		{"no member", tail + 13 + 1, []byte{0}},
		{"trunk 3", tail + 12, []byte{3}},
		{"reply", poType, []byte{byte(PacketReply)}},
		{"completion", poType, []byte{byte(PacketCompletion)}},
		{"other way", poFlags, []byte{packetMembers | packetOther}},
		{"members cut off", poFlags, []byte{0}},
	})
	post := Packet{Type: PacketRequest, Posted: true, Command: Command{Type: NocAtomicInc}}
	refusesAll(t, post.Append(nil), DecodePacket, []patch{
		{"reply", poType, []byte{byte(PacketReply)}},
		{"probe", poType, []byte{byte(PacketProbe)}},
		{"completion", poType, []byte{byte(PacketCompletion)}},
	})
	r := DropReport{Reason: DropTTL, Type: PacketRequest, Group: 1, Members: MembersOf(9)}
	refusesAll(t, r.Append(nil), DecodeDropReport, []patch{
		{"no group", 24, []byte{0}},
		{"half 2", 26, []byte{2}},
		{"trunk 3", 27, []byte{3}},
		{"no member", 29, []byte{0}},
		{"members without a group", 15, []byte{byte(PacketRequest) | membersReport}},
		{"other way", 15, []byte{byte(PacketRequest) | membersReport | groupReport | otherReport}},
	})
}

// TestDropReportParts cuts drop reports into parts. Each part must fit a control packet, and must
// say about its half of the members what the report says. Together, the parts must name the members
// of the report.
func TestDropReportParts(t *testing.T) {
	for _, c := range []struct {
		members Members
		parts   []Members
	}{
		{Members{}, []Members{{}}},
		{MembersOf(0, 127), []Members{MembersOf(0, 127)}},
		{MembersOf(128, 255), []Members{MembersOf(128, 255)}},
		{MembersOf(0, 63, 64, 127, 128, 191, 192, 255), []Members{MembersOf(0, 63, 64, 127), MembersOf(128, 191, 192, 255)}},
	} {
		r := DropReport{Dst: FabricNodeID{3, 4}, FlowSeq: 5, Reason: DropTTL, ID: 6, Type: PacketRequest, Open: true, Members: c.members}
		if r.Members.Any() {
			r.Group, r.Trunk = 7, TrunkY
		}
		var got []Members
		for part := range r.Parts() {
			want := r
			want.Members = part.Members
			b := part.Append(nil)
			if d, err := DecodeDropReport(b); err != nil || d != want || len(b) > MaxControlData {
				t.Errorf("%s: %d bytes, %+v %v, want %+v", c.members, len(b), d, err, want)
			}
			got = append(got, part.Members)
		}
		if !slices.Equal(got, c.parts) {
			t.Errorf("%s: parts %v, want %v", c.members, got, c.parts)
		}
	}
}

// TestControlPackets checks that every control packet has one size of at most 128 bytes, and that
// readers refuse other sizes and fields. Spec §2.3.2 says: "Control messages are small, fixed size
// packets".
func TestControlPackets(t *testing.T) {
	for _, typ := range []PacketType{PacketCompletion, PacketDropReport, PacketLinkState} {
		for _, n := range []int{0, 10, MaxControlData} {
			for _, hops := range []int{0, 1, MaxHops} {
				p := Packet{Type: typ, VC: VCControl, Route: bytes.Repeat([]byte{RouteSouth}, hops), Payload: make([]byte, n)}
				if b := p.Append(nil); len(b) != ControlLen || len(b) != p.Len() || len(b) > 128 {
					t.Errorf("type %d with %d bytes over %d hops takes %d bytes, want %d", typ, n, hops, len(b), ControlLen)
				}
			}
		}
	}
	p := Packet{Type: PacketCompletion, VC: VCControl, Hop: 1, Route: []byte{1, 4}, Payload: make([]byte, 16)}
	refusesAll(t, p.Append(nil), DecodePacket, []patch{
		{"a request", poType, []byte{byte(PacketRequest)}},
		{"type 0", poType, []byte{0}},
		{"type 7", poType, []byte{7}},
		{"a virtual channel of requests", poVC, []byte{0}},
		{"a longer length", poLength, []byte{97}},
		{"another header", poExtLen, []byte{ExtensionLen}},
		{"a route of 68", poRouteSize, []byte{MaxHops + 1}},
		{"source mesh 1024", poSrcMesh, []byte{0, 4}},
		{"a hop past the route", coHop, []byte{3}},
		{"53 bytes of payload", coSize, []byte{MaxControlData + 1}},
		{"a reserved byte", coSize + 1, []byte{1}},
		{"the flag KNOWN", poFlags, []byte{packetKnown}},
		{"the flag MEMBERS", poFlags, []byte{packetMembers}},
		{"the flag POSTED", poFlags, []byte{packetPosted}},
		{"a reserved flag", poFlags, []byte{0x80}},
		{"a second reserved byte", poFlags + 1, []byte{1}},
		{"OTHER and a group", poFlags, []byte{packetOther, 0, 1}},
		{"destination mesh 1024", coDst + 2, []byte{0, 4}},
	})
}

// TestControlReroute gives a control packet new routes, and follows each route to its end.
func TestControlReroute(t *testing.T) {
	p := Packet{Type: PacketDropReport, VC: VCControl, TTL: 1000, Route: []byte{1}, Payload: []byte{7}}
	v := PacketView(p.Append(nil))
	for n := range MaxHops + 1 {
		var actions []byte
		for i := range n {
			actions = append(actions, RouteBit(Direction((n+i*i)%NumDirections)))
		}
		if !v.Reroute(actions, n%2 == 0, n%3 == 0) || !bytes.Equal(v.AppendActions(nil), actions) || v.Up() != (n%2 == 0) || v.Detour() != (n%3 == 0) {
			t.Fatalf("the route %v becomes %v", actions, v.AppendActions(nil))
		}
		v.Extend(1000)
		for i, a := range append(actions, 0, 0) {
			if got := v.Action(); got != a {
				t.Fatalf("action %d of %v is %d", i, actions, got)
			}
			v.Advance()
		}
	}
	if v.Reroute(make([]byte, MaxHops+1), false, false) {
		t.Error("a route of 68 was taken")
	}
	if got, err := DecodePacket(v); err != nil || !bytes.Equal(got.Payload, []byte{7}) {
		t.Errorf("%+v %v", got, err)
	}
}

func TestControlRefuses(t *testing.T) {
	c := Completion{Exceptions: []Exception{{0, 1, OutcomeLost}}}
	decode := func(b []byte) (Completion, error) { return DecodeCompletion(b, nil) }
	refusesAll(t, c.Append(nil), decode, []patch{
		{"more exceptions than came", 12, []byte{2}},
		{"fewer exceptions than came", 12, []byte{0}},
		{"an exception of nothing", 20, []byte{0, 0}},
		{"outcome done", 22, []byte{0}},
		{"outcome 14", 22, []byte{14}},
		{"an end before the first request", 4, []byte{1}},
	})
	c.Exceptions = make([]Exception, MaxExceptions)
	for i := range c.Exceptions {
		c.Exceptions[i] = Exception{uint32(i), 1, OutcomeAgain}
	}
	b := c.Append(nil)
	b = append(b, b[len(b)-exceptionLen:]...)
	b[12]++
	if _, err := decode(b); err == nil {
		t.Errorf("%d exceptions were taken", MaxExceptions+1)
	}
	r := DropReport{Reason: DropTTL, Type: PacketRequest}
	refusesAll(t, r.Append(nil), DecodeDropReport, []patch{
		{"reason 0", 13, []byte{0}},
		{"reason 11", 13, []byte{11}},
		{"type 0", 15, []byte{0}},
		{"type 7", 15, []byte{7}},
	})
}

// TestEncodersPanic checks that Append panics if the format cannot express a value.
func TestEncodersPanic(t *testing.T) {
	for name, f := range map[string]func(){
		"padding that is no multiple": func() { (&Frame{Padded: 33}).Append(nil) },
		"payload beyond its padding":  func() { (&Frame{Padded: 32, Payload: make([]byte, 33)}).Append(nil) },
		"payload beyond a frame":      func() { (&Frame{Payload: make([]byte, MaxFramePayload+1)}).Append(nil) },
		"channel 16":                  func() { (&Frame{Channel: MaxChannels}).Append(nil) },
		"route of 68":                 func() { (&Packet{Route: make([]byte, MaxHops+1)}).Append(nil) },
		"payload beyond a packet":     func() { (&Packet{Payload: make([]byte, MaxPayload+1)}).Append(nil) },
		"route of 68 for control":     func() { (&Packet{Type: PacketCompletion, Route: bytes.Repeat([]byte{1}, MaxHops+1)}).Append(nil) },
		"no direction for control":    func() { (&Packet{Type: PacketCompletion, Route: []byte{1, 0}}).Append(nil) },
		"two directions for control":  func() { (&Packet{Type: PacketCompletion, Route: []byte{3}}).Append(nil) },
		"direction 32 for control":    func() { (&Packet{Type: PacketCompletion, Route: []byte{32}}).Append(nil) },
		"a hop after Z for control":   func() { (&Packet{Type: PacketCompletion, Route: []byte{16, 1}}).Append(nil) },
		"53 bytes of control":         func() { (&Packet{Type: PacketLinkState, Payload: make([]byte, MaxControlData+1)}).Append(nil) },
		"5 exceptions":                func() { (&Completion{Exceptions: make([]Exception, MaxExceptions+1)}).Append(nil) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			f()
		})
	}
}

func TestAddresses(t *testing.T) {
	// tt-metal's layout on Wormhole: offset from bit 0, x from bit 36, y from bit 42.
	a := NewNocAddr(63, 33, 0xF23456789)
	if a != 33<<42|63<<36|0xF23456789 || a.X() != 63 || a.Y() != 33 || a.Offset() != 0xF23456789 {
		t.Errorf("%#x: %v", uint64(a), a)
	}
	if s := SlotAddress(VCData, 31, 1440); s != 31*8192+1440 {
		t.Errorf("slot address %d", s)
	}
	if s := SlotAddress(VCControl, 31, 48); s != 31*96+48 {
		t.Errorf("slot address %d", s)
	}
	for _, f := range []Frame{{VC: VCData, Dest: 31*8192 + 1440}, {VC: VCControl, Dest: 31*96 + 48}} {
		if slot, offset := f.Slot(); SlotAddress(f.VC, slot, offset) != f.Dest || slot != 31 {
			t.Errorf("%+v is in slot %d at %d", f, slot, offset)
		}
	}
	if r := AppendRoute(nil, []Direction{East, East, North}); !bytes.Equal(r, []byte{1, 4, 8}) {
		t.Errorf("route of E E N: %v", r)
	}
}

// TestOrderOfNodes compares each node and port of a sorted list with each other one.
func TestOrderOfNodes(t *testing.T) {
	var ports []PortID
	for _, n := range []FabricNodeID{{0, 0}, {0, 1}, {0, MaxChipsPerMesh - 1}, {1, 0}, {1, 255}, {2, 3}, {256, 0}, {MaxMeshes - 1, 0}, {math.MaxUint16, math.MaxUint16}} {
		ports = append(ports, PortID{n, 0}, PortID{n, MaxChannels - 1})
	}
	for i, p := range ports {
		for k, q := range ports {
			if got, want := cmp.Compare(p.Node.Compare(q.Node), 0), cmp.Compare(i/2, k/2); got != want {
				t.Errorf("%s and %s: %d, want %d", p.Node, q.Node, got, want)
			}
			if p.Less(q) != (i < k) {
				t.Errorf("%s before %s: %v", p, q, p.Less(q))
			}
		}
	}
}

func TestParseFabricNodeID(t *testing.T) {
	for s, want := range map[string]FabricNodeID{
		"3": {0, 3}, "1:3": {1, 3}, "M1D3": {1, 3}, "m1023d255": {1023, 255},
	} {
		if n, err := ParseFabricNodeID(s); err != nil || n != want {
			t.Errorf("%q: %v, %v", s, n, err)
		}
	}
	for _, s := range []string{"", "M", "M1", "M1D", "MD1", "1:", ":1", "256", "1024:0", "0:256", "-1", "+1", "1:2:3", " 1", "65536:0"} {
		if n, err := ParseFabricNodeID(s); err == nil {
			t.Errorf("%q: taken as %v", s, n)
		}
	}
}

// TestLinkStates encodes and decodes lists of link states, and decodes malformed lists.
func TestLinkStates(t *testing.T) {
	all := []LinkState{
		{FabricNodeID{0x3FE, 0xFD}, 0x11121314, 0x2122, 0x4011},
		{FabricNodeID{0, 0}, 0, 0, 0},
		{FabricNodeID{MaxMeshes - 1, MaxChipsPerMesh - 1}, 1<<32 - 1, 1<<16 - 1, 0},
	}
	var b []byte
	for _, s := range all {
		b = s.Append(b)
	}
	if want := "fe03fd0014131211222111400000000000000000" + "00000000ff03ff00ffffffffffff0000"; hex.EncodeToString(b) != want {
		t.Errorf("%x, want %s", b, want)
	}
	got, err := DecodeLinkStates(b, nil)
	if err != nil || !slices.Equal(got, all) {
		t.Errorf("%v, %v", got, err)
	}
	for n := range b {
		if _, err := DecodeLinkStates(b[:n], nil); (err == nil) != (n > 0 && n%12 == 0) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	for _, at := range []int{1, 3} {
		bad := bytes.Clone(b)
		bad[at] = 0xFF
		if _, err := DecodeLinkStates(bad, nil); err == nil {
			t.Errorf("taken with 0xFF in byte %d", at)
		}
	}
	if _, err := DecodeLinkStates(make([]byte, 12*(MaxLinkStates+1)), nil); err == nil {
		t.Error("more entries taken than fit")
	}
	both := bytes.Clone(b)
	both[10] |= 0x22
	if _, err := DecodeLinkStates(both, nil); err == nil {
		t.Error("taken with a port that is both out of service and silent")
	}
	a, z := LinkState{Version: 1<<32 - 1}, LinkState{Version: 0}
	if !z.Newer(&a) || a.Newer(&z) || a.Newer(&a) {
		t.Error("versions do not wrap")
	}
}
