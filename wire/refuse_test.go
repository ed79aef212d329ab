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

func TestControlRefuses(t *testing.T) {
	c := Completion{Exceptions: []Exception{{0, 1, OutcomeLost}}}
	decode := func(b []byte) (Completion, error) { return DecodeCompletion(b, nil) }
	refusesAll(t, c.Append(nil), decode, []patch{
		{"more exceptions than came", 8, []byte{2}},
		{"fewer exceptions than came", 8, []byte{0}},
		{"an exception of nothing", 16, []byte{0, 0}},
		{"outcome done", 18, []byte{0}},
		{"outcome 10", 18, []byte{10}},
	})
	c.Exceptions = make([]Exception, MaxExceptions)
	for i := range c.Exceptions {
		c.Exceptions[i] = Exception{uint32(i), 1, OutcomeAgain}
	}
	b := c.Append(nil)
	b = append(b, b[len(b)-exceptionLen:]...)
	b[8]++
	if _, err := decode(b); err == nil {
		t.Errorf("%d exceptions were taken", MaxExceptions+1)
	}
	r := DropReport{Reason: DropTTL, Type: PacketRequest}
	refusesAll(t, r.Append(nil), DecodeDropReport, []patch{
		{"reason 0", 13, []byte{0}},
		{"reason 10", 13, []byte{10}},
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
		"65 exceptions":               func() { (&Completion{Exceptions: make([]Exception, MaxExceptions+1)}).Append(nil) },
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
	if s := SlotAddress(31, 1440); s != 31*8192+1440 {
		t.Errorf("slot address %d", s)
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
		{FabricNodeID{0x3FE, 0xFD}, 0x11121314, 0x2122},
		{FabricNodeID{0, 0}, 0, 0},
		{FabricNodeID{MaxMeshes - 1, MaxChipsPerMesh - 1}, 1<<32 - 1, 1<<16 - 1},
	}
	var b []byte
	for _, s := range all {
		b = s.Append(b)
	}
	if want := "fe03fd001413121122210000000000000000" + "0000ff03ff00ffffffffffff"; hex.EncodeToString(b) != want {
		t.Errorf("%x, want %s", b, want)
	}
	got, err := DecodeLinkStates(b, nil)
	if err != nil || !slices.Equal(got, all) {
		t.Errorf("%v, %v", got, err)
	}
	for n := range b {
		if _, err := DecodeLinkStates(b[:n], nil); (err == nil) != (n > 0 && n%10 == 0) {
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
	if _, err := DecodeLinkStates(make([]byte, 10*(MaxLinkStates+1)), nil); err == nil {
		t.Error("more entries taken than fit")
	}
	a, z := LinkState{Version: 1<<32 - 1}, LinkState{Version: 0}
	if !z.Newer(&a) || a.Newer(&z) || a.Newer(&a) {
		t.Error("versions do not wrap")
	}
}
