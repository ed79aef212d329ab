package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// vector is one block of a file in testdata/vectors. The independent encoder testdata/vectors.py
// has written these files.
type vector struct {
	t      *testing.T
	fields map[string]string
	bytes  []byte
}

// vectors reads a file of vectors and calls f for each vector. The test fails if the file has fewer
// than "least" vectors.
func vectors(t *testing.T, file string, least int, f func(t *testing.T, v *vector)) {
	t.Helper()
	text, err := os.ReadFile("testdata/vectors/" + file + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(strings.TrimSpace(string(text)), "\n\n")
	if len(blocks) < least {
		t.Fatalf("%d vectors in %s, want %d", len(blocks), file, least)
	}
	for _, block := range blocks {
		v := &vector{fields: map[string]string{}}
		for line := range strings.Lines(block) {
			key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
			v.fields[key] = value
		}
		t.Run(v.fields["name"], func(t *testing.T) {
			v.t = t
			v.bytes = v.raw("hex")
			f(t, v)
		})
	}
}

func (v *vector) text(key string) string {
	v.t.Helper()
	s, ok := v.fields[key]
	if !ok {
		v.t.Fatalf("no field %q", key)
	}
	return s
}

func (v *vector) num(key string) uint64 {
	v.t.Helper()
	return v.parse(v.text(key))
}

// optional returns the number in a field that only some vectors have, or 0 if the field is missing.
func (v *vector) optional(key string) uint64 {
	if _, ok := v.fields[key]; !ok {
		return 0
	}
	return v.num(key)
}

func (v *vector) parse(s string) uint64 {
	v.t.Helper()
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		v.t.Fatal(err)
	}
	return n
}

func (v *vector) raw(key string) []byte {
	v.t.Helper()
	s := v.text(key)
	if s == "-" {
		return nil
	}
	b, err := hex.DecodeString(s)
	if err != nil {
		v.t.Fatal(err)
	}
	return b
}

// list returns the numbers in a field as a list of lists: the field "1:2,3:4" gives [[1 2] [3 4]].
func (v *vector) list(key string) (l [][]uint64) {
	v.t.Helper()
	s := v.fields[key]
	if s == "-" || s == "" {
		return nil
	}
	for _, item := range strings.Split(s, ",") {
		var ns []uint64
		for _, n := range strings.Split(item, ":") {
			ns = append(ns, v.parse(n))
		}
		l = append(l, ns)
	}
	return l
}

func (v *vector) grants(key string) (g [NumVCs]uint32) {
	for i, n := range v.list(key) {
		g[i] = uint32(n[0])
	}
	return g
}

// check checks that the vector's bytes decode to want, and that want encodes to these bytes. check
// also checks that decode refuses the bytes if they are cut off or one byte longer.
func check[T any](v *vector, want T, decode func([]byte) (T, error), encode func(*T, []byte) []byte) {
	v.t.Helper()
	got, err := decode(v.bytes)
	if err != nil {
		v.t.Fatalf("decode: %v", err)
	}
	if !reflect.DeepEqual(got, want) {
		v.t.Errorf("decoded\n%+v, want\n%+v", got, want)
	}
	if out := encode(&want, []byte("before")); !bytes.Equal(out, append([]byte("before"), v.bytes...)) {
		v.t.Errorf("encoded\n%x, want\n%x", out[6:], v.bytes)
	}
	for n := range v.bytes {
		if _, err := decode(v.bytes[:n:n]); err == nil {
			v.t.Fatalf("the first %d of %d bytes were taken", n, len(v.bytes))
		}
	}
	for x := range 256 {
		if _, err := decode(append(bytes.Clone(v.bytes), byte(x))); err == nil {
			v.t.Fatalf("a further byte %#x was taken", x)
		}
	}
}

