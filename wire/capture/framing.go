package capture

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"

	"ttfabric/wire"
)

// Lengths of the headers before a captured datagram, in bytes.
const (
	ethernetLen = 14
	ipv4Len     = 20
	ipv6Len     = 40
	udpLen      = 8

	// MaxOverhead is the largest number of header bytes before a captured datagram.
	MaxOverhead = ethernetLen + ipv6Len + udpLen
)

const (
	etherIPv4, etherIPv6 = 0x0800, 0x86dd
	protocolUDP          = 17 // RFC 768
	dontFragment         = 0x4000
	hopLimit             = 64 // the default of Linux
)

// MAC returns the Ethernet address that stands for a port in captures. The first byte marks a
// locally administered address (IEEE 802). Then come a 'T', the mesh (2 bytes), the chip and the
// channel.
func MAC(p wire.PortID) net.HardwareAddr {
	return net.HardwareAddr{0x02, 'T', byte(p.Node.Mesh >> 8), byte(p.Node.Mesh), byte(p.Node.Chip), byte(p.Channel)}
}

// PortName returns the name of a port's interface in captures, such as "M0D3/eth0".
func PortName(p wire.PortID) string { return fmt.Sprintf("%s/eth%d", p.Node, p.Channel) }

// Endpoint is the source or the destination of a captured datagram.
type Endpoint struct {
	Port wire.PortID
	Addr netip.AddrPort
}

// Sum returns the 16-bit sum of b for an Internet checksum (RFC 1071). A capture that keeps only
// the first bytes of a datagram also keeps the sum of the whole datagram.
func Sum(b []byte) uint16 {
	var s uint64
	for ; len(b) >= 4; b = b[4:] {
		s += uint64(binary.BigEndian.Uint32(b))
	}
	switch len(b) {
	case 3:
		s += uint64(b[0])<<24 | uint64(b[1])<<16 | uint64(b[2])<<8
	case 2:
		s += uint64(b[0])<<24 | uint64(b[1])<<16
	case 1:
		s += uint64(b[0]) << 24
	}
	return fold(s)
}

// fold adds the 16-bit words of s, with end-around carry.
func fold(s uint64) uint16 {
	for s>>16 != 0 {
		s = s&0xffff + s>>16
	}
	return uint16(s)
}

// AppendFrame appends to b the Ethernet frame for a captured datagram. The frame has an Ethernet
// header, an IPv4 or IPv6 header, a UDP header, and the kept part of the payload. The parameters
// "length" and "sum" are the length and the [Sum] of the whole payload. The parameter id is the
// identification in the IPv4 header. If the two addresses belong to different IP versions,
// AppendFrame writes an IPv6 header. In place of an invalid address, AppendFrame writes the
// unspecified address, such as 0.0.0.0. AppendFrame returns the extended b, and the length that the
// frame has with its whole payload.
func AppendFrame(b []byte, from, to Endpoint, payload []byte, length int, sum, id uint16) ([]byte, int) {
	src, dst := from.Addr.Addr().Unmap().WithZone(""), to.Addr.Addr().Unmap().WithZone("")
	if !src.IsValid() {
		src = unspecified(dst)
	}
	if !dst.IsValid() {
		dst = unspecified(src)
	}
	b = append(append(b, MAC(to.Port)...), MAC(from.Port)...)
	be := binary.BigEndian
	pseudo := uint64(protocolUDP) + uint64(udpLen+length)
	head := ethernetLen + udpLen
	if src.Is4() && dst.Is4() {
		s, d := src.As4(), dst.As4()
		b = be.AppendUint16(b, etherIPv4)
		at := len(b)
		b = append(b, 0x45, 0)
		b = be.AppendUint16(b, uint16(ipv4Len+udpLen+length))
		b = be.AppendUint16(b, id)
		b = be.AppendUint16(b, dontFragment)
		b = append(b, hopLimit, protocolUDP, 0, 0)
		b = append(append(b, s[:]...), d[:]...)
		be.PutUint16(b[at+10:], ^Sum(b[at:]))
		pseudo += uint64(Sum(s[:])) + uint64(Sum(d[:]))
		head += ipv4Len
	} else {
		s, d := src.As16(), dst.As16()
		b = be.AppendUint16(b, etherIPv6)
		b = append(b, 0x60, 0, 0, 0)
		b = be.AppendUint16(b, uint16(udpLen+length))
		b = append(b, protocolUDP, hopLimit)
		b = append(append(b, s[:]...), d[:]...)
		pseudo += uint64(Sum(s[:])) + uint64(Sum(d[:]))
		head += ipv6Len
	}
	sp, dp := from.Addr.Port(), to.Addr.Port()
	c := ^fold(pseudo + uint64(sp) + uint64(dp) + uint64(udpLen+length) + uint64(sum))
	if c == 0 {
		c = 0xffff // in UDP, 0 means "no checksum" (RFC 768)
	}
	b = be.AppendUint16(b, sp)
	b = be.AppendUint16(b, dp)
	b = be.AppendUint16(b, uint16(udpLen+length))
	b = be.AppendUint16(b, c)
	return append(b, payload...), head + length
}

