package attach

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"strings"
	"testing"
	"time"

	"ttfabric/node/collective"
	"ttfabric/node/firmware"
	"ttfabric/node/flow"
	"ttfabric/node/session"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// vectors are frames that were written by hand from the tables of the package's documentation.
var vectors = []struct {
	name string
	hex  string
	make func() []byte
}{
	{"hello", "20000000 01 000000 0000000000000000  5454415454414348 0100 000000000000", func() []byte { return AppendHello(nil) }},
	{"inline write of 7 to 1-2:0x1000 of chip M0D3", "40000000 02 000000 0900000000000000" +
		"0000 0300 01 00 0000  0010000010080000  0000000000000000  07000000 00000000 0000000000000000 00 00 000000000000",
		func() []byte {
			return AppendCommand(nil, 9, &flow.Request{Dst: wire.FabricNodeID{Chip: 3}, Command: wire.Command{Type: wire.NocInlineWrite, Addr: wire.NewNocAddr(1, 2, 0x1000), Value: 7}}, 0)
		}},
	{"write of ab cd by the hops E, S, posted, on plane 1", "44000000 02 000000 0100000000000000" +
		"0000 0100 00 01 0400  0000000000000000 0000000000000000 00000000 02000000 0000000000000000 00 02 000000000000 00 03 abcd",
		func() []byte {
			return AppendCommand(nil, 1, &flow.Request{Dst: wire.FabricNodeID{Chip: 1}, Plane: 1, Posted: true, Via: []wire.Direction{wire.East, wire.South}, Payload: []byte{0xab, 0xcd}}, 0)
		}},
	{"read of 256 bytes", "40000000 02 000000 0200000000000000" +
		"0000 0000 07 00 0000  2000000000000000 0000000000000000 00000000 00010000 0000000000000000 00 00 000000000000",
		func() []byte {
			return AppendCommand(nil, 2, &flow.Request{Command: wire.Command{Type: wire.NocRead, Addr: 0x20}}, 256)
		}},
	{"wait for at least 5", "20000000 03 000000 0300000000000000 4000000000000000 05000000 01 000000", func() []byte { return AppendWait(nil, 3, &Wait{0x40, 5, session.AtLeast}) }},
	{"barrier j of rank 1 of 2", "19000000 05 000000 0400000000000000 01000000 02000000 6a", func() []byte { return AppendBarrier(nil, 4, &Barrier{"j", 1, 2}) }},
	{"stop of job 9 with the text ab", "1a000000 09 000000 0500000000000000 0900000000000000 6162", func() []byte { return AppendStop(nil, 5, &Stop{9, "ab"}) }},
	{"end of job 9", "18000000 0a 000000 0600000000000000 0900000000000000", func() []byte { return AppendEnd(nil, 6, 9) }},
	{"tile 8-6", "18000000 0c 000000 0700000000000000 08 06 000000000000", func() []byte { return AppendTile(nil, 7, 8, 6) }},
	{"lend of 64 bytes", "18000000 0d 000000 0800000000000000 4000000000000000", func() []byte { return AppendLend(nil, 8, 64) }},
	{"moved of transfer 3 with ab", "21000000 0e 000000 0900000000000000 0300000000000000 00 00000000000000 ab", func() []byte { return AppendMoved(nil, 9, &Moved{ID: 3, Data: []byte{0xab}}) }},
	{"moved of a refused transfer", "20000000 0e 000000 0900000000000000 0400000000000000 01 00000000000000", func() []byte { return AppendMoved(nil, 9, &Moved{ID: 4, Refused: true}) }},
	{"transfer: a write of ab to address 32", "29000000 91 000000 0800000000000000 0300000000000000 2000000000000000 01 000000 01000000 ab",
		func() []byte {
			return AppendTransfer(nil, 8, &firmware.Transfer{ID: 3, Write: true, Addr: 32, Data: []byte{0xab}})
		}},
	{"transfer: a read of 4 bytes", "28000000 91 000000 0800000000000000 0500000000000000 4000000000000000 00 000000 04000000",
		func() []byte { return AppendTransfer(nil, 8, &firmware.Transfer{ID: 5, Addr: 64, Len: 4}) }},
	{"hold of two words for 200 µs", "38000000 0f 000000 0a00000000000000 c8000000 00000000 4000000000000000 05000000 00000000 4400000000000000 06000000 00000000",
		func() []byte {
			return AppendHold(nil, 10, &Hold{200 * time.Microsecond, []session.Word{{At: 0x40, Value: 5}, {At: 0x44, Value: 6}}})
		}},
	{"all-reduce of 16 int32 by maximum in communicator 5, from offset 64 to offset 128", "38000000 15 000000 0c00000000000000 0500000000000000 02 02 03 00 00000000 1000000000000000 4000000000000000 8000000000000000",
		func() []byte {
			return AppendOperation(nil, 12, &Operation{Comm: 5, Call: collective.Call{Kind: collective.AllReduce, Type: collective.Int32, Op: collective.Max, Count: 16}, In: 64, Out: 128})
		}},
	{"split of communicator 5 with color -1 and key 2", "20000000 17 000000 0d00000000000000 0500000000000000 ffffffff 02000000", func() []byte { return AppendSplit(nil, 13, &Split{5, -1, 2}) }},
	{"error about rank 3", "15000000 ff 000000 0500000000000000 0900 0300 78", func() []byte { return AppendRankError(nil, 5, CodeDead, 3, "x") }},
	{"claim of p by ab", "14000000 12 000000 0b00000000000000 01 70 6162", func() []byte { return AppendClaim(nil, 11, &Claim{"p", "ab"}) }},
	{"error", "15000000 ff 000000 0500000000000000 0300 0000 78", func() []byte { return AppendError(nil, 5, CodeBad, "x") }},
	{"result with data", "31000000 82 000000 0600000000000000 00000000 00000000 0a00000000000000 0000000000000000 00000000 01000000 ee",
		func() []byte { return AppendResult(nil, 6, &flow.Result{Sent: 5, Done: 15}, []byte{0xee}) }},
	{"welcome", "30000000 81 000000 0000000000000000 0100 0100 0200 0000 2a00000000000000 00001000 00040000 07000000 01 01 0400",
		func() []byte {
			return AppendWelcome(nil, 0, &Hello{Chip: wire.FabricNodeID{Mesh: 1, Chip: 2}, Incarnation: 42, Frame: 1 << 20, InFlight: 1024, Topology: 7,
				Arch: wire.Wormhole, Host: topo.HostChip{ID: 4, MMIO: true}})
		}},
}