func TestVectorsFrames(t *testing.T) {
	kinds := map[Kind]int{}
	vectors(t, "frames", 15, func(t *testing.T, v *vector) {
		want := Frame{
			Channel: Channel(v.num("channel")), Session: SessionID(v.num("session")), Kind: Kind(v.num("kind")), VC: VC(v.num("vc")),
			Flags: Flags(v.num("flags")), Dest: uint32(v.num("dest")), TxSeq: Seq(v.num("tx")), RxSeq: Seq(v.num("rx")),
			Padded: int(v.num("padded")), Payload: append([]byte{}, v.raw("payload")...),
		}
		check(v, want, DecodeFrame, (*Frame).Append)
		kinds[want.Kind]++
		if n := want.WireLen(); n != len(v.bytes) {
			t.Errorf("length %d, want %d", n, len(v.bytes))
		}
		if n, err := FrameLen(append(bytes.Clone(v.bytes), v.bytes...)); err != nil || n != len(v.bytes) {
			t.Errorf("length at the start of two frames: %d, %v", n, err)
		}
		if len(v.bytes) < 256 {
			everyFlip(t, v.bytes)
		}
	})
	for k := range Kind(16) {
		if k.Valid() != (kinds[k] > 0) {
			t.Errorf("%d vectors of kind %d; valid: %v", kinds[k], k, k.Valid())
		}
	}
}

// TestVectorsRaws checks raw frames against vectors.
func TestVectorsRaws(t *testing.T) {
	type raw struct {
		channel Channel
		payload []byte
	}
	decode := func(b []byte) (raw, error) {
		c, p, err := DecodeRaw(b)
		return raw{c, p}, err
	}
	vectors(t, "raws", 3, func(t *testing.T, v *vector) {
		check(v, raw{Channel(v.num("channel")), append([]byte{}, v.raw("payload")...)}, decode,
			func(r *raw, b []byte) []byte { return AppendRaw(b, r.channel, r.payload) })
		if !IsRaw(v.bytes) {
			t.Error("IsRaw does not know the frame")
		}
		for i := range 8 * min(len(v.bytes), 64) {
			bad := bytes.Clone(v.bytes)
			bad[i/8] ^= 1 << (i % 8)
			if _, _, err := DecodeRaw(bad); err == nil {
				t.Fatalf("bit %d flipped, and taken", i)
			}
			if _, err := DecodeFrame(v.bytes); err == nil {
				t.Fatal("the frame passes for a frame of TT-link")
			}
		}
	})
}

// everyFlip checks that DecodeFrame refuses the frame b with any single bit flipped.
func everyFlip(t *testing.T, b []byte) {
	for i := range 8 * len(b) {
		bad := bytes.Clone(b)
		bad[i/8] ^= 1 << (i % 8)
		if _, err := DecodeFrame(bad); err == nil {
			t.Fatalf("frame taken with bit %d flipped", i)
		}
	}
}

func TestVectorsHellos(t *testing.T) {
	vectors(t, "hellos", 5, func(t *testing.T, v *vector) {
		port := func(p string) PortID {
			return PortID{FabricNodeID{MeshID(v.num(p + "m")), ChipID(v.num(p + "c"))}, Channel(v.num(p + "ch"))}
		}
		want := Hello{
			Up: v.num("up") == 1, WantAnswer: v.num("want") == 1, From: port("f"), Expected: port("e"),
			MaxPayload: uint16(v.num("maxpayload")), Incarnation: Incarnation(v.num("incarnation")),
			EchoIncarnation: Incarnation(v.num("echoincarnation")), Training: uint32(v.num("training")),
			EchoTraining: uint32(v.num("echotraining")), Stamp: v.num("stamp"), EchoStamp: v.num("echostamp"),
			Fabric: uint32(v.num("fabric")), Grants: v.grants("grants"),
		}
		for i, s := range v.list("slots") {
			want.Slots[i] = uint16(s[0])
		}
		check(v, want, DecodeHello, (*Hello).Append)
		refused(t, v.bytes, DecodeHello, []byte{0xFF}, 0)
		refused(t, v.bytes, DecodeHello, []byte{0xFC}, 1)
		refused(t, v.bytes, DecodeHello, []byte{0xF0, 0xF0}, 2)
		refused(t, v.bytes, DecodeHello, []byte{0xE0, 0xFF, 0xFF, 0xFF}, 60)
	})
}

