package main

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ttfabric/membership/gossip"
	"ttfabric/router/topo"
	"ttfabric/ttlink/transport"
	"ttfabric/ttlink/transport/pki"
	"ttfabric/ttlink/transport/quicport"
	"ttfabric/wire"
)

// Of a run folder.
const (
	pskFile = "psk.key" // pre-shared key in base64, mode 0600
	pkiDir  = "pki"     // certificates that 'up' made itself
)

// addAlone adds what a chip may be told that has others beyond its own machine.
func (f *secureFlags) addAlone(c *cobra.Command) {
	fl := c.Flags()
	fl.StringSliceVar(&f.trust, "trust-network", nil, "private networks, or interfaces for theirs, in which --auth none is taken, such as a container network")
	fl.BoolVar(&f.insecure, "insecure", false, "take --auth none anywhere: whoever reaches the ports can forge frames")
}

// note has a topology say what the flags say.
func (f *secureFlags) note(t *topo.Topology) error {
	if f.transport == "" && f.auth == "" {
		return nil
	}
	t.Transport, t.Auth = cmp.Or(f.transport, t.Transport), cmp.Or(f.auth, t.Auth)
	f.settle(t)
	return f.configure(&spec.Spec{})
}

// psk reads the pre-shared key; "" makes one.
func (f *secureFlags) psk(c *cobra.Command) ([]byte, error) {
	if f.pskFile == "" {
		return gossip.NewKey(defaultKeyBytes)
	}
	return readKey(c, "--psk-file", f.pskFile)
}

// pskText is a pre-shared key as it is in a file.
func pskText(key []byte) []byte { return []byte(base64.StdEncoding.EncodeToString(key) + "\n") }

// secrets returns what puts the fabric's secrets into its run folder, after it
// has found that those which the flags name are good for each chip.
func (f *secureFlags) secrets(c *cobra.Command, t *topo.Topology, m *spec.Spec) (func(runDir) error, error) {
	var chips []wire.FabricNodeID
	for _, x := range t.Chips {
		chips = append(chips, x.Node)
	}
	switch {
	case m.Auth == spec.PSK:
		key, err := f.psk(c)
		if err != nil {
			return nil, err
		}
		return func(d runDir) error {
			return writeFile(d.path(pskFile), pskText(key))
		}, nil
	case m.Auth == spec.MTLS && m.PKI == "":
		return func(d runDir) error {
			if err := os.Mkdir(d.path(pkiDir), 0o700); err != nil {
				return fmt.Errorf("cannot make the certificates: %w", err)
			}
			return pki.Make(d.path(pkiDir), m.Name, chips, time.Now(), pki.DefaultValidity)
		}, nil
	case m.Auth == spec.MTLS:
		for _, n := range chips {
			if _, err := pki.Load(m.PKI, pki.Identity{Fabric: m.Name, Chip: n}); err != nil {
				return nil, spec.Usagef("--pki: %w", err)
			}
		}
	}
	return func(runDir) error { return nil }, nil
}

// links opens a chip's ports as its fabric wants them.
type links struct {
	fabric string
	auth   string
	psk    []byte
	chip   *pki.Chip
	keys   *transport.KeyLog
	mtu    int                   // of UDP ports; see transport.Options
	gso    transport.Mode        // of UDP ports, and of GRO
	batch  transport.Mode        // of UDP ports
	within func(netip.Addr) bool // where --auth none is taken
}

// links reads the secrets of the run folder, or of the folder that 'up' was given.
func (d runDir) links(m *spec.Spec, id wire.FabricNodeID) (*links, error) {
	dir := m.PKI
	if dir == "" {
		dir = d.path(pkiDir)
	}
	var psk []byte
	if m.Auth == spec.PSK {
		b, err := os.ReadFile(d.path(pskFile))
		if err != nil {
			return nil, fmt.Errorf("the pre-shared key cannot be read: %w; take the fabric down and up again", err)
		}
		if psk, err = gossip.ParseKey(string(bytes.TrimSpace(b))); err != nil {
			return nil, fmt.Errorf("the pre-shared key in %s is damaged; take the fabric down and up again", d.path(pskFile))
		}
	}
	return newLinks(m, id, dir, psk, netip.Addr.IsLoopback)
}

