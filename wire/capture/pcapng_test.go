package capture_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"

	"ttfabric/wire"
	"ttfabric/wire/capture"
)

// captured is the random content of a section.
type captured struct {
	section    capture.Section
	interfaces []capture.Interface
	packets    []capture.Packet
	stats      []capture.Statistics
	keys       []byte
}

func word(rng *rand.Rand, n int) string {
	return strings.Repeat("aü7 ", rng.IntN(n)+1)
}

func draw(seed uint64) (c captured) {
	rng := rand.New(rand.NewPCG(seed, 3))
	c.section = capture.Section{Hardware: word(rng, 9), OS: word(rng, 9), Application: "ttfabric", Comments: []string{"seed=42", word(rng, 300)}}
	at := time.Unix(1760000000, 123456789)
	for i := range 1 + rng.IntN(4) {
		c.interfaces = append(c.interfaces, capture.Interface{Name: word(rng, 3), Description: word(rng, 9), Filter: word(rng, 5), Comment: word(rng, 2),
			MAC: capture.MAC(wire.PortID{Channel: wire.Channel(i)}), SnapLen: rng.IntN(300), Speed: uint64(rng.IntN(9))})
		c.stats = append(c.stats, capture.Statistics{Start: at, End: at.Add(time.Hour), Received: rng.Uint64(), Accepted: 1 << 40, Dropped: uint64(rng.IntN(9))})
	}
	for range rng.IntN(20) {
		k := capture.Packet{Interface: rng.IntN(len(c.interfaces)), At: at, Dir: capture.Direction(rng.IntN(3)), Data: make([]byte, 1+rng.IntN(3000)), ID: rng.Uint64()}
		for i := range k.Data {
			k.Data[i] = byte(rng.Uint32())
		}
		k.Length = len(k.Data) + rng.IntN(2)*rng.IntN(5000)
		k.Dropped = uint64(rng.IntN(2) * rng.IntN(100))
		for range rng.IntN(4) {
			k.Comments = append(k.Comments, word(rng, 40))
		}
		c.packets = append(c.packets, k)
		at = at.Add(time.Duration(rng.Int64N(int64(time.Minute))))
	}
	c.keys = []byte("CLIENT_RANDOM 00 11\n")[:rng.IntN(21)]
	return c
}

func (c *captured) write(t *testing.T, w io.Writer) *capture.Writer {
	t.Helper()
	p := capture.NewWriter(w, c.section)
	for n, i := range c.interfaces {
		if got := p.AddInterface(i); got != n {
			t.Fatalf("interface %d is number %d", n, got)
		}
	}
	err := p.WriteKeys(c.keys)
	for i := range c.packets {
		err = errors.Join(err, p.WritePacket(&c.packets[i]))
	}
	for i, s := range c.stats {
		err = errors.Join(err, p.WriteStatistics(i, s))
	}
	if err := errors.Join(err, p.Flush()); err != nil {
		t.Fatal(err)
	}
	return p
}

// read reads a section with capture.Reader.
func read(r io.Reader) (c captured, err error) {
	p, err := capture.NewReader(r)
	if err != nil {
		return c, err
	}
	c.section = p.Section
	for {
		b, err := p.Next()
		switch {
		case err == io.EOF:
			return c, nil
		case err != nil:
			return c, err
		case b.Interface != nil:
			c.interfaces = append(c.interfaces, *b.Interface)
		case b.Statistics != nil:
			c.stats = append(c.stats, *b.Statistics)
		case b.Packet != nil:
			k := *b.Packet
			k.Data = bytes.Clone(k.Data)
			c.packets = append(c.packets, k)
		default:
			c.keys = append(c.keys, b.Keys...)
		}
	}
}

