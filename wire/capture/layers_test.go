package capture_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/gopacket"

	"ttfabric/wire"
	"ttfabric/wire/capture"
)

// aPacket returns a request with a payload of n bytes.
func aPacket(n int) wire.Packet {
	return wire.Packet{Type: wire.PacketRequest, VC: wire.VCData, Plane: 1, TTL: 9,
		Src: wire.FabricNodeID{Chip: 2}, Dst: wire.FabricNodeID{Mesh: 1, Chip: 7}, FlowEpoch: 5, FlowSeq: 6, FlowBase: 4, ID: 0x1122334455667788, Epoch: 0xabc,
		Command: wire.Command{Type: wire.NocUnicastWrite, Addr: wire.NewNocAddr(1, 2, 0x1000), Size: uint16(n)},
		Route:   []byte{wire.RouteEast, wire.RouteSouth, wire.RouteNorth}, Payload: make([]byte, n)}
}

// frames cuts a packet into data frames with payloads of at most size bytes, and returns the
// encoded frames.
func frames(p *wire.Packet, size int, seq wire.Seq, slot uint32) (out [][]byte) {
	b := p.Append(nil)
	for o := 0; o < len(b); o += size {
		f := wire.Frame{Channel: 3, Session: 0x5e55, Kind: wire.KindData, VC: p.VC, Dest: wire.SlotAddress(p.VC, slot, o), TxSeq: seq, RxSeq: 77,
			Padded: size, Payload: b[o:min(o+size, len(b))]}
		if o+size >= len(b) {
			f.Flags = wire.FlagEnd
		}
		out = append(out, f.Append(nil))
		seq++
	}
	return out
}

// value returns the value of the first field with the given name, or "" if fs has no such field.
func value(fs []capture.Field, name string) string {
	for _, f := range fs {
		if f.Name == name {
			return f.Value
		}
	}
	return ""
}

func want(t *testing.T, fs []capture.Field, wants map[string]string) {
	t.Helper()
	for n, v := range wants {
		if got := value(fs, n); got != v {
			t.Errorf("%s is %q, want %q", n, got, v)
		}
	}
}

// TestSuperPacket decodes a payload of several frames back to back, as GSO delivers them.
func TestSuperPacket(t *testing.T) {
	p := aPacket(100)
	u := wire.Update{Grants: [wire.NumVCs]uint32{3, 2, 1}}
	h := wire.Hello{Up: true, From: wire.PortID{Channel: 4}, Incarnation: 0xfeed, MaxPayload: 1408}
	b := slices.Concat(frames(&p, 1408, 41, 5)...)
	b = append(b, frames(&p, 1408, 42, 6)[0]...)
	b = (&wire.Frame{Session: 1, Kind: wire.KindUpdate, Flags: wire.FlagNACK, Payload: u.Append(nil)}).Append(b)
	b = (&wire.Frame{Kind: wire.KindHello, Payload: h.Append(nil)}).Append(b)
	g := gopacket.NewPacket(b, capture.LayerTypeTTLink, gopacket.Default)
	if e := g.ErrorLayer(); e != nil {
		t.Fatal(e.Error())
	}
	var names []string
	for _, l := range g.Layers() {
		names = append(names, l.LayerType().String())
	}
	if got := fmt.Sprint(names); got != "[TTLink TTFabric TTLink TTFabric TTLink TTLink]" {
		t.Fatalf("layers %s", got)
	}
	fs := capture.Fields(g.Layers())
	want(t, fs, map[string]string{"ttlink.seq": "41", "ttlink.ack": "77", "ttlink.slot": "5", "ttlink.session": "0x00005e55", "ttlink.crc.good": "1",
		"ttlink.fault": "", "ttfabric.dst_chip": "7", "ttfabric.dst": "M1D7", "ttfabric.route": "ESN", "ttfabric.addr.offset": "0x000001000",
		"ttfabric.id": "0x1122334455667788", "ttfabric.data_len": "100", "ttfabric.pieces": "1", "ttlink.grant": "3", "ttlink.hello.from_channel": "4"})
}