func newLinks(m *spec.Spec, id wire.FabricNodeID, dir string, psk []byte, within func(netip.Addr) bool) (l *links, err error) {
	l = &links{fabric: m.Name, auth: m.Auth, psk: psk, within: within}
	if l.gso, l.batch, err = offloadByName(m.Offload); err != nil {
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
			return nil, fmt.Errorf("--keylog: %w", err)
		}
		l.keys.Subscribe(func(b []byte) { f.Write(b) }) // the file lives as long as the process
	}
	return l, nil
}

// open opens the port of a cable.
func (l *links) open(local netip.AddrPort, c transport.Cable) (transport.Port, error) {
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

// alone is that of a chip without a run folder, which listens at an address.
func (f *secureFlags) alone(c *cobra.Command, m *spec.Spec, id wire.FabricNodeID, listen netip.Addr) (*links, error) {
	var psk []byte
	switch m.Auth {
	case spec.PSK:
		if f.pskFile == "" || f.pskFile == "generate" {
			return nil, spec.Usagef("--auth psk: name the key that all chips share with --psk-file; 'ttfabric gossip keygen -f FILE' makes one")
		}
		var err error
		if psk, err = readKey(c, "--psk-file", f.pskFile); err != nil {
			return nil, err
		}
	case spec.MTLS:
		if m.PKI == "" {
			return nil, spec.Usagef("--transport quic: name the folder with the chip's certificate with --pki; 'ttfabric pki make' makes those of a fabric")
		}
	}
	within, err := f.within(listen)
	if err != nil {
		return nil, err
	}
	if m.Auth == spec.None && !listen.IsUnspecified() && !within(listen) || m.Auth == spec.None && listen.IsUnspecified() && !f.insecure && len(f.trust) == 0 {
		return nil, spec.Usagef(`--auth none at %s: whoever reaches the ports could forge frames. One of these:
  --auth psk --psk-file FILE     a key that all chips share, of 'ttfabric gossip keygen -f FILE'
  --transport quic --pki DIR     a certificate for each chip, of 'ttfabric pki make'
  --trust-network CIDR           a private network of this fabric alone, or its interface, such as eth0 in a container
  --insecure                     as it is`, listen)
	}
	return newLinks(m, id, m.PKI, psk, within)
}

// within says to which addresses frames may go in the clear.
func (f *secureFlags) within(listen netip.Addr) (func(netip.Addr) bool, error) {
	var nets []netip.Prefix
	for _, s := range f.trust {
		n, err := parseTrusted(s)
		if err != nil {
			return nil, spec.Usagef("--trust-network %s: %w", s, err)
		}
		nets = append(nets, n...)
	}
	return func(a netip.Addr) bool {
		if f.insecure || a.IsLoopback() {
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

// sharedSpace is that of carriers, which some container networks use (RFC 6598).
var sharedSpace = netip.MustParsePrefix("100.64.0.0/10")

// parseTrusted reads a private network, or those of an interface.
func parseTrusted(s string) (out []netip.Prefix, err error) {
	if n, err := netip.ParsePrefix(s); err == nil {
		out = append(out, n.Masked())
	} else {
		i, err := net.InterfaceByName(s)
		if err != nil {
			return nil, errors.New("neither a network such as 172.20.0.0/16 nor an interface")
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
			return nil, errors.New("the interface has no address")
		}
	}
	for _, n := range out {
		a := n.Addr()
		if !a.IsPrivate() && !a.IsLoopback() && !a.IsLinkLocalUnicast() && !sharedSpace.Contains(a) || n.Bits() < 8 {
			return nil, fmt.Errorf("%s is not a private network; --insecure takes it all the same", n)
		}
	}
	return out, nil
}