func TestVectors(t *testing.T) {
	for _, v := range vectors {
		want, err := hex.DecodeString(strings.ReplaceAll(v.hex, " ", ""))
		if err != nil {
			t.Fatal(v.name, err)
		}
		if got := v.make(); !bytes.Equal(got, want) {
			t.Errorf("%s:\n%x, want\n%x", v.name, got, want)
		}
		if h, err := ParseHead(want); err != nil || h.Len != len(want) {
			t.Errorf("%s: header %+v, %v", v.name, h, err)
		}
	}
}

// requests use every field of a command.
func requests() []flow.Request {
	return []flow.Request{
		{Dst: wire.FabricNodeID{Mesh: 2, Chip: 9}, Probe: true, Flush: true},
		{Dst: wire.FabricNodeID{Chip: 1}, Other: true, Trace: true, Command: wire.Command{Type: wire.NocFusedInc, Addr: 16, Sem: 32, Value: 3, Flush: true}, Payload: []byte("abc")},
		{Ranges: wire.Ranges{Hops: [4]uint8{1, 2, 3, 4}, Skip: [4]uint8{0, 1, 0, 2}}, Command: wire.Command{Type: wire.NocAtomicInc, Value: 1}},
		{Dst: wire.FabricNodeID{Mesh: 1}, Members: wire.MembersOf(0, 77, 255), Payload: []byte{1}},
		{Command: wire.Command{Type: wire.NocScatterWrite, Chunks: 2, Scatter: [4]wire.NocAddr{4, 8}, Sizes: [4]uint16{1, 2}}, Payload: []byte{1, 2, 3}},
		{Via: []wire.Direction{wire.West, wire.North}, Payload: make([]byte, 4096)},
	}
}

func TestCommandsComeBack(t *testing.T) {
	for i, r := range requests() {
		b := AppendCommand(nil, 1, &r, 0)
		var got flow.Request
		wanted, err := ParseCommand(b[HeadLen:], &got)
		if err != nil || wanted != 0 || !reflect.DeepEqual(got, r) {
			t.Errorf("request %d came back as %+v, %d, %v; want %+v", i, got, wanted, err, r)
		}
		for n := range len(b) - HeadLen {
			if _, err := ParseCommand(b[HeadLen:HeadLen+n], &got); err == nil {
				t.Errorf("request %d was taken after %d of %d bytes", i, n, len(b)-HeadLen)
			}
		}
	}
}