// TestPieces assembles packets from shuffled frames with copies. Each packet must come out once.
func TestPieces(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for size := 96; size <= 1408; size += 416 {
		p := aPacket(wire.MaxPayload)
		for i := range p.Payload {
			p.Payload[i] = byte(rng.Uint32())
		}
		fs := frames(&p, size, ^wire.Seq(0)-1, 2) // the sequence numbers wrap within the packet
		rng.Shuffle(len(fs), func(i, j int) { fs[i], fs[j] = fs[j], fs[i] })
		fs = append(fs, fs...) // each frame also comes as a copy
		var d capture.Decoder
		whole := 0
		for i, f := range fs {
			for _, l := range append(d.Datagram("here", f), d.Datagram("there", nil)...) {
				f, ok := l.(*capture.Fabric)
				if !ok || f.Partial {
					continue
				}
				if whole++; i != len(fs)/2-1 || f.Pieces != len(fs)/2 || !slices.Equal(f.Payload, p.Payload) || f.Fault != nil {
					t.Errorf("at frame %d of %d: %d pieces, %d bytes, %v", i, len(fs), f.Pieces, len(f.Payload), f.Fault)
				}
			}
		}
		if whole != 1 {
			t.Errorf("%d whole packets from pieces of %d bytes, want 1", whole, size)
		}
	}
}

// TestPartial checks the fields of a packet if the capture has only the first piece, or a frame
// that a snap length has cut off.
func TestPartial(t *testing.T) {
	p := aPacket(2000)
	first := frames(&p, 1408, 9, 0)[0]
	var d capture.Decoder
	for _, b := range [][]byte{first, frames(&p, 2208, 9, 0)[0][:200]} {
		fs := capture.Fields(d.Datagram("x", b))
		want(t, fs, map[string]string{"ttlink.seq": "9", "ttfabric.partial": "1", "ttfabric.dst": "M1D7", "ttfabric.length": "2120", "ttfabric.data_len": ""})
	}
	for n := range first {
		ls := d.Datagram("y", first[:n])
		if fs := capture.Fields(ls); n > 0 && (len(ls) == 0 || value(fs, "ttlink.fault") != "short") {
			t.Fatalf("%d bytes: %v", n, fs)
		}
	}
}

// TestFaults checks the fault of a damaged frame, and that the decoder continues with the next
// frame.
func TestFaults(t *testing.T) {
	p := aPacket(10)
	good := frames(&p, 160, 1, 0)[0]
	damage := func(at int) []byte { b := slices.Clone(good); b[at] ^= 0x40; return b }
	for at, fault := range map[int]string{0: "magic", 30: "checksum", len(good) - 1: "checksum", 2: "version"} {
		fs := capture.Fields(new(capture.Decoder).Datagram("", append(damage(at), good...)))
		want(t, fs, map[string]string{"ttlink.fault": fault})
		if at > 0 && value(fs, "ttfabric.id") == "" {
			t.Errorf("%s: the frame behind it is not decoded", fault)
		}
	}
	junk := (&wire.Frame{Session: 1, Kind: wire.KindUpdate, Payload: []byte("junk")}).Append(nil)
	want(t, capture.Fields(new(capture.Decoder).Datagram("", junk)), map[string]string{"ttlink.fault": "update", "ttlink.crc.good": "1"})
	p.Type = 99
	want(t, capture.Fields(new(capture.Decoder).Datagram("", frames(&p, 160, 1, 0)[0])), map[string]string{"ttfabric.fault": "packet", "ttlink.fault": ""})
}

func FuzzDatagram(f *testing.F) {
	p := aPacket(300)
	f.Add(slices.Concat(frames(&p, 96, 1, 0)...))
	f.Add([]byte("TT\x10\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var d capture.Decoder
		n := 0
		for _, l := range d.Datagram("a", b) {
			if l, ok := l.(*capture.TTLink); ok {
				if n += l.Len(); l.Len() == 0 {
					t.Fatal("a layer of nothing")
				}
			}
		}
		if n != len(b) {
			t.Fatalf("layers of %d bytes for %d", n, len(b))
		}
		capture.Fields(gopacket.NewPacket(b, capture.LayerTypeTTLink, gopacket.Default).Layers())
	})
}
