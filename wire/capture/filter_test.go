package capture_test

import (
	"strings"
	"testing"
	"time"

	"ttfabric/wire"
	"ttfabric/wire/capture"
)

// sights returns the datagrams bs as a port sends them. sights passes all datagrams to one tracker,
// in order.
func sights(bs ...[]byte) (out []capture.Sight) {
	var t capture.Tracker
	for _, b := range bs {
		s := capture.Sight{Port: wire.PortID{Node: wire.FabricNodeID{Chip: 2}, Channel: 8}, Peer: wire.PortID{Node: wire.FabricNodeID{Chip: 3}, Channel: 3},
			Dir: capture.DirOut, Data: b, Length: len(b)}
		t.Look(&s)
		s.Head = append(wire.PacketView(nil), s.Head...) // the tracker reuses the memory of Head
		if len(s.Head) == 0 {
			s.Head = nil
		}
		out = append(out, s)
	}
	return out
}

// TestFilter applies each filter to seven datagrams. The datagrams are a packet in one frame, the
// three pieces of another packet, a copy of one piece, an update and junk.
func TestFilter(t *testing.T) {
	p := aPacket(100)
	q := aPacket(3000)
	q.Dst, q.VC, q.ID, q.Type, q.Command = wire.FabricNodeID{Chip: 9}, wire.VCReply, 5, wire.PacketReply, wire.Command{Type: wire.NocNone, Size: 3000}
	q.Group, q.Other = 0, true
	pieces := frames(&q, 1408, 101, 1)
	update := (&wire.Frame{Session: 0x77, Kind: wire.KindUpdate, Flags: wire.FlagNACK, RxSeq: 44, Payload: (&wire.Update{}).Append(nil)}).Append(nil)
	junk := []byte("no frame of anybody, but long enough to be one")
	all := sights(frames(&p, 1408, 100, 0)[0], pieces[0], pieces[1], pieces[2], pieces[1], update, junk)
	all[0].Fault = true
	for filter, want := range map[string]string{
		"":                      "XXXXXXX",
		"data":                  "XXXXX..",
		"not data":              ".....XX",
		"kind data and vc 0":    "X......",
		"vc reply":              ".XXXX..",
		"class reply":           ".XXXX..",
		"nack or fault":         "X....X.",
		"seq 100-101":           "XX.....",
		"seq >102":              "...X...",
		"seq <102":              "XX.....",
		"seq 103-":              "...X...",
		"ack 44":                ".....X.",
		"session 0x77":          ".....X.",
		"dst M1D7":              "X......",
		"src M0D2 and dst 9":    ".XXXX..", // a filter that matches a packet's header matches all pieces of the packet
		"chip M1D*":             "X......",
		"chip M0D2":             "XXXXX..",
		"type reply":            ".XXXX..",
		"send write":            "X......",
		"id 5":                  ".XXXX..",
		"retransmission":        "....X..",
		"bad":                   "......X",
		"! (data||update)":      "......X",
		"!!end && !vc 0":        "...X...",
		"at M0D2 and channel 8": "XXXXXXX",
		"peer M0D2 or in":       ".......",
		"flow 6 and plane 1":    "XXXXX..",
		"length <100":           ".....XX",
		"slot 1":                ".XXXX..",
		"multicast":             ".......",
		"other":                 ".XXXX..",
	} {
		f, err := capture.ParseFilter(filter)
		if err != nil {
			t.Error(err)
			continue
		}
		got := ""
		for i := range all {
			got += string(".X"[btoi(f.Takes(&all[i]))])
		}
		if got != want {
			t.Errorf("%q takes %s, want %s", filter, got, want)
		}
	}
}

// TestFilterWrites checks that the filter "seq" also takes L1 writes and MMIO writes, which have
// numbers of the same sequence as data frames.
func TestFilterWrites(t *testing.T) {
	f, err := capture.ParseFilter("seq 7")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []wire.Kind{wire.KindData, wire.KindWrite, wire.KindMMIO} {
		x := wire.Frame{Session: 0x77, Kind: k, TxSeq: 7, Payload: make([]byte, 32)}
		if all := sights(x.Append(nil)); !f.Takes(&all[0]) {
			t.Errorf("%q does not take a frame of kind %d", f, k)
		}
	}
}