// refused flips single bits of b, and checks that decode refuses each result. In the bytes from
// "offset" on, refused flips the bits that are set in "mask".
func refused[T any](t *testing.T, b []byte, decode func([]byte) (T, error), mask []byte, offset int) {
	t.Helper()
	for i, m := range mask {
		for bit := range 8 {
			if m>>bit&1 == 0 {
				continue
			}
			bad := bytes.Clone(b)
			bad[offset+i] ^= 1 << bit
			if _, err := decode(bad); err == nil {
				t.Errorf("taken with bit %d of byte %d flipped", bit, offset+i)
			}
		}
	}
}

func TestVectorsUpdates(t *testing.T) {
	vectors(t, "updates", 2, func(t *testing.T, v *vector) {
		check(v, Update{v.grants("grants")}, DecodeUpdate, (*Update).Append)
	})
}

// withRoute decodes a packet, and adds the route to a control packet.
func withRoute(b []byte) (Packet, error) {
	p, err := DecodePacket(b)
	if err == nil && p.Type.Control() {
		p.Route = append([]byte{}, PacketView(b).AppendActions(nil)...)
	}
	return p, err
}

func TestVectorsPackets(t *testing.T) {
	types, commands, sizes := map[PacketType]int{}, map[NocSendType]int{}, map[byte]int{}
	vectors(t, "packets", 20, func(t *testing.T, v *vector) {
		want := Packet{
			Type: PacketType(v.num("type")), VC: VC(v.num("vc")), Plane: Plane(v.num("plane")), TTL: uint16(v.num("ttl")),
			Src:       FabricNodeID{MeshID(v.num("sm")), ChipID(v.num("sc"))},
			Dst:       FabricNodeID{MeshID(v.num("dm")), ChipID(v.num("dc"))},
			FlowEpoch: uint32(v.num("flowepoch")), FlowSeq: uint32(v.num("flowseq")), FlowBase: uint32(v.num("flowbase")),
			ID: v.num("id"), Epoch: uint32(v.num("epoch")), Command: v.command(), Hop: uint16(v.num("hop")),
			Route: append([]byte{}, v.raw("route")...), Payload: append([]byte{}, v.raw("payload")...),
			Up: v.num("flags")&1 != 0, Trace: v.num("flags")&2 != 0, Detour: v.num("flags")&4 != 0, Lives: Lives{v.num("flags")&8 != 0, Life(v.num("life"))}, Other: v.num("flags")&16 != 0,
			Posted: v.num("flags")&64 != 0, Members: v.members(),
			Group: uint16(v.num("group")), Trunk: Trunk(v.num("trunk")), Ranges: v.ranges(),
		}
		check(v, want, withRoute, (*Packet).Append)
		flags := []byte{packetMembers | 0x80, 0xFF}
		if want.Type != PacketRequest {
			flags[0] |= packetPosted
		}
		if want.Type.Control() {
			flags[0] |= packetKnown
		}
		if want.Group != 0 || want.Type == PacketDropReport || want.Type == PacketLinkState {
			flags[0] |= packetOther
		}
		refused(t, v.bytes, DecodePacket, flags, poFlags)
		if want.Group == 0 && want.Type != PacketCompletion {
			refused(t, v.bytes, DecodePacket, []byte{0xFF, 0xFF}, poGroup)
		}
		if !want.Type.Control() {
			refused(t, v.bytes, DecodePacket, []byte{0xFC}, PacketView(v.bytes).metalEnd()-1)
			sizes[v.bytes[poRouteSize]]++
		}
		lengths := []byte{0xFF, 0xFF, 0xFF, 0xFF} // poLength, poExtLen and poRouteSize
		if want.Type.Control() {
			lengths[3] = 0 // another route of up to 67 actions is valid, and so is another last action
		}
		refused(t, v.bytes, DecodePacket, lengths, poLength)
		if n := want.Len(); n != len(v.bytes) {
			t.Errorf("length %d, want %d", n, len(v.bytes))
		}
		checkView(t, v.bytes, &want)
		types[want.Type]++
		commands[want.Command.Type]++
	})
	for _, n := range []int{len(types) - 1, len(commands) - 4, len(sizes) + 1} {
		if n != 5 {
			t.Errorf("vectors of %d types, %d commands, %d route sizes: want 6, 9, 4", len(types), len(commands), len(sizes))
		}
	}
}

