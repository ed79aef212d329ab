package process

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"

	"ttfabric/node/fabric/spec"
	"ttfabric/ttlink/transport"
	"ttfabric/ttlink/transport/pki"
	"ttfabric/ttlink/transport/quicport"
	"ttfabric/wire"
)

// Ports opens the ethernet ports of a chip, with the transport and the keys of the chip's fabric.
type Ports struct {
	fabric string                // name of the fabric
	auth   string                // none, psk or mtls
	psk    []byte                // pre-shared key, for auth psk
	chip   *pki.Chip             // certificate and key of the chip, for auth mtls
	keys   *transport.KeyLog     // log of the secrets of QUIC connections; nil: the chip logs no secrets
	mtu    int                   // length of the longest IP packet of UDP ports, in bytes; 0: each link finds out the longest packet of its path
	gso    transport.Mode        // whether UDP ports use GSO and GRO
	batch  transport.Mode        // whether UDP ports send and receive several messages per system call
	within func(netip.Addr) bool // reports whether --auth none is allowed for an address
}

// newPorts returns the Ports of chip id. With auth mtls, newPorts reads the chip's certificate from
// the folder dir. With --keylog, newPorts opens the file for the secrets of QUIC connections.
func newPorts(m *spec.Spec, id wire.FabricNodeID, dir string, psk []byte, within func(netip.Addr) bool) (l *Ports, err error) {
	l = &Ports{fabric: m.Name, auth: m.Auth, psk: psk, within: within}
	if l.gso, l.batch, err = m.OffloadModes(); err != nil {
		return nil, err
	}
	if m.Auth == spec.MTLS {
		if l.chip, err = pki.Load(dir, pki.Identity{Fabric: m.Name, Chip: id}); err != nil {
			return nil, err
		}
	}
	if m.KeyLog != "" {
		l.keys = &transport.KeyLog{}
		path := filepath.Join(m.KeyLog, "keylog-"+id.String()+".txt")
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err == nil {
			err = f.Chmod(0o600)
		}
		if err != nil {
			return nil, fmt.Errorf("--keylog: cannot open the chip's file in the folder: %w", err)
		}
		l.keys.Subscribe(func(b []byte) { f.Write(b) }) // the file f stays open as long as the process runs
	}
	return l, nil
}

// open opens the port at this chip's end of cable c, at the address "local".
func (l *Ports) open(local netip.AddrPort, c transport.Cable) (transport.Port, error) {
	c.Fabric = l.fabric
	if l.auth == spec.MTLS {
		return quicport.Listen(quicport.Options{Local: local, Cable: c, Chip: l.chip, KeyLog: l.keys})
	}
	p, err := transport.Listen(transport.Options{Local: local, MTU: l.mtu, GSO: l.gso, GRO: l.gso, Batch: l.batch})
	if err != nil {
		return nil, err
	}
	if l.auth == spec.PSK {
		s, err := transport.PSK(p, l.psk, c)
		if err != nil {
			p.Close()
		}
		return s, err
	}
	return transport.Fence(p, l.within), nil
}

// The method "within" returns a function that reports whether the chip may use --auth none with an
// address. The chip may use --auth none on loopback and in the networks that the options trust, and
// with --insecure everywhere.
func (o *Options) within() (func(netip.Addr) bool, error) {
	var nets []netip.Prefix
	for _, s := range o.Trust {
		n, err := parseTrusted(s)
		if err != nil {
			return nil, spec.Usagef("--trust-network %s: %w", s, err)
		}
		nets = append(nets, n...)
	}
	return func(a netip.Addr) bool {
		if o.Insecure || a.IsLoopback() {
			return true
		}
		for _, n := range nets {
			if n.Contains(a) {
				return true
			}
		}
		return false
	}, nil
}

// sharedSpace is the address space that carriers share (RFC 6598). Some container networks
// use addresses of this space.
var sharedSpace = netip.MustParsePrefix("100.64.0.0/10")

// parseTrusted returns the networks that s names. If s is a network, parseTrusted returns the
// network. If s is an interface, parseTrusted returns the networks of the interface. If one of
// these networks is not private, or has a prefix below 8 bits, parseTrusted returns an error.
func parseTrusted(s string) (out []netip.Prefix, err error) {
	if n, err := netip.ParsePrefix(s); err == nil {
		out = append(out, n.Masked())
	} else {
		i, err := net.InterfaceByName(s)
		if err != nil {
			return nil, errors.New("want a network such as 172.20.0.0/16, or an interface of this machine")
		}
		as, err := i.Addrs()
		if err != nil {
			return nil, err
		}
		for _, a := range as {
			if n, err := netip.ParsePrefix(a.String()); err == nil {
				out = append(out, n.Masked())
			}
		}
		if len(out) == 0 {
			return nil, errors.New("the interface has no IP address; name the network instead")
		}
	}
	for _, n := range out {
		a := n.Addr()
		if !a.IsPrivate() && !a.IsLoopback() && !a.IsLinkLocalUnicast() && !sharedSpace.Contains(a) || n.Bits() < 8 {
			return nil, fmt.Errorf("%s is not a private network; --insecure allows --auth none in any network", n)
		}
	}
	return out, nil
}