func TestResultsComeBack(t *testing.T) {
	in := flow.Result{Fate: flow.FateRefused, Outcome: wire.OutcomeAgain, Drop: wire.DropTTL, At: wire.FabricNodeID{Chip: 4}, Done: 99, Missed: 3, Members: []flow.MemberResult{
		{Node: wire.FabricNodeID{Mesh: 1, Chip: 2}, Fate: flow.FateLost, Drop: wire.DropNextHopDead, At: wire.FabricNodeID{Chip: 5}}, {Fate: flow.FateUnknown, Doubt: flow.DoubtTimeout}}}
	b := AppendResult(nil, 1, &in, []byte("data"))[HeadLen:]
	var got flow.Result
	from, n, more, err := ParseResult(b, len(b), &got)
	if err != nil || more || !reflect.DeepEqual(got, in) || string(b[from:from+n]) != "data" {
		t.Errorf("the result came back as %+v, %v, %v; want %+v", got, more, err, in)
	}
	for k := range len(b) {
		if _, _, more, err := ParseResult(b[:k], k, &got); err == nil && !more {
			t.Errorf("a result was taken after %d of %d bytes", k, len(b))
		}
	}
}

// FuzzFrames parses any bytes as each kind of frame. What is accepted must come back byte by byte.
func FuzzFrames(f *testing.F) {
	for _, v := range vectors {
		f.Add(v.make())
	}
	f.Add(append(AppendHead(nil, KindComm, 7, 0), `{"chips":["M0D0"],"links":1,"means":"edm","memory":4096,"holder":"x"}`...))
	for _, r := range requests() {
		f.Add(AppendCommand(nil, 7, &r, 0))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < HeadLen {
			return
		}
		h, err := ParseHead(b)
		if err != nil {
			return
		}
		b = b[HeadLen:]
		same := func(what string, again []byte) {
			if !bytes.Equal(again[HeadLen:], b) {
				t.Errorf("%s %x came back as %x", what, b, again[HeadLen:])
			}
		}
		var r flow.Request
		if wanted, err := ParseCommand(b, &r); err == nil {
			same("command", AppendCommand(nil, h.Number, &r, wanted))
		}
		if w, err := ParseWait(b); err == nil {
			same("wait", AppendWait(nil, h.Number, &w))
		}
		if h, err := ParseHold(b); err == nil {
			same("hold", AppendHold(nil, 0, &h))
		}
		if w, err := ParseBarrier(b); err == nil {
			same("barrier", AppendBarrier(nil, h.Number, &w))
		}
		if w, err := ParseClaim(b); err == nil {
			same("claim", AppendClaim(nil, h.Number, &w))
		}
		if o, err := ParseOperation(b); err == nil {
			same("operation", AppendOperation(nil, h.Number, &o))
		}
		if s, err := ParseSplit(b); err == nil {
			same("split", AppendSplit(nil, h.Number, &s))
		}
		if c, err := ParseComm(b); err == nil && (c.Memory < 1 || c.Memory > MaxCommMemory || c.Holder == "") {
			t.Errorf("a communicator %+v was taken", c)
		}
		if s, err := ParseStop(b); err == nil {
			same("stop", AppendStop(nil, h.Number, &s))
		}
		if id, err := ParseEnd(b); err == nil {
			same("end", AppendEnd(nil, h.Number, id))
		}
		if x, y, err := ParseTile(b); err == nil {
			same("tile", AppendTile(nil, h.Number, x, y))
		}
		if n, err := ParseLend(b); err == nil {
			same("lend", AppendLend(nil, h.Number, n))
		}
		if m, err := ParseMoved(b); err == nil {
			same("moved", AppendMoved(nil, h.Number, &m))
		}
		if x, err := ParseTransfer(b); err == nil {
			same("transfer", AppendTransfer(nil, h.Number, &x))
		}
		var res flow.Result
		if from, n, more, err := ParseResult(b, len(b), &res); err == nil && !more {
			same("result", AppendResult(nil, h.Number, &res, b[from:from+n]))
		}
		_, _ = ParseWelcome(b)
		_, _ = ParseError(b)
		_ = ParseHello(b)
	})
}

// TestRangesStayInTheMemory asks for ranges at the limits of the memory.
func TestRangesStayInTheMemory(t *testing.T) {
	for _, c := range []struct {
		off     uint64
		n, size int
		ok      bool
	}{{0, 10, 10, true}, {10, 0, 10, true}, {4, 6, 10, true}, {4, 7, 10, false}, {11, 0, 10, false}, {0, 11, 10, false}, {1<<64 - 1, 2, 10, false}, {1 << 63, 10, 10, false}} {
		from, to, err := Range("input", c.off, c.n, c.size)
		if (err == nil) != c.ok || c.ok && (from != int(c.off) || to-from != c.n) {
			t.Errorf("%+v: %d to %d, %v", c, from, to, err)
		}
	}
}
