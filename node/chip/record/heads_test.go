package record

import (
	"bytes"
	"strings"
	"testing"

	"ttfabric/node/chip"
	"ttfabric/ttlink"
	"ttfabric/wire"
)

// frame returns a data frame with a packet.
func frame(t *testing.T, p *wire.Packet) []byte {
	t.Helper()
	if p.Len() == 0 {
		t.Fatalf("no packet: %+v", p)
	}
	f := wire.Frame{Kind: wire.KindData, VC: p.VC, Flags: wire.FlagEnd, Payload: p.Append(nil)}
	return f.Append(nil)
}

// TestHeads encodes two long frames, as version 3 and as the earlier versions do. The decoder gets back
// as many bytes of each frame as the encoder kept.
func TestHeads(t *testing.T) {
	data := bytes.Repeat([]byte{7}, 1000)
	for old, want := range map[bool]int{false: 176, true: 152} {
		e := encoder{old: old}
		e.sent(1, &ttlink.Transmit{Data: append(data, data...), Seg: len(data)})
		d := decoder{old: old, b: e.body}
		if ch := d.byte(); ch != 1 {
			t.Errorf("channel %d", ch)
		}
		if s := d.sent(); d.bad || len(d.b) > 0 || len(s.Heads) != 2 || len(s.Heads[0]) != want || len(s.Heads[1]) != want {
			t.Errorf("old %v: %d heads, %d bytes left, bad: %v", old, len(s.Heads), len(d.b), d.bad)
		}
	}
}

// TestFramesAreDescribed describes the part of a frame that a recording keeps.
func TestFramesAreDescribed(t *testing.T) {
	self := wire.FabricNodeID{Mesh: 1, Chip: 2}
	for name, c := range map[string]struct {
		p          wire.Packet
		want, none string
	}{
		"a multicast to members": {want: " request M0D0 to M1D2 ttl 3 id 9 flow 00000008/7",
			p: wire.Packet{Type: wire.PacketRequest, Dst: self, TTL: 3, ID: 9, FlowEpoch: 8, FlowSeq: 7, Group: 1, Members: wire.MembersOf(1, 2),
				Route: make([]byte, 19), Command: wire.Command{Size: 500}, Payload: make([]byte, 500)}},
		"link states": {want: " link states M0D0 to M1D2 ttl 3", none: " id ",
			p: wire.Packet{Type: wire.PacketLinkState, VC: wire.VCControl, Dst: self, TTL: 3, Command: wire.Command{Type: wire.NocNone, Size: 10}, Payload: make([]byte, 10)}},
	} {
		b := frame(t, &c.p)
		if got := DescribeFrame(b[:headLen(len(b), false)], len(b)); !strings.Contains(got, c.want) || c.none != "" && strings.Contains(got, c.none) {
			t.Errorf("%s: %s; want%s", name, got, c.want)
		}
	}
}

// TestOldLinkStates reads a call of HandleLinkStates from a recording of version 2, whose link states
// have no map of silent ports.
func TestOldLinkStates(t *testing.T) {
	s := wire.LinkState{Node: wire.FabricNodeID{Mesh: 1, Chip: 2}, Version: 3, Out: 4}
	b := s.Append(nil)
	e := encoder{old: true}
	e.call(chip.OpHandleLinkStates, 5, 0, 0, append(bytes.Clone(b[:oldLinkState]), b[:oldLinkState]...))
	d := decoder{old: true}
	r, err := d.record(e.body)
	if err != nil {
		t.Fatal(err)
	}
	if got := wire.AppendLinkStates(nil, r.Data); len(got) != 2 || got[0] != s || got[1] != s {
		t.Errorf("%+v, want %+v twice", got, s)
	}
}