// FuzzRoundTrip writes a random section, and reads it with capture.Reader and with gopacket's
// reader. The two readers must return the written content.
func FuzzRoundTrip(f *testing.F) {
	for seed := range uint64(40) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		c := draw(seed)
		var b bytes.Buffer
		w := c.write(t, &b)
		if int64(b.Len()) != w.Size() || w.Whole() != w.Size() {
			t.Fatalf("%d bytes were written, size %d, whole %d", b.Len(), w.Size(), w.Whole())
		}
		again, err := read(bytes.NewReader(b.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		if len(c.keys) == 0 {
			c.keys = nil
		}
		if !reflect.DeepEqual(c, again) {
			t.Fatalf("wrote %+v, read %+v", c, again)
		}
		compareNg(t, &c, b.Bytes())
	})
}

// compareNg reads the section b with gopacket's reader, and compares the result with c. gopacket's
// reader ignores the options of packets.
func compareNg(t *testing.T, c *captured, b []byte) {
	t.Helper()
	ng, err := pcapgo.NewNgReader(bytes.NewReader(b), pcapgo.NgReaderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range c.packets {
		k := &c.packets[i]
		data, ci, err := ng.ReadPacketData()
		if err != nil || !bytes.Equal(data, k.Data) || ci.Length != k.Length || ci.InterfaceIndex != k.Interface || !ci.Timestamp.Equal(k.At) {
			t.Fatalf("packet %d: %+v, %d bytes, %v; want %+v", i, ci, len(data), err, k)
		}
	}
	if _, _, err := ng.ReadPacketData(); err != io.EOF {
		t.Fatalf("behind the last packet: %v", err)
	}
	info := ng.SectionInfo()
	if info.Hardware != c.section.Hardware || info.OS != c.section.OS || info.Application != "ttfabric" || ng.NInterfaces() != len(c.interfaces) {
		t.Fatalf("section %+v", info)
	}
	for i, want := range c.interfaces {
		got, err := ng.Interface(i)
		if err != nil || got.Name != want.Name || got.Description != want.Description || got.Comment != want.Comment || got.Filter != want.Filter ||
			int(got.SnapLength) != want.SnapLen || got.LinkType != layers.LinkTypeEthernet || got.Resolution() != gopacket.TimestampResolutionNanosecond {
			t.Fatalf("interface %d: %+v, %v; want %+v", i, got, err, want)
		}
		s, k := got.Statistics, c.stats[i]
		if s.PacketsReceived != k.Received || s.PacketsDropped != k.Dropped || !s.StartTime.Equal(k.Start) || !s.EndTime.Equal(k.End) {
			t.Fatalf("statistics of %d: %+v, want %+v", i, s, k)
		}
	}
}

// FuzzReader gives capture.Reader garbage and damaged captures. The reader must stop with an error,
// or at the end of the input.
func FuzzReader(f *testing.F) {
	for seed := range uint64(3) {
		var b bytes.Buffer
		c := draw(seed)
		p := capture.NewWriter(&b, c.section)
		p.AddInterface(c.interfaces[0])
		_ = p.WritePacket(&capture.Packet{At: time.Unix(1, 2), Data: []byte("datagram"), Comments: []string{"x"}, Dropped: 1, ID: 3})
		_ = p.WriteStatistics(0, c.stats[0])
		_ = p.Flush()
		f.Add(b.Bytes())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := read(bytes.NewReader(b))
		if err == nil && len(c.packets) > len(b) {
			t.Fatal("more packets than bytes")
		}
	})
}

// TestFullDisk checks that Writer.Whole gives the length of the whole blocks in the file after a
// failed write.
func TestFullDisk(t *testing.T) {
	c := draw(7)
	var all bytes.Buffer
	c.write(t, &all)
	for room := 0; room < all.Len(); room += 97 {
		var b bytes.Buffer
		p := capture.NewWriter(&limited{&b, room}, c.section)
		for _, i := range c.interfaces {
			p.AddInterface(i)
		}
		for i := range c.packets {
			_ = p.WritePacket(&c.packets[i])
			_ = p.Flush()
		}
		for i, s := range c.stats {
			_ = p.WriteStatistics(i, s)
		}
		err := p.Flush()
		if b.Len() == room && !errors.Is(err, errFull) {
			t.Fatalf("room for %d bytes: %v", room, err)
		}
		whole := b.Bytes()[:p.Whole()]
		if len(whole) == 0 {
			continue
		}
		if _, err := read(bytes.NewReader(whole)); err != nil {
			t.Fatalf("the first %d of %d bytes: %v", len(whole), b.Len(), err)
		}
	}
}