// members returns the vector's set of members.
func (v *vector) members() (m Members) {
	for _, n := range v.list("members") {
		m.Add(ChipID(n[0]))
	}
	return m
}

// ranges returns the vector's ranges. The list in the field alternates between hops and skip.
func (v *vector) ranges() (r Ranges) {
	for i, n := range v.list("ranges") {
		if i%2 == 0 {
			r.Hops[i/2] = uint8(n[0])
		} else {
			r.Skip[i/2] = uint8(n[0])
		}
	}
	return r
}

func (v *vector) command() Command {
	c := Command{
		Type: NocSendType(v.num("send")), Addr: NocAddr(v.optional("addr")), Sem: NocAddr(v.optional("sem")),
		Value: uint32(v.optional("value")), Flush: v.optional("flush") == 1, Size: uint16(v.num("size")),
	}
	for i, chunk := range v.list("chunks") {
		c.Chunks++
		c.Scatter[i], c.Sizes[i] = NocAddr(chunk[0]), uint16(chunk[1])
	}
	return c
}

func TestVectorsLinkStates(t *testing.T) {
	vectors(t, "linkstates", 4, func(t *testing.T, v *vector) {
		var want []LinkState
		var encoded []byte
		for _, e := range v.list("entries") {
			s := LinkState{FabricNodeID{MeshID(e[0]), ChipID(e[1])}, uint32(e[2]), uint16(e[3]), uint16(e[4])}
			want, encoded = append(want, s), s.Append(encoded)
		}
		got, err := DecodeLinkStates(v.bytes, nil)
		if err != nil || !slices.Equal(got, want) || !bytes.Equal(encoded, v.bytes) {
			t.Fatalf("decoded %+v, %v; want %+v; encoded %x, want %x", got, err, want, encoded, v.bytes)
		}
		for n := range v.bytes {
			if got, err := DecodeLinkStates(v.bytes[:n:n], nil); (err == nil) != (n > 0 && n%linkStateLen == 0) {
				t.Errorf("the first %d bytes: %+v, %v", n, got, err)
			}
		}
		both := bytes.Clone(v.bytes)
		both[8], both[10] = both[8]|1, both[10]|1
		if _, err := DecodeLinkStates(both, nil); err == nil {
			t.Error("a port in both maps was taken")
		}
		for len(both) <= MaxLinkStates*linkStateLen {
			both = append(both, v.bytes...)
		}
		if _, err := DecodeLinkStates(both, nil); err == nil {
			t.Errorf("%d bytes were taken", len(both))
		}
	})
}

func TestVectorsControl(t *testing.T) {
	vectors(t, "completions", 3, func(t *testing.T, v *vector) {
		want := Completion{FlowEpoch: uint32(v.num("flowepoch")), First: uint32(v.num("first")), Next: uint32(v.num("next"))}
		for _, e := range v.list("exceptions") {
			want.Exceptions = append(want.Exceptions, Exception{uint32(e[0]), uint16(e[1]), Outcome(e[2])})
		}
		decode := func(b []byte) (Completion, error) { return DecodeCompletion(b, nil) }
		check(v, want, decode, (*Completion).Append)
		for i := range want.Exceptions {
			refused(t, v.bytes, decode, []byte{0xFF}, completionHead+exceptionLen*i+7)
			refused(t, v.bytes, decode, []byte{0xF0}, completionHead+exceptionLen*i+6)
			v.bytes[completionHead+exceptionLen*i+6] = byte(NumOutcomes)
			if _, err := decode(v.bytes); err == nil {
				t.Errorf("outcome %d was taken", NumOutcomes)
			}
			v.bytes[completionHead+exceptionLen*i+6] = byte(want.Exceptions[i].Outcome)
		}
	})
	vectors(t, "dropreports", 5, func(t *testing.T, v *vector) {
		want := DropReport{
			Dst: FabricNodeID{MeshID(v.num("dm")), ChipID(v.num("dc"))}, Plane: Plane(v.num("plane")),
			FlowEpoch: uint32(v.num("flowepoch")), FlowSeq: uint32(v.num("flowseq")), Reason: DropReason(v.num("reason")),
			Channel: Channel(v.num("channel")), ID: v.num("id"), Type: PacketType(v.num("type")), Other: v.optional("other") == 1, Open: v.num("open") == 1,
			Group: uint16(v.num("group")), Dir: Direction(v.num("dir")), Trunk: Trunk(v.num("trunk")), Ranges: v.ranges(), Members: v.members(),
		}
		check(v, want, DecodeDropReport, (*DropReport).Append)
		refused(t, v.bytes, DecodeDropReport, []byte{0xF0, 0xF0, 0xF0, 0xA8}, 12)
		refused(t, v.bytes, DecodeDropReport, []byte{0, 0xFC, 0, 0xFF}, 0)
		if want.Group != 0 {
			refused(t, v.bytes, DecodeDropReport, []byte{otherReport}, 15)
			refused(t, v.bytes, DecodeDropReport, []byte{0xFC, 0xFC}, 26)
		}
	})
}

