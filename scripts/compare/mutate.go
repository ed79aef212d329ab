package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"

	"ttfabric/wire"
	"ttfabric/wire/capture"
)

// udpAt is the offset of the UDP payload in a captured packet. Before the payload lie the headers
// of Ethernet, IPv4 without options, and UDP.
const udpAt = 14 + 20 + 8

// readAll reads the packets of a capture that hold TT-link datagrams. The capture may be a pcapng
// or a pcap file.
func readAll(name string) ([]gopacket.CaptureInfo, [][]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	var r interface {
		ReadPacketData() ([]byte, gopacket.CaptureInfo, error)
	}
	if r, err = pcapgo.NewNgReader(f, pcapgo.DefaultNgReaderOptions); err != nil {
		if _, err = f.Seek(0, io.SeekStart); err != nil {
			return nil, nil, err
		}
		if r, err = pcapgo.NewReader(f); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	var infos []gopacket.CaptureInfo
	var out [][]byte
	for {
		b, info, err := r.ReadPacketData()
		if errors.Is(err, io.EOF) {
			return infos, out, nil
		} else if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
		if len(b) > udpAt && capture.IsTTLink(b[udpAt:]) {
			infos, out = append(infos, info), append(out, b)
		}
	}
}

// mutate writes n damaged datagrams, which it makes from the datagrams of a capture.
func mutate(from, to string, n int, seed uint64) error {
	infos, packets, err := readAll(from)
	if err != nil {
		return err
	}
	if len(packets) == 0 {
		return fmt.Errorf("%s: the capture has no TT-link datagram", from)
	}
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	w := pcapgo.NewWriterNanos(f)
	if err := w.WriteFileHeader(1<<18, layers.LinkTypeEthernet); err != nil {
		return errors.Join(err, f.Close())
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	for range n {
		i := rng.IntN(len(packets))
		b, whole := damage(rng, packets[i], packets[rng.IntN(len(packets))])
		info := infos[i]
		info.CaptureLength, info.Length = len(b), whole
		if err := w.WritePacket(info, b); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	return f.Close()
}

// damage returns a damaged copy of a captured packet. The second result is the length that the copy
// had before its end was cut off. The damaged copy may contain bytes of the packet "other".
func damage(rng *rand.Rand, packet, other []byte) ([]byte, int) {
	head := append([]byte(nil), packet[:udpAt]...)
	p := append([]byte(nil), packet[udpAt:]...)
	cut := 0
	switch rng.IntN(8) {
	case 0: // bits of noise
		for range 1 + rng.IntN(8) {
			p[rng.IntN(len(p))] ^= 1 << rng.IntN(8)
		}
	case 1: // noise in the headers, under a good checksum
		for range 1 + rng.IntN(4) {
			p[rng.IntN(min(len(p), 200))] = byte(rng.Uint32())
		}
		seal(p)
	case 2: // boundary values in the headers, under a good checksum
		for range 1 + rng.IntN(3) {
			p[rng.IntN(min(len(p), 200))] = []byte{0, 1, 2, 3, 4, 0x7f, 0x80, 0xff}[rng.IntN(8)]
		}
		seal(p)
	case 3: // the capture cut the datagram off
		cut = 1 + rng.IntN(len(p))
	case 4: // the datagram is shorter than its fields say
		p = p[:1+rng.IntN(len(p))]
	case 5: // further bytes behind the frame
		p = append(p, other[udpAt:udpAt+rng.IntN(len(other)-udpAt)]...)
	case 6: // garbage that begins like a frame
		for i := 12; i < len(p); i++ {
			p[i] = byte(rng.Uint32())
		}
		if rng.IntN(2) == 0 {
			seal(p)
		}
	case 7: // payload of another frame behind the header of this frame, and the reverse
		n := min(len(p), len(other)-udpAt)
		from := rng.IntN(n)
		copy(p[from:n], other[udpAt+from:])
		seal(p)
	}
	if len(p) > 60000 {
		p = p[:60000]
	}
	binary.BigEndian.PutUint16(head[16:], uint16(20+8+len(p)))
	binary.BigEndian.PutUint16(head[38:], uint16(8+len(p)))
	b := append(head, p...)
	return b[:len(b)-min(cut, len(p)-1)], len(b)
}

// seal writes right checksums into all frames whose beginning and end it can find.
func seal(p []byte) {
	for len(p) > 0 {
		n, err := wire.FrameLen(p)
		if err != nil {
			return
		}
		binary.LittleEndian.PutUint32(p[n-wire.TrailerLen:], wire.Checksum(p[:n-wire.TrailerLen]))
		p = p[n:]
	}
}