// TestMulticastToMembers checks the filter "multicast" and the line of a multicast to members, on the
// way to the members' mesh and within it.
func TestMulticastToMembers(t *testing.T) {
	f, err := capture.ParseFilter("multicast")
	if err != nil {
		t.Fatal(err)
	}
	for _, trunk := range []wire.Trunk{wire.TrunkNone, wire.TrunkX} {
		p := aPacket(100)
		p.Group, p.Trunk = 3, trunk
		p.Members.Add(7)
		p.Members.Add(9)
		all := sights(frames(&p, 1408, 100, 0)[0])
		if !f.Takes(&all[0]) {
			t.Errorf("trunk %d: the filter does not take the multicast", trunk)
		}
		if line := capture.Line(time.Unix(1, 2), &all[0], nil); !strings.Contains(line, "M0D2 > M1D7 and chips 7,9 id") {
			t.Errorf("trunk %d: the line is %q", trunk, line)
		}
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestBadFilters checks that errors quote the first wrong word of a filter.
func TestBadFilters(t *testing.T) {
	for filter, words := range map[string]string{
		"dta":               `"dta", word 1`,
		"data and":          "ends too early",
		"vc":                `ends after "vc"`,
		"vc 16":             `vc "16": want less than 16`,
		"vc big":            `vc "big": want a number or one of control, `,
		"data vc 0":         `"vc", word 2: want and, or, or the end`,
		"(data or hello":    "closing parenthesis",
		"seq x":             `seq "x": want a number`,
		"seq 9-3":           "the range begins at 9 and ends at 3, which is lower",
		"dst M0":            `dst "M0": chip "M0": want M<mesh>`,
		"dst M0D[":          "not a pattern",
		"data)":             `")"`,
		"tcp port 80":       `"tcp", word 1`,
		"seq >":             `seq ">"`,
		"kind datum":        "one of close, data, hello, mmio, update, write",
		"not":               "ends too early",
		"ack -":             `ack "-"`,
		"seq <0":            `seq "<0"`,
		"id 0x1g":           `id "0x1g"`,
		"data or or update": `"or", word 3`,
	} {
		_, err := capture.ParseFilter(filter)
		if err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%q: %v, want %s", filter, err, words)
		}
	}
	for _, long := range []string{strings.Repeat("(", 4000), strings.Repeat("!", 4000), strings.Repeat("data or ", 4000)} {
		if _, err := capture.ParseFilter(long); err == nil {
			t.Errorf("%.20s… is taken", long)
		}
	}
}

// FuzzFilter parses random filters, and applies valid filters to random datagrams.
func FuzzFilter(f *testing.F) {
	p := aPacket(100)
	f.Add("data and not (vc 0 || dst M0D*)", frames(&p, 1408, 1, 0)[0])
	f.Add("bad or id 1-", []byte("TT\x10"))
	f.Fuzz(func(t *testing.T, s string, b []byte) {
		x, err := capture.ParseFilter(s)
		if err != nil {
			return
		}
		for _, k := range sights(b, b[:len(b)/2]) {
			x.Takes(&k)
			k.Length += 7
			x.Takes(&k)
			capture.Line(time.Unix(1, 2), &k, nil)
		}
	})
}

// TestLine compares the lines for some frames with the expected lines.
func TestLine(t *testing.T) {
	p := aPacket(2000)
	h := wire.Hello{Up: true, WantAnswer: true, From: wire.PortID{Channel: 4}, Incarnation: 7, Training: 3, MaxPayload: 1408}
	pieces := frames(&p, 1408, 7, 0)
	all := sights(pieces[0], pieces[1], pieces[1], (&wire.Frame{Kind: wire.KindHello, Payload: h.Append(nil), Channel: 3}).Append(nil), []byte("junk"))
	var got []string
	for i := range all {
		line := capture.Line(time.Unix(1760000000, 5), &all[i], []string{"injected fault: lost"}[:btoi(i == 0)])
		_, line, _ = strings.Cut(line, " ") // removes the time of day, which depends on the time zone
		got = append(got, line)
	}
	want := []string{
		"M0D2/eth8 > M0D3/eth3 data vc 0 seq 7 ack 77, 1436 bytes, piece at 0 | write M0D2 > M1D7 id 0x1122334455667788 flow 6 plane 1 hop 0 ttl 9, 2000 bytes [injected fault: lost]",
		"M0D2/eth8 > M0D3/eth3 data vc 0 seq 8 ack 77, 1436 bytes, piece at 1408, the last | write M0D2 > M1D7 id 0x1122334455667788 flow 6 plane 1 hop 0 ttl 9, 2000 bytes",
		"M0D2/eth8 > M0D3/eth3 data vc 0 seq 8 ack 77, 1436 bytes, piece at 1408, the last | write M0D2 > M1D7 id 0x1122334455667788 flow 6 plane 1 hop 0 ttl 9, 2000 bytes [retransmission]",
		"M0D2/eth8 > M0D3/eth3 hello training 3 up want ack 0, 108 bytes",
		"M0D2/eth8 > M0D3/eth3 not TT-link, 4 bytes [damaged]",
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("line %d:\n%s\nwant\n%s", i, got[i], want[i])
		}
	}
}