var errFull = errors.New("full")

// limited is a writer that fails after room bytes.
type limited struct {
	w    io.Writer
	room int
}

func (l *limited) Write(b []byte) (int, error) {
	n, _ := l.w.Write(b[:min(len(b), l.room)])
	if l.room -= n; n < len(b) {
		return n, errFull
	}
	return n, nil
}

// TestFraming compares the headers and checksums of AppendFrame with gopacket's.
func TestFraming(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	for n, pair := range [][2]string{{"127.0.0.1:4000", "10.1.2.3:17000"}, {"[::1]:4000", "[2001:db8::7]:17008"}, {"[::ffff:10.0.0.1]:1", "10.0.0.2:2"}} {
		for _, size := range []int{0, 1, 2, 3, 4, 29, 1443, 8188} {
			payload := make([]byte, size)
			for i := range payload {
				payload[i] = byte(rng.Uint32())
			}
			from := capture.Endpoint{Port: wire.PortID{Node: wire.FabricNodeID{Mesh: 2, Chip: 3}, Channel: 4}, Addr: netip.MustParseAddrPort(pair[0])}
			to := capture.Endpoint{Port: wire.PortID{Node: wire.FabricNodeID{Mesh: 2, Chip: 4}, Channel: 5}, Addr: netip.MustParseAddrPort(pair[1])}
			got, length := capture.AppendFrame(nil, from, to, payload, size, capture.Sum(payload), 77)
			g := gopacket.NewPacket(got, layers.LayerTypeEthernet, gopacket.Default)
			udp, ok := g.Layer(layers.LayerTypeUDP).(*layers.UDP)
			if !ok || !bytes.Equal(udp.Payload, payload) || g.ErrorLayer() != nil || length != len(got) {
				t.Fatalf("%v, %d bytes: %v", pair, size, g)
			}
			var ls []gopacket.SerializableLayer
			eth := g.Layer(layers.LayerTypeEthernet).(*layers.Ethernet)
			if eth.SrcMAC.String() != "02:54:00:02:03:04" || eth.DstMAC.String() != "02:54:00:02:04:05" {
				t.Fatalf("MAC addresses %s, %s", eth.SrcMAC, eth.DstMAC)
			}
			ls = append(ls, eth)
			if ip, ok := g.Layer(layers.LayerTypeIPv4).(*layers.IPv4); ok == (n == 1) {
				t.Fatalf("%v is not of the right family", pair)
			} else if ok {
				ls = append(ls, ip)
				_ = udp.SetNetworkLayerForChecksum(ip)
			} else {
				ip6 := g.Layer(layers.LayerTypeIPv6).(*layers.IPv6)
				ls = append(ls, ip6)
				_ = udp.SetNetworkLayerForChecksum(ip6)
			}
			b := gopacket.NewSerializeBuffer()
			if err := gopacket.SerializeLayers(b, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, append(ls, udp, gopacket.Payload(payload))...); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(b.Bytes()[:len(got)], got) {
				t.Fatalf("%v, %d bytes:\n%x\nwant\n%x", pair, size, got[:min(64, len(got))], b.Bytes()[:min(64, len(got))])
			}
			f, d, p, ok := capture.Payload(got)
			if !ok || !bytes.Equal(p, payload) || f.Port() != from.Addr.Port() || d.Addr() != to.Addr.Addr() {
				t.Fatalf("taken apart: %v %v %v", f, d, ok)
			}
			short, length := capture.AppendFrame(nil, from, to, payload[:size/2], size, capture.Sum(payload), 77)
			if length != len(got) || binary.BigEndian.Uint16(got[40:]) != binary.BigEndian.Uint16(short[40:]) {
				t.Fatal("what was cut off has another checksum or length")
			}
		}
	}
}