// unspecified returns the unspecified address of the IP version of the address "other". If "other"
// is invalid, the version is IPv4.
func unspecified(other netip.Addr) netip.Addr {
	if other.Is6() {
		return netip.IPv6Unspecified()
	}
	return netip.IPv4Unspecified()
}

// Payload returns the UDP addresses and the UDP payload of a frame such as [AppendFrame] writes. If
// the frame is not UDP over IPv4 without options or over IPv6, or is too short, ok is false. Payload
// does not check checksums.
func Payload(frame []byte) (from, to netip.AddrPort, payload []byte, ok bool) {
	if len(frame) < ethernetLen+ipv4Len+udpLen {
		return
	}
	be := binary.BigEndian
	ip := frame[ethernetLen:]
	var src, dst netip.Addr
	var udp []byte
	switch {
	case be.Uint16(frame[12:]) == etherIPv4 && ip[0] == 0x45 && ip[9] == protocolUDP:
		src, dst, udp = netip.AddrFrom4([4]byte(ip[12:])), netip.AddrFrom4([4]byte(ip[16:])), ip[ipv4Len:]
	case be.Uint16(frame[12:]) == etherIPv6 && len(ip) >= ipv6Len+udpLen && ip[6] == protocolUDP:
		src, dst, udp = netip.AddrFrom16([16]byte(ip[8:])), netip.AddrFrom16([16]byte(ip[24:])), ip[ipv6Len:]
	default:
		return
	}
	n := int(be.Uint16(udp[4:])) - udpLen
	payload = udp[udpLen:]
	if n >= 0 && n < len(payload) {
		payload = payload[:n]
	}
	return netip.AddrPortFrom(src, be.Uint16(udp)), netip.AddrPortFrom(dst, be.Uint16(udp[2:])), payload, true
}

// PortsOf returns the source and destination port of a frame that [AppendFrame] has written.
// PortsOf takes the ports from the frame's Ethernet addresses. If one of the two addresses does not
// have the form of [MAC], ok is false.
func PortsOf(frame []byte) (from, to wire.PortID, ok bool) {
	if len(frame) < ethernetLen {
		return
	}
	read := func(m []byte) (p wire.PortID) {
		ok = m[0] == 0x02 && m[1] == 'T'
		return wire.PortID{Node: wire.FabricNodeID{Mesh: wire.MeshID(m[2])<<8 | wire.MeshID(m[3]), Chip: wire.ChipID(m[4])}, Channel: wire.Channel(m[5])}
	}
	to = read(frame)
	if ok {
		from = read(frame[6:])
	}
	return from, to, ok
}
