package process

import (
	"context"
	"io"
	"net/netip"
	"os"
	"strings"

	"ttfabric/membership/gossip"
	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// Options say what a chip is that has no run folder: it knows its topology,
// some others' addresses, and nothing else. The fields are the flags of 'ttfabric node'.
type Options struct {
	Name     string // of the fabric
	Chip     wire.FabricNodeID
	Spec     spec.Spec // options of the fabric; see [spec.Default]
	Topology string    // a file or a name; "": the text in the environment variable TTFABRIC_TOPOLOGY_TEXT

	Listen     string   // address, interface or network of data ports and gossip; "": from where the first seed is reached
	Advertise  string   // address that the other chips are told; "": the one that the chip listens on
	GossipPort uint16   // TCP and UDP; 0: any free port
	MTU        int      // longest IP packet of the links, in bytes; 0: what each path takes
	Seeds      []string // where other chips gossip, as [CHIP/]HOST[:PORT]

	API        string // address of the chip's API
	TokenFile  string // file with the token; "": the environment variable TTFABRIC_TOKEN
	GossipKey  string // file with the keys of encrypted gossip; "": plain gossip
	TileMemory string // memory of this machine that the chip's memory may take, such as 128m; "": the default
	Once       string // folder with settings of this start alone; see [folder.Once]

	Trust    []string  // private networks, or interfaces, in which auth none is accepted
	Insecure bool      // accept auth none anywhere
	In       io.Reader // what a key file named "-" reads
}

// DefaultGossipPort is memberlist's.
const DefaultGossipPort = 7946

// Alone is the configuration of a chip that has no run folder.
func Alone(ctx context.Context, o Options) (*Config, error) {
	if err := spec.CheckName(o.Name); err != nil {
		return nil, err
	}
	t, err := o.load(ctx)
	if err != nil {
		return nil, err
	}
	if _, ok := t.Chip(o.Chip); !ok {
		return nil, spec.Usagef("--chip %s is not in %s", o.Chip, t)
	}
	if o.MTU != 0 && (o.MTU < spec.MinMTU || o.MTU > spec.MaxMTU) {
		return nil, spec.Usagef("--mtu %d: want %d to %d bytes, or 0", o.MTU, spec.MinMTU, spec.MaxMTU)
	}
	if o.Spec.PortBase < 0 || o.Spec.PortBase+spec.ChannelStride > 1<<16 {
		return nil, spec.Usagef("--port-base %d: a chip takes %d ports in a row; the last is 65535", o.Spec.PortBase, spec.ChannelStride)
	}
	if err := o.volume(); err != nil {
		return nil, err
	}
	c := &Config{Chip: o.Chip, Topology: t, running: func(folder.Chip) error { return nil }, gone: func() bool { return false },
		Address: Address{API: o.API, Gossip: o.GossipPort, PortBase: uint16(o.Spec.PortBase)}}
	if c.Spec, err = spec.New(o.Name, t, o.Spec); err != nil {
		return nil, err
	}
	c.Spec.ID = o.Name // the chips of a fabric have nothing else in common
	if c.Spec.Archive != "" {
		c.Archive = folder.Dir("").ArchiveConfig(&c.Spec, o.Chip)
	}
	if c.Tiles = int64(spec.Bytes(o.TileMemory)); o.TileMemory != "" && c.Tiles == 0 {
		return nil, spec.Usagef("--tile-memory %q: want an amount such as 128m or 1g", o.TileMemory)
	}
	if c.Token, err = o.token(); err != nil {
		return nil, err
	}
	if c.Keys, err = o.keyring(ctx); err != nil {
		return nil, err
	}
	c.Spec.Keyed = c.Keys != nil
	list, err := parseSeeds(o.Seeds)
	if err != nil {
		return nil, err
	}
	if err := o.address(ctx, &c.Address, list); err != nil {
		return nil, err
	}
	if c.Ports, err = o.ports(ctx, &c.Spec, c.Address.Listen); err != nil {
		return nil, err
	}
	self := c.Address.Advertise
	if !self.IsValid() {
		self = c.Address.Listen
	}
	c.seeds = func(p pool) []string {
		return list.addresses(ctx, p, o.Chip, netip.AddrPortFrom(self, o.GossipPort))
	}
	return c, nil
}

// address finds where the chip listens, and what others are told.
func (o *Options) address(ctx context.Context, a *Address, list seedList) (err error) {
	if a.Listen, err = listenAddr(ctx, o.Listen, list); err != nil {
		return err
	}
	if _, err := netip.ParseAddr(o.Listen); err != nil && o.Listen != "" && o.Advertise == "" {
		a.follow(o.Listen)
	}
	if o.Advertise != "" {
		if a.Advertise, err = netip.ParseAddr(o.Advertise); err != nil {
			return spec.Usagef("--advertise %q: want an IP address", o.Advertise)
		}
	} else if a.Listen.IsUnspecified() && !a.Advertise.IsValid() {
		return spec.Usagef("--listen %s: say with --advertise at which address the other chips reach this one", a.Listen)
	}
	return nil
}

// volume reads what the folder of --once says, and makes the folder of --keylog, which a new volume does not have.
func (o *Options) volume() error {
	once, err := folder.TakeOnce(o.Once, o.Chip)
	if err != nil {
		return err
	}
	if once.Record != "" {
		o.Spec.Record, o.Spec.RecordMiB = once.Record, once.RecordMiB
	}
	if o.Spec.KeyLog == "" {
		return nil
	}
	if err := os.MkdirAll(o.Spec.KeyLog, 0o700); err != nil {
		return spec.Usagef("--keylog: %w", err)
	}
	return nil
}

// keyring is the keys that gossip is encrypted with; nil for none.
func (o *Options) keyring(ctx context.Context) (*gossip.Keys, error) {
	switch o.GossipKey {
	case "":
		return nil, nil
	case "generate":
		return nil, spec.Usagef("--gossip-key generate: the other chips need the same key; 'ttfabric gossip keygen -f FILE' makes one")
	}
	keys, err := folder.ReadKeys(ctx, o.In, "--gossip-key", o.GossipKey)
	if err != nil {
		return nil, err
	}
	return gossip.NewKeys(keys)
}

// load finds the topology that the options name, or that the environment holds.
func (o *Options) load(ctx context.Context) (*topo.Topology, error) {
	text := os.Getenv(spec.TopologyEnv)
	if o.Topology != "" || text == "" {
		return folder.LoadTopology(ctx, o.Topology)
	}
	t, err := topo.Load(spec.TopologyEnv, []byte(text))
	if err == nil {
		err = spec.CheckDeclared(spec.TopologyEnv, t)
	}
	return t, err
}

// token finds the token of the API, in a file or in the environment.
func (o *Options) token() (string, error) {
	token, from := os.Getenv("TTFABRIC_TOKEN"), "TTFABRIC_TOKEN"
	if o.TokenFile != "" {
		if err := folder.MakeToken(o.TokenFile); err != nil {
			return "", spec.Usagef("--token-file: %w", err)
		}
		b, err := os.ReadFile(o.TokenFile)
		if err != nil {
			return "", spec.Usagef("--token-file: %w", err)
		}
		token, from = strings.TrimSpace(string(b)), "--token-file "+o.TokenFile
	}
	switch {
	case token == "":
		return "", spec.Usagef("the chip's API needs a token, so that nobody else steers it: set TTFABRIC_TOKEN or --token-file, to 'openssl rand -hex 16' for one")
	case len(token) < folder.MinToken:
		return "", spec.Usagef("%s: a token of %d characters can be guessed; want at least %d", from, len(token), folder.MinToken)
	}
	return token, nil
}

// ports says how the ports of the chip are opened. Beyond loopback and networks
// that the user trusts, ports refuses auth none.
func (o *Options) ports(ctx context.Context, s *spec.Spec, listen netip.Addr) (*Ports, error) {
	var psk []byte
	switch s.Auth {
	case spec.PSK:
		if s.PSKFile == "" || s.PSKFile == "generate" {
			return nil, spec.Usagef("--auth psk: name the key that all chips share with --psk-file; 'ttfabric gossip keygen -f FILE' makes one")
		}
		var err error
		if psk, err = folder.ReadKey(ctx, o.In, "--psk-file", s.PSKFile); err != nil {
			return nil, err
		}
	case spec.MTLS:
		if s.PKI == "" {
			return nil, spec.Usagef("--transport quic: name the folder with the chip's certificate with --pki; 'ttfabric pki make' makes those of a fabric")
		}
	}
	within, err := o.within()
	if err != nil {
		return nil, err
	}
	if s.Auth == spec.None && !listen.IsUnspecified() && !within(listen) || s.Auth == spec.None && listen.IsUnspecified() && !o.Insecure && len(o.Trust) == 0 {
		return nil, spec.Usagef(`--auth none at %s: whoever reaches the ports could forge frames. One of these:
  --auth psk --psk-file FILE     a key that all chips share, of 'ttfabric gossip keygen -f FILE'
  --transport quic --pki DIR     a certificate for each chip, of 'ttfabric pki make'
  --trust-network CIDR           a private network of this fabric alone, or its interface, such as eth0 in a container
  --insecure                     as it is`, listen)
	}
	p, err := newPorts(s, o.Chip, s.PKI, psk, within)
	if err != nil {
		return nil, err
	}
	if p.mtu = o.MTU; o.MTU != 0 && s.Transport == spec.QUIC {
		return nil, spec.Usagef("--mtu: QUIC finds out itself how long a packet the path takes; leave it out")
	}
	return p, nil
}