func TestVectorsSessions(t *testing.T) {
	vectors(t, "sessions", 5, func(t *testing.T, v *vector) {
		end := func(key string) (PortID, Incarnation) {
			e := v.list(key)[0]
			return PortID{FabricNodeID{MeshID(e[0]), ChipID(e[1])}, Channel(e[2])}, Incarnation(e[3])
		}
		a, ai := end("a")
		b, bi := end("b")
		want := SessionID(v.num("session"))
		if s, r := NewSessionID(a, ai, b, bi), NewSessionID(b, bi, a, ai); s != want || r != want {
			t.Errorf("session %#x, and %#x from the other end, want %#x", s, r, want)
		}
		if c := SessionID(Checksum(v.bytes)); c != want {
			t.Errorf("checksum %#x, want %#x", c, want)
		}
		if s := InitialSeq(ai); s != Seq(v.num("seqa")) {
			t.Errorf("first number %#x, want %s", s, v.text("seqa"))
		}
		if s := InitialSeq(bi); s != Seq(v.num("seqb")) {
			t.Errorf("first number %#x, want %s", s, v.text("seqb"))
		}
	})
}

func TestChecksum(t *testing.T) {
	if c := Checksum([]byte("123456789")); c != 0xE3069283 { // the value in RFC 3720 §B.4
		t.Errorf("%#x", c)
	}
}

// TestFrameReserved checks that DecodeFrame finds faults in frames with a right checksum.
func TestFrameReserved(t *testing.T) {
	good := (&Frame{Channel: 3, Session: 9, Kind: KindData, Flags: FlagEnd, Padded: 64, Payload: make([]byte, 40)}).Append(nil)
	for _, c := range []struct {
		name   string
		offset int
		from   int
		to     int
		want   FrameFault
	}{
		{"kind 0", offKind, 0x00, 0x00, FaultKind},
		{"kind 4, of earlier versions", offKind, 0x04, 0x04, FaultKind},
		{"kind 8 to 15", offKind, 0x08, 0x0F, FaultKind},
		{"reserved flags", offFlags, 0x08, 0xFF, FaultReserved},
		{"length beyond the padding", offLength, 65, 255, FaultLength},
		{"version 0 to 2", offVersion, 0x00, 0x2F, FaultVersion},
		{"version 4 to 15", offVersion, 0x40, 0xFF, FaultVersion},
	} {
		for x := c.from; x <= c.to; x++ {
			bad := bytes.Clone(good)
			bad[c.offset] = byte(x)
			if _, err := DecodeFrame(reseal(bad)); err != c.want {
				t.Errorf("%s: %#x: %v, want %v", c.name, x, err, c.want)
			}
		}
	}
	long := make([]byte, FrameOverhead+MaxFramePayload+1)
	copy(long, good[:offPayload])
	long[offPad] = 0
	binary.LittleEndian.PutUint16(long[offLength:], MaxFramePayload+1)
	if _, err := DecodeFrame(reseal(long)); err != FaultLength {
		t.Errorf("a payload of %d bytes without padding: %v", MaxFramePayload+1, err)
	}
	bad := bytes.Clone(good)
	bad[offPayload+50] = 1 // a byte of the padding
	if _, err := DecodeFrame(reseal(bad)); err != nil {
		t.Errorf("padding that isn't zero: %v", err)
	}
}
